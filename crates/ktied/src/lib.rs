//! Bayesian neural networks with the k-tied Normal posterior, for burn.

pub mod data;
pub mod ops;
pub mod train;
