//! Matrices on the host in double precision, and their singular values.
//!
//! What looks into a posterior, or makes it smaller, works here: a few matrices, once, where exactness is worth more
//! than speed.

mod matrix;
mod svd;

pub use matrix::Matrix;
pub use svd::{Svd, singular_values, svd};
