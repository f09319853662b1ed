//! The operations of Bayesian networks on burn tensors.
//!
//! Each is a free function. For single precision on the Flex device it runs one fused kernel of
//! [`ktied_kernels`], forward and backward; on every other device, and in double precision, it runs the
//! [`portable`] path, made of burn's own operations, which is also what the tests hold the kernels against. The
//! noise is the same on both, to the rounding of the device.
//!
//! Shapes are checked before anything runs: operands whose shapes do not fit are an error that names them, never a panic.
//! All operands of one operation must share a device and a precision, as those of burn's own operations must; burn
//! panics where they do not.

mod branch;
mod buffers;
mod check;
mod conv;
mod dense;
mod draw;
mod dropout;
mod embedding;
mod fused;
mod kl;
mod local;
mod loss;
mod lstm;
mod norm;
mod pool;
pub mod portable;
mod signs;
mod update;

pub(crate) use branch::fork;
pub use branch::sum;
pub(crate) use buffers::{copy_of, give_data as recycle};
pub use conv::{Border, ConvWindow, conv2d, conv2d_flipout, conv2d_pooled};
pub use dense::dense;
pub use draw::{draw_k_tied, draw_mean_field};
pub use dropout::dropout;
pub use embedding::embedding;
pub(crate) use fused::takes;
pub(crate) use kl::{add_kl_k_tied, add_kl_mean_field};
pub use kl::{kl_k_tied, kl_mean_field};
pub use local::{BiasScale, LocalInput, add_noise, local_k_tied, local_mean_field};
pub use loss::{sigmoid_cross_entropy, softmax_cross_entropy};
pub use lstm::{LstmPerturbation, LstmSigns, LstmTensors, lstm, lstm_last, lstm_last_of_words};
pub use norm::{BatchMoments, NormRecipe, batch_norm, frozen_norm};
pub use pool::{avg_pool2d, max_pool2d};
pub use signs::{SignKey, add_signed, apply_signs};
pub use update::{adam_foresee, adam_update, at_most, sum_of_squares};
