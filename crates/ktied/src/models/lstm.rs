//! The recurrent classifier: an embedding, an LSTM, and a dense layer of one output.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use ktied_kernels::activation::Activation;
use serde::{Deserialize, Serialize};

use super::layer::{LayerSpec, Layers, Role, at_least, product};
use super::network::{Network, NetworkConfig};
use super::spec::PosteriorSpec;
use crate::error::Result;
use crate::nn::{
    Dropout, DropoutConfig, Embedding, EmbeddingConfig, LayerConfig, Linear, LinearConfig, Lstm, LstmConfig, Pass,
    Weights, dropout_rate,
};
use crate::posterior::PosteriorKind;

/// Input, forget, cell and output.
const GATES: usize = 4;

/// An LSTM over words; by default the paper's, on IMDB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LstmSpec {
    /// Number of words.
    pub vocabulary: usize,
    /// Length of a word's vector.
    pub embedding: usize,
    /// Length of the state.
    pub hidden: usize,
    /// Share of the last state that a draw leaves out, before the head.
    pub dropout: f64,
}

impl Default for LstmSpec {
    fn default() -> Self {
        Self { vocabulary: 20_000, embedding: 128, hidden: 128, dropout: 0.0 }
    }
}

impl LstmSpec {
    /// Kernel and recurrent kernel under the posterior; embedding and biases point. A column has nothing to tie, so the
    /// head takes the posterior's family for vectors; the paper's table leaves it out.
    pub(super) fn layers(&self, posterior: &PosteriorSpec) -> Result<Vec<LayerSpec>> {
        posterior.refuse_conv("lstm")?;
        at_least(1, "model.vocabulary", self.vocabulary)?;
        at_least(1, "model.embedding", self.embedding)?;
        at_least(1, "model.hidden", self.hidden)?;
        dropout_rate(self.dropout)?;
        let (point, kind) = (PosteriorKind::Point, posterior.kind);
        let gates = product("lstm.kernel", &[GATES, self.hidden])?;

        let mut layers = Layers::default();
        layers.push("embedding", Role::Embedding, &[self.vocabulary, self.embedding], point)?;
        layers.push("lstm.kernel", Role::Kernel, &[self.embedding, gates], kind)?;
        layers.push("lstm.recurrent", Role::Kernel, &[self.hidden, gates], kind)?;
        layers.push("lstm.bias", Role::Bias, &[gates], point)?;
        let body = layers.len();
        layers.affine("head", &[self.hidden, 1], kind.of_vectors(), point)?;
        layers.leave_out_after(body);
        Ok(layers.into_vec())
    }

    /// First values on a device.
    ///
    /// # Errors
    /// As [`ModelSpec::layers`](super::ModelSpec::layers), or if a scale is not a positive number.
    pub fn init(&self, config: &NetworkConfig, device: &Device) -> Result<LstmClassifier> {
        self.layers(&config.posterior)?;
        let kind = config.posterior.kind;
        // Biases are points under every posterior.
        let layer = |name: &str, id, kind| LayerConfig {
            bias: Some(PosteriorKind::Point),
            ..config.layer(name.into(), id, kind)
        };
        let (words, width) = (self.vocabulary, self.embedding);
        let embedding = EmbeddingConfig { words, width, layer: layer("embedding", 0, PosteriorKind::Point) };
        let lstm = LstmConfig { inputs: width, hidden: self.hidden, layer: layer("lstm", 1, kind) };
        let head = layer("head", 2, kind.of_vectors());
        let head = LinearConfig { inputs: self.hidden, outputs: 1, activation: Activation::Identity, layer: head };
        Ok(LstmClassifier {
            embedding: embedding.init(device)?,
            lstm: lstm.init(device)?,
            dropout: DropoutConfig { rate: self.dropout, id: 2 }.init()?,
            head: head.init(device)?,
        })
    }
}

/// A recurrent classifier of word sequences into two classes, with a posterior over its kernels; its one output is the
/// logit of the second class.
///
/// A local pass draws the LSTM by Flipout: every step uses the same weights.
#[derive(Debug, Module)]
pub struct LstmClassifier {
    embedding: Embedding,
    lstm: Lstm,
    dropout: Dropout,
    head: Linear,
}

impl Network for LstmClassifier {
    /// Word numbers, `[B, T]`
    type Input = Tensor<2, Int>;

    fn forward(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<2>> {
        let shared = pass.where_weights_are_shared();
        let state = self.lstm.forward_last_of_words(&self.embedding, ids, &shared)?;
        self.head.forward(self.dropout.forward(state, pass)?, pass)
    }

    fn dropouts(&self) -> Vec<&Dropout> {
        vec![&self.dropout]
    }

    fn weights(&self) -> Vec<&Weights> {
        vec![&self.embedding.weights, &self.lstm.kernel, &self.lstm.recurrent, &self.head.weights]
    }

    fn map_weights<E>(self, mut map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        let embedding = Embedding { weights: map(self.embedding.weights)? };
        let lstm = Lstm { kernel: map(self.lstm.kernel)?, recurrent: map(self.lstm.recurrent)? };
        Ok(Self { embedding, lstm, head: self.head.map_weights(map)?, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_never_tied_and_never_counted_and_its_bias_is_a_point() {
        for (text, parameters) in [("k-tied:3", 256), ("matrix-normal", 256), ("mean-field", 256), ("point", 128)] {
            let posterior = PosteriorSpec::new(text.parse().unwrap());
            let layers = LstmSpec::default().layers(&posterior).unwrap();
            let head: Vec<_> = layers.iter().filter(|layer| !layer.counted).collect();
            assert_eq!(head.iter().map(|layer| layer.parameters).collect::<Vec<_>>(), [parameters, 1], "{text}");
            assert!(head.iter().all(|layer| layer.name.starts_with("head.")), "{text}");
        }
    }
}
