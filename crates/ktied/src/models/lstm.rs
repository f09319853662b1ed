//! The recurrent classifier: an embedding, an LSTM, and a dense layer of one output.

use serde::{Deserialize, Serialize};

use super::layer::{LayerSpec, Layers, Role, at_least, product};
use super::spec::PosteriorSpec;
use crate::error::Result;
use crate::posterior::PosteriorKind;

/// Input, forget, cell and output.
const GATES: usize = 4;

/// An LSTM over words; by default the paper's, on IMDB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LstmSpec {
    /// Number of words.
    pub vocabulary: usize,
    /// Length of a word's vector.
    pub embedding: usize,
    /// Length of the state.
    pub hidden: usize,
}

impl Default for LstmSpec {
    fn default() -> Self {
        Self { vocabulary: 20_000, embedding: 128, hidden: 128 }
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
