//! Batch normalisation over the rows of a matrix of channels, with an optional rectifier fused in.
//!
//! Channels-last images `[B, H, W, C]` are such a matrix, of B·H·W rows. Ioffe, Szegedy, *Batch normalization*, 2015.

mod moments;

use rayon::prelude::*;

use crate::activation::{Activation, relu, relu_gradient};
use crate::batch_norm::moments::{chunk_rows, measure};
use crate::error::{Check, Result};
use crate::par::{map_chunks, rows_per_chunk};
use crate::simd::vectorized;

/// What a batch normalisation is made of besides its statistics.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm<'a> {
    /// Scale γ of each channel, `[C]`.
    pub gamma: &'a [f32],
    /// Shift β of each channel, `[C]`.
    pub beta: &'a [f32],
    /// Added to the variance before its root is taken.
    pub epsilon: f32,
    /// Applied to the result.
    pub activation: Activation,
}

/// Mean and (biased) variance of each channel, `[C]` each.
#[derive(Clone, Copy, Debug)]
pub struct Moments<'a> {
    /// Means.
    pub mean: &'a [f32],
    /// Variances.
    pub var: &'a [f32],
}

/// Where [`forward_train`] writes the mean and the biased variance of each channel, `[C]` each.
#[derive(Debug)]
pub struct MomentsMut<'a> {
    /// Means.
    pub mean: &'a mut [f32],
    /// Variances, divided by the number of rows.
    pub var: &'a mut [f32],
}

/// y = act(γ·(x − mean)/√(var + ε) + β) with the mean and variance of this batch, which are returned in `moments`:
/// [`backward_train`] needs them, and running averages are made of them.
///
/// # Shapes
/// - y, x: `[rows, C]`, the others `[C]`; C is the length of γ
///
/// # Errors
/// If a length does not fit.
///
/// ```
/// use ktied_kernels::batch_norm::{BatchNorm, MomentsMut, forward_train};
/// let norm = BatchNorm { gamma: &[2.0], beta: &[1.0], epsilon: 0.0, activation: Default::default() };
/// let (mut y, mut mean, mut var) = ([0.0; 2], [0.0], [0.0]);
/// forward_train(&mut y, MomentsMut { mean: &mut mean, var: &mut var }, &[3.0, 7.0], norm)?;
/// assert_eq!((y, mean, var), ([-1.0, 3.0], [5.0], [4.0]));
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward_train(y: &mut [f32], moments: MomentsMut<'_>, x: &[f32], norm: BatchNorm<'_>) -> Result<()> {
    let check = Check("batch_norm");
    let MomentsMut { mean, var } = moments;
    check_operands(check, x, &norm, Moments { mean, var })?;
    check.len("y", y, x.len())?;
    measure(mean, var, x);
    normalize(y, x, &norm, Moments { mean, var });
    Ok(())
}

/// y = act(γ·(x − mean)/√(var + ε) + β) with the mean and variance given.
///
/// # Shapes
/// - y, x: `[rows, C]`, the others `[C]`; C is the length of γ
///
/// # Errors
/// If a length does not fit.
pub fn forward_frozen(y: &mut [f32], x: &[f32], norm: BatchNorm<'_>, moments: Moments<'_>) -> Result<()> {
    let check = Check("batch_norm frozen");
    check_operands(check, x, &norm, moments)?;
    check.len("y", y, x.len())?;
    normalize(y, x, &norm, moments);
    Ok(())
}

/// Where the backward kernels write; what is `None` is not written.
#[derive(Debug, Default)]
pub struct BatchNormGrads<'a> {
    /// Gradient of x, `[rows, C]`.
    pub x: Option<&'a mut [f32]>,
    /// Gradient of γ, `[C]`.
    pub gamma: Option<&'a mut [f32]>,
    /// Gradient of β, `[C]`.
    pub beta: Option<&'a mut [f32]>,
}

/// Gradients of [`forward_train`], whose mean and variance depend on x too. With dz = dy ∘ act′, x̂ = (x − mean)/σ and
/// n rows: dβ = Σ dz, dγ = Σ dz·x̂, dx = γ/σ·(dz − dβ/n − x̂·dγ/n).
///
/// # Shapes
/// - dy, x: `[rows, C]`; `moments` are those that the forward kernel returned
///
/// # Errors
/// If a length does not fit; nothing is written then.
pub fn backward_train(
    grads: BatchNormGrads<'_>,
    dy: &[f32],
    x: &[f32],
    norm: BatchNorm<'_>,
    moments: Moments<'_>,
) -> Result<()> {
    backward(Check("batch_norm backward"), grads, dy, x, &norm, moments, Statistics::OfBatch)
}

/// Gradients of [`forward_frozen`], whose mean and variance are constants: dβ = Σ dz, dγ = Σ dz·x̂, dx = γ/σ·dz.
///
/// # Shapes
/// - dy, x: `[rows, C]`
///
/// # Errors
/// If a length does not fit; nothing is written then.
pub fn backward_frozen(
    grads: BatchNormGrads<'_>,
    dy: &[f32],
    x: &[f32],
    norm: BatchNorm<'_>,
    moments: Moments<'_>,
) -> Result<()> {
    backward(Check("batch_norm frozen backward"), grads, dy, x, &norm, moments, Statistics::Given)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Statistics {
    OfBatch,
    Given,
}

fn check_operands(check: Check, x: &[f32], norm: &BatchNorm<'_>, moments: Moments<'_>) -> Result<()> {
    let channels = norm.gamma.len();
    check.len("beta", norm.beta, channels)?;
    check.len("mean", moments.mean, channels)?;
    check.len("var", moments.var, channels)?;
    let whole_rows = x.len().is_multiple_of(channels.max(1)) && (channels > 0 || x.is_empty());
    check.size("x", x.len(), whole_rows, "a whole number of rows of channels")
}

/// 1/√(var + ε).
fn inverse_std(var: &[f32], epsilon: f32) -> Vec<f32> {
    var.iter().map(|v| (1.0 / (f64::from(*v) + f64::from(epsilon)).sqrt()) as f32).collect()
}

/// γ/√(var + ε).
fn slopes(norm: &BatchNorm<'_>, inv_std: &[f32]) -> Vec<f32> {
    norm.gamma.iter().zip(inv_std).map(|(g, s)| g * s).collect()
}

fn normalize(y: &mut [f32], x: &[f32], norm: &BatchNorm<'_>, moments: Moments<'_>) {
    let slope = slopes(norm, &inverse_std(moments.var, norm.epsilon));
    let chunk = rows_per_chunk(slope.len()) * slope.len().max(1);
    let apply = if norm.activation == Activation::Relu { normalize_relu_rows } else { normalize_rows };
    let tasks = y.par_chunks_mut(chunk).zip(x.par_chunks(chunk));
    tasks.for_each(|(y, x)| apply(y, x, moments.mean, &slope, norm.beta));
}

fn backward(
    check: Check,
    grads: BatchNormGrads<'_>,
    dy: &[f32],
    x: &[f32],
    norm: &BatchNorm<'_>,
    moments: Moments<'_>,
    statistics: Statistics,
) -> Result<()> {
    let BatchNormGrads { x: dx, gamma: dgamma, beta: dbeta } = grads;
    check_operands(check, x, norm, moments)?;
    let channels = norm.gamma.len();
    check.len("dy", dy, x.len())?;
    dx.as_ref().map_or(Ok(()), |dx| check.len("dx", dx, x.len()))?;
    dgamma.as_ref().map_or(Ok(()), |dgamma| check.len("dgamma", dgamma, channels))?;
    dbeta.as_ref().map_or(Ok(()), |dbeta| check.len("dbeta", dbeta, channels))?;

    let inv_std = inverse_std(moments.var, norm.epsilon);
    let slope = slopes(norm, &inv_std);
    let unit = Unit { mean: moments.mean, slope: &slope, beta: norm.beta, relu: norm.activation == Activation::Relu };
    let [sum_dz, sum_dz_x] = gradient_sums(dy, x, &unit);
    let sum_dz_hat: Vec<f64> = sum_dz_x.iter().zip(&inv_std).map(|(s, inv)| s * f64::from(*inv)).collect();
    if let Some(dx) = dx {
        let num_rows = (x.len() / channels.max(1)).max(1) as f64;
        let share = if statistics == Statistics::OfBatch { 1.0 / num_rows } else { 0.0 };
        let offset: Vec<f32> = sum_dz.iter().map(|s| (s * share) as f32).collect();
        let pull = sum_dz_hat.iter().zip(&inv_std).map(|(s, inv)| (s * share * f64::from(*inv)) as f32);
        input_gradient(dx, dy, x, &unit, &offset, &pull.collect::<Vec<f32>>());
    }
    if let Some(dgamma) = dgamma {
        dgamma.iter_mut().zip(&sum_dz_hat).for_each(|(d, s)| *d = *s as f32);
    }
    if let Some(dbeta) = dbeta {
        dbeta.iter_mut().zip(&sum_dz).for_each(|(d, s)| *d = *s as f32);
    }
    Ok(())
}

/// What each channel does to its input, z = slope·(x − mean) + β. The sign of z is found again from x, with the very
/// operations of the forward kernel, so y need not be kept.
#[derive(Clone, Copy)]
struct Unit<'a> {
    mean: &'a [f32],
    slope: &'a [f32],
    beta: &'a [f32],
    relu: bool,
}

/// [Σ dz, Σ dz·(x − mean)] of each channel.
fn gradient_sums(dy: &[f32], x: &[f32], unit: &Unit<'_>) -> [Vec<f64>; 2] {
    let channels = unit.mean.len().max(1);
    let parts = map_chunks(x.len() / channels, chunk_rows(channels), |rows| {
        let range = rows.start * channels..rows.end * channels;
        let mut part = vec![0.0; 2 * channels];
        chunk_gradient_sums(&mut part, &dy[range.clone()], &x[range], unit);
        part
    });
    let sum = |column: usize| parts.iter().map(|part| f64::from(part[column])).sum::<f64>();
    let num_channels = unit.mean.len();
    [(0..num_channels).map(sum).collect(), (channels..channels + num_channels).map(sum).collect()]
}

fn input_gradient(dx: &mut [f32], dy: &[f32], x: &[f32], unit: &Unit<'_>, offset: &[f32], pull: &[f32]) {
    let chunk = rows_per_chunk(offset.len()) * offset.len().max(1);
    let tasks = dx.par_chunks_mut(chunk).zip(dy.par_chunks(chunk)).zip(x.par_chunks(chunk));
    tasks.for_each(|((dx, dy), x)| input_gradient_rows(dx, dy, x, unit, offset, pull));
}

/// slope·(x − mean) + β: multiplied after the subtraction, so a mean far from zero costs no digits.
#[inline(always)]
fn unit_value(x: f32, mean: f32, slope: f32, beta: f32) -> f32 {
    (x - mean) * slope + beta
}

vectorized! {
    fn normalize_rows(y: &mut [f32], x: &[f32], mean: &[f32], slope: &[f32], beta: &[f32]) {
        for (y, x) in y.chunks_exact_mut(mean.len()).zip(x.chunks_exact(mean.len())) {
            let channel = mean.iter().zip(slope).zip(beta);
            for ((y, x), ((m, a), b)) in y.iter_mut().zip(x).zip(channel) {
                *y = unit_value(*x, *m, *a, *b);
            }
        }
    }

    fn normalize_relu_rows(y: &mut [f32], x: &[f32], mean: &[f32], slope: &[f32], beta: &[f32]) {
        for (y, x) in y.chunks_exact_mut(mean.len()).zip(x.chunks_exact(mean.len())) {
            let channel = mean.iter().zip(slope).zip(beta);
            for ((y, x), ((m, a), b)) in y.iter_mut().zip(x).zip(channel) {
                *y = relu(unit_value(*x, *m, *a, *b));
            }
        }
    }

    fn chunk_gradient_sums(part: &mut [f32], dy: &[f32], x: &[f32], unit: &Unit<'_>) {
        let channels = unit.mean.len();
        let (sum_dz, sum_dz_x) = part.split_at_mut(channels);
        for (dy, x) in dy.chunks_exact(channels).zip(x.chunks_exact(channels)) {
            let channel = unit.mean.iter().zip(unit.slope).zip(unit.beta);
            let sums = sum_dz.iter_mut().zip(sum_dz_x.iter_mut());
            for (((dy, x), ((m, a), b)), (s, sx)) in dy.iter().zip(x).zip(channel).zip(sums) {
                let on = if unit.relu { unit_value(*x, *m, *a, *b) } else { 1.0 };
                let dz = relu_gradient(*dy, on);
                *s += dz;
                *sx += dz * (x - m);
            }
        }
    }

    /// dx = slope·(dz − offset − (x − mean)·pull).
    fn input_gradient_rows(dx: &mut [f32], dy: &[f32], x: &[f32], unit: &Unit<'_>, offset: &[f32], pull: &[f32]) {
        let channels = unit.mean.len();
        let rows = dx.chunks_exact_mut(channels).zip(dy.chunks_exact(channels)).zip(x.chunks_exact(channels));
        for ((dx, dy), x) in rows {
            let channel = unit.mean.iter().zip(unit.slope).zip(unit.beta);
            let sums = offset.iter().zip(pull);
            for ((((dx, dy), x), ((m, a), b)), (o, p)) in dx.iter_mut().zip(dy).zip(x).zip(channel).zip(sums) {
                let on = if unit.relu { unit_value(*x, *m, *a, *b) } else { 1.0 };
                *dx = a * ((relu_gradient(*dy, on) - o) - (x - m) * p);
            }
        }
    }
}
