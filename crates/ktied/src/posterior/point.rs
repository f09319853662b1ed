//! A point: one number a weight, no uncertainty.

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::{Posterior, WeightInit};
use crate::error::Result;
use crate::prior::Prior;

/// All mass on one matrix. It makes an ordinary network of the same layers.
#[derive(Debug, Module)]
pub struct Point {
    /// The weights, `[M, N]`.
    pub loc: Param<Tensor<2>>,
}

impl Point {
    /// First values for an M×N matrix.
    pub fn new(shape: [usize; 2], init: WeightInit<'_>) -> Self {
        Self { loc: init.loc(shape) }
    }
}

impl Posterior for Point {
    fn loc(&self) -> Tensor<2> {
        self.loc.val()
    }

    fn scale(&self) -> Option<Tensor<2>> {
        None
    }

    fn add_kl_gradients(&self, _: &Prior, _: f64, _: &mut GradientsParams) -> Result<f64> {
        Ok(0.0)
    }
}
