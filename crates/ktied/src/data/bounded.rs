//! Reading untrusted files: never more than a limit, never memory for a size that only a header claims.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::error::{DataError, Fault, product};
use crate::files;

/// The most bytes that one file or array may have: two gibibytes.
pub const MAX_BYTES: usize = 1 << 31;

/// The product of `dims`, if it is at most `limit`.
pub(crate) fn checked_len(dims: &[usize], what: &'static str, limit: usize) -> Result<usize, Fault> {
    let product = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    product.filter(|&product| product <= limit).ok_or_else(|| {
        let found = self::product(dims);
        Fault::TooLarge { what, limit, found }
    })
}

/// Exactly `len` bytes, and not yet the end. Memory grows with what arrives.
pub(crate) fn read_len(reader: &mut impl Read, what: &'static str, len: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    reader.by_ref().take(len as u64).read_to_end(&mut bytes).map_err(read_fault)?;
    match bytes.len() {
        found if found < len => Err(Fault::Truncated { what, expected: len, found }),
        _ => Ok(bytes),
    }
}

/// Like [`read_len`] for a length that is known in advance.
pub(crate) fn read_array<const LEN: usize>(reader: &mut impl Read, what: &'static str) -> Result<[u8; LEN], Fault> {
    let bytes = read_len(reader, what, LEN)?;
    let found = bytes.len();
    bytes.try_into().map_err(|_| Fault::Truncated { what, expected: LEN, found })
}

/// Refuses anything after the `len` bytes that were read.
pub(crate) fn expect_end(reader: &mut impl Read, what: &'static str, len: usize) -> Result<(), Fault> {
    let mut more = Vec::new();
    match reader.by_ref().take(1).read_to_end(&mut more).map_err(read_fault)? {
        0 => Ok(()),
        _ => Err(Fault::TrailingBytes { what, expected: len }),
    }
}

/// A whole file of at most `limit` bytes.
pub(crate) fn read_file(path: &Path, limit: usize) -> Result<Vec<u8>, DataError> {
    let io = |error: io::Error| DataError::io("read", path, &error);
    let too_large = || Fault::TooLarge { what: "bytes", limit, found: "more".into() }.at(path);
    let mut bytes = Vec::new();
    let file = open(path)?;
    // Before the memory for it is taken; and again, in case the file grows while it is read.
    if file.metadata().map_err(io)?.len() > limit as u64 {
        return Err(too_large());
    }
    let found = file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    if found > limit { Err(too_large()) } else { Ok(bytes) }
}

/// A whole text of at most `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: usize) -> Result<String, DataError> {
    let text = String::from_utf8(read_file(path, limit)?);
    text.map_err(|error| Fault::Utf8 { at: error.utf8_error().valid_up_to() }.at(path))
}

/// Hands the contents of a file to `parse`, unpacked if its name ends in `.gz`; nothing may follow the gzip data.
pub(crate) fn with_contents<T>(
    path: &Path,
    parse: impl FnOnce(&mut dyn Read) -> Result<T, Fault>,
) -> Result<T, DataError> {
    let mut file = BufReader::new(open(path)?);
    let parsed = match path.extension() {
        Some(end) if end == "gz" => {
            let mut unpacked = GzDecoder::new(&mut file);
            parse(&mut unpacked).and_then(|parsed| no_more(&mut file).map(|()| parsed))
        }
        _ => parse(&mut file),
    };
    parsed.map_err(|fault| fault.at(path))
}

pub(crate) fn open(path: &Path) -> Result<File, DataError> {
    files::open(path).map_err(|error| DataError::io("open", path, &error))
}

pub(crate) fn no_more(file: &mut impl BufRead) -> Result<(), Fault> {
    match file.fill_buf().map_err(read_fault)? {
        [] => Ok(()),
        _ => Err(Fault::GzipTrailing),
    }
}

/// The unpacker's own errors are of these kinds; others come from the file system.
pub(crate) fn read_fault(error: io::Error) -> Fault {
    let message = error.to_string();
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            Fault::Packed { message }
        }
        _ => Fault::Read { message },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// A folder of its own for a test, removed when it goes out of scope.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new() -> Self {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let name = format!("ktied-data-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        /// Writes a file, with the folders on the way to it.
        pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// What a file of these bytes is refused with when exactly four bytes are wanted, without the file's name.
    fn refusal(name: &str, bytes: &[u8]) -> String {
        let folder = Folder::new();
        let path = folder.file(name, bytes);
        let parsed = with_contents(&path, |mut reader| {
            let bytes = read_len(&mut reader, "data", 4)?;
            expect_end(&mut reader, "data", 4).map(|()| bytes)
        });
        let message = parsed.unwrap_err().to_string();
        message.strip_prefix(&format!("{}: ", path.display())).expect("the file's name").into()
    }

    #[test]
    fn exactly_the_wanted_bytes_are_read_plain_and_packed() {
        assert_eq!(refusal("a", b"abc"), "expected 4 bytes of data, found 3");
        assert_eq!(refusal("a", b"abcde"), "expected the end after 4 bytes of data, found more");
        assert_eq!(refusal("a.gz", &gzip(b"abc")), "expected 4 bytes of data, found 3");
        assert_eq!(refusal("a.gz", &gzip(b"abcde")), "expected the end after 4 bytes of data, found more");
    }

    #[test]
    fn damaged_cut_and_continued_gzip_files_are_refused() {
        let whole = gzip(b"abcd");
        assert!(refusal("a.gz", b"abcd").contains("found damage"));
        assert!(refusal("a.gz", &whole[..whole.len() - 1]).contains("found damage"));
        let mut flipped = whole.clone();
        flipped[whole.len() - 6] ^= 1;
        assert!(refusal("a.gz", &flipped).contains("found damage"), "a wrong checksum");
        assert!(refusal("a.gz", &[&whole[..], b"x"].concat()).contains("after the gzip data"));
        assert!(refusal("a.gz", &[&whole[..], &whole[..]].concat()).contains("after the gzip data"));
    }

    #[test]
    fn a_size_that_overflows_or_passes_the_limit_is_refused_before_anything_is_read() {
        assert_eq!(checked_len(&[2, 3, 4], "bytes", 24), Ok(24));
        assert_eq!(checked_len(&[], "bytes", 1), Ok(1));
        let refusal = |dims: &[usize]| checked_len(dims, "bytes", 24).unwrap_err().to_string();
        assert_eq!(refusal(&[5, 5]), "expected at most 24 bytes, found 5×5");
        assert!(refusal(&[usize::MAX, 2]).starts_with("expected at most 24 bytes"));
        assert!(refusal(&[1 << 40, 1 << 40, 0]).starts_with("expected at most 24 bytes"));
    }

    #[test]
    fn files_beyond_the_limit_missing_files_and_other_encodings_are_refused() {
        let folder = Folder::new();
        let path = folder.file("a.txt", b"ab\xffd");
        assert_eq!(read_file(&path, 4).unwrap(), b"ab\xffd");
        assert!(read_file(&path, 3).unwrap_err().to_string().ends_with("expected at most 3 bytes, found more"));
        assert!(read_text(&path, 4).unwrap_err().to_string().ends_with("found other bytes from byte 2 on"));
        let missing = read_file(&folder.0.join("b"), 4).unwrap_err();
        assert!(matches!(&missing, DataError::Io { action: "open", kind: io::ErrorKind::NotFound, .. }), "{missing}");
    }
}
