//! ResNet-18 as TensorFlow Probability's example builds it: a stem, four blocks with shortcuts, and a dense layer.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use ktied_kernels::activation::Activation;
use serde::{Deserialize, Serialize};

use super::layer::{LayerSpec, Layers, Role, at_least};
use super::network::{Network, NetworkConfig};
use super::spec::PosteriorSpec;
use crate::error::Result;
use crate::nn::{
    BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, Dropout, DropoutConfig, LayerConfig, Linear, LinearConfig, Pass,
    Weights, dropout_rate,
};
use crate::ops::{self, Border, ConvWindow};
use crate::posterior::PosteriorKind;

/// Scale, shift, running mean and running variance.
const NORM_NUMBERS: usize = 4;

/// What batch normalisation takes for mean and variance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Those of the batch in training, running averages otherwise.
    #[default]
    Batch,
    /// 0 and 1 for ever, which is what TensorFlow Probability's example appears to run.
    Frozen,
}

/// ResNet-18; by default the paper's, on CIFAR-10.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ResNet18Spec {
    /// Height and width of an image.
    pub side: usize,
    /// Colours of an image.
    pub channels: usize,
    /// Outputs of the four blocks; the stem has as many as the first.
    pub widths: [usize; 4],
    /// Outputs of the dense layer.
    pub classes: usize,
    /// What batch normalisation takes for mean and variance.
    pub norm: Norm,
    /// Share of the dense layer's inputs that a draw leaves out.
    pub dropout: f64,
}

impl Default for ResNet18Spec {
    fn default() -> Self {
        Self { side: 32, channels: 3, widths: [64, 128, 256, 512], classes: 10, norm: Norm::Batch, dropout: 0.0 }
    }
}

impl ResNet18Spec {
    /// All 14 kernels under the posterior, or the 13 convolutions under `posterior.conv`; biases and batch norm point.
    pub(super) fn layers(&self, posterior: &PosteriorSpec) -> Result<Vec<LayerSpec>> {
        self.check()?;
        let point = PosteriorKind::Point;
        let conv = posterior.conv.unwrap_or(posterior.kind);
        let [mut inputs, ..] = self.widths;

        let mut layers = Layers::default();
        layers.affine("stem", &[3, 3, self.channels, inputs], conv, point)?;
        for (number, outputs) in (1..).zip(self.widths) {
            push_block(&mut layers, &format!("block_{number}"), inputs, outputs, conv)?;
            inputs = outputs;
        }
        push_norm(&mut layers, "norm", inputs)?;
        layers.affine("dense", &[inputs, self.classes], posterior.kind, point)?;
        Ok(layers.into_vec())
    }

    fn check(&self) -> Result<()> {
        at_least(1, "model.side", self.side)?;
        at_least(1, "model.channels", self.channels)?;
        self.widths.iter().try_for_each(|&size| at_least(1, "each of model.widths", size).map(drop))?;
        at_least(1, "model.classes", self.classes)?;
        dropout_rate(self.dropout).map(drop)
    }

    /// First values on a device.
    ///
    /// # Errors
    /// As [`ModelSpec::layers`](super::ModelSpec::layers), or if a scale is not a positive number.
    pub fn init(&self, config: &NetworkConfig, device: &Device) -> Result<ResNet18> {
        self.layers(&config.posterior)?;
        let mut builder = Builder { config, norm: self.norm, device, num_layers: 0 };
        let [width, ..] = self.widths;
        let stem = builder.conv("stem", [self.channels, width], 3, 1)?;
        let mut inputs = width;
        let mut blocks = Vec::with_capacity(self.widths.len());
        for (number, outputs) in (1..).zip(self.widths) {
            let stride = if number == 1 { 1 } else { 2 };
            blocks.push(builder.block(&format!("block_{number}"), [inputs, outputs], stride)?);
            inputs = outputs;
        }
        let norm = builder.norm(inputs)?;
        let (layer, outputs) = (builder.layer("dense", config.posterior.kind), self.classes);
        let dropout = DropoutConfig { rate: self.dropout, id: layer.id }.init()?;
        let dense = LinearConfig { inputs, outputs, activation: Activation::Identity, layer }.init(device)?;
        Ok(ResNet18 { stem, blocks, norm, dropout, dense })
    }
}

/// Makes the layers of a network, each with a number of its own.
struct Builder<'a> {
    config: &'a NetworkConfig,
    norm: Norm,
    device: &'a Device,
    num_layers: u64,
}

impl Builder<'_> {
    /// Biases are points under every posterior.
    fn layer(&mut self, name: &str, kind: PosteriorKind) -> LayerConfig {
        let id = self.num_layers;
        self.num_layers += 1;
        LayerConfig { bias: Some(PosteriorKind::Point), ..self.config.layer(name.into(), id, kind) }
    }

    fn conv(&mut self, name: &str, [channels, outputs]: [usize; 2], kernel: usize, stride: usize) -> Result<Conv2d> {
        let posterior = &self.config.posterior;
        let layer = self.layer(name, posterior.conv.unwrap_or(posterior.kind));
        let window = ConvWindow { kernel: [kernel; 2], stride: [stride; 2], border: Border::Same };
        Conv2dConfig { channels, outputs, window, activation: Activation::Identity, layer }.init(self.device)
    }

    /// Batch norm and rectifier.
    fn norm(&self, channels: usize) -> Result<BatchNorm> {
        let (frozen, activation) = (self.norm == Norm::Frozen, Activation::Relu);
        BatchNormConfig { frozen, activation, ..BatchNormConfig::new(channels) }.init(self.device)
    }

    fn block(&mut self, name: &str, [inputs, outputs]: [usize; 2], stride: usize) -> Result<Block> {
        Ok(Block {
            norm_1: self.norm(inputs)?,
            shortcut: self.conv(&format!("{name}.shortcut"), [inputs, outputs], 1, stride)?,
            conv_1: self.conv(&format!("{name}.conv_1"), [inputs, outputs], 3, stride)?,
            norm_2: self.norm(outputs)?,
            conv_2: self.conv(&format!("{name}.conv_2"), [outputs, outputs], 3, 1)?,
        })
    }
}

/// h = relu(norm₁(x)), then shortcut(h) + conv₂(relu(norm₂(conv₁(h)))).
#[derive(Debug, Module)]
struct Block {
    norm_1: BatchNorm,
    shortcut: Conv2d,
    conv_1: Conv2d,
    norm_2: BatchNorm,
    conv_2: Conv2d,
}

impl Block {
    fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<4>> {
        let (h, recipe) = self.norm_1.forward_with_recipe(x, pass)?;
        let [aside, along] = ops::fork(h);
        let shortcut = self.shortcut.forward_normed((aside, recipe.clone()), pass)?;
        let main = self.conv_1.forward_normed((along, recipe), pass)?;
        let main = self.conv_2.forward_normed(self.norm_2.forward_with_recipe(main, pass)?, pass)?;
        Ok(ops::sum(main, shortcut)?)
    }

    fn map_weights<E>(self, map: &mut impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        let shortcut = self.shortcut.map_weights(&mut *map)?;
        let conv_1 = self.conv_1.map_weights(&mut *map)?;
        Ok(Self { shortcut, conv_1, conv_2: self.conv_2.map_weights(&mut *map)?, ..self })
    }
}

/// ResNet-18 with a posterior over its kernels; images have their channels last, `[B, H, W, C]`.
///
/// The average over what is left of an image (4×4 of one of 32×32) goes into the dense layer. A local pass draws the
/// convolutions by Flipout: they use each weight at many positions.
#[derive(Debug, Module)]
pub struct ResNet18 {
    stem: Conv2d,
    blocks: Vec<Block>,
    norm: BatchNorm,
    dropout: Dropout,
    dense: Linear,
}

impl Network for ResNet18 {
    /// `[B, side, side, channels]`
    type Input = Tensor<4>;

    fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<2>> {
        let shared = pass.where_weights_are_shared();
        let x = self.stem.forward(x, &shared)?;
        let x = self.blocks.iter().try_fold(x, |x, block| block.forward(x, &shared))?;
        let x = self.norm.forward(x, &shared)?;
        let [batch, height, width, channels] = x.dims();
        let x = ops::avg_pool2d(x, [height, width], [height, width])?;
        self.dense.forward(self.dropout.forward(x.reshape([batch, channels]), pass)?, pass)
    }

    fn dropouts(&self) -> Vec<&Dropout> {
        vec![&self.dropout]
    }

    fn weights(&self) -> Vec<&Weights> {
        let blocks = self.blocks.iter();
        let blocks = blocks.flat_map(|block| [&block.shortcut, &block.conv_1, &block.conv_2]).map(|conv| &conv.weights);
        std::iter::once(&self.stem.weights).chain(blocks).chain([&self.dense.weights]).collect()
    }

    fn map_weights<E>(self, mut map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        let stem = self.stem.map_weights(&mut map)?;
        let blocks = self.blocks.into_iter().map(|block| block.map_weights(&mut map)).collect::<Result<_, E>>()?;
        Ok(Self { stem, blocks, dense: self.dense.map_weights(map)?, ..self })
    }
}

/// h = relu(norm₁(x)), then shortcut(h) + conv₂(relu(norm₂(conv₁(h)))).
fn push_block(layers: &mut Layers, name: &str, inputs: usize, outputs: usize, conv: PosteriorKind) -> Result<()> {
    let point = PosteriorKind::Point;
    push_norm(layers, &format!("{name}.norm_1"), inputs)?;
    layers.affine(&format!("{name}.shortcut"), &[1, 1, inputs, outputs], conv, point)?;
    layers.affine(&format!("{name}.conv_1"), &[3, 3, inputs, outputs], conv, point)?;
    push_norm(layers, &format!("{name}.norm_2"), outputs)?;
    layers.affine(&format!("{name}.conv_2"), &[3, 3, outputs, outputs], conv, point)
}

fn push_norm(layers: &mut Layers, name: &str, channels: usize) -> Result<()> {
    layers.push(name, Role::Norm, &[NORM_NUMBERS, channels], PosteriorKind::Point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_14_kernels_and_as_many_biases_and_norm_numbers_as_the_paper_counts() {
        let layers = ResNet18Spec::default().layers(&PosteriorSpec::default()).unwrap();
        let of = |role| layers.iter().filter(move |layer| layer.role == role);
        assert_eq!(of(Role::Kernel).count(), 14);
        assert_eq!(of(Role::Bias).map(|layer| layer.parameters).sum::<usize>(), 2954);
        assert_eq!(of(Role::Norm).map(|layer| layer.parameters).sum::<usize>(), 7936);
    }

    #[test]
    fn the_convolutions_can_have_another_posterior_than_the_dense_layer() {
        let kind = PosteriorKind::KTied { rank: 2 };
        let posterior = PosteriorSpec { conv: Some(PosteriorKind::Point), ..PosteriorSpec::new(kind) };
        let layers = ResNet18Spec::default().layers(&posterior).unwrap();
        let tied = layers.iter().filter(|layer| layer.posterior == posterior.kind);
        assert_eq!(tied.map(|layer| layer.name.as_str()).collect::<Vec<_>>(), ["dense.kernel"]);
    }
}
