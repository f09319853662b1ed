//! The k-tied Normal: standard deviations of rank K.

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use ktied_kernels::NoiseKey;

use super::divergence::{add_by_graph, off_graph, put_back};
use super::init::ScaleInit;
use super::{Posterior, PosteriorKind, WeightInit, clip};
use crate::error::Result;
use crate::ops::{self, LocalInput};
use crate::prior::Prior;

/// Wᵢⱼ ~ N(μᵢⱼ, (Σₐ uᵢₐ vⱼₐ)²) with u, v > 0, stored as logarithms: M·N + K(M + N) parameters (section 3 of the
/// paper).
#[derive(Debug, Module)]
pub struct KTied {
    /// Means, `[M, N]`.
    pub loc: Param<Tensor<2>>,
    /// ln U, `[M, K]`
    pub log_u: Param<Tensor<2>>,
    /// ln V, `[N, K]`
    pub log_v: Param<Tensor<2>>,
    #[module(skip)]
    init: ScaleInit,
}

impl KTied {
    /// First values for an M×N matrix; `layer` names it if the rank does not fit.
    ///
    /// # Errors
    /// If `rank` is not between 1 and min(M, N), or the initial scale or the cap is not a positive number.
    pub fn new(layer: &str, shape: [usize; 2], rank: usize, init: WeightInit<'_>) -> Result<Self> {
        PosteriorKind::KTied { rank }.check(layer, shape[0], shape[1])?;
        init.scale.check()?;
        let [log_u, log_v] = [(1, shape[0]), (2, shape[1])]
            .map(|(stream, len)| init.param(stream, [len, rank], |z| init.scale.log_factor(rank, z)));
        Ok(Self { loc: init.loc(shape), log_u, log_v, init: init.scale })
    }

    /// The posterior of these means, `[M, N]`, and logarithms of factors, `[M, K]` and `[N, K]`; of `init` the cap counts.
    pub fn from_tensors(loc: Tensor<2>, log_u: Tensor<2>, log_v: Tensor<2>, init: ScaleInit) -> Self {
        let [loc, log_u, log_v] = [loc, log_u, log_v].map(Param::from_tensor);
        Self { loc, log_u, log_v, init }
    }

    /// K
    pub fn rank(&self) -> usize {
        self.log_u.dims()[1]
    }
}

impl Posterior for KTied {
    fn loc(&self) -> Tensor<2> {
        self.loc.val()
    }

    fn scale(&self) -> Option<Tensor<2>> {
        Some(ops::portable::k_tied_scale(self.log_u.val(), self.log_v.val()))
    }

    fn draw(&self, key: NoiseKey) -> Result<Tensor<2>> {
        Ok(ops::draw_k_tied(Some(self.loc.val()), self.log_u.val(), self.log_v.val(), key)?)
    }

    fn perturbation(&self, key: NoiseKey) -> Result<Option<Tensor<2>>> {
        Ok(Some(ops::draw_k_tied(None, self.log_u.val(), self.log_v.val(), key)?))
    }

    fn local(&self, input: LocalInput) -> Result<Tensor<2>> {
        Ok(ops::local_k_tied(input, self.loc.val(), self.log_u.val(), self.log_v.val())?)
    }

    fn prefers_local(&self) -> bool {
        true
    }

    /// (x²P)Qᵀ
    fn sum_variance(&self, x: Tensor<2>) -> Option<Tensor<2>> {
        let pairs = |log_factor: Tensor<2>, off_diagonal: f64| {
            let rank = log_factor.dims()[1];
            let column = |a: usize| log_factor.clone().narrow(1, a, 1);
            let products = (0..rank).flat_map(|a| (a..rank).map(move |b| (a, b))).map(|(a, b)| {
                let product = (column(a) + column(b)).exp();
                if a == b { product } else { product * off_diagonal }
            });
            Tensor::cat(products.collect(), 1)
        };
        let (p, q) = (pairs(self.log_u.val(), 2.0), pairs(self.log_v.val(), 1.0));
        Some(x.square().matmul(p).matmul(q.transpose()))
    }

    fn kl(&self, prior: &Prior) -> Result<Tensor<1>> {
        let (log_u, log_v) = (self.log_u.val(), self.log_v.val());
        Ok(ops::kl_k_tied(self.loc.val(), log_u, log_v, prior.loc(), prior.scale())?)
    }

    fn add_kl_gradients(&self, prior: &Prior, by: f64, grads: &mut GradientsParams) -> Result<f64> {
        prior.check_shape(&self.loc.val())?;
        let params = [&self.loc, &self.log_u, &self.log_v];
        let Some([values, so_far]) = off_graph(params, grads) else {
            return Ok(add_by_graph(self, self.kl(prior)?, by, grads));
        };
        let (sums, kl) = ops::add_kl_k_tied(so_far, values, (prior.loc(), prior.scale()), by)?;
        put_back(params, sums, grads);
        Ok(kl)
    }

    fn clipped(self) -> Self {
        match self.init.log_factor_cap(self.rank()) {
            Some(limit) => Self { log_u: clip(self.log_u, limit), log_v: clip(self.log_v, limit), ..self },
            None => self,
        }
    }
}
