//! SHA-256 of data: of files as they come, and of a data set's numbers.

use std::fmt::Write;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use super::set::{Inputs, Scaling, Split, Targets, Units};

/// A running SHA-256.
#[derive(Clone, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes everything that a reader has, and says how many bytes that was.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn reader(&mut self, mut reader: impl Read) -> io::Result<u64> {
        let (mut buffer, mut len) = (vec![0; 1 << 16], 0);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(len),
                Ok(found) => {
                    self.0.update(buffer.get(..found).unwrap_or(&buffer));
                    len += found as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// 64 hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.finalize().iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Inputs, how they are scaled, and targets, each after its kind and sizes, so that no two splits run together alike.
    pub(crate) fn split(&mut self, split: &Split) {
        match &split.inputs {
            Inputs::Bytes { data, width, scaling } => {
                self.heading("bytes", data.len(), *width);
                self.update(data);
                self.scaling(scaling);
            }
            Inputs::Floats { data, width, units } => self.floats("floats", data, *width, units),
            Inputs::Tokens { data, width } => self.words("tokens", data, *width),
        }
        match &split.targets {
            Targets::Classes { labels, num_classes } => self.words("classes", labels, *num_classes),
            Targets::Values { data, width, units } => self.floats("values", data, *width, units),
        }
    }

    fn heading(&mut self, kind: &str, len: usize, size: usize) {
        self.update(kind.as_bytes());
        self.update(&(len as u64).to_le_bytes());
        self.update(&(size as u64).to_le_bytes());
    }

    fn scaling(&mut self, scaling: &Scaling) {
        match scaling {
            Scaling::Uniform { divisor, offset } => self.numbers(&[*divisor, *offset]),
            Scaling::Centered { divisor, means } => {
                self.numbers(&[*divisor]);
                self.numbers(means);
            }
        }
    }

    fn floats(&mut self, kind: &str, data: &[f32], width: usize, units: &Units) {
        self.heading(kind, data.len(), width);
        self.numbers(data);
        self.heading("units", units.loc.len(), units.scale.len());
        self.numbers(&units.loc);
        self.numbers(&units.scale);
    }

    fn numbers(&mut self, numbers: &[f32]) {
        self.little_endian(numbers, f32::to_le_bytes);
    }

    fn words(&mut self, kind: &str, words: &[u32], size: usize) {
        self.heading(kind, words.len(), size);
        self.little_endian(words, u32::to_le_bytes);
    }

    fn little_endian<T: Copy>(&mut self, numbers: &[T], to_bytes: impl Fn(T) -> [u8; 4]) {
        let mut buffer = Vec::with_capacity(4 << 12);
        for part in numbers.chunks(1 << 12) {
            buffer.clear();
            part.iter().for_each(|&number| buffer.extend_from_slice(&to_bytes(number)));
            self.update(&buffer);
        }
    }
}

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let mut digest = Digest::default();
    digest.update(bytes);
    digest.hex()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of FIPS 180-2.
    #[test]
    fn digests_are_the_standards() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let mut digest = Digest::default();
        assert_eq!(digest.reader(&[b'a'; 1_000_000][..]).unwrap(), 1_000_000);
        assert_eq!(digest.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }

    #[test]
    fn every_number_size_and_kind_changes_the_digest_of_a_split() {
        let of = |split: &Split| {
            let mut digest = Digest::default();
            digest.split(split);
            digest.hex()
        };
        let uniform = |divisor, offset| Scaling::Uniform { divisor, offset };
        let bytes = |data: &[u8], width, scaling| Inputs::Bytes { data: data.into(), width, scaling };
        let classes = |labels: &[u32], num_classes| Targets::Classes { labels: labels.into(), num_classes };
        let units = |loc: f32| Units { loc: vec![loc], scale: vec![1.0] };
        let values = |value, units| Targets::Values { data: vec![value; 2], width: 1, units };
        let plain = || bytes(&[1, 2], 1, uniform(255.0, 0.0));
        let splits = [
            (plain(), classes(&[0, 1], 2)),
            (bytes(&[1, 3], 1, uniform(255.0, 0.0)), classes(&[0, 1], 2)),
            (bytes(&[1, 2], 2, uniform(255.0, 0.0)), classes(&[0, 1], 2)),
            (bytes(&[1, 2], 1, uniform(127.5, 0.0)), classes(&[0, 1], 2)),
            (bytes(&[1, 2], 1, uniform(255.0, 1.0)), classes(&[0, 1], 2)),
            (plain(), classes(&[0, 0], 2)),
            (plain(), classes(&[0, 1], 3)),
            (plain(), values(0.0, Units::default())),
            (plain(), values(1.0, Units::default())),
            (plain(), values(1.0, units(0.0))),
            (plain(), values(1.0, units(2.0))),
        ];
        let digests = splits.map(|(inputs, targets)| of(&Split { inputs, targets }));
        for (i, digest) in digests.iter().enumerate() {
            assert!(!digests[..i].contains(digest), "{i}");
        }
    }
}
