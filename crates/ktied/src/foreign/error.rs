//! What can go wrong with another library's posterior, one variant each.

use std::fmt;
use std::path::PathBuf;

use crate::checkpoint::{CheckpointError, Dtype};
use crate::data::DataError;

/// Why a posterior could not be read, understood or written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ForeignError {
    /// A file of another kind.
    #[error("{}: expected a name that ends in .safetensors or .npz", path.display())]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// A file that cannot be read, or an archive that is not what it should be.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A safetensors file that is not what it should be, or a file that cannot be written.
    #[error(transparent)]
    File(#[from] CheckpointError),
    /// An array of elements that are no numbers of a fixed size.
    #[error(
        "{}: the array `{array}` holds `{found}`; expected little-endian floats, integers or booleans of up to 64 bits",
        path.display()
    )]
    ArrayType {
        /// The file.
        path: PathBuf,
        /// The array.
        array: String,
        /// Its type, in numpy's words.
        found: String,
    },

    /// A pattern that is not one.
    #[error(
        "name pattern `{found}`: expected MEAN,SCALE or MEAN,SCALE:FORM with one {{}} in each name, found {reason}"
    )]
    Pattern {
        /// What was given.
        found: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A form of σ that nobody knows.
    #[error("scale form `{found}` is unknown: use sigma, log, softplus or softplus-eps")]
    UnknownForm {
        /// What was given.
        found: String,
    },
    /// A convention that nobody knows.
    #[error("convention `{found}` is unknown: did you mean `{nearest}`? There are {names}, or patterns of your own")]
    UnknownConvention {
        /// What was given.
        found: String,
        /// The name that is written most like it.
        nearest: &'static str,
        /// All names.
        names: String,
    },
    /// A place of the output dimension that nobody knows.
    #[error("output dimension `{found}` is unknown: use first or last")]
    UnknownOutputDim {
        /// What was given.
        found: String,
    },
    /// A convention that matches nothing by its making.
    #[error("a convention must have at least one name pattern, got none")]
    NoPatterns,

    /// A file without any posterior of the convention.
    #[error("no pair of tensors matches {convention}; the file has {found}")]
    NoPair {
        /// The convention.
        convention: String,
        /// The names of the first tensors.
        found: String,
    },
    /// Tensors that should have a partner and have none that fits.
    #[error("expected every mean to have a scale of its shape, found {}", list(mismatches))]
    Unpaired {
        /// All of them.
        mismatches: Vec<Mismatch>,
    },
    /// A mean or a scale that is not of floats.
    #[error("the tensor `{tensor}` of a posterior holds {found}: expected F32 or F64")]
    TensorType {
        /// The tensor.
        tensor: String,
        /// What it holds.
        found: Dtype,
    },
    /// A stored number that is not finite.
    #[error("the tensor `{tensor}` has {found} at {index:?}: expected finite numbers")]
    NotFinite {
        /// The tensor.
        tensor: String,
        /// The first such place.
        index: Vec<usize>,
        /// The number.
        found: f64,
    },
    /// A stored number that stands for no standard deviation.
    #[error("the tensor `{tensor}` has σ = {found} at {index:?}: expected positive finite σ")]
    NotPositive {
        /// The tensor.
        tensor: String,
        /// The first such place.
        index: Vec<usize>,
        /// σ
        found: f64,
    },
    /// A convolution whose bias fits neither dimension that outputs can be in.
    #[error(
        "the weight `{weight}` is {shape:?} and its bias has {bias} elements: expected one for each output, which are \
         {outputs} or, in a transposed convolution, {transposed}; transposed convolutions with groups are not supported"
    )]
    Outputs {
        /// The weight.
        weight: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Elements of its bias.
        bias: usize,
        /// Outputs of an ordinary layer of this shape.
        outputs: usize,
        /// Outputs of a transposed one.
        transposed: usize,
    },

    /// A new scale of another size.
    #[error("the weight `{weight}` is {rows}×{cols}: expected {} scales, got {found}", rows.saturating_mul(*cols))]
    ScaleSize {
        /// The weight.
        weight: String,
        /// M
        rows: usize,
        /// N
        cols: usize,
        /// How many there are.
        found: usize,
    },
    /// A new scale that the tensor cannot hold.
    #[error(
        "the weight `{weight}` cannot have σ = {found} at row {row}, column {col}: `{tensor}` holds {dtype} as {form}"
    )]
    NewScale {
        /// The weight.
        weight: String,
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        col: usize,
        /// The scale.
        found: f64,
        /// The tensor that should hold it.
        tensor: String,
        /// The tensor's type.
        dtype: Dtype,
        /// How it stores σ.
        form: super::Form,
    },
    /// Factors of something that is no matrix.
    #[error("the weight `{weight}` is a vector: its σ has no factors")]
    NotAMatrix {
        /// The weight.
        weight: String,
    },
    /// Factors of another size.
    #[error(
        "the weight `{weight}` is {rows}×{cols}: expected factors {rows}×{rank} and {cols}×{rank} of a rank from 1 to {}, \
         got {left} and {right} numbers", rows.min(cols)
    )]
    FactorSize {
        /// The weight.
        weight: String,
        /// M
        rows: usize,
        /// N
        cols: usize,
        /// K
        rank: usize,
        /// Numbers of the left factor.
        left: usize,
        /// Numbers of the right factor.
        right: usize,
    },
    /// A factor with a number that its tensor cannot hold.
    #[error("the factor `{tensor}` has {found} at place {place}: expected finite numbers of {dtype}")]
    FactorNotFinite {
        /// The factor.
        tensor: String,
        /// Place, from 0.
        place: usize,
        /// The number.
        found: f64,
        /// Type of the factor's elements.
        dtype: Dtype,
    },
    /// A new tensor of a name that there is.
    #[error("there is a tensor `{tensor}` already")]
    Taken {
        /// The name.
        tensor: String,
    },
    /// A scale to replace that is not there.
    #[error("there is no tensor `{tensor}` to replace")]
    Gone {
        /// The name.
        tensor: String,
    },

    /// A tensor that the other container cannot hold.
    #[error("the tensor `{tensor}` cannot be written to {container}: {reason}")]
    Unwritable {
        /// The tensor.
        tensor: String,
        /// Which container.
        container: super::Container,
        /// What is in the way.
        reason: String,
    },
}

/// A tensor of a posterior without a partner that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// A mean without its scale.
    NoScale {
        /// Name of the mean.
        loc: String,
        /// Name that the scale would have.
        scale: String,
    },
    /// A scale without its mean.
    NoLoc {
        /// Name of the scale.
        scale: String,
        /// Name that the mean would have.
        loc: String,
    },
    /// A mean and a scale of different shapes.
    Shapes {
        /// Name of the mean.
        loc: String,
        /// Its shape.
        loc_shape: Vec<usize>,
        /// Name of the scale.
        scale: String,
        /// Its shape.
        scale_shape: Vec<usize>,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScale { loc, scale } => write!(f, "a mean `{loc}` without `{scale}`"),
            Self::NoLoc { scale, loc } => write!(f, "a scale `{scale}` without `{loc}`"),
            Self::Shapes { loc, loc_shape, scale, scale_shape } => {
                write!(f, "`{loc}` of shape {loc_shape:?} with `{scale}` of shape {scale_shape:?}")
            }
        }
    }
}

fn list(mismatches: &[Mismatch]) -> String {
    mismatches.iter().map(Mismatch::to_string).collect::<Vec<_>>().join("; ")
}

impl ForeignError {
    /// Whether the file system failed, as opposed to what is stored in it.
    pub fn is_io(&self) -> bool {
        match self {
            Self::Data(error) => matches!(error, DataError::Io { .. }),
            Self::File(error) => error.is_io(),
            _ => false,
        }
    }

    /// Whether what was asked for is wrong, as opposed to what the file holds.
    pub fn is_of_request(&self) -> bool {
        matches!(
            self,
            Self::Extension { .. }
                | Self::Pattern { .. }
                | Self::UnknownForm { .. }
                | Self::UnknownConvention { .. }
                | Self::UnknownOutputDim { .. }
                | Self::NoPatterns
                | Self::Unwritable { .. }
        )
    }
}
