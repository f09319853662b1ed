//! What can go wrong with a checkpoint, one variant each.

use std::path::{Path, PathBuf};

use super::digest::Digest;

/// Why a checkpoint could not be written, read or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("cannot {action} `{}`: {message}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// Another process holds the run.
    #[error("the run `{}` is in use by another process: wait for it, or choose another folder", folder.display())]
    Locked {
        /// The run's folder.
        folder: PathBuf,
    },
    /// A file is not what was written.
    #[error("`{}` is damaged: {damage}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A step that was never saved, or no longer is.
    #[error("there is no checkpoint of step {step} in `{}`", folder.display())]
    NoSuchStep {
        /// The folder of checkpoints.
        folder: PathBuf,
        /// The step asked for.
        step: u64,
    },
    /// A good checkpoint of that step with other tensors; it is not replaced.
    #[error("step {step} is already in `{}`, with other tensors", folder.display())]
    OtherTensors {
        /// The folder of checkpoints.
        folder: PathBuf,
        /// The step.
        step: u64,
    },
    /// The module has a tensor that the checkpoint lacks.
    #[error("the checkpoint has no tensor `{path}`")]
    MissingTensor {
        /// Path of the tensor.
        path: String,
    },
    /// The checkpoint has a tensor that the module lacks.
    #[error("the checkpoint has a tensor `{path}`, which the network does not have")]
    UnexpectedTensor {
        /// Path of the tensor.
        path: String,
    },
    /// Two tensors of one path.
    #[error("there are two tensors `{path}`")]
    DuplicateTensor {
        /// Path of the tensor.
        path: String,
    },
    /// A tensor of another shape.
    #[error("the tensor `{path}` of the checkpoint is {found:?}, that of the network {expected:?}")]
    TensorShape {
        /// Path of the tensor.
        path: String,
        /// Shape in the module.
        expected: Vec<usize>,
        /// Shape in the checkpoint.
        found: Vec<usize>,
    },
    /// A tensor of another type of elements.
    #[error("the tensor `{path}` of the checkpoint holds {found}, that of the network {expected}")]
    TensorDtype {
        /// Path of the tensor.
        path: String,
        /// Type of elements in the module.
        expected: String,
        /// Type of elements in the checkpoint.
        found: String,
    },
    /// A tensor whose elements no checkpoint can hold.
    #[error("the tensor `{path}` holds {dtype}, which checkpoints do not: use F32, F64, I32, I64 or U32")]
    UnsupportedDtype {
        /// Path of the tensor.
        path: String,
        /// Type of its elements.
        dtype: String,
    },
    /// Elements that do not make up the shape.
    #[error("{found} bytes do not make a tensor of shape {shape:?}")]
    TensorSize {
        /// Shape asked for.
        shape: Vec<usize>,
        /// Length of the elements.
        found: usize,
    },
    /// A moment of the optimiser that would ruin its parameter.
    #[error("a number of the tensor `{path}` is not finite")]
    NotFinite {
        /// Path of the tensor.
        path: String,
    },
    /// A mean of squares that is below zero; its root would ruin the parameter.
    #[error("the tensor `{path}` must hold means of squares, 0 or more, got {found}")]
    NegativeSquare {
        /// Path of the tensor.
        path: String,
        /// The first that is below zero.
        found: String,
    },
    /// A number in the optimiser's state that no run can have.
    #[error("the tensor `{path}` must be a number of steps, 0 or more, got {found}")]
    NumberOfSteps {
        /// Path of the tensor.
        path: String,
        /// The number.
        found: i64,
    },
    /// A header that JSON cannot hold.
    #[error("the manifest of step {step} cannot be written: {message}")]
    Unwritable {
        /// The step.
        step: u64,
        /// What is wrong with it.
        message: String,
    },
}

impl CheckpointError {
    /// A failure of the file system.
    pub(super) fn io(action: &'static str, path: &Path, error: &std::io::Error) -> Self {
        Self::Io { action, path: path.into(), message: error.to_string() }
    }

    /// A file that is not what was written.
    pub(super) fn damaged(file: &Path, damage: Damage) -> Self {
        Self::Damaged { file: file.into(), damage }
    }

    /// Whether the file system failed, as opposed to what is stored in it.
    pub fn is_io(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is not there.
    #[error("it is missing")]
    Missing,
    /// It was cut off, or something was added.
    #[error("it has {found} bytes instead of {expected}")]
    Length {
        /// Bytes that were written, or that its header needs.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// Longer than any such file.
    #[error("it has {found} bytes, more than the {most} that are read")]
    TooLong {
        /// Most bytes that are read.
        most: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// Bytes were changed.
    #[error("its SHA-256 is {found}, not {expected}")]
    Sha256 {
        /// As it was written.
        expected: Digest,
        /// As it is.
        found: Digest,
    },
    /// The header says that it goes on after the end, or is longer than any.
    #[error("its header has a length of {found}, which the file cannot hold")]
    HeaderLength {
        /// What the file says.
        found: u64,
    },
    /// The header is not what it should be.
    #[error("its header cannot be read: {0}")]
    Header(String),
    /// A type of elements that is not known.
    #[error("the tensor `{path}` has elements of the unknown type `{dtype}`")]
    UnknownDtype {
        /// Path of the tensor.
        path: String,
        /// What the header says.
        dtype: String,
    },
    /// A shape whose elements cannot be counted.
    #[error("the tensor `{path}` has the impossible shape {shape:?}")]
    Shape {
        /// Path of the tensor.
        path: String,
        /// What the header says.
        shape: Vec<u64>,
    },
    /// Elements that overlap others, leave a gap, or are not as many as the shape says.
    #[error("the elements of the tensor `{path}` are not where its header must put them")]
    Offsets {
        /// Path of the tensor.
        path: String,
    },
    /// A tensor that belongs into the other file.
    #[error("the tensor `{path}` is in both files of tensors")]
    InBoth {
        /// Path of the tensor.
        path: String,
    },
    /// A manifest without its seal, or with one that does not fit.
    #[error("it does not end in the SHA-256 of what comes before")]
    Seal,
    /// A manifest that is not the JSON it should be.
    #[error("it is not a manifest: {0}")]
    Manifest(String),
    /// A manifest of another version.
    #[error(
        "it has format {found}, and this program reads format {known}: use the version that wrote it, or a newer one"
    )]
    Format {
        /// Version of the file.
        found: u64,
        /// Version that is read.
        known: u64,
    },
    /// A manifest that lists other files.
    #[error("it does not list the files of a checkpoint")]
    Files,
    /// A manifest of another step than its folder's.
    #[error("it is of step {found}, in the folder of step {expected}")]
    Step {
        /// Step of the folder.
        expected: u64,
        /// Step of the manifest.
        found: u64,
    },
    /// Tensors that are not those of the manifest.
    #[error("the tensors have the digest {found}, not {expected}")]
    Tensors {
        /// As the manifest says.
        expected: Digest,
        /// As they are.
        found: Digest,
    },
}
