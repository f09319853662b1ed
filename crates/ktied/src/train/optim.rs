//! Adam as one pass over memory, behind burn's `Optimizer` trait.

use burn::config::Config;
use burn::optim::{AdamState, AdaptiveMomentumState, LearningRate, ModuleOptimizer, Optimizer};
use burn::tensor::{Device, Tensor};
use ktied_kernels::adam::AdamStep;

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
}

impl AdamConfig {
    /// The optimiser of one parameter, for [`ModuleOptimizer::with_group`].
    pub fn build(&self) -> Adam {
        Adam { beta_1: self.beta_1, beta_2: self.beta_2, epsilon: self.epsilon }
    }

    /// The optimiser of a whole module.
    pub fn init(&self) -> ModuleOptimizer {
        ModuleOptimizer::from(self.build())
    }
}

/// Adam (Kingma and Ba, 2015): on the Flex device one fused pass that changes the parameter and its moments in
/// place, elsewhere burn's operations. Its state is that of burn's own Adam, and so are its records.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let fresh = || AdaptiveMomentumState::new(0, tensor.zeros_like(), tensor.zeros_like());
        let AdaptiveMomentumState { time, moment_1, moment_2, .. } = state.map_or_else(fresh, |state| state.momentum);
        let (beta_1, beta_2, epsilon) = (self.beta_1, self.beta_2, self.epsilon);
        let step = AdamStep { lr, beta_1, beta_2, epsilon, step: time as u64 + 1 };
        let (tensor, [moment_1, moment_2]) = ops::adam_update(tensor, [moment_1, moment_2], grad, step)
            .expect("burn gives a parameter, its gradient and its state in one shape");
        (tensor, Some(AdamState::new(AdaptiveMomentumState::new(time + 1, moment_1, moment_2))))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        AdamState::new(state.momentum.to_device(device))
    }
}
