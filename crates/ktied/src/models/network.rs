//! What networks have in common: how they are configured, and what a training loop asks of them.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::PosteriorSpec;
use crate::error::Result;
use crate::nn::{LayerConfig, Pass};
use crate::posterior::{PosteriorKind, ScaleInit};
use crate::prior::PriorRule;

/// Everything that a network's first values and divergence depend on besides its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// Families of the layers.
    pub posterior: PosteriorSpec,
    /// How scales begin, and their cap.
    pub scale: ScaleInit,
    /// Rule of the priors.
    pub prior: PriorRule,
    /// Seed of the first values.
    pub seed: u64,
}

impl NetworkConfig {
    /// The paper's initial scales and prior N(0, 0.2²).
    pub fn new(posterior: PosteriorSpec) -> Self {
        Self { posterior, scale: ScaleInit::default(), prior: PriorRule::Normal { scale: 0.2 }, seed: 0 }
    }

    /// The configuration of one layer.
    pub(super) fn layer(&self, name: String, id: u64, posterior: PosteriorKind) -> LayerConfig {
        let (scale, prior, seed) = (self.scale, self.prior, self.seed);
        LayerConfig { scale, prior, seed, ..LayerConfig::new(name, id, posterior) }
    }
}

/// A Bayesian network from inputs of rank `D` to logits or means, one row an example.
pub trait Network<const D: usize>: Module {
    /// The output of one pass, `[B, outputs]`.
    ///
    /// # Errors
    /// If the input does not fit, or the pass asks a layer for an estimator that would be biased there.
    fn forward(&self, x: Tensor<D>, pass: &Pass) -> Result<Tensor<2>>;

    /// KL(q‖p) over all weights, `[1]`, in nats.
    ///
    /// # Errors
    /// If a prior's means do not have the posterior's shape.
    fn kl(&self) -> Result<Tensor<1>>;

    /// The same network with every scale brought back under its cap, as after each update.
    fn clipped(self) -> Self;
}

/// The sum of the layers' divergences; zero without layers.
pub(super) fn total_kl(layers: impl Iterator<Item = Result<Tensor<1>>>) -> Result<Tensor<1>> {
    let total = layers.reduce(|sum, kl| Ok(sum? + kl?));
    total.unwrap_or_else(|| Ok(Tensor::zeros([1], &Device::flex())))
}
