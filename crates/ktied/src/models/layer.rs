//! One tensor of a network as a description, and the sums over a network's tensors.

use crate::error::{Error, Result};
use crate::posterior::PosteriorKind;

/// What a tensor does in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Weights of a dense, convolutional or recurrent layer.
    Kernel,
    /// One number an output.
    Bias,
    /// A vector a word.
    Embedding,
    /// Batch normalisation: scale, shift, running mean and running variance of each channel.
    Norm,
}

/// One tensor of a network: its shape, its posterior, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSpec {
    /// Where it is in the network, as in `dense_1.kernel`.
    pub name: String,
    /// Its dimensions, the outputs last; a [`Role::Norm`] is `[4, channels]`.
    pub shape: Vec<usize>,
    /// M, the product of all dimensions but the last.
    pub rows: usize,
    /// N, the last dimension.
    pub cols: usize,
    /// What it does.
    pub role: Role,
    /// The family of its weights.
    pub posterior: PosteriorKind,
    /// How many numbers describe it.
    pub parameters: usize,
    /// Whether the paper's tables count it; they leave the head of the LSTM out.
    pub counted: bool,
}

/// How many parameters a network has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// As the paper's tables count.
    pub total: usize,
    /// With the layers that its tables leave out.
    pub with_head: usize,
}

impl Totals {
    /// The sums over `layers`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if a sum does not fit.
    pub fn of(layers: &[LayerSpec]) -> Result<Self> {
        layers.iter().try_fold(Self::default(), |sums, layer| {
            let counted = if layer.counted { layer.parameters } else { 0 };
            let add = |sum: usize, more| sum.checked_add(more).ok_or_else(|| too_large(&layer.name));
            Ok(Self { total: add(sums.total, counted)?, with_head: add(sums.with_head, layer.parameters)? })
        })
    }
}

/// The layers of a network that is being described, in the order in which they are used.
#[derive(Debug, Default)]
pub(super) struct Layers(Vec<LayerSpec>);

impl Layers {
    /// Adds a tensor after checking its size and its posterior.
    pub(super) fn push(&mut self, name: &str, role: Role, shape: &[usize], posterior: PosteriorKind) -> Result<()> {
        let (rows, cols) = matrix_view(name, shape)?;
        posterior.check(name, rows, cols)?;
        let parameters = posterior.num_params(rows, cols);
        let (name, shape) = (name.into(), shape.to_vec());
        self.0.push(LayerSpec { name, shape, rows, cols, role, posterior, parameters, counted: true });
        Ok(())
    }

    /// Adds a kernel of the last dimension's outputs, and their bias.
    pub(super) fn affine(
        &mut self,
        name: &str,
        shape: &[usize],
        kernel: PosteriorKind,
        bias: PosteriorKind,
    ) -> Result<()> {
        self.push(&format!("{name}.kernel"), Role::Kernel, shape, kernel)?;
        let outputs = shape.last().copied().unwrap_or(1);
        self.push(&format!("{name}.bias"), Role::Bias, &[outputs], bias)
    }

    /// Marks all layers after the first `len` as left out of the paper's tables.
    pub(super) fn leave_out_after(&mut self, len: usize) {
        self.0.iter_mut().skip(len).for_each(|layer| layer.counted = false);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_vec(self) -> Vec<LayerSpec> {
        self.0
    }
}

/// The product of `dims`, on behalf of the layer `name`.
pub(super) fn product(name: &str, dims: &[usize]) -> Result<usize> {
    let product = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    product.ok_or_else(|| too_large(name))
}

/// `value`, if it is at least `least`.
pub(super) fn at_least(least: usize, key: &str, value: usize) -> Result<usize> {
    if value >= least {
        return Ok(value);
    }
    Err(Error::TooSmall { key: key.into(), least, found: value })
}

/// M and N of a tensor that no family can make overflow: none takes more than 3·M·N numbers, since a rank is at most
/// min(M, N), so K(M + N) ≤ 2·M·N.
fn matrix_view(name: &str, shape: &[usize]) -> Result<(usize, usize)> {
    let (&cols, rest) = shape.split_last().unwrap_or((&1, &[]));
    let rows = product(name, rest)?;
    product(name, &[rows, cols, 3])?;
    Ok((rows, cols))
}

fn too_large(layer: &str) -> Error {
    Error::TooLarge { layer: layer.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_is_a_matrix_of_all_dimensions_but_the_last_by_the_last() {
        let mut layers = Layers::default();
        layers.affine("conv_1", &[5, 5, 3, 32], PosteriorKind::KTied { rank: 2 }, PosteriorKind::MeanField).unwrap();
        let layers = layers.into_vec();
        assert_eq!((layers[0].rows, layers[0].cols, layers[0].parameters), (75, 32, 75 * 32 + 2 * (75 + 32)));
        assert_eq!((layers[1].rows, layers[1].cols, layers[1].parameters), (1, 32, 64));
        assert_eq!((layers[0].name.as_str(), layers[1].name.as_str()), ("conv_1.kernel", "conv_1.bias"));
    }

    #[test]
    fn sizes_that_do_not_fit_are_an_error_and_not_a_wrong_number() {
        let half = usize::MAX / 2;
        for shape in [&[usize::MAX, 2][..], &[half, 1], &[half, half, half]] {
            let error = Layers::default().push("wide", Role::Kernel, shape, PosteriorKind::MeanField).unwrap_err();
            assert_eq!(error, Error::TooLarge { layer: "wide".into() }, "{shape:?}");
        }
        let mut layers = Layers::default();
        for name in ["a", "b", "c", "d"] {
            layers.push(name, Role::Kernel, &[usize::MAX / 3, 1], PosteriorKind::Point).unwrap();
        }
        assert_eq!(Totals::of(&layers.into_vec()), Err(Error::TooLarge { layer: "d".into() }));
    }

    #[test]
    fn the_largest_allowed_matrix_counts_without_overflow_in_every_family() {
        let (rows, cols) = (usize::MAX / 6, 2);
        for kind in [PosteriorKind::MeanField, PosteriorKind::KTied { rank: 2 }, PosteriorKind::MatrixNormal] {
            assert!(Layers::default().push("tall", Role::Kernel, &[rows, cols], kind).is_ok(), "{kind}");
        }
    }
}
