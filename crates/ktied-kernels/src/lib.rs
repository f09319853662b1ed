//! CPU kernels of `ktied`.
#![warn(missing_docs)]

pub mod activation;
pub mod adam;
pub mod batch_norm;
pub mod conv;
mod conv_shape;
pub mod dense;
pub mod error;
pub mod gemm;
mod im2col;
pub mod kl;
pub mod local;
pub mod lstm;
pub mod noise;
mod par;
pub mod pool;
mod rows;
pub mod sample;
pub mod scale;
mod scratch;
pub mod signs;
pub mod simd;
pub mod softmax;
pub mod vmath;

pub use error::{Result, ShapeError};
pub use noise::{NoiseKey, Purpose};
pub use scale::{LogFactors, ScaleForm};
