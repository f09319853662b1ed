//! What training minimises: the negative evidence lower bound, its annealing, and the likelihoods.

mod anneal;
mod elbo;
mod gaussian;
mod likelihood;

pub use anneal::Anneal;
pub use elbo::{Elbo, Terms};
pub use gaussian::Gaussian;
pub use likelihood::{Likelihood, LikelihoodKind, Observed};
