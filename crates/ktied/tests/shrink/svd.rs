//! Singular values against NumPy's, by reconstruction, and on matrices of exact rank.

use ktied::linalg::{Matrix, singular_values, svd};
use serde_json::Value;

/// The matrices of svd.py.
fn matrix(kind: &str, rows: usize, cols: usize) -> Matrix {
    let entry = |i: usize, j: usize| -> f64 {
        let (x, y) = (i as f64, j as f64);
        match kind {
            "hash" => ((i * 31 + j * 17 + i * j * 7 + 3) % 101) as f64 / 101.0,
            "hilbert" => 1.0 / (1.0 + x + 2.0 * y),
            _ => {
                let bump = (1.0 + (i * 5 % 11) as f64 / 11.0) / (1.0 + (j * 3 % 7) as f64);
                (1.0 + x / rows as f64) * (2.0 - y / cols as f64) + bump
            }
        }
    };
    let values = (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
    Matrix::new(rows, cols, values).unwrap()
}

fn norm(matrix: &Matrix) -> f64 {
    matrix.squared_norm().sqrt()
}

fn difference(a: &Matrix, b: &Matrix) -> f64 {
    a.values().iter().zip(b.values()).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// A backward stable decomposition is exact for a matrix within c·max(M, N)·ε·‖A‖ of A (Golub and Van Loan, 2013,
/// section 8.6), and by Weyl's inequality no singular value moves by more.
fn rounding(a: &Matrix) -> f64 {
    4.0 * a.rows().max(a.cols()) as f64 * f64::EPSILON * norm(a)
}

#[test]
fn singular_values_are_those_of_numpy() {
    let golden: Value = serde_json::from_str(include_str!("svd.json")).unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let (rows, cols) = (case["rows"].as_u64().unwrap() as usize, case["cols"].as_u64().unwrap() as usize);
        let a = matrix(case["kind"].as_str().unwrap(), rows, cols);
        let expected: Vec<f64> = case["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        let found = singular_values(&a).unwrap();
        assert_eq!(found.len(), expected.len());
        // Both have their rounding.
        let bound = 2.0 * rounding(&a);
        assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() <= bound), "{} {rows}×{cols}", case["kind"]);
        let top = svd(&a, 3).unwrap();
        assert!(top.values.iter().zip(&expected).all(|(f, e)| (f - e).abs() <= bound.max(1e-11 * expected[0])));
    }
}

#[test]
fn the_whole_decomposition_gives_the_matrix_back_and_its_vectors_are_orthonormal() {
    for (kind, rows, cols) in [("hash", 40, 40), ("hash", 130, 97), ("smooth", 97, 300), ("hilbert", 60, 20)] {
        let a = matrix(kind, rows, cols);
        let size = rows.min(cols);
        let whole = svd(&a, size).unwrap();
        assert!(difference(&whole.product(size), &a) <= rounding(&a), "{kind} {rows}×{cols}");
        for side in [&whole.u, &whole.v] {
            let gram = side.transposed().times_transposed(&side.transposed()).unwrap();
            let far = gram.values().iter().enumerate().map(|(at, g)| (g - f64::from(at % size == at / size)).abs());
            assert!(far.fold(0.0, f64::max) < 1e-12, "{kind} {rows}×{cols}");
        }
    }
}

#[test]
fn the_top_alone_is_the_top_of_the_whole() {
    // Sizes above 96 take the truncated way; Eckart and Young say what is left.
    for (kind, rows, cols, rank) in [("smooth", 400, 120, 2), ("smooth", 120, 300, 5), ("hash", 200, 150, 4)] {
        let a = matrix(kind, rows, cols);
        let (top, all) = (svd(&a, rank).unwrap(), singular_values(&a).unwrap());
        let close = top.values.iter().zip(&all).all(|(t, w)| (t - w).abs() <= 1e-11 * all[0]);
        assert!(close, "{kind}: {:?} {:?}", top.values, &all[..rank]);
        let left: f64 = all[rank..].iter().map(|value| value * value).sum::<f64>().sqrt();
        let found = difference(&top.product(rank), &a);
        assert!((found - left).abs() <= 1e-9 * norm(&a), "{kind}: {found} {left}");
    }
}

#[test]
fn a_matrix_of_exact_rank_is_recovered_to_rounding() {
    for rank in 1..=4 {
        for (rows, cols) in [(20, 30), (300, 150)] {
            let factor = |len: usize, shift: usize| {
                let values = (0..len * rank).map(|i| ((i * 37 + shift) % 64) as f64 / 64.0 + 0.1).collect();
                Matrix::new(len, rank, values).unwrap()
            };
            let a = factor(rows, 5).times_transposed(&factor(cols, 11)).unwrap();
            let found = svd(&a, rank).unwrap().product(rank);
            assert!(difference(&found, &a) <= rounding(&a).max(1e-11 * norm(&a)), "rank {rank}");
            // Asked for more, it finds nothing more.
            let more = svd(&a, rank + 2).unwrap();
            assert!(more.values[rank] <= 1e-11 * norm(&a), "{:?}", more.values);
            assert!(difference(&more.product(rank + 2), &a) <= 1e-11 * norm(&a));
        }
    }
}

#[test]
fn the_first_vectors_of_a_positive_matrix_are_positive() {
    for (rows, cols) in [(30, 20), (250, 130)] {
        let first = svd(&matrix("smooth", rows, cols), 1).unwrap();
        assert!(first.u.values().iter().chain(first.v.values()).all(|x| *x > 0.0));
    }
}
