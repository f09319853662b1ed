//! Mean field: a standard deviation of its own for each weight.

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use ktied_kernels::{NoiseKey, ScaleForm};

use super::divergence::{add_by_graph, off_graph, put_back};
use super::init::ScaleInit;
use super::{Posterior, WeightInit, clip};
use crate::error::Result;
use crate::ops::{self, LocalInput};
use crate::prior::Prior;

/// Wᵢⱼ ~ N(μᵢⱼ, σᵢⱼ²), with all σᵢⱼ free: 2·M·N parameters.
#[derive(Debug, Module)]
pub struct MeanField {
    /// Means, `[M, N]`.
    pub loc: Param<Tensor<2>>,
    /// Scales as they are stored, `[M, N]`.
    pub raw_scale: Param<Tensor<2>>,
    #[module(skip)]
    init: ScaleInit,
}

impl MeanField {
    /// First values for an M×N matrix.
    ///
    /// # Errors
    /// If the initial scale or the cap is not a positive number.
    pub fn new(shape: [usize; 2], init: WeightInit<'_>) -> Result<Self> {
        init.scale.check()?;
        let raw_scale = init.param(1, shape, |z| init.scale.raw(z));
        Ok(Self { loc: init.loc(shape), raw_scale, init: init.scale })
    }

    /// How scales begin, and their cap.
    pub fn init(&self) -> ScaleInit {
        self.init
    }

    /// How the scales are stored.
    pub fn form(&self) -> ScaleForm {
        self.init.form
    }
}

impl Posterior for MeanField {
    fn loc(&self) -> Tensor<2> {
        self.loc.val()
    }

    fn scale(&self) -> Option<Tensor<2>> {
        Some(ops::portable::scale(self.raw_scale.val(), self.form()))
    }

    fn draw(&self, key: NoiseKey) -> Result<Tensor<2>> {
        Ok(ops::draw_mean_field(Some(self.loc.val()), self.raw_scale.val(), self.form(), key)?)
    }

    fn perturbation(&self, key: NoiseKey) -> Result<Option<Tensor<2>>> {
        Ok(Some(ops::draw_mean_field(None, self.raw_scale.val(), self.form(), key)?))
    }

    fn local(&self, input: LocalInput) -> Result<Tensor<2>> {
        Ok(ops::local_mean_field(input, self.loc.val(), self.raw_scale.val(), self.form())?)
    }

    fn kl(&self, prior: &Prior) -> Result<Tensor<1>> {
        let (loc, raw) = (self.loc.val(), self.raw_scale.val());
        Ok(ops::kl_mean_field(loc, raw, self.form(), prior.loc(), prior.scale())?)
    }

    fn add_kl_gradients(&self, prior: &Prior, by: f64, grads: &mut GradientsParams) -> Result<f64> {
        prior.check_shape(&self.loc.val())?;
        let params = [&self.loc, &self.raw_scale];
        let Some([values, so_far]) = off_graph(params, grads) else {
            return Ok(add_by_graph(self, self.kl(prior)?, by, grads));
        };
        let (sums, kl) = ops::add_kl_mean_field(so_far, values, self.form(), (prior.loc(), prior.scale()), by)?;
        put_back(params, sums, grads);
        Ok(kl)
    }

    fn clipped(self) -> Self {
        match self.init.raw_cap() {
            Some(limit) => Self { raw_scale: clip(self.raw_scale, limit), ..self },
            None => self,
        }
    }
}
