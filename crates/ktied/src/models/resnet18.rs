//! ResNet-18 as TensorFlow Probability's example builds it: a stem, four blocks with shortcuts, and a dense layer.

use serde::{Deserialize, Serialize};

use super::layer::{LayerSpec, Layers, Role, at_least};
use super::spec::PosteriorSpec;
use crate::error::Result;
use crate::posterior::PosteriorKind;

/// Scale, shift, running mean and running variance.
const NORM_NUMBERS: usize = 4;

/// ResNet-18; by default the paper's, on CIFAR-10.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ResNet18Spec {
    /// Colours of an image.
    pub channels: usize,
    /// Outputs of the four blocks; the stem has as many as the first.
    pub widths: [usize; 4],
    /// Outputs of the dense layer.
    pub classes: usize,
}

impl Default for ResNet18Spec {
    fn default() -> Self {
        Self { channels: 3, widths: [64, 128, 256, 512], classes: 10 }
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
        at_least(1, "model.channels", self.channels)?;
        self.widths.iter().try_for_each(|&size| at_least(1, "each of model.widths", size).map(drop))?;
        at_least(1, "model.classes", self.classes).map(drop)
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
        let posterior = PosteriorSpec { kind: PosteriorKind::KTied { rank: 2 }, conv: Some(PosteriorKind::Point) };
        let layers = ResNet18Spec::default().layers(&posterior).unwrap();
        let tied = layers.iter().filter(|layer| layer.posterior == posterior.kind);
        assert_eq!(tied.map(|layer| layer.name.as_str()).collect::<Vec<_>>(), ["dense.kernel"]);
    }
}
