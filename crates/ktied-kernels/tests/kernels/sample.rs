//! Draws of weights against their definition in double precision, and their gradients by central differences.

use ktied_kernels::{LogFactors, NoiseKey, Purpose, ScaleForm, noise, sample};

use crate::reference::{
    assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, central_difference, dot, random,
    to_f64,
};

/// (M, N, K): empty, single, odd, across groups of 256, k = min(m, n), and beyond two.
pub const SHAPES: [(usize, usize, usize); 11] = [
    (0, 3, 1),
    (3, 0, 2),
    (1, 1, 1),
    (1, 7, 1),
    (7, 1, 1),
    (3, 5, 3),
    (5, 4, 4),
    (17, 33, 2),
    (2, 300, 2),
    (40, 10, 5),
    (9, 257, 1),
];

pub fn key() -> NoiseKey {
    NoiseKey::new(11).child(Purpose::Weights).at(3, 2)
}

pub fn eps(len: usize) -> Vec<f64> {
    let mut eps = vec![0.0; len];
    noise::normals(key(), 0, &mut eps);
    to_f64(&eps)
}

/// ln of factors around 0.1, as after initialisation.
pub fn log_factor(len: usize, seed: u64) -> Vec<f32> {
    random(len, seed).iter().map(|z| -2.3 + 0.4 * z).collect()
}

pub fn factors<'a>(log_u: &'a [f32], log_v: &'a [f32], (m, n, k): (usize, usize, usize)) -> LogFactors<'a> {
    LogFactors { log_u, log_v, num_rows: m, num_cols: n, rank: k }
}

/// σᵢⱼ = Σₐ exp(ln uᵢₐ + ln vⱼₐ)
pub fn k_tied_scale(log_u: &[f64], log_v: &[f64], (m, n, k): (usize, usize, usize)) -> Vec<f64> {
    let entry = |i: usize, j: usize| (0..k).map(|a| (log_u[i * k + a] + log_v[j * k + a]).exp()).sum();
    (0..m * n).map(|e| entry(e / n, e % n)).collect()
}

pub fn scale_of(form: ScaleForm, raw: f64) -> f64 {
    match form {
        ScaleForm::Log => raw.exp(),
        ScaleForm::Softplus => raw.max(0.0) + (-raw.abs()).exp().ln_1p(),
    }
}

#[test]
fn a_mean_field_draw_is_loc_plus_scale_times_the_keys_normals() {
    for form in [ScaleForm::Log, ScaleForm::Softplus] {
        for len in [0, 1, 255, 256, 257, 40_000] {
            let (loc, raw) = (random(len, 1), log_factor(len, 2));
            let mut w = vec![0.0; len];
            sample::mean_field(&mut w, Some(&loc), &raw, form, key()).unwrap();
            let values = loc.iter().zip(&raw).zip(eps(len));
            let expected: Vec<f64> =
                values.map(|((&l, &r), e)| f64::from(l) + scale_of(form, f64::from(r)) * e).collect();
            assert_close(&w, &expected, 2e-7, 0.0, "draw");
        }
    }
}

#[test]
fn the_gradient_of_a_mean_field_draw_matches_central_differences() {
    for form in [ScaleForm::Log, ScaleForm::Softplus] {
        let len = 300;
        let (raw, d_out, eps) = (log_factor(len, 3), random(len, 4), eps(len));
        let mut d_raw = vec![0.0; len];
        sample::mean_field_backward(&mut d_raw, &d_out, &raw, form, key()).unwrap();
        let mut loss = |raw: &[f64]| {
            let w: Vec<f64> = raw.iter().zip(&eps).map(|(&r, e)| scale_of(form, r) * e).collect();
            dot(&w, &to_f64(&d_out))
        };
        assert_close(&d_raw, &central_difference(&mut loss, &to_f64(&raw), 1e-5), 1e-6, 0.0, "d_raw");
    }
}

#[test]
fn a_k_tied_draw_is_loc_plus_the_product_of_factors_times_the_keys_normals() {
    for shape in SHAPES.into_iter().chain([(100, 411, 3)]) {
        let (m, n, k) = shape;
        let (loc, log_u, log_v) = (random(m * n, 1), log_factor(m * k, 2), log_factor(n * k, 3));
        for loc in [None, Some(&loc[..])] {
            let mut w = vec![0.0; m * n];
            sample::k_tied(&mut w, loc, factors(&log_u, &log_v, shape), key()).unwrap();
            let scale = k_tied_scale(&to_f64(&log_u), &to_f64(&log_v), shape);
            let mut expected: Vec<f64> = scale.iter().zip(eps(m * n)).map(|(s, e)| s * e).collect();
            if let Some(loc) = loc {
                expected.iter_mut().zip(loc).for_each(|(w, &l)| *w += f64::from(l));
            }
            assert_close(&w, &expected, 5e-7, 0.0, &format!("{shape:?}"));
        }
    }
}

#[test]
fn the_gradients_of_a_k_tied_draw_match_central_differences() {
    for shape in SHAPES {
        let (m, n, k) = shape;
        let (log_u, log_v, d_out) = (log_factor(m * k, 2), log_factor(n * k, 3), random(m * n, 4));
        let (mut d_u, mut d_v) = (vec![0.0; m * k], vec![0.0; n * k]);
        sample::k_tied_backward(&mut d_u, &mut d_v, &d_out, factors(&log_u, &log_v, shape), key()).unwrap();
        let t: Vec<f64> = to_f64(&d_out).iter().zip(eps(m * n)).map(|(d, e)| d * e).collect();
        let (u, v) = (to_f64(&log_u), to_f64(&log_v));
        let by_u = central_difference(&mut |u| dot(&k_tied_scale(u, &v, shape), &t), &u, 1e-5);
        let by_v = central_difference(&mut |v| dot(&k_tied_scale(&u, v, shape), &t), &v, 1e-5);
        assert_close(&d_u, &by_u, 2e-6, 1e-9, &format!("d_log_u {shape:?}"));
        assert_close(&d_v, &by_v, 2e-6, 1e-9, &format!("d_log_v {shape:?}"));
    }
}

#[test]
fn a_large_k_tied_gradient_matches_the_sums_over_rows_and_columns() {
    let shape @ (m, n, k) = (300, 301, 2);
    let (log_u, log_v, d_out) = (log_factor(m * k, 2), log_factor(n * k, 3), random(m * n, 4));
    let (mut d_u, mut d_v) = (vec![0.0; m * k], vec![0.0; n * k]);
    sample::k_tied_backward(&mut d_u, &mut d_v, &d_out, factors(&log_u, &log_v, shape), key()).unwrap();
    let t: Vec<f64> = to_f64(&d_out).iter().zip(eps(m * n)).map(|(d, e)| d * e).collect();
    let uv = |i: usize, j: usize, a: usize| f64::from(log_u[i * k + a] + log_v[j * k + a]).exp();
    let by_u = (0..m * k).map(|e| (0..n).map(|j| t[e / k * n + j] * uv(e / k, j, e % k)).sum());
    let by_v = (0..n * k).map(|e| (0..m).map(|i| t[i * n + e / k] * uv(i, e / k, e % k)).sum());
    assert_close(&d_u, &by_u.collect::<Vec<f64>>(), 3e-6, 0.0, "d_log_u");
    assert_close(&d_v, &by_v.collect::<Vec<f64>>(), 3e-6, 0.0, "d_log_v");
}

/// Everything a draw and its backward pass write, one after the other.
fn all_outputs() -> Vec<f32> {
    let shape @ (m, n, k) = (150, 333, 3);
    let (loc, raw, d_out) = (random(m * n, 1), log_factor(m * n, 2), random(m * n, 3));
    let (log_u, log_v) = (log_factor(m * k, 4), log_factor(n * k, 5));
    let mut out = vec![vec![0.0; m * n]; 3];
    let (mut d_u, mut d_v) = (vec![0.0; m * k], vec![0.0; n * k]);
    sample::mean_field(&mut out[0], Some(&loc), &raw, ScaleForm::Softplus, key()).unwrap();
    sample::mean_field_backward(&mut out[1], &d_out, &raw, ScaleForm::Log, key()).unwrap();
    sample::k_tied(&mut out[2], Some(&loc), factors(&log_u, &log_v, shape), key()).unwrap();
    sample::k_tied_backward(&mut d_u, &mut d_v, &d_out, factors(&log_u, &log_v, shape), key()).unwrap();
    out.extend([d_u, d_v]);
    out.concat()
}

#[test]
fn draws_have_the_same_bits_on_any_number_of_threads_and_instruction_set() {
    assert_same_bits_on_any_threads("draws", all_outputs);
    assert_same_bits_on_any_level("draws", all_outputs);
}

#[test]
fn draws_refuse_operands_that_do_not_fit() {
    let bad = |log_u: usize, log_v: usize, rank: usize, out: usize| {
        let (log_u, log_v) = (vec![0.0; log_u], vec![0.0; log_v]);
        let factors = LogFactors { log_u: &log_u, log_v: &log_v, num_rows: 3, num_cols: 4, rank };
        sample::k_tied(&mut vec![0.0; out], None, factors, key()).unwrap_err().to_string()
    };
    assert_eq!(bad(0, 0, 0, 12), "k_tied: `rank` must be at least 1, got 0");
    assert_eq!(bad(5, 8, 2, 12), "k_tied: `log_u` must have length 6, got 5");
    assert_eq!(bad(6, 9, 2, 12), "k_tied: `log_v` must have length 8, got 9");
    assert_eq!(bad(6, 8, 2, 11), "k_tied: `out` must have length 12, got 11");
    assert_eq!(bad(6, 8, usize::MAX, 12), "k_tied: the product of the sizes is too large");
    let error = sample::mean_field(&mut [0.0; 2], Some(&[0.0; 3]), &[0.0; 2], ScaleForm::Log, key()).unwrap_err();
    assert_eq!(error.to_string(), "mean_field: `loc` must have length 2, got 3");
}

#[test]
fn a_nan_in_a_scale_reaches_the_weight_it_belongs_to_and_no_other() {
    let mut raw = vec![-2.0; 600];
    raw[300] = f32::NAN;
    let mut w = vec![0.0; 600];
    sample::mean_field(&mut w, None, &raw, ScaleForm::Log, key()).unwrap();
    let nans: Vec<usize> = (0..600).filter(|&i| w[i].is_nan()).collect();
    assert_eq!(nans, [300]);
}

#[test]
fn k_tied_weights_have_the_distribution_that_they_claim() {
    // 2,000 draws of a 5×7 matrix of rank 2, standardised by the exact σ, pooled: DKW, false alarm 1e-6.
    let shape @ (m, n, k) = (5, 7, 2);
    let (loc, log_u, log_v) = (random(m * n, 1), log_factor(m * k, 2), log_factor(n * k, 3));
    let scale = k_tied_scale(&to_f64(&log_u), &to_f64(&log_v), shape);
    let mut z = Vec::new();
    for step in 0..2000 {
        let mut w = vec![0.0; m * n];
        let key = NoiseKey::new(1).child(Purpose::Weights).at(step, 0);
        sample::k_tied(&mut w, Some(&loc), factors(&log_u, &log_v, shape), key).unwrap();
        z.extend(w.iter().zip(&loc).zip(&scale).map(|((w, l), s)| f64::from(w - l) / s));
    }
    z.sort_by(f64::total_cmp);
    let len = z.len() as f64;
    let cdf = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let distance = z.iter().enumerate().map(|(i, &z)| (cdf(z) - (i as f64 + 0.5) / len).abs()).fold(0.0, f64::max);
    assert!(distance < ((2.0f64 / 1e-6).ln() / (2.0 * len)).sqrt(), "{distance}");
}
