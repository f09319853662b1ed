//! Where fits of positive factors begin.

use ktied_kernels::{NoiseKey, Purpose, noise};

use super::positive::{Factors, Side};
use crate::error::Result;
use crate::linalg::{Matrix, Svd, svd};

/// Smallest entry of a start, relative to a factor of the typical entry: a fit cannot leave zero.
const SMALLEST: f64 = 1e-7;
/// Spread of the logarithms of the starts that are drawn.
const SPREAD: f32 = 0.5;

/// One start from the singular vectors, and two drawn around the first of them; always the same ones.
pub(super) fn three(scale: &Matrix, rank: usize) -> Result<[Factors; 3]> {
    let svd = svd(scale, rank)?;
    let first = match rank {
        1 => perron(&svd),
        2 => cone(&svd),
        _ => parts(&svd, rank),
    };
    Ok([first, drawn(&svd, rank, 1), drawn(&svd, rank, 2)])
}

/// |u₁|√γ₁ and |v₁|√γ₁: singular vectors of a positive matrix are positive (Perron), so rank 1 begins at its clamped
/// decomposition.
fn perron(svd: &Svd) -> Factors {
    let [u, v] = svd.factors(1).map(|side| side_of(svd, 1, side.rows(), |_, i| side.values()[i].abs()));
    Factors { u, v }
}

/// The factors of rank 2 that multiply out to the truncated decomposition, wherever that is positive.
///
/// Row i of it is pᵢ(a + sᵢ b) for two rows a > 0 and b, with pᵢ > 0: a number sᵢ for each row. All entries are positive for s
/// between two bounds that a and b set. Any two numbers s₁ ≤ sᵢ ≤ s₂ within the bounds make two rows a + s₁b and a + s₂b, both
/// positive, of which every row is a sum with positive factors. They are put halfway between the rows and the bounds.
fn cone(svd: &Svd) -> Factors {
    let [u, v] = svd.factors(2);
    let rows: Vec<(f64, f64)> = u.iter_rows().map(|row| (row[0].abs(), row[1] / row[0].abs())).collect();
    let cols: Vec<(f64, f64)> = v.iter_rows().map(|row| (row[0].abs(), row[1])).collect();
    let bound = |side: fn(f64) -> bool| cols.iter().filter(move |(_, b)| side(*b)).map(|(a, b)| -a / b);
    let low = bound(|b| b > 0.0).fold(f64::NEG_INFINITY, f64::max);
    let high = bound(|b| b < 0.0).fold(f64::INFINITY, f64::min);
    let slopes = || rows.iter().map(|(_, s)| s.clamp(low, high));
    let (least, most) = (slopes().fold(f64::INFINITY, f64::min), slopes().fold(f64::NEG_INFINITY, f64::max));
    let room = 0.5 * (most - least).max(1e-3 * (high - low).min(1.0));
    let between =
        |slope: f64, bound: f64| if bound.is_finite() { 0.5 * (slope + bound) } else { bound.signum() * room + slope };
    let (first, second) = (between(least, low), between(most, high));
    let share = |s: f64, from: f64| ((s.clamp(low, high) - from) / (second - first)).abs();
    Factors {
        u: side_of(svd, 2, rows.len(), |k, i| rows[i].0 * share(rows[i].1, if k == 0 { second } else { first })),
        v: side_of(svd, 2, cols.len(), |k, j| cols[j].0 + if k == 0 { first } else { second } * cols[j].1),
    }
}

/// The larger of the positive and negative parts of each pair of singular vectors (Boutsidis and Gallopoulos, 2008).
fn parts(svd: &Svd, rank: usize) -> Factors {
    let [u, v] = svd.factors(rank);
    let part = |side: &Matrix, k: usize, sign: f64| -> Vec<f64> {
        side.iter_rows().map(|row| (sign * row[k]).max(0.0)).collect()
    };
    let norm = |column: &[f64]| column.iter().map(|x| x * x).sum::<f64>();
    let pairs: Vec<[Vec<f64>; 2]> = (0..rank)
        .map(|k| {
            let [plus, minus] = [1.0, -1.0].map(|sign| [part(&u, k, sign), part(&v, k, sign)]);
            let weight = |pair: &[Vec<f64>; 2]| norm(&pair[0]) * norm(&pair[1]);
            if weight(&plus) >= weight(&minus) { plus } else { minus }
        })
        .collect();
    Factors {
        u: side_of(svd, rank, u.rows(), |k, i| pairs[k][0][i]),
        v: side_of(svd, rank, v.rows(), |k, j| pairs[k][1][j]),
    }
}

/// The first pair of singular vectors in K parts, each entry times a number around 1.
fn drawn(svd: &Svd, rank: usize, start: u64) -> Factors {
    let key = NoiseKey::new(start).child(Purpose::Init);
    let [u, v] = svd.factors(1);
    let share = (rank as f64).sqrt().recip();
    let side = |side: &Matrix, stream: u64| {
        let mut normals = vec![0.0; rank * side.rows()];
        noise::normals(key.fold(stream), 0, &mut normals);
        side_of(svd, rank, side.rows(), |k, i| {
            let factor = f64::from(SPREAD * normals[k * side.rows() + i]).exp();
            share * side.values()[i].abs() * factor
        })
    };
    Factors { u: side(&u, 0), v: side(&v, 1) }
}

/// A factor of a function of column and row, with nothing below the smallest entry.
fn side_of(svd: &Svd, rank: usize, rows: usize, entry: impl Fn(usize, usize) -> f64) -> Side {
    // γ₁ is about √(MN) times the typical entry.
    let typical = svd.values[0] / ((svd.u.rows() * svd.v.rows()) as f64).sqrt();
    let smallest = SMALLEST * typical.sqrt();
    Side { columns: (0..rank).map(|k| (0..rows).map(|i| entry(k, i).max(smallest)).collect()).collect() }
}
