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

use crate::NoiseKey;
use crate::activation::Activation;
use crate::error::{Check, Result};
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
    /// Element i of the activations uses element i of its normals.
    pub key: NoiseKey,
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

vectorized! {
    /// y += √variance ∘ ε
    fn add_noise(y: &mut [f32], variance: &[f32], eps: &[f32]) {
        y.iter_mut().zip(variance.iter().zip(eps)).for_each(|(y, (v, e))| *y += v.sqrt() * e);
    }

    /// variance ← dL/dvariance = dy∘ε / (2√variance)
    fn variance_grad(variance: &mut [f32], d_y: &[f32], eps: &[f32]) {
        let operands = variance.iter_mut().zip(d_y.iter().zip(eps));
        operands.for_each(|(v, (d, e))| *v = d * e * 0.5 / floored(v.sqrt()));
    }

    fn add(out: &mut [f32], x: &[f32]) {
        out.iter_mut().zip(x).for_each(|(o, x)| *o += x);
    }

    fn square(out: &mut [f32], x: &[f32]) {
        out.iter_mut().zip(x).for_each(|(o, x)| *o = x * x);
    }
}
