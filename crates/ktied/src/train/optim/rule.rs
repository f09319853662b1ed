//! Adam's update of one parameter behind burn's `Optimizer` trait.

use burn::optim::{AdamState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use ktied_kernels::adam::AdamStep;

use crate::ops;

/// The fused update for burn's own optimisers, learners and parameter groups. Its state is that of burn's Adam, and so are
/// its records.
#[derive(Clone, Copy, Debug)]
pub struct AdamRule {
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
}

impl AdamRule {
    pub(super) fn new(beta_1: f64, beta_2: f64, epsilon: f64) -> Self {
        Self { beta_1, beta_2, epsilon }
    }
}

impl Optimizer for AdamRule {
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
        let (tensor, [moment_1, moment_2], _) = ops::adam_update(tensor, [moment_1, moment_2], grad, step)
            .expect("burn gives a parameter, its gradient and its state in one shape");
        (tensor, Some(AdamState::new(AdaptiveMomentumState::new(time + 1, moment_1, moment_2))))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        AdamState::new(state.momentum.to_device(device))
    }
}
