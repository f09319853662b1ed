//! The kernel of a layer as a pass sees it: its posterior, without the weights that were pruned.

use burn::module::{Param, ParamId};
use burn::tensor::Tensor;
use ktied_kernels::activation::Activation;
use ktied_kernels::{NoiseKey, ShapeError};

use super::layer::Weights;
use crate::error::Result;
use crate::ops::{LocalInput, portable};
use crate::posterior::Posterior;

impl<P: Posterior> Weights<P> {
    /// Means of the kernel, `[M, N]`; pruned weights are exactly zero.
    pub fn loc(&self) -> Tensor<2> {
        self.masked(self.kernel.loc())
    }

    /// Standard deviations of the kernel, `[M, N]`, none for a point; those of pruned weights are exactly zero.
    pub fn scale(&self) -> Option<Tensor<2>> {
        self.kernel.scale().map(|scale| self.masked(scale))
    }

    /// 1 for every weight that is kept and 0 for one that was pruned, `[M, N]`; none if none was.
    pub fn mask(&self) -> Option<Tensor<2>> {
        self.mask.as_ref().map(Param::val)
    }

    /// The same without the weights where `mask`, `[M, N]`, is 0: in every pass they are exactly zero, and no longer
    /// part of KL(q‖p).
    ///
    /// # Errors
    /// If the mask is of another shape.
    pub fn with_mask(self, mask: Tensor<2>) -> Result<Self> {
        let (expected, found) = (self.kernel.loc().dims().to_vec(), mask.dims().to_vec());
        if expected != found {
            return Err(ShapeError::Shape { kernel: "layer", operand: "mask", expected, found }.into());
        }
        // Not a parameter to train: a mask has no gradient.
        Ok(self.masked_by(Param::initialized(ParamId::new(), mask.detach().set_require_grad(false))))
    }

    /// One draw of the kernel, `[M, N]`.
    pub(super) fn draw(&self, key: NoiseKey) -> Result<Tensor<2>> {
        Ok(self.masked(self.kernel.draw(key)?))
    }

    /// σ∘ε of one draw, `[M, N]`; none for a point.
    pub(super) fn perturbation(&self, key: NoiseKey) -> Result<Option<Tensor<2>>> {
        Ok(self.kernel.perturbation(key)?.map(|perturbation| self.masked(perturbation)))
    }

    /// The layer's output by local reparameterisation (see [`Posterior::local`]).
    pub(super) fn local(
        &self,
        x: Tensor<2>,
        activation: Activation,
        (key, first): (NoiseKey, usize),
    ) -> Result<Tensor<2>> {
        let (bias, bias_scale) = (self.bias_loc(), self.bias_scale());
        let input = LocalInput { x, bias, bias_scale, activation, key, first };
        // Means and scales as tensors of their own only where weights were pruned: they are as large as the kernel.
        match &self.mask {
            Some(_) => Ok(portable::local_dense(input, self.loc(), self.scale().map(|scale| scale.square()))),
            None => self.kernel.local(input),
        }
    }

    /// Standard deviations of the sums x·W + b, `[B, N]`, with the floor that local reparameterisation has; none without
    /// any uncertainty.
    pub(super) fn sum_sd(&self, x: Tensor<2>) -> Option<Tensor<2>> {
        let batch = x.dims()[0];
        let variance = match &self.mask {
            Some(_) => self.scale().map(|scale| x.square().matmul(scale.square())),
            None => self.kernel.sum_variance(x),
        };
        portable::sum_sd(variance, self.bias_scale(), batch)
    }

    /// KL(q‖p) of the kernel, `[1]`, in nats; a weight that was pruned is no parameter any more and costs nothing.
    pub(super) fn kernel_kl(&self) -> Result<Tensor<1>> {
        let prior = self.kernel_prior();
        let Some((mask, scale)) = self.mask().and_then(|mask| Some((mask, self.kernel.scale()?))) else {
            return self.kernel.kl(prior);
        };
        let loc = self.kernel.loc();
        prior.check_shape(&loc)?;
        let centred = match prior.loc() {
            Some(prior_loc) => loc - prior_loc,
            None => loc,
        };
        let variance = prior.scale() * prior.scale();
        let terms = (centred.square() + scale.clone().square()) / (2.0 * variance) - scale.log();
        let terms = terms + (prior.scale().ln() - 0.5);
        Ok((terms * mask).sum())
    }

    fn masked(&self, tensor: Tensor<2>) -> Tensor<2> {
        match self.mask() {
            Some(mask) => tensor * mask,
            None => tensor,
        }
    }
}
