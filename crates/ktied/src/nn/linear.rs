//! A dense layer with a posterior over its weights.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use ktied_kernels::activation::Activation;
use ktied_kernels::{NoiseKey, Purpose, ShapeError};

use super::layer::{Affine, LayerConfig, Weights};
use super::pass::{Estimator, Pass};
use crate::error::Result;
use crate::ops;
use crate::posterior::{Family, Posterior};

/// Configuration of a [`Linear`].
#[derive(Clone, Debug, PartialEq)]
pub struct LinearConfig {
    /// M
    pub inputs: usize,
    /// N
    pub outputs: usize,
    /// Applied to the sums.
    pub activation: Activation,
    /// Posterior, prior and place.
    pub layer: LayerConfig,
}

impl LinearConfig {
    /// First values on a device.
    ///
    /// # Errors
    /// If a rank does not fit the matrix, or a scale is not a positive number.
    pub fn init(&self, device: &Device) -> Result<Linear> {
        let weights = self.layer.init([self.inputs, self.outputs], device)?;
        Ok(Linear { weights: weights.used_once(), activation: self.activation })
    }

    /// The layer around a kernel of any family, such as one of your own; `layer.posterior` then says nothing.
    ///
    /// # Errors
    /// If the kernel is not `inputs`×`outputs`, or a scale is not a positive number.
    pub fn init_with<P: Posterior>(&self, kernel: P, device: &Device) -> Result<Linear<P>> {
        let (expected, found) = ([self.inputs, self.outputs].to_vec(), kernel.loc().dims().to_vec());
        if found != expected {
            return Err(ShapeError::Shape { kernel: "linear", operand: "kernel", expected, found }.into());
        }
        Ok(Linear { weights: self.layer.around(kernel, device)?.used_once(), activation: self.activation })
    }
}

/// y = act(x·W + b), where W and b have posteriors.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::nn::{Estimator, LayerConfig, LinearConfig, Pass};
///
/// let layer = LayerConfig::new("dense_1", 0, "k-tied:2".parse()?);
/// let linear = LinearConfig { inputs: 8, outputs: 4, activation: Default::default(), layer };
/// let linear = linear.init(&Device::flex().autodiff())?;
/// let x = Tensor::<2>::ones([3, 8], &Device::flex());
/// let y = linear.forward(x, &Pass::sampled(42, 0, Estimator::Local))?;
/// assert_eq!(y.dims(), [3, 4]);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct Linear<P = Family> {
    /// W, `[M, N]`, and b.
    pub weights: Weights<P>,
    #[module(skip)]
    activation: Activation,
}

impl<P: Posterior> Linear<P> {
    /// # Shapes
    /// - x: `[B, …, M]`, where what lies between are positions; output: `[B, …, N]`
    ///
    /// # Errors
    /// If x has another number of columns or fewer than two dimensions, or no row in a local pass, and
    /// [`Error::LocalIsBiased`](crate::Error::LocalIsBiased) for a local pass over more than one position, which all
    /// use the same weights.
    pub fn forward<const D: usize>(&self, x: Tensor<D>, pass: &Pass) -> Result<Tensor<D>> {
        let dims = x.dims();
        let positions: usize = dims.iter().take(D.saturating_sub(1)).skip(1).product();
        let is_local = match pass {
            Pass::Sampled { estimator, .. } => *estimator == Estimator::Local,
            Pass::Marginal { .. } => self.weights.kernel.prefers_local(),
            Pass::Means => false,
        };
        if is_local && positions == 1 {
            let y = self.weights.local(rows_of(x)?, self.activation, self.activation_noise(pass))?;
            return Ok(rows_to(y, dims));
        }
        self.weights.forward(x, pass, self.activation, &Rows)
    }

    /// What is known of the layer's sums before any noise is drawn, to be shared by all draws for the same input; none
    /// where there is no uncertainty.
    ///
    /// # Shapes
    /// - x: `[B, M]`
    ///
    /// # Errors
    /// If x has another number of columns.
    pub fn moments(&self, x: Tensor<2>) -> Result<Option<SumMoments>> {
        let mean = ops::dense(x.clone(), self.weights.loc(), self.weights.bias_loc(), Activation::Identity)?;
        Ok(self.weights.sum_sd(x).map(|sd| SumMoments { mean, sd }))
    }

    /// The layer's output in a marginal pass, given its moments, `[B, N]`: exact for every example alone.
    ///
    /// # Errors
    /// If the moments are those of another layer.
    pub fn forward_from(&self, moments: &SumMoments, pass: &Pass) -> Result<Tensor<2>> {
        let SumMoments { mean, sd } = moments.clone();
        Ok(ops::add_noise(mean, sd, self.activation_noise(pass), self.activation)?)
    }

    fn activation_noise(&self, pass: &Pass) -> (NoiseKey, usize) {
        let first = pass.noise().map_or(0, |(_, _, first)| first);
        (self.weights.noise(pass).of(Purpose::Activations), first)
    }

    /// The same layer with every scale brought back under its cap.
    pub fn clipped(self) -> Self {
        Self { weights: self.weights.clipped(), ..self }
    }

    /// The same layer with what `map` makes of its weights.
    ///
    /// # Errors
    /// What `map` says.
    pub fn map_weights<E>(self, map: impl FnOnce(Weights<P>) -> Result<Weights<P>, E>) -> Result<Self, E> {
        Ok(Self { weights: map(self.weights)?, ..self })
    }
}

/// A dense layer at every position of its input.
struct Rows;

impl<const D: usize> Affine<D> for Rows {
    fn kind(&self) -> &'static str {
        "a dense layer applied at several positions"
    }

    fn product(
        &self,
        x: Tensor<D>,
        kernel: Tensor<2>,
        bias: Option<Tensor<1>>,
        activation: Activation,
    ) -> Result<Tensor<D>, ShapeError> {
        let dims = x.dims();
        Ok(rows_to(ops::dense(rows_of(x)?, kernel, bias, activation)?, dims))
    }
}

/// Means and standard deviations of a dense layer's sums, both `[B, N]`.
#[derive(Clone, Debug)]
pub struct SumMoments {
    mean: Tensor<2>,
    sd: Tensor<2>,
}

/// `[B, …, M]` → `[B·…, M]`
fn rows_of<const D: usize>(x: Tensor<D>) -> Result<Tensor<2>, ShapeError> {
    let dims = x.dims();
    match dims.split_last() {
        Some((&inputs, rows)) if D >= 2 => Ok(x.reshape([rows.iter().product(), inputs])),
        _ => Err(ShapeError::Size { kernel: "dense", operand: "dimensions of x", expected: "at least 2", found: D }),
    }
}

/// `[B·…, N]` → `[B, …, N]`
fn rows_to<const D: usize>(y: Tensor<2>, mut dims: [usize; D]) -> Tensor<D> {
    if let Some(last) = dims.last_mut() {
        *last = y.dims()[1];
    }
    y.reshape(dims)
}
