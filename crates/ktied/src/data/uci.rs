//! The regression tables of the UCI repository with the divisions that papers on Bayesian networks share.
//!
//! A table is a folder `NAME/data` with `data.txt` (numbers, separated by white space), `index_features.txt` and
//! `index_target.txt` (columns, from 0), and for each division i `index_train_i.txt` and `index_test_i.txt` (rows, from 0).
//! Without the column files the last column is the target; without divisions a seeded one is made.
//! Y. Gal, Z. Ghahramani, *Dropout as a Bayesian Approximation*, ICML 2016, published them in this form.

use std::path::{Path, PathBuf};

use super::bounded::read_text;
use super::error::{DataError, Fault, quote};
use super::raw::{Raw, RawInputs, RawTargets, Rows};
use super::set::DataSet;
use super::spec::DataSpec;

pub(crate) const MAX_TEXT_BYTES: usize = 1 << 27;
const MAX_COLUMNS: usize = 1 << 12;

/// The folder of a table: `uci/NAME/data`, `uci/UCI_Datasets/NAME/data`, or either without `data`.
pub(crate) fn folder(uci: &Path, table: &str) -> Option<PathBuf> {
    let roots = [uci.join(table), uci.join("UCI_Datasets").join(table)];
    let folders = roots.into_iter().flat_map(|root| [root.join("data"), root]);
    folders.into_iter().find(|folder| folder.join("data.txt").is_file())
}

/// The names of the files that list columns and rows, in a fixed order.
pub(crate) fn lists(folder: &Path) -> Vec<String> {
    let pair = |split: usize| ["train", "test"].map(|part| format!("index_{part}_{split}.txt"));
    let pairs = (0..).map(pair).take_while(|[train, _]| folder.join(train).is_file());
    ["index_features.txt", "index_target.txt"].map(String::from).into_iter().chain(pairs.flatten()).collect()
}

/// A table: inputs and target standardised by the training rows, `spec.validation` of which are kept for validation.
///
/// # Errors
/// A file that is missing or wrong.
pub fn load(name: &str, folder: &Path, spec: &DataSpec) -> Result<DataSet, DataError> {
    let path = folder.join("data.txt");
    let table = Table::parse(&read_text(&path, MAX_TEXT_BYTES)?).map_err(|fault| fault.at(&path))?;
    let features = columns(folder, "index_features.txt", table.width)?;
    let target = columns(folder, "index_target.txt", table.width)?;
    let last = table.width.saturating_sub(1);
    let (features, target) = (features.unwrap_or((0..last).collect()), target.unwrap_or(vec![last]));
    let rows = rows(folder, table.len(), spec)?;
    let raw = Raw {
        inputs: RawInputs::Floats { data: table.select(&features), width: features.len() },
        targets: RawTargets::Values { data: table.select(&target), width: target.len() },
    };
    raw.into_set(name, &rows, spec.standardize).map_err(|fault| fault.at(&path))
}

/// Rows of numbers, equally many in each.
#[derive(Debug, PartialEq)]
struct Table {
    data: Vec<f64>,
    width: usize,
}

impl Table {
    fn parse(text: &str) -> Result<Self, Fault> {
        let mut table = Self { data: Vec::new(), width: 0 };
        for (line, row) in (1..).zip(text.trim_end().lines()) {
            let start = table.data.len();
            for (column, field) in (1..).zip(row.split_ascii_whitespace()) {
                table.data.push(number(field).ok_or_else(|| Fault::Number {
                    line,
                    column,
                    found: quote(field.as_bytes()),
                })?);
            }
            let found = table.data.len() - start;
            match table.width {
                _ if found > MAX_COLUMNS => {
                    return Err(Fault::TooLarge { what: "columns", limit: MAX_COLUMNS, found: found.to_string() });
                }
                0 if found > 0 => table.width = found,
                expected if found != expected || found == 0 => return Err(Fault::Columns { line, expected, found }),
                _ => {}
            }
        }
        match table.width {
            0 => Err(Fault::Empty { what: "row" }),
            1 => Err(Fault::Columns { line: 1, expected: 2, found: 1 }),
            _ => Ok(table),
        }
    }

    fn len(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    fn select(&self, columns: &[usize]) -> Vec<f64> {
        let rows = self.data.chunks_exact(self.width.max(1));
        rows.flat_map(|row| columns.iter().filter_map(|&column| row.get(column).copied())).collect()
    }
}

/// A number that stays finite in single precision.
pub(crate) fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.abs() <= f64::from(f32::MAX))
}

/// A list of columns, if its file is there.
fn columns(folder: &Path, file: &str, width: usize) -> Result<Option<Vec<usize>>, DataError> {
    let path = folder.join(file);
    if !path.is_file() {
        return Ok(None);
    }
    indices(&path, "a column", width).map(Some)
}

/// The rows of division `spec.split`, or of a seeded one if the folder has none.
fn rows(folder: &Path, len: usize, spec: &DataSpec) -> Result<Rows, DataError> {
    let path = |part: &str, split: usize| folder.join(format!("index_{part}_{split}.txt"));
    if !path("train", 0).is_file() {
        let all: Vec<usize> = (0..len).collect();
        return Ok(Rows::divide(&all, spec.validation, spec.test, spec.seed));
    }
    if !path("train", spec.split).is_file() {
        let found = (0..spec.split).take_while(|&split| path("train", split).is_file()).count();
        let expected = format!("less than {found}, the number of divisions of this table");
        return Err(DataError::Setting { key: "split", expected, found: spec.split.to_string() });
    }
    let (train, test) = (path("train", spec.split), path("test", spec.split));
    let (train_rows, test_rows) = (indices(&train, "a row", len)?, indices(&test, "a row", len)?);
    once(&train_rows, &test_rows, len).map_err(|fault| fault.at(&test))?;
    Ok(Rows { test: test_rows, ..Rows::divide(&train_rows, spec.validation, 0.0, spec.seed) })
}

/// Whole numbers below `len`, one a line, each once.
fn indices(path: &Path, what: &'static str, len: usize) -> Result<Vec<usize>, DataError> {
    let text = read_text(path, MAX_TEXT_BYTES)?;
    parse_indices(&text, what, len).map_err(|fault| fault.at(path))
}

fn parse_indices(text: &str, what: &'static str, len: usize) -> Result<Vec<usize>, Fault> {
    let parsed = (1..).zip(text.trim_end().lines()).map(|(line, field)| {
        let number = field.trim().parse().ok().filter(|&number| number < len);
        number.ok_or_else(|| Fault::Index { line, what, max: len.saturating_sub(1), found: quote(field.as_bytes()) })
    });
    let indices = parsed.collect::<Result<Vec<usize>, _>>()?;
    if indices.is_empty() {
        return Err(Fault::Empty { what: "line" });
    }
    once(&[], &indices, len)?;
    Ok(indices)
}

/// Refuses a number of `indices` that stands there twice or among `others` too.
fn once(others: &[usize], indices: &[usize], len: usize) -> Result<(), Fault> {
    let mut seen = vec![false; len];
    let mut is_new = |index: usize| seen.get_mut(index).is_none_or(|seen| !std::mem::replace(seen, true));
    others.iter().for_each(|&other| _ = is_new(other));
    match (1..).zip(indices).find(|&(_, &index)| !is_new(index)) {
        Some((line, &found)) => Err(Fault::Repeated { line, what: "number", found }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bounded::tests::Folder;
    use super::super::set::{Inputs, Targets, Units};
    use super::*;

    fn spec() -> DataSpec {
        DataSpec { validation: 0.0, ..DataSpec::default() }
    }

    /// Column 1 is the target, column 2 nobody's; rows 0 and 2 train in division 0, rows 1 and 3 in division 1.
    fn tiny() -> Folder {
        let folder = Folder::new();
        folder.file("data.txt", "  1.0  10 7\n2e0\t20 7 \n 3 30 7\n4 40 7\n\n");
        folder.file("index_features.txt", "0\n");
        folder.file("index_target.txt", "1");
        for (i, (train, test)) in [("0\n2\n", "1\n3\n"), ("1\n3\n", "0\n2\n")].into_iter().enumerate() {
            folder.file(&format!("index_train_{i}.txt"), train);
            folder.file(&format!("index_test_{i}.txt"), test);
        }
        folder
    }

    fn refusal(text: &str) -> String {
        Table::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn columns_and_divisions_are_those_of_the_files() {
        let folder = tiny();
        let set = load("uci/t", &folder.0, &spec()).unwrap();
        let units = |loc: f32, scale: f32| Units { loc: vec![loc], scale: vec![scale] };
        let inputs = |data: &[f32]| Inputs::Floats { data: data.into(), width: 1, units: units(2.0, 1.0) };
        let targets = |data: &[f32]| Targets::Values { data: data.into(), width: 1, units: units(20.0, 10.0) };
        // The training rows come in random order.
        let mut train = Vec::new();
        set.train.inputs.gather(&[0, 1], &mut train).unwrap();
        train.sort_by(f32::total_cmp);
        assert_eq!(train, [-1.0, 1.0]);
        assert_eq!((set.test.inputs, set.test.targets), (inputs(&[0.0, 2.0]), targets(&[0.0, 2.0])));
        assert!(set.validation.is_empty());
        let other = load("uci/t", &folder.0, &DataSpec { split: 1, ..spec() }).unwrap();
        let mut test = Vec::new();
        other.test.inputs.gather(&[0, 1], &mut test).unwrap();
        assert_eq!(test, [-2.0, 0.0]);
        let beyond = load("uci/t", &folder.0, &DataSpec { split: 2, ..spec() }).unwrap_err().to_string();
        assert_eq!(beyond, "data.split must be less than 2, the number of divisions of this table, got 2");
    }

    #[test]
    fn a_table_alone_has_its_target_last_and_a_seeded_division() {
        let folder = Folder::new();
        let rows: String = (0..20).map(|i| format!("{i} {} {}\n", i * i, -i)).collect();
        folder.file("t/data.txt", rows);
        let found = super::folder(&folder.0, "t").unwrap();
        let set = load("uci/t", &found, &DataSpec { validation: 0.1, test: 0.2, ..spec() }).unwrap();
        assert_eq!((set.train.len(), set.validation.len(), set.test.len()), (14, 2, 4));
        assert_eq!(set.train.inputs.width(), 2);
        let Targets::Values { units, width: 1, .. } = &set.train.targets else { panic!("{set:?}") };
        assert!(units.loc[0] < 0.0, "only the last column is negative");
        assert!(super::folder(&folder.0, "u").is_none());
    }

    #[test]
    fn every_way_a_table_can_lie_has_its_sentence() {
        assert_eq!(refusal("1 2\n3 x4\n"), "line 2, column 2: expected a finite number, found `x4`");
        assert_eq!(refusal("1 nan\n"), "line 1, column 2: expected a finite number, found `nan`");
        assert_eq!(refusal("1 1e39\n"), "line 1, column 2: expected a finite number, found `1e39`");
        assert_eq!(refusal("1 2\n3\n"), "line 2: expected 2 columns, found 1");
        assert_eq!(refusal("1 2\n\n3 4\n"), "line 2: expected 2 columns, found 0");
        assert_eq!(refusal("1\n2\n"), "line 1: expected 2 columns, found 1");
        assert_eq!(refusal("\n"), "expected at least one row, found none");
        assert_eq!(refusal(&"1 ".repeat(5000)), "expected at most 4096 columns, found 5000");
    }

    #[test]
    fn every_way_a_list_can_lie_has_its_sentence() {
        let refusal = |text| parse_indices(text, "a row", 4).unwrap_err().to_string();
        assert_eq!(parse_indices("3\n0 \n", "a row", 4), Ok(vec![3, 0]));
        assert_eq!(refusal("0\n4\n"), "line 2: expected a row from 0 to 3, found `4`");
        assert_eq!(refusal("-1\n"), "line 1: expected a row from 0 to 3, found `-1`");
        assert_eq!(refusal("0.5\n"), "line 1: expected a row from 0 to 3, found `0.5`");
        assert_eq!(refusal(""), "expected at least one line, found none");
        assert_eq!(refusal("2\n1\n2\n"), "line 3: expected each number once, found 2 again");
        let folder = tiny();
        folder.file("index_test_0.txt", "1\n2\n");
        let error = load("uci/t", &folder.0, &spec()).unwrap_err().to_string();
        assert!(error.ends_with("index_test_0.txt: line 2: expected each number once, found 2 again"), "{error}");
    }
}
