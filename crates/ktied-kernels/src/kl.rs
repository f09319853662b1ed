//! Kullback–Leibler divergence of a Gaussian posterior from a Gaussian prior, and its gradients.
//!
//! KL(q‖p) = Σ [ ln(σₚ/σ) + (σ² + (μ − μₚ)²)/(2σₚ²) − ½ ] over all weights, in nats. The sum falls into three,
//! Σ ln σ, Σ σ² and Σ (μ − μₚ)², and each is taken in its cheapest form: for k-tied scales
//! Σ σ² = Σₐᵦ (UᵀU)ₐᵦ (VᵀV)ₐᵦ, and for k = 1 also Σ ln σ = N Σ ln u + M Σ ln v. Only Σ ln σ at k ≥ 2 visits
//! every weight, and there 16 mantissas are multiplied before one logarithm is taken.
//!
//! Sums run in single precision over 256 elements, in lanes, and in double precision beyond. A σ below 1.2e-38
//! counts as that in the logarithm.

mod added;

use rayon::prelude::*;

use crate::error::{Check, Result, ShapeError};
use crate::noise::GROUP;
use crate::par::{CHUNK, LANES, add_in_order, rows_per_part, sum_lanes};
use crate::rows::transposed;
use crate::scale::{Factors, LogFactors, ScaleForm, add_run_backward, dot, floored, scale_run};
use crate::simd::vectorized;
use crate::vmath;

pub use added::{add_k_tied, add_mean_field};

/// The prior of one tensor: a Normal with one scale for all weights, centred on zero or on given weights.
#[derive(Clone, Copy, Debug)]
pub struct Prior<'a> {
    /// μₚ; zero if absent.
    pub loc: Option<&'a [f32]>,
    /// σₚ
    pub scale: f32,
}

/// Where the gradients of a mean-field KL go.
#[derive(Debug)]
pub struct MeanFieldGrads<'a> {
    /// Same shape as the means.
    pub loc: &'a mut [f32],
    /// Same shape as the stored scales.
    pub raw_scale: &'a mut [f32],
}

/// Where the gradients of a k-tied KL with respect to the factors go.
#[derive(Debug)]
pub struct FactorGrads<'a> {
    /// `[M, K]`
    pub log_u: &'a mut [f32],
    /// `[N, K]`
    pub log_v: &'a mut [f32],
}

/// KL of a mean-field Normal, in nats.
///
/// # Shapes
/// - loc, raw_scale, prior.loc: any, the same
///
/// # Errors
/// If the lengths differ.
///
/// ```
/// use ktied_kernels::{ScaleForm, kl};
/// let prior = kl::Prior { loc: None, scale: 0.5 };
/// let same = kl::mean_field(&[0.0; 3], &[0.5f32.ln(); 3], ScaleForm::Log, prior)?;
/// assert!(same.abs() < 1e-6); // q = p
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn mean_field(loc: &[f32], raw_scale: &[f32], form: ScaleForm, prior: Prior<'_>) -> Result<f64> {
    let check = Check("kl_mean_field");
    check.len("raw_scale", raw_scale, loc.len())?;
    let squares = loc_squares(check, loc, prior)?;
    let sums: Vec<[f64; 2]> = raw_scale
        .par_chunks(CHUNK)
        .map(|chunk| {
            chunk.chunks(GROUP).map(|raw| scale_sums(raw, form)).fold([0.0; 2], |s, t| [s[0] + t[0], s[1] + t[1]])
        })
        .collect();
    let [logs, scale_squares] = sums.into_iter().fold([0.0; 2], |s, t| [s[0] + t[0], s[1] + t[1]]);
    Ok(total(loc.len(), logs, scale_squares + squares, prior))
}

/// `by` times the gradients of [`mean_field`]: dKL/dμ = (μ − μₚ)/σₚ², dKL/dσ = σ/σₚ² − 1/σ.
///
/// # Shapes
/// - as in [`mean_field`], and the gradients the same
///
/// # Errors
/// If the lengths differ.
pub fn mean_field_backward(
    grads: MeanFieldGrads<'_>,
    loc: &[f32],
    raw_scale: &[f32],
    form: ScaleForm,
    prior: Prior<'_>,
    by: f32,
) -> Result<()> {
    let check = Check("kl_mean_field_backward");
    check.len("raw_scale", raw_scale, loc.len())?;
    check.len("grads.raw_scale", grads.raw_scale, loc.len())?;
    loc_backward(grads.loc, loc, prior, by)?;
    let inverse = prior_precision(prior);
    let operands = grads.raw_scale.par_chunks_mut(CHUNK).zip(raw_scale.par_chunks(CHUNK));
    operands.for_each(|(d, raw)| raw_scale_grad(d, raw, form, inverse, by));
    Ok(())
}

/// `by`·(μ − μₚ)/σₚ², the gradient of either KL with respect to the means.
///
/// # Shapes
/// - d_loc, loc, prior.loc: any, the same
///
/// # Errors
/// If the lengths differ.
pub fn loc_backward(d_loc: &mut [f32], loc: &[f32], prior: Prior<'_>, by: f32) -> Result<()> {
    let check = Check("kl_loc_backward");
    prior.loc.map_or(Ok(()), |p| check.len("prior.loc", p, loc.len()))?;
    check.len("d_loc", d_loc, loc.len())?;
    let inverse = prior_precision(prior);
    d_loc.par_chunks_mut(CHUNK).enumerate().for_each(|(c, d)| {
        let here = c * CHUNK..c * CHUNK + d.len();
        loc_grad(d, &loc[here.clone()], prior.loc.map(|p| &p[here]), inverse, by);
    });
    Ok(())
}

/// KL of a k-tied Normal, in nats; gradients with respect to the factors too, if asked for: they come from the same pass
/// over σ. That with respect to the means is [`loc_backward`].
///
/// # Shapes
/// - loc, prior.loc: `[M, N]`; factors and their gradients: `[M, K]`, `[N, K]`
///
/// # Errors
/// If the lengths do not fit the factors.
pub fn k_tied(loc: &[f32], factors: LogFactors<'_>, prior: Prior<'_>, grads: Option<FactorGrads<'_>>) -> Result<f64> {
    let check = Check("kl_k_tied");
    check.len("loc", loc, factors.check(check)?)?;
    if let Some(g) = &grads {
        check.len("grads.log_u", g.log_u, factors.log_u.len())?;
        check.len("grads.log_v", g.log_v, factors.log_v.len())?;
    }
    let squares = loc_squares(check, loc, prior)?;
    Ok(k_tied_of(factors, squares, prior, grads))
}

/// [`k_tied`], given Σ (μ − μₚ)².
fn k_tied_of(factors: LogFactors<'_>, squares: f64, prior: Prior<'_>, grads: Option<FactorGrads<'_>>) -> f64 {
    let f = factors.exp();
    let (gram_u, gram_v) = (gram_of_rows(&f), gram_of_cols(&f));
    let scale_squares: f64 = gram_u.iter().zip(&gram_v).map(|(u, v)| u * v).sum();
    let logs = match grads {
        None => log_sum(&factors, &f),
        Some(FactorGrads { log_u, log_v }) => {
            let logs = log_sum_with_grads(&factors, &f, log_u, log_v);
            let inverse = f64::from(prior_precision(prior));
            add_square_grads(log_u, &f.u, &gram_v, f.rank, inverse);
            add_square_grads(log_v, &transposed(&f.v, f.rank, f.num_cols), &gram_u, f.rank, inverse);
            logs
        }
    };
    total(factors.num_rows * factors.num_cols, logs, scale_squares + squares, prior)
}

/// KL from its sums: `logs` = Σ ln σ, `squares` = Σ σ² + Σ (μ − μₚ)².
fn total(len: usize, logs: f64, squares: f64, prior: Prior<'_>) -> f64 {
    let scale = f64::from(prior.scale);
    len as f64 * (scale.ln() - 0.5) - logs + squares / (2.0 * scale * scale)
}

fn prior_precision(prior: Prior<'_>) -> f32 {
    let scale = f64::from(prior.scale);
    (1.0 / (scale * scale)) as f32
}

/// Σ (μ − μₚ)²
fn loc_squares(check: Check, loc: &[f32], prior: Prior<'_>) -> Result<f64, ShapeError> {
    prior.loc.map_or(Ok(()), |p| check.len("prior.loc", p, loc.len()))?;
    let sums: Vec<f64> = crate::par::map_chunks(loc.len(), CHUNK, |chunk| {
        let groups = chunk.clone().step_by(GROUP).map(|first| first..chunk.end.min(first + GROUP));
        groups.map(|g| f64::from(square_sum(&loc[g.clone()], prior.loc.map(|p| &p[g])))).sum()
    });
    Ok(sums.into_iter().sum())
}

/// UᵀU, `[K, K]`, in double precision: cheap, and the difference of large sums is what matters.
fn gram_of_rows(f: &Factors) -> Vec<f64> {
    let mut gram = vec![0.0; f.rank * f.rank];
    for row in f.u.chunks_exact(f.rank) {
        for (a, &x) in row.iter().enumerate() {
            for (b, &y) in row.iter().enumerate() {
                gram[a * f.rank + b] += f64::from(x) * f64::from(y);
            }
        }
    }
    gram
}

/// VᵀV, `[K, K]`.
fn gram_of_cols(f: &Factors) -> Vec<f64> {
    let inner = |a, b| f.v_row(a).iter().zip(f.v_row(b)).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
    (0..f.rank * f.rank).map(|i| inner(i / f.rank, i % f.rank)).collect()
}

/// Adds the gradient of Σσ²/(2σₚ²): for one factor x and the other's Gram matrix G, xₐ Σᵦ xᵦ Gₐᵦ/σₚ².
fn add_square_grads(d_log: &mut [f32], x: &[f32], gram: &[f64], rank: usize, inverse: f64) {
    for (d, x) in d_log.chunks_exact_mut(rank).zip(x.chunks_exact(rank)) {
        for (a, d) in d.iter_mut().enumerate() {
            let inner: f64 = x.iter().zip(&gram[a * rank..]).map(|(&x, g)| f64::from(x) * g).sum();
            *d += (f64::from(x[a]) * inner * inverse) as f32;
        }
    }
}

/// Σ ln σ for k = 1: N Σ ln u + M Σ ln v.
fn rank_one_log_sum(factors: &LogFactors<'_>) -> f64 {
    let sum = |x: &[f32]| x.iter().map(|&x| f64::from(x)).sum::<f64>();
    factors.num_cols as f64 * sum(factors.log_u) + factors.num_rows as f64 * sum(factors.log_v)
}

/// Σ ln σ.
fn log_sum(factors: &LogFactors<'_>, f: &Factors) -> f64 {
    if f.rank == 1 {
        return rank_one_log_sum(factors);
    }
    let rows = rows_per_part(factors.num_rows, f.num_cols);
    let sums: Vec<f64> = crate::par::map_chunks(factors.num_rows, rows, |chunk| {
        chunk
            .map(|i| (0..f.num_cols).step_by(GROUP).map(|col| log_run(f.u_row(i), &f.v, f.num_cols, col)).sum::<f64>())
            .sum()
    });
    sums.into_iter().sum()
}

/// Σ ln σ, and −d(Σ ln σ) with respect to the logarithms of the factors, overwriting both gradients.
fn log_sum_with_grads(factors: &LogFactors<'_>, f: &Factors, d_log_u: &mut [f32], d_log_v: &mut [f32]) -> f64 {
    let (m, n, k) = (factors.num_rows, f.num_cols, f.rank);
    if k == 1 {
        d_log_u.fill(-(n as f32));
        d_log_v.fill(-(m as f32));
        return rank_one_log_sum(factors);
    }
    d_log_u.fill(0.0);
    let rows = rows_per_part(m, n);
    let parts: Vec<(f64, Vec<f32>)> = d_log_u
        .par_chunks_mut(rows * k)
        .enumerate()
        .map(|(c, d_u)| {
            let (mut logs, mut d_v) = (0.0, vec![0.0; k * n]);
            for (i, d_u) in d_u.chunks_exact_mut(k).enumerate() {
                let u = f.u_row(c * rows + i);
                logs +=
                    (0..n).step_by(GROUP).map(|col| log_run_with_grads(d_u, &mut d_v, u, &f.v, n, col)).sum::<f64>();
                d_u.iter_mut().zip(u).for_each(|(d, u)| *d *= -u);
            }
            (logs, d_v)
        })
        .collect();
    let (logs, parts): (Vec<f64>, Vec<Vec<f32>>) = parts.into_iter().unzip();
    let mut d_v = vec![0.0; k * n];
    add_in_order(&mut d_v, &parts);
    d_v.iter_mut().zip(&f.v).for_each(|(d, v)| *d *= -v);
    d_log_v.copy_from_slice(&transposed(&d_v, k, n));
    logs.into_iter().sum()
}

vectorized! {
    fn raw_scale_grad(d: &mut [f32], raw: &[f32], form: ScaleForm, inverse: f32, by: f32) {
        let operands = d.iter_mut().zip(raw);
        match form {
            ScaleForm::Log => {
                for (d, &raw) in operands {
                    let scale = ScaleForm::Log.scale(raw);
                    *d = (scale * scale * inverse - 1.0) * by;
                }
            }
            ScaleForm::Softplus => {
                for (d, &raw) in operands {
                    let scale = floored(ScaleForm::Softplus.scale(raw));
                    *d = (scale * inverse - 1.0 / scale) * ScaleForm::Softplus.slope(raw, scale) * by;
                }
            }
        }
    }

    fn loc_grad(d: &mut [f32], loc: &[f32], prior: Option<&[f32]>, inverse: f32, by: f32) {
        match prior {
            None => d.iter_mut().zip(loc).for_each(|(d, m)| *d = m * inverse * by),
            Some(p) => d.iter_mut().zip(loc.iter().zip(p)).for_each(|(d, (m, p))| *d = (m - p) * inverse * by),
        }
    }

    /// [Σ ln σ, Σ σ²] over at most one group.
    fn scale_sums(raw: &[f32], form: ScaleForm) -> [f64; 2] {
        let (mut scale, mut log) = ([0.0; GROUP], [0.0; GROUP]);
        let operands = scale.iter_mut().zip(&mut log).zip(raw);
        match form {
            ScaleForm::Log => {
                for ((s, l), &raw) in operands {
                    (*s, *l) = (ScaleForm::Log.scale(raw), raw);
                }
            }
            ScaleForm::Softplus => {
                for ((s, l), &raw) in operands {
                    *s = ScaleForm::Softplus.scale(raw);
                    *l = ScaleForm::Softplus.log_scale(raw, floored(*s));
                }
            }
        }
        [f64::from(sum(&log)), f64::from(dot(&scale, &scale))]
    }

    fn square_sum(loc: &[f32], prior: Option<&[f32]>) -> f32 {
        let Some(prior) = prior else { return dot(loc, loc) };
        let mut d = [0.0; GROUP];
        d.iter_mut().zip(loc.iter().zip(prior)).for_each(|(d, (m, p))| *d = m - p);
        dot(&d, &d)
    }

    /// Σⱼ ln σⱼ over the columns from `col` to the end of its group.
    fn log_run(u: &[f32], v: &[f32], n: usize, col: usize) -> f64 {
        let mut scale = [1.0; GROUP];
        let len = GROUP.min(n - col);
        scale_run(&mut scale[..len], u, v, n, col);
        sum_of_logs(&scale)
    }

    /// [`log_run`], adding Σⱼ vⱼₐ/σⱼ to `d_u` and uₐ/σⱼ to `d_v`.
    fn log_run_with_grads(d_u: &mut [f32], d_v: &mut [f32], u: &[f32], v: &[f32], n: usize, col: usize) -> f64 {
        let (mut scale, mut inverse) = ([1.0; GROUP], [0.0; GROUP]);
        let len = GROUP.min(n - col);
        scale_run(&mut scale[..len], u, v, n, col);
        inverse[..len].iter_mut().zip(&scale).for_each(|(i, s)| *i = 1.0 / floored(*s));
        add_run_backward(d_u, d_v, &inverse[..len], u, v, n, col);
        sum_of_logs(&scale)
    }
}

/// Σ ln x over one group of positive numbers: exponents added, mantissas multiplied, one logarithm a lane.
#[inline(always)]
fn sum_of_logs(x: &[f32; GROUP]) -> f64 {
    let (mut exponents, mut mantissas) = ([0.0; LANES], [1.0; LANES]);
    for block in x.as_chunks::<LANES>().0 {
        for ((e, m), x) in exponents.iter_mut().zip(&mut mantissas).zip(block) {
            let (exponent, mantissa) = vmath::split(floored(*x));
            *e += exponent;
            *m *= mantissa; // 16 factors in [√½, √2): never beyond 2^±8
        }
    }
    mantissas.iter_mut().for_each(|m| *m = vmath::ln(*m));
    f64::from(sum_lanes(exponents)) * std::f64::consts::LN_2 + f64::from(sum_lanes(mantissas))
}

/// Σ xᵢ, in lanes.
#[inline(always)]
fn sum(x: &[f32; GROUP]) -> f32 {
    let mut lanes = [0.0; LANES];
    for block in x.as_chunks::<LANES>().0 {
        lanes.iter_mut().zip(block).for_each(|(l, x)| *l += x);
    }
    sum_lanes(lanes)
}
