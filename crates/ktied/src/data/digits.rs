//! The embedded data set: 1,797 handwritten digits of 8×8 pixels, with a fixed split into training and test.
//!
//! The data are the test set of E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine
//! Learning Repository, 1998, <https://doi.org/10.24432/C50P49>, licensed under CC BY 4.0. The file is the copy that
//! scikit-learn distributes, unchanged.
//!
//! ```
//! use ktied::data::digits::Digits;
//! let digits = Digits::embedded()?;
//! let (train, test) = digits.split();
//! assert_eq!((train.labels.len(), test.labels.len()), (1400, 397));
//! assert_eq!(train.inputs.len(), 1400 * 64);
//! # Ok::<(), ktied::data::digits::DigitsError>(())
//! ```

use std::io::{self, Read};

use flate2::bufread::GzDecoder;
use ktied_kernels::{NoiseKey, Purpose};

use super::shuffle::permutation;

/// The embedded file: gzip of one line per digit, 64 pixels and the label, separated by commas.
pub const EMBEDDED: &[u8] = include_bytes!("digits.csv.gz");
/// Number of digits.
pub const NUM_EXAMPLES: usize = 1797;
/// Rows, and columns, of a digit.
pub const SIDE: usize = 8;
/// Pixels of a digit: 8 rows of 8.
pub const NUM_PIXELS: usize = SIDE * SIDE;
/// Number of classes: the label of a digit is the digit.
pub const NUM_CLASSES: usize = 10;
/// The darkest pixel: a pixel counts the dark points in a 4×4 block of the scan.
pub const MAX_PIXEL: u8 = 16;
/// Digits of the training part.
pub const NUM_TRAIN: usize = 1400;
/// Digits of the test part.
pub const NUM_TEST: usize = NUM_EXAMPLES - NUM_TRAIN;

/// Seed of the split. Another value would make results incomparable with earlier ones.
const SPLIT_SEED: u64 = 1998;
const NUM_COLUMNS: usize = NUM_PIXELS + 1;
const MAX_LABEL: u8 = NUM_CLASSES as u8 - 1;
/// The longest text that can be right: two characters a pixel, a comma after each, the label and the line's end.
const MAX_TEXT_LEN: usize = NUM_EXAMPLES * (NUM_PIXELS * 3 + 2);
/// How much of a field that is no number an error quotes.
const MAX_QUOTE_LEN: usize = 16;

/// A way in which bytes are not the data set. Rows and columns count from 1.
#[derive(Debug, thiserror::Error)]
pub enum DigitsError {
    /// The bytes end before the gzip file does.
    #[error("digits: the gzip file is cut short")]
    Truncated,
    /// The bytes are not gzip, or a checksum fails.
    #[error("digits: the gzip file is damaged: {0}")]
    Damaged(#[source] io::Error),
    /// More bytes follow the end of the gzip file.
    #[error("digits: the gzip file must end where its data do, but {found} more bytes follow")]
    TrailingBytes {
        /// Number of bytes after the end.
        found: usize,
    },
    /// The text is longer than any right one; reading stopped there.
    #[error("digits: the text must have at most {limit} bytes, got more")]
    TooLong {
        /// Greatest length allowed.
        limit: usize,
    },
    /// The number of lines is wrong.
    #[error("digits: expected {NUM_EXAMPLES} rows, got {found}")]
    RowCount {
        /// Number of lines.
        found: usize,
    },
    /// The number of fields in a line is wrong.
    #[error("digits: row {row}: expected {NUM_COLUMNS} columns, got {found}")]
    ColumnCount {
        /// Row.
        row: usize,
        /// Number of fields.
        found: usize,
    },
    /// A field is not a whole number, or one beyond 32 bits.
    #[error("digits: row {row}, column {column}: expected a small whole number, got `{found}`")]
    NotANumber {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
        /// The beginning of the field, escaped.
        found: String,
    },
    /// A number is too large for a pixel.
    #[error("digits: row {row}, column {column}: expected a pixel from 0 to {MAX_PIXEL}, got {found}")]
    Pixel {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
        /// The number.
        found: u32,
    },
    /// A number is too large for a label.
    #[error("digits: row {row}, column {NUM_COLUMNS}: expected a label from 0 to {MAX_LABEL}, got {found}")]
    Label {
        /// Row.
        row: usize,
        /// The number.
        found: u32,
    },
}

/// All digits in the order of the file. Exists only if every value was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digits {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

/// One part of the data set, ready for a model.
///
/// # Shapes
/// - inputs: `[B, 64]` row-major, 0 (white) to 1 (dark)
/// - labels: `[B]`, 0 to 9
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// Scaled pixels.
    pub inputs: Vec<f32>,
    /// Labels.
    pub labels: Vec<u8>,
}

/// Rows of the two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitRows {
    /// 1,400 rows to train on.
    pub train: Vec<usize>,
    /// 397 rows to test on.
    pub test: Vec<usize>,
}

impl Digits {
    /// The embedded digits.
    ///
    /// # Errors
    /// None with the file of this crate, which a test checks; the type is that of [`Digits::parse`].
    pub fn embedded() -> Result<Self, DigitsError> {
        Self::parse(EMBEDDED)
    }

    /// Reads the digits from the bytes of `digits.csv.gz`, checking everything.
    ///
    /// # Errors
    /// One variant of [`DigitsError`] for each way the bytes can be wrong. Memory stays bounded whatever they are.
    pub fn parse(bytes: &[u8]) -> Result<Self, DigitsError> {
        let text = gunzip(bytes)?;
        let rows = || text.split_inclusive(|&byte| byte == b'\n');
        let found = rows().count();
        if found != NUM_EXAMPLES {
            return Err(DigitsError::RowCount { found });
        }
        let mut digits =
            Self { pixels: Vec::with_capacity(NUM_EXAMPLES * NUM_PIXELS), labels: Vec::with_capacity(NUM_EXAMPLES) };
        for (index, line) in rows().enumerate() {
            digits.push_row(index + 1, line.strip_suffix(b"\n").unwrap_or(line))?;
        }
        Ok(digits)
    }

    fn push_row(&mut self, row: usize, line: &[u8]) -> Result<(), DigitsError> {
        let fields = || line.split(|&byte| byte == b',');
        let found = fields().count();
        if found != NUM_COLUMNS {
            return Err(DigitsError::ColumnCount { row, found });
        }
        for (column, field) in (1..).zip(fields()) {
            let found = whole_number(row, column, field)?;
            match u8::try_from(found) {
                Ok(label) if column == NUM_COLUMNS && label <= MAX_LABEL => self.labels.push(label),
                _ if column == NUM_COLUMNS => return Err(DigitsError::Label { row, found }),
                Ok(pixel) if pixel <= MAX_PIXEL => self.pixels.push(pixel),
                _ => return Err(DigitsError::Pixel { row, column, found }),
            }
        }
        Ok(())
    }

    /// Pixels, 0 to 16.
    ///
    /// # Shapes
    /// - output: `[1797, 64]` row-major
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Labels, 0 to 9.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// The training and the test part, with pixels scaled to [0, 1].
    pub fn split(&self) -> (Examples, Examples) {
        let rows = split_rows();
        (self.gather(&rows.train), self.gather(&rows.test))
    }

    fn gather(&self, rows: &[usize]) -> Examples {
        let (images, _) = self.pixels.as_chunks::<NUM_PIXELS>();
        Examples {
            inputs: rows.iter().filter_map(|&row| images.get(row)).flat_map(|image| image.map(scaled)).collect(),
            labels: rows.iter().filter_map(|&row| self.labels.get(row)).copied().collect(),
        }
    }
}

/// The fixed split: a permutation of the rows of the file, its first 1,400 to train on, the rest to test on.
pub fn split_rows() -> SplitRows {
    let mut train = permutation(NUM_EXAMPLES, NoiseKey::new(SPLIT_SEED).child(Purpose::Shuffle));
    let test = train.split_off(NUM_TRAIN);
    SplitRows { train, test }
}

/// pixel/16: 0 to 1 for the pixels of this data set, without rounding.
pub fn scaled(pixel: u8) -> f32 {
    f32::from(pixel) / f32::from(MAX_PIXEL)
}

/// Unpacks one gzip file, refusing what is longer than any right text.
fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, DigitsError> {
    let mut decoder = GzDecoder::new(bytes);
    let mut text = Vec::new();
    decoder.by_ref().take(MAX_TEXT_LEN as u64 + 1).read_to_end(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => DigitsError::Truncated,
        _ => DigitsError::Damaged(error),
    })?;
    if text.len() > MAX_TEXT_LEN {
        return Err(DigitsError::TooLong { limit: MAX_TEXT_LEN });
    }
    match decoder.into_inner().len() {
        0 => Ok(text),
        found => Err(DigitsError::TrailingBytes { found }),
    }
}

/// Decimal digits and nothing else: no sign, no space.
fn whole_number(row: usize, column: usize, field: &[u8]) -> Result<u32, DigitsError> {
    let digits = std::str::from_utf8(field).ok().filter(|field| field.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let quote = field.get(..MAX_QUOTE_LEN).unwrap_or(field);
        DigitsError::NotANumber { row, column, found: quote.escape_ascii().to_string() }
    })
}

#[cfg(test)]
mod tests;
