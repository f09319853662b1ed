//! Why a download failed.

use std::io;
use std::path::{Path, PathBuf};

use ktied::data::DataError;

/// Why a download failed: the network or the file system, or what came is not the data set.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No answer, or one that broke off again and again.
    #[error("cannot fetch {url}: {message}; what has arrived is kept, and the same command goes on from there")]
    Network {
        /// The address.
        url: String,
        /// What went wrong.
        message: String,
    },
    /// An answer that is not the file.
    #[error("cannot fetch {url}: the server answers {status}")]
    Status {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// Reading or writing failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process is at it.
    #[error("another `ktied data get` is writing to {}", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// The place is taken.
    #[error("{} is there already but is not the data set: move it away and try again", folder.display())]
    Present {
        /// The folder.
        folder: PathBuf,
    },
    /// A set that nobody offers.
    #[error("`{set}` has no single host: put its folder into the data folder yourself, as ktied::data::uci describes")]
    NoHost {
        /// The set.
        set: &'static str,
    },
    /// More bytes than the file can have.
    #[error("{url}: expected at most {limit} bytes, found more; what was fetched has been removed")]
    TooLarge {
        /// The address.
        url: String,
        /// The greatest number.
        limit: u64,
    },
    /// An archive that is not one, or not of this data set.
    #[error("{url}: {message}; what was fetched has been removed")]
    Archive {
        /// The address.
        url: String,
        /// What is wrong with it.
        message: String,
    },
    /// Contents that cannot be read.
    #[error("{url}: {error}; what was fetched has been removed")]
    Contents {
        /// The address.
        url: String,
        /// Why.
        error: DataError,
    },
    /// Other contents than the known ones.
    #[error("{url}: expected the SHA-256 {expected} of {file}, found {found}; what was fetched has been removed")]
    Wrong {
        /// The address.
        url: String,
        /// Which contents.
        file: String,
        /// The known digest.
        expected: String,
        /// The other.
        found: String,
    },
}

impl FetchError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    /// Whether what was fetched is wrong, so that to go on with it makes no sense.
    pub fn is_of_data(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Archive { .. } | Self::Contents { .. } | Self::Wrong { .. })
    }
}
