//! Other libraries' mean-field posteriors: pairs of tensors (mean, and σ in some form) in a `.safetensors` or `.npz` file.
//!
//! A [`Convention`] says how the tensors of a weight are called, in which [`Form`] its σ is stored and where the output
//! dimension is; there is one for bayesian-torch and one for TensorFlow Probability, and a user's own are made of
//! [`NamePattern`]s. [`Foreign`] is the file: it gives [`Pair`]s, whose μ and σ are matrices of one orientation (rows are
//! everything else, columns are outputs), takes new scales, and is written back with everything else as it was.
//!
//! ```
//! use ktied::checkpoint::{Dtype, NamedTensor};
//! use ktied::foreign::{Convention, Foreign, ForeignError, NewScale};
//!
//! // A dense layer of 3 inputs and 2 outputs as bayesian-torch has it: [out, in], σ = ln(1 + eʳ).
//! let tensor = |values: &[f32], shape: &[usize]| {
//!     NamedTensor::new(Dtype::F32, shape.into(), values.iter().flat_map(|x| x.to_le_bytes()).collect())
//! };
//! let mut file = Foreign::default();
//! file.insert("fc.mu_weight", tensor(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], &[2, 3])?)?;
//! file.insert("fc.rho_weight", tensor(&[-3.0, -2.0, -1.0, -3.0, -2.0, -1.0], &[2, 3])?)?;
//!
//! // Every σ becomes the average of its row.
//! let averaged = file.rewritten(&Convention::bayesian_torch(), |pair| {
//!     let (_, cols) = pair.matrix().unwrap_or_default();
//!     let scale = pair.scale();
//!     let rows = scale.chunks(cols).map(|row| row.iter().sum::<f64>() / cols as f64);
//!     Ok::<_, ForeignError>(Some(NewScale::Scale(rows.flat_map(|mean| vec![mean; cols]).collect())))
//! })?;
//! let pairs = averaged.pairs(&Convention::bayesian_torch())?;
//! assert_eq!((pairs[0].name(), pairs[0].matrix()), ("fc", Some((3, 2))));
//! // The rows were constant already, so nothing has changed.
//! assert_eq!(averaged, file);
//! # Ok::<(), ktied::Error>(())
//! ```

// What strangers wrote is read here: whatever it is, it is answered with an error.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod convention;
mod error;
mod file;
mod form;
mod npz;
mod pair;
mod pairing;
mod pattern;
mod rewrite;

pub use convention::{Convention, OutputDim};
pub use error::{ForeignError, Mismatch};
pub use file::{Container, Foreign};
pub use form::Form;
pub use pair::Pair;
pub use pattern::NamePattern;
pub use rewrite::{Factors, NewScale, SIGNED_FLOOR};

/// What the functions of this module return.
type Result<T, E = ForeignError> = std::result::Result<T, E>;
