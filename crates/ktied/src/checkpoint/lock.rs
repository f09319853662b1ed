//! One process a run.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::error::CheckpointError;
use super::{Result, atomic};

/// The right to write into a run's folder, held until it is dropped or the process ends, however it ends.
///
/// The lock is on the file `lock` in the folder; that the file is there means nothing.
#[derive(Debug)]
pub struct RunLock {
    // Closing the file lets go of the lock.
    _file: File,
}

impl RunLock {
    /// Takes the lock of a run's folder, which is made if it is not there.
    ///
    /// # Errors
    /// If another process holds it, or the file system refuses.
    pub fn acquire(folder: &Path) -> Result<Self> {
        atomic::create_folder(folder)?;
        let path = folder.join("lock");
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(|error| CheckpointError::io("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(CheckpointError::Locked { folder: folder.into() }),
            Err(TryLockError::Error(error)) => Err(CheckpointError::io("lock", &path, &error)),
        }
    }
}
