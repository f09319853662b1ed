//! What a posterior looks like from the inside: spectra, variance explained, scales against the prior, and the rank
//! that would be enough.
//!
//! Everything is computed from a network alone, without data. Kernels count as matrices of M rows and N columns, as they
//! do everywhere here: a convolution's are kh·kw·cin × cout.

mod layer;
mod spectrum;

pub use layer::{LayerReport, MAX_RANK, RankPrice, Recommendation, ScaleReport, Settings, analyze};
pub use spectrum::Spectrum;
