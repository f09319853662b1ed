//! Data sets in memory: inputs and targets, one row an example, and batches gathered from them.

use std::sync::Arc;

use super::digest::Digest;
use super::error::DataError;
use super::preprocessing::Preprocessing;

/// A data set in three parts that share their widths, scalings and classes.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSet {
    /// What was asked for: a name or a path.
    pub name: String,
    /// Examples to train on.
    pub train: Split,
    /// Examples to choose settings by; may be empty.
    pub validation: Split,
    /// Examples to judge by; may be empty.
    pub test: Split,
    /// Names of the classes if the files have names; otherwise empty, and a class is its number.
    pub class_names: Vec<String>,
    /// SHA-256 of all numbers above, in hexadecimal: the same digest, the same data.
    pub digest: String,
    /// How the inputs were made of the files, for more of them.
    pub preprocessing: Preprocessing,
}

/// One part of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// What the network sees.
    pub inputs: Inputs,
    /// What it shall say.
    pub targets: Targets,
}

/// Inputs, row-major, `width` numbers a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Inputs {
    /// Pixels, which stay bytes until a batch is gathered. Images are `[H, W, C]`, channels last.
    Bytes {
        /// The bytes, `[len, width]`.
        data: Vec<u8>,
        /// Numbers a row.
        width: usize,
        /// How a byte becomes a number.
        scaling: Scaling,
    },
    /// Numbers, standardised if `units` says so.
    Floats {
        /// The numbers, `[len, width]`.
        data: Vec<f32>,
        /// Numbers a row.
        width: usize,
        /// How to get the file's numbers back.
        units: Units,
    },
    /// Numbers of words.
    Tokens {
        /// The numbers, `[len, width]`.
        data: Vec<u32>,
        /// Words a row.
        width: usize,
    },
}

/// Targets, one row an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// One class an example.
    Classes {
        /// From 0 to `num_classes − 1`.
        labels: Vec<u32>,
        /// How many classes there are.
        num_classes: usize,
    },
    /// `width` numbers an example, standardised if `units` says so.
    Values {
        /// The numbers, `[len, width]`.
        data: Vec<f32>,
        /// Numbers a row.
        width: usize,
        /// How to get the file's numbers back, for metrics in original units.
        units: Units,
    },
}

/// How a byte becomes a number.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// byte/divisor − offset
    Uniform {
        /// What bytes are divided by.
        divisor: f32,
        /// What is subtracted.
        offset: f32,
    },
    /// byte/divisor − means\[place\]
    Centered {
        /// What bytes are divided by.
        divisor: f32,
        /// The mean of each place over the training examples, after the division; `[width]`.
        means: Arc<[f32]>,
    },
}

/// The file's number is stored · scale + loc, column by column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Units {
    /// Means of the training examples; empty if nothing was standardised.
    pub loc: Vec<f32>,
    /// Their standard deviations; 1 where a column is constant.
    pub scale: Vec<f32>,
}

impl DataSet {
    pub(crate) fn new(name: &str, [train, validation, test]: [Split; 3], preprocessing: Preprocessing) -> Self {
        let (name, digest) = (name.into(), digest_of([&train, &validation, &test]));
        Self { name, train, validation, test, class_names: Vec::new(), digest, preprocessing }
    }

    /// The same with only the first `limit` training examples.
    pub(crate) fn limited(mut self, limit: usize) -> Self {
        self.train.split_off(limit);
        self.digest = digest_of([&self.train, &self.validation, &self.test]);
        self
    }
}

fn digest_of(splits: [&Split; 3]) -> String {
    let mut digest = Digest::default();
    splits.into_iter().for_each(|split| digest.split(split));
    digest.hex()
}

impl Scaling {
    /// The number that a byte at this place becomes, or what lies between two; as [`Inputs::gather`] does it.
    pub fn apply(&self, place: usize, byte: f32) -> f32 {
        match self {
            Self::Uniform { divisor, offset } => byte / divisor - offset,
            Self::Centered { divisor, means } => byte / divisor - means.get(place).copied().unwrap_or_default(),
        }
    }
}

impl Split {
    /// How to get the file's targets back; nothing to do for classes.
    pub fn target_units(&self) -> Units {
        match &self.targets {
            Targets::Values { units, .. } => units.clone(),
            Targets::Classes { .. } => Units::default(),
        }
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        match &self.targets {
            Targets::Classes { labels, .. } => labels.len(),
            Targets::Values { data, width, .. } => data.len() / width.max(&1),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The examples from `first` on, taken out.
    pub(crate) fn split_off(&mut self, first: usize) -> Self {
        let first = first.min(self.len());
        Self { inputs: self.inputs.split_off(first), targets: self.targets.split_off(first) }
    }
}

impl Inputs {
    /// Numbers a row.
    pub fn width(&self) -> usize {
        match self {
            Self::Bytes { width, .. } | Self::Floats { width, .. } | Self::Tokens { width, .. } => *width,
        }
    }

    /// Fills `out` with the inputs of `rows`, scaled.
    ///
    /// # Shapes
    /// - out: `[rows.len(), width]`
    ///
    /// # Errors
    /// A row that does not exist; inputs that are words.
    pub fn gather(&self, rows: &[usize], out: &mut Vec<f32>) -> Result<(), DataError> {
        match self {
            Self::Bytes { data, width, scaling: Scaling::Uniform { divisor, offset } } => {
                gather(data, *width, rows, out, |_, byte| f32::from(byte) / divisor - offset)
            }
            Self::Bytes { data, width, scaling: Scaling::Centered { divisor, means } } => {
                let mean = |place: usize| means.get(place).copied().unwrap_or_default();
                gather(data, *width, rows, out, |place, byte| f32::from(byte) / divisor - mean(place))
            }
            Self::Floats { data, width, .. } => gather(data, *width, rows, out, |_, number| number),
            Self::Tokens { .. } => Err(DataError::Kind { expected: "numbers", found: "words" }),
        }
    }

    /// Fills `out` with the words of `rows`.
    ///
    /// # Shapes
    /// - out: `[rows.len(), width]`
    ///
    /// # Errors
    /// A row that does not exist; inputs that are not words.
    pub fn gather_tokens(&self, rows: &[usize], out: &mut Vec<i32>) -> Result<(), DataError> {
        match self {
            // Readers refuse words beyond a vocabulary that fits.
            Self::Tokens { data, width } => gather(data, *width, rows, out, |_, word| word as i32),
            _ => Err(DataError::Kind { expected: "words", found: "numbers" }),
        }
    }

    fn split_off(&mut self, row: usize) -> Self {
        match self {
            Self::Bytes { data, width, scaling } => {
                Self::Bytes { data: data.split_off(row * *width), width: *width, scaling: scaling.clone() }
            }
            Self::Floats { data, width, units } => {
                Self::Floats { data: data.split_off(row * *width), width: *width, units: units.clone() }
            }
            Self::Tokens { data, width } => Self::Tokens { data: data.split_off(row * *width), width: *width },
        }
    }
}

impl Targets {
    /// Fills `out` with the classes of `rows`.
    ///
    /// # Errors
    /// A row that does not exist; targets that are not classes.
    pub fn gather_classes(&self, rows: &[usize], out: &mut Vec<u32>) -> Result<(), DataError> {
        match self {
            Self::Classes { labels, .. } => gather(labels, 1, rows, out, |_, label| label),
            Self::Values { .. } => Err(DataError::Kind { expected: "classes", found: "values" }),
        }
    }

    /// Fills `out` with the values of `rows`.
    ///
    /// # Shapes
    /// - out: `[rows.len(), width]`
    ///
    /// # Errors
    /// A row that does not exist; targets that are not values.
    pub fn gather_values(&self, rows: &[usize], out: &mut Vec<f32>) -> Result<(), DataError> {
        match self {
            Self::Values { data, width, .. } => gather(data, *width, rows, out, |_, value| value),
            Self::Classes { .. } => Err(DataError::Kind { expected: "values", found: "classes" }),
        }
    }

    fn split_off(&mut self, row: usize) -> Self {
        match self {
            Self::Classes { labels, num_classes } => {
                Self::Classes { labels: labels.split_off(row), num_classes: *num_classes }
            }
            Self::Values { data, width, units } => {
                Self::Values { data: data.split_off(row * *width), width: *width, units: units.clone() }
            }
        }
    }
}

/// One pass over the rows: `out[r][place] = convert(place, data[rows[r]][place])`, on the calling thread: batches are
/// gathered beside the training that the other threads are busy with, and may not wait for them.
fn gather<T, U>(
    data: &[T],
    width: usize,
    rows: &[usize],
    out: &mut Vec<U>,
    convert: impl Fn(usize, T) -> U,
) -> Result<(), DataError>
where
    T: Copy,
    U: Copy + Default,
{
    let len = data.len() / width.max(1);
    if let Some(&row) = rows.iter().find(|&&row| row >= len) {
        return Err(DataError::Row { row, len });
    }
    // What is there from the batch before is overwritten, so only a larger batch costs more than its one pass.
    out.resize(rows.len() * width, U::default());
    let fill = |(out, &row): (&mut [U], &usize)| {
        let source = data.get(row * width..(row + 1) * width).unwrap_or_default();
        for (place, (out, &number)) in out.iter_mut().zip(source).enumerate() {
            *out = convert(place, number);
        }
    };
    out.chunks_exact_mut(width.max(1)).zip(rows).for_each(fill);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(data: Vec<u8>, width: usize, scaling: Scaling) -> Inputs {
        Inputs::Bytes { data, width, scaling }
    }

    fn signed() -> Scaling {
        Scaling::Uniform { divisor: 127.5, offset: 1.0 }
    }

    #[test]
    fn gathered_bytes_are_scaled_in_the_order_of_the_rows() {
        let inputs = bytes(vec![0, 255, 51, 204, 255, 0], 2, signed());
        let mut out = vec![9.0; 7];
        inputs.gather(&[2, 0, 2], &mut out).unwrap();
        assert_eq!(out, [1.0, -1.0, -1.0, 1.0, 1.0, -1.0]);
        inputs.gather(&[1], &mut out).unwrap();
        assert_eq!(out, [51.0f32 / 127.5 - 1.0, 204.0f32 / 127.5 - 1.0]);
        inputs.gather(&[], &mut out).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn centred_bytes_lose_the_mean_of_their_own_place() {
        let scaling = Scaling::Centered { divisor: 255.0, means: [0.25, 0.5].into() };
        let mut out = Vec::new();
        bytes(vec![255, 0, 0, 255], 2, scaling).gather(&[1, 0], &mut out).unwrap();
        assert_eq!(out, [-0.25, 0.5, 0.75, -0.5]);
    }

    #[test]
    fn rows_and_kinds_that_are_not_there_are_refused() {
        let tokens = Inputs::Tokens { data: vec![1, 2, 3, 4], width: 2 };
        let classes = Targets::Classes { labels: vec![7, 8], num_classes: 9 };
        let values = Targets::Values { data: vec![0.5, 1.5], width: 1, units: Units::default() };
        let (mut ints, mut floats, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        tokens.gather_tokens(&[1, 0], &mut ints).unwrap();
        classes.gather_classes(&[1, 1, 0], &mut labels).unwrap();
        values.gather_values(&[1], &mut floats).unwrap();
        assert_eq!((&ints[..], &labels[..], &floats[..]), (&[3, 4, 1, 2][..], &[8, 8, 7][..], &[1.5][..]));
        assert_eq!(tokens.gather_tokens(&[2], &mut ints), Err(DataError::Row { row: 2, len: 2 }));
        let wrong = [
            tokens.gather(&[0], &mut floats),
            bytes(vec![1], 1, signed()).gather_tokens(&[0], &mut ints),
            classes.gather_values(&[0], &mut floats),
            values.gather_classes(&[0], &mut labels),
        ];
        assert!(wrong.iter().all(|result| matches!(result, Err(DataError::Kind { .. }))), "{wrong:?}");
    }

    #[test]
    fn splitting_off_takes_the_last_examples_with_their_targets() {
        let inputs = bytes((0..10).collect(), 2, signed());
        let targets = Targets::Classes { labels: vec![0, 1, 2, 3, 4], num_classes: 5 };
        let mut train = Split { inputs, targets };
        let last = train.split_off(3);
        assert_eq!((train.len(), last.len()), (3, 2));
        assert_eq!(last.inputs, bytes(vec![6, 7, 8, 9], 2, signed()));
        assert_eq!(last.targets, Targets::Classes { labels: vec![3, 4], num_classes: 5 });
        assert!(train.split_off(99).is_empty());
    }
}
