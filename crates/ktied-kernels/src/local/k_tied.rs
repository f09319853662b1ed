//! Local reparameterisation under a k-tied posterior, through the low-rank identity of the variance.

use rayon::prelude::*;

use super::{LocalLayer, add_noise};
use crate::error::{Check, Result};
use crate::noise::{GROUP, for_each_normal_group};
use crate::par::{LANES, add_in_order, rows_per_chunk, sum_lanes};
use crate::rows::finish;
use crate::scale::{AT_ONCE, Factors, LogFactors, add_run_backward, row_runs, scale_run};
use crate::simd::vectorized;

/// P and Q of σ² = P Qᵀ, both transposed so that one pair of factors is one run of memory.
struct Pairs {
    /// (a, b) with a ≤ b, R of them.
    pairs: Vec<(usize, usize)>,
    /// `[R, M]`: c·uₐuᵦ with c = 2 where a < b.
    p: Vec<f32>,
    /// `[R, N]`: vₐvᵦ
    q: Vec<f32>,
    num_rows: usize,
    num_cols: usize,
}

impl Pairs {
    fn new(f: &Factors, num_rows: usize) -> Self {
        let pairs: Vec<_> = (0..f.rank).flat_map(|a| (a..f.rank).map(move |b| (a, b))).collect();
        let double = |a, b| if a < b { 2.0 } else { 1.0 };
        let p = pairs.iter().flat_map(|&(a, b)| f.u.chunks_exact(f.rank).map(move |u| double(a, b) * u[a] * u[b]));
        let q = pairs.iter().flat_map(|&(a, b)| f.v_row(a).iter().zip(f.v_row(b)).map(|(x, y)| x * y));
        Self { p: p.collect(), q: q.collect(), num_rows, num_cols: f.num_cols, pairs }
    }

    fn count(&self) -> usize {
        self.pairs.len()
    }

    /// dL/d ln of one factor, `[len, K]`, from dL/d of its products, `[R, len]`: the product of pair (a, b) is
    /// proportional to both members, so what it gets goes to each.
    fn backward(&self, d_log: &mut [f32], products: &[f32], d_products: &[f32], len: usize, rank: usize) {
        d_log.fill(0.0);
        for (r, &(a, b)) in self.pairs.iter().enumerate() {
            for i in 0..len {
                let share = products[r * len + i] * d_products[r * len + i];
                d_log[i * rank + a] += share;
                d_log[i * rank + b] += share;
            }
        }
    }
}

/// Adds the noise of a k-tied dense layer to its mean activations: y ← act(y + √((x²P)Qᵀ + σ_b² + 1e-12) ∘ ε).
///
/// `tape` receives x²P and the slopes of the sums by their variances, ε/(2√var): all that the backward pass needs besides the inputs.
///
/// # Shapes
/// - y: `[B, N]`, holding the means; tape: `[B, R]`, then `[B, N]`
///
/// # Errors
/// If the lengths do not fit the factors.
pub fn k_tied(y: &mut [f32], tape: &mut [f32], layer: LocalLayer<'_>, factors: LogFactors<'_>) -> Result<()> {
    let check = Check("local_k_tied");
    let LocalLayer { x, batch, key, first, activation, .. } = layer;
    let (m, n, r) = (factors.num_rows, factors.num_cols, num_pairs(check, factors, batch)?);
    check.len("y", y, batch * n)?;
    check.len("x", x, batch * m)?;
    check.len("tape", tape, batch * (r + n))?;
    let bias = layer.bias_variance(check, n)?;
    let pairs = Pairs::new(&factors.exp(), m);
    let (projected, slopes) = tape.split_at_mut(batch * r);
    let rows = rows_per_chunk(m.max(n));
    let chunk = (rows * n).max(1);
    let outputs = y.par_chunks_mut(chunk).zip(slopes.par_chunks_mut(chunk));
    projected.par_chunks_mut(rows * r).zip(outputs).enumerate().for_each(|(c, (projected, (y, slopes)))| {
        project_squares(projected, &x[c * rows * m..][..projected.len() / r * m], &pairs.p, r);
        let base = first + c * chunk;
        for_each_normal_group(key, base..base + y.len(), |at, eps| {
            let here = at - base..at - base + eps.len();
            let variance = &mut slopes[here.clone()];
            variance_group(variance, here.start, projected, &pairs.q, &bias, n, r);
            add_noise(&mut y[here.clone()], variance, eps);
            finish(&mut y[here], None, activation);
        });
    });
    Ok(())
}

/// Where the gradients of [`k_tied`] go. The gradient of the means is that of the sums itself.
#[derive(Debug)]
pub struct KTiedLocalGrads<'a> {
    /// `[B, M]`, if it is wanted: what comes through the variance is added to what comes through the means.
    pub x: Option<&'a mut [f32]>,
    /// `[M, K]`
    pub log_u: &'a mut [f32],
    /// `[N, K]`
    pub log_v: &'a mut [f32],
    /// `[N]`, if there is a bias.
    pub bias_raw: Option<&'a mut [f32]>,
}

/// Gradients of [`k_tied`]. With dz the gradient of the sums and G = dz∘ε/(2√var): dQ = Gᵀ(x²P), d(x²P) = GQ, dx = 2x∘(d(x²P)Pᵀ), dP = (x²)ᵀd(x²P).
///
/// # Shapes
/// - dz: `[B, N]`; tape: as the forward pass left it
///
/// # Errors
/// If the lengths do not fit the factors.
pub fn k_tied_backward(
    grads: KTiedLocalGrads<'_>,
    dz: &[f32],
    tape: &[f32],
    layer: LocalLayer<'_>,
    factors: LogFactors<'_>,
) -> Result<()> {
    let check = Check("local_k_tied_backward");
    let LocalLayer { x, batch, .. } = layer;
    let (m, n, r) = (factors.num_rows, factors.num_cols, num_pairs(check, factors, batch)?);
    check.len("dz", dz, batch * n)?;
    check.len("x", x, batch * m)?;
    check.len("tape", tape, batch * (r + n))?;
    grads.x.as_ref().map_or(Ok(()), |d_x| check.len("grads.x", d_x, batch * m))?;
    check.len("grads.log_u", grads.log_u, factors.log_u.len())?;
    check.len("grads.log_v", grads.log_v, factors.log_v.len())?;
    layer.bias.map_or(Ok(()), |bias| check.len("bias.raw", bias.raw, n))?;
    if let Some(d) = &grads.bias_raw {
        check.len("grads.bias_raw", d, n)?;
    }
    let pairs = Pairs::new(&factors.exp(), m);
    let (projected, slopes) = tape.split_at(batch * r);
    let side = Side { dz, projected, slopes, x, pairs: &pairs };
    let [d_p, d_q, d_bias] = side.backward(grads.x, batch);
    pairs.backward(grads.log_u, &pairs.p, &d_p, m, factors.rank);
    pairs.backward(grads.log_v, &pairs.q, &d_q, n, factors.rank);
    if let (Some(d_raw), Some(bias)) = (grads.bias_raw, layer.bias) {
        bias.backward(d_raw, &d_bias);
    }
    Ok(())
}

/// R, after checking that nothing overflows.
fn num_pairs(check: Check, factors: LogFactors<'_>, batch: usize) -> Result<usize> {
    factors.check(check)?;
    let r = check.product(&[factors.rank, factors.rank + 1])? / 2;
    check.product(&[batch, factors.num_rows])?;
    check.product(&[batch, factors.num_cols.saturating_add(r)])?;
    check.product(&[batch.max(factors.num_rows).max(factors.num_cols), r])?;
    Ok(r)
}

/// Examples whose gradients are added up before they join the others'.
const ROWS: usize = 64;

/// What the backward pass reads.
struct Side<'a> {
    dz: &'a [f32],
    projected: &'a [f32],
    slopes: &'a [f32],
    x: &'a [f32],
    pairs: &'a Pairs,
}

impl Side<'_> {
    /// Adds to dL/dx, if it is wanted, and returns [dP `[R, M]`, dQ `[R, N]`, dσ_b² `[N]`], a fixed chunk of examples at a time.
    fn backward(&self, d_x: Option<&mut [f32]>, batch: usize) -> [Vec<f32>; 3] {
        let (m, n, r) = (self.pairs.num_rows, self.pairs.num_cols, self.pairs.count());
        let rows = ROWS;
        let chunks = batch.div_ceil(rows);
        let slices: Vec<Option<&mut [f32]>> = match d_x {
            // With no inputs there is nothing to write, and still a gradient for v and the bias.
            Some(d_x) if m > 0 => d_x.chunks_mut(rows * m).map(Some).collect(),
            _ => (0..chunks).map(|_| None).collect(),
        };
        let parts: Vec<[Vec<f32>; 3]> = slices
            .into_par_iter()
            .enumerate()
            .map(|(c, mut d_x)| {
                let examples = c * rows..batch.min((c + 1) * rows);
                let (mut d_q, mut d_bias) = (vec![0.0; r * n], vec![0.0; n]);
                let d_z = self.output_side(examples.clone(), &mut d_q, &mut d_bias);
                let mut d_p = vec![0.0; r * m];
                let x = &self.x[examples.start * m..examples.end * m];
                project_back(&mut d_p, x, &d_z, r);
                if let Some(d_x) = &mut d_x {
                    add_unprojected(d_x, x, &d_z, &self.pairs.p, r);
                }
                [d_p, d_q, d_bias]
            })
            .collect();
        let mut sums = [vec![0.0; r * m], vec![0.0; r * n], vec![0.0; n]];
        for part in parts {
            sums.iter_mut().zip(part).for_each(|(sum, part)| add_in_order(sum, &[part]));
        }
        sums
    }

    /// dL/d(x²P) of some examples, `[examples, R]`, adding to dQ and dσ_b².
    fn output_side(&self, examples: std::ops::Range<usize>, d_q: &mut [f32], d_bias: &mut [f32]) -> Vec<f32> {
        let (n, r) = (self.pairs.num_cols, self.pairs.count());
        let mut d_z = vec![0.0; examples.len() * r];
        let mut buffer = [0.0; GROUP];
        for first in (examples.start * n..examples.end * n).step_by(GROUP) {
            let here = first..(examples.end * n).min(first + GROUP);
            let (grad, dz, slopes) = (&mut buffer[..here.len()], &self.dz[here.clone()], &self.slopes[here]);
            let (first_row, tape, q) = (examples.start, self.projected, &self.pairs.q);
            output_group(&mut d_z, d_q, d_bias, grad, dz, slopes, first, first_row, tape, q, n, r);
        }
        d_z
    }
}

/// Σᵢ xᵢ² pᵢ of N neighbouring rows of p: side by side, because one sum would wait for itself.
#[inline(always)]
fn square_dots<const N: usize>(z: &mut [f32], x: &[f32], p: &[f32]) {
    let m = x.len();
    let rows: [&[f32]; N] = std::array::from_fn(|r| &p[r * m..(r + 1) * m]);
    let (blocks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [[0.0; LANES]; N];
    for (i, x) in blocks.iter().enumerate() {
        let squares = x.map(|x| x * x);
        for r in 0..N {
            let p = &rows[r][i * LANES..][..LANES];
            for l in 0..LANES {
                lanes[r][l] += squares[l] * p[l];
            }
        }
    }
    for r in 0..N {
        let p = &rows[r][m - rest.len()..];
        lanes[r].iter_mut().zip(rest.iter().zip(p)).for_each(|(l, (x, p))| *l += x * x * p);
        z[r] = sum_lanes(lanes[r]);
    }
}

vectorized! {
    /// zᵣ = Σᵢ xᵢ² pᵣᵢ of every example.
    fn project_squares(z: &mut [f32], x: &[f32], p: &[f32], r: usize) {
        let m = p.len() / r;
        for (b, z) in z.chunks_exact_mut(r).enumerate() {
            let x = &x[b * m..(b + 1) * m];
            for (group, z) in z.chunks_mut(AT_ONCE).enumerate() {
                let p = &p[group * AT_ONCE * m..];
                match z.len() {
                    1 => square_dots::<1>(z, x, p),
                    2 => square_dots::<2>(z, x, p),
                    3 => square_dots::<3>(z, x, p),
                    _ => square_dots::<AT_ONCE>(z, x, p),
                }
            }
        }
    }

    /// Variances of the activations `[first, first + out.len())`.
    fn variance_group(
        out: &mut [f32],
        first: usize,
        tape: &[f32],
        q: &[f32],
        bias: &[f32],
        n: usize,
        r: usize,
    ) {
        for (row, col, offset, len) in row_runs(first, out.len(), n) {
            let out = &mut out[offset..offset + len];
            scale_run(out, &tape[row * r..][..r], q, n, col);
            out.iter_mut().zip(&bias[col..]).for_each(|(o, b)| *o += b);
        }
    }

    /// G of one group, in `grad`, and its shares of d(x²P), dQ and dσ_b².
    fn output_group(
        d_z: &mut [f32],
        d_q: &mut [f32],
        d_bias: &mut [f32],
        grad: &mut [f32],
        dz: &[f32],
        slopes: &[f32],
        first: usize,
        first_row: usize,
        tape: &[f32],
        q: &[f32],
        n: usize,
        r: usize,
    ) {
        for (row, col, offset, len) in row_runs(first, grad.len(), n) {
            let grad = &mut grad[offset..offset + len];
            let operands = dz[offset..offset + len].iter().zip(&slopes[offset..offset + len]);
            for ((g, d_bias), (dz, slope)) in grad.iter_mut().zip(&mut d_bias[col..col + len]).zip(operands) {
                *g = dz * slope;
                *d_bias += *g;
            }
            let d_z = &mut d_z[(row - first_row) * r..][..r];
            add_run_backward(d_z, d_q, grad, &tape[row * r..][..r], q, n, col);
        }
    }

    /// dpᵣᵢ += Σ dzᵣ xᵢ² over examples.
    fn project_back(d_p: &mut [f32], x: &[f32], d_z: &[f32], r: usize) {
        let m = d_p.len() / r;
        if m == 0 {
            return;
        }
        for (x, d_z) in x.chunks(AT_ONCE * m).zip(d_z.chunks(AT_ONCE * r)) {
            for (pair, d_p) in d_p.chunks_exact_mut(m).enumerate() {
                if d_z.len() == AT_ONCE * r {
                    let (a, b, c, d) = (d_z[pair], d_z[r + pair], d_z[2 * r + pair], d_z[3 * r + pair]);
                    let (ab, cd) = x.split_at(2 * m);
                    let ((xa, xb), (xc, xd)) = (ab.split_at(m), cd.split_at(m));
                    let operands = d_p.iter_mut().zip(xa.iter().zip(xb)).zip(xc.iter().zip(xd));
                    for ((d_p, (xa, xb)), (xc, xd)) in operands {
                        *d_p += (a * (xa * xa) + b * (xb * xb)) + (c * (xc * xc) + d * (xd * xd));
                    }
                } else {
                    for (x, z) in x.chunks_exact(m).zip(d_z.chunks_exact(r)) {
                        let z = z[pair];
                        d_p.iter_mut().zip(x).for_each(|(d, x)| *d += z * (x * x));
                    }
                }
            }
        }
    }

    /// dxᵢ += 2xᵢ Σᵣ dzᵣ pᵣᵢ of every example.
    fn add_unprojected(d_x: &mut [f32], x: &[f32], d_z: &[f32], p: &[f32], r: usize) {
        let m = p.len() / r;
        let mut slope = [0.0; GROUP];
        for (b, d_z) in d_z.chunks_exact(r).enumerate() {
            let (d_x, x) = (&mut d_x[b * m..(b + 1) * m], &x[b * m..(b + 1) * m]);
            if let [a, b, c] = *d_z {
                let ((pa, pb), pc) = (p.split_at(m), &p[2 * m..]);
                let operands = d_x.iter_mut().zip(x).zip(pa.iter().zip(&pb[..m]).zip(pc));
                operands.for_each(|((d, x), ((pa, pb), pc))| *d += (a * pa + b * pb + c * pc) * (2.0 * x));
                continue;
            }
            for (g, (d_x, x)) in d_x.chunks_mut(GROUP).zip(x.chunks(GROUP)).enumerate() {
                let slope = &mut slope[..x.len()];
                scale_run(slope, d_z, p, m, g * GROUP);
                d_x.iter_mut().zip(x.iter().zip(slope)).for_each(|(d, (x, s))| *d += *s * (2.0 * x));
            }
        }
    }
}
