//! Converted models in burn's own training loop.

use burn::module::{Module, ModuleDisplay, Param, ParamId};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor};
use burn::train::{InferenceStep, TrainOutput, TrainStep};

use super::Bayesian;
use crate::error::Result;
use crate::nn::{Estimator, Pass};
use crate::objective::Elbo;
use crate::posterior::divergence::add_gradients;

/// burn's loop cannot take an error, and none can occur in it: a pass is not inside another, and shapes were checked.
const RUNS: &str = "a pass of a converted model";

/// A converted model for burn's `Learner`: the model's own training step under one draw of its weights, with the gradient
/// of the divergence added; validation at the means.
///
/// The number of the step is one of its values, so a checkpoint that is loaded goes on with the draws that come next.
///
/// ```no_run
/// # use burn::module::{Module, ModuleDisplay};
/// use ktied::convert::{BayesianConfig, Learning, bayesian};
/// # fn make<M: Module + ModuleDisplay>(model: M) -> ktied::Result<Learning<M>> {
/// let model = bayesian(model, &BayesianConfig::new("k-tied:2".parse()?))?;
/// let model = Learning::new(model, 60_000, 42)?; // training examples, seed
/// // Learner::new(model, optimizer, learning_rate), as ever
/// # Ok(model)
/// # }
/// ```
#[derive(Debug, Module)]
pub struct Learning<M> {
    bayesian: Bayesian<M>,
    /// Steps so far, `[1]`.
    step: Param<Tensor<1, Int>>,
    #[module(skip)]
    elbo: Elbo,
    #[module(skip)]
    seed: u64,
}

impl<M: Module + ModuleDisplay> Learning<M> {
    /// For a training set of `num_train` examples, by draws of this seed.
    ///
    /// # Errors
    /// If there is no example.
    pub fn new(bayesian: Bayesian<M>, num_train: usize, seed: u64) -> Result<Self> {
        Ok(Self::with_elbo(bayesian, Elbo::new(num_train)?, seed))
    }

    /// The same for any objective, such as one with a temperature.
    pub fn with_elbo(bayesian: Bayesian<M>, elbo: Elbo, seed: u64) -> Self {
        let device = bayesian.devices().into_iter().next().unwrap_or_else(Device::flex);
        let step = Param::initialized(ParamId::new(), Tensor::zeros([1], &device));
        Self { bayesian, step, elbo, seed }
    }

    /// The converted model.
    pub fn bayesian(&self) -> &Bayesian<M> {
        &self.bayesian
    }

    /// The converted model, without what training needs.
    pub fn into_bayesian(self) -> Bayesian<M> {
        self.bayesian
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.step.val().into_data().iter::<i64>().next().unwrap_or(0).max(0) as u64
    }

    /// Gradients of the divergence's share of the loss.
    fn kl_grads(&self) -> Result<GradientsParams> {
        let kl = self.bayesian.kl()?;
        let loss = self.elbo.loss(kl.zeros_like(), kl, 1.0);
        Ok(GradientsParams::from_grads(loss.backward(), &self.bayesian))
    }
}

impl<M: Module + ModuleDisplay + TrainStep> TrainStep for Learning<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: M::Input) -> TrainOutput<M::Output> {
        let pass = Pass::sampled(self.seed, self.steps(), Estimator::Reparam);
        let output = self.bayesian.run(&pass, |model| model.step(item)).expect(RUNS);
        let mut grads = output.grads;
        add_gradients(&self.bayesian, &mut grads, self.kl_grads().expect(RUNS));
        TrainOutput { grads, item: output.item }
    }

    fn optimize(self, optim: &mut ModuleOptimizer, rate: ModuleLearningRate, grads: GradientsParams) -> Self {
        let updated = optim.step(rate, self, grads);
        let step = updated.step.map(|step| step + 1);
        Self { step, ..updated }
    }
}

impl<M: Module + InferenceStep> InferenceStep for Learning<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: M::Input) -> M::Output {
        self.bayesian.run(&Pass::Means, |model| model.step(item)).expect(RUNS)
    }
}
