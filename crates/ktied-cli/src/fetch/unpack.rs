//! The files of a data set out of its tar.gz, and nothing else that the archive may hold.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use flate2::bufread::GzDecoder;
use ktied::data::imdb;
use ktied::data::standard::Kind;
use tar::{Archive, EntryType};

use super::error::FetchError;

/// The most bytes that an archive may unpack to, whether wanted or not.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;
const MAX_REVIEW_BYTES: u64 = 1 << 20;

/// Why an archive was not unpacked.
#[derive(Debug)]
pub(super) enum UnpackError {
    Archive(String),
    Files(FetchError),
}

impl UnpackError {
    /// The error with the address of the archive.
    pub(super) fn of(self, url: &str) -> FetchError {
        match self {
            Self::Archive(message) => FetchError::Archive { url: url.into(), message },
            Self::Files(error) => error,
        }
    }

    fn damaged(error: io::Error) -> Self {
        Self::Archive(format!("expected a whole tar.gz archive: {error}"))
    }
}

/// Writes the files that `kind` is made of from `archive` into `folder`, over what an earlier, broken try left there.
pub(super) fn unpack(archive: &Path, folder: &Path, kind: Kind) -> Result<(), UnpackError> {
    let file = File::open(archive).map_err(|error| UnpackError::Files(FetchError::io("open", archive, error)))?;
    let unpacked = GzDecoder::new(BufReader::new(file)).take(MAX_UNPACKED_BYTES);
    let mut archive = Archive::new(unpacked);
    let mut num_files = 0;
    for entry in archive.entries().map_err(UnpackError::damaged)? {
        let mut entry = entry.map_err(UnpackError::damaged)?;
        let path = entry.path().map_err(UnpackError::damaged)?.into_owned();
        let Some(wanted) = wanted(&path, kind).filter(|_| entry.header().entry_type() == EntryType::Regular) else {
            continue;
        };
        if !wanted.sizes.contains(&entry.size()) {
            let (least, most) = wanted.sizes.into_inner();
            let message = format!("expected {} of {least} to {most} bytes, found {}", path.display(), entry.size());
            return Err(UnpackError::Archive(message));
        }
        num_files += 1;
        if num_files > 4 * imdb::BLOCK {
            return Err(UnpackError::Archive(format!("expected at most {} files, found more", 4 * imdb::BLOCK)));
        }
        write(&mut entry, &folder.join(wanted.path))?;
    }
    Ok(())
}

/// Where a file goes, and how many bytes it may have.
struct Wanted {
    path: PathBuf,
    sizes: std::ops::RangeInclusive<u64>,
}

/// A file's place, made of known names only: an archive cannot choose where it writes.
fn wanted(path: &Path, kind: Kind) -> Option<Wanted> {
    let parts: Option<Vec<&str>> = path.components().filter(|part| *part != Component::CurDir).map(name).collect();
    match (kind, &parts?[..]) {
        (Kind::Cifar(files), [_, file]) => {
            let contents = files.iter().find(|contents| contents.file == *file)?;
            Some(Wanted { path: contents.file.into(), sizes: contents.len..=contents.len })
        }
        (Kind::Imdb(_), ["aclImdb", part @ ("train" | "test"), sentiment @ ("pos" | "neg"), file]) => {
            let stem = file.strip_suffix(".txt")?;
            let is_plain = !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
            let path = Path::new("aclImdb").join(part).join(sentiment).join(file);
            is_plain.then_some(Wanted { path, sizes: 0..=MAX_REVIEW_BYTES })
        }
        _ => None,
    }
}

fn name(part: Component<'_>) -> Option<&str> {
    match part {
        Component::Normal(name) => OsStr::to_str(name),
        _ => None,
    }
}

fn write(entry: &mut impl Read, path: &Path) -> Result<(), UnpackError> {
    let files = |action, error| UnpackError::Files(FetchError::io(action, path, error));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| files("create", error))?;
    }
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
    let mut file = file.map_err(|error| files("create", error))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match entry.read(&mut buffer).map_err(UnpackError::damaged)? {
            0 => return Ok(()),
            found => {
                io::Write::write_all(&mut file, &buffer[..found]).map_err(|error| files("write", error))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_leave_an_archive() {
        let imdb = |path: &str| wanted(Path::new(path), Kind::Imdb("")).map(|wanted| wanted.path);
        assert_eq!(imdb("aclImdb/train/pos/0_9.txt"), Some("aclImdb/train/pos/0_9.txt".into()));
        assert_eq!(imdb("./aclImdb/test/neg/0_2.txt"), Some("aclImdb/test/neg/0_2.txt".into()));
        for path in [
            "aclImdb/train/unsup/0_0.txt",
            "aclImdb/train/pos/../../../x.txt",
            "/aclImdb/train/pos/0_9.txt",
            "aclImdb/train/pos/.txt",
            "aclImdb/train/pos/a.txt",
            "aclImdb/imdb.vocab",
            "../aclImdb/train/pos/0_9.txt",
        ] {
            assert_eq!(imdb(path), None, "{path}");
        }
    }
}
