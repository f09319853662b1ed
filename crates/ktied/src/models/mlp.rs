//! The multilayer perceptron: dense layers with rectifiers between them.

use serde::{Deserialize, Serialize};

use super::layer::{LayerSpec, Layers, at_least};
use super::spec::PosteriorSpec;
use crate::error::Result;

/// A multilayer perceptron, 784-400-400-10 by default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MlpSpec {
    /// Inputs, hidden units of each layer, outputs.
    pub sizes: Vec<usize>,
}

impl Default for MlpSpec {
    fn default() -> Self {
        Self { sizes: vec![784, 400, 400, 10] }
    }
}

impl MlpSpec {
    /// Kernels under the posterior, biases under its family for vectors.
    pub(super) fn layers(&self, posterior: &PosteriorSpec) -> Result<Vec<LayerSpec>> {
        posterior.refuse_conv("mlp")?;
        at_least(2, "the number of model.sizes", self.sizes.len())?;
        self.sizes.iter().try_for_each(|&size| at_least(1, "each of model.sizes", size).map(drop))?;
        let mut layers = Layers::default();
        for (number, size) in (1..).zip(self.sizes.windows(2)) {
            layers.affine(&format!("dense_{number}"), size, posterior.kind, posterior.kind.of_vectors())?;
        }
        Ok(layers.into_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posterior::PosteriorKind;

    #[test]
    fn a_network_needs_inputs_and_outputs_and_no_empty_layer() {
        let refuse = |sizes: &[usize]| {
            let spec = MlpSpec { sizes: sizes.into() };
            spec.layers(&PosteriorSpec::new(PosteriorKind::Point)).unwrap_err().to_string()
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
