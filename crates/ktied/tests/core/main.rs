//! The Bayesian core: posterior families, priors, layers and estimators, held against closed forms and against each other.

mod dropout;
mod estimators;
mod evaluation;
mod families;
mod golden;
mod golden_networks;
mod gradients;
mod inference;
mod marginal;
mod networks;
mod priors;
mod support;
