//! Posteriors of bayesian-torch and TensorFlow Probability: against their own numbers, there and back, and refused.

mod hostile;
mod oracle;
mod refusals;
mod rewriting;
mod round_trips;
mod support;
