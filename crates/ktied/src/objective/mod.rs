//! What training minimises: the negative evidence lower bound, its annealing, and the likelihood of regression.

mod anneal;
mod elbo;
mod gaussian;

pub use anneal::Anneal;
pub use elbo::{Elbo, Terms};
pub use gaussian::Gaussian;
