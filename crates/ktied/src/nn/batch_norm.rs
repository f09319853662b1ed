//! Batch normalisation of the last dimension's channels: with the batch's statistics, or as a frozen affine map.

use burn::module::{Module, Param, RunningState};
use burn::tensor::{Device, Tensor, TensorData};
use ktied_kernels::activation::Activation;

use super::pass::{Pass, Statistics};
use crate::error::{Error, Result};
use crate::ops::{self, BatchMoments, NormRecipe};

/// Configuration of a [`BatchNorm`].
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNormConfig {
    /// C
    pub channels: usize,
    /// Added to the variance.
    pub epsilon: f64,
    /// What the running averages keep of themselves at each training step.
    pub momentum: f64,
    /// Whether mean and variance stay 0 and 1 for ever.
    pub frozen: bool,
    /// Applied at the end.
    pub activation: Activation,
}

impl BatchNormConfig {
    /// Keras' defaults: ε = 1e-3, momentum 0.99, the batch's statistics.
    pub fn new(channels: usize) -> Self {
        Self { channels, epsilon: 1e-3, momentum: 0.99, frozen: false, activation: Activation::Identity }
    }

    /// γ = 1, β = 0 and running averages 0 and 1, on a device.
    ///
    /// # Errors
    /// If `epsilon` is not a positive number or `momentum` not between 0 and 1.
    pub fn init(&self, device: &Device) -> Result<BatchNorm> {
        let Self { channels, epsilon, momentum, frozen, activation } = *self;
        Error::positive("the epsilon of batch norm", epsilon)?;
        if !(0.0..=1.0).contains(&momentum) {
            return Err(Error::NotAFraction { what: "the momentum of batch norm".into(), found: momentum });
        }
        let (ones, zeros) = (|| Tensor::ones([channels], device), || Tensor::zeros([channels], device));
        Ok(BatchNorm {
            gamma: Param::from_tensor(ones()),
            beta: Param::from_tensor(zeros()),
            running_mean: RunningState::new(zeros()),
            running_var: RunningState::new(ones()),
            epsilon,
            momentum,
            frozen,
            activation,
        })
    }
}

/// y = act(γ·(x − mean)/√(var + ε) + β) for each channel.
///
/// A training pass takes mean and variance of the batch and lets the running averages take them in; every other pass
/// uses the running averages. The averages are burn's [`RunningState`]: clones of a module share them.
#[derive(Debug, Module)]
pub struct BatchNorm {
    /// γ, `[C]`
    pub gamma: Param<Tensor<1>>,
    /// β, `[C]`
    pub beta: Param<Tensor<1>>,
    /// Running mean, `[C]`
    pub running_mean: RunningState<Tensor<1>>,
    /// Running variance (biased, as Keras'), `[C]`
    pub running_var: RunningState<Tensor<1>>,
    #[module(skip)]
    epsilon: f64,
    #[module(skip)]
    momentum: f64,
    #[module(skip)]
    frozen: bool,
    #[module(skip)]
    activation: Activation,
}

impl BatchNorm {
    /// # Shapes
    /// - x, output: `[…, C]`
    ///
    /// # Errors
    /// If x has another number of channels, or no row to take the mean of.
    pub fn forward<const D: usize>(&self, x: Tensor<D>, pass: &Pass) -> Result<Tensor<D>> {
        Ok(self.normalise(x, pass)?.0)
    }

    /// The same, with a recipe for layers that need the output once more in a backward pass: where they make it again by that, it
    /// is not kept.
    ///
    /// # Shapes
    /// - as in [`forward`](Self::forward)
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_with_recipe<const D: usize>(
        &self,
        x: Tensor<D>,
        pass: &Pass,
    ) -> Result<(Tensor<D>, Option<NormRecipe>)> {
        // No backward pass follows one with running averages, and a recipe keeps x.
        if pass.statistics() == Statistics::Running {
            return Ok((self.forward(x, pass)?, None));
        }
        let (y, moments) = self.normalise(x.clone(), pass)?;
        let parameters = [self.gamma.val(), self.beta.val()];
        Ok((y, NormRecipe::new(x, parameters, moments, self.epsilon, self.activation)))
    }

    /// The output, and the mean and variance that made it.
    fn normalise<const D: usize>(&self, x: Tensor<D>, pass: &Pass) -> Result<(Tensor<D>, BatchMoments)> {
        let (gamma, beta) = (self.gamma.val(), self.beta.val());
        if self.frozen || pass.statistics() == Statistics::Running {
            let moments = self.moments();
            let y = ops::frozen_norm(x, gamma, beta, moments.clone(), self.epsilon, self.activation)?;
            return Ok((y, moments));
        }
        let (y, batch) = ops::batch_norm(x, gamma, beta, self.epsilon, self.activation)?;
        self.take_in(&self.running_mean, &batch.mean);
        self.take_in(&self.running_var, &batch.var);
        Ok((y, batch))
    }

    /// The running averages; 0 and 1 of a frozen layer, which never changes them.
    fn moments(&self) -> BatchMoments {
        BatchMoments { mean: host(&self.running_mean), var: host(&self.running_var) }
    }

    fn take_in(&self, average: &RunningState<Tensor<1>>, batch: &[f32]) {
        // A step with such numbers is left out or ends the run; an average would never get rid of them.
        if batch.iter().any(|number| !number.is_finite()) {
            return;
        }
        let before = average.value_sync();
        let data = TensorData::new(batch.to_vec(), [batch.len()]);
        let now = Tensor::from_data(data, (&before.device(), before.dtype()));
        average.update(before * self.momentum + now * (1.0 - self.momentum));
        // burn keeps an update back until the next one, and a checkpoint in between would miss it.
        average.value_sync();
    }
}

fn host(average: &RunningState<Tensor<1>>) -> Vec<f32> {
    average.value_sync().into_data().iter::<f32>().collect()
}
