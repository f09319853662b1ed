//! Failures and their exit codes.

use std::path::PathBuf;

use ktied::checkpoint::CheckpointError;
use ktied::data::DataError;
use ktied::data::digits::DigitsError;
use ktied_kernels::ShapeError;

use crate::fetch::FetchError;

/// Why a command did not finish. Each kind has a fixed exit code; success is 0.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments cannot be carried out (2).
    #[error("{0}")]
    Usage(String),
    /// The data are not what they should be (3).
    #[error("the embedded digits: {0}")]
    Data(#[from] DigitsError),
    /// A data set is missing or wrong (3), cannot be read (6), or there is none of that name or form (2).
    #[error("{0}")]
    DataSet(DataError),
    /// Data sets that were checked are missing or wrong (3), or cannot be read (6); the report says the rest.
    #[error("{message}")]
    Faulty {
        /// One sentence for each.
        message: String,
        /// Whether none of them could be read at all.
        is_io: bool,
    },
    /// A download that failed (6), brought something else (3), or that nobody offers (2).
    #[error("{0}")]
    Fetch(#[from] FetchError),
    /// What the library refused; its kind decides the code.
    #[error("{0}")]
    Library(ktied::Error),
    /// A signal asked the run to stop, and it was saved (130).
    #[error("interrupted; everything up to now is in {}: give the command again to go on (train: with --resume)", run.display())]
    Interrupted {
        /// The run.
        run: PathBuf,
    },
    /// Reading or writing failed (6).
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A picture that this program cannot draw, which is its own fault (70).
    #[error("a fault of this program: cannot draw {}: {reason}", path.display())]
    Picture {
        /// Where it should have been.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A network was put together wrongly, which is a fault of this program (70).
    #[error("a fault of this program: {0}")]
    Internal(#[from] ShapeError),
}

impl From<ktied::Error> for Failure {
    /// What the library refuses is the configuration's fault, unless operands of the program's own making did not fit.
    fn from(error: ktied::Error) -> Self {
        match error {
            ktied::Error::Shape(error) => Self::Internal(error),
            ktied::Error::Data(error) => Self::DataSet(error),
            other => Self::Library(other),
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        Self::Library(error.into())
    }
}

/// The code of what the library refused: 2 unless it is about data, checkpoints, numbers or files.
fn code_of(error: &ktied::Error) -> u8 {
    use ktied::Error;
    match error {
        Error::OtherData { .. } | Error::NothingToTrainOn { .. } | Error::UnknownClass { .. } | Error::NoExamples => 3,
        Error::Checkpoint(error) if error.is_io() => 6,
        Error::Checkpoint(_) | Error::NoCheckpoint { .. } | Error::BadState { .. } | Error::NotInSource { .. } => 4,
        Error::NonFinite { .. } | Error::NotFinite { .. } => 5,
        Error::Foreign(error) if error.is_io() => 6,
        Error::Foreign(error) if error.is_of_request() => 2,
        Error::Foreign(_) => 3,
        Error::Io { .. } => 6,
        Error::Elsewhere { code, .. } => *code,
        _ => 2,
    }
}

impl Failure {
    /// The code that the process ends with.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::DataSet(DataError::UnknownSet { .. } | DataError::Setting { .. })
            | Self::Fetch(FetchError::NoHost { .. }) => 2,
            Self::DataSet(DataError::Io { .. }) | Self::Faulty { is_io: true, .. } => 6,
            Self::Data(_) | Self::DataSet(_) | Self::Faulty { .. } => 3,
            Self::Fetch(error) if error.is_of_data() || matches!(error, FetchError::Present { .. }) => 3,
            Self::Fetch(_) => 6,
            Self::Library(error) => code_of(error),
            Self::Interrupted { .. } => 130,
            Self::Io { .. } => 6,
            Self::Picture { .. } | Self::Internal(_) => 70,
        }
    }
}
