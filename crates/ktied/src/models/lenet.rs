//! LeNet: two convolutions, each with a pooling, and two dense layers.

use serde::{Deserialize, Serialize};

use super::layer::{LayerSpec, Layers, at_least, product};
use super::spec::PosteriorSpec;
use crate::error::Result;

/// How much the two 2×2 poolings shorten a side together.
const POOLING: usize = 4;

/// LeNet for square images; by default the one that the paper's table counts, on CIFAR-100.
///
/// The paper's text says 3×3 kernels, but its parameter counts are those of 5×5 ones: hence 5, and 3 is yours to set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Default for LeNetSpec {
    fn default() -> Self {
        Self { side: 32, channels: 3, kernel: 5, filters: [32, 64], dense: 512, classes: 100 }
    }
}

impl LeNetSpec {
    /// Dense kernels under the posterior. Convolutions are mean-field where those are tied, unless `posterior.conv`
    /// says otherwise.
    pub(super) fn layers(&self, posterior: &PosteriorSpec) -> Result<Vec<LayerSpec>> {
        self.check()?;
        let Self { side, channels, kernel, filters: [first, second], dense, classes } = *self;
        let kind = posterior.kind;
        let conv = posterior.conv.unwrap_or(kind.of_vectors());
        let pooled = side / POOLING;
        let flat = product("dense_1.kernel", &[pooled, pooled, second])?;

        let mut layers = Layers::default();
        layers.affine("conv_1", &[kernel, kernel, channels, first], conv, conv.of_vectors())?;
        layers.affine("conv_2", &[kernel, kernel, first, second], conv, conv.of_vectors())?;
        layers.affine("dense_1", &[flat, dense], kind, kind.of_vectors())?;
        layers.affine("dense_2", &[dense, classes], kind, kind.of_vectors())?;
        Ok(layers.into_vec())
    }

    fn check(&self) -> Result<()> {
        at_least(POOLING, "model.side", self.side)?;
        at_least(1, "model.channels", self.channels)?;
        at_least(1, "model.kernel", self.kernel)?;
        self.filters.iter().try_for_each(|&size| at_least(1, "each of model.filters", size).map(drop))?;
        at_least(1, "model.dense", self.dense)?;
        at_least(1, "model.classes", self.classes).map(drop)
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
        assert_eq!(kernels(PosteriorSpec { kind: tied, conv: Some(tied) }), [tied; 4]);
        assert_eq!(kernels(PosteriorSpec::new(Point)), [Point; 4]);
    }

    #[test]
    fn an_image_too_small_to_pool_twice_is_refused() {
        let spec = LeNetSpec { side: 3, ..LeNetSpec::default() };
        let error = spec.layers(&PosteriorSpec::default()).unwrap_err().to_string();
        assert_eq!(error, "model.side must be at least 4, got 3");
    }
}
