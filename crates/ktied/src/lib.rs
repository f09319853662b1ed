//! Bayesian neural networks with the k-tied Normal posterior, for [burn](https://burn.dev).
//!
//! A weight matrix W (M×N) has an independent Gaussian for every entry. The means are an ordinary matrix; the standard
//! deviations are the product U Vᵀ of two thin positive matrices of K columns, stored as logarithms: K(M + N)
//! numbers instead of the M·N of mean field (Swiatkowski et al., ICML 2020).
//!
//! A layer is made of [posteriors](posterior) and their [priors](prior), a network of [layers](nn); a forward pass says
//! how weights are drawn ([`nn::Pass`]), the [objective] what to minimise, and an optimiser of [`train`] does it:
//!
//! ```
//! use burn::optim::GradientsParams;
//! use burn::tensor::{Device, Tensor};
//! use ktied::data::digits::Digits;
//! use ktied::evaluate::predict_classes;
//! use ktied::models::{MlpSpec, Network, NetworkConfig, PosteriorSpec};
//! use ktied::nn::{Estimator, Pass};
//! use ktied::objective::Elbo;
//! use ktied::train::AdamConfig;
//! use ktied::ops;
//!
//! // 1,400 images of 8×8 pixels, embedded in the crate.
//! let (train, _test) = Digits::embedded()?.split();
//! let x = Tensor::<1>::from_floats(&train.inputs[..], &Device::flex()).reshape([1400, 64]);
//! let labels: Vec<u32> = train.labels.iter().map(|&label| label.into()).collect();
//!
//! // A 64-32-10 network: 2-tied kernels, mean-field biases, prior N(0, 0.2²).
//! let config = NetworkConfig::new(PosteriorSpec::new("k-tied:2".parse()?));
//! let mut mlp = MlpSpec { sizes: vec![64, 32, 10] }.init(&config, &Device::flex().autodiff())?;
//!
//! // −ELBO per example: the likelihood under one draw, plus KL(q‖p)/N. The noise of step s is a function of (42, s).
//! let (elbo, mut adam) = (Elbo::new(1400)?, AdamConfig::new().init());
//! for step in 0..60 {
//!     let logits = mlp.forward(x.clone(), &Pass::sampled(42, step, Estimator::Local))?;
//!     let loss = elbo.loss(ops::softmax_cross_entropy(logits, &labels)?.mean(), mlp.kl()?, 1.0);
//!     let grads = GradientsParams::from_grads(loss.backward(), &mlp);
//!     mlp = adam.step(1e-2, mlp, grads);
//! }
//!
//! // The average prediction of 20 draws.
//! let scores = predict_classes(&labels, 20, |draw| mlp.forward(x.clone(), &Pass::prediction(7, draw)))?;
//! assert!(scores.accuracy > 0.8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Under it all lie the [operations](ops) on burn tensors, each with a fused CPU kernel and a portable path.

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
mod text;
pub mod train;

pub use error::{Error, Result};
pub use ktied_kernels::activation::Activation;
pub use ktied_kernels::adam::AdamStep;
pub use ktied_kernels::{NoiseKey, Purpose, ScaleForm, ShapeError, noise};

/// The snippet of this crate's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
