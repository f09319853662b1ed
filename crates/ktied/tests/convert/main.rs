//! Models of burn that become Bayesian without knowing of it.

mod errors;
mod layers;
mod learner;
mod passes;
mod saving;
mod support;
mod transformer;
