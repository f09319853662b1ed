//! Failures and their exit codes.

use std::process::ExitCode;

use ktied::data::digits::DigitsError;
use ktied_kernels::ShapeError;

/// Why a command did not finish. Each kind has a fixed exit code; success is 0.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments cannot be carried out (2).
    #[error("{0}")]
    Usage(String),
    /// The data are not what they should be (3).
    #[error("the embedded digits: {0}")]
    Data(#[from] DigitsError),
    /// Training left the finite numbers (5).
    #[error("diverged at step {step}: the loss is {loss}")]
    Diverged {
        /// Step whose loss was not finite.
        step: u64,
        /// That loss.
        loss: f32,
    },
    /// Reading or writing failed (6).
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: std::io::Error,
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
            other => Self::Usage(other.to_string()),
        }
    }
}

impl Failure {
    /// The code that the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Data(_) => 3,
            Self::Diverged { .. } => 5,
            Self::Io { .. } => 6,
            Self::Internal(_) => 70,
        })
    }
}
