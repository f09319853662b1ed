//! The matrix-variate Normal with diagonal row and column covariances, which is the 1-tied Normal in other words.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::init::ScaleInit;
use super::{Posterior, WeightInit, clip};
use crate::error::Result;

/// W ~ MN(μ, diag(q), diag(p)): the variance of Wᵢⱼ is qᵢ pⱼ (Louizos and Welling, 2016), M·N + M + N parameters.
///
/// With u = √q and v = √p that is a k-tied Normal of rank 1, and no other (appendix A of the paper): the tests show
/// both. It implements nothing but means and scales, so it also shows how little a family needs.
#[derive(Debug, Module)]
pub struct MatrixNormal {
    /// Means, `[M, N]`.
    pub loc: Param<Tensor<2>>,
    /// ln q, the variances of rows, `[M, 1]`
    pub log_row_variance: Param<Tensor<2>>,
    /// ln p, the variances of columns, `[N, 1]`
    pub log_col_variance: Param<Tensor<2>>,
    #[module(skip)]
    init: ScaleInit,
}

impl MatrixNormal {
    /// First values for an M×N matrix: those of a 1-tied Normal with the same key.
    ///
    /// # Errors
    /// If the initial scale or the cap is not a positive number.
    pub fn new(shape: [usize; 2], init: WeightInit<'_>) -> Result<Self> {
        init.scale.check()?;
        let variance = |stream, len| init.param(stream, [len, 1], |z| 2.0 * init.scale.log_factor(1, z));
        let (rows, cols) = (variance(1, shape[0]), variance(2, shape[1]));
        Ok(Self { loc: init.loc(shape), log_row_variance: rows, log_col_variance: cols, init: init.scale })
    }
}

impl Posterior for MatrixNormal {
    fn loc(&self) -> Tensor<2> {
        self.loc.val()
    }

    fn scale(&self) -> Option<Tensor<2>> {
        let log_variance = self.log_row_variance.val() + self.log_col_variance.val().transpose();
        Some((log_variance * 0.5).exp())
    }

    fn clipped(self) -> Self {
        let Some(limit) = self.init.log_factor_cap(1).map(|limit| 2.0 * limit) else { return self };
        let rows = clip(self.log_row_variance, limit);
        Self { log_row_variance: rows, log_col_variance: clip(self.log_col_variance, limit), ..self }
    }
}
