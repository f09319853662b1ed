//! The idx files of MNIST and Fashion-MNIST, plain or gzip, and the two data sets made of them.
//!
//! An idx file is two zero bytes, a type (8: bytes), the number of dimensions, each dimension as a big-endian 32-bit
//! number, and the bytes.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::bounded::{MAX_BYTES, checked_len, expect_end, read_array, read_len, with_contents};
use super::error::{DataError, Fault, product};
use super::preprocessing::Preprocessing;
use super::set::{DataSet, Inputs, Scaling, Split, Targets};

/// Images of the training file.
pub const NUM_TRAIN: usize = 60_000;
/// Images of the test file.
pub const NUM_TEST: usize = 10_000;
/// The last images of the training file, kept for validation.
pub const NUM_VALIDATION: usize = 10_000;
/// Rows, and columns, of an image.
pub const SIDE: usize = 28;
/// Digits, or kinds of clothes.
pub const NUM_CLASSES: usize = 10;

const TYPE_BYTES: u8 = 8;

/// An array of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// Its shape.
    pub dims: Vec<usize>,
    /// Its bytes, the last dimension fastest.
    pub data: Vec<u8>,
}

impl Idx {
    /// Reads an array of `rank` dimensions: exactly the bytes that its header says, and nothing after them.
    ///
    /// # Errors
    /// One variant of [`Fault`] for each way the bytes can be wrong. Memory stays within what really arrives.
    pub fn parse(mut reader: impl Read, rank: u8) -> Result<Self, Fault> {
        let found = read_rank(&mut reader)?;
        if found != rank {
            return Err(Fault::IdxRank { expected: rank, found });
        }
        let dims = read_sizes(&mut reader, rank)?;
        let len = checked_len(&dims, "bytes", MAX_BYTES)?;
        let data = read_len(&mut reader, "idx data", len)?;
        expect_end(&mut reader, "idx data", len)?;
        Ok(Self { dims, data })
    }

    fn read(path: &Path, dims: &[usize]) -> Result<Vec<u8>, DataError> {
        let idx = with_contents(path, |reader| Self::parse(reader, dims.len() as u8))?;
        if idx.dims != dims {
            return Err(Fault::Shape { expected: product(dims), found: product(&idx.dims) }.at(path));
        }
        Ok(idx.data)
    }
}

/// The number of dimensions, which ends the first four bytes.
fn read_rank(reader: &mut impl Read) -> Result<u8, Fault> {
    match read_array(reader, "idx header")? {
        [0, 0, TYPE_BYTES, rank] => Ok(rank),
        [0, 0, found, _] => Err(Fault::IdxType { found }),
        [first, second, ..] => Err(Fault::IdxMagic { found: [first, second] }),
    }
}

fn read_sizes(reader: &mut impl Read, rank: u8) -> Result<Vec<usize>, Fault> {
    let sizes = (0..rank).map(|_| read_array(reader, "idx header").map(u32::from_be_bytes));
    sizes.map(|size| size.map(|size| size as usize)).collect()
}

/// Everything before the bytes, of any number of dimensions.
pub(crate) fn read_dims(reader: &mut impl Read) -> Result<Vec<usize>, Fault> {
    let rank = read_rank(reader)?;
    read_sizes(reader, rank)
}

/// Sizes of the two files.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    train: usize,
    validation: usize,
    test: usize,
}

/// MNIST or Fashion-MNIST from its four files: 50,000 / 10,000 / 10,000 images, pixels from −1 to 1.
///
/// # Errors
/// A file that is missing or wrong.
pub fn load(name: &str, folder: &Path) -> Result<DataSet, DataError> {
    load_sizes(name, folder, Sizes { train: NUM_TRAIN, validation: NUM_VALIDATION, test: NUM_TEST })
}

fn load_sizes(name: &str, folder: &Path, sizes: Sizes) -> Result<DataSet, DataError> {
    let mut train = split(folder, "train", sizes.train)?;
    let validation = train.split_off(sizes.train.saturating_sub(sizes.validation));
    let test = split(folder, "t10k", sizes.test)?;
    Ok(DataSet::new(
        name,
        [train, validation, test],
        Preprocessing::pixels(SIDE * SIDE, scaling(), 255, Some([SIDE, SIDE, 1])),
    ))
}

fn split(folder: &Path, part: &str, len: usize) -> Result<Split, DataError> {
    let data = Idx::read(&plain_or_gz(folder, &format!("{part}-images-idx3-ubyte")), &[len, SIDE, SIDE])?;
    let path = plain_or_gz(folder, &format!("{part}-labels-idx1-ubyte"));
    let labels = labels(&Idx::read(&path, &[len])?).map_err(|fault| fault.at(&path))?;
    Ok(Split {
        inputs: Inputs::Bytes { data, width: SIDE * SIDE, scaling: scaling() },
        targets: Targets::Classes { labels, num_classes: NUM_CLASSES },
    })
}

/// From −1 to 1.
fn scaling() -> Scaling {
    Scaling::Uniform { divisor: 127.5, offset: 1.0 }
}

fn labels(bytes: &[u8]) -> Result<Vec<u32>, Fault> {
    let checked = bytes.iter().zip(1..).map(|(&label, row)| match usize::from(label) < NUM_CLASSES {
        true => Ok(label.into()),
        false => Err(Fault::Label { row, what: "a label", max: NUM_CLASSES - 1, found: label.to_string() }),
    });
    checked.collect()
}

/// The plain file if it is there, otherwise the packed one.
pub(crate) fn plain_or_gz(folder: &Path, name: &str) -> PathBuf {
    let plain = folder.join(name);
    if plain.is_file() { plain } else { folder.join(format!("{name}.gz")) }
}

#[cfg(test)]
mod tests {
    use super::super::bounded::tests::{Folder, gzip};
    use super::super::stream::tests::assert_same;
    use super::*;

    const TINY: Sizes = Sizes { train: 5, validation: 2, test: 1 };

    fn idx(dims: &[u32], data: &[u8]) -> Vec<u8> {
        let sizes: Vec<u8> = dims.iter().flat_map(|dim| dim.to_be_bytes()).collect();
        [&[0, 0, 8, dims.len() as u8], &sizes[..], data].concat()
    }

    fn refusal(bytes: &[u8]) -> String {
        Idx::parse(bytes, 3).unwrap_err().to_string()
    }

    /// Image i is all i·50, but its first pixel is 255; label i is i.
    fn tiny() -> Folder {
        let folder = Folder::new();
        let images = |len: u8| -> Vec<u8> {
            (0..len).flat_map(|i| std::iter::once(255).chain(std::iter::repeat_n(i * 50, 783))).collect()
        };
        folder.file("train-images-idx3-ubyte", idx(&[5, 28, 28], &images(5)));
        folder.file("train-labels-idx1-ubyte.gz", gzip(&idx(&[5], &[0, 1, 2, 3, 4])));
        folder.file("t10k-images-idx3-ubyte.gz", gzip(&idx(&[1, 28, 28], &images(1))));
        folder.file("t10k-labels-idx1-ubyte", idx(&[1], &[9]));
        folder
    }

    #[test]
    fn an_array_is_read_as_its_header_says() {
        let array = Idx::parse(&idx(&[2, 1, 3], &[1, 2, 3, 4, 5, 6])[..], 3).unwrap();
        assert_eq!(array, Idx { dims: vec![2, 1, 3], data: vec![1, 2, 3, 4, 5, 6] });
    }

    #[test]
    fn the_test_file_streamed_is_the_data_sets_own_test_part() {
        let folder = tiny();
        let set = load_sizes("mnist", &folder.0, TINY).unwrap();
        assert_same("packed", &folder.0.join("t10k-images-idx3-ubyte.gz"), None, &set, &set.test);
    }

    #[test]
    fn every_way_a_header_can_lie_has_its_sentence() {
        assert_eq!(refusal(&[0, 0, 8]), "expected 4 bytes of idx header, found 3");
        assert_eq!(refusal(&[1, 0, 8, 3]), "expected an idx file, which begins with two zero bytes, found [01, 00]");
        assert_eq!(refusal(&[0, 0, 13, 3]), "expected an idx file of bytes (type 0x08), found type 0x0d");
        assert_eq!(refusal(&[0, 0, 8, 1]), "expected an idx file of 3 dimensions, found 1");
        assert_eq!(refusal(&[0, 0, 8, 3, 0, 0]), "expected 4 bytes of idx header, found 2");
        assert_eq!(refusal(&idx(&[2, 1, 3], &[0; 5])), "expected 6 bytes of idx data, found 5");
        assert_eq!(refusal(&idx(&[2, 1, 3], &[0; 7])), "expected the end after 6 bytes of idx data, found more");
        let huge = refusal(&idx(&[u32::MAX; 3], &[0; 7]));
        assert!(huge.starts_with("expected at most 2147483648 bytes, found 4294967295×"), "{huge}");
    }

    /// The header claims two gibibytes and little follows: what is allocated is what arrives.
    #[test]
    fn a_header_alone_allocates_nothing() {
        assert_eq!(refusal(&idx(&[1 << 11, 1 << 10, 1 << 10], b"x")), "expected 2147483648 bytes of idx data, found 1");
    }

    /// 16 MB of zeros in 16 kB of gzip, behind a header that says one byte.
    #[test]
    fn a_packed_bomb_is_cut_off_where_its_header_ends() {
        let folder = Folder::new();
        let path = folder.file("a.gz", gzip(&idx(&[1, 1, 1], &vec![0; 1 << 24])));
        let error = with_contents(&path, |reader| Idx::parse(reader, 3)).unwrap_err().to_string();
        assert!(error.ends_with("expected the end after 1 bytes of idx data, found more"), "{error}");
    }

    #[test]
    fn the_last_training_images_become_validation_and_pixels_lie_in_minus_one_to_one() {
        let folder = tiny();
        let set = load_sizes("mnist", &folder.0, TINY).unwrap();
        assert_eq!((set.train.len(), set.validation.len(), set.test.len()), (3, 2, 1));
        let classes = |labels: &[u32]| Targets::Classes { labels: labels.into(), num_classes: 10 };
        assert_eq!(set.train.targets, classes(&[0, 1, 2]));
        assert_eq!(set.validation.targets, classes(&[3, 4]));
        assert_eq!(set.test.targets, classes(&[9]));
        let mut pixels = Vec::new();
        set.validation.inputs.gather(&[0], &mut pixels).unwrap();
        assert_eq!((pixels.len(), pixels[0], pixels[1]), (784, 1.0, 150.0f32 / 127.5 - 1.0));
        set.train.inputs.gather(&[0], &mut pixels).unwrap();
        assert_eq!((pixels[0], pixels[1]), (1.0, -1.0));
    }

    #[test]
    fn other_sizes_and_labels_beyond_nine_are_refused_with_the_files_name() {
        let folder = tiny();
        let error = load_sizes("mnist", &folder.0, Sizes { train: 6, ..TINY }).unwrap_err().to_string();
        assert!(error.contains("train-images-idx3-ubyte: expected the shape 6×28×28, found 5×28×28"), "{error}");
        folder.file("t10k-labels-idx1-ubyte", idx(&[1], &[10]));
        let error = load_sizes("mnist", &folder.0, TINY).unwrap_err().to_string();
        assert!(
            error.ends_with("t10k-labels-idx1-ubyte: example 1: expected a label from 0 to 9, found 10"),
            "{error}"
        );
    }
}
