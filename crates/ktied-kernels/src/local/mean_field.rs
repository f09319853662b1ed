//! Local reparameterisation under a mean-field posterior: a second dense product, x²σ².

use rayon::prelude::*;

use super::{LocalLayer, RawScale, add_noise, multiply, square};
use crate::activation::Activation;
use crate::error::{Check, Result};
use crate::gemm::{Mat, Threads, Update, product};
use crate::noise::for_each_normal_group;
use crate::par::CHUNK;
use crate::rows::{column_sums, finish, finish_all};
use crate::scale::ScaleForm;
use crate::scratch::with_scratch;
use crate::simd::vectorized;

/// Adds the noise of a mean-field dense layer to its mean activations: y ← act(y + √(x²σ² + σ_b² + 1e-12) ∘ ε).
///
/// `tape` receives the slopes of the sums by their variances, ε/(2√var), which are all that the backward pass needs of the noise.
///
/// # Shapes
/// - y, tape: `[B, N]`, y holding the means; scale: `[M, N]`
///
/// # Errors
/// If the lengths do not fit: `batch` and the lengths of x and y give M and N.
pub fn mean_field(y: &mut [f32], tape: &mut [f32], layer: LocalLayer<'_>, scale: RawScale<'_>) -> Result<()> {
    let check = Check("local_mean_field");
    let LocalLayer { x, batch, key, first, activation, .. } = layer;
    let (m, n) = sizes(check, batch, x, y, scale.raw)?;
    check.len("tape", tape, y.len())?;
    let bias = layer.bias_variance(check, n)?;
    let (x_squares, variances) = (squares(x), scale_squares(scale));
    product(tape, Mat::new(&x_squares, batch, m)?, Mat::new(&variances, m, n)?, Update::Overwrite, Threads::All)?;
    finish_all(tape, Some(&bias), Activation::Identity);
    y.par_chunks_mut(CHUNK).zip(tape.par_chunks_mut(CHUNK)).enumerate().for_each(|(c, (y, variance))| {
        let base = first + c * CHUNK;
        for_each_normal_group(key, base..base + y.len(), |at, eps| {
            let here = at - base..at - base + eps.len();
            add_noise(&mut y[here.clone()], &mut variance[here.clone()], eps);
            finish(&mut y[here], None, activation);
        });
    });
    Ok(())
}

/// Where the gradients of [`mean_field`] go. The gradient of the means is that of the sums itself.
#[derive(Debug)]
pub struct MeanFieldLocalGrads<'a> {
    /// `[B, M]`, if it is wanted: what comes through the variance is added to what comes through the means.
    pub x: Option<&'a mut [f32]>,
    /// `[M, N]`
    pub raw_scale: &'a mut [f32],
    /// `[N]`, if there is a bias.
    pub bias_raw: Option<&'a mut [f32]>,
}

/// Gradients of [`mean_field`]. With dz the gradient of the sums and G = dz∘ε/(2√var): dσ² = (x²)ᵀG, dx = 2x∘(G(σ²)ᵀ).
///
/// # Shapes
/// - dz, tape: `[B, N]`, tape as the forward pass left it; scale: `[M, N]`
///
/// # Errors
/// If the lengths do not fit.
pub fn mean_field_backward(
    grads: MeanFieldLocalGrads<'_>,
    dz: &[f32],
    tape: &[f32],
    layer: LocalLayer<'_>,
    scale: RawScale<'_>,
) -> Result<()> {
    let check = Check("local_mean_field_backward");
    let LocalLayer { x, batch, .. } = layer;
    let (m, n) = sizes(check, batch, x, dz, scale.raw)?;
    check.len("tape", tape, dz.len())?;
    grads.x.as_ref().map_or(Ok(()), |d_x| check.len("grads.x", d_x, x.len()))?;
    check.len("grads.raw_scale", grads.raw_scale, scale.raw.len())?;
    let grad = variance_grads(tape, dz);
    let grad_rows = Mat::new(&grad, batch, n)?;
    let (x_squares, variances) = (squares(x), scale_squares(scale));
    product(grads.raw_scale, Mat::new(&x_squares, batch, m)?.t(), grad_rows, Update::Overwrite, Threads::All)?;
    let operands = grads.raw_scale.par_chunks_mut(CHUNK).zip(scale.raw.par_chunks(CHUNK));
    operands.for_each(|(d, raw)| times_variance_slope(d, raw, scale.form));
    if let Some(d_x) = grads.x {
        with_scratch(x.len(), |slope| -> Result<()> {
            product(slope, grad_rows, Mat::new(&variances, m, n)?.t(), Update::Overwrite, Threads::All)?;
            let operands = d_x.par_chunks_mut(CHUNK).zip(slope.par_chunks(CHUNK).zip(x.par_chunks(CHUNK)));
            operands.for_each(|(d, (slope, x))| add_twice(d, slope, x));
            Ok(())
        })?;
    }
    if let (Some(d_raw), Some(bias)) = (grads.bias_raw, layer.bias) {
        check.len("bias.raw", bias.raw, n)?;
        check.len("grads.bias_raw", d_raw, n)?;
        let mut d_variance = vec![0.0; n];
        column_sums(&mut d_variance, &grad);
        bias.backward(d_raw, &d_variance);
    }
    Ok(())
}

/// (M, N) from the lengths of x `[B, M]` and y `[B, N]`.
fn sizes(check: Check, batch: usize, x: &[f32], y: &[f32], raw_scale: &[f32]) -> Result<(usize, usize)> {
    check.size("batch", batch, batch > 0, "at least 1")?;
    check.size("length of x", x.len(), x.len().is_multiple_of(batch), "a multiple of the batch")?;
    check.size("length of y", y.len(), y.len().is_multiple_of(batch), "a multiple of the batch")?;
    let (m, n) = (x.len() / batch, y.len() / batch);
    check.len("raw_scale", raw_scale, check.product(&[m, n])?)?;
    Ok((m, n))
}

fn squares(x: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    out.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(out, x)| square(out, x));
    out
}

fn scale_squares(scale: RawScale<'_>) -> Vec<f32> {
    let mut out = vec![0.0; scale.raw.len()];
    out.par_chunks_mut(CHUNK).zip(scale.raw.par_chunks(CHUNK)).for_each(|(out, raw)| variance(out, raw, scale.form));
    out
}

/// G = dL/dvariance, `[B, N]`.
fn variance_grads(slopes: &[f32], dz: &[f32]) -> Vec<f32> {
    let mut grad = vec![0.0; dz.len()];
    let operands = slopes.par_chunks(CHUNK).zip(dz.par_chunks(CHUNK));
    grad.par_chunks_mut(CHUNK).zip(operands).for_each(|(grad, (slopes, dz))| multiply(grad, dz, slopes));
    grad
}

vectorized! {
    /// out = σ(raw)²
    fn variance(out: &mut [f32], raw: &[f32], form: ScaleForm) {
        let operands = out.iter_mut().zip(raw);
        match form {
            ScaleForm::Log => {
                for (o, &raw) in operands {
                    *o = ScaleForm::Log.scale(2.0 * raw);
                }
            }
            ScaleForm::Softplus => {
                for (o, &raw) in operands {
                    let scale = ScaleForm::Softplus.scale(raw);
                    *o = scale * scale;
                }
            }
        }
    }

    /// d ← d·dσ²/draw
    fn times_variance_slope(d: &mut [f32], raw: &[f32], form: ScaleForm) {
        let operands = d.iter_mut().zip(raw);
        match form {
            ScaleForm::Log => {
                for (d, &raw) in operands {
                    *d *= 2.0 * ScaleForm::Log.scale(2.0 * raw);
                }
            }
            ScaleForm::Softplus => {
                for (d, &raw) in operands {
                    *d *= 2.0 * ScaleForm::Softplus.scale(raw) * ScaleForm::Softplus.slope(raw, 0.0);
                }
            }
        }
    }

    /// d += 2x∘slope
    fn add_twice(d: &mut [f32], slope: &[f32], x: &[f32]) {
        d.iter_mut().zip(slope.iter().zip(x)).for_each(|(d, (s, x))| *d += s * (2.0 * x));
    }
}
