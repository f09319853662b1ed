//! Singular value decompositions, whole or only the top of them.

use faer::{Mat, MatRef};
use ktied_kernels::{NoiseKey, Purpose, noise};

use super::Matrix;
use crate::error::{Error, Result};

/// From this size on, the top few of many singular values are found without the others.
const LARGE: usize = 96;
/// The top is what at most this share of all singular values makes.
const TOP: usize = 8;
/// How exact the singular vectors of a truncated decomposition are: ‖A v − γ u‖ relative to γ₁.
const TOLERANCE: f64 = 1e-12;
/// Directions that are followed beside the wanted ones, which makes those converge sooner.
const SPARE: usize = 8;
/// Products after which the whole decomposition is the shorter way.
const MAX_PRODUCTS: usize = 30;

/// The first K singular values and vectors: U diag(γ) Vᵀ is the nearest matrix of rank K (Eckart and Young, 1936).
#[derive(Clone, Debug, PartialEq)]
pub struct Svd {
    /// Left singular vectors, `[M, K]`; each has a positive sum, so that a decomposition has one sign.
    pub u: Matrix,
    /// Singular values, the largest first.
    pub values: Vec<f64>,
    /// Right singular vectors, `[N, K]`
    pub v: Matrix,
}

impl Svd {
    /// U diag(γ) Vᵀ of the first `rank` of its singular values.
    pub fn product(&self, rank: usize) -> Matrix {
        let [u, v] = self.factors(rank);
        u.times_transposed(&v).unwrap_or_else(|_| unreachable!("both factors have one number of columns"))
    }

    /// U diag(√γ), `[M, rank]`, and V diag(√γ), `[N, rank]`, of the first `rank` of its singular values.
    pub fn factors(&self, rank: usize) -> [Matrix; 2] {
        let rank = rank.clamp(1, self.values.len());
        [&self.u, &self.v].map(|side| {
            let entry = |i: usize, k: usize| side.values()[i * side.cols() + k] * self.values[k].sqrt();
            Matrix::from_fn(side.rows(), rank, entry)
        })
    }
}

/// All singular values, the largest first.
///
/// ```
/// use ktied::linalg::{Matrix, singular_values};
/// // A diagonal matrix has its own diagonal.
/// let matrix = Matrix::new(2, 3, vec![3.0, 0.0, 0.0, 0.0, -4.0, 0.0])?;
/// let values = singular_values(&matrix)?;
/// assert!((values[0] - 4.0).abs() < 1e-14 && (values[1] - 3.0).abs() < 1e-14);
/// # Ok::<(), ktied::Error>(())
/// ```
///
/// # Errors
/// If the iteration does not converge, which a finite matrix has not been seen to do.
pub fn singular_values(a: &Matrix) -> Result<Vec<f64>> {
    view(a).singular_values().map_err(|_| no_convergence(a))
}

/// The first `rank` singular values and vectors; all of them if there are fewer.
///
/// Of a large matrix only the wanted ones are computed, by subspace iteration (Halko, Martinsson and Tropp, 2011) until
/// their residuals are rounding; should that take too long, as when many singular values are nearly equal, the whole
/// decomposition is made instead.
///
/// # Errors
/// If the iteration does not converge, which a finite matrix has not been seen to do.
pub fn svd(a: &Matrix, rank: usize) -> Result<Svd> {
    let size = a.rows().min(a.cols());
    let rank = rank.clamp(1, size);
    if size >= LARGE
        && rank * TOP <= size
        && let Some(svd) = truncated(a, rank)
    {
        return Ok(svd);
    }
    let whole = view(a).thin_svd().map_err(|_| no_convergence(a))?;
    let values = (0..rank).map(|k| whole.S()[k]).collect();
    Ok(signed(whole.U().subcols(0, rank), values, whole.V().subcols(0, rank)))
}

fn no_convergence(a: &Matrix) -> Error {
    Error::NoConvergence { rows: a.rows(), cols: a.cols() }
}

fn view(a: &Matrix) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(a.values(), a.rows(), a.cols())
}

/// The top of the decomposition, if it is found exactly enough in few products.
fn truncated(a: &Matrix, rank: usize) -> Option<Svd> {
    let (matrix, block) = (view(a), rank + SPARE);
    let mut v = start(a.cols(), block).qr().compute_thin_Q();
    let mut found: Option<(Mat<f64>, Vec<f64>)> = None;
    for _ in 0..MAX_PRODUCTS {
        let product = matrix * &v;
        if let Some((u, values)) = &found
            && (0..rank).all(|k| residual(&product, u, values, k) <= TOLERANCE * values[0])
        {
            let values = values.iter().take(rank).copied().collect();
            return Some(signed(u.subcols(0, rank), values, v.subcols(0, rank)));
        }
        // With Q an orthonormal basis of A V: A ≈ Q (AᵀQ)ᵀ, and the small factor is decomposed.
        let basis = product.qr().compute_thin_Q();
        let small = (matrix.transpose() * &basis).thin_svd().ok()?;
        found = Some((&basis * small.V(), (0..block).map(|k| small.S()[k]).collect()));
        v = small.U().to_owned();
    }
    None
}

/// Directions that have a share of every singular vector, and are always the same.
fn start(rows: usize, cols: usize) -> Mat<f64> {
    let mut normals = vec![0.0; rows * cols];
    noise::normals(NoiseKey::new(0).child(Purpose::Init), 0, &mut normals);
    Mat::from_fn(rows, cols, |i, k| f64::from(normals[i * cols + k]))
}

/// ‖A v − γ u‖ of pair `k`, where `product` is A V.
fn residual(product: &Mat<f64>, u: &Mat<f64>, values: &[f64], k: usize) -> f64 {
    (0..product.nrows()).map(|i| (product[(i, k)] - values[k] * u[(i, k)]).powi(2)).sum::<f64>().sqrt()
}

/// The decomposition with the sign of each pair of vectors chosen.
fn signed(u: MatRef<'_, f64>, values: Vec<f64>, v: MatRef<'_, f64>) -> Svd {
    let signs: Vec<f64> = (0..values.len()).map(|k| if u.col(k).sum() < 0.0 { -1.0 } else { 1.0 }).collect();
    let side = |side: MatRef<'_, f64>| Matrix::from_fn(side.nrows(), values.len(), |i, k| signs[k] * side[(i, k)]);
    let (u, v) = (side(u), side(v));
    Svd { u, values, v }
}
