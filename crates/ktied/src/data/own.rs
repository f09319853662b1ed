//! A user's own data: a .npz archive, a folder of .npy files, or a CSV table.
//!
//! - `.npz`: `x_train` and `y_train`, and if the file says how it is divided, `x_val`, `y_val` and `x_test`, `y_test`;
//! - a folder: `x.npy` and `y.npy`;
//! - `.csv`: a header, numeric features, and a label column, `data.label` (`label` if that is not set).
//!
//! The first dimension counts examples. Inputs of bytes are pixels and become 0 to 1; floating-point numbers are
//! standardised (`data.standardize`); whole numbers of 32 or 64 bits are words of a vocabulary. What the files do not divide,
//! `data.validation`, `data.test` and `data.seed` do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::bounded::{MAX_BYTES, checked_len, read_file, with_contents};
use super::csv::Csv;
use super::error::{DataError, Fault, product};
use super::npy::{Npy, Values};
use super::npz;
use super::preprocessing::Steps;
use super::raw::{MAX_CLASSES, Raw, RawInputs, RawTargets, Rows};
use super::set::DataSet;
use super::spec::{DataSpec, Task};
use super::uci::number;

const ARRAYS: [&str; 6] = ["x_train", "y_train", "x_val", "y_val", "x_test", "y_test"];
/// With more different whole numbers than this, `task = "auto"` takes a table's labels for values.
const MAX_AUTO_CLASSES: usize = 100;
/// The label column of a table if nobody names one.
const DEFAULT_LABEL: &str = "label";

/// The data set in a .npz archive.
///
/// # Errors
/// A file that is missing or wrong.
pub fn load_npz(path: &Path, spec: &DataSpec) -> Result<DataSet, DataError> {
    let bytes = read_file(path, MAX_BYTES)?;
    npz_set(&bytes, &path.to_string_lossy(), spec).map_err(|fault| fault.at(path))
}

/// The data set in a folder with `x.npy` and `y.npy`.
///
/// # Errors
/// A file that is missing or wrong.
pub fn load_folder(folder: &Path, spec: &DataSpec) -> Result<DataSet, DataError> {
    let array = |name: &str| with_contents(&folder.join(name), |reader| Npy::parse(reader));
    let (x, y) = (array("x.npy")?, array("y.npy")?);
    let set = part(x, y, spec).and_then(|raw| raw.divided(&folder.to_string_lossy(), spec));
    set.map_err(|fault| fault.at(folder))
}

/// The data set in a CSV table.
///
/// # Errors
/// A file that is missing or wrong.
pub fn load_csv(path: &Path, spec: &DataSpec) -> Result<DataSet, DataError> {
    let bytes = read_file(path, MAX_BYTES)?;
    csv_set(&bytes, &path.to_string_lossy(), spec).map_err(|fault| fault.at(path))
}

fn npz_set(bytes: &[u8], name: &str, spec: &DataSpec) -> Result<DataSet, Fault> {
    let mut arrays = npz::parse(bytes, &ARRAYS)?;
    let names = arrays.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut all: Option<Raw> = None;
    let mut lens = [0; 3];
    for (len, pair) in lens.iter_mut().zip(ARRAYS.as_chunks::<2>().0) {
        let [x, y] = pair;
        let raw = match (arrays.remove(*x), arrays.remove(*y)) {
            (None, None) if *x != "x_train" => continue,
            (Some(x), Some(y)) => part(x, y, spec)?,
            (None, _) => return Err(Fault::NoArray { name: x, names }),
            (_, None) => return Err(Fault::NoArray { name: y, names }),
        };
        *len = raw.len();
        all = Some(match all {
            None => raw,
            Some(all) => all.followed_by(raw).map_err(|fault| fault.within(x))?,
        });
    }
    let all = all.ok_or(Fault::NoArray { name: "x_train", names })?;
    all.into_set(name, &given_rows(lens, spec), spec.standardize)
}

/// The rows of arrays that follow each other; what has no array of its own is taken from the training rows.
fn given_rows([train, validation, test]: [usize; 3], spec: &DataSpec) -> Rows {
    let all: Vec<usize> = (0..train + validation + test).collect();
    let (first, rest) = all.split_at(train);
    let (second, third) = rest.split_at(validation);
    let frac = |len, frac| if len == 0 { frac } else { 0.0 };
    let divided = Rows::divide(first, frac(validation, spec.validation), frac(test, spec.test), spec.seed);
    let given = |rows: &[usize], divided| if rows.is_empty() { divided } else { rows.to_vec() };
    Rows { train: divided.train, validation: given(second, divided.validation), test: given(third, divided.test) }
}

fn part(x: Npy, y: Npy, spec: &DataSpec) -> Result<Raw, Fault> {
    let (shape, wanted) = (product(&y.shape), x.shape.first().copied());
    let raw = Raw {
        inputs: inputs(x, spec.vocabulary).map_err(|f| f.within("x"))?,
        targets: targets(y, spec.task).map_err(|f| f.within("y"))?,
    };
    match wanted {
        Some(len) if len == raw.len() => Ok(raw),
        _ => Err(Fault::Shape {
            expected: format!("{}×… of y, one row for each of x", wanted.unwrap_or(0)),
            found: shape,
        }),
    }
}

fn inputs(Npy { shape, values }: Npy, vocabulary: usize) -> Result<RawInputs, Fault> {
    let (len, rest) = shape.split_first().ok_or(Fault::Empty { what: "dimension" })?;
    let width = checked_len(rest, "numbers a row", MAX_BYTES)?;
    if *len == 0 || width == 0 {
        return Err(Fault::Empty { what: "number" });
    }
    let size = vocabulary;
    Ok(match values {
        Values::U8(data) => RawInputs::Bytes { data, width, image: image(rest) },
        Values::F32(data) => RawInputs::Floats { data: finite(data)?, width },
        Values::F64(data) => RawInputs::Floats { data: finite(data)?, width },
        Values::I32(data) => RawInputs::Tokens { data: below(data, vocabulary, "a word")?, width, size },
        Values::I64(data) => RawInputs::Tokens { data: below(data, vocabulary, "a word")?, width, size },
    })
}

/// Height, width and channels of an image of bytes, channels last, if the shape is one's.
fn image(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [height, width] => Some([height, width, 1]),
        [height, width, channels @ (1 | 3)] => Some([height, width, channels]),
        _ => None,
    }
}

fn targets(Npy { shape, values }: Npy, task: Task) -> Result<RawTargets, Fault> {
    let width = match shape[..] {
        [_] | [_, 1] => 1,
        [_, width] if width > 0 => width,
        _ => return Err(Fault::Shape { expected: "N or N×width".into(), found: product(&shape) }),
    };
    let is_float = matches!(values, Values::F32(_) | Values::F64(_));
    if task == Task::Values || (task == Task::Auto && is_float) {
        return Ok(RawTargets::Values { data: numbers(values)?, width });
    }
    if width != 1 {
        return Err(Fault::Shape { expected: "N or N×1 for classes".into(), found: product(&shape) });
    }
    let labels = match values {
        Values::U8(data) => data.into_iter().map(u32::from).collect(),
        Values::I32(data) => below(data, MAX_CLASSES, "a class")?,
        Values::I64(data) => below(data, MAX_CLASSES, "a class")?,
        Values::F32(_) | Values::F64(_) => whole(&numbers(values)?)?,
    };
    Ok(RawTargets::Classes { labels })
}

fn numbers(values: Values) -> Result<Vec<f64>, Fault> {
    match values {
        Values::F32(data) => finite(data),
        Values::F64(data) => finite(data),
        Values::U8(data) => finite(data),
        Values::I32(data) => finite(data),
        // Beyond 2⁵³ neighbours meet, as they would in any floating-point number.
        Values::I64(data) => finite(data.into_iter().map(|x| x as f64).collect()),
    }
}

/// Numbers that stay finite in single precision.
fn finite<T: Into<f64>>(data: Vec<T>) -> Result<Vec<f64>, Fault> {
    let checked = data.into_iter().map(Into::into).enumerate().map(|(place, found): (usize, f64)| {
        if found.abs() <= f64::from(f32::MAX) { Ok(found) } else { Err(Fault::NotFinite { place, found }) }
    });
    checked.collect()
}

fn below<T: Into<i64>>(data: Vec<T>, limit: usize, what: &'static str) -> Result<Vec<u32>, Fault> {
    let checked = (1..).zip(data).map(|(row, number)| {
        let number: i64 = number.into();
        let in_range = u32::try_from(number).ok().filter(|&number| (number as usize) < limit);
        in_range.ok_or_else(|| Fault::Label { row, what, max: limit.saturating_sub(1), found: number.to_string() })
    });
    checked.collect()
}

/// Classes that were written as floating-point numbers.
fn whole(data: &[f64]) -> Result<Vec<u32>, Fault> {
    let checked = (1..).zip(data).map(|(row, &x)| match x >= 0.0 && x < MAX_CLASSES as f64 && x.fract() == 0.0 {
        true => Ok(x as u32),
        false => Err(Fault::Label { row, what: "a class", max: MAX_CLASSES - 1, found: x.to_string() }),
    });
    checked.collect()
}

fn csv_set(bytes: &[u8], name: &str, spec: &DataSpec) -> Result<DataSet, Fault> {
    let label = spec.label.as_deref().unwrap_or(DEFAULT_LABEL);
    let Csv { columns, features, labels } = Csv::parse(bytes, label)?;
    let (targets, class_names) = csv_targets(labels, spec.task)?;
    let raw = Raw { inputs: RawInputs::Floats { data: features, width: columns.len() }, targets };
    let mut set = raw.divided(name, spec)?;
    if let Steps::Columns { names, .. } = &mut set.preprocessing.steps {
        *names = columns;
    }
    Ok(DataSet { class_names, ..set })
}

/// Whole numbers are classes as they are; other classes are numbered in the order of their names.
fn csv_targets(labels: Vec<String>, task: Task) -> Result<(RawTargets, Vec<String>), Fault> {
    let class = |label: &String| label.parse::<u32>().ok().filter(|&class| (class as usize) < MAX_CLASSES);
    let classes: Option<Vec<u32>> = labels.iter().map(class).collect();
    let values = || labels.iter().map(|label| number(label)).collect::<Option<Vec<f64>>>();
    let few = |classes: &[u32]| classes.iter().collect::<BTreeSet<_>>().len() <= MAX_AUTO_CLASSES;
    let as_values = match task {
        Task::Values => true,
        Task::Classes => false,
        Task::Auto => classes.as_ref().map_or_else(|| values().is_some(), |classes| !few(classes)),
    };
    if as_values {
        let bad = || (2..).zip(&labels).find(|(_, label)| number(label).is_none());
        let data = values().ok_or_else(|| {
            let (line, found) = bad().map_or((0, String::new()), |(line, label)| (line, label.clone()));
            Fault::CsvValue { line, found }
        })?;
        return Ok((RawTargets::Values { data, width: 1 }, Vec::new()));
    }
    if let Some(labels) = classes {
        return Ok((RawTargets::Classes { labels }, Vec::new()));
    }
    let names: BTreeSet<&String> = labels.iter().collect();
    let ids: BTreeMap<&String, u32> = names.iter().copied().zip(0..).collect();
    let numbered = labels.iter().filter_map(|label| ids.get(label).copied()).collect();
    Ok((RawTargets::Classes { labels: numbered }, names.into_iter().cloned().collect()))
}

impl Raw {
    fn len(&self) -> usize {
        match &self.targets {
            RawTargets::Classes { labels } => labels.len(),
            RawTargets::Values { data, width } => data.len() / width.max(&1),
        }
    }

    fn divided(self, name: &str, spec: &DataSpec) -> Result<DataSet, Fault> {
        let all: Vec<usize> = (0..self.len()).collect();
        let rows = Rows::divide(&all, spec.validation, spec.test, spec.seed);
        self.into_set(name, &rows, spec.standardize)
    }

    /// The examples of both, if they are of one kind and width.
    fn followed_by(self, next: Self) -> Result<Self, Fault> {
        let inputs = match (self.inputs, next.inputs) {
            (RawInputs::Bytes { data, width, image }, RawInputs::Bytes { data: next, width: w, .. }) if w == width => {
                RawInputs::Bytes { data: [data, next].concat(), width, image }
            }
            (RawInputs::Floats { data, width }, RawInputs::Floats { data: next, width: w }) if w == width => {
                RawInputs::Floats { data: [data, next].concat(), width }
            }
            (RawInputs::Tokens { data, width, size }, RawInputs::Tokens { data: next, width: w, .. }) if w == width => {
                RawInputs::Tokens { data: [data, next].concat(), width, size }
            }
            (first, next) => return Err(Fault::Unlike { expected: first.kind(), found: next.kind() }),
        };
        let targets = match (self.targets, next.targets) {
            (RawTargets::Classes { labels }, RawTargets::Classes { labels: next }) => {
                RawTargets::Classes { labels: [labels, next].concat() }
            }
            (RawTargets::Values { data, width }, RawTargets::Values { data: next, width: w }) if w == width => {
                RawTargets::Values { data: [data, next].concat(), width }
            }
            (first, next) => return Err(Fault::Unlike { expected: first.kind(), found: next.kind() }),
        };
        Ok(Self { inputs, targets })
    }
}

impl RawInputs {
    fn kind(&self) -> String {
        match self {
            Self::Bytes { width, .. } => format!("rows of {width} bytes"),
            Self::Floats { width, .. } => format!("rows of {width} floating-point numbers"),
            Self::Tokens { width, .. } => format!("rows of {width} whole numbers"),
        }
    }
}

impl RawTargets {
    fn kind(&self) -> String {
        match self {
            Self::Classes { .. } => "classes".into(),
            Self::Values { width, .. } => format!("rows of {width} values"),
        }
    }
}

#[cfg(test)]
mod tests;
