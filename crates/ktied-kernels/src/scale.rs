//! How stored numbers become standard deviations: elementwise for mean field, as a product of factors for k-tied.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;

use crate::error::{Check, Result};
use crate::par::{CHUNK, LANES, sum_lanes};
use crate::rows::transposed;
use crate::simd::vectorized;
use crate::vmath;

/// How a mean-field scale is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScaleForm {
    /// σ = eʳ
    #[default]
    Log,
    /// σ = ln(1 + eʳ)
    Softplus,
}

impl ScaleForm {
    /// σ of the stored number.
    #[inline(always)]
    pub fn scale(self, raw: f32) -> f32 {
        match self {
            Self::Log => vmath::exp(raw),
            Self::Softplus => vmath::softplus(raw),
        }
    }

    /// dσ/draw, where `scale` is σ of `raw`.
    #[inline(always)]
    pub fn slope(self, raw: f32, scale: f32) -> f32 {
        match self {
            Self::Log => scale,
            Self::Softplus => vmath::sigmoid(raw),
        }
    }

    /// ln σ, where `scale` is σ of `raw`.
    #[inline(always)]
    pub(crate) fn log_scale(self, raw: f32, scale: f32) -> f32 {
        match self {
            Self::Log => raw,
            Self::Softplus => vmath::ln(scale),
        }
    }
}

impl fmt::Display for ScaleForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log => "log",
            Self::Softplus => "softplus",
        })
    }
}

impl FromStr for ScaleForm {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "log" => Ok(Self::Log),
            "softplus" => Ok(Self::Softplus),
            _ => Err(format!("a scale is stored as log or softplus, got `{text}`")),
        }
    }
}

/// The factors of a k-tied scale, stored as logarithms: σᵢⱼ = Σₐ uᵢₐ vⱼₐ.
#[derive(Clone, Copy, Debug)]
pub struct LogFactors<'a> {
    /// `[M, K]`
    pub log_u: &'a [f32],
    /// `[N, K]`
    pub log_v: &'a [f32],
    /// M, the number of rows of σ.
    pub num_rows: usize,
    /// N, the number of columns of σ.
    pub num_cols: usize,
    /// K
    pub rank: usize,
}

impl LogFactors<'_> {
    /// M·N, after checking that both factors have the lengths that the sizes say.
    pub(crate) fn check(&self, check: Check) -> Result<usize> {
        check.size("rank", self.rank, self.rank >= 1, "at least 1")?;
        check.len("log_u", self.log_u, check.product(&[self.num_rows, self.rank])?)?;
        check.len("log_v", self.log_v, check.product(&[self.num_cols, self.rank])?)?;
        check.product(&[self.num_rows, self.num_cols])
    }

    /// u as `[M, K]` and v transposed, `[K, N]`, so that a row of σ is a few sweeps along v.
    pub(crate) fn exp(&self) -> Factors {
        let mut u = self.log_u.to_vec();
        exp_in_place(&mut u);
        let mut v = transposed(self.log_v, self.num_cols, self.rank);
        exp_in_place(&mut v);
        Factors { u, v, num_cols: self.num_cols, rank: self.rank }
    }
}

/// The factors themselves.
pub(crate) struct Factors {
    /// `[M, K]`
    pub u: Vec<f32>,
    /// `[K, N]`
    pub v: Vec<f32>,
    pub num_cols: usize,
    pub rank: usize,
}

impl Factors {
    /// Row i of u.
    pub fn u_row(&self, i: usize) -> &[f32] {
        &self.u[i * self.rank..(i + 1) * self.rank]
    }

    /// Row a of v: factor a of every column.
    pub fn v_row(&self, a: usize) -> &[f32] {
        &self.v[a * self.num_cols..(a + 1) * self.num_cols]
    }
}

/// Splits the elements `[first, first + len)` of a row-major matrix into runs within one row:
/// `(row, first column, offset of the run, its length)`.
pub(crate) fn row_runs(
    first: usize,
    len: usize,
    num_cols: usize,
) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        if offset >= len || num_cols == 0 {
            return None;
        }
        let (row, col) = ((first + offset) / num_cols, (first + offset) % num_cols);
        let run = (num_cols - col).min(len - offset);
        let item = (row, col, offset, run);
        offset += run;
        Some(item)
    })
}

vectorized! {
    /// x ← eˣ
    pub(crate) fn exp_in_place(x: &mut [f32]) {
        x.iter_mut().for_each(|x| *x = vmath::exp(*x));
    }
}

/// One run of a row of σ: σⱼ = Σₐ uₐ vₐⱼ for the columns `col..col + out.len()`.
#[inline(always)]
pub(crate) fn scale_run(out: &mut [f32], u: &[f32], v: &[f32], num_cols: usize, col: usize) {
    let len = out.len();
    let run = |a: usize| &v[a * num_cols + col..][..len];
    match *u {
        [a] => out.iter_mut().zip(run(0)).for_each(|(o, v0)| *o = a * v0),
        [a, b] => out.iter_mut().zip(run(0).iter().zip(run(1))).for_each(|(o, (v0, v1))| *o = a * v0 + b * v1),
        [a, b, c] => {
            let operands = out.iter_mut().zip(run(0).iter().zip(run(1)).zip(run(2)));
            operands.for_each(|(o, ((v0, v1), v2))| *o = a * v0 + b * v1 + c * v2);
        }
        _ => {
            out.fill(0.0);
            for (a, &u) in u.iter().enumerate() {
                out.iter_mut().zip(run(a)).for_each(|(o, v)| *o += u * v);
            }
        }
    }
}

/// Backward of [`scale_run`]: for t = dL/dσⱼ, adds Σⱼ tⱼ vₐⱼ to dL/duₐ and uₐ tⱼ to dL/dvₐⱼ.
#[inline(always)]
pub(crate) fn add_run_backward(
    d_u: &mut [f32],
    d_v: &mut [f32],
    t: &[f32],
    u: &[f32],
    v: &[f32],
    num_cols: usize,
    col: usize,
) {
    let (mut u, mut d_u, mut first) = (u, d_u, 0);
    while !u.is_empty() {
        let count = u.len().min(AT_ONCE);
        let (u_here, d_u_here) = (&u[..count], &mut d_u[..count]);
        let (v, d_v) = (&v[first * num_cols..], &mut d_v[first * num_cols..]);
        match count {
            1 => add_rows_backward::<1>(d_u_here, d_v, t, u_here, v, num_cols, col),
            2 => add_rows_backward::<2>(d_u_here, d_v, t, u_here, v, num_cols, col),
            3 => add_rows_backward::<3>(d_u_here, d_v, t, u_here, v, num_cols, col),
            _ => add_rows_backward::<AT_ONCE>(d_u_here, d_v, t, u_here, v, num_cols, col),
        }
        (u, d_u, first) = (&u[count..], &mut d_u[count..], first + count);
    }
}

/// Factors that are taken at once: one sum would wait for itself.
pub(crate) const AT_ONCE: usize = 4;

/// The same for N factors.
#[inline(always)]
fn add_rows_backward<const N: usize>(
    d_u: &mut [f32],
    d_v: &mut [f32],
    t: &[f32],
    u: &[f32],
    v: &[f32],
    num_cols: usize,
    col: usize,
) {
    let (blocks, rest) = t.as_chunks::<LANES>();
    let mut lanes = [[0.0; LANES]; N];
    for (i, t) in blocks.iter().enumerate() {
        for a in 0..N {
            let here = a * num_cols + col + i * LANES;
            let (v, d_v) = (&v[here..here + LANES], &mut d_v[here..here + LANES]);
            for l in 0..LANES {
                lanes[a][l] += t[l] * v[l];
                d_v[l] += u[a] * t[l];
            }
        }
    }
    for a in 0..N {
        let here = a * num_cols + col + t.len() - rest.len();
        let (v, d_v) = (&v[here..], &mut d_v[here..]);
        for (l, t) in rest.iter().enumerate() {
            lanes[a][l] += t * v[l];
            d_v[l] += u[a] * t;
        }
        d_u[a] += sum_lanes(lanes[a]);
    }
}

/// Every element that is above `limit` becomes it; NaN stays.
pub fn at_most(x: &mut [f32], limit: f32) {
    x.par_chunks_mut(CHUNK).for_each(|x| chunk_at_most(x, limit));
}

vectorized! {
    fn chunk_at_most(x: &mut [f32], limit: f32) {
        x.iter_mut().for_each(|x| *x = if *x > limit { limit } else { *x });
    }
}

/// σ, or the smallest normal number if it is below that: what a logarithm or a quotient gets. Keeps NaN.
#[inline(always)]
pub(crate) fn floored(scale: f32) -> f32 {
    if scale < f32::MIN_POSITIVE { f32::MIN_POSITIVE } else { scale }
}

/// Σ xᵢ yᵢ, in lanes.
#[inline(always)]
pub(crate) fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    let (y_blocks, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        lanes.iter_mut().zip(x.iter().zip(y)).for_each(|(l, (x, y))| *l += x * y);
    }
    lanes.iter_mut().zip(x_rest.iter().zip(y_rest)).for_each(|(l, (x, y))| *l += x * y);
    sum_lanes(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_a_limit_becomes_it_and_nothing_else_changes() {
        let mut x = vec![-1.0; CHUNK + 3];
        (x[0], x[CHUNK], x[CHUNK + 1], x[CHUNK + 2]) = (2.0, f32::INFINITY, f32::NAN, 0.5);
        at_most(&mut x, 0.5);
        assert_eq!((x[0], x[1], x[CHUNK], x[CHUNK + 2]), (0.5, -1.0, 0.5, 0.5));
        assert!(x[CHUNK + 1].is_nan());
    }

    #[test]
    fn runs_split_a_range_at_the_ends_of_rows() {
        let runs: Vec<_> = row_runs(7, 9, 5).collect();
        assert_eq!(runs, [(1, 2, 0, 3), (2, 0, 3, 5), (3, 0, 8, 1)]);
        assert_eq!(row_runs(0, 0, 5).count() + row_runs(0, 3, 0).count(), 0);
    }

    #[test]
    fn a_run_of_sigma_is_the_product_of_the_factors_at_any_rank() {
        for rank in 1..5 {
            let u: Vec<f32> = (0..rank).map(|a| 1.0 + a as f32).collect();
            let v: Vec<f32> = (0..rank * 7).map(|i| i as f32).collect();
            let mut out = [0.0; 3];
            scale_run(&mut out, &u, &v, 7, 2);
            for (j, o) in out.iter().enumerate() {
                let expected: f32 = (0..rank).map(|a| u[a] * v[a * 7 + 2 + j]).sum();
                assert_eq!(*o, expected, "rank {rank}, column {j}");
            }
        }
    }
}
