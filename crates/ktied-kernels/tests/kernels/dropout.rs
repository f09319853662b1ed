//! Dropout's masks by their frequency, their scale, their independence and their bits.

use ktied_kernels::dropout::{self, DropoutRate};
use ktied_kernels::{NoiseKey, Purpose};

use crate::reference::{assert_same_bits_on_any_level, assert_same_bits_on_any_threads, random};

const N: usize = 1 << 20;
/// P(|Z| > 4.9) < 1e-6 for a standard normal Z.
const SIGMAS: f64 = 4.9;

fn rate(p: f64) -> DropoutRate {
    DropoutRate::new(p).unwrap()
}

fn key(step: u64, layer: u64) -> NoiseKey {
    NoiseKey::new(5).child(Purpose::Dropout).at(step, layer)
}

fn apply(x: &[f32], p: f64, key: NoiseKey) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len()];
    dropout::apply(&mut out, x, rate(p), (key, 0)).unwrap();
    out
}

fn mask(len: usize, p: f64, key: NoiseKey) -> Vec<f32> {
    apply(&vec![1.0; len], p, key)
}

#[test]
fn zeros_are_as_frequent_as_the_rate_says_and_the_rest_makes_up_for_them() {
    for p in [0.01, 0.1, 0.25, 0.5, 0.9] {
        let mask = mask(N, p, key(3, 1));
        let scale = (1.0 / (1.0 - p)) as f32;
        assert!(mask.iter().all(|m| *m == 0.0 || *m == scale), "{p}");
        let share = mask.iter().filter(|m| **m == 0.0).count() as f64 / N as f64;
        // A binomial share of N has the standard deviation √(p(1 − p)/N).
        let bound = SIGMAS * (p * (1.0 - p) / N as f64).sqrt();
        assert!((share - p).abs() < bound, "{p}: {share} ± {bound}");
        // The mean of the mask is that share in other words: 1 ± bound/(1 − p).
        let mean = mask.iter().map(|m| f64::from(*m)).sum::<f64>() / N as f64;
        assert!((mean - 1.0).abs() < bound / (1.0 - p) + 1e-7, "{p}: {mean}");
    }
}

#[test]
fn a_rate_of_zero_gives_back_every_bit() {
    let x = random(5000, 1);
    assert_eq!(apply(&x, 0.0, key(0, 0)), x);
}

fn correlation(a: &[f32], b: &[f32]) -> f64 {
    // Of masks at ½, which are 0 or 2.
    a.iter().zip(b).map(|(a, b)| f64::from(a - 1.0) * f64::from(b - 1.0)).sum::<f64>() / a.len() as f64
}

#[test]
fn masks_of_other_steps_layers_and_places_are_independent() {
    let bound = SIGMAS / (N as f64).sqrt();
    let first = mask(N, 0.5, key(3, 1));
    for other in [key(4, 1), key(3, 2), key(1, 3), NoiseKey::new(6).child(Purpose::Dropout).at(3, 1)] {
        let other = mask(N, 0.5, other);
        assert!(correlation(&first, &other).abs() < bound);
    }
    for lag in [1, 2, 4, 64, 128, 256] {
        let pairs = N - lag;
        assert!(correlation(&first[lag..], &first[..pairs]).abs() < SIGMAS / (pairs as f64).sqrt(), "lag {lag}");
    }
}

#[test]
fn a_mask_does_not_depend_on_what_comes_after_it() {
    let whole = mask(40_000, 0.3, key(1, 1));
    for len in [0, 1, 255, 256, 257, 16_384, 16_385] {
        assert_eq!(mask(len, 0.3, key(1, 1)), whole[..len], "{len}");
    }
}

#[test]
fn masks_have_the_same_bits_on_every_level_and_any_number_of_threads() {
    let x = random(100_000, 2);
    assert_same_bits_on_any_level("dropout", || apply(&x, 0.3, key(1, 1)));
    assert_same_bits_on_any_threads("dropout", || apply(&x, 0.3, key(1, 1)));
}

#[test]
fn numbers_that_are_not_finite_stay_visible() {
    assert!(apply(&[f32::NAN; 64], 0.5, key(0, 0)).iter().all(|y| y.is_nan()));
}

#[test]
fn rates_that_are_none_and_lengths_that_differ_are_refused() {
    for bad in [1.0, 1.5, -0.1, f64::NAN, f64::INFINITY, -f64::INFINITY] {
        assert!(DropoutRate::new(bad).is_none(), "{bad}");
    }
    // The largest that there is still scales by a finite number.
    assert!(rate(1.0 - f64::EPSILON / 2.0).scale().is_finite());
    let error = dropout::apply(&mut [0.0; 3], &[0.0; 4], rate(0.5), (key(0, 0), 0)).unwrap_err();
    assert_eq!(error.to_string(), "dropout: `out` must have length 4, got 3");
}
