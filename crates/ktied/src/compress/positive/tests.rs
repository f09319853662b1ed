//! Fits of positive factors: monotone, exact where they can be, never behind the clamped decomposition up to rank 2.

use ktied_kernels::{NoiseKey, Purpose, noise};

use super::*;
use crate::compress::SvdFit;

/// exp of normals: positive factors that are far from each other.
fn factor(rows: usize, rank: usize, seed: u64, spread: f32) -> Matrix {
    let mut normals = vec![0.0; rows * rank];
    noise::normals(NoiseKey::new(seed).child(Purpose::Synthetic), 0, &mut normals);
    Matrix::from_fn(rows, rank, |i, k| f64::from(spread * normals[i * rank + k]).exp())
}

fn product(u: &Matrix, v: &Matrix) -> Matrix {
    u.times_transposed(v).unwrap()
}

#[test]
fn a_sweep_never_makes_it_worse() {
    for (seed, rank) in [(1, 1), (2, 2), (3, 3), (4, 5)] {
        let scale = product(&factor(17, 6, seed, 1.0), &factor(13, 6, seed + 100, 1.0));
        let problem = Problem::new(&scale);
        for mut factors in starts::three(&scale, rank).unwrap() {
            let mut before = problem.divergence(&factors);
            for sweep in 0..60 {
                factors.u = improved(&problem.by_rows, &factors.u, &factors.v);
                let half = problem.divergence(&factors);
                factors.v = improved(&problem.by_cols, &factors.v, &factors.u);
                let after = problem.divergence(&factors);
                let slack = 1e-12 * before.max(1.0);
                assert!(half <= before + slack && after <= half + slack, "{rank} {sweep}: {before} {half} {after}");
                before = after;
            }
        }
    }
}

#[test]
fn standard_deviations_of_a_positive_rank_are_recovered() {
    for rank in 1..=3 {
        let scale = product(&factor(40, rank, 7, 0.7), &factor(30, rank, 8, 0.7));
        let fit = PositiveFit::new(&scale, rank).unwrap();
        let found = product(&fit.u, &fit.v);
        let worst = found.values().iter().zip(scale.values()).map(|(f, s)| (f / s - 1.0).abs()).fold(0.0, f64::max);
        assert!(worst < 2e-5 && fit.kl < 1e-7, "rank {rank}: {worst} {}", fit.kl);
    }
}

#[test]
fn at_the_end_no_entry_of_a_factor_wants_to_move() {
    let scale = product(&factor(25, 5, 3, 0.8), &factor(20, 5, 4, 0.8));
    let fit = PositiveFit::new(&scale, 2).unwrap();
    let t = product(&fit.u, &fit.v);
    // u·∂KL/∂u = Σⱼ u v (t/a² − 1/t): it may only push against zero.
    for i in 0..scale.rows() {
        for k in 0..2 {
            let u = fit.u.values()[2 * i + k];
            let terms = (0..scale.cols()).map(|j| {
                let (t, a) = (t.values()[i * scale.cols() + j], scale.values()[i * scale.cols() + j]);
                u * fit.v.values()[2 * j + k] * (t / (a * a) - 1.0 / t)
            });
            let slope: f64 = terms.sum();
            assert!(slope.abs() < 0.02, "row {i}, column {k}: {slope}");
        }
    }
    // Moving all of one column by a thousandth in either direction is not better.
    for factor in [0.999, 1.001] {
        let moved = Matrix::from_fn(25, 2, |i, k| fit.u.values()[2 * i + k] * if k == 0 { factor } else { 1.0 });
        assert!(crate::compress::divergence(&product(&moved, &fit.v), &scale) > fit.kl);
    }
}

#[test]
fn up_to_rank_2_it_is_never_further_than_the_clamped_decomposition() {
    let mut closer_at_3 = [0, 0];
    for seed in 0..80 {
        let (rows, cols) = (3 + (seed as usize * 7) % 20, 3 + (seed as usize * 5) % 17);
        let rank_of_truth = 1 + seed as usize % 6;
        let spread = [0.2, 0.7, 1.5][seed as usize % 3];
        let exact = product(&factor(rows, rank_of_truth, seed, spread), &factor(cols, rank_of_truth, !seed, spread));
        let noisy = factor(rows, cols, seed + 1000, 0.3);
        let scale = Matrix::from_fn(rows, cols, |i, j| exact.values()[i * cols + j] * noisy.values()[i * cols + j]);
        for rank in [1, 2] {
            let (positive, svd) = (PositiveFit::new(&scale, rank).unwrap(), SvdFit::new(&scale, rank).unwrap());
            assert!(positive.kl <= svd.kl * (1.0 + 1e-9) + 1e-9, "seed {seed} rank {rank}: {} {}", positive.kl, svd.kl);
        }
        let (positive, svd) = (PositiveFit::new(&scale, 3).unwrap(), SvdFit::new(&scale, 3).unwrap());
        closer_at_3[usize::from(positive.kl <= svd.kl)] += 1;
    }
    // At rank 3 either may be nearer; both happen, or the statement of the documentation is wrong.
    println!("rank 3: decomposition nearer {}, positive nearer {}", closer_at_3[0], closer_at_3[1]);
    assert!(closer_at_3[1] > 40);
}

#[test]
fn a_start_of_rank_2_is_the_truncated_decomposition_where_that_is_positive() {
    let scale = product(&factor(30, 2, 5, 0.6), &factor(20, 2, 6, 0.6));
    let [first, ..] = starts::three(&scale, 2).unwrap();
    let worst = (0..30).flat_map(|i| (0..20).map(move |j| (i, j))).map(|(i, j)| {
        let t: f64 = first.u.row(i).zip(first.v.row(j)).map(|(u, v)| u * v).sum();
        (t / scale.values()[i * 20 + j] - 1.0).abs()
    });
    let worst = worst.fold(0.0, f64::max);
    assert!(worst < 1e-4, "{worst}");
    assert!(first.u.columns.iter().chain(&first.v.columns).flatten().all(|x| *x > 0.0));
}

#[test]
fn a_small_system_is_solved_and_a_singular_one_is_not() {
    // [[4, 2], [2, 3]] x = [2, 5] has x = [−0.5, 2].
    let x = solve(vec![4.0, 2.0, 3.0], vec![2.0, 5.0]).unwrap();
    assert!((x[0] + 0.5).abs() < 1e-14 && (x[1] - 2.0).abs() < 1e-14, "{x:?}");
    assert_eq!(solve(vec![1.0, 1.0, 1.0], vec![1.0, 1.0]), None);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let scale = product(&factor(70, 4, 1, 0.9), &factor(45, 4, 2, 0.9));
    let fit = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| PositiveFit::new(&scale, 2).unwrap())
    };
    let one = fit(1);
    assert!(one == fit(2) && one == fit(4));
}
