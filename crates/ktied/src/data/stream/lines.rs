//! Lines of at most so many bytes, and the texts and tables made of them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use ::csv::ReaderBuilder;

use super::super::bounded::read_fault;
use super::super::error::{DataError, Fault, quote};
use super::super::preprocessing::{Preprocessing, Steps};
use super::super::uci::number;
use super::contents::Contents;
use super::{Next, Row, Source};

/// The longest line that is read.
pub const MAX_LINE_BYTES: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file line by line.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    contents: BufReader<Contents>,
    /// Lines that are read.
    number: usize,
    /// The last one, without its end.
    line: Vec<u8>,
}

/// What came of asking for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Line,
    TooLong,
    End,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, DataError> {
        let contents = BufReader::new(Contents::open(path)?);
        Ok(Self { path: path.into(), contents, number: 0, line: Vec::new() })
    }

    /// The next line; of one that is too long only the length is seen.
    fn advance(&mut self) -> Result<Found, Fault> {
        self.line.clear();
        let (mut is_there, mut is_over, mut is_too_long) = (false, false, false);
        while !is_over {
            let bytes = self.contents.fill_buf().map_err(read_fault)?;
            if bytes.is_empty() {
                break;
            }
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
            is_too_long |= self.line.len() + part.len() > MAX_LINE_BYTES;
            if !is_too_long {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.contents.consume(used);
            (is_there, is_over) = (true, end.is_some());
        }
        if !is_there {
            self.contents.get_mut().finish()?;
            return Ok(Found::End);
        }
        self.number += 1;
        if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(if is_too_long { Found::TooLong } else { Found::Line })
    }

    fn locate(&self, fault: Fault) -> DataError {
        fault.within(&format!("line {}", self.number)).at(&self.path)
    }
}

fn too_long() -> Fault {
    Fault::TooLarge { what: "bytes a line", limit: MAX_LINE_BYTES, found: "more".into() }
}

/// A file of texts, one a line; an empty line is an empty text.
#[derive(Debug)]
pub struct TextFile(Lines);

impl TextFile {
    /// Opens it.
    ///
    /// # Errors
    /// A file that is missing, or a network that knows no words.
    pub fn open(path: &Path, wanted: &Preprocessing) -> Result<Self, DataError> {
        if !wanted.reads_text() {
            return Err(Fault::InputKind { expected: wanted.wants(), found: "texts" }.at(path));
        }
        Ok(Self(Lines::open(path)?))
    }

    fn read(&mut self, row: &mut Row) -> Result<Next, Fault> {
        Ok(match self.0.advance()? {
            Found::End => Next::End,
            Found::TooLong => Next::Bad(too_long()),
            Found::Line => match std::str::from_utf8(&self.0.line) {
                Ok(text) => {
                    row.begin_text(self.0.number, text);
                    Next::Row
                }
                Err(error) => Next::Bad(Fault::Utf8 { at: error.valid_up_to() }),
            },
        })
    }
}

impl Source for TextFile {
    fn next(&mut self, row: &mut Row) -> Result<Next, DataError> {
        self.read(row).map_err(|fault| self.locate(fault))
    }

    fn locate(&self, fault: Fault) -> DataError {
        self.0.locate(fault)
    }
}

/// A table of numbers, separated by commas, with or without names of columns in its first line.
#[derive(Debug)]
pub struct TableFile {
    lines: Lines,
    wanted: Preprocessing,
    rows: usize,
    is_begun: bool,
}

impl TableFile {
    /// Opens it. The first line is a header if none of its fields is a number; it must have the names of the training
    /// table's columns in their order, if that had any.
    ///
    /// # Errors
    /// A file that is missing.
    pub fn open(path: &Path, wanted: &Preprocessing) -> Result<Self, DataError> {
        Ok(Self { lines: Lines::open(path)?, wanted: wanted.clone(), rows: 0, is_begun: false })
    }

    fn read(&mut self, row: &mut Row) -> Result<Next, Fault> {
        loop {
            match self.lines.advance()? {
                Found::End => return Ok(Next::End),
                Found::TooLong => return Ok(Next::Bad(too_long())),
                Found::Line if self.lines.line.trim_ascii().is_empty() => {}
                Found::Line if self.skips_header()? => {}
                Found::Line => {
                    self.rows += 1;
                    return Ok(match self.push(row) {
                        Ok(()) => Next::Row,
                        Err(fault) => Next::Bad(fault),
                    });
                }
            }
        }
    }

    /// Whether this is the first line and a header; one with other names than the training table's is an error.
    fn skips_header(&mut self) -> Result<bool, Fault> {
        if std::mem::replace(&mut self.is_begun, true) || fields(&self.lines.line).any(|field| parse(field).is_some()) {
            return Ok(false);
        }
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&self.lines.line[..]);
        let mut record = ::csv::ByteRecord::new();
        reader.read_byte_record(&mut record).map_err(|error| Fault::Csv { message: error.to_string() })?;
        if record.len() != self.wanted.width {
            return Err(Fault::Width { expected: self.wanted.width, found: record.len() });
        }
        let names = match &self.wanted.steps {
            Steps::Columns { names, .. } => &names[..],
            _ => &[],
        };
        let found = record.iter().map(|name| String::from_utf8_lossy(name).trim().to_string());
        let differ = names.iter().zip(found).find(|(expected, found)| *expected != found);
        match differ {
            Some((expected, found)) => {
                Err(Fault::Column { expected: quote(expected.as_bytes()), found: quote(found.as_bytes()) })
            }
            None => Ok(true),
        }
    }

    fn push(&self, row: &mut Row) -> Result<(), Fault> {
        let numbers = row.begin_numbers(self.rows);
        for (column, field) in (1..).zip(fields(&self.lines.line)) {
            // What is beyond the width is not worth keeping; how much there is, is counted below.
            if numbers.len() == self.wanted.width {
                break;
            }
            let wrong =
                || Fault::Value { column, expected: "a finite number".into(), found: format!("`{}`", quote(field)) };
            numbers.push(parse(field).ok_or_else(wrong)?);
        }
        match fields(&self.lines.line).count() {
            found if found != self.wanted.width => Err(Fault::Width { expected: self.wanted.width, found }),
            _ => self.wanted.check_scale(numbers),
        }
    }
}

impl Source for TableFile {
    fn next(&mut self, row: &mut Row) -> Result<Next, DataError> {
        self.read(row).map_err(|fault| self.locate(fault))
    }

    fn locate(&self, fault: Fault) -> DataError {
        self.lines.locate(fault)
    }
}

/// Numbers have no comma in them, so quotes need no more than to be taken off.
fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(|field| {
        let field = field.trim_ascii();
        field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).map_or(field, <[u8]>::trim_ascii)
    })
}

fn parse(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok().and_then(number)
}

#[cfg(test)]
mod tests {
    use super::super::super::bounded::tests::Folder;
    use super::*;

    #[test]
    fn of_a_line_that_is_too_long_nothing_is_kept_beyond_the_longest_line() {
        let folder = Folder::new();
        let path = folder.file("long.txt", format!("a\n{}\nb", "0".repeat(1 << 24)));
        let mut lines = Lines::open(&path).unwrap();
        let found: Vec<Found> = (0..4).map(|_| lines.advance().unwrap()).collect();
        assert_eq!(found, [Found::Line, Found::TooLong, Found::Line, Found::End]);
        // Growing doubles at most.
        assert!(lines.line.capacity() <= 2 * MAX_LINE_BYTES, "{}", lines.line.capacity());
    }
}
