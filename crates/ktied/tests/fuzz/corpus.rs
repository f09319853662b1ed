//! The files that a run starts from: good and bad ones written by other hands, and those that earlier runs found to lead far
//! into a reader, all of one reader in one file.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz")
}

/// The files written by other hands, with their paths.
pub fn written(reader: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(tests().join("corpus").join(reader)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// The files that earlier runs found.
pub fn found(reader: &str) -> Vec<Vec<u8>> {
    std::fs::read(found_path(reader)).map_or_else(|_| vec![], |bytes| unpack(&bytes))
}

/// Puts other files in their place, all or none of them.
pub fn keep(reader: &str, files: &[Vec<u8>]) {
    let (path, aside) = (found_path(reader), tests().join(format!("{reader}.new")));
    std::fs::write(&aside, pack(files)).and_then(|()| std::fs::rename(aside, path)).unwrap();
}

fn found_path(reader: &str) -> PathBuf {
    tests().join("found").join(format!("{reader}.gz"))
}

/// Each file behind its length, which has four bytes, the lowest first; packed by gzip, to about a twentieth.
fn pack(files: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = GzEncoder::new(vec![], Compression::best());
    for file in files {
        let len = (file.len() as u32).to_le_bytes();
        packed.write_all(&len).and_then(|()| packed.write_all(file)).unwrap();
    }
    packed.finish().unwrap()
}

fn unpack(packed: &[u8]) -> Vec<Vec<u8>> {
    let mut unpacked = vec![];
    GzDecoder::new(packed).read_to_end(&mut unpacked).unwrap();
    let (mut bytes, mut files) = (&unpacked[..], vec![]);
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (file, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
        files.push(file.to_vec());
        bytes = rest;
    }
    assert!(bytes.is_empty(), "a file of files is cut off");
    files
}

#[test]
fn files_that_are_packed_come_out_again() {
    for files in [vec![], vec![vec![]], vec![vec![1], vec![], vec![2; 300]]] {
        assert_eq!(unpack(&pack(&files)), files);
    }
}
