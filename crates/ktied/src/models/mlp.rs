//! The multilayer perceptron: dense layers with rectifiers between them.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use ktied_kernels::activation::Activation;
use serde::{Deserialize, Serialize};

use super::layer::{LayerSpec, Layers, at_least};
use super::network::{Network, NetworkConfig, Passes};
use super::spec::PosteriorSpec;
use crate::error::Result;
use crate::nn::{Dropout, DropoutConfig, Linear, LinearConfig, Pass, Weights, dropout_rate};

/// A multilayer perceptron, 784-400-400-10 by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MlpSpec {
    /// Inputs, hidden units of each layer, outputs.
    pub sizes: Vec<usize>,
    /// Share of the hidden units that a draw leaves out, each layer's after its rectifier.
    pub dropout: f64,
}

impl Default for MlpSpec {
    fn default() -> Self {
        Self::new([784, 400, 400, 10])
    }
}

impl MlpSpec {
    /// Inputs, hidden units of each layer and outputs, without dropout.
    pub fn new(sizes: impl Into<Vec<usize>>) -> Self {
        Self { sizes: sizes.into(), dropout: 0.0 }
    }

    /// Kernels under the posterior, biases under its family for vectors.
    pub(super) fn layers(&self, posterior: &PosteriorSpec) -> Result<Vec<LayerSpec>> {
        posterior.refuse_conv("mlp")?;
        at_least(2, "the number of model.sizes", self.sizes.len())?;
        self.sizes.iter().try_for_each(|&size| at_least(1, "each of model.sizes", size).map(drop))?;
        dropout_rate(self.dropout)?;
        let mut layers = Layers::default();
        for (number, size) in (1..).zip(self.sizes.windows(2)) {
            layers.affine(&format!("dense_{number}"), size, posterior.kind, posterior.kind.of_vectors())?;
        }
        Ok(layers.into_vec())
    }

    /// First values on a device.
    ///
    /// # Errors
    /// As [`ModelSpec::layers`](super::ModelSpec::layers), or if a scale is not a positive number.
    pub fn init(&self, config: &NetworkConfig, device: &Device) -> Result<Mlp> {
        self.layers(&config.posterior)?;
        let last = self.sizes.len() - 2;
        let layers = self.sizes.windows(2).enumerate().map(|(i, size)| {
            let activation = if i == last { Activation::Identity } else { Activation::Relu };
            let layer = config.layer(format!("dense_{}", i + 1), i as u64, config.posterior.kind);
            LinearConfig { inputs: size[0], outputs: size[1], activation, layer }.init(device)
        });
        let dropouts = (1..self.sizes.len() as u64 - 1).map(|id| DropoutConfig { rate: self.dropout, id }.init());
        Ok(Mlp { layers: layers.collect::<Result<_>>()?, dropouts: dropouts.collect::<Result<_>>()? })
    }
}

/// A multilayer perceptron with a posterior over its weights.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::{Device, Tensor};
/// use ktied::models::{MlpSpec, Network, NetworkConfig, PosteriorSpec};
/// use ktied::nn::{Estimator, Pass};
///
/// let config = NetworkConfig::new(PosteriorSpec::new("k-tied:2".parse()?));
/// let mlp = MlpSpec::default().init(&config, &Device::flex().autodiff())?;
/// assert_eq!(mlp.num_params(), 484_008);
/// let logits = mlp.forward(Tensor::zeros([16, 784], &Device::flex()), &Pass::sampled(1, 0, Estimator::Local))?;
/// assert_eq!(logits.dims(), [16, 10]);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct Mlp {
    layers: Vec<Linear>,
    /// Those of the inputs of all layers but the first.
    dropouts: Vec<Dropout>,
}

impl Mlp {
    /// The dense layers, first to last.
    pub fn layers(&self) -> &[Linear] {
        &self.layers
    }

    /// All layers but the first.
    fn after_first(&self, hidden: Tensor<2>, pass: &Pass) -> Result<Tensor<2>> {
        let rest = self.dropouts.iter().zip(self.layers.iter().skip(1));
        rest.into_iter().try_fold(hidden, |x, (dropout, layer)| layer.forward(dropout.forward(x, pass)?, pass))
    }
}

impl Network for Mlp {
    /// `[B, inputs]`
    type Input = Tensor<2>;

    fn forward(&self, x: Tensor<2>, pass: &Pass) -> Result<Tensor<2>> {
        let Some(first) = self.layers.first() else { return Ok(x) };
        self.after_first(first.forward(x, pass)?, pass)
    }

    /// The first layer's sums have the same mean and variance in every marginal pass.
    fn passes(&self, x: Tensor<2>) -> Result<Passes<Self>> {
        let moments = match self.layers.first() {
            Some(first) => first.moments(x.clone())?,
            None => None,
        };
        Ok(Box::new(move |network, pass| match (&moments, network.layers.first(), pass) {
            (Some(moments), Some(first), Pass::Marginal { .. }) => {
                network.after_first(first.forward_from(moments, pass)?, pass)
            }
            _ => network.forward(x.clone(), pass),
        }))
    }

    /// Without the first layer, where [`passes`](Self::passes) puts noise on the sums.
    fn drawn(&self, pass: &Pass) -> Result<Self> {
        let mut is_first = matches!(pass, Pass::Marginal { .. });
        self.clone().map_weights(|weights| match std::mem::take(&mut is_first) {
            true => Ok(weights),
            false => weights.drawn(pass),
        })
    }

    fn dropouts(&self) -> Vec<&Dropout> {
        self.dropouts.iter().collect()
    }

    fn weights(&self) -> Vec<&Weights> {
        self.layers.iter().map(|layer| &layer.weights).collect()
    }

    fn map_weights<E>(self, mut map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        let layers = self.layers.into_iter().map(|layer| layer.map_weights(&mut map));
        Ok(Self { layers: layers.collect::<Result<_, E>>()?, dropouts: self.dropouts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posterior::PosteriorKind;

    #[test]
    fn a_network_needs_inputs_and_outputs_and_no_empty_layer() {
        let refuse = |sizes: &[usize]| {
            MlpSpec::new(sizes).layers(&PosteriorSpec::new(PosteriorKind::Point)).unwrap_err().to_string()
        };
        assert_eq!(refuse(&[784]), "the number of model.sizes must be at least 2, got 1");
        assert_eq!(refuse(&[784, 0, 10]), "each of model.sizes must be at least 1, got 0");
    }

    #[test]
    fn the_narrow_last_layer_bounds_the_rank() {
        let spec = PosteriorSpec::new(PosteriorKind::KTied { rank: 11 });
        let error = MlpSpec::default().layers(&spec).unwrap_err().to_string();
        assert_eq!(error, "layer `dense_3.kernel` is 400×10: rank must be 1 to 10, got 11");
    }
}
