//! The bytes of a file one after another: plain, unpacked, or an entry of an archive.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::super::bounded::{no_more, open};
use super::super::error::{DataError, Fault};

/// A file that is being read.
pub(super) enum Contents {
    Plain(BufReader<File>),
    Gzip(Box<GzDecoder<BufReader<File>>>),
    /// Part of an archive.
    Entry(Box<dyn Read + Send>),
}

impl Contents {
    /// A file, unpacked if its name ends in `.gz`.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let file = BufReader::new(open(path)?);
        let is_packed = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz"));
        Ok(if is_packed { Self::Gzip(Box::new(GzDecoder::new(file))) } else { Self::Plain(file) })
    }

    /// How many bytes are left, if the file system knows.
    pub(super) fn remaining(&mut self) -> Option<u64> {
        let Self::Plain(file) = self else { return None };
        let metadata = file.get_ref().metadata().ok().filter(|metadata| metadata.is_file())?;
        metadata.len().checked_sub(file.stream_position().ok()?)
    }

    /// Refuses what follows packed data, once all of them are read.
    pub(super) fn finish(&mut self) -> Result<(), Fault> {
        match self {
            Self::Gzip(file) => no_more(file.get_mut()),
            Self::Plain(_) | Self::Entry(_) => Ok(()),
        }
    }
}

impl Read for Contents {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Gzip(file) => file.read(buffer),
            Self::Entry(entry) => entry.read(buffer),
        }
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Entry(_) => "Entry",
        })
    }
}
