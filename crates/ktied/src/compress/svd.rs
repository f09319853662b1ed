//! The paper's approximation: a truncated decomposition, clamped where it is not positive.

use super::divergence::divergence;
use crate::error::Result;
use crate::linalg::{Matrix, Svd, svd};
use crate::posterior::LowRank;

/// Standard deviations σ ≈ max(U Vᵀ, 1e-8), where U and V are of any sign.
#[derive(Clone, Debug, PartialEq)]
pub struct SvdFit {
    /// U diag(√γ), `[M, K]`
    pub u: Matrix,
    /// V diag(√γ), `[N, K]`
    pub v: Matrix,
    /// Weights whose standard deviation would have been below the floor.
    pub clamped: usize,
    /// KL(compressed ‖ trained), in nats.
    pub kl: f64,
}

impl SvdFit {
    /// The fit of rank K = `rank` to standard deviations `scale`.
    ///
    /// # Errors
    /// If the decomposition does not converge.
    pub fn new(scale: &Matrix, rank: usize) -> Result<Self> {
        Ok(Self::of(&svd(scale, rank)?, scale, rank))
    }

    /// The same by a decomposition of `scale` that has `rank` singular values or more.
    pub fn of(svd: &Svd, scale: &Matrix, rank: usize) -> Self {
        let ([u, v], product) = (svd.factors(rank), svd.product(rank));
        let floor = LowRank::FLOOR;
        let clamped = product.values().iter().filter(|&&sigma| sigma < floor).count();
        let kl = divergence(&product.map(|sigma| sigma.max(floor)), scale);
        Self { u, v, clamped, kl }
    }
}
