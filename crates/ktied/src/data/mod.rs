//! Data sets: readers of files that nobody vouches for, the one form in memory, and the orders in which examples are visited.
//!
//! A [`DataSpec`] says which data and how; [`load`] gives a [`DataSet`] of three [`Split`]s. Every reader is strict and
//! bounded: a file that is not exactly what it should be is refused with one sentence ([`DataError`], [`Fault`]), and no
//! memory is taken for a size that only a header claims.
//!
//! ```
//! use ktied::data::{DataSpec, load};
//! let digits = load(&DataSpec::named("digits"))?;
//! let (mut inputs, mut labels) = (Vec::new(), Vec::new());
//! digits.train.inputs.gather(&[5, 2], &mut inputs)?;
//! digits.train.targets.gather_classes(&[5, 2], &mut labels)?;
//! assert_eq!((inputs.len(), labels.len()), (2 * 64, 2));
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

mod batcher;
pub mod bounded;
pub mod cifar;
pub mod csv;
pub mod digest;
pub mod digits;
mod error;
pub mod idx;
pub mod imdb;
pub mod npy;
pub mod npz;
pub mod own;
pub mod place;
mod preprocessing;
mod raw;
#[cfg(test)]
mod real;
mod rotate;
mod set;
pub mod shuffle;
mod spec;
pub mod standard;
pub mod stream;
pub mod uci;
pub mod words;

pub use batcher::{Batch, Batches, InOrder, ahead};
pub use error::{DataError, Fault};
pub use preprocessing::{Preprocessing, Steps};
pub use raw::MAX_CLASSES;
pub use rotate::rotated;
pub use set::{DataSet, Inputs, Scaling, Split, Targets, Units};
pub use spec::{DataSpec, MAX_LENGTH, MAX_VOCABULARY, Task, load};
pub use standard::Standard;
