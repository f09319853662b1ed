//! Arrays row by row: .npy files, arrays of .npz archives, and idx files.

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::super::bounded::{expect_end, open, read_len};
use super::super::error::{DataError, Fault, product, quote};
use super::super::npz::{MAX_ENTRIES, zip};
use super::super::preprocessing::Preprocessing;
use super::super::{idx, npy};
use super::contents::Contents;
use super::{Next, Row, Source};

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    F32,
    F64,
    U8,
    I32,
    I64,
}

impl Element {
    fn of(descr: &str) -> Result<Self, Fault> {
        Ok(match descr {
            "<f4" => Self::F32,
            "<f8" => Self::F64,
            "|u1" | "<u1" => Self::U8,
            "<i4" => Self::I32,
            "<i8" => Self::I64,
            found => return Err(Fault::NpyType { found: quote(found.as_bytes()) }),
        })
    }

    fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    fn push(self, bytes: &[u8], out: &mut Vec<f64>) {
        match self {
            Self::U8 => out.extend(bytes.iter().map(|&x| f64::from(x))),
            Self::F32 => out.extend(bytes.as_chunks().0.iter().map(|&x| f64::from(f32::from_le_bytes(x)))),
            Self::F64 => out.extend(bytes.as_chunks().0.iter().map(|&x| f64::from_le_bytes(x))),
            Self::I32 => out.extend(bytes.as_chunks().0.iter().map(|&x| f64::from(i32::from_le_bytes(x)))),
            // Beyond 2⁵³ neighbours meet; no pixel and no word is there.
            Self::I64 => out.extend(bytes.as_chunks().0.iter().map(|&x| i64::from_le_bytes(x) as f64)),
        }
    }
}

/// An array whose rows are read one after another.
#[derive(Debug)]
pub struct ArrayFile {
    path: PathBuf,
    contents: Contents,
    what: &'static str,
    element: Element,
    width: usize,
    len: usize,
    /// Rows that are read.
    row: usize,
    wanted: Preprocessing,
}

impl ArrayFile {
    /// A .npy file, packed or not.
    ///
    /// # Errors
    /// A file that is missing, no array, or whose rows are not as the network wants them.
    pub fn npy(path: &Path, wanted: &Preprocessing) -> Result<Self, DataError> {
        Self::of_npy(Contents::open(path)?, wanted, path).map_err(|fault| fault.at(path))
    }

    /// An array of a .npz archive; its name may be left out if there is only one.
    ///
    /// # Errors
    /// As [`npy`](Self::npy), or if there is no such array.
    pub fn npz(path: &Path, name: Option<&str>, wanted: &Preprocessing) -> Result<Self, DataError> {
        let (name, contents) = entry(path, name)?;
        Self::of_npy(contents, wanted, path).map_err(|fault| fault.within(&name).at(path))
    }

    /// An idx file of images, packed or not.
    ///
    /// # Errors
    /// As [`npy`](Self::npy).
    pub fn idx(path: &Path, wanted: &Preprocessing) -> Result<Self, DataError> {
        let mut contents = Contents::open(path)?;
        let dims = idx::read_dims(&mut contents).map_err(|fault| fault.at(path))?;
        Self::new(contents, Element::U8, &dims, "idx data", wanted, path).map_err(|fault| fault.at(path))
    }

    fn of_npy(mut contents: Contents, wanted: &Preprocessing, path: &Path) -> Result<Self, Fault> {
        let npy::Header { descr, shape, .. } = npy::Header::parse_row_major(&mut contents)?;
        Self::new(contents, Element::of(&descr)?, &shape, ".npy data", wanted, path)
    }

    fn new(
        mut contents: Contents,
        element: Element,
        shape: &[usize],
        what: &'static str,
        wanted: &Preprocessing,
        path: &Path,
    ) -> Result<Self, Fault> {
        wanted.check_shape(shape)?;
        let (width, len) = (wanted.width, shape.first().copied().unwrap_or(0));
        let expected = len.checked_mul(width).and_then(|count| count.checked_mul(element.size()));
        let too_large = || Fault::TooLarge { what: "bytes", limit: usize::MAX, found: product(shape) };
        let expected = expected.ok_or_else(too_large)?;
        // A file that lies about its length is refused before anything is made of it, where that can be known.
        match contents.remaining() {
            Some(found) if found < expected as u64 => {
                return Err(Fault::Truncated { what, expected, found: found as usize });
            }
            Some(found) if found > expected as u64 => return Err(Fault::TrailingBytes { what, expected }),
            _ => {}
        }
        let (path, wanted) = (path.into(), wanted.clone());
        Ok(Self { path, contents, what, element, width, len, row: 0, wanted })
    }

    fn read(&mut self, row: &mut Row) -> Result<Next, Fault> {
        if self.row == self.len {
            expect_end(&mut self.contents, self.what, self.len * self.width * self.element.size())?;
            self.contents.finish()?;
            return Ok(Next::End);
        }
        self.row += 1;
        let bytes = read_len(&mut self.contents, self.what, self.width * self.element.size())?;
        let numbers = row.begin_numbers(self.row);
        self.element.push(&bytes, numbers);
        Ok(self.wanted.check_scale(numbers).map_or_else(Next::Bad, |()| Next::Row))
    }
}

impl Source for ArrayFile {
    fn next(&mut self, row: &mut Row) -> Result<Next, DataError> {
        self.read(row).map_err(|fault| self.locate(fault))
    }

    fn locate(&self, fault: Fault) -> DataError {
        fault.within(&format!("row {}", self.row)).at(&self.path)
    }
}

/// The entry of an archive with this name, or its only one, and its contents as they are unpacked.
fn entry(path: &Path, name: Option<&str>) -> Result<(String, Contents), DataError> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let at = |fault: Fault| fault.at(path);
    let archive = ZipArchive::from_file(open(path)?, &mut buffer).map_err(|error| at(zip(error)))?;
    let mut found = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(|error| at(zip(error)))? {
        if found.len() == MAX_ENTRIES {
            return Err(at(Fault::TooLarge { what: "arrays", limit: MAX_ENTRIES, found: "more".into() }));
        }
        let file = quote(entry.file_path().as_ref());
        let array = file.strip_suffix(".npy").unwrap_or(&file).to_string();
        found.push((array, entry.wayfinder(), entry.compression_method()));
    }
    let names = || found.iter().map(|(array, ..)| array.clone()).collect::<Vec<_>>().join(", ");
    let (array, place, method) = match (name, &found[..]) {
        (None, [only]) => only,
        (None, _) => return Err(at(Fault::WhichArray { names: names(), found: "none".into() })),
        (Some(name), all) => {
            let same = all.iter().find(|(array, ..)| array == name);
            same.ok_or_else(|| {
                at(Fault::WhichArray { names: names(), found: format!("`{}`", quote(name.as_bytes())) })
            })?
        }
    };
    let entry = archive.get_entry(*place).map_err(|error| at(zip(error)))?;
    let (start, end) = entry.compressed_data_range();
    let mut file = open(path)?;
    file.seek(SeekFrom::Start(start)).map_err(|error| DataError::io("read", path, &error))?;
    let packed = BufReader::new(file.take(end.saturating_sub(start)));
    let contents: Box<dyn Read + Send> = match *method {
        CompressionMethod::STORE => Box::new(BufReader::new(entry.verifying_reader(packed))),
        CompressionMethod::DEFLATE => Box::new(BufReader::new(entry.verifying_reader(DeflateDecoder::new(packed)))),
        other => return Err(at(Fault::ZipMethod { found: other.as_u16() }.within(array))),
    };
    Ok((array.clone(), Contents::Entry(contents)))
}
