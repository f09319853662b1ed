//! A point: one number a weight, no uncertainty.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::{Posterior, WeightInit};

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
}
