//! Numbers as files have them, and the data set that comes of them: rows divided, columns standardised.

use ktied_kernels::{NoiseKey, Purpose};

use super::error::Fault;
use super::preprocessing::{Preprocessing, Steps};
use super::set::{DataSet, Inputs, Scaling, Split, Targets, Units};
use super::shuffle::permutation;

/// The most classes that labels may name.
pub const MAX_CLASSES: usize = 1 << 16;

/// Inputs before they are scaled, `width` a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RawInputs {
    Bytes {
        data: Vec<u8>,
        width: usize,
        image: Option<[usize; 3]>,
    },
    Floats {
        data: Vec<f64>,
        width: usize,
    },
    /// Words below `size`.
    Tokens {
        data: Vec<u32>,
        width: usize,
        size: usize,
    },
}

/// Targets before they are scaled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RawTargets {
    Classes { labels: Vec<u32> },
    Values { data: Vec<f64>, width: usize },
}

/// All examples of a data set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raw {
    pub(crate) inputs: RawInputs,
    pub(crate) targets: RawTargets,
}

/// Which rows are for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) train: Vec<usize>,
    pub(crate) validation: Vec<usize>,
    pub(crate) test: Vec<usize>,
}

impl Rows {
    /// A random division of `rows`: the last ones of a permutation to test by, those before them to validate by.
    pub(crate) fn divide(rows: &[usize], validation_frac: f64, test_frac: f64, seed: u64) -> Self {
        let order = permutation(rows.len(), NoiseKey::new(seed).child(Purpose::Shuffle));
        let mut train: Vec<usize> = order.into_iter().filter_map(|place| rows.get(place).copied()).collect();
        let part = |frac: f64| (rows.len() as f64 * frac).round() as usize;
        let test = train.split_off(train.len().saturating_sub(part(test_frac)));
        let validation = train.split_off(train.len().saturating_sub(part(validation_frac)));
        Self { train, validation, test }
    }
}

impl Raw {
    /// The data set: with `standardize`, columns of numbers have mean 0 and standard deviation 1 over the training rows.
    ///
    /// # Errors
    /// No row to train on; a class beyond [`MAX_CLASSES`].
    pub(crate) fn into_set(self, name: &str, rows: &Rows, standardize: bool) -> Result<DataSet, Fault> {
        if rows.train.is_empty() {
            return Err(Fault::Empty { what: "training example" });
        }
        let train = standardize.then_some(&rows.train[..]);
        let (inputs, preprocessing) = self.inputs.scaled(train);
        let targets = self.targets.scaled(train)?;
        let split =
            |rows: &[usize]| Split { inputs: take_inputs(&inputs, rows), targets: take_targets(&targets, rows) };
        Ok(DataSet::new(name, [split(&rows.train), split(&rows.validation), split(&rows.test)], preprocessing))
    }
}

impl RawInputs {
    fn scaled(self, train: Option<&[usize]>) -> (Inputs, Preprocessing) {
        match self {
            Self::Bytes { data, width, image } => {
                let scaling = Scaling::Uniform { divisor: 255.0, offset: 0.0 };
                let preprocessing = Preprocessing::pixels(width, scaling.clone(), u8::MAX, image);
                (Inputs::Bytes { data, width, scaling }, preprocessing)
            }
            Self::Floats { data, width } => {
                let (data, Columns { loc, scale }) = standardized(&data, width, train);
                let units = Columns::single(&loc, &scale);
                let steps = Steps::Columns { names: Vec::new(), loc, scale };
                (Inputs::Floats { data, width, units }, Preprocessing { width, steps })
            }
            Self::Tokens { data, width, size } => {
                let steps = Steps::Words { size, vocabulary: None };
                (Inputs::Tokens { data, width }, Preprocessing { width, steps })
            }
        }
    }
}

impl RawTargets {
    fn scaled(self, train: Option<&[usize]>) -> Result<Targets, Fault> {
        match self {
            Self::Classes { labels } => {
                let num_classes = labels.iter().max().map_or(0, |&max| max as usize + 1);
                if let Some(row) = labels.iter().position(|&label| label as usize >= MAX_CLASSES) {
                    let found = labels.get(row).copied().unwrap_or_default().to_string();
                    return Err(Fault::Label { row: row + 1, what: "a class", max: MAX_CLASSES - 1, found });
                }
                Ok(Targets::Classes { labels, num_classes })
            }
            Self::Values { data, width } => {
                let (data, Columns { loc, scale }) = standardized(&data, width, train);
                Ok(Targets::Values { data, width, units: Columns::single(&loc, &scale) })
            }
        }
    }
}

/// Means and standard deviations of columns; none if nothing was standardised.
#[derive(Clone, Debug, Default, PartialEq)]
struct Columns {
    loc: Vec<f64>,
    scale: Vec<f64>,
}

impl Columns {
    fn single(loc: &[f64], scale: &[f64]) -> Units {
        let single = |numbers: &[f64]| numbers.iter().map(|&x| x as f32).collect();
        Units { loc: single(loc), scale: single(scale) }
    }
}

/// (x − loc)/scale, column by column, with mean and standard deviation of the rows `train`; without them, x itself.
fn standardized(data: &[f64], width: usize, train: Option<&[usize]>) -> (Vec<f32>, Columns) {
    let Some(train) = train else {
        return (data.iter().map(|&x| x as f32).collect(), Columns::default());
    };
    let width = width.max(1);
    let (loc, scale): (Vec<f64>, Vec<f64>) = (0..width).map(|column| moments(data, width, column, train)).unzip();
    let columns = loc.iter().zip(&scale).cycle();
    let scaled = data.iter().zip(columns).map(|(x, (loc, scale))| ((x - loc) / scale) as f32).collect();
    (scaled, Columns { loc, scale })
}

/// Mean and (population) standard deviation; 1 instead of 0, so that a constant column becomes 0 and not NaN.
fn moments(data: &[f64], width: usize, column: usize, rows: &[usize]) -> (f64, f64) {
    let values = || rows.iter().filter_map(|row| data.get(row * width + column));
    let count = rows.len().max(1) as f64;
    let mean = values().sum::<f64>() / count;
    let scale = (values().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
    // The mean of equal numbers can be off by a rounding, which must not be blown up.
    (mean, if scale > mean.abs() * 1e-12 { scale } else { 1.0 })
}

fn take<T: Copy>(data: &[T], width: usize, rows: &[usize]) -> Vec<T> {
    rows.iter().filter_map(|&row| data.get(row * width..(row + 1) * width)).flatten().copied().collect()
}

fn take_inputs(inputs: &Inputs, rows: &[usize]) -> Inputs {
    match inputs {
        Inputs::Bytes { data, width, scaling } => {
            Inputs::Bytes { data: take(data, *width, rows), width: *width, scaling: scaling.clone() }
        }
        Inputs::Floats { data, width, units } => {
            Inputs::Floats { data: take(data, *width, rows), width: *width, units: units.clone() }
        }
        Inputs::Tokens { data, width } => Inputs::Tokens { data: take(data, *width, rows), width: *width },
    }
}

fn take_targets(targets: &Targets, rows: &[usize]) -> Targets {
    match targets {
        Targets::Classes { labels, num_classes } => {
            Targets::Classes { labels: take(labels, 1, rows), num_classes: *num_classes }
        }
        Targets::Values { data, width, units } => {
            Targets::Values { data: take(data, *width, rows), width: *width, units: units.clone() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_holds_every_row_once_in_the_parts_that_were_asked_for() {
        let rows: Vec<usize> = (0..50).map(|row| 2 * row).collect();
        let Rows { train, validation, test } = Rows::divide(&rows, 0.1, 0.2, 7);
        assert_eq!((train.len(), validation.len(), test.len()), (35, 5, 10));
        let mut all = [train.clone(), validation, test].concat();
        all.sort_unstable();
        assert_eq!(all, rows);
        assert_ne!(train, Rows::divide(&rows, 0.1, 0.2, 8).train, "another seed");
        let whole = Rows::divide(&rows, 0.0, 0.0, 7);
        assert_eq!((whole.train.len(), whole.validation.len(), whole.test.len()), (50, 0, 0));
    }

    /// Columns (1, 3 | 9) and (5, 5 | 7), the last row for testing: means 2 and 5, deviations 1 and none.
    #[test]
    fn columns_are_standardised_by_the_training_rows_alone() {
        let raw = Raw {
            inputs: RawInputs::Floats { data: vec![1.0, 5.0, 3.0, 5.0, 9.0, 7.0], width: 2 },
            targets: RawTargets::Values { data: vec![10.0, 30.0, 50.0], width: 1 },
        };
        let rows = Rows { train: vec![0, 1], validation: vec![], test: vec![2] };
        let set = raw.clone().into_set("t", &rows, true).unwrap();
        let units = Units { loc: vec![2.0, 5.0], scale: vec![1.0, 1.0] };
        let floats = |data: &[f32]| Inputs::Floats { data: data.into(), width: 2, units: units.clone() };
        assert_eq!(set.train.inputs, floats(&[-1.0, 0.0, 1.0, 0.0]));
        assert_eq!(set.test.inputs, floats(&[7.0, 2.0]));
        let values = |data: &[f32]| {
            let units = Units { loc: vec![20.0], scale: vec![10.0] };
            Targets::Values { data: data.into(), width: 1, units }
        };
        assert_eq!((set.train.targets, set.test.targets), (values(&[-1.0, 1.0]), values(&[3.0])));
        let plain = raw.into_set("t", &rows, false).unwrap();
        assert_eq!(plain.test.inputs, Inputs::Floats { data: vec![9.0, 7.0], width: 2, units: Units::default() });
    }

    #[test]
    fn a_constant_column_whose_mean_is_rounded_becomes_zero_not_noise() {
        let data = vec![0.1; 7];
        let (scaled, columns) = standardized(&data, 1, Some(&[0, 1, 2, 3, 4, 5, 6]));
        assert!(scaled.iter().all(|x| x.abs() < 1e-6), "{scaled:?}");
        assert_eq!(columns.scale, [1.0]);
    }

    #[test]
    fn nothing_to_train_on_and_classes_without_end_are_refused() {
        let raw = |label| Raw {
            inputs: RawInputs::Tokens { data: vec![1], width: 1, size: 2 },
            targets: RawTargets::Classes { labels: vec![label] },
        };
        let rows = |train: &[usize]| Rows { train: train.into(), validation: vec![], test: vec![] };
        assert_eq!(raw(0).into_set("t", &rows(&[]), true), Err(Fault::Empty { what: "training example" }));
        let error = raw(u32::MAX).into_set("t", &rows(&[0]), true).unwrap_err().to_string();
        assert_eq!(error, "example 1: expected a class from 0 to 65535, found 4294967295");
    }
}
