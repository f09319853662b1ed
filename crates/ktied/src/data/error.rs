//! What can be wrong with data: one variant for each way a file can lie, one sentence each.

use std::io;
use std::path::{Path, PathBuf};

/// Why a data set could not be read.
///
/// Input/output errors are kept as kind and message, so that errors can be cloned and compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DataError {
    /// A data set that nobody knows.
    #[error(
        "data set `{found}` is unknown: did you mean `{nearest}`? There are {names}, or a path that ends in .npz or \
         .csv, or a folder with x.npy and y.npy"
    )]
    UnknownSet {
        /// What was asked for.
        found: String,
        /// The name that is written most like it.
        nearest: String,
        /// All names.
        names: String,
    },
    /// A known data set that is in none of the folders.
    #[error("data set `{set}` is not in {looked}: {hint}")]
    Missing {
        /// Its name.
        set: String,
        /// The folders, in the order in which they were tried.
        looked: String,
        /// How to get it.
        hint: String,
    },
    /// A data set's folder without one of its files.
    #[error("{}: expected {file}, found no such file; {hint}", folder.display())]
    Incomplete {
        /// The data set's folder.
        folder: PathBuf,
        /// The file or files that would do.
        file: String,
        /// How to get it.
        hint: String,
    },
    /// A setting of the description that cannot be.
    #[error("data.{key} must be {expected}, got {found}")]
    Setting {
        /// Name of the setting.
        key: &'static str,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Opening or reading failed.
    #[error("cannot {action} {}: {message}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What kind of failure.
        kind: io::ErrorKind,
        /// The system's words.
        message: String,
    },
    /// A file that is not what it should be.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The embedded data set is damaged, which a test of this crate rules out.
    #[error("the embedded digits are damaged: {message}")]
    Embedded {
        /// What is wrong.
        message: String,
    },
    /// Rows asked for that a split does not have.
    #[error("row {row} was asked for, but there are {len}")]
    Row {
        /// The row, from 0.
        row: usize,
        /// Number of rows.
        len: usize,
    },
    /// Numbers asked of a split that has none of this kind.
    #[error("{expected} were asked for, but the data set has {found}")]
    Kind {
        /// What was asked for.
        expected: &'static str,
        /// What there is.
        found: &'static str,
    },
}

/// What is wrong with a file. Rows, columns, lines and examples count from 1 unless said otherwise.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Fewer bytes than the file itself says, or than its format has.
    #[error("expected {expected} bytes of {what}, found {found}")]
    Truncated {
        /// What the bytes are.
        what: &'static str,
        /// How many there must be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// More bytes after the last one.
    #[error("expected the end after {expected} bytes of {what}, found more")]
    TrailingBytes {
        /// What the bytes before are.
        what: &'static str,
        /// How many there must be.
        expected: usize,
    },
    /// More than this program reads.
    #[error("expected at most {limit} {what}, found {found}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The greatest number that is read.
        limit: usize,
        /// What was found.
        found: String,
    },
    /// Compressed data that do not unpack, or not to their checksum.
    #[error("expected whole compressed data, found damage: {message}")]
    Packed {
        /// What the unpacker says.
        message: String,
    },
    /// Bytes after the end of the gzip data.
    #[error("expected the end of the file after the gzip data, found more bytes")]
    GzipTrailing,
    /// Reading stopped in the middle.
    #[error("reading failed: {message}")]
    Read {
        /// The system's words.
        message: String,
    },
    /// A text that is not UTF-8.
    #[error("expected UTF-8 text, found other bytes from byte {at} on")]
    Utf8 {
        /// Number of bytes before.
        at: usize,
    },

    /// A file that does not begin as an idx file.
    #[error("expected an idx file, which begins with two zero bytes, found {found:02x?}")]
    IdxMagic {
        /// The first two bytes.
        found: [u8; 2],
    },
    /// An idx file of something else than bytes.
    #[error("expected an idx file of bytes (type 0x08), found type 0x{found:02x}")]
    IdxType {
        /// The third byte.
        found: u8,
    },
    /// An idx file of another number of dimensions.
    #[error("expected an idx file of {expected} dimensions, found {found}")]
    IdxRank {
        /// How many there must be.
        expected: u8,
        /// The fourth byte.
        found: u8,
    },
    /// Sizes that are not those of the data set.
    #[error("expected the shape {expected}, found {found}")]
    Shape {
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A label beyond the classes.
    #[error("example {row}: expected {what} from 0 to {max}, found {found}")]
    Label {
        /// Which example.
        row: usize,
        /// What the number is.
        what: &'static str,
        /// The greatest that is allowed.
        max: usize,
        /// The number.
        found: String,
    },

    /// A text that is not JSON of the expected form.
    #[error("expected a JSON list of reviews, each an object with a text `t`: {message}")]
    Json {
        /// What the parser says, with line and column.
        message: String,
    },
    /// Another number of reviews.
    #[error("expected {expected} reviews, found {found}")]
    ReviewCount {
        /// How many there must be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A review whose own sentiment is not that of its block.
    #[error("review {row}: expected sentiment {expected} in this block, found {found}")]
    Sentiment {
        /// Which review.
        row: usize,
        /// 0 negative, 1 positive.
        expected: u8,
        /// What the review says.
        found: u64,
    },

    /// A field that is not a finite number.
    #[error("line {line}, column {column}: expected a finite number, found `{found}`")]
    Number {
        /// Line.
        line: usize,
        /// Column.
        column: usize,
        /// The beginning of the field, escaped.
        found: String,
    },
    /// A line with more or fewer fields than the first.
    #[error("line {line}: expected {expected} columns, found {found}")]
    Columns {
        /// Line.
        line: usize,
        /// As many as the first line has.
        expected: usize,
        /// As many as this one has.
        found: usize,
    },
    /// No rows, or no columns, where some are needed.
    #[error("expected at least one {what}, found none")]
    Empty {
        /// What there is none of.
        what: &'static str,
    },
    /// A number of a row or column that the table does not have.
    #[error("line {line}: expected {what} from 0 to {max}, found `{found}`")]
    Index {
        /// Line.
        line: usize,
        /// What the number is.
        what: &'static str,
        /// The greatest that is allowed.
        max: usize,
        /// The beginning of the field, escaped.
        found: String,
    },
    /// A row or column that is named twice, in one list or in two that must not meet.
    #[error("line {line}: expected each {what} once, found {found} again")]
    Repeated {
        /// Line.
        line: usize,
        /// What the number is.
        what: &'static str,
        /// The number.
        found: usize,
    },

    /// A CSV file that does not parse.
    #[error("expected CSV with a header: {message}")]
    Csv {
        /// What the parser says.
        message: String,
    },
    /// A label that is empty, too long, or not UTF-8.
    #[error("line {line}: expected a label of 1 to 256 bytes, found `{found}`")]
    CsvLabel {
        /// Line.
        line: usize,
        /// The beginning of the field, escaped.
        found: String,
    },
    /// A label that is no number where values are wanted.
    #[error("row {line}: expected a finite number as label, found `{found}`; for classes, set data.task to classes")]
    CsvValue {
        /// Row, the header being 1.
        line: usize,
        /// The label.
        found: String,
    },
    /// Two columns of one name.
    #[error("expected each column's name once, found `{name}` again")]
    SameColumn {
        /// The name.
        name: String,
    },
    /// No column of the label's name.
    #[error("expected a label column `{label}`: did you mean `{nearest}`? There are {names}")]
    NoLabel {
        /// The name that was asked for.
        label: String,
        /// The name that is written most like it.
        nearest: String,
        /// The first columns' names.
        names: String,
    },

    /// A file that does not begin as a .npy file.
    #[error("expected a .npy file, which begins with \\x93NUMPY, found `{found}`")]
    NpyMagic {
        /// The first bytes, escaped.
        found: String,
    },
    /// A version of the format that nobody has written.
    #[error("expected version 1, 2 or 3 of the .npy format, found {found}")]
    NpyVersion {
        /// The version.
        found: u8,
    },
    /// A header that is not the dictionary that it must be.
    #[error("expected a .npy header with descr, fortran_order and shape, found `{found}`")]
    NpyHeader {
        /// The beginning of the header, escaped.
        found: String,
    },
    /// Numbers of a kind that is not read.
    #[error("expected numbers of type <f4, <f8, |u1, <i4 or <i8, found `{found}`")]
    NpyType {
        /// The type.
        found: String,
    },
    /// Columns first.
    #[error("expected an array in C order, found Fortran order; save numpy.ascontiguousarray(array)")]
    NpyOrder,
    /// A number that is not finite.
    #[error("expected finite numbers, found {found} at place {place}")]
    NotFinite {
        /// Place in the array, from 0.
        place: usize,
        /// The number.
        found: f64,
    },
    /// An archive that does not open.
    #[error("expected a zip archive: {message}")]
    Zip {
        /// What the reader says.
        message: String,
    },
    /// An entry packed in a way that is not read.
    #[error("expected a stored or deflated entry, found method {found}")]
    ZipMethod {
        /// The method's number.
        found: u16,
    },
    /// An array that must be there.
    #[error("expected an array {name}, found {names}")]
    NoArray {
        /// Its name.
        name: &'static str,
        /// The names that there are.
        names: String,
    },
    /// An array that nobody asked for, perhaps a misspelt one.
    #[error("expected the arrays {expected}, found `{found}`")]
    UnknownArray {
        /// The names that are read.
        expected: String,
        /// The other one.
        found: String,
    },
    /// Two arrays of one name.
    #[error("expected each array once, found `{name}` again")]
    SameArray {
        /// The name.
        name: String,
    },
    /// Arrays of one data set that differ in kind or width.
    #[error("expected {expected} as in the arrays before, found {found}")]
    Unlike {
        /// What the arrays before have.
        expected: String,
        /// What these have.
        found: String,
    },
    /// An archive of which it is not clear which array is meant.
    #[error("expected the name of one of the arrays {names}, found {found}")]
    WhichArray {
        /// The names that there are.
        names: String,
        /// The name that was given.
        found: String,
    },

    /// Inputs in a file of no form that is read.
    #[error("expected {expected}")]
    InputForm {
        /// What is read.
        expected: &'static str,
    },
    /// Inputs of another kind than the network was trained on.
    #[error("expected {expected}, as the network was trained on, found {found}")]
    InputKind {
        /// What the network wants.
        expected: &'static str,
        /// What there is.
        found: &'static str,
    },
    /// A row of another width.
    #[error("expected {expected} numbers a row, found {found}")]
    Width {
        /// As many as the network has inputs.
        expected: usize,
        /// As many as there are.
        found: usize,
    },
    /// A number of a row that is not what it should be.
    #[error("column {column}: expected {expected}, found {found}")]
    Value {
        /// Column.
        column: usize,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Pixels on another scale.
    #[error("expected pixels from 0 to {max}, found fractions from 0 to 1: multiply them by {max}")]
    Fractions {
        /// The largest pixel.
        max: u8,
    },
    /// A column with another name than in the table that the network was trained on.
    #[error("expected the columns of the training table in their order, `{expected}` here, found `{found}`")]
    Column {
        /// The name in the training table.
        expected: String,
        /// The name in this one.
        found: String,
    },
    /// A file that is no image, or a damaged one.
    #[error("expected a PNG image: {message}")]
    Png {
        /// What the decoder says.
        message: String,
    },
    /// What is wrong with one array of several.
    #[error("{array}: {fault}")]
    In {
        /// The array.
        array: String,
        /// What is wrong with it.
        fault: Box<Fault>,
    },
}

impl DataError {
    /// An input/output error with its file.
    pub(crate) fn io(action: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::Io { action, path: path.into(), kind: error.kind(), message: error.to_string() }
    }
}

impl Fault {
    /// The fault with its file.
    pub(crate) fn at(self, path: &Path) -> DataError {
        DataError::File { path: path.into(), fault: self }
    }

    /// The fault with its array.
    pub(crate) fn within(self, array: &str) -> Self {
        Self::In { array: array.into(), fault: Box::new(self) }
    }
}

/// How much of a field an error quotes.
const MAX_QUOTE_LEN: usize = 24;

/// The beginning of untrusted bytes, in a form that can be printed.
pub(crate) fn quote(bytes: &[u8]) -> String {
    bytes.get(..MAX_QUOTE_LEN).unwrap_or(bytes).escape_ascii().to_string()
}

/// 3×28×28, for messages.
pub(crate) fn product(dims: &[usize]) -> String {
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join("×")
}
