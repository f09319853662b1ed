//! Positive factors: the k-tied Normal that is nearest to a trained posterior.
//!
//! With t = (U Vᵀ)ᵢⱼ and a the trained standard deviation, KL(compressed ‖ trained) is Σ t²/(2a²) − ln t up to a constant. For
//! fixed V each row of U is a problem of its own in K numbers, convex, and self-concordant (a sum of −ln of linear
//! functions and of squares): so a Newton step, damped by its own decrement, cannot make it worse (Nesterov and
//! Nemirovskii, 1994). Where such a step would leave the positive numbers, a multiplicative one is made instead,
//! u ← u √(Σ v/t ÷ Σ v t/a²), which comes from Jensen's inequality on both terms and cannot make it worse either. Rows
//! of U, then rows of V, in turn: a sweep.

use rayon::prelude::*;

use super::divergence::of_weight;
use super::starts;
use crate::error::Result;
use crate::linalg::Matrix;

/// Sweeps between two looks at the divergence.
const SWEEPS: usize = 20;
/// The fit is over when the divergence has changed by less than this, relatively, in as many sweeps.
const TOLERANCE: f64 = 1e-6;
/// Nats a weight below which a fit is exact, whatever the relative change.
const EXACT: f64 = 1e-13;
/// More sweeps than any fit has been seen to need.
const MAX_SWEEPS: usize = 20_000;

/// Standard deviations σ ≈ U Vᵀ with U, V > 0.
#[derive(Clone, Debug, PartialEq)]
pub struct PositiveFit {
    /// U, `[M, K]`
    pub u: Matrix,
    /// V, `[N, K]`
    pub v: Matrix,
    /// KL(compressed ‖ trained), in nats.
    pub kl: f64,
    /// Sweeps of each start.
    pub sweeps: Vec<usize>,
    /// The start that ended lowest.
    pub best_start: usize,
}

impl PositiveFit {
    /// The fit of rank K = `rank` to standard deviations `scale`, all positive: the best of three starts.
    ///
    /// # Errors
    /// If a decomposition that a start is made from does not converge.
    pub fn new(scale: &Matrix, rank: usize) -> Result<Self> {
        let problem = Problem::new(scale);
        let fits: Vec<Ended> = starts::three(scale, rank)?.map(|start| problem.solve(start)).into();
        let sweeps = fits.iter().map(|fit| fit.sweeps).collect();
        let best_start = (0..fits.len()).reduce(|best, i| if fits[i].kl < fits[best].kl { i } else { best });
        let best_start = best_start.unwrap_or(0);
        let Ended { factors, kl, .. } = fits.into_iter().nth(best_start).unwrap_or_else(|| unreachable!("three"));
        let [u, v] = factors.balanced().map(|side| side.to_matrix());
        Ok(Self { u, v, kl, sweeps, best_start })
    }
}

/// Both factors of a fit that is under way.
#[derive(Clone, Debug)]
pub(super) struct Factors {
    pub(super) u: Side,
    pub(super) v: Side,
}

impl Factors {
    /// The same products with each pair of columns of one geometric mean.
    fn balanced(self) -> [Side; 2] {
        let Self { mut u, mut v } = self;
        let mean_log = |column: &[f64]| column.iter().map(|x| x.ln()).sum::<f64>() / column.len() as f64;
        for (u, v) in u.columns.iter_mut().zip(&mut v.columns) {
            let factor = (0.5 * (mean_log(v) - mean_log(u))).exp();
            u.iter_mut().for_each(|x| *x *= factor);
            v.iter_mut().for_each(|x| *x /= factor);
        }
        [u, v]
    }
}

/// One factor, a vector for each of its K columns.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) columns: Vec<Vec<f64>>,
}

impl Side {
    fn row(&self, i: usize) -> impl Iterator<Item = f64> {
        self.columns.iter().map(move |column| column[i])
    }

    fn to_matrix(&self) -> Matrix {
        let rows = self.columns.first().map_or(0, Vec::len);
        Matrix::from_fn(rows, self.columns.len(), |i, k| self.columns[k][i])
    }
}

struct Ended {
    factors: Factors,
    kl: f64,
    sweeps: usize,
}

/// What is fitted: the trained standard deviations, and 1/a² by rows and by columns.
struct Problem<'a> {
    scale: &'a Matrix,
    by_rows: Matrix,
    by_cols: Matrix,
}

impl<'a> Problem<'a> {
    fn new(scale: &'a Matrix) -> Self {
        let by_rows = scale.map(|a| 1.0 / (a * a));
        Self { scale, by_cols: by_rows.transposed(), by_rows }
    }

    /// Sweeps until nothing changes any more.
    fn solve(&self, mut factors: Factors) -> Ended {
        let exact = EXACT * self.scale.values().len() as f64;
        let (mut kl, mut sweeps) = (self.divergence(&factors), 0);
        loop {
            for _ in 0..SWEEPS {
                factors.u = improved(&self.by_rows, &factors.u, &factors.v);
                factors.v = improved(&self.by_cols, &factors.v, &factors.u);
            }
            sweeps += SWEEPS;
            let before = std::mem::replace(&mut kl, self.divergence(&factors));
            if before - kl <= TOLERANCE * kl || kl <= exact || sweeps >= MAX_SWEEPS {
                return Ended { factors, kl, sweeps };
            }
        }
    }

    fn divergence(&self, Factors { u, v }: &Factors) -> f64 {
        let of_row = |(i, scales): (usize, &[f64])| {
            let of_col = |(j, &a): (usize, &f64)| of_weight(u.row(i).zip(v.row(j)).map(|(u, v)| u * v).sum(), a);
            scales.iter().enumerate().map(of_col).sum::<f64>()
        };
        let rows = self.scale.values().par_chunks(self.scale.cols()).enumerate();
        rows.map(of_row).collect::<Vec<_>>().iter().sum()
    }
}

/// One step for every row of a factor, the other being fixed; `weights` are 1/a² with a row for each of them.
fn improved(weights: &Matrix, own: &Side, other: &Side) -> Side {
    let rank = own.columns.len();
    let rows = weights.values().par_chunks(weights.cols()).enumerate();
    let rows: Vec<Vec<f64>> = rows
        .map_init(
            || Sums::new(rank),
            |sums, (i, weights)| {
                let row: Vec<f64> = own.row(i).collect();
                sums.collect(weights, &row, other);
                sums.step(row)
            },
        )
        .collect();
    Side { columns: (0..rank).map(|k| rows.iter().map(|row| row[k]).collect()).collect() }
}

/// Columns that are summed side by side, which compilers turn into vector instructions.
const LANES: usize = 8;

/// The sums over a row that both kinds of step are made of.
struct Sums {
    rank: usize,
    /// Σ v/t, `[K]`
    pull: Vec<[f64; LANES]>,
    /// Σ v t/a², `[K]`; the gradient is this less `pull`.
    push: Vec<[f64; LANES]>,
    /// Σ v vᵀ (1/a² + 1/t²), `[K(K + 1)/2]`: the lower half, row by row.
    curvature: Vec<[f64; LANES]>,
}

impl Sums {
    fn new(rank: usize) -> Self {
        let zeros = |len| vec![[0.0; LANES]; len];
        Self { rank, pull: zeros(rank), push: zeros(rank), curvature: zeros(rank * (rank + 1) / 2) }
    }

    fn collect(&mut self, weights: &[f64], row: &[f64], other: &Side) {
        [&mut self.pull, &mut self.push, &mut self.curvature].into_iter().for_each(|sums| sums.fill([0.0; LANES]));
        let whole = weights.len() - weights.len() % LANES;
        (0..whole).step_by(LANES).for_each(|from| self.add::<LANES>(from, weights, row, other));
        (whole..weights.len()).for_each(|from| self.add::<1>(from, weights, row, other));
    }

    fn add<const L: usize>(&mut self, from: usize, weights: &[f64], row: &[f64], other: &Side) {
        let column = |k: usize| -> [f64; L] { std::array::from_fn(|lane| other.columns[k][from + lane]) };
        let mut t = [0.0; L];
        for (k, u) in row.iter().enumerate() {
            let v = column(k);
            (0..L).for_each(|lane| t[lane] += u * v[lane]);
        }
        let inverse = t.map(f64::recip);
        let weight: [f64; L] = std::array::from_fn(|lane| weights[from + lane]);
        let curvature: [f64; L] = std::array::from_fn(|lane| weight[lane] + inverse[lane] * inverse[lane]);
        let mut entry = 0;
        for k in 0..self.rank {
            let v = column(k);
            for lane in 0..L {
                self.pull[k][lane] += v[lane] * inverse[lane];
                self.push[k][lane] += v[lane] * t[lane] * weight[lane];
            }
            for l in 0..=k {
                let w = column(l);
                (0..L).for_each(|lane| self.curvature[entry][lane] += v[lane] * w[lane] * curvature[lane]);
                entry += 1;
            }
        }
    }

    /// The row after a Newton step, or a multiplicative one where that would lead out of the positive numbers.
    fn step(&self, row: Vec<f64>) -> Vec<f64> {
        let total = |sums: &[[f64; LANES]]| -> Vec<f64> { sums.iter().map(|lanes| lanes.iter().sum()).collect() };
        let (pull, push) = (total(&self.pull), total(&self.push));
        let gradient: Vec<f64> = push.iter().zip(&pull).map(|(push, pull)| push - pull).collect();
        if let Some(direction) = solve(total(&self.curvature), gradient.clone()) {
            let decrement = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum::<f64>().max(0.0).sqrt();
            // Below a quarter the whole step is safe, and converges quadratically.
            let length = if decrement > 0.25 { 1.0 / (1.0 + decrement) } else { 1.0 };
            let stepped: Vec<f64> = row.iter().zip(&direction).map(|(u, d)| u - length * d).collect();
            if stepped.iter().zip(&row).all(|(new, old)| *new > SHRINK * old && new.is_finite()) {
                return stepped;
            }
        }
        row.iter().zip(pull.iter().zip(&push)).map(|(u, (pull, push))| u * (pull / push).sqrt()).collect()
    }
}

/// A Newton step that would make a number smaller by more than this is not taken.
const SHRINK: f64 = 0.1;

/// H⁻¹ g by Cholesky's decomposition of the lower half of H; none if H is not positive definite in doubles.
fn solve(mut lower: Vec<f64>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let (size, at) = (right.len(), |i: usize, j: usize| i * (i + 1) / 2 + j);
    for i in 0..size {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| lower[at(i, k)] * lower[at(j, k)]).sum();
            let rest = lower[at(i, j)] - known;
            lower[at(i, j)] = match i == j {
                // Less than this of the diagonal is rounding.
                true if rest <= 1e-12 * lower[at(i, i)] => return None,
                true => rest.sqrt(),
                false => rest / lower[at(j, j)],
            };
        }
    }
    for i in 0..size {
        let known: f64 = (0..i).map(|k| lower[at(i, k)] * right[k]).sum();
        right[i] = (right[i] - known) / lower[at(i, i)];
    }
    for i in (0..size).rev() {
        let known: f64 = (i + 1..size).map(|k| lower[at(k, i)] * right[k]).sum();
        right[i] = (right[i] - known) / lower[at(i, i)];
    }
    Some(right)
}

#[cfg(test)]
mod tests;
