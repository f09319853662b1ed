//! Tensors of NumPy's archives, both ways.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rawzip::path::{EntryPath, ZipFilePath};
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, ZipArchiveWriter};

use super::{Container, ForeignError, Result};
use crate::checkpoint::{Dtype, NamedTensor};
use crate::data::Fault;
use crate::data::npy::{Header, MAX_RANK};
use crate::data::npz::parse_entries;

/// The most arrays that are read.
const MAX_ARRAYS: usize = 1 << 16;
/// How much of a type's description an error quotes.
const MAX_QUOTE: usize = 24;
/// The first moment that a zip archive can name, as numpy gives it to its arrays: 1980-01-01, in Unix seconds.
const NO_TIME: i64 = 315_532_800;
/// Bytes in front of a header of version 1: magic, version, length.
const PREFIX: usize = 10;
/// The elements begin at a multiple of this, as numpy has it.
const ALIGNMENT: usize = 64;

/// The types that both sides have.
const TYPES: [(Dtype, &str); 12] = [
    (Dtype::F32, "<f4"),
    (Dtype::F64, "<f8"),
    (Dtype::F16, "<f2"),
    (Dtype::I8, "|i1"),
    (Dtype::I16, "<i2"),
    (Dtype::I32, "<i4"),
    (Dtype::I64, "<i8"),
    (Dtype::U8, "|u1"),
    (Dtype::U16, "<u2"),
    (Dtype::U32, "<u4"),
    (Dtype::U64, "<u8"),
    (Dtype::Bool, "|b1"),
];

/// What an entry of an archive holds.
enum Array {
    Tensor(NamedTensor),
    /// An array of this type, which is no tensor's.
    Other(String),
}

/// The arrays of an archive, in their order.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Vec<(String, NamedTensor)>> {
    let arrays = parse_entries(bytes, MAX_ARRAYS, name_of, parse).map_err(|fault| fault.at(path))?;
    let tensors = arrays.into_iter().map(|(name, array)| match array {
        Array::Tensor(tensor) => Ok((name, tensor)),
        Array::Other(found) => Err(ForeignError::ArrayType { path: path.into(), array: name, found }),
    });
    tensors.collect()
}

fn name_of(path: &[u8]) -> Result<String, Fault> {
    let name = std::str::from_utf8(path).ok().and_then(|path| path.strip_suffix(".npy"));
    name.map(str::to_string).ok_or_else(|| Fault::UnknownArray {
        expected: "by names that end in .npy".into(),
        found: path.get(..MAX_QUOTE).unwrap_or(path).escape_ascii().to_string(),
    })
}

fn parse(mut reader: &mut dyn Read, limit: usize) -> Result<(Array, usize), Fault> {
    let header = Header::parse(&mut reader)?;
    let Some((dtype, _)) = TYPES.into_iter().find(|(_, descr)| *descr == header.descr) else {
        // Its size is not known, so it is not unpacked.
        return Ok((Array::Other(header.descr.chars().take(MAX_QUOTE).flat_map(char::escape_debug).collect()), 0));
    };
    let mut bytes = header.elements(&mut reader, dtype.size(), limit)?;
    if header.fortran_order {
        bytes = row_major(&bytes, &header.shape, dtype.size());
    }
    let num_bytes = bytes.len();
    let tensor = NamedTensor::new(dtype, header.shape, bytes);
    tensor.map(|tensor| (Array::Tensor(tensor), num_bytes)).map_err(|error| Fault::Read { message: error.to_string() })
}

/// The elements row by row, of those column by column.
fn row_major(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let count = bytes.len() / size;
    let place = |mut rest: usize| {
        // The last dimension is the slowest there and the fastest here.
        let mut stride = count;
        shape.iter().rev().fold(0, |place, &len| {
            stride /= len;
            let index = rest % len;
            rest /= len;
            place + index * stride
        })
    };
    let element = |at: usize| bytes.get(at * size..(at + 1) * size).unwrap_or_default();
    (0..count).flat_map(|flat| element(place(flat))).copied().collect()
}

/// The archive of these tensors.
pub(super) fn to_bytes(tensors: &[(String, Arc<NamedTensor>)]) -> Result<Vec<u8>> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    for (name, tensor) in tensors {
        let wrong = |reason| ForeignError::Unwritable { tensor: name.clone(), container: Container::Npz, reason };
        let header = header(tensor).map_err(wrong)?;
        let path = entry_path(format!("{name}.npy")).map_err(wrong)?;
        add(&mut archive, path, &[&header, tensor.bytes()]).map_err(|error| wrong(error.to_string()))?;
    }
    let wrong = |error: rawzip::Error| {
        let (tensor, reason) = (String::new(), error.to_string());
        ForeignError::Unwritable { tensor, container: Container::Npz, reason }
    };
    archive.finish().map_err(wrong)
}

fn add(archive: &mut ZipArchiveWriter<Vec<u8>>, path: EntryPath<'_>, parts: &[&[u8]]) -> Result<(), rawzip::Error> {
    let entry = archive.new_file(path).compression_method(CompressionMethod::STORE);
    let (mut entry, config) = entry.last_modified(UtcDateTime::from_unix(NO_TIME)).start()?;
    let mut writer = config.wrap(&mut entry);
    parts.iter().try_for_each(|part| writer.write_all(part))?;
    let (_, descriptor) = writer.finish()?;
    entry.finish(descriptor)?;
    Ok(())
}

/// A name as it is. The writer takes paths apart (of `kernel:0` it would leave `0`), so names of ASCII are handed over as
/// bytes; others need its mark of UTF-8 and must be paths that it leaves alone.
fn entry_path(name: String) -> Result<EntryPath<'static>, String> {
    if name.is_ascii() {
        Ok(EntryPath::verbatim(name.into_bytes()))
    } else if ZipFilePath::from_str(&name).as_str() == name {
        Ok(EntryPath::conformant(name))
    } else {
        Err("its name is neither ASCII nor a plain path".into())
    }
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }` with what stands before and after it.
fn header(tensor: &NamedTensor) -> Result<Vec<u8>, String> {
    let descr = TYPES.into_iter().find(|(dtype, _)| *dtype == tensor.dtype());
    let (_, descr) = descr.ok_or_else(|| format!("numpy has no {}", tensor.dtype()))?;
    let shape = match tensor.shape() {
        [len] => format!("({len},)"),
        dims if dims.len() > MAX_RANK => return Err(format!("it has {} dimensions, more than {MAX_RANK}", dims.len())),
        dims => format!("({})", dims.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Eight numbers of twenty digits are far from the 65,535 bytes that version 1 has room for.
    let len = (PREFIX + text.len() + 1).next_multiple_of(ALIGNMENT) - PREFIX;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((len as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.resize(PREFIX + len - 1, b' ');
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of `numpy.arange(24).reshape(2, 3, 4).ravel("F")`, and of a matrix, a vector and a number.
    #[test]
    fn columns_first_become_rows_first() {
        let columns = [0, 12, 4, 16, 8, 20, 1, 13, 5, 17, 9, 21, 2, 14, 6, 18, 10, 22, 3, 15, 7, 19, 11, 23];
        assert_eq!(row_major(&columns, &[2, 3, 4], 1), (0..24).collect::<Vec<u8>>());
        assert_eq!(row_major(&[1, 2, 5, 6, 3, 4, 7, 8], &[2, 2], 2), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(row_major(&[1, 2, 3], &[3], 1), [1, 2, 3]);
        assert_eq!(row_major(&[1, 2], &[], 2), [1, 2]);
        assert!(row_major(&[], &[3, 0], 4).is_empty());
    }

    /// The bytes of numpy 2 for an array of 2×3 floats.
    #[test]
    fn a_header_is_numpys() {
        let tensor = NamedTensor::new(Dtype::F32, vec![2, 3], vec![0; 24]).unwrap();
        let mut bytes = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".to_vec();
        bytes.resize(127, b' ');
        bytes.push(b'\n');
        assert_eq!(header(&tensor).unwrap(), bytes);
    }

    #[test]
    fn what_numpy_or_zip_cannot_hold_is_refused() {
        let wide = NamedTensor::new(Dtype::U8, vec![1; 9], vec![0]).unwrap();
        assert_eq!(header(&wide).unwrap_err(), "it has 9 dimensions, more than 8");
        let brain = NamedTensor::new(Dtype::BF16, vec![1], vec![0; 2]).unwrap();
        assert_eq!(header(&brain).unwrap_err(), "numpy has no BF16");
        assert!(entry_path("größe/kernel.npy".into()).is_ok() && entry_path("../kernel:0.npy".into()).is_ok());
        assert_eq!(entry_path("größe:0.npy".into()).unwrap_err(), "its name is neither ASCII nor a plain path");
    }
}
