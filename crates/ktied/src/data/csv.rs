//! Tables as CSV: a header, numbers in every column but the label's, a label in each row.

use std::io::Read;

use ::csv::{ByteRecord, ReaderBuilder};

use super::error::{Fault, quote};
use super::uci::number;
use crate::nearest::nearest;

const MAX_COLUMNS: usize = 1 << 14;
const MAX_ROWS: usize = 1 << 26;
/// The longest label that is kept.
const MAX_LABEL_LEN: usize = 256;
/// How many names of columns an error lists.
const MAX_NAMES: usize = 20;

/// Features and labels in the order of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Csv {
    /// Names of the features' columns.
    pub columns: Vec<String>,
    /// `[labels.len(), columns.len()]`
    pub features: Vec<f64>,
    /// As they are written.
    pub labels: Vec<String>,
}

impl Csv {
    /// Reads a table whose label column has the name `label`.
    ///
    /// # Errors
    /// One variant of [`Fault`] for each way the bytes can be wrong, with the line.
    pub fn parse(reader: impl Read, label: &str) -> Result<Self, Fault> {
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(reader);
        let mut columns = header(reader.byte_headers().map_err(csv)?)?;
        let expected = columns.len();
        let place = columns.iter().position(|name| name == label).ok_or_else(|| no_label(label, &columns))?;
        columns.remove(place);
        if columns.is_empty() {
            return Err(Fault::Empty { what: "column beside the label" });
        }
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(csv)? {
            let line = record.position().map_or(0, |position| position.line() as usize);
            if record.len() != expected {
                return Err(Fault::Columns { line, expected, found: record.len() });
            }
            if labels.len() == MAX_ROWS {
                return Err(Fault::TooLarge { what: "rows", limit: MAX_ROWS, found: "more".into() });
            }
            push(&record, line, place, &mut features, &mut labels)?;
        }
        match labels.len() {
            0 => Err(Fault::Empty { what: "row" }),
            _ => Ok(Self { columns, features, labels }),
        }
    }
}

fn push(
    record: &ByteRecord,
    line: usize,
    label: usize,
    features: &mut Vec<f64>,
    labels: &mut Vec<String>,
) -> Result<(), Fault> {
    for (place, field) in record.iter().enumerate() {
        let text = std::str::from_utf8(field).ok().map(str::trim);
        let wrong = || Fault::Number { line, column: place + 1, found: quote(field) };
        if place == label {
            let text = text.filter(|text| !text.is_empty() && text.len() <= MAX_LABEL_LEN);
            labels.push(text.ok_or_else(|| Fault::CsvLabel { line, found: quote(field) })?.into());
        } else {
            features.push(text.and_then(number).ok_or_else(wrong)?);
        }
    }
    Ok(())
}

fn header(record: &ByteRecord) -> Result<Vec<String>, Fault> {
    if record.len() > MAX_COLUMNS {
        return Err(Fault::TooLarge { what: "columns", limit: MAX_COLUMNS, found: record.len().to_string() });
    }
    let mut seen = std::collections::HashSet::new();
    let names = record.iter().map(|name| String::from_utf8_lossy(name).trim().to_string());
    names.map(|name| if seen.insert(name.clone()) { Ok(name) } else { Err(Fault::SameColumn { name }) }).collect()
}

fn no_label(label: &str, columns: &[String]) -> Fault {
    let names: Vec<&str> = columns.iter().map(String::as_str).take(MAX_NAMES).collect();
    let nearest = nearest(label, names.iter().copied()).unwrap_or_default();
    let short = |text: &str| text.chars().take(MAX_LABEL_LEN).collect();
    Fault::NoLabel { label: label.into(), nearest: short(nearest), names: short(&names.join(", ")) }
}

fn csv(error: ::csv::Error) -> Fault {
    Fault::Csv { message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Csv::parse(text.as_bytes(), "label").unwrap_err().to_string()
    }

    #[test]
    fn features_keep_their_order_around_the_label() {
        let text = "a, label ,\"b\"\n1,cat,-2.5\r\n3e2,\"dog, big\",0\n";
        let csv = Csv::parse(text.as_bytes(), "label").unwrap();
        assert_eq!(csv.columns, ["a", "b"]);
        assert_eq!(csv.features, [1.0, -2.5, 300.0, 0.0]);
        assert_eq!(csv.labels, ["cat", "dog, big"]);
    }

    #[test]
    fn every_way_a_table_can_lie_has_its_sentence() {
        assert_eq!(
            refusal("a,lable\n1,2\n"),
            "expected a label column `label`: did you mean `lable`? There are a, lable"
        );
        assert_eq!(refusal("a,a,label\n"), "expected each column's name once, found `a` again");
        assert_eq!(refusal("label\n1\n"), "expected at least one column beside the label, found none");
        assert_eq!(refusal("a,label\n"), "expected at least one row, found none");
        assert_eq!(refusal("a,label\n1,0\n2\n"), "line 3: expected 2 columns, found 1");
        assert_eq!(refusal("a,label\n1,0\n2,1,1\n"), "line 3: expected 2 columns, found 3");
        assert_eq!(refusal("label,a\n1,0\n2,one\n"), "line 3, column 2: expected a finite number, found `one`");
        assert_eq!(refusal("label,a\n1,inf\n"), "line 2, column 2: expected a finite number, found `inf`");
        assert_eq!(refusal("label,a\n1,\n"), "line 2, column 2: expected a finite number, found ``");
        assert_eq!(refusal("a,label\n1, \n"), "line 2: expected a label of 1 to 256 bytes, found ` `");
        assert!(refusal("").starts_with("expected a label column `label`"));
        assert!(refusal(&format!("label{}\n", ",x".repeat(MAX_COLUMNS))).starts_with("expected at most 16384 columns"));
    }
}
