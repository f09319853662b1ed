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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_below_zero_are_clamped_counted_and_paid_for() {
        // Far from rank 2: one entry of what is left of it is negative (NumPy says so too).
        let scale = Matrix::from_fn(5, 4, |i, j| ((i * 7 + j * 13) % 11).pow(3) as f64 / 1000.0 + 0.01);
        let fit = SvdFit::new(&scale, 2).unwrap();
        let product = fit.u.times_transposed(&fit.v).unwrap();
        let below: Vec<f64> = product.values().iter().copied().filter(|sigma| *sigma < LowRank::FLOOR).collect();
        assert_eq!((below.len(), fit.clamped), (1, 1), "{product:?}");
        // 0.037 became 1e-8: ln(0.037/1e-8) − ½ is what that one alone costs.
        assert!(fit.kl > 14.62, "{fit:?}");
        let by_hand: f64 = product.values().iter().zip(scale.values()).fold(0.0, |sum, (sigma, trained)| {
            let sigma = sigma.max(LowRank::FLOOR);
            sum + (trained / sigma).ln() + sigma * sigma / (2.0 * trained * trained) - 0.5
        });
        assert!((fit.kl - by_hand).abs() < 1e-9 * by_hand, "{} {by_hand}", fit.kl);
    }
}
