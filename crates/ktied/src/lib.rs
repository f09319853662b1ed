//! Bayesian neural networks with the k-tied Normal posterior, for [burn](https://burn.dev).
//!
//! A weight matrix W (M×N) has an independent Gaussian for every entry. The means are an ordinary matrix; the standard
//! deviations are the product U Vᵀ of two thin positive matrices of K columns, stored as logarithms: K(M + N)
//! numbers instead of the M·N of mean field (Swiatkowski et al., ICML 2020).
//!
//! A layer is made of [posteriors](posterior) and their [priors](prior), a network of [layers](nn); a forward pass says
//! how weights are drawn ([`nn::Pass`]), the [objective] what to minimise, an optimiser of [`train`] does it, and
//! [`evaluate`](mod@evaluate) judges the result, alone, in an [ensemble](evaluate::Ensemble) or against another, and
//! predicts with it:
//!
//! ```
//! use burn::optim::GradientsParams;
//! use burn::tensor::{Device, Tensor};
//! use ktied::data::digits::Digits;
//! use ktied::evaluate::{Protocol, evaluate};
//! use ktied::models::{MlpSpec, Network, NetworkConfig, PosteriorSpec};
//! use ktied::nn::{Estimator, Pass};
//! use ktied::objective::{Elbo, Likelihood, LikelihoodKind, Observed};
//! use ktied::train::AdamConfig;
//!
//! // 1,400 images of 8×8 pixels, embedded in the crate.
//! let (train, _test) = Digits::embedded()?.split();
//! let x = Tensor::<1>::from_floats(&train.inputs[..], &Device::flex()).reshape([1400, 64]);
//! let labels = Observed::Classes(train.labels.iter().map(|&label| label.into()).collect());
//!
//! // A 64-32-10 network: 2-tied kernels, mean-field biases, prior N(0, 0.2²).
//! let config = NetworkConfig::new(PosteriorSpec::new("k-tied:2".parse()?));
//! let mut mlp = MlpSpec::new([64, 32, 10]).init(&config, &Device::flex().autodiff())?;
//!
//! // −ELBO per example: the likelihood under one draw, plus KL(q‖p)/N. The noise of step s is a function of (42, s).
//! let likelihood = Likelihood::new(LikelihoodKind::Softmax, 10, 1.0, &Device::flex())?;
//! let (elbo, mut adam) = (Elbo::new(1400)?, AdamConfig::new().init());
//! for step in 0..60 {
//!     let logits = mlp.forward(x.clone(), &Pass::sampled(42, step, Estimator::Local))?;
//!     let loss = elbo.loss(likelihood.nll(logits, &labels)?.mean(), mlp.kl()?, 1.0);
//!     let grads = GradientsParams::from_grads(loss.backward(), &mlp);
//!     mlp = adam.step(1e-2, mlp, grads);
//! }
//!
//! // The average prediction of 20 draws: accuracy, NLL, −ELBO, calibration, each with its standard errors.
//! let protocol = Protocol { samples: 20, ..Protocol::new(1400) };
//! let evaluation = evaluate(&mlp, &likelihood, [Ok((x, labels))], &protocol, |_| ())?;
//! assert!(evaluation.accuracy.is_some_and(|accuracy| accuracy.value > 0.8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A burn model of your own becomes Bayesian in one call: see [`convert`].
//!
//! Under it all lie the [operations](ops) on burn tensors, each with a fused CPU kernel and a portable path.

pub mod analyze;
pub mod checkpoint;
pub mod cluster;
pub mod compress;
pub mod config;
pub mod convert;
pub mod data;
pub mod error;
pub mod evaluate;
pub mod files;
pub mod foreign;
pub mod linalg;
pub mod models;
pub mod nearest;
pub mod nn;
pub mod objective;
pub mod ops;
pub mod posterior;
pub mod prior;
pub mod prune;
mod text;
pub mod train;

pub use convert::{Bayesian, BayesianConfig, bayesian};
pub use error::{Error, Result};
pub use ktied_kernels::activation::Activation;
pub use ktied_kernels::adam::AdamStep;
pub use ktied_kernels::dropout::DropoutRate;
pub use ktied_kernels::{NoiseKey, Purpose, ScaleForm, ShapeError, noise};

/// The snippet of this crate's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
