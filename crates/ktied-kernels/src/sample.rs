//! Draws of weights, W = μ + σ∘ε, and their backward passes; neither σ nor ε is ever stored.
//!
//! Element i of W uses element i of the key's stream of normals. Leaving `loc` out gives the perturbation σ∘ε
//! alone, which is Flipout's ΔW. The gradient with respect to μ is the gradient of W itself, so no kernel is
//! needed for it.

use rayon::prelude::*;

use crate::NoiseKey;
use crate::error::{Check, Result};
use crate::noise::{GROUP, for_each_normal_group};
use crate::par::{CHUNK, add_in_order, rows_per_part};
use crate::rows::transposed;
use crate::scale::{LogFactors, ScaleForm, add_run_backward, row_runs, scale_run};
use crate::simd::vectorized;

/// Draws from a mean-field Normal: Wᵢ = μᵢ + σ(rᵢ) εᵢ.
///
/// # Shapes
/// - out, loc, raw_scale: any, the same
///
/// # Errors
/// If the lengths differ.
pub fn mean_field(
    out: &mut [f32],
    loc: Option<&[f32]>,
    raw_scale: &[f32],
    form: ScaleForm,
    key: NoiseKey,
) -> Result<()> {
    let check = Check("mean_field");
    check.len("raw_scale", raw_scale, out.len())?;
    loc.map_or(Ok(()), |loc| check.len("loc", loc, out.len()))?;
    out.par_chunks_mut(CHUNK).zip(raw_scale.par_chunks(CHUNK)).enumerate().for_each(|(c, (out, raw))| {
        let base = c * CHUNK;
        for_each_normal_group(key, base..base + out.len(), |first, eps| {
            let here = first - base..first - base + eps.len();
            perturb(&mut out[here.clone()], &raw[here], eps, form);
            if let Some(loc) = loc {
                add(&mut out[first - base..][..eps.len()], &loc[first..first + eps.len()]);
            }
        });
    });
    Ok(())
}

/// Gradient of [`mean_field`] with respect to the stored scale: dLᵢ/drᵢ = (dL/dWᵢ) εᵢ σ'(rᵢ).
///
/// # Shapes
/// - d_raw_scale, d_out, raw_scale: as in the draw
///
/// # Errors
/// If the lengths differ.
pub fn mean_field_backward(
    d_raw_scale: &mut [f32],
    d_out: &[f32],
    raw_scale: &[f32],
    form: ScaleForm,
    key: NoiseKey,
) -> Result<()> {
    let check = Check("mean_field_backward");
    check.len("d_out", d_out, d_raw_scale.len())?;
    check.len("raw_scale", raw_scale, d_raw_scale.len())?;
    let operands = d_out.par_chunks(CHUNK).zip(raw_scale.par_chunks(CHUNK));
    d_raw_scale.par_chunks_mut(CHUNK).zip(operands).enumerate().for_each(|(c, (d_raw, (d_out, raw)))| {
        let base = c * CHUNK;
        for_each_normal_group(key, base..base + d_raw.len(), |first, eps| {
            let here = first - base..first - base + eps.len();
            perturb_backward(&mut d_raw[here.clone()], &d_out[here.clone()], &raw[here], eps, form);
        });
    });
    Ok(())
}

/// Draws from a k-tied Normal: Wᵢⱼ = μᵢⱼ + (Σₐ uᵢₐ vⱼₐ) εᵢⱼ.
///
/// # Shapes
/// - out, loc: `[M, N]`
///
/// # Errors
/// If the lengths do not fit the factors.
pub fn k_tied(out: &mut [f32], loc: Option<&[f32]>, factors: LogFactors<'_>, key: NoiseKey) -> Result<()> {
    let check = Check("k_tied");
    check.len("out", out, factors.check(check)?)?;
    loc.map_or(Ok(()), |loc| check.len("loc", loc, out.len()))?;
    let (f, n) = (factors.exp(), factors.num_cols);
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(c, out)| {
        let base = c * CHUNK;
        for_each_normal_group(key, base..base + out.len(), |first, eps| {
            let out = &mut out[first - base..][..eps.len()];
            k_tied_group(out, first, eps, &f.u, &f.v, n, f.rank);
            if let Some(loc) = loc {
                add(out, &loc[first..first + eps.len()]);
            }
        });
    });
    Ok(())
}

/// Gradients of [`k_tied`]: with tᵢⱼ = (dL/dWᵢⱼ) εᵢⱼ, dL/d ln uᵢₐ = uᵢₐ Σⱼ tᵢⱼ vⱼₐ and
/// dL/d ln vⱼₐ = vⱼₐ Σᵢ tᵢⱼ uᵢₐ.
///
/// # Shapes
/// - d_log_u: `[M, K]`, d_log_v: `[N, K]`, d_out: `[M, N]`
///
/// # Errors
/// If the lengths do not fit the factors.
pub fn k_tied_backward(
    d_log_u: &mut [f32],
    d_log_v: &mut [f32],
    d_out: &[f32],
    factors: LogFactors<'_>,
    key: NoiseKey,
) -> Result<()> {
    let check = Check("k_tied_backward");
    check.len("d_out", d_out, factors.check(check)?)?;
    check.len("d_log_u", d_log_u, factors.log_u.len())?;
    check.len("d_log_v", d_log_v, factors.log_v.len())?;
    let (f, n, k) = (factors.exp(), factors.num_cols, factors.rank);
    let rows = rows_per_part(factors.num_rows, n);
    d_log_u.fill(0.0);
    let parts: Vec<Vec<f32>> = d_log_u
        .par_chunks_mut(rows * k)
        .enumerate()
        .map(|(c, d_u)| {
            let (base, count) = (c * rows * n, d_u.len() / k * n);
            let mut d_v = vec![0.0; k * n];
            for_each_normal_group(key, base..base + count, |first, eps| {
                let d_out = &d_out[first..first + eps.len()];
                k_tied_group_backward(d_u, &mut d_v, first, c * rows, d_out, eps, &f.u, &f.v, n, k);
            });
            d_u.iter_mut().zip(&f.u[c * rows * k..]).for_each(|(d, u)| *d *= u);
            d_v
        })
        .collect();
    let mut d_v = vec![0.0; k * n];
    add_in_order(&mut d_v, &parts);
    d_v.iter_mut().zip(&f.v).for_each(|(d, v)| *d *= v);
    d_log_v.copy_from_slice(&transposed(&d_v, k, n));
    Ok(())
}

vectorized! {
    /// out = σ(raw)∘ε
    fn perturb(out: &mut [f32], raw: &[f32], eps: &[f32], form: ScaleForm) {
        let operands = out.iter_mut().zip(raw).zip(eps);
        match form {
            ScaleForm::Log => {
                for ((o, r), e) in operands {
                    *o = ScaleForm::Log.scale(*r) * e;
                }
            }
            ScaleForm::Softplus => {
                for ((o, r), e) in operands {
                    *o = ScaleForm::Softplus.scale(*r) * e;
                }
            }
        }
    }

    fn perturb_backward(d_raw: &mut [f32], d_out: &[f32], raw: &[f32], eps: &[f32], form: ScaleForm) {
        let operands = d_raw.iter_mut().zip(d_out).zip(raw.iter().zip(eps));
        match form {
            ScaleForm::Log => {
                for ((d, g), (r, e)) in operands {
                    *d = g * e * ScaleForm::Log.scale(*r);
                }
            }
            ScaleForm::Softplus => {
                for ((d, g), (r, e)) in operands {
                    // The slope of softplus is the logistic function and needs no σ.
                    *d = g * e * ScaleForm::Softplus.slope(*r, 0.0);
                }
            }
        }
    }

    fn add(out: &mut [f32], x: &[f32]) {
        out.iter_mut().zip(x).for_each(|(o, x)| *o += x);
    }

    fn k_tied_group(out: &mut [f32], first: usize, eps: &[f32], u: &[f32], v: &[f32], n: usize, k: usize) {
        for (row, col, offset, len) in row_runs(first, eps.len(), n) {
            scale_run(&mut out[offset..offset + len], &u[row * k..(row + 1) * k], v, n, col);
        }
        out.iter_mut().zip(eps).for_each(|(o, e)| *o *= e);
    }

    /// Adds one group's share to Σⱼ t v (rows from `first_row` on) and Σᵢ t u.
    fn k_tied_group_backward(
        d_u: &mut [f32],
        d_v: &mut [f32],
        first: usize,
        first_row: usize,
        d_out: &[f32],
        eps: &[f32],
        u: &[f32],
        v: &[f32],
        n: usize,
        k: usize,
    ) {
        let mut t = [0.0; GROUP];
        t.iter_mut().zip(d_out.iter().zip(eps)).for_each(|(t, (d, e))| *t = d * e);
        for (row, col, offset, len) in row_runs(first, eps.len(), n) {
            let d_u = &mut d_u[(row - first_row) * k..][..k];
            add_run_backward(d_u, d_v, &t[offset..offset + len], &u[row * k..][..k], v, n, col);
        }
    }
}
