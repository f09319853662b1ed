//! What networks have in common: how they are configured, and what a training loop asks of them.

use std::convert::Infallible;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use super::PosteriorSpec;
use crate::error::{Error, Result};
use crate::nn::{Dropout, LayerConfig, Pass, Weights};
use crate::posterior::PosteriorKind;
use crate::prior::PriorRule;

/// Everything that a network's first values and divergence depend on besides its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// Families of the layers, and how they begin.
    pub posterior: PosteriorSpec,
    /// Rule of the priors.
    pub prior: PriorRule,
    /// Seed of the first values.
    pub seed: u64,
}

impl NetworkConfig {
    /// Prior N(0, 0.2²).
    pub fn new(posterior: PosteriorSpec) -> Self {
        Self { posterior, prior: PriorRule::Normal { scale: 0.2 }, seed: 0 }
    }

    /// The configuration of one layer.
    pub(super) fn layer(&self, name: String, id: u64, posterior: PosteriorKind) -> LayerConfig {
        let (loc, scale) = (self.posterior.loc_init(), self.posterior.scale_init());
        let pruned = self.posterior.pruned && posterior != PosteriorKind::Point;
        LayerConfig { loc, scale, prior: self.prior, seed: self.seed, pruned, ..LayerConfig::new(name, id, posterior) }
    }
}

/// Gives the output of a network, or of a draw of it, for each pass over one batch of inputs (see [`Network::passes`]).
pub type Passes<N> = Box<dyn Fn(&N, &Pass) -> Result<Tensor<2>>>;

/// A Bayesian network from a batch of inputs to logits or means, one row an example.
///
/// A network says what its output is and where its weights are; the rest follows.
pub trait Network: Module {
    /// A batch of inputs.
    type Input: Clone + 'static;

    /// The output of one pass, `[B, outputs]`.
    ///
    /// # Errors
    /// If the input does not fit.
    fn forward(&self, x: Self::Input, pass: &Pass) -> Result<Tensor<2>>;

    /// Many passes over one batch of inputs: what they have in common is computed once.
    ///
    /// # Errors
    /// If the input does not fit.
    fn passes(&self, x: Self::Input) -> Result<Passes<Self>> {
        Ok(Box::new(move |network, pass| network.forward(x.clone(), pass)))
    }

    /// One pass over many batches of inputs: the network with those weights drawn, once, that the pass draws for all
    /// examples. Its outputs in that pass are the network's.
    ///
    /// # Errors
    /// What a posterior says.
    fn drawn(&self, pass: &Pass) -> Result<Self> {
        self.clone().map_weights(|weights| weights.drawn(pass))
    }

    /// The weights of all layers, in the order of use.
    fn weights(&self) -> Vec<&Weights>;

    /// Its dropout layers.
    fn dropouts(&self) -> Vec<&Dropout> {
        Vec::new()
    }

    /// Whether all draws are the same: every weight is a point, and no unit is ever left out.
    fn is_deterministic(&self) -> bool {
        let weights = self.weights();
        !weights.is_empty()
            && weights.iter().all(|weights| weights.is_point())
            && !self.dropouts().iter().any(|d| d.is_on())
    }

    /// The same network with each of its weights replaced by what `map` makes of them.
    ///
    /// # Errors
    /// What `map` says.
    fn map_weights<E>(self, map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E>;

    /// KL(q‖p) over all weights, `[1]`, in nats.
    ///
    /// # Errors
    /// If a prior's means do not have the posterior's shape.
    fn kl(&self) -> Result<Tensor<1>> {
        let layers = self.weights().into_iter().map(Weights::kl);
        layers.reduce(|sum, kl| Ok(sum? + kl?)).unwrap_or_else(|| Ok(Tensor::zeros([1], &Device::flex())))
    }

    /// KL(q‖p) over all weights, in nats, and `by` times its gradients added to `grads`, where those of the likelihood are already: what
    /// a training loop of one's own does after its backward pass, instead of making [`kl`](Self::kl) a part of the loss, to save a
    /// few passes over all weights. `by` is [`Elbo::weight_of_kl`](crate::objective::Elbo::weight_of_kl).
    ///
    /// # Errors
    /// As [`kl`](Self::kl).
    fn add_kl_gradients(&self, by: f64, grads: &mut GradientsParams) -> Result<f64> {
        self.weights().into_iter().map(|weights| weights.add_kl_gradients(by, grads)).sum()
    }

    /// The same network with every scale brought back under its cap, as after each update.
    fn clipped(self) -> Self {
        let Ok(network) = self.map_weights(|weights| Ok::<_, Infallible>(weights.clipped()));
        network
    }

    /// The same network with σₚ of each tensor found again from its posterior (see
    /// [`Prior::empirical`](crate::prior::Prior::empirical)).
    ///
    /// # Errors
    /// If every weight of a tensor is exactly its prior's mean.
    fn with_empirical_priors(self) -> Result<Self> {
        self.map_weights::<Error>(Weights::with_empirical_priors)
    }
}
