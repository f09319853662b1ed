//! A convolution with a posterior over its kernel, channels last.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use ktied_kernels::ShapeError;
use ktied_kernels::activation::Activation;
use ktied_kernels::signs::SignKey;

use super::layer::{Affine, LayerConfig, Weights};
use super::pass::Pass;
use crate::error::Result;
use crate::ops::{self, ConvWindow, NormRecipe, portable};

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
        self.forward_normed((x, None), pass)
    }

    /// The same of a [normalised](super::BatchNorm::forward_with_recipe) input, which is not kept for the backward pass but made again
    /// by its recipe.
    ///
    /// # Shapes
    /// - as in [`forward`](Self::forward)
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_normed(&self, (x, recipe): (Tensor<4>, Option<NormRecipe>), pass: &Pass) -> Result<Tensor<4>> {
        self.weights.forward(x, pass, self.activation, &Windows { window: self.window, is_pooled: false, recipe })
    }

    /// The same, of which only the largest sum of every 2×2 goes into the activation: what max-pooling after the layer
    /// gives, whose activation it commutes with, without the sums ever being in memory where there is one draw of the
    /// weights.
    ///
    /// # Shapes
    /// - x: `[B, H, W, C]`; output: `[B, H'/2, W'/2, O]`, halves rounded down
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_pooled(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<4>> {
        self.weights.forward(x, pass, self.activation, &Windows { window: self.window, is_pooled: true, recipe: None })
    }
}

/// A convolution, and max-pooling of its sums if asked for.
struct Windows {
    window: ConvWindow,
    is_pooled: bool,
    /// Makes the input again.
    recipe: Option<NormRecipe>,
}

impl Affine<4> for Windows {
    fn kind(&self) -> &'static str {
        "a convolution"
    }

    fn product(
        &self,
        x: Tensor<4>,
        kernel: Tensor<2>,
        bias: Option<Tensor<1>>,
        activation: Activation,
    ) -> Result<Tensor<4>, ShapeError> {
        match self.is_pooled {
            true => ops::conv2d_pooled(x, kernel, bias, self.window, activation),
            false => ops::conv2d(x, kernel, bias, self.window, activation, self.recipe.clone()),
        }
    }

    fn flipout(
        &self,
        x: Tensor<4>,
        weights: [Tensor<2>; 2],
        bias: Option<Tensor<1>>,
        signs: [SignKey; 2],
        activation: Activation,
    ) -> Result<Tensor<4>, ShapeError> {
        if !self.is_pooled {
            return ops::conv2d_flipout(x, weights, bias, self.window, signs, activation, self.recipe.clone());
        }
        let sums = ops::conv2d_flipout(x, weights, bias, self.window, signs, Activation::Identity, None)?;
        Ok(portable::activate(ops::max_pool2d(sums, [2, 2], [2, 2])?, activation))
    }
}
