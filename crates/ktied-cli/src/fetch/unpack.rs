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
    // Raw: names and attributes in entries of their own, which no file of ours has, would be read whole, however long they are.
    for entry in archive.entries().map_err(UnpackError::damaged)?.raw(true) {
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
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::Header;

    use super::*;

    /// A folder with an archive and the folder that it is unpacked into, removed at the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("ktied-unpack-{name}-{}", std::process::id()));
            fs::create_dir_all(&place).expect("a folder");
            Self(place)
        }

        fn unpack(&self, parts: &mut dyn Iterator<Item = &[u8]>) -> Result<(), UnpackError> {
            let (archive, folder) = (self.0.join("archive"), self.0.join("folder"));
            // A file that is cut and written again is flushed by some file systems, which takes long.
            fs::remove_file(&archive).ok();
            let mut packed = GzEncoder::new(File::create(&archive).expect("a file"), Compression::fast());
            parts.for_each(|part| packed.write_all(part).expect("a disk"));
            packed.finish().expect("a disk");
            unpack(&archive, &folder, Kind::Imdb(""))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn header(path: &str, kind: EntryType, len: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_path(path).expect("a name");
        header.set_entry_type(kind);
        header.set_size(len);
        header.set_mode(0o644);
        header.set_cksum();
        header
    }

    /// The names of all files below a folder.
    fn below(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .flat_map(|entry| if entry.path().is_dir() { below(&entry.path()) } else { vec![entry.path()] })
            .collect()
    }

    #[test]
    fn whatever_is_in_the_header_of_an_entry_only_files_with_known_names_come_out() {
        let place = Place::new("headers");
        let good = header("aclImdb/train/pos/0_9.txt", EntryType::Regular, 4);
        let body = [b"good".as_slice(), &[0; 508 + 1024]].concat();
        let (mut unpacked, mut refused) = (0, 0);
        for at in 0..good.as_bytes().len() {
            for change in [1, 64, 0xff, b'/'] {
                let mut header = good.clone();
                header.as_mut_bytes()[at] ^= change;
                // The checksum is right again, so that the rest is looked at; its own bytes are left wrong.
                if !(148..156).contains(&at) {
                    header.set_cksum();
                }
                match place.unpack(&mut [header.as_bytes(), body.as_slice()].into_iter()) {
                    Ok(()) => unpacked += 1,
                    Err(UnpackError::Archive(_)) => refused += 1,
                    Err(UnpackError::Files(error)) => panic!("byte {at}: {error:?}"),
                }
                let found = below(&place.0);
                let is_known = |path: &PathBuf| {
                    let inside = path.strip_prefix(place.0.join("folder")).ok();
                    path.ends_with("archive") || inside.is_some_and(|inside| wanted(inside, Kind::Imdb("")).is_some())
                };
                assert!(found.iter().all(is_known), "byte {at}: {found:?}");
                // The folders stay: to remove and make them again takes long.
                found.iter().for_each(|path| fs::remove_file(path).expect("a file"));
            }
        }
        assert!(unpacked > 1000 && refused > 50, "{unpacked} unpacked, {refused} refused");
    }

    #[test]
    fn an_archive_that_is_cut_anywhere_in_its_entry_is_refused() {
        let place = Place::new("cuts");
        let whole =
            [header("aclImdb/train/pos/0_9.txt", EntryType::Regular, 600).as_bytes().as_slice(), &[b'x'; 600]].concat();
        for len in 1..whole.len() {
            let outcome = place.unpack(&mut std::iter::once(&whole[..len]));
            assert!(matches!(outcome, Err(UnpackError::Archive(_))), "{len}: {outcome:?}");
        }
    }

    /// The largest memory that this process has held, in KiB, where the system tells.
    fn peak() -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
    }

    #[test]
    fn a_name_without_end_takes_no_memory() {
        const MEBIBYTES: u64 = 400;
        for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
            let place = Place::new("long");
            let long = header("@LongLink", kind, MEBIBYTES << 20);
            let file = header("aclImdb/train/pos/0_9.txt", EntryType::Regular, 0);
            let zeros = vec![0; 1 << 20];
            let name = std::iter::repeat_n(zeros.as_slice(), MEBIBYTES as usize);
            let before = peak();
            let mut parts =
                std::iter::once(long.as_bytes().as_slice()).chain(name).chain([file.as_bytes().as_slice(), &[0; 1024]]);
            place.unpack(&mut parts).expect("a whole archive");
            let grown = peak().zip(before).map_or(0, |(after, before)| after - before);
            assert!(grown < 200 << 10, "{kind:?}: {grown} KiB");
            // The file after it has the name in its own header.
            assert!(place.0.join("folder/aclImdb/train/pos/0_9.txt").exists());
        }
    }

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
