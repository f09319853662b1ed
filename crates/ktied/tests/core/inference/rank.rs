//! Scales of rank 2: a 2-tied posterior finds them as mean field does, a 1-tied one can only come as near as rank 1 does.

use ktied::nn::Estimator;

use super::{Fit, Regression};
use crate::support::random;

const M: usize = 6;
const N: usize = 5;
/// Observations of each weight.
const REPEATS: usize = 32;
const PRIOR: f64 = 1.0;

/// The scales to be found: U Vᵀ, where the second column of each factor falls as the first rises.
fn scale_of_rank_2() -> Vec<f64> {
    let ramp = |i: usize, len: usize| 0.2 + 0.8 * i as f64 / (len - 1) as f64;
    let entry = |u: f64, v: f64| 0.3 * (u * v + (1.2 - u) * (1.2 - v));
    (0..M * N).map(|e| entry(ramp(e / N, M), ramp(e % N, N))).collect()
}

/// A regression whose exact posterior is diagonal and has scales `scale`. Each example asks for one row of W, so each
/// observation for one weight; its noise makes the precision 1/σₚ² + REPEATS/s² of that weight 1/σ². What is observed
/// is the weight w itself, without an error: σ does not depend on it, and μ = (1 − σ²/σₚ²) w.
fn regression_with(scale: Vec<f64>) -> (Regression, Fit) {
    let b = REPEATS * M;
    let w = random(M * N, 4);
    let of_prior = |e: usize| (scale[e] / PRIOR).powi(2);
    let x = (0..b * M).map(|i| if i / M % M == i % M { 1.0 } else { 0.0 }).collect();
    let y = (0..b * N).map(|i| w[i % (M * N)]).collect();
    let precision = |e: usize| (1.0 - of_prior(e)) / (scale[e].powi(2) * REPEATS as f64);
    let noise_precision = (0..b * N).map(|i| precision(i % (M * N)) as f32).collect();
    let loc = (0..M * N).map(|e| (1.0 - of_prior(e)) * f64::from(w[e])).collect();
    let regression = Regression { x, y, noise_precision, sizes: [b, M, N], prior: PRIOR };
    (regression, Fit { loc, scale })
}

/// The σ = u vᵀ that minimises KL(q‖p) = Σ σ²/(2σ*²) − ln σ + const: Σⱼ σᵢⱼ²/σ*ᵢⱼ² is N in every row, Σᵢ M in every
/// column. Convex in the logarithms, so scaling rows and columns in turn finds the only such one (Sinkhorn, 1967).
fn best_of_rank_1(target: &[f64]) -> Vec<f64> {
    let mut ratio: Vec<f64> = target.iter().map(|s| s.powi(-2)).collect();
    for _ in 0..1000 {
        for i in 0..M {
            let factor = N as f64 / (0..N).map(|j| ratio[i * N + j]).sum::<f64>();
            (0..N).for_each(|j| ratio[i * N + j] *= factor);
        }
        for j in 0..N {
            let factor = M as f64 / (0..M).map(|i| ratio[i * N + j]).sum::<f64>();
            (0..M).for_each(|i| ratio[i * N + j] *= factor);
        }
    }
    ratio.iter().zip(target).map(|(r, s)| r.sqrt() * s).collect()
}

/// Largest |ln(a/b)|.
fn log_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a / b).ln().abs()).fold(0.0, f64::max)
}

/// What [`log_distance`] from the scales above is at least, whatever the factors of a rank-1 matrix: there
/// σ₁₁σ₂₂ = σ₁₂σ₂₁, while in the corners here those products are 6.76 to 1, so one of the four is off by 6.76^¼ = 1.61.
fn rank_1_distance() -> f64 {
    6.76f64.ln() / 4.0
}

/// Means within the noise of training: n draws of a weight tell its mean to σ/√n. The bound is 4.9 of those standard
/// errors, a false alarm of 1e-6.
fn assert_means_found(what: &str, found: &Fit, expected: &Fit, num_draws: f64) {
    let error = |i: usize| ((found.loc[i] - expected.loc[i]) / expected.scale[i]).abs();
    let largest = (0..M * N).map(error).fold(0.0, f64::max);
    assert!(largest < 4.9 / num_draws.sqrt(), "{what}: a mean is {largest} scales off");
}

/// Means and scales within the noise of training: n draws tell a scale to σ/√(2n).
fn assert_found(what: &str, found: &Fit, expected: &Fit, num_draws: f64) {
    assert_means_found(what, found, expected, num_draws);
    let distance = log_distance(&found.scale, &expected.scale);
    assert!(distance < 4.9 / (2.0 * num_draws).sqrt(), "{what}: a scale is off by a factor of e^{distance}");
}

#[test]
fn scales_of_rank_2_are_found_by_2_tied_and_mean_field_but_not_by_1_tied() {
    let (regression, exact) = regression_with(scale_of_rank_2());
    let num_steps = 2000;
    let fit = |posterior| regression.fit(posterior, Estimator::Local, REPEATS * M, num_steps);
    // Local noise is drawn anew for every observation of the steps that are averaged: a scale is found to 2 %.
    let num_draws = (num_steps / 2) as f64 * REPEATS as f64;
    for posterior in ["mean-field", "k-tied:2"] {
        assert_found(posterior, &fit(posterior), &exact, num_draws);
    }
    let tied = fit("k-tied:1");
    let distance = log_distance(&tied.scale, &exact.scale);
    assert!(distance > rank_1_distance(), "k-tied:1 is nearer than rank 1 can be: {distance}");
    let best = Fit { scale: best_of_rank_1(&exact.scale), ..exact };
    assert_found("k-tied:1", &tied, &best, num_draws);
}

#[test]
fn a_2_tied_posterior_finds_scales_of_rank_2_from_whole_draws_too() {
    let (regression, exact) = regression_with(scale_of_rank_2());
    let num_steps = 6000;
    for estimator in [Estimator::Flipout, Estimator::Reparam] {
        let found = regression.fit("k-tied:2", estimator, REPEATS * M, num_steps);
        assert_means_found(&estimator.to_string(), &found, &exact, (num_steps / 2) as f64);
        // One draw of a weight a step. The columns of a factor begin almost equal, where a noisy gradient takes long to
        // tell them apart, so the bound is not that of the noise but half of what rank 1 cannot do.
        let distance = log_distance(&found.scale, &exact.scale);
        assert!(distance < rank_1_distance() / 2.0, "{estimator}: a scale is off by a factor of e^{distance}");
    }
}
