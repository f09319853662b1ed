//! Training: for now the optimiser.

mod optim;

pub use optim::{Adam, AdamConfig};
