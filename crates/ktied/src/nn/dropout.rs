//! Dropout: a mask of its own for every unit, example and draw.

use burn::module::Module;
use burn::tensor::Tensor;
use ktied_kernels::Purpose;
use ktied_kernels::dropout::DropoutRate;

use super::pass::{LayerNoise, Pass};
use crate::error::{Error, Result};
use crate::ops;

/// Configuration of a [`Dropout`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutConfig {
    /// p, the probability with which a unit is left out; 0 for never.
    pub rate: f64,
    /// Number of the layer whose inputs it masks: the masks are a function of it.
    pub id: u64,
}

impl DropoutConfig {
    /// The layer, which has no parameters.
    ///
    /// # Errors
    /// [`Error::NotADropout`] if the rate is not at least 0 and below 1.
    pub fn init(&self) -> Result<Dropout> {
        Ok(Dropout { rate: rate(self.rate)?, id: self.id })
    }
}

/// `rate`, if it is at least 0 and below 1.
pub(crate) fn rate(rate: f64) -> Result<DropoutRate> {
    DropoutRate::new(rate).ok_or(Error::NotADropout { found: rate })
}

/// y = x∘m with m = 0 with probability p and 1/(1 − p) else: active in every draw, off where weights are at their means.
///
/// Under a point posterior the average over draws of a prediction is MC dropout (Gal and Ghahramani, 2016). The mask is a
/// function of (seed, step, layer) and the example's number, in [`Pass::marginal`] among all examples and else in its
/// batch.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::nn::{DropoutConfig, Pass};
///
/// let dropout = DropoutConfig { rate: 0.5, id: 1 }.init()?;
/// let x = Tensor::<2>::ones([1, 8], &Device::flex());
/// let drawn: Vec<f32> = dropout.forward(x.clone(), &Pass::prediction(42, 0))?.into_data().iter().collect();
/// assert!(drawn.iter().all(|y| *y == 0.0 || *y == 2.0));
/// let means: Vec<f32> = dropout.forward(x, &Pass::Means)?.into_data().iter().collect();
/// assert_eq!(means, [1.0; 8]);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct Dropout {
    #[module(skip)]
    rate: DropoutRate,
    #[module(skip)]
    id: u64,
}

impl Dropout {
    /// Whether it ever leaves a unit out.
    pub fn is_on(&self) -> bool {
        self.rate.rate() > 0.0
    }

    /// # Shapes
    /// - x, output: `[B, …]`
    ///
    /// # Errors
    /// None: every shape will do.
    pub fn forward<const D: usize>(&self, x: Tensor<D>, pass: &Pass) -> Result<Tensor<D>> {
        match pass.noise() {
            Some((root, step, first)) if self.is_on() => {
                let key = LayerNoise::new(root, step, self.id).of(Purpose::Dropout);
                Ok(ops::dropout(x, self.rate, (key, first))?)
            }
            _ => Ok(x),
        }
    }
}
