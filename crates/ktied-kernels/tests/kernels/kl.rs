//! Divergences against their definition in double precision, known values, and central differences.

use ktied_kernels::kl::{self, FactorGrads, MeanFieldGrads, Prior};
use ktied_kernels::{NoiseKey, ScaleForm, noise};

use crate::reference::{
    assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, central_difference, random, to_f64,
};
use crate::sample::{SHAPES, factors, k_tied_scale, log_factor, scale_of};

/// Σ ln(σₚ/σ) + (σ² + (μ − μₚ)²)/(2σₚ²) − ½
fn definition(loc: &[f64], prior_loc: &[f64], scale: &[f64], prior_scale: f64) -> f64 {
    let terms = loc.iter().zip(prior_loc).zip(scale).map(|((l, p), s)| {
        (prior_scale / s).ln() + (s * s + (l - p) * (l - p)) / (2.0 * prior_scale * prior_scale) - 0.5
    });
    terms.sum()
}

fn assert_relative(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance * expected.abs().max(1.0), "{what}: {found}, expected {expected}");
}

#[test]
fn the_mean_field_kl_is_its_definition() {
    for form in [ScaleForm::Log, ScaleForm::Softplus] {
        for len in [0, 1, 255, 257, 50_001] {
            let (loc, raw, center) = (random(len, 1), log_factor(len, 2), random(len, 3));
            let scale: Vec<f64> = raw.iter().map(|&r| scale_of(form, f64::from(r))).collect();
            for prior_loc in [None, Some(&center[..])] {
                let prior = Prior { loc: prior_loc, scale: 0.3 };
                let found = kl::mean_field(&loc, &raw, form, prior).unwrap();
                let center = prior_loc.map_or(vec![0.0; len], to_f64);
                let expected = definition(&to_f64(&loc), &center, &scale, f64::from(0.3f32));
                assert_relative(found, expected, 2e-7, &format!("{form:?}, {len}"));
            }
        }
    }
}

#[test]
fn the_k_tied_kl_is_its_definition_at_every_rank() {
    for shape in SHAPES.into_iter().chain([(100, 411, 3), (300, 60, 1)]) {
        let (m, n, k) = shape;
        let (loc, center) = (random(m * n, 1), random(m * n, 5));
        let (log_u, log_v) = (log_factor(m * k, 2), log_factor(n * k, 3));
        let scale = k_tied_scale(&to_f64(&log_u), &to_f64(&log_v), shape);
        let prior = Prior { loc: Some(&center), scale: 0.2 };
        let found = kl::k_tied(&loc, factors(&log_u, &log_v, shape), prior, None).unwrap();
        let expected = definition(&to_f64(&loc), &to_f64(&center), &scale, f64::from(0.2f32));
        assert_relative(found, expected, 3e-7, &format!("{shape:?}"));
    }
}

#[test]
fn kl_is_zero_where_posterior_and_prior_agree() {
    let (m, n) = (6, 50);
    let log_scale = 0.25f32.ln();
    let prior = Prior { loc: None, scale: 0.25 };
    let loc = vec![0.0; m * n];
    let mean_field = kl::mean_field(&loc, &vec![log_scale; m * n], ScaleForm::Log, prior).unwrap();
    assert!(mean_field.abs() < 1e-4, "{mean_field}");
    for k in 1..4 {
        let log = 0.5 * (log_scale - (k as f32).ln());
        let (log_u, log_v) = (vec![log; m * k], vec![log; n * k]);
        let k_tied = kl::k_tied(&loc, factors(&log_u, &log_v, (m, n, k)), prior, None).unwrap();
        assert!(k_tied.abs() < 1e-4, "rank {k}: {k_tied}");
    }
}

#[test]
fn the_k_tied_kl_equals_the_mean_field_kl_of_the_same_scales() {
    let shape @ (m, n, k) = (37, 53, 2);
    let (loc, log_u, log_v) = (random(m * n, 1), log_factor(m * k, 2), log_factor(n * k, 3));
    let scale = k_tied_scale(&to_f64(&log_u), &to_f64(&log_v), shape);
    let raw: Vec<f32> = scale.iter().map(|s| s.ln() as f32).collect();
    let prior = Prior { loc: None, scale: 0.3 };
    let mean_field = kl::mean_field(&loc, &raw, ScaleForm::Log, prior).unwrap();
    let k_tied = kl::k_tied(&loc, factors(&log_u, &log_v, shape), prior, None).unwrap();
    assert_relative(k_tied, mean_field, 1e-6, "k-tied against mean-field");
}

#[test]
fn kl_matches_a_monte_carlo_estimate() {
    // E_q[ln q − ln p] over S draws of one 4×6 matrix; the bound is 4.9 standard errors of that very estimate.
    let shape @ (m, n, k) = (4, 6, 2);
    let (loc, log_u, log_v) = (random(m * n, 1), log_factor(m * k, 2), log_factor(n * k, 3));
    let scale = k_tied_scale(&to_f64(&log_u), &to_f64(&log_v), shape);
    let prior_scale = f64::from(0.4f32);
    let num_draws = 40_000;
    let mut eps = vec![0.0; m * n * num_draws];
    noise::normals(NoiseKey::new(21), 0, &mut eps);
    let log_ratio = |eps: &[f32]| -> f64 {
        let terms = eps.iter().zip(&loc).zip(&scale).map(|((&e, &l), s)| {
            let (e, w) = (f64::from(e), f64::from(l) + s * f64::from(e));
            (prior_scale / s).ln() - 0.5 * e * e + 0.5 * (w / prior_scale).powi(2)
        });
        terms.sum()
    };
    let draws: Vec<f64> = eps.chunks(m * n).map(log_ratio).collect();
    let mean = draws.iter().sum::<f64>() / num_draws as f64;
    let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (num_draws - 1) as f64;
    let bound = 4.9 * (variance / num_draws as f64).sqrt();
    let prior = Prior { loc: None, scale: 0.4 };
    let found = kl::k_tied(&loc, factors(&log_u, &log_v, shape), prior, None).unwrap();
    assert!((found - mean).abs() < bound, "{found}, estimated {mean} ± {bound}");
}

#[test]
fn the_gradients_of_the_mean_field_kl_match_central_differences() {
    for form in [ScaleForm::Log, ScaleForm::Softplus] {
        let len = 270;
        let (loc, raw, center) = (random(len, 1), log_factor(len, 2), random(len, 3));
        let (mut d_loc, mut d_raw) = (vec![0.0; len], vec![0.0; len]);
        let prior = Prior { loc: Some(&center), scale: 0.3 };
        let grads = MeanFieldGrads { loc: &mut d_loc, raw_scale: &mut d_raw };
        kl::mean_field_backward(grads, &loc, &raw, form, prior, 2.5).unwrap();
        d_loc.iter_mut().chain(&mut d_raw).for_each(|d| *d /= 2.5);
        let (loc, raw, center, prior_scale) = (to_f64(&loc), to_f64(&raw), to_f64(&center), f64::from(0.3f32));
        let scale = |raw: &[f64]| raw.iter().map(|&r| scale_of(form, r)).collect::<Vec<_>>();
        let by_loc = central_difference(&mut |l| definition(l, &center, &scale(&raw), prior_scale), &loc, 1e-5);
        let by_raw = central_difference(&mut |r| definition(&loc, &center, &scale(r), prior_scale), &raw, 1e-5);
        assert_close(&d_loc, &by_loc, 1e-6, 1e-7, "d_loc");
        assert_close(&d_raw, &by_raw, 1e-6, 1e-7, "d_raw");
    }
}

#[test]
fn the_gradients_of_the_k_tied_kl_match_central_differences() {
    for shape in SHAPES {
        let (m, n, k) = shape;
        let (loc, log_u, log_v) = (random(m * n, 1), log_factor(m * k, 2), log_factor(n * k, 3));
        let (mut d_loc, mut d_u, mut d_v) = (vec![0.0; m * n], vec![0.0; m * k], vec![0.0; n * k]);
        let prior = Prior { loc: None, scale: 0.2 };
        let grads = FactorGrads { log_u: &mut d_u, log_v: &mut d_v };
        let value = kl::k_tied(&loc, factors(&log_u, &log_v, shape), prior, Some(grads)).unwrap();
        assert_eq!(value, kl::k_tied(&loc, factors(&log_u, &log_v, shape), prior, None).unwrap(), "{shape:?}");
        kl::loc_backward(&mut d_loc, &loc, prior, -3.0).unwrap();
        let (loc, u, v, zero) = (to_f64(&loc), to_f64(&log_u), to_f64(&log_v), vec![0.0; m * n]);
        let kl = |u: &[f64], v: &[f64]| definition(&loc, &zero, &k_tied_scale(u, v, shape), f64::from(0.2f32));
        let by_u = central_difference(&mut |u| kl(u, &v), &u, 1e-5);
        let by_v = central_difference(&mut |v| kl(&u, v), &v, 1e-5);
        assert_close(&d_u, &by_u, 2e-6, 1e-6, &format!("d_log_u {shape:?}"));
        assert_close(&d_v, &by_v, 2e-6, 1e-6, &format!("d_log_v {shape:?}"));
        let by_loc: Vec<f64> = loc.iter().map(|l| -3.0 * l / f64::from(0.2f32).powi(2)).collect();
        assert_close(&d_loc, &by_loc, 1e-6, 0.0, "d_loc");
    }
}

/// `there` with `more` added, each element by one addition.
fn added(there: &[f32], more: &[f32]) -> Vec<f32> {
    there.iter().zip(more).map(|(t, m)| t + m).collect()
}

#[test]
fn gradients_of_the_mean_field_kl_are_added_to_those_that_are_there_bit_for_bit() {
    for form in [ScaleForm::Log, ScaleForm::Softplus] {
        for len in [0, 1, 255, 257, 50_001] {
            let (loc, raw, center) = (random(len, 1), log_factor(len, 2), random(len, 3));
            for prior_loc in [None, Some(&center[..])] {
                let prior = Prior { loc: prior_loc, scale: 0.3 };
                let (mut own_loc, mut own_raw) = (vec![0.0; len], vec![0.0; len]);
                let grads = MeanFieldGrads { loc: &mut own_loc, raw_scale: &mut own_raw };
                kl::mean_field_backward(grads, &loc, &raw, form, prior, 0.7).unwrap();
                let [there_loc, there_raw] = [4, 5].map(|seed| random(len, seed));
                let (mut d_loc, mut d_raw) = (there_loc.clone(), there_raw.clone());
                let grads = MeanFieldGrads { loc: &mut d_loc, raw_scale: &mut d_raw };
                let value = kl::add_mean_field(grads, &loc, &raw, form, prior, 0.7).unwrap();
                assert_eq!(value, kl::mean_field(&loc, &raw, form, prior).unwrap(), "{form:?} {len}");
                assert_eq!(d_loc, added(&there_loc, &own_loc), "{form:?} {len}");
                assert_eq!(d_raw, added(&there_raw, &own_raw), "{form:?} {len}");
            }
        }
    }
}

#[test]
fn gradients_of_the_k_tied_kl_are_added_to_those_that_are_there_bit_for_bit() {
    for shape in SHAPES.into_iter().chain([(100, 411, 3), (300, 60, 1)]) {
        let (m, n, k) = shape;
        let (loc, center) = (random(m * n, 1), random(m * n, 6));
        let (log_u, log_v) = (log_factor(m * k, 2), log_factor(n * k, 3));
        let prior = Prior { loc: Some(&center), scale: 0.2 };
        let (mut own_loc, mut own_u, mut own_v) = (vec![0.0; m * n], vec![0.0; m * k], vec![0.0; n * k]);
        let grads = FactorGrads { log_u: &mut own_u, log_v: &mut own_v };
        let expected = kl::k_tied(&loc, factors(&log_u, &log_v, shape), prior, Some(grads)).unwrap();
        kl::loc_backward(&mut own_loc, &loc, prior, -1.3).unwrap();
        own_u.iter_mut().chain(&mut own_v).for_each(|d| *d *= -1.3);
        let [there_loc, there_u, there_v] = [(m * n, 7), (m * k, 8), (n * k, 9)].map(|(len, seed)| random(len, seed));
        let (mut d_loc, mut d_u, mut d_v) = (there_loc.clone(), there_u.clone(), there_v.clone());
        let grads = FactorGrads { log_u: &mut d_u, log_v: &mut d_v };
        let value = kl::add_k_tied(&mut d_loc, grads, &loc, factors(&log_u, &log_v, shape), prior, -1.3).unwrap();
        assert_eq!(value, expected, "{shape:?}");
        assert_eq!(d_loc, added(&there_loc, &own_loc), "{shape:?}");
        assert_eq!((d_u, d_v), (added(&there_u, &own_u), added(&there_v, &own_v)), "{shape:?}");
    }
}

fn all_outputs() -> Vec<f32> {
    let shape @ (m, n, k) = (150, 333, 3);
    let (loc, raw) = (random(m * n, 1), log_factor(m * n, 2));
    let (log_u, log_v) = (log_factor(m * k, 4), log_factor(n * k, 5));
    let prior = Prior { loc: None, scale: 0.3 };
    let (mut d_loc, mut d_raw) = (vec![0.0; m * n], vec![0.0; m * n]);
    let (mut d_u, mut d_v) = (vec![0.0; m * k], vec![0.0; n * k]);
    let grads = MeanFieldGrads { loc: &mut d_loc, raw_scale: &mut d_raw };
    kl::mean_field_backward(grads, &loc, &raw, ScaleForm::Softplus, prior, 0.7).unwrap();
    let mean_field = kl::mean_field(&loc, &raw, ScaleForm::Softplus, prior).unwrap();
    let grads = FactorGrads { log_u: &mut d_u, log_v: &mut d_v };
    let k_tied = kl::k_tied(&loc, factors(&log_u, &log_v, shape), prior, Some(grads)).unwrap();
    let words =
        [mean_field, k_tied].map(|v| [f32::from_bits(v.to_bits() as u32), f32::from_bits((v.to_bits() >> 32) as u32)]);
    [d_loc, d_raw, d_u, d_v, words.concat()].concat()
}

#[test]
fn divergences_have_the_same_bits_on_any_number_of_threads_and_instruction_set() {
    assert_same_bits_on_any_threads("kl", all_outputs);
    assert_same_bits_on_any_level("kl", all_outputs);
}

#[test]
fn kl_refuses_operands_that_do_not_fit_and_shows_a_nan() {
    let prior = Prior { loc: None, scale: 1.0 };
    let error = kl::mean_field(&[0.0; 2], &[0.0; 3], ScaleForm::Log, prior).unwrap_err();
    assert_eq!(error.to_string(), "kl_mean_field: `raw_scale` must have length 2, got 3");
    let prior_loc = Prior { loc: Some(&[0.0]), scale: 1.0 };
    let error = kl::mean_field(&[0.0; 2], &[0.0; 2], ScaleForm::Log, prior_loc).unwrap_err();
    assert_eq!(error.to_string(), "kl_mean_field: `prior.loc` must have length 2, got 1");
    let (mut d_u, log_u, log_v) = (vec![0.0; 5], vec![0.0; 6], vec![0.0; 8]);
    let grads = FactorGrads { log_u: &mut d_u, log_v: &mut [0.0; 8] };
    let error = kl::k_tied(&[0.0; 12], factors(&log_u, &log_v, (3, 4, 2)), prior, Some(grads)).unwrap_err();
    assert_eq!(error.to_string(), "kl_k_tied: `grads.log_u` must have length 6, got 5");
    let grads = MeanFieldGrads { loc: &mut [0.0; 2], raw_scale: &mut [0.0; 3] };
    let error = kl::add_mean_field(grads, &[0.0; 2], &[0.0; 2], ScaleForm::Log, prior, 1.0).unwrap_err();
    assert_eq!(error.to_string(), "kl_add_mean_field: `grads.raw_scale` must have length 2, got 3");
    let grads = FactorGrads { log_u: &mut [0.0; 6], log_v: &mut [0.0; 8] };
    let tied = factors(&log_u, &log_v, (3, 4, 2));
    let error = kl::add_k_tied(&mut [0.0; 11], grads, &[0.0; 12], tied, prior, 1.0).unwrap_err();
    assert_eq!(error.to_string(), "kl_add_k_tied: `d_loc` must have length 12, got 11");
    let error = kl::loc_backward(&mut [0.0; 3], &[0.0; 2], prior, 1.0).unwrap_err();
    assert_eq!(error.to_string(), "kl_loc_backward: `d_loc` must have length 2, got 3");
    let log_u = [f32::NAN; 6];
    assert!(kl::k_tied(&[0.0; 12], factors(&log_u, &log_v, (3, 4, 2)), prior, None).unwrap().is_nan());
    assert!(kl::mean_field(&[f32::NAN], &[0.0], ScaleForm::Softplus, prior).unwrap().is_nan());
    assert!(kl::mean_field(&[0.0], &[f32::NAN], ScaleForm::Softplus, prior).unwrap().is_nan());
}
