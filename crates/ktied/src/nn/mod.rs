//! Bayesian layers as burn modules: `XConfig` → `init` → `X` → `forward`.
//!
//! A layer holds a posterior for each of its tensors and the prior they answer to. How its weights enter a forward pass
//! is the caller's choice, a [`Pass`]: the means alone, or one draw by an [`Estimator`].

mod conv2d;
mod layer;
mod linear;
mod pass;

pub use conv2d::{Conv2d, Conv2dConfig};
pub use layer::{LayerConfig, Weights};
pub use linear::{Linear, LinearConfig};
pub use pass::{Estimator, Pass};
