//! Opening files that others name: regular ones, of bounded length.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Opens a file to read. What is no regular file is refused before it is opened: a pipe would wait for somebody to write
/// into it, and a device may never end.
///
/// # Errors
/// Those of the file system; [`io::ErrorKind::InvalidInput`] for a folder, a pipe or a device.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() {
        return File::open(path);
    }
    let found = if kind.is_dir() { "a folder" } else { "a pipe or a device" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("expected a file, found {found}")))
}

/// The same for a file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::InvalidData`] for a longer file.
pub fn open_within(path: &Path, limit: u64) -> io::Result<File> {
    let file = open(path)?;
    match file.metadata()?.len() {
        found if found > limit => Err(too_long(limit, &found)),
        _ => Ok(file),
    }
}

/// A whole text of at most `limit` bytes.
///
/// # Errors
/// As [`open_within`]; [`io::ErrorKind::InvalidData`] for one that is no UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    // One more than there may be, in case the file grows while it is read.
    let found = open_within(path, limit)?.take(limit.saturating_add(1)).read_to_string(&mut text)?;
    if found as u64 > limit { Err(too_long(limit, &"more")) } else { Ok(text) }
}

fn too_long(limit: u64, found: &dyn Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("expected at most {limit} bytes, found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::bounded::tests::Folder;

    #[test]
    fn only_files_of_bounded_length_are_read() {
        let folder = Folder::new();
        let file = folder.file("text", "größe");
        assert_eq!(read_text(&file, 7).unwrap(), "größe");
        assert_eq!(read_text(&file, 6).unwrap_err().to_string(), "expected at most 6 bytes, found 7");
        assert_eq!(open(&folder.0).unwrap_err().to_string(), "expected a file, found a folder");
        assert_eq!(open(Path::new("/dev/null")).unwrap_err().to_string(), "expected a file, found a pipe or a device");
        assert_eq!(open(&folder.0.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read_text(&folder.file("latin", b"\xe9"), 9).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
