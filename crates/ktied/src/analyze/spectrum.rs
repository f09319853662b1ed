//! The singular values of a matrix, and what they say of its rank.

use serde::Serialize;

use crate::error::Result;
use crate::linalg::{Matrix, singular_values};

/// Singular values γ₁ ≥ γ₂ ≥ … of a matrix, and the share of its variance that each explains.
///
/// ```
/// use ktied::analyze::Spectrum;
/// use ktied::linalg::Matrix;
/// let spectrum = Spectrum::of(&Matrix::new(2, 2, vec![3.0, 0.0, 0.0, 1.0])?)?;
/// assert!((spectrum.explained[0] - 0.9).abs() < 1e-12); // 9/(9 + 1)
/// assert_eq!(spectrum.rank_for(0.95), 2);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spectrum {
    /// γₖ
    pub values: Vec<f64>,
    /// γₖ²/Σγ²
    pub explained: Vec<f64>,
    /// exp(−Σ pₖ ln pₖ) with pₖ = γₖ/Σγ (Roy and Vetterli, 2007): 1 for a matrix of rank 1, min(M, N) where all
    /// singular values are equal.
    pub effective_rank: f64,
}

impl Spectrum {
    /// The spectrum of a matrix.
    ///
    /// # Errors
    /// If the singular values are not found.
    pub fn of(matrix: &Matrix) -> Result<Self> {
        Ok(Self::from_values(singular_values(matrix)?))
    }

    /// The spectrum of these singular values.
    pub fn from_values(values: Vec<f64>) -> Self {
        let squares: f64 = values.iter().map(|value| value * value).sum();
        let share = |value: f64, total: f64| if total > 0.0 { value / total } else { 0.0 };
        let explained = values.iter().map(|value| share(value * value, squares)).collect();
        let sum: f64 = values.iter().sum();
        let shares = values.iter().map(|&value| share(value, sum)).filter(|&share| share > 0.0);
        let effective_rank = (-shares.map(|p| p * p.ln()).sum::<f64>()).exp();
        Self { values, explained, effective_rank }
    }

    /// The share of variance that the first `rank` singular values explain together.
    pub fn explained_by(&self, rank: usize) -> f64 {
        self.explained.iter().take(rank).sum()
    }

    /// The smallest rank that explains at least this share of variance.
    pub fn rank_for(&self, share: f64) -> usize {
        let size = self.values.len();
        (1..size).find(|&rank| self.explained_by(rank) >= share).unwrap_or(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_singular_values_have_full_effective_rank_and_one_has_rank_1() {
        let flat = Spectrum::from_values(vec![2.0; 5]);
        assert!((flat.effective_rank - 5.0).abs() < 1e-12);
        assert!((flat.explained_by(2) - 0.4).abs() < 1e-12);
        let single = Spectrum::from_values(vec![3.0, 0.0, 0.0]);
        assert_eq!((single.effective_rank, single.rank_for(1.0)), (1.0, 1));
        assert_eq!(Spectrum::from_values(vec![0.0, 0.0]).explained, [0.0, 0.0]);
    }
}
