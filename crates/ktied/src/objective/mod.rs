//! What training minimises: the negative evidence lower bound, with its annealing.

mod anneal;
mod elbo;

pub use anneal::Anneal;
pub use elbo::{Elbo, Terms};
