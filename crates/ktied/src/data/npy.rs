//! NumPy's .npy arrays: little-endian, C order, of the five types that data come in.
//!
//! The bytes `\x93NUMPY`, a version, the length of a header, the header (a Python dictionary as text), the numbers.

use std::io::Read;

use super::bounded::{MAX_BYTES, checked_len, expect_end, read_array, read_len};
use super::error::{Fault, quote};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
const MAX_HEADER_BYTES: usize = 1 << 16;
/// The most dimensions that an array may have.
pub(crate) const MAX_RANK: usize = 8;

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub struct Npy {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers, the last dimension fastest.
    pub values: Values,
}

/// The numbers of an array, in the type of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// `<f4`
    F32(Vec<f32>),
    /// `<f8`
    F64(Vec<f64>),
    /// `|u1`
    U8(Vec<u8>),
    /// `<i4`
    I32(Vec<i32>),
    /// `<i8`
    I64(Vec<i64>),
}

/// What the header says.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) descr: String,
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<usize>,
}

impl Npy {
    /// Reads an array: exactly the bytes that its header says, and nothing after them.
    ///
    /// # Errors
    /// One variant of [`Fault`] for each way the bytes can be wrong. Memory stays within what really arrives.
    pub fn parse(reader: impl Read) -> Result<Self, Fault> {
        Self::parse_within(reader, MAX_BYTES)
    }

    /// Like [`Npy::parse`] for an array of at most `limit` bytes.
    pub(crate) fn parse_within(mut reader: impl Read, limit: usize) -> Result<Self, Fault> {
        let header = Header::parse_row_major(&mut reader)?;
        let values = Values::parse(&mut reader, &header, limit)?;
        Ok(Self { shape: header.shape, values })
    }
}

impl Header {
    /// Reads everything in front of the elements.
    pub(crate) fn parse(reader: &mut impl Read) -> Result<Self, Fault> {
        let [magic @ .., version, _minor] = read_array::<8>(reader, ".npy header")?;
        if magic != *MAGIC {
            return Err(Fault::NpyMagic { found: quote(&magic) });
        }
        let len = match version {
            1 => u16::from_le_bytes(read_array(reader, ".npy header")?).into(),
            2 | 3 => u32::from_le_bytes(read_array(reader, ".npy header")?),
            found => return Err(Fault::NpyVersion { found }),
        };
        let len = checked_len(&[len as usize], "bytes of .npy header", MAX_HEADER_BYTES)?;
        parse_header(&read_len(reader, ".npy header", len)?)
    }

    /// The same, of an array whose rows lie one after another.
    pub(crate) fn parse_row_major(reader: &mut impl Read) -> Result<Self, Fault> {
        let header = Self::parse(reader)?;
        if header.fortran_order { Err(Fault::NpyOrder) } else { Ok(header) }
    }

    /// Reads the elements, of `size` bytes each, and nothing may follow them.
    pub(crate) fn elements(&self, reader: &mut impl Read, size: usize, limit: usize) -> Result<Vec<u8>, Fault> {
        let len = checked_len(&[&self.shape[..], &[size]].concat(), "bytes", limit)?;
        let bytes = read_len(reader, ".npy data", len)?;
        expect_end(reader, ".npy data", len)?;
        Ok(bytes)
    }
}

impl Values {
    /// How many bytes the numbers take.
    pub(crate) fn num_bytes(&self) -> usize {
        match self {
            Self::F32(numbers) => size_of_val(&numbers[..]),
            Self::F64(numbers) => size_of_val(&numbers[..]),
            Self::U8(numbers) => size_of_val(&numbers[..]),
            Self::I32(numbers) => size_of_val(&numbers[..]),
            Self::I64(numbers) => size_of_val(&numbers[..]),
        }
    }

    fn parse(reader: &mut impl Read, header: &Header, limit: usize) -> Result<Self, Fault> {
        Ok(match &*header.descr {
            "<f4" => Self::F32(numbers(reader, header, limit, f32::from_le_bytes)?),
            "<f8" => Self::F64(numbers(reader, header, limit, f64::from_le_bytes)?),
            "|u1" | "<u1" => Self::U8(numbers(reader, header, limit, |[byte]| byte)?),
            "<i4" => Self::I32(numbers(reader, header, limit, i32::from_le_bytes)?),
            "<i8" => Self::I64(numbers(reader, header, limit, i64::from_le_bytes)?),
            found => return Err(Fault::NpyType { found: quote(found.as_bytes()) }),
        })
    }
}

fn numbers<T, const SIZE: usize>(
    reader: &mut impl Read,
    header: &Header,
    limit: usize,
    from_bytes: impl Fn([u8; SIZE]) -> T,
) -> Result<Vec<T>, Fault> {
    let bytes = header.elements(reader, SIZE, limit)?;
    let (chunks, _) = bytes.as_chunks::<SIZE>();
    Ok(chunks.iter().map(|&chunk| from_bytes(chunk)).collect())
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, the keys in any order, each once, then spaces.
fn parse_header(bytes: &[u8]) -> Result<Header, Fault> {
    let wrong = || Fault::NpyHeader { found: quote(bytes) };
    let text = std::str::from_utf8(bytes).map_err(|_| wrong())?.trim_end();
    let mut rest = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(wrong)?.trim();
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    while !rest.is_empty() {
        let (key, value) = quoted(rest).ok_or_else(wrong)?;
        let value = value.trim_start().strip_prefix(':').ok_or_else(wrong)?.trim_start();
        rest = match key {
            "descr" => set(&mut descr, quoted(value).map(|(text, rest)| (text.to_string(), rest))),
            "fortran_order" => set(&mut fortran, boolean(value)),
            "shape" => set(&mut shape, tuple(value)),
            _ => None,
        }
        .ok_or_else(wrong)?
        .trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    match (descr, fortran, shape) {
        (Some(descr), Some(fortran_order), Some(shape)) => Ok(Header { descr, fortran_order, shape }),
        _ => Err(wrong()),
    }
}

/// Keeps a value that was parsed, if it is the first of its key, and goes on with the rest.
fn set<'a, T>(place: &mut Option<T>, parsed: Option<(T, &'a str)>) -> Option<&'a str> {
    let (value, rest) = parsed?;
    place.replace(value).is_none().then_some(rest)
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('\'')?.split_once('\'')
}

fn boolean(text: &str) -> Option<(bool, &str)> {
    let is_true = text.strip_prefix("True").map(|rest| (true, rest));
    is_true.or_else(|| text.strip_prefix("False").map(|rest| (false, rest)))
}

/// `()`, `(5,)` or `(5, 28, 28)`.
fn tuple(text: &str) -> Option<(Vec<usize>, &str)> {
    let (inner, rest) = text.strip_prefix('(')?.split_once(')')?;
    let inner = inner.trim();
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    let shape: Vec<usize> = match inner {
        "" => Vec::new(),
        _ => inner.split(',').map(|dim| dim.trim().parse().ok()).collect::<Option<_>>()?,
    };
    (shape.len() <= MAX_RANK).then_some((shape, rest))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A version 1 file with this header.
    pub(crate) fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
    }

    /// A file of an array.
    pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        file(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}   \n"), data)
    }

    fn refusal(bytes: &[u8]) -> String {
        Npy::parse(bytes).unwrap_err().to_string()
    }

    /// The bytes that numpy 2 writes for `np.save(f, np.array([[1, 2, 3], [4, 5, 6.5]], dtype="<f4"))`.
    #[test]
    fn a_file_of_numpy_is_read() {
        let mut bytes = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".to_vec();
        bytes.resize(127, b' ');
        bytes.push(b'\n');
        bytes.extend([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.5].iter().flat_map(|x| x.to_le_bytes()));
        let values = Values::F32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.5]);
        assert_eq!(Npy::parse(&bytes[..]), Ok(Npy { shape: vec![2, 3], values }));
    }

    #[test]
    fn every_type_version_and_shape_is_read() {
        let parse = |bytes: &[u8]| Npy::parse(bytes).unwrap();
        assert_eq!(parse(&npy("<f8", "(1,)", &1.5f64.to_le_bytes())).values, Values::F64(vec![1.5]));
        assert_eq!(parse(&npy("|u1", "(3,)", &[1, 2, 255])).values, Values::U8(vec![1, 2, 255]));
        assert_eq!(parse(&npy("<i4", "(1, 1)", &(-7i32).to_le_bytes())).values, Values::I32(vec![-7]));
        assert_eq!(parse(&npy("<i8", "()", &(-7i64).to_le_bytes())).values, Values::I64(vec![-7]));
        assert_eq!(parse(&npy("|u1", "(0, 4)", &[])).shape, [0, 4]);
        let header = "{'shape': (1,), 'fortran_order': False, 'descr': '|u1'}";
        let two = [&b"\x93NUMPY\x02\x00"[..], &(header.len() as u32).to_le_bytes(), header.as_bytes(), &[9]].concat();
        assert_eq!(parse(&two).values, Values::U8(vec![9]));
    }

    #[test]
    fn every_way_a_file_can_lie_has_its_sentence() {
        assert_eq!(refusal(b"\x93NUM"), "expected 8 bytes of .npy header, found 4");
        assert_eq!(
            refusal(b"PK\x03\x04NUMPY"),
            "expected a .npy file, which begins with \\x93NUMPY, found `PK\\x03\\x04NU`"
        );
        assert_eq!(refusal(b"\x93NUMPY\x04\x00\x00\x00"), "expected version 1, 2 or 3 of the .npy format, found 4");
        assert_eq!(refusal(b"\x93NUMPY\x01\x00\x09\x00{"), "expected 9 bytes of .npy header, found 1");
        let long = refusal(b"\x93NUMPY\x02\x00\xff\xff\xff\xff");
        assert_eq!(long, "expected at most 65536 bytes of .npy header, found 4294967295");
        assert_eq!(refusal(&npy("<f4", "(2,)", &[0; 7])), "expected 8 bytes of .npy data, found 7");
        assert_eq!(refusal(&npy("<f4", "(2,)", &[0; 9])), "expected the end after 8 bytes of .npy data, found more");
        let big_endian = "expected numbers of type <f4, <f8, |u1, <i4 or <i8, found `>f4`";
        assert_eq!(refusal(&npy(">f4", "(1,)", &[0; 4])), big_endian);
        let fortran = file("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", &[0; 4]);
        assert!(refusal(&fortran).starts_with("expected an array in C order, found Fortran order"));
        let huge = refusal(&npy("<f8", "(4294967296, 4294967296)", &[]));
        assert_eq!(huge, "expected at most 2147483648 bytes, found 4294967296×4294967296×8");
        assert_eq!(refusal(&npy("<f8", "(268435456,)", b"x")), "expected 2147483648 bytes of .npy data, found 1");
    }

    #[test]
    fn headers_that_are_not_the_dictionary_are_refused() {
        for header in [
            "",
            "{}",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
        ] {
            assert!(refusal(&file(header, &[0; 4])).starts_with("expected a .npy header"), "{header}");
        }
        assert!(refusal(&[&b"\x93NUMPY\x01\x00\x02\x00"[..], b"\xff\xff"].concat()).contains("found `\\xff\\xff`"));
    }
}
