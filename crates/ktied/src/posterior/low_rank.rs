//! Standard deviations of rank K whose factors are of any sign: what a singular value decomposition leaves.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::{Posterior, PosteriorKind, WeightInit};
use crate::error::Result;

/// Wᵢⱼ ~ N(μᵢⱼ, max(Σₐ uᵢₐ vⱼₐ, floor)²): M·N + K(M + N) parameters.
///
/// This is what [`compress`](crate::compress) by singular values makes of a mean-field posterior (section 2 of the
/// paper). It is not a k-tied Normal, whose factors are positive: a product may fall below zero, and is clamped there.
/// It implements nothing but means and scales, and no cap holds its scales.
#[derive(Debug, Module)]
pub struct LowRank {
    /// Means, `[M, N]`.
    pub loc: Param<Tensor<2>>,
    /// U, `[M, K]`
    pub u: Param<Tensor<2>>,
    /// V, `[N, K]`
    pub v: Param<Tensor<2>>,
    #[module(skip)]
    floor: f64,
}

impl LowRank {
    /// Smallest standard deviation: KL(q‖p) needs σ > 0. A weight that is clamped here costs about 18 nats.
    pub const FLOOR: f64 = 1e-8;

    /// First values for an M×N matrix, those of a k-tied Normal with the same key; `layer` names it if the rank does not
    /// fit.
    ///
    /// # Errors
    /// If `rank` is not between 1 and min(M, N), or the initial scale or the cap is not a positive number.
    pub fn new(layer: &str, shape: [usize; 2], rank: usize, init: WeightInit<'_>) -> Result<Self> {
        PosteriorKind::LowRank { rank }.check(layer, shape[0], shape[1])?;
        init.scale.check()?;
        let [u, v] = [(1, shape[0]), (2, shape[1])]
            .map(|(stream, len)| init.param(stream, [len, rank], |z| init.scale.log_factor(rank, z).exp()));
        Ok(Self { loc: init.loc(shape), u, v, floor: Self::FLOOR })
    }

    /// The posterior of these means, `[M, N]`, and factors, `[M, K]` and `[N, K]`.
    pub fn from_tensors(loc: Tensor<2>, u: Tensor<2>, v: Tensor<2>) -> Self {
        let [loc, u, v] = [loc, u, v].map(Param::from_tensor);
        Self { loc, u, v, floor: Self::FLOOR }
    }

    /// K
    pub fn rank(&self) -> usize {
        self.u.dims()[1]
    }

    /// The same with another smallest standard deviation, to see what the clamped weights cost.
    pub fn with_floor(self, floor: f64) -> Self {
        Self { floor, ..self }
    }
}

impl Posterior for LowRank {
    fn loc(&self) -> Tensor<2> {
        self.loc.val()
    }

    fn scale(&self) -> Option<Tensor<2>> {
        Some(self.u.val().matmul(self.v.val().transpose()).clamp_min(self.floor))
    }
}
