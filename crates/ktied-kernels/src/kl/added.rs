//! The divergence and its gradients in one pass, the gradients added to those that are there.
//!
//! A training step has gradients of the likelihood already when it comes to the divergence. Added to them where they lie, its own
//! need no memory, and σ is made once for value and gradient. Values and gradients have the bits of the functions that do one thing
//! each.

use rayon::prelude::*;

use super::{FactorGrads, MeanFieldGrads, Prior, k_tied_of, prior_precision, square_sum, sum, total};
use crate::error::{Check, Result};
use crate::noise::GROUP;
use crate::par::CHUNK;
use crate::scale::{LogFactors, ScaleForm, dot, floored};
use crate::simd::vectorized;

/// [`mean_field`](super::mean_field), and `by` times its gradients added to `grads`.
///
/// # Shapes
/// - loc, raw_scale, prior.loc and the gradients: any, the same
///
/// # Errors
/// If the lengths differ.
///
/// ```
/// use ktied_kernels::{ScaleForm, kl};
/// let (mut d_loc, mut d_raw) = ([10.0], [20.0]);
/// let grads = kl::MeanFieldGrads { loc: &mut d_loc, raw_scale: &mut d_raw };
/// let prior = kl::Prior { loc: None, scale: 1.0 };
/// let value = kl::add_mean_field(grads, &[3.0], &[0.0], ScaleForm::Log, prior, 2.0)?;
/// assert_eq!((value, d_loc, d_raw), (4.5, [16.0], [20.0])); // μ²/2, by·μ, and nothing at σ = σₚ
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn add_mean_field(
    grads: MeanFieldGrads<'_>,
    loc: &[f32],
    raw_scale: &[f32],
    form: ScaleForm,
    prior: Prior<'_>,
    by: f32,
) -> Result<f64> {
    let check = Check("kl_add_mean_field");
    check.len("raw_scale", raw_scale, loc.len())?;
    prior.loc.map_or(Ok(()), |p| check.len("prior.loc", p, loc.len()))?;
    check.len("grads.loc", grads.loc, loc.len())?;
    check.len("grads.raw_scale", grads.raw_scale, loc.len())?;
    let inverse = prior_precision(prior);
    let chunks = grads.loc.par_chunks_mut(CHUNK).zip(grads.raw_scale.par_chunks_mut(CHUNK)).enumerate();
    let sums: Vec<[f64; 3]> = chunks
        .map(|(c, (d_loc, d_raw))| {
            let groups = d_loc.chunks_mut(GROUP).zip(d_raw.chunks_mut(GROUP)).enumerate();
            groups.fold([0.0; 3], |sums, (g, (d_loc, d_raw))| {
                let first = c * CHUNK + g * GROUP;
                let here = first..first + d_loc.len();
                let squares =
                    add_loc_group(d_loc, &loc[here.clone()], prior.loc.map(|p| &p[here.clone()]), inverse, by);
                let [logs, scale_squares] = add_scale_group(d_raw, &raw_scale[here], form, inverse, by);
                plus(sums, [logs, scale_squares, f64::from(squares)])
            })
        })
        .collect();
    let [logs, scale_squares, squares] = sums.into_iter().fold([0.0; 3], plus);
    Ok(total(loc.len(), logs, scale_squares + squares, prior))
}

/// [`k_tied`](super::k_tied), and `by` times its gradients added to `d_loc` and `grads`.
///
/// # Shapes
/// - loc, prior.loc, d_loc: `[M, N]`; factors and their gradients: `[M, K]`, `[N, K]`
///
/// # Errors
/// If the lengths do not fit the factors.
pub fn add_k_tied(
    d_loc: &mut [f32],
    grads: FactorGrads<'_>,
    loc: &[f32],
    factors: LogFactors<'_>,
    prior: Prior<'_>,
    by: f32,
) -> Result<f64> {
    let check = Check("kl_add_k_tied");
    check.len("loc", loc, factors.check(check)?)?;
    prior.loc.map_or(Ok(()), |p| check.len("prior.loc", p, loc.len()))?;
    check.len("d_loc", d_loc, loc.len())?;
    check.len("grads.log_u", grads.log_u, factors.log_u.len())?;
    check.len("grads.log_v", grads.log_v, factors.log_v.len())?;
    let squares = add_loc(d_loc, loc, prior, by);
    let [mut d_u, mut d_v] = [factors.log_u, factors.log_v].map(|factor| vec![0.0; factor.len()]);
    let value = k_tied_of(factors, squares, prior, Some(FactorGrads { log_u: &mut d_u, log_v: &mut d_v }));
    for (sum, more) in [(grads.log_u, d_u), (grads.log_v, d_v)] {
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more * by);
    }
    Ok(value)
}

/// Σ (μ − μₚ)², and `by`·(μ − μₚ)/σₚ² added to `d_loc`.
fn add_loc(d_loc: &mut [f32], loc: &[f32], prior: Prior<'_>, by: f32) -> f64 {
    let inverse = prior_precision(prior);
    let sums: Vec<f64> = d_loc
        .par_chunks_mut(CHUNK)
        .enumerate()
        .map(|(c, d)| {
            let groups = d.chunks_mut(GROUP).enumerate();
            let squares = groups.map(|(g, d)| {
                let first = c * CHUNK + g * GROUP;
                let here = first..first + d.len();
                f64::from(add_loc_group(d, &loc[here.clone()], prior.loc.map(|p| &p[here]), inverse, by))
            });
            squares.sum()
        })
        .collect();
    sums.into_iter().sum()
}

fn plus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

vectorized! {
    /// Σ (μ − μₚ)² over at most one group, and its share of the gradient added to `d`.
    fn add_loc_group(d: &mut [f32], loc: &[f32], prior: Option<&[f32]>, inverse: f32, by: f32) -> f32 {
        match prior {
            None => d.iter_mut().zip(loc).for_each(|(d, m)| *d += m * inverse * by),
            Some(p) => d.iter_mut().zip(loc.iter().zip(p)).for_each(|(d, (m, p))| *d += (m - p) * inverse * by),
        }
        square_sum(loc, prior)
    }

    /// [Σ ln σ, Σ σ²] over at most one group, and its share of the gradient added to `d`.
    fn add_scale_group(d: &mut [f32], raw: &[f32], form: ScaleForm, inverse: f32, by: f32) -> [f64; 2] {
        let (mut scale, mut log) = ([0.0; GROUP], [0.0; GROUP]);
        let operands = scale.iter_mut().zip(&mut log).zip(raw.iter().zip(d));
        match form {
            ScaleForm::Log => {
                for ((s, l), (&raw, d)) in operands {
                    (*s, *l) = (ScaleForm::Log.scale(raw), raw);
                    *d += (*s * *s * inverse - 1.0) * by;
                }
            }
            ScaleForm::Softplus => {
                for ((s, l), (&raw, d)) in operands {
                    *s = ScaleForm::Softplus.scale(raw);
                    let floor = floored(*s);
                    *l = ScaleForm::Softplus.log_scale(raw, floor);
                    *d += (floor * inverse - 1.0 / floor) * ScaleForm::Softplus.slope(raw, floor) * by;
                }
            }
        }
        [f64::from(sum(&log)), f64::from(dot(&scale, &scale))]
    }
}
