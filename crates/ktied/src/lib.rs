//! Bayesian neural networks with the k-tied Normal posterior, for [burn](https://burn.dev).
//!
//! A weight matrix W (M×N) has an independent Gaussian for every entry. The means are an ordinary matrix; the standard
//! deviations are the product U Vᵀ of two thin positive matrices of K columns, stored as logarithms: K(M + N)
//! numbers instead of the M·N of mean field (Swiatkowski et al., ICML 2020).
//!
//! Today this crate has the [operations](ops), each with a fused CPU kernel and a portable path, the
//! [optimiser](train), descriptions of the paper's [models](models) and the embedded [digits](data). One step of training,
//! by hand:
//!
//! ```
//! use burn::tensor::{Device, Distribution, Tensor};
//! use ktied::{Activation, AdamStep, NoiseKey, Purpose, ops};
//!
//! let device = Device::flex().autodiff();
//! let x = Tensor::<2>::random([32, 8], Distribution::Default, &device);
//! let labels = vec![1; 32];
//!
//! // An 8×3 layer under a 2-tied posterior: means, and the logarithms of U (8×2) and V (3×2), σ about 0.01.
//! let loc = Tensor::<2>::zeros([8, 3], &device).require_grad();
//! let log_u = (Tensor::<2>::zeros([8, 2], &device) - 2.65).require_grad();
//! let log_v = (Tensor::<2>::zeros([3, 2], &device) - 2.65).require_grad();
//!
//! // −ELBO per example: the likelihood under one draw of the weights, plus KL(q‖p)/N.
//! let key = NoiseKey::new(42).child(Purpose::Weights).at(0, 0);
//! let weights = ops::draw_k_tied(Some(loc.clone()), log_u.clone(), log_v.clone(), key)?;
//! let logits = ops::dense(x, weights, None, Activation::Identity)?;
//! let nll = ops::softmax_cross_entropy(logits, &labels)?.mean();
//! let kl = ops::kl_k_tied(loc.clone(), log_u.clone(), log_v.clone(), None, 0.2)?;
//! let grads = (nll + kl / 1000.0).backward();
//!
//! // One fused step of Adam on the means; `train::AdamConfig` does it for a whole burn module.
//! let (loc, grad) = (loc.clone().inner(), loc.grad(&grads).expect("a gradient"));
//! let step = AdamStep { lr: 1e-3, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8, step: 1 };
//! let (loc, _moments) = ops::adam_update(loc.clone(), [loc.zeros_like(), loc.zeros_like()], grad, step)?;
//! assert_eq!(loc.dims(), [8, 3]);
//! # Ok::<(), ktied::ShapeError>(())
//! ```

pub mod data;
pub mod error;
pub mod evaluate;
pub mod models;
pub mod nearest;
pub mod nn;
pub mod objective;
pub mod ops;
pub mod posterior;
pub mod prior;
pub mod train;

pub use error::{Error, Result};
pub use ktied_kernels::activation::Activation;
pub use ktied_kernels::adam::AdamStep;
pub use ktied_kernels::{NoiseKey, Purpose, ScaleForm, ShapeError, noise};

/// The snippet of this crate's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
