//! A convolution with a posterior over its kernel, channels last.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use ktied_kernels::ShapeError;
use ktied_kernels::activation::Activation;

use super::layer::{LayerConfig, Weights};
use super::pass::Pass;
use crate::error::Result;
use crate::ops::{self, ConvWindow};

/// Configuration of a [`Conv2d`].
#[derive(Clone, Debug, PartialEq)]
pub struct Conv2dConfig {
    /// C
    pub channels: usize,
    /// O
    pub outputs: usize,
    /// Kernel, stride and borders.
    pub window: ConvWindow,
    /// Applied to the sums.
    pub activation: Activation,
    /// Posterior, prior and place.
    pub layer: LayerConfig,
}

impl Conv2dConfig {
    /// First values on a device. The kernel counts as a matrix of KH·KW·C rows and O columns, so it can be k-tied too.
    ///
    /// # Errors
    /// If a rank does not fit the matrix, a scale is not a positive number, or the sizes overflow.
    pub fn init(&self, device: &Device) -> Result<Conv2d> {
        let [height, width] = self.window.kernel;
        let fan_in = height.checked_mul(width).and_then(|area| area.checked_mul(self.channels));
        let fan_in = fan_in.ok_or(ShapeError::Overflow { kernel: "conv2d" })?;
        let weights = self.layer.init([fan_in, self.outputs], device)?;
        Ok(Conv2d { weights, window: self.window, activation: self.activation })
    }
}

/// y = act(x * W + b), where W and b have posteriors.
#[derive(Debug, Module)]
pub struct Conv2d {
    /// W, `[KH·KW·C, O]`, and b.
    pub weights: Weights,
    #[module(skip)]
    window: ConvWindow,
    #[module(skip)]
    activation: Activation,
}

impl Conv2d {
    /// The same layer with every scale brought back under its cap.
    pub fn clipped(self) -> Self {
        Self { weights: self.weights.clipped(), ..self }
    }

    /// The same layer with what `map` makes of its weights.
    ///
    /// # Errors
    /// What `map` says.
    pub fn map_weights<E>(self, map: impl FnOnce(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        Ok(Self { weights: map(self.weights)?, ..self })
    }

    /// # Shapes
    /// - x: `[B, H, W, C]`; output: `[B, H', W', O]`
    ///
    /// # Errors
    /// If the shapes do not fit, and [`Error::LocalIsBiased`](crate::Error::LocalIsBiased) for a local pass: a
    /// convolution uses each weight at many positions, whose noise is not independent.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<4>> {
        let product = |x, kernel, bias, activation| ops::conv2d(x, kernel, bias, self.window, activation);
        self.weights.forward(x, pass, self.activation, "a convolution", product)
    }
}
