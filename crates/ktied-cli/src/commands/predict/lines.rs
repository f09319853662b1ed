//! Predictions as lines of CSV or JSON, in a file that is there whole or not at all.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ktied::data::{DataSet, Units};
use ktied::evaluate::{ClassPrediction, Predictions, ValuePrediction};
use serde_json::{Value, json};

use crate::csv::cell;
use crate::exit::Failure;

/// A form of lines, and a file under another name, until it is complete.
pub(super) struct Lines {
    is_csv: bool,
    /// None in a process that leaves writing to another.
    file: Option<Aside>,
}

struct Aside {
    path: PathBuf,
    aside: PathBuf,
    file: BufWriter<File>,
    has_header: bool,
    is_complete: bool,
}

impl Lines {
    /// Begins a file of the form that its name ends in, if this process is the one that writes it.
    pub(super) fn create(path: &Path, is_writer: bool) -> Result<Self, Failure> {
        let is_csv = match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => true,
            Some("jsonl") => false,
            _ => {
                return Err(Failure::Usage(format!(
                    "--out {}: expected a name that ends in .csv or .jsonl",
                    path.display()
                )));
            }
        };
        if !is_writer {
            return Ok(Self { is_csv, file: None });
        }
        if path.exists() {
            return Err(Failure::Usage(format!("--out {}: there is a file of this name already", path.display())));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.with_file_name(format!(".tmp-{name}"));
        let file = File::create(&aside).map_err(|error| ktied::Error::io("create", &aside, &error))?;
        let (path, file) = (path.into(), BufWriter::new(file));
        Ok(Self { is_csv, file: Some(Aside { path, aside, file, has_header: false, is_complete: false }) })
    }

    /// A line for each example of a batch; in CSV after a heading, of which the file takes the first.
    pub(super) fn put(&self, text: &mut String, names: &[String], predictions: Predictions, data: &DataSet) {
        let rows: Vec<Vec<(String, Value)>> = match predictions {
            Predictions::Classes(rows) => {
                names.iter().zip(rows).map(|(name, row)| class_row(name, row, &data.class_names)).collect()
            }
            Predictions::Values(rows) => {
                let units = data.train.target_units();
                names.iter().zip(rows).map(|(name, row)| value_row(name, &row, &units)).collect()
            }
        };
        if let (true, true, Some(row)) = (self.is_csv, text.is_empty(), rows.first()) {
            let heading: Vec<String> = row.iter().map(|(name, _)| cell(&Value::from(name.as_str()))).collect();
            *text += &format!("{}\n", heading.join(","));
        }
        for row in rows {
            let line = match self.is_csv {
                true => row.iter().map(|(_, value)| cell(value)).collect::<Vec<String>>().join(","),
                false => Value::Object(row.into_iter().collect()).to_string(),
            };
            *text += &format!("{line}\n");
        }
    }

    /// Writes what [`put`](Self::put) has made, here or in another process.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let heading = text.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let skipped = if self.is_csv && file.has_header { heading } else { 0 };
        file.has_header |= !text.is_empty();
        let written = file.file.write_all(text.get(skipped..).unwrap_or_default());
        Ok(written.map_err(|error| ktied::Error::io("write", &file.aside, &error))?)
    }

    /// Gives the file its name, now that it is complete and on the disk.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Some(mut file) = self.file else { return Ok(()) };
        let done = file.file.flush().and_then(|()| file.file.get_ref().sync_all());
        done.and_then(|()| fs::rename(&file.aside, &file.path))
            .map_err(|error| ktied::Error::io("write", &file.path, &error))?;
        file.is_complete = true;
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.is_complete {
            let _ = fs::remove_file(&self.aside);
        }
    }
}

/// Class, its name if it has one, how sure, and the probability of each.
fn class_row(name: &str, row: ClassPrediction, class_names: &[String]) -> Vec<(String, Value)> {
    let confidence = row.probabilities.get(row.class).copied().unwrap_or(f64::NAN);
    let mut cells = vec![("name".into(), json!(name)), ("class".into(), json!(row.class))];
    if let Some(label) = class_names.get(row.class) {
        cells.push(("label".into(), json!(label)));
    }
    cells.extend([
        ("confidence".into(), json!(confidence)),
        ("entropy".into(), json!(row.entropy)),
        ("mutual_information".into(), json!(row.mutual_information)),
    ]);
    cells.extend(row.probabilities.iter().enumerate().map(|(class, p)| (format!("p_{class}"), json!(p))));
    cells
}

/// Mean, standard deviation and interval of each output, in the units of the data.
fn value_row(name: &str, row: &[ValuePrediction], units: &Units) -> Vec<(String, Value)> {
    let mut cells = vec![("name".into(), json!(name))];
    for (output, ValuePrediction { mean, sd, lower, upper }) in row.iter().enumerate() {
        let scale = units.scale.get(output).map_or(1.0, |scale| f64::from(*scale));
        let loc = units.loc.get(output).map_or(0.0, |loc| f64::from(*loc));
        let key = |name: &str| if row.len() == 1 { name.to_owned() } else { format!("{name}_{output}") };
        cells.extend([
            (key("mean"), json!(mean * scale + loc)),
            (key("sd"), json!(sd * scale)),
            (key("lower"), json!(lower * scale + loc)),
            (key("upper"), json!(upper * scale + loc)),
        ]);
    }
    cells
}
