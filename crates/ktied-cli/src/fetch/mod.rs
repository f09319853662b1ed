//! Downloads: a data set from its host into a folder, whole and checked or not at all.
//!
//! Everything is fetched into a hidden folder beside the place where it will be. What arrives is unpacked, compared with the
//! known SHA-256, and only then does the folder get its name. A connection that breaks is taken up where it broke, at once or
//! when the command runs again; what turns out to be wrong is removed.

mod download;
mod error;
mod host;
mod unpack;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use ktied::data::standard::{Checked, Contents, Kind, Standard};

pub use download::{agent, download};
pub use error::FetchError;
pub use host::Host;

/// The most bytes of an archive.
const MAX_ARCHIVE_BYTES: u64 = 1 << 28;
/// What gzip may add to what it cannot shrink.
const GZIP_OVERHEAD: u64 = 1 << 16;

/// Downloads `set` from `host` into its sub-folder of `dir`, whose path is returned.
///
/// # Errors
/// The network, the file system, or contents that are not the known ones. Nothing is in the sub-folder then; only a download
/// that broke off is kept, out of sight, to be continued.
pub fn get(
    set: &Standard,
    host: &Host,
    dir: &Path,
    agent: &ureq::Agent,
    bar: &ProgressBar,
) -> Result<PathBuf, FetchError> {
    let folder = dir.join(set.name);
    if folder.exists() {
        return Err(FetchError::Present { folder });
    }
    let stage = Stage::new(dir, set.name)?;
    match fill(set, host, &stage.folder, agent, bar) {
        Ok(()) => stage.publish(&folder).map(|()| folder),
        Err(error) => {
            if error.is_of_data() {
                stage.discard()?;
            }
            Err(error)
        }
    }
}

fn fill(set: &Standard, host: &Host, stage: &Path, agent: &ureq::Agent, bar: &ProgressBar) -> Result<(), FetchError> {
    let Some(archive) = host.archive else {
        let (Kind::Idx(files) | Kind::Cifar(files)) = set.kind else {
            return Err(FetchError::NoHost { set: set.name });
        };
        return files.iter().try_for_each(|contents| fetch_packed(contents, host, stage, agent, bar));
    };
    let path = stage.join(archive);
    let url = host.url(archive);
    bar.set_message(archive);
    download(agent, &url, &path, MAX_ARCHIVE_BYTES, bar)?;
    unpack::unpack(&path, stage, set.kind).map_err(|error| error.of(&url))?;
    remove_file(&path)?;
    let checked = set.check(stage).map_err(|error| FetchError::Contents { url: url.clone(), error })?;
    checked.into_iter().try_for_each(|checked| compare(&url, checked))
}

fn fetch_packed(
    contents: &Contents,
    host: &Host,
    stage: &Path,
    agent: &ureq::Agent,
    bar: &ProgressBar,
) -> Result<(), FetchError> {
    let name = format!("{}.gz", contents.file);
    let (path, url) = (stage.join(&name), host.url(&name));
    bar.set_message(name);
    download(agent, &url, &path, contents.len + GZIP_OVERHEAD, bar)?;
    let checked = contents.check(&path).map_err(|error| FetchError::Contents { url: url.clone(), error })?;
    compare(&url, checked)
}

fn compare(url: &str, checked: Checked) -> Result<(), FetchError> {
    if checked.is_right() {
        return Ok(());
    }
    let Checked { file, expected, found } = checked;
    Err(FetchError::Wrong { url: url.into(), file, expected: expected.into(), found })
}

/// The hidden folder in which a set is put together, held by one process at a time.
struct Stage {
    folder: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl Stage {
    fn new(dir: &Path, name: &str) -> Result<Self, FetchError> {
        let folder = dir.join(format!(".{name}.part"));
        let lock = dir.join(format!(".{name}.lock"));
        fs::create_dir_all(&folder).map_err(|error| FetchError::io("create", &folder, error))?;
        let held = File::create(&lock).map_err(|error| FetchError::io("create", &lock, error))?;
        if held.try_lock().is_err() {
            return Err(FetchError::Busy { folder });
        }
        Ok(Self { folder, lock, _held: held })
    }

    /// Gives the folder its name. The contents reach the disk first, so that no crash leaves a name without them.
    fn publish(&self, name: &Path) -> Result<(), FetchError> {
        sync(&self.folder)?;
        fs::rename(&self.folder, name).map_err(|error| FetchError::io("rename", &self.folder, error))
    }

    fn discard(&self) -> Result<(), FetchError> {
        fs::remove_dir_all(&self.folder).map_err(|error| FetchError::io("remove", &self.folder, error))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A lock file that stays is harmless: only its lock counts, and that ends with the process.
        fs::remove_file(&self.lock).ok();
    }
}

/// Folders cannot be opened everywhere; where they cannot, the system orders its writes itself.
fn sync(folder: &Path) -> Result<(), FetchError> {
    match File::open(folder) {
        Ok(handle) => handle.sync_all().map_err(|error| FetchError::io("write", folder, error)),
        Err(_) => Ok(()),
    }
}

fn remove_file(path: &Path) -> Result<(), FetchError> {
    fs::remove_file(path).map_err(|error| FetchError::io("remove", path, error))
}
