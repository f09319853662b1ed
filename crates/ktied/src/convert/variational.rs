//! What is attached to a parameter: the standard deviations around its value, which is the mean.

use std::sync::Arc;

use burn::module::{Module, Param, Reparameterization};
use burn::tensor::{Device, Tensor, TensorData};
use ktied_kernels::{NoiseKey, ScaleForm, ShapeError, noise};

use super::draws::{Current, Instance};
use super::plan::Planned;
use super::{ConvertedPrior, InitialScale};
use crate::ops::{self, portable};
use crate::posterior::{PosteriorKind, ScaleInit};

/// Whether parameters of another shape were loaded is for burn to say, which it does by a panic, as here.
const FITS: &str = "scales have the shape of their parameter";
/// What the mean |w| of a row or column, or a single one, counts at least, in parts of the mean over all.
const LEAST_SIZE: f32 = 0.01;

/// The scales of a diagonal Gaussian around a parameter, which is its mean.
#[derive(Debug, Module)]
pub struct Variational {
    /// Mean field: ln σ, `[M, N]`.
    pub log_scale: Option<Param<Tensor<2>>>,
    /// k-tied: ln U, `[M, K]`,
    pub log_u: Option<Param<Tensor<2>>>,
    /// and ln V, `[N, K]`.
    pub log_v: Option<Param<Tensor<2>>>,
    /// Means of the prior, `[M, N]`, where they are not zero; never trained.
    pub prior_loc: Option<Param<Tensor<2>>>,
    #[module(skip)]
    place: Place,
}

/// Where in which model, and its turn in which pass.
#[derive(Clone, Debug)]
struct Place {
    /// Number that the noise of this parameter is a function of.
    layer: u64,
    outputs: usize,
    instance: Instance,
    current: Arc<Current>,
}

impl Variational {
    /// First values for a parameter of these weights.
    pub(super) fn new<const D: usize>(weights: Tensor<D>, planned: &Planned, seed: u64, current: Arc<Current>) -> Self {
        let (device, outputs) = (weights.device(), planned.outputs);
        let loc = to_matrix(weights.detach(), outputs);
        let first = First { loc: &loc, planned, key: planned.key(seed), device: &device };
        let (log_scale, factors) = match planned.kind() {
            PosteriorKind::KTied { rank } => (None, Some(first.factors(rank))),
            _ => (Some(first.log_scale()), None),
        };
        let (log_u, log_v) = factors.map_or((None, None), |[u, v]| (Some(u), Some(v)));
        let centred = matches!(planned.conversion.prior, ConvertedPrior::Centred { .. });
        let prior_loc = centred.then(|| Param::from_tensor(copy(&loc, &device)).set_require_grad(false));
        let place = Place { layer: planned.layer(), outputs, instance: Instance::new(), current };
        Self { log_scale, log_u, log_v, prior_loc, place }
    }
}

impl Reparameterization for Variational {
    const NAME: &'static str = "posterior";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        let Place { layer, outputs, instance, current } = &self.place;
        let draw = |key| {
            let (dims, loc) = (base.dims(), to_matrix(base.clone(), *outputs));
            let [log_scale, log_u, log_v] =
                [&self.log_scale, &self.log_u, &self.log_v].map(|param| param.as_ref().map(Param::val));
            let scales = Scales::of(log_scale, log_u, log_v).expect(FITS);
            from_matrix(scales.draw(loc, key).expect(FITS), dims, *outputs)
        };
        current.weights(instance, *layer, draw).unwrap_or(base)
    }
}

/// Standard deviations as they are stored.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each tensor of a network, and it is short-lived")]
pub(super) enum Scales {
    Free(Tensor<2>),
    Tied(Tensor<2>, Tensor<2>),
}

impl Scales {
    pub fn of(log_scale: Option<Tensor<2>>, log_u: Option<Tensor<2>>, log_v: Option<Tensor<2>>) -> Option<Self> {
        match (log_scale, log_u, log_v) {
            (Some(log_scale), _, _) => Some(Self::Free(log_scale)),
            (_, Some(log_u), Some(log_v)) => Some(Self::Tied(log_u, log_v)),
            _ => None,
        }
    }

    fn draw(self, loc: Tensor<2>, key: NoiseKey) -> Result<Tensor<2>, ShapeError> {
        match self {
            Self::Free(log_scale) => ops::draw_mean_field(Some(loc), log_scale, ScaleForm::Log, key),
            Self::Tied(log_u, log_v) => ops::draw_k_tied(Some(loc), log_u, log_v, key),
        }
    }

    /// KL(q‖p), `[1]`, in nats.
    pub fn kl(self, loc: Tensor<2>, prior_loc: Option<Tensor<2>>, prior_scale: f64) -> Result<Tensor<1>, ShapeError> {
        match self {
            Self::Free(log_scale) => ops::kl_mean_field(loc, log_scale, ScaleForm::Log, prior_loc, prior_scale),
            Self::Tied(log_u, log_v) => ops::kl_k_tied(loc, log_u, log_v, prior_loc, prior_scale),
        }
    }

    /// σ, `[M, N]`
    pub fn matrix(self) -> Tensor<2> {
        match self {
            Self::Free(log_scale) => log_scale.exp(),
            Self::Tied(log_u, log_v) => portable::k_tied_scale(log_u, log_v),
        }
    }
}

/// What first scales depend on.
struct First<'a> {
    loc: &'a Tensor<2>,
    planned: &'a Planned,
    key: NoiseKey,
    device: &'a Device,
}

impl First<'_> {
    fn init(&self) -> ScaleInit {
        ScaleInit { scale: self.planned.conversion.scale.value(), ..ScaleInit::default() }
    }

    fn log_scale(&self) -> Param<Tensor<2>> {
        let (init, sizes) = (self.init(), self.sizes());
        let shape = self.loc.dims();
        let all: Vec<f32> = match sizes {
            Some(sizes) => sizes.each,
            None => vec![1.0; shape[0] * shape[1]],
        };
        self.param(1, shape, |i, z| init.raw(z) + all[i].ln())
    }

    /// ln U and ln V, whose sums of products are around σ.
    fn factors(&self, rank: usize) -> [Param<Tensor<2>>; 2] {
        let (init, [rows, cols]) = (self.init(), self.loc.dims());
        let (of_rows, of_cols) = match self.sizes() {
            Some(sizes) => (sizes.rows, sizes.cols),
            None => (vec![1.0; rows], vec![1.0; cols]),
        };
        let factor = |stream, sizes: &[f32]| {
            self.param(stream, [sizes.len(), rank], |i, z| init.log_factor(rank, z) + sizes[i / rank].ln())
        };
        [factor(2, &of_rows), factor(3, &of_cols)]
    }

    fn param(&self, stream: u64, shape: [usize; 2], value: impl Fn(usize, f32) -> f32) -> Param<Tensor<2>> {
        let mut values = vec![0.0; shape[0] * shape[1]];
        noise::normals(self.key.fold(stream), 0, &mut values);
        values.iter_mut().enumerate().for_each(|(i, z)| *z = value(i, *z));
        Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), self.device))
    }

    /// Sizes of the weights, where scales are to be in proportion to them.
    fn sizes(&self) -> Option<Sizes> {
        match self.planned.conversion.scale {
            InitialScale::Relative(_) => Some(Sizes::of(self.loc)),
            InitialScale::Absolute(_) => None,
        }
    }
}

/// |w| of each weight, and for each row and column the factor of a product that has their mean |w|.
pub(super) struct Sizes {
    pub each: Vec<f32>,
    pub rows: Vec<f32>,
    pub cols: Vec<f32>,
    /// The mean over all.
    pub mean: f32,
}

impl Sizes {
    pub fn of(loc: &Tensor<2>) -> Self {
        let [rows, cols] = loc.dims();
        let values: Vec<f32> = loc.to_data().iter::<f32>().map(f32::abs).collect();
        let (mut of_rows, mut of_cols) = (vec![0.0f64; rows], vec![0.0f64; cols]);
        for (i, &value) in values.iter().enumerate() {
            of_rows[i / cols.max(1)] += f64::from(value) / cols as f64;
            of_cols[i % cols.max(1)] += f64::from(value) / rows as f64;
        }
        let mean = (of_rows.iter().sum::<f64>() / rows.max(1) as f64) as f32;
        let (least, root) = (LEAST_SIZE * mean, mean.sqrt());
        let factors = |means: Vec<f64>| means.into_iter().map(|m| (m as f32).max(least) / root).collect();
        let each = values.iter().map(|value| value.max(least)).collect();
        Self { each, rows: factors(of_rows), cols: factors(of_cols), mean }
    }
}

fn copy(loc: &Tensor<2>, device: &Device) -> Tensor<2> {
    Tensor::from_data(loc.to_data(), device)
}

/// A parameter as a matrix of its outputs and all the rest, whichever lies first in memory.
pub(super) fn to_matrix<const D: usize>(tensor: Tensor<D>, outputs: usize) -> Tensor<2> {
    let dims = tensor.dims();
    let (count, all) = (dims.get(outputs).copied().unwrap_or(1), dims.iter().product::<usize>());
    let rest = all / count.max(1);
    match outputs {
        last if last + 1 >= D => tensor.reshape([rest, count]),
        0 => tensor.reshape([count, rest]),
        middle => tensor.movedim(middle, 0usize).reshape([count, rest]),
    }
}

fn from_matrix<const D: usize>(matrix: Tensor<2>, dims: [usize; D], outputs: usize) -> Tensor<D> {
    if outputs == 0 || outputs + 1 >= D {
        return matrix.reshape(dims);
    }
    let mut moved = dims;
    moved[..=outputs].rotate_right(1);
    matrix.reshape(moved).movedim(0usize, outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_of_outputs_and_the_rest_goes_back_to_its_parameter() {
        let values: Vec<f32> = (0..2 * 3 * 4 * 5).map(|i| i as f32).collect();
        let tensor = Tensor::<1>::from_floats(&values[..], &Device::flex()).reshape([2, 3, 4, 5]);
        for (outputs, shape) in [(0, [2, 60]), (1, [3, 40]), (2, [4, 30]), (3, [24, 5])] {
            let matrix = to_matrix(tensor.clone(), outputs);
            assert_eq!(matrix.dims(), shape);
            from_matrix(matrix.clone(), [2, 3, 4, 5], outputs).into_data().assert_eq(&tensor.to_data(), true);
            // All weights of one output are in one row, or in one column.
            let output = |i: usize| (values[i] as usize / [60, 20, 5, 1][outputs]) % [2, 3, 4, 5][outputs];
            let found: Vec<usize> = matrix.into_data().iter::<f32>().map(|v| output(v as usize)).collect();
            let places = (0..120).map(|i| if outputs == 3 { i % 5 } else { i / shape[1] });
            assert!(found.into_iter().eq(places), "{outputs}");
        }
    }

    #[test]
    fn sizes_of_rows_and_columns_multiply_to_their_means() {
        let loc = Tensor::<2>::from_floats([[1.0, -3.0], [2.0, 6.0], [0.0, 0.0]], &Device::flex());
        let sizes = Sizes::of(&loc);
        assert_eq!((sizes.mean, &sizes.each[..4]), (2.0, &[1.0, 3.0, 2.0, 6.0][..]));
        // Rows have means 2, 4 and 0, columns 1 and 3; the product of the first two is 2·1/2 = 1.
        let product = |i: usize, j: usize| sizes.rows[i] * sizes.cols[j];
        for ((i, j), expected) in [((0, 0), 1.0), ((1, 1), 6.0), ((1, 0), 2.0), ((2, 1), 0.03)] {
            assert!((product(i, j) - expected).abs() < 1e-6, "{i} {j}: {}", product(i, j));
        }
    }
}
