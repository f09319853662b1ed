//! The fixture of `make_fixture.py`, tensors by hand, and files made of raw bytes.

use std::io::Write;
use std::path::{Path, PathBuf};

use ktied::checkpoint::{Dtype, NamedTensor};
use ktied::foreign::{Convention, Foreign, OutputDim, Pair};
use rawzip::path::EntryPath;
use rawzip::{CompressionMethod, ZipArchiveWriter};

/// A file beside this one.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign").join(name)
}

pub(crate) fn read(name: &str) -> Foreign {
    Foreign::read(&fixture(name)).unwrap()
}

/// A place to write to, which stays for `check_roundtrip.py`.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// What a file of these bytes is refused with, without its name.
pub(crate) fn refusal(name: &str, bytes: &[u8]) -> String {
    let path = scratch(name);
    std::fs::write(&path, bytes).unwrap();
    let error = Foreign::read(&path).unwrap_err();
    assert!(!error.is_io(), "{error}");
    error.to_string().replace(&path.display().to_string(), "FILE")
}

pub(crate) fn f32s(shape: &[usize], values: &[f32]) -> NamedTensor {
    NamedTensor::new(Dtype::F32, shape.into(), values.iter().flat_map(|x| x.to_le_bytes()).collect()).unwrap()
}

pub(crate) fn f64s(shape: &[usize], values: &[f64]) -> NamedTensor {
    NamedTensor::new(Dtype::F64, shape.into(), values.iter().flat_map(|x| x.to_le_bytes()).collect()).unwrap()
}

pub(crate) fn file(tensors: &[(&str, NamedTensor)]) -> Foreign {
    let mut file = Foreign::default();
    tensors.iter().for_each(|(name, tensor)| file.insert(*name, tensor.clone()).unwrap());
    file
}

/// A convention of one pattern.
pub(crate) fn convention(pattern: &str, output_dim: OutputDim) -> Convention {
    Convention::new(vec![pattern.parse().unwrap()], output_dim).unwrap()
}

/// The pair whose mean has this name.
pub(crate) fn pair(file: &Foreign, convention: &Convention, loc_name: &str) -> Pair {
    file.pairs(convention).unwrap().into_iter().find(|pair| pair.loc_name() == loc_name).expect(loc_name)
}

/// An archive of stored entries.
pub(crate) fn npz(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    for (name, bytes) in entries {
        let entry = archive.new_file(EntryPath::verbatim(name.as_bytes())).compression_method(CompressionMethod::STORE);
        let (mut entry, config) = entry.start().unwrap();
        let mut writer = config.wrap(&mut entry);
        writer.write_all(bytes).unwrap();
        let (_, descriptor) = writer.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap()
}

/// An array of version 1 with this header.
pub(crate) fn npy(descr: &str, fortran_order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}\n");
    [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A safetensors file of a header's text and elements.
pub(crate) fn safetensors(header: &str, elements: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), elements].concat()
}
