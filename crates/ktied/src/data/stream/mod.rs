//! Inputs without labels, one after another: what a user has, as a network wants it, in the memory of one batch.
//!
//! | a file that ends in | holds | an example's name |
//! |---|---|---|
//! | `.npy` | an array whose first dimension counts examples | its row, from 1 |
//! | `.npz` | such arrays by name | its row, from 1 |
//! | `.csv` | numbers separated by commas, with or without a header | its row, from 1, without the header |
//! | `-ubyte`, `.idx` | images, as MNIST's | its row, from 1 |
//! | `.txt` | texts, one a line | its line, from 1 |
//!
//! All may be packed (`.gz`), but for archives. Numbers are those of the training files: pixels from 0 to 255, columns
//! in their own units, [`Preprocessing`] does the rest. A [`Source`] of your own, such as one of image files, goes the same
//! way.
//!
//! A row that is not as it should be is refused with its place, or left out and counted ([`BadRows`]). A file that is not
//! what it should be is refused in any case.
//!
//! ```
//! use ktied::data::stream::{BadRows, InputStream, open};
//! use ktied::data::{DataSpec, load};
//!
//! let path = std::env::temp_dir().join(format!("ktied-stream-{}.csv", std::process::id()));
//! std::fs::write(&path, format!("{}16\n{}8\n", "0,".repeat(63), "0,".repeat(63)))?;
//! let wanted = load(&DataSpec::named("digits"))?.preprocessing;
//! let stream = InputStream::new(open(&path, None, &wanted)?, wanted, 100, BadRows::Refuse);
//! let batches = stream.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!((batches.len(), batches[0].names()), (1, &["1".to_string(), "2".to_string()][..]));
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod array;
mod contents;
mod lines;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use burn::tensor::Device;

pub use array::ArrayFile;
pub use lines::{MAX_LINE_BYTES, TableFile, TextFile};

use super::batcher::HostInputs;
use super::error::{DataError, Fault};
use super::preprocessing::Preprocessing;
use crate::models::Features;

/// What a row holds, before anything is done to it.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Numbers, on the scale of the training files.
    Numbers(Vec<f64>),
    /// A text.
    Text(String),
}

impl Content {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Numbers(_) => "numbers",
            Self::Text(_) => "a text",
        }
    }
}

/// One example without a label.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name: a file's, or its number in a file, from 1.
    pub name: String,
    /// What it holds.
    pub content: Content,
}

impl Default for Row {
    fn default() -> Self {
        Self { name: String::new(), content: Content::Numbers(Vec::new()) }
    }
}

impl Row {
    /// Makes it a row of numbers of this name, none yet; memory that is there is used again.
    #[allow(clippy::unreachable, reason = "two lines before, it is made what it has to be")]
    pub fn begin_numbers(&mut self, name: impl ToString) -> &mut Vec<f64> {
        self.name = name.to_string();
        if let Content::Text(_) = self.content {
            self.content = Content::Numbers(Vec::new());
        }
        match &mut self.content {
            Content::Numbers(numbers) => {
                numbers.clear();
                numbers
            }
            Content::Text(_) => unreachable!("it was made numbers above"),
        }
    }

    /// Makes it a text of this name.
    pub fn begin_text(&mut self, name: impl ToString, text: &str) {
        (self.name, self.content) = (name.to_string(), Content::Text(text.into()));
    }
}

/// What came of asking for a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// It was put where it was wanted.
    Row,
    /// It is there, but not as it should be; the next one may be.
    Bad(Fault),
    /// There is none.
    End,
}

/// Rows one after another, each read when it is asked for.
pub trait Source: Send {
    /// Puts the next row into `row`.
    ///
    /// # Errors
    /// What makes it impossible to go on.
    fn next(&mut self, row: &mut Row) -> Result<Next, DataError>;

    /// What is wrong with the row that came last, with its file and place.
    fn locate(&self, fault: Fault) -> DataError;
}

/// Opens a file by the end of its name; `array` is that of an archive's array.
///
/// # Errors
/// A file that is missing, of no form that is read, or not as the network wants it.
pub fn open(path: &Path, array: Option<&str>, wanted: &Preprocessing) -> Result<Box<dyn Source>, DataError> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    let ends = |end: &str| plain.ends_with(end);
    if array.is_some() && !name.ends_with(".npz") {
        return Err(Fault::InputForm { expected: "a .npz archive, since an array is named" }.at(path));
    }
    Ok(if name.ends_with(".npz") {
        Box::new(ArrayFile::npz(path, array, wanted)?)
    } else if ends(".npy") {
        Box::new(ArrayFile::npy(path, wanted)?)
    } else if ends(".csv") {
        Box::new(TableFile::open(path, wanted)?)
    } else if ends("-ubyte") || ends(".idx") {
        Box::new(ArrayFile::idx(path, wanted)?)
    } else if ends(".txt") {
        Box::new(TextFile::open(path, wanted)?)
    } else {
        let expected = "a file that ends in .npy, .npz, .csv, .txt, .idx or -ubyte, all but .npz with .gz if packed";
        return Err(Fault::InputForm { expected }.at(path));
    })
}

/// What is done with a row that is not as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadRows {
    /// It ends everything, with its place.
    #[default]
    Refuse,
    /// It is left out and counted.
    Skip,
}

/// How many faults of rows that were left out are kept.
pub const MAX_KEPT_FAULTS: usize = 10;

/// Batches of inputs, in the order of the files.
pub struct InputStream {
    source: Box<dyn Source>,
    wanted: Preprocessing,
    size: usize,
    bad_rows: BadRows,
    skipped: u64,
    faults: Vec<DataError>,
    is_over: bool,
}

impl InputStream {
    /// Batches of `size` rows, the last of as many as are left.
    pub fn new(source: Box<dyn Source>, wanted: Preprocessing, size: usize, bad_rows: BadRows) -> Self {
        Self { source, wanted, size: size.max(1), bad_rows, skipped: 0, faults: Vec::new(), is_over: false }
    }

    /// How many rows were left out so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What was wrong with the first of them, at most [`MAX_KEPT_FAULTS`].
    pub fn faults(&self) -> &[DataError] {
        &self.faults
    }

    fn batch(&mut self) -> Result<Option<InputBatch>, DataError> {
        let (mut names, mut row) = (Vec::new(), Row::default());
        let mut inputs = match self.wanted.is_words() {
            true => HostInputs::Words(Vec::new()),
            false => HostInputs::Rows(Vec::new()),
        };
        while names.len() < self.size {
            let pushed = match self.source.next(&mut row)? {
                Next::End => break,
                Next::Bad(fault) => Err(fault),
                Next::Row => match &mut inputs {
                    HostInputs::Rows(out) => self.wanted.numbers(&row.content, out),
                    HostInputs::Words(out) => self.wanted.words(&row.content, out),
                },
            };
            match pushed {
                Ok(()) => names.push(std::mem::take(&mut row.name)),
                Err(fault) => self.bad(fault)?,
            }
        }
        Ok((!names.is_empty()).then_some(InputBatch { names, inputs }))
    }

    fn bad(&mut self, fault: Fault) -> Result<(), DataError> {
        let error = self.source.locate(fault);
        if self.bad_rows == BadRows::Refuse {
            return Err(error);
        }
        self.skipped += 1;
        if self.faults.len() < MAX_KEPT_FAULTS {
            self.faults.push(error);
        }
        Ok(())
    }
}

impl Iterator for InputStream {
    type Item = Result<InputBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = self.batch().transpose();
        self.is_over = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl std::fmt::Debug for InputStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { size, bad_rows, skipped, is_over, .. } = self;
        f.debug_struct("InputStream")
            .field("size", size)
            .field("bad_rows", bad_rows)
            .field("skipped", skipped)
            .field("is_over", is_over)
            .finish_non_exhaustive()
    }
}

/// Examples without labels, on the host, with their names.
#[derive(Clone, Debug, PartialEq)]
pub struct InputBatch {
    names: Vec<String>,
    inputs: HostInputs,
}

impl InputBatch {
    /// How many examples.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names, and the inputs as tensors; nothing is copied.
    pub fn on(self, device: &Device) -> (Vec<String>, Features) {
        let features = self.inputs.on(self.names.len(), device);
        (self.names, features)
    }
}
