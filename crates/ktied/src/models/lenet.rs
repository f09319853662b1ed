//! LeNet: two convolutions, each with a pooling, and two dense layers.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use ktied_kernels::activation::Activation;
use serde::{Deserialize, Serialize};

use super::layer::{LayerSpec, Layers, at_least, product};
use super::network::{Network, NetworkConfig};
use super::spec::PosteriorSpec;
use crate::error::Result;
use crate::nn::{Conv2d, Conv2dConfig, Dropout, DropoutConfig, Linear, LinearConfig, Pass, Weights, dropout_rate};
use crate::ops::{Border, ConvWindow};
use crate::posterior::PosteriorKind;

/// How much the two 2×2 poolings shorten a side together.
const POOLING: usize = 4;

/// LeNet for square images; by default the one that the paper's table counts, on CIFAR-100.
///
/// The paper's text says 3×3 kernels, but its parameter counts are those of 5×5 ones: hence 5, and 3 is yours to set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LeNetSpec {
    /// Height and width of an image.
    pub side: usize,
    /// Colours of an image.
    pub channels: usize,
    /// Height and width of the convolution kernels.
    pub kernel: usize,
    /// Outputs of the two convolutions.
    pub filters: [usize; 2],
    /// Outputs of the first dense layer.
    pub dense: usize,
    /// Outputs of the second.
    pub classes: usize,
    /// Share of the inputs of both dense layers that a draw leaves out.
    pub dropout: f64,
}

impl Default for LeNetSpec {
    fn default() -> Self {
        Self { side: 32, channels: 3, kernel: 5, filters: [32, 64], dense: 512, classes: 100, dropout: 0.0 }
    }
}

impl LeNetSpec {
    /// Dense kernels under the posterior. Convolutions are mean-field where those are tied, unless `posterior.conv`
    /// says otherwise.
    pub(super) fn layers(&self, posterior: &PosteriorSpec) -> Result<Vec<LayerSpec>> {
        self.check()?;
        let Self { side, channels, kernel, filters: [first, second], dense, classes, .. } = *self;
        let kind = posterior.kind;
        let conv = Self::conv_kind(posterior);
        let pooled = side / POOLING;
        let flat = product("dense_1.kernel", &[pooled, pooled, second])?;

        let mut layers = Layers::default();
        layers.affine("conv_1", &[kernel, kernel, channels, first], conv, conv.of_vectors())?;
        layers.affine("conv_2", &[kernel, kernel, first, second], conv, conv.of_vectors())?;
        layers.affine("dense_1", &[flat, dense], kind, kind.of_vectors())?;
        layers.affine("dense_2", &[dense, classes], kind, kind.of_vectors())?;
        Ok(layers.into_vec())
    }

    fn conv_kind(posterior: &PosteriorSpec) -> PosteriorKind {
        posterior.conv.unwrap_or(posterior.kind.of_vectors())
    }

    /// First values on a device.
    ///
    /// # Errors
    /// As [`ModelSpec::layers`](super::ModelSpec::layers), or if a scale is not a positive number.
    pub fn init(&self, config: &NetworkConfig, device: &Device) -> Result<LeNet> {
        self.layers(&config.posterior)?;
        let Self { side, channels, kernel, filters: [first, second], dense, classes, .. } = *self;
        let conv = |id: u64, channels, outputs| {
            let layer = config.layer(format!("conv_{}", id + 1), id, Self::conv_kind(&config.posterior));
            let window = ConvWindow { kernel: [kernel; 2], stride: [1, 1], border: Border::Same };
            Conv2dConfig { channels, outputs, window, activation: Activation::Relu, layer }.init(device)
        };
        let linear = |id: u64, inputs, outputs, activation| {
            let layer = config.layer(format!("dense_{}", id - 1), id, config.posterior.kind);
            LinearConfig { inputs, outputs, activation, layer }.init(device)
        };
        let flat = (side / POOLING) * (side / POOLING) * second;
        let dropout = |id| DropoutConfig { rate: self.dropout, id }.init();
        Ok(LeNet {
            convs: vec![conv(0, channels, first)?, conv(1, first, second)?],
            dense: vec![linear(2, flat, dense, Activation::Relu)?, linear(3, dense, classes, Activation::Identity)?],
            dropouts: vec![dropout(2)?, dropout(3)?],
        })
    }

    fn check(&self) -> Result<()> {
        at_least(POOLING, "model.side", self.side)?;
        at_least(1, "model.channels", self.channels)?;
        at_least(1, "model.kernel", self.kernel)?;
        self.filters.iter().try_for_each(|&size| at_least(1, "each of model.filters", size).map(drop))?;
        at_least(1, "model.dense", self.dense)?;
        at_least(1, "model.classes", self.classes)?;
        dropout_rate(self.dropout).map(drop)
    }
}

/// LeNet with a posterior over its weights; images have their channels last, `[B, H, W, C]`.
///
/// A local pass draws the convolutions by Flipout: they use each weight at many positions.
#[derive(Debug, Module)]
pub struct LeNet {
    convs: Vec<Conv2d>,
    dense: Vec<Linear>,
    /// Those of the dense layers' inputs.
    dropouts: Vec<Dropout>,
}

impl Network for LeNet {
    /// `[B, side, side, channels]`
    type Input = Tensor<4>;

    fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<2>> {
        let shared = pass.where_weights_are_shared();
        let x = self.convs.iter().try_fold(x, |x, conv| conv.forward_pooled(x, &shared))?;
        let [batch, height, width, channels] = x.dims();
        let x = x.reshape([batch, height * width * channels]);
        let mut dense = self.dropouts.iter().zip(&self.dense);
        dense.try_fold(x, |x, (dropout, layer)| layer.forward(dropout.forward(x, pass)?, pass))
    }

    fn dropouts(&self) -> Vec<&Dropout> {
        self.dropouts.iter().collect()
    }

    fn weights(&self) -> Vec<&Weights> {
        let convs = self.convs.iter().map(|conv| &conv.weights);
        convs.chain(self.dense.iter().map(|layer| &layer.weights)).collect()
    }

    fn map_weights<E>(self, mut map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        let convs = self.convs.into_iter().map(|conv| conv.map_weights(&mut map)).collect::<Result<_, E>>()?;
        let dense = self.dense.into_iter().map(|layer| layer.map_weights(&mut map)).collect::<Result<_, E>>()?;
        Ok(Self { convs, dense, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Role;
    use crate::posterior::PosteriorKind::{KTied, MeanField, Point};

    fn kernels(posterior: PosteriorSpec) -> Vec<crate::posterior::PosteriorKind> {
        let layers = LeNetSpec::default().layers(&posterior).unwrap();
        layers.iter().filter(|layer| layer.role == Role::Kernel).map(|layer| layer.posterior).collect()
    }

    #[test]
    fn convolutions_are_tied_only_on_request() {
        let tied = KTied { rank: 2 };
        assert_eq!(kernels(PosteriorSpec::new(tied)), [MeanField, MeanField, tied, tied]);
        assert_eq!(kernels(PosteriorSpec { conv: Some(tied), ..PosteriorSpec::new(tied) }), [tied; 4]);
        assert_eq!(kernels(PosteriorSpec::new(Point)), [Point; 4]);
    }

    #[test]
    fn an_image_too_small_to_pool_twice_is_refused() {
        let spec = LeNetSpec { side: 3, ..LeNetSpec::default() };
        let error = spec.layers(&PosteriorSpec::default()).unwrap_err().to_string();
        assert_eq!(error, "model.side must be at least 4, got 3");
    }
}
