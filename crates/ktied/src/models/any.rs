//! Any of the models, as a configuration names it, behind one type.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use ktied_kernels::ShapeError;

use super::network::{Network, NetworkConfig, Passes};
use super::{LeNet, LstmClassifier, Mlp, ModelSpec, ResNet18};
use crate::error::{Error, Result};
use crate::nn::{Dropout, Pass, Weights};

/// A batch of inputs as data sets have them.
#[derive(Clone, Debug)]
pub enum Features {
    /// Numbers, `[B, width]`; an image's rows, columns and channels in this order.
    Rows(Tensor<2>),
    /// Word numbers, `[B, T]`.
    Words(Tensor<2, Int>),
}

/// One of the paper's networks.
#[derive(Debug, Module)]
#[allow(clippy::large_enum_variant, reason = "there is one in a program")]
pub enum AnyNetwork {
    /// See [`Mlp`].
    Mlp(Mlp),
    /// See [`LeNet`].
    LeNet(Images<LeNet>),
    /// See [`LstmClassifier`].
    Lstm(LstmClassifier),
    /// See [`ResNet18`].
    ResNet18(Images<ResNet18>),
}

/// A network of images, with the shape of one.
#[derive(Debug, Module)]
pub struct Images<N> {
    /// The network.
    pub network: N,
    #[module(skip)]
    shape: [usize; 3],
}

impl<N: Network<Input = Tensor<4>>> Images<N> {
    fn forward(&self, rows: Tensor<2>, pass: &Pass) -> Result<Tensor<2>> {
        let ([batch, found], [height, width, channels]) = (rows.dims(), self.shape);
        let expected = height * width * channels;
        if found != expected {
            let (expected, found) = (vec![batch, expected], vec![batch, found]);
            return Err(ShapeError::Shape { kernel: "network", operand: "images", expected, found }.into());
        }
        self.network.forward(rows.reshape([batch, height, width, channels]), pass)
    }

    fn map_weights<E>(self, map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        Ok(Self { network: self.network.map_weights(map)?, ..self })
    }
}

impl ModelSpec {
    /// First values on a device.
    ///
    /// # Errors
    /// As [`layers`](Self::layers), or if a scale is not a positive number.
    pub fn init(&self, config: &NetworkConfig, device: &Device) -> Result<AnyNetwork> {
        Ok(match self {
            Self::Mlp(spec) => AnyNetwork::Mlp(spec.init(config, device)?),
            Self::LeNet(spec) => {
                let shape = [spec.side, spec.side, spec.channels];
                AnyNetwork::LeNet(Images { network: spec.init(config, device)?, shape })
            }
            Self::Lstm(spec) => AnyNetwork::Lstm(spec.init(config, device)?),
            Self::ResNet18(spec) => {
                let shape = [spec.side, spec.side, spec.channels];
                AnyNetwork::ResNet18(Images { network: spec.init(config, device)?, shape })
            }
        })
    }
}

impl Network for AnyNetwork {
    type Input = Features;

    fn passes(&self, x: Features) -> Result<Passes<Self>> {
        let of_rows = match (self, &x) {
            (Self::Mlp(network), Features::Rows(rows)) => Some(network.passes(rows.clone())?),
            _ => None,
        };
        Ok(Box::new(move |network, pass| match (network, &of_rows) {
            (Self::Mlp(network), Some(of_rows)) => of_rows(network, pass),
            _ => network.forward(x.clone(), pass),
        }))
    }

    fn drawn(&self, pass: &Pass) -> Result<Self> {
        match self {
            Self::Mlp(network) => Ok(Self::Mlp(network.drawn(pass)?)),
            other => other.clone().map_weights(|weights| weights.drawn(pass)),
        }
    }

    fn forward(&self, x: Features, pass: &Pass) -> Result<Tensor<2>> {
        match (self, x) {
            (Self::Mlp(network), Features::Rows(rows)) => network.forward(rows, pass),
            (Self::LeNet(network), Features::Rows(rows)) => network.forward(rows, pass),
            (Self::ResNet18(network), Features::Rows(rows)) => network.forward(rows, pass),
            (Self::Lstm(network), Features::Words(words)) => network.forward(words, pass),
            (Self::Lstm(_), Features::Rows(_)) => Err(Error::WrongInputs { model: "lstm", found: "numbers" }),
            (_, Features::Words(_)) => Err(Error::WrongInputs { model: self.name(), found: "words" }),
        }
    }

    fn dropouts(&self) -> Vec<&Dropout> {
        match self {
            Self::Mlp(network) => network.dropouts(),
            Self::LeNet(images) => images.network.dropouts(),
            Self::Lstm(network) => network.dropouts(),
            Self::ResNet18(images) => images.network.dropouts(),
        }
    }

    fn weights(&self) -> Vec<&Weights> {
        match self {
            Self::Mlp(network) => network.weights(),
            Self::LeNet(images) => images.network.weights(),
            Self::Lstm(network) => network.weights(),
            Self::ResNet18(images) => images.network.weights(),
        }
    }

    fn map_weights<E>(self, map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        Ok(match self {
            Self::Mlp(network) => Self::Mlp(network.map_weights(map)?),
            Self::LeNet(images) => Self::LeNet(images.map_weights(map)?),
            Self::Lstm(network) => Self::Lstm(network.map_weights(map)?),
            Self::ResNet18(images) => Self::ResNet18(images.map_weights(map)?),
        })
    }
}

impl AnyNetwork {
    fn name(&self) -> &'static str {
        match self {
            Self::Mlp(_) => "mlp",
            Self::LeNet(_) => "lenet",
            Self::Lstm(_) => "lstm",
            Self::ResNet18(_) => "resnet18",
        }
    }
}
