//! Files and folders that are either there and whole, or not there: write aside, flush, rename, flush the parent.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Result;
use super::error::{CheckpointError, Damage};

/// What the names of unfinished files and folders begin with; nothing reads them.
pub(super) const TEMPORARY: &str = ".tmp-";

/// Replaces a small file as a whole: after a crash there is the old one or the new one.
///
/// # Errors
/// If the file system refuses; the old file is then still there.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    // A name of its own for each writer: whoever evaluates a run does not hold its lock.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let aside = temporary(path).with_added_extension(format!("{}-{number}", std::process::id()));
    remove_if_there(&aside)?;
    let outcome = write_new(&aside, bytes).and_then(|()| rename(&aside, path));
    if outcome.is_err() {
        // The first failure is the one to tell; a file that stays behind is never read.
        let _ = fs::remove_file(&aside);
    }
    outcome
}

/// `folder/.tmp-name` for `folder/name`.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{TEMPORARY}{name}"))
}

/// Whether a name is that of something unfinished.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

/// Removes what is unfinished in a folder; returns what that was. Only for whoever alone may write there.
pub(crate) fn clear_leftovers(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |error| CheckpointError::io("read the folder", folder, &error);
    let mut cleared = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if is_temporary(&entry.file_name()) {
            remove_if_there(&entry.path())?;
            cleared.push(entry.path());
        }
    }
    cleared.sort();
    Ok(cleared)
}

/// A new file, on the disk when this returns.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let file = File::create_new(path).map_err(|error| CheckpointError::io("create", path, &error))?;
    fill(file, path, bytes)
}

fn fill(mut file: File, path: &Path, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| CheckpointError::io("write", path, &error))
}

/// Gives a finished file or folder its name; on the disk when this returns.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| CheckpointError::io("create", to, &error))?;
    sync_parent(to)
}

fn sync_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

/// Flushes the names in a folder. Windows has no such call, and keeps names in a journal of its own.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| CheckpointError::io("flush", folder, &error))?;
    }
    Ok(())
}

/// A folder with all its parents; their names are on the disk when this returns.
pub(super) fn create_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => create_folder(parent)?,
        _ => {}
    }
    match fs::create_dir(folder) {
        Ok(()) => sync_parent(folder),
        // Somebody else made it since we looked: two runs may begin in one new folder.
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(CheckpointError::io("create the folder", folder, &error)),
    }
}

/// Removes a file or folder, whatever is in it.
pub(super) fn remove_if_there(path: &Path) -> Result<()> {
    let outcome = match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    outcome.map_err(|error| CheckpointError::io("remove", path, &error))
}

/// The whole file, if it is not longer than `most`; one that is missing is damage.
pub(super) fn read_file(path: &Path, most: u64) -> Result<Vec<u8>> {
    let fail = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => CheckpointError::damaged(path, Damage::Missing),
        _ => CheckpointError::io("read", path, &error),
    };
    let file = crate::files::open(path).map_err(fail)?;
    let found = file.metadata().map_err(fail)?.len();
    if found > most {
        return Err(CheckpointError::damaged(path, Damage::TooLong { most, found }));
    }
    let mut bytes = Vec::new();
    // One more than there should be, in case the file grows while it is read.
    file.take(found + 1).read_to_end(&mut bytes).map_err(fail)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ktied-atomic-{name}-{}", std::process::id()));
        remove_if_there(&folder).unwrap();
        create_folder(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_stays_behind() {
        let folder = folder("replace");
        let best = folder.join("best");
        write_file(&best, b"100").unwrap();
        write_file(&best, b"2").unwrap();
        assert_eq!(fs::read(&best).unwrap(), b"2");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(read_file(&best, 1), Ok(b"2".to_vec()));
        let too_long = read_file(&best, 0).unwrap_err();
        assert_eq!(too_long, CheckpointError::damaged(&best, Damage::TooLong { most: 0, found: 1 }));
        remove_if_there(&folder).unwrap();
    }

    #[test]
    fn many_writers_leave_one_whole_file() {
        let folder = folder("writers");
        let best = folder.join("best");
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let best = &best;
                scope.spawn(move || (0..25).for_each(|_| write_file(best, &[writer; 5000]).unwrap()));
            }
        });
        let bytes = fs::read(&best).unwrap();
        assert!(bytes.len() == 5000 && bytes.iter().all(|byte| *byte == bytes[0]));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        remove_if_there(&folder).unwrap();
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file() {
        let folder = folder("fail");
        let best = folder.join("best");
        fs::create_dir(&best).unwrap();
        fs::write(best.join("in the way"), "").unwrap();
        let error = write_file(&best, b"2").unwrap_err();
        assert!(error.is_io() && error.to_string().starts_with("cannot create `"), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        remove_if_there(&folder).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_one_clear_sentence() {
        let full = Path::new("/dev/full");
        let file = File::options().write(true).open(full).unwrap();
        let error = fill(file, full, &[0; 10_000]).unwrap_err().to_string();
        assert_eq!(error, "cannot write `/dev/full`: No space left on device (os error 28)");
    }
}
