//! Adam as one pass over memory: of a whole module, with a rate for means and one for scales.

mod foresight;
mod norm;
mod rule;

use std::collections::HashMap;

use burn::config::Config;
use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use ktied_kernels::adam::{AdamStep, Largest};

pub use norm::grad_norm;
pub use rule::AdamRule;

use crate::checkpoint::path::{ModulePath, tracks_path};
use crate::ops;

/// Configuration of [`Adam`].
///
/// ```
/// use burn::module::Module;
/// use burn::nn::LinearConfig;
/// use burn::optim::GradientsParams;
/// use burn::tensor::{Device, Tensor};
/// use ktied::train::AdamConfig;
///
/// let device = Device::flex().autodiff();
/// let model = LinearConfig::new(4, 2).init(&device);
/// let mut optimizer = AdamConfig::new().init();
/// let loss = model.forward(Tensor::<2>::ones([8, 4], &device)).square().mean();
/// let grads = GradientsParams::from_grads(loss.backward(), &model);
/// let model = optimizer.step(1e-3, model, grads);
/// # let _ = model.num_params();
/// ```
#[derive(Config, Debug)]
pub struct AdamConfig {
    /// Decay of the mean of gradients.
    #[config(default = 0.9)]
    pub beta_1: f64,
    /// Decay of the mean of squared gradients.
    #[config(default = 0.999)]
    pub beta_2: f64,
    /// Added to the root of the mean of squares; burn's own default, 1e-5, would be felt where gradients are small,
    /// as those of variational scales are.
    #[config(default = 1e-8)]
    pub epsilon: f64,
    /// Longest gradient: the gradient of the whole module is shortened to this norm where it is longer. Measuring it
    /// costs one more pass over the gradients.
    pub clip: Option<f64>,
}

impl AdamConfig {
    /// The optimiser of a whole module.
    pub fn init(&self) -> Adam {
        Adam { config: self.clone(), moments: HashMap::new() }
    }

    /// The update of one parameter behind burn's `Optimizer` trait, for what is written for that:
    /// `ModuleOptimizer::from(config.build())`. It does not clip, and its state is burn's.
    pub fn build(&self) -> AdamRule {
        AdamRule::new(self.beta_1, self.beta_2, self.epsilon)
    }

    /// The numbers of one update.
    fn step(&self, lr: f64, step: u64) -> AdamStep {
        AdamStep { lr, beta_1: self.beta_1, beta_2: self.beta_2, epsilon: self.epsilon, step }
    }
}

/// Learning rates by kind of parameter; a single number is the rate of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRates {
    /// Of means, and of all parameters that are not scales.
    pub loc: f64,
    /// Of the parameters that standard deviations are stored in.
    pub scale: f64,
}

impl From<f64> for LearningRates {
    fn from(lr: f64) -> Self {
        Self { loc: lr, scale: lr }
    }
}

impl LearningRates {
    /// Names of the parameters of this crate's posteriors that are scales.
    const SCALES: [&str; 7] = ["raw_scale", "log_u", "log_v", "log_row_variance", "log_col_variance", "u", "v"];

    /// The rate of a parameter of this name, the last part of its path.
    pub fn of(&self, name: &str) -> f64 {
        if Self::is_scale(name) { self.scale } else { self.loc }
    }

    /// Whether a parameter of this name is one that standard deviations are stored in.
    pub(crate) fn is_scale(name: &str) -> bool {
        Self::SCALES.contains(&name)
    }
}

/// Adam (Kingma and Ba, 2015) on a whole module: on the Flex device one fused pass that changes a parameter and its
/// moments in place, elsewhere burn's operations.
///
/// Each parameter has its own number of updates: one that gets its first gradient late is corrected as one that gets it
/// early. The state goes into checkpoints by [`to_tensors`](Self::to_tensors).
#[derive(Clone, Debug)]
pub struct Adam {
    config: AdamConfig,
    moments: HashMap<ParamId, Moments>,
}

/// The state of one parameter.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    /// Shape of the parameter.
    pub(crate) shape: Vec<usize>,
    /// First and second moment, as vectors: a map cannot hold tensors of any rank.
    pub(crate) flat: [Tensor<1>; 2],
    /// Updates so far.
    pub(crate) time: u64,
    /// The largest numbers of parameter and moments after the last update, if they were looked at.
    pub(crate) largest: Option<Largest>,
}

impl Adam {
    /// The module after one update of every parameter that has a gradient. The memory of a module that nobody else
    /// holds a clone of is used again.
    ///
    /// # Panics
    /// If a gradient was registered by hand in another shape than its parameter's.
    pub fn step<M: Module>(&mut self, rates: impl Into<LearningRates>, module: M, grads: GradientsParams) -> M {
        let norm = if self.config.clip.is_some() { grad_norm(&module, &grads) } else { 0.0 };
        self.step_of_norm(rates.into(), module, grads, norm).0
    }

    /// The same for gradients whose norm is known; and what is not finite after it, which
    /// [`foresee`](Self::foresee) would have told, unless the memory is not what was written into it.
    pub(super) fn step_of_norm<M: Module>(
        &mut self,
        rates: LearningRates,
        module: M,
        grads: GradientsParams,
        norm: f64,
    ) -> (M, Option<String>) {
        let factor = self.shortening(norm);
        let mut stepper = Stepper { path: ModulePath::default(), adam: self, rates, grads, factor, ruined: None };
        (module.map(&mut stepper), stepper.ruined)
    }

    /// What gradients of this norm are multiplied with, if they are too long.
    fn shortening(&self, norm: f64) -> Option<f64> {
        self.config.clip.and_then(|clip| norm::shortening(clip, norm))
    }

    /// The state of a parameter that has had an update.
    pub(crate) fn moments(&self, id: ParamId) -> Option<&Moments> {
        self.moments.get(&id)
    }

    /// Forgets all state and takes this.
    pub(crate) fn replace_moments(&mut self, moments: impl IntoIterator<Item = (ParamId, Moments)>) {
        self.moments = moments.into_iter().collect();
    }

    /// Another state of a parameter, as if memory had changed.
    #[cfg(test)]
    pub(super) fn set_moments(&mut self, id: ParamId, moments: Moments) {
        self.moments.insert(id, moments);
    }

    /// One update of one parameter, off the graph; moments that do not fit it, because it is not what it was, begin anew.
    fn update<const D: usize>(&mut self, id: ParamId, lr: f64, param: Tensor<D>, grad: Tensor<D>) -> Tensor<D> {
        let (shape, param) = (param.dims(), flat(param));
        let kept = self.moments.remove(&id).filter(|kept| kept.shape == shape);
        let (moments, time) = match kept {
            Some(kept) => (kept.flat.map(|moment| moment.to_device(&param.device())), kept.time + 1),
            None => ([param.zeros_like(), param.zeros_like()], 1),
        };
        let (param, moments, largest) = ops::adam_update(param, moments, flat(grad), self.config.step(lr, time))
            .expect("burn gives a parameter and its gradient in one shape");
        self.moments.insert(id, Moments { shape: shape.into(), flat: moments, time, largest });
        param.reshape(shape)
    }
}

/// The same elements as a vector, without a copy where they are contiguous.
fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let len = tensor.dims().iter().product::<usize>();
    tensor.reshape([len])
}

fn shortened<const D: usize>(grad: Tensor<D>, factor: Option<f64>) -> Tensor<D> {
    match factor {
        Some(factor) => grad.mul_scalar(factor),
        None => grad,
    }
}

/// Goes through a module and updates what has a gradient.
struct Stepper<'a> {
    path: ModulePath,
    adam: &'a mut Adam,
    rates: LearningRates,
    grads: GradientsParams,
    /// What the gradients are multiplied with, if they are too long.
    factor: Option<f64>,
    /// The first thing that is not finite any more.
    ruined: Option<String>,
}

impl ModuleMapper for Stepper<'_> {
    tracks_path!();

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, lr) = (param.id, self.rates.of(self.path.last()));
        let Some(grad) = self.grads.remove::<D>(id) else { return param };
        let grad = shortened(grad, self.factor);
        // `map` hands over the only handle on the memory, if nobody holds a clone of the module.
        let param = param.map(|tensor| {
            let (tracked, strategy) = (tensor.is_require_grad(), tensor.gradient_checkpointing_strategy());
            let updated = Tensor::from_inner(self.adam.update(id, lr, tensor.inner(), grad));
            let updated = strategy.into_iter().fold(updated, Tensor::with_gradient_checkpointing_strategy);
            updated.set_require_grad(tracked)
        });
        let largest = self.adam.moments(id).and_then(|moments| moments.largest);
        let ruined = || largest.and_then(|largest| foresight::not_finite(largest, &self.path));
        self.ruined = self.ruined.take().or_else(ruined);
        param
    }
}

#[cfg(test)]
mod tests;
