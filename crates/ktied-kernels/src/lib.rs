//! CPU kernels of `ktied`: slices in, slices out, and nothing of burn.
//!
//! What variational inference needs is in [`noise`] (counter-based, so that no draw is ever stored), [`sample`],
//! [`kl`], [`local`], [`signs`] and [`adam`]; what networks need is in [`dense`], [`conv`], [`pool`], [`batch_norm`], [`embedding`],
//! [`lstm`], [`dropout`] and [`softmax`]. Every kernel checks its operands first and then runs on the rayon pool it is called in.
//!
//! **Same key, same bits**: work is cut in fixed pieces and added in a fixed order, so the number of threads changes
//! nothing, and no kernel but the matrix products depends on the instruction set ([`simd`]).
//!
//! ```
//! use ktied_kernels::{LogFactors, NoiseKey, Purpose, kl, sample};
//!
//! // A 3×2 matrix of weights under a 1-tied posterior: σᵢⱼ = uᵢ vⱼ.
//! let (loc, log_u, log_v) = ([0.5; 6], [-1.0; 3], [-2.0; 2]);
//! let factors = LogFactors { log_u: &log_u, log_v: &log_v, num_rows: 3, num_cols: 2, rank: 1 };
//!
//! // One draw. The backward pass makes the same noise again from the same key.
//! let key = NoiseKey::new(42).child(Purpose::Weights).at(0, 0);
//! let mut weights = [0.0; 6];
//! sample::k_tied(&mut weights, Some(&loc), factors, key)?;
//!
//! // Its divergence from the prior N(0, 0.2²), in nats.
//! let prior = kl::Prior { loc: None, scale: 0.2 };
//! let nats = kl::k_tied(&loc, factors, prior, None)?;
//! assert!((nats - 24.28).abs() < 0.01);
//! # Ok::<(), ktied_kernels::ShapeError>(())
//! ```

pub mod activation;
pub mod adam;
mod awake;
pub mod batch_norm;
pub mod conv;
pub mod dense;
pub mod dropout;
pub mod embedding;
pub mod error;
pub mod gemm;
pub mod kl;
pub mod local;
pub mod lstm;
pub mod noise;
pub mod norm;
mod par;
pub mod pool;
pub mod rows;
pub mod sample;
pub mod scale;
mod scratch;
pub mod signs;
pub mod simd;
pub mod softmax;
pub mod vmath;

pub use awake::Awake;
pub use error::{Result, ShapeError};
pub use noise::{NoiseKey, Purpose};
pub use scale::{LogFactors, ScaleForm};

/// The code of this crate's README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
