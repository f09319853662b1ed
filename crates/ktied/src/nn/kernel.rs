//! The kernel of a layer as a pass sees it: its posterior, without the weights that were pruned.

use burn::module::{Param, ParamId};
use burn::tensor::Tensor;
use ktied_kernels::{NoiseKey, ScaleForm, ShapeError};

use super::layer::Weights;
use crate::error::Result;
use crate::ops::portable;
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

    /// `mean` with the noise of local reparameterisation, bias included (see [`Posterior::add_local_noise`]).
    pub(super) fn add_local_noise(&self, mean: Tensor<2>, x: Tensor<2>, key: NoiseKey) -> Result<Tensor<2>> {
        let bias = self.bias_scale();
        let (Some(_), Some(scale)) = (&self.mask, self.scale()) else {
            return self.kernel.add_local_noise(mean, x, bias, key);
        };
        let form = bias.as_ref().map_or(ScaleForm::Log, |bias| bias.form);
        Ok(portable::add_local_noise(mean, x, scale.square(), bias.map(|bias| bias.raw), form, key))
    }

    /// KL(q‖p) of the kernel, `[1]`, in nats; a weight that was pruned is no parameter any more and costs nothing.
    pub(super) fn kernel_kl(&self) -> Result<Tensor<1>> {
        let prior = self.kernel_prior();
        let (Some(mask), Some(scale)) = (self.mask(), self.kernel.scale()) else { return self.kernel.kl(prior) };
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
