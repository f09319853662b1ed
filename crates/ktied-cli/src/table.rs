//! Tables for people: columns as wide as their widest entry, numbers to the right.

use std::io::{self, Write};

use crate::exit::Failure;

/// Lines of text in columns; the first line is the heading.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    text_from: usize,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|cell| (*cell).into()).collect()], text_from: usize::MAX }
    }

    /// Columns from this one on hold text, which goes to the left, as the first column's does.
    pub(crate) fn with_text_from(self, column: usize) -> Self {
        Self { text_from: column, ..self }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        self.rows.iter().map(move |row| {
            let cells = row.iter().enumerate().map(|(c, cell)| match c == 0 || c >= self.text_from {
                true => format!("{cell:<0$}", widths[c]),
                false => format!("{cell:>0$}", widths[c]),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        })
    }

    pub(crate) fn print(&self) -> Result<(), Failure> {
        self.lines().try_for_each(|line| print_line(&line))
    }
}

/// One line on standard output. A reader who has gone away ends the command with an error, not a panic.
pub(crate) fn print_line(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(|source| Failure::Io { action: "write to standard output", source })
}

/// One line on standard error. A full disk behind it, or nobody, must not end what the line is about.
pub(crate) fn say_line(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The one JSON document of a command.
pub(crate) fn print_json(document: &impl serde::Serialize) -> Result<(), Failure> {
    print_line(&json(document)?)
}

/// JSON that people can read too.
pub(crate) fn json(document: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(document).map_err(io::Error::from);
    text.map_err(|source| Failure::Io { action: "write JSON", source })
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in (1..=digits.len()).rev().zip(digits.chars()) {
        text.push(digit);
        if place % 3 == 1 && place > 1 {
            text.push(',');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_entry() {
        let mut table = Table::new(&["name", "ms"]);
        table.row(vec!["a".into(), "1234.5".into()]);
        table.row(vec!["longer".into(), "2".into()]);
        let lines: Vec<String> = table.lines().collect();
        assert_eq!(lines, ["name        ms", "a       1234.5", "longer       2"]);
        let mut table = Table::new(&["name", "ms", "what"]).with_text_from(2);
        table.row(vec!["a".into(), "1234".into(), "b".into()]);
        assert_eq!(table.lines().collect::<Vec<_>>(), ["name    ms  what", "a     1234  b"]);
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (956_820, "956,820"), (9_814_026, "9,814,026")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
