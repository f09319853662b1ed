//! Bayesian layers as burn modules: `XConfig` → `init` → `X` → `forward`.
//!
//! A layer holds a posterior for each of its tensors and the prior they answer to. How its weights enter a forward pass
//! is the caller's choice, a [`Pass`]: the means alone, or one draw by an [`Estimator`].

mod batch_norm;
mod conv2d;
mod dropout;
mod embedding;
mod kernel;
mod layer;
mod linear;
mod lstm;
mod pass;
mod pool;

pub use batch_norm::{BatchNorm, BatchNormConfig};
pub use conv2d::{Conv2d, Conv2dConfig};
pub(crate) use dropout::rate as dropout_rate;
pub use dropout::{Dropout, DropoutConfig};
pub use embedding::{Embedding, EmbeddingConfig};
pub use layer::{LayerConfig, Weights};
pub use linear::{Linear, LinearConfig, SumMoments};
pub use lstm::{Lstm, LstmConfig};
pub(crate) use pass::LayerNoise;
pub use pass::{Estimator, Pass, Statistics};
pub use pool::{Pool2d, Pool2dConfig, PoolKind};
