//! Local reparameterisation of a dense layer: noise on the activations, y = m + √(x²σ² + σ_b² + 1e-12) ∘ ε.
//!
//! Exact for a layer that sees each weight once per example (Kingma, Salimans, Welling, 2015). Mean field pays a
//! second dense product, x²σ². A k-tied scale does not: with R = K(K+1)/2 products of factors,
//! σ² = P Qᵀ where P = c·uₐuᵦ (`[M, R]`, c = 2 off the diagonal) and Q = vₐvᵦ (`[N, R]`), so the variance is
//! (x²P)Qᵀ and costs O(B(M + N)R).

mod k_tied;
mod mean_field;

pub use k_tied::{KTiedLocalGrads, k_tied, k_tied_backward};
pub use mean_field::{MeanFieldLocalGrads, mean_field, mean_field_backward};

use rayon::prelude::*;

use crate::NoiseKey;
use crate::activation::Activation;
use crate::error::{Check, Result};
use crate::noise::for_each_normal_group;
use crate::par::CHUNK;
use crate::rows::finish;
use crate::scale::{ScaleForm, floored};
use crate::simd::vectorized;

/// Added to every variance, so that an all-zero input gives a zero gradient and not NaN.
pub const VARIANCE_FLOOR: f32 = 1e-12;

/// Standard deviations as they are stored.
#[derive(Clone, Copy, Debug)]
pub struct RawScale<'a> {
    /// One number for each.
    pub raw: &'a [f32],
    /// How it is stored.
    pub form: ScaleForm,
}

/// What a layer's noise is made of besides the scales of its weights.
#[derive(Clone, Copy, Debug)]
pub struct LocalLayer<'a> {
    /// Input, `[B, M]`.
    pub x: &'a [f32],
    /// B
    pub batch: usize,
    /// Scale of a mean-field bias, `[N]`, whose variance joins that of the weights.
    pub bias: Option<RawScale<'a>>,
    /// Its normals are those of the activations, from element `first` on.
    pub key: NoiseKey,
    /// Number of the activations that came before, in other batches of the same examples.
    pub first: usize,
    /// Applied to the noisy sums by the forward pass; the backward pass begins with the gradient of the sums.
    pub activation: Activation,
}

impl LocalLayer<'_> {
    /// σ_b² + floor for every output; the floor alone without a bias.
    fn bias_variance(&self, check: Check, num_outputs: usize) -> Result<Vec<f32>> {
        let Some(RawScale { raw, form }) = self.bias else { return Ok(vec![VARIANCE_FLOOR; num_outputs]) };
        check.len("bias.raw", raw, num_outputs)?;
        Ok(raw.iter().map(|&raw| form.scale(raw)).map(|scale| scale * scale + VARIANCE_FLOOR).collect())
    }
}

impl RawScale<'_> {
    /// dL/draw from dL/dσ².
    fn backward(self, d_raw: &mut [f32], d_variance: &[f32]) {
        for ((d, &raw), &g) in d_raw.iter_mut().zip(self.raw).zip(d_variance) {
            let scale = self.form.scale(raw);
            *d = 2.0 * g * scale * self.form.slope(raw, scale);
        }
    }
}

/// y = act(mean + sd ∘ ε): what is left of a layer's noise where mean and standard deviation are known.
///
/// # Shapes
/// - y, mean, sd: any, the same; element i uses element `first` + i of the key's normals
///
/// # Errors
/// If the lengths differ.
pub fn noisy(
    y: &mut [f32],
    mean: &[f32],
    sd: &[f32],
    (key, first): (NoiseKey, usize),
    activation: Activation,
) -> Result<()> {
    let check = Check("noisy");
    check.len("mean", mean, y.len())?;
    check.len("sd", sd, y.len())?;
    y.par_chunks_mut(CHUNK).enumerate().for_each(|(c, y)| {
        let base = first + c * CHUNK;
        for_each_normal_group(key, base..base + y.len(), |at, eps| {
            let (here, all) = (at - base..at - base + eps.len(), at - first..at - first + eps.len());
            let y = &mut y[here];
            scale_and_add(y, &mean[all.clone()], &sd[all], eps);
            finish(y, None, activation);
        });
    });
    Ok(())
}

/// The gradient of [`noisy`] with respect to the standard deviations, dz∘ε; that of the means is dz.
///
/// # Shapes
/// - d_sd, dz: any, the same
///
/// # Errors
/// If the lengths differ.
pub fn noisy_backward(d_sd: &mut [f32], dz: &[f32], (key, first): (NoiseKey, usize)) -> Result<()> {
    Check("noisy_backward").len("d_sd", d_sd, dz.len())?;
    d_sd.par_chunks_mut(CHUNK).zip(dz.par_chunks(CHUNK)).enumerate().for_each(|(c, (d_sd, dz))| {
        let base = first + c * CHUNK;
        for_each_normal_group(key, base..base + dz.len(), |at, eps| {
            let here = at - base..at - base + eps.len();
            d_sd[here.clone()].iter_mut().zip(&dz[here]).zip(eps).for_each(|((d, dz), e)| *d = dz * e);
        });
    });
    Ok(())
}

vectorized! {
    /// y = mean + sd∘ε
    fn scale_and_add(y: &mut [f32], mean: &[f32], sd: &[f32], eps: &[f32]) {
        let operands = y.iter_mut().zip(mean).zip(sd.iter().zip(eps));
        operands.for_each(|((y, mean), (sd, e))| *y = mean + sd * e);
    }

    /// y += √variance ∘ ε, and variance ← dy/dvariance = ε / (2√variance), so that the way back needs no noise.
    fn add_noise(y: &mut [f32], variance: &mut [f32], eps: &[f32]) {
        for (y, (v, e)) in y.iter_mut().zip(variance.iter_mut().zip(eps)) {
            let sd = v.sqrt();
            *y += sd * e;
            *v = e * 0.5 / floored(sd);
        }
    }

    /// out = a∘b
    fn multiply(out: &mut [f32], a: &[f32], b: &[f32]) {
        out.iter_mut().zip(a.iter().zip(b)).for_each(|(o, (a, b))| *o = a * b);
    }

    fn square(out: &mut [f32], x: &[f32]) {
        out.iter_mut().zip(x).for_each(|(o, x)| *o = x * x);
    }
}
