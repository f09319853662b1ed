//! The Bayesian core: posterior families, priors, layers and estimators, held against closed forms and against each other.

mod estimators;
mod evaluation;
mod families;
mod golden;
mod gradients;
mod inference;
mod networks;
mod priors;
mod support;
