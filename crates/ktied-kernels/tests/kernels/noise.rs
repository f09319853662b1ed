//! Normals and signs by their moments, their whole distribution and their independence.
//!
//! Each bound is that of a test with a false alarm of 1e-6 or less; the streams are fixed, so a pass stays a pass.

use ktied_kernels::signs::{self, SignShape};
use ktied_kernels::{NoiseKey, Purpose, noise};

use crate::reference::{assert_same_bits_on_any_level, assert_same_bits_on_any_threads, random};

const N: usize = 1 << 20;
/// P(|Z| > 4.9) < 1e-6 for a standard normal Z.
const SIGMAS: f64 = 4.9;

fn normals(key: NoiseKey, len: usize) -> Vec<f64> {
    let mut z = vec![0.0; len];
    noise::normals(key, 0, &mut z);
    z.into_iter().map(f64::from).collect()
}

#[test]
fn normals_have_the_moments_of_the_normal_distribution() {
    let z = normals(NoiseKey::new(1).child(Purpose::Weights), N);
    let moment = |p: i32| z.iter().map(|z| z.powi(p)).sum::<f64>() / N as f64;
    // (power, expected, variance of zᵖ): 1, 2, 15, 96 = E z²ᵖ − (E zᵖ)².
    for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
        let bound = SIGMAS * f64::sqrt(variance / N as f64);
        assert!((moment(power) - expected).abs() < bound, "moment {power}: {} ± {bound}", moment(power));
    }
}

#[test]
fn normals_follow_the_normal_distribution_everywhere() {
    let mut z = normals(NoiseKey::new(2).child(Purpose::Weights), N);
    z.sort_by(f64::total_cmp);
    let cdf = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let distance = z.iter().enumerate().map(|(i, &z)| {
        let (below, above) = (i as f64 / N as f64, (i + 1) as f64 / N as f64);
        (cdf(z) - below).abs().max((cdf(z) - above).abs())
    });
    // Dvoretzky–Kiefer–Wolfowitz with Massart's constant: P(sup > d) ≤ 2 exp(−2Nd²).
    let bound = ((2.0f64 / 1e-6).ln() / (2.0 * N as f64)).sqrt();
    let distance = distance.fold(0.0, f64::max);
    assert!(distance < bound, "{distance} ≥ {bound}");
}

#[test]
fn the_tails_are_as_heavy_as_they_should_be() {
    let z = normals(NoiseKey::new(3), 16 * N);
    for limit in [3.0, 4.0, 5.0] {
        let count = z.iter().filter(|z| z.abs() > limit).count() as f64;
        let expected = z.len() as f64 * libm::erfc(limit / std::f64::consts::SQRT_2);
        let bound = SIGMAS * expected.sqrt() + 3.0;
        assert!((count - expected).abs() < bound, "beyond {limit}: {count}, expected {expected} ± {bound}");
    }
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64
}

#[test]
fn keys_that_differ_in_anything_are_uncorrelated() {
    let root = NoiseKey::new(7);
    let base = root.child(Purpose::Weights).at(5, 1);
    let others = [
        NoiseKey::new(8).child(Purpose::Weights).at(5, 1),
        root.child(Purpose::Activations).at(5, 1),
        root.child(Purpose::Weights).at(6, 1),
        root.child(Purpose::Weights).at(5, 2),
        root.child(Purpose::Weights).at(1, 5),
        root,
    ];
    let len = N / 4;
    let a = normals(base, len);
    let squares: Vec<f64> = a.iter().map(|z| z * z - 1.0).collect();
    for other in others {
        let b = normals(other, len);
        let bound = SIGMAS / (len as f64).sqrt();
        assert!(correlation(&a, &b).abs() < bound, "{other:?}");
        let b_squares: Vec<f64> = b.iter().map(|z| z * z - 1.0).collect();
        assert!(correlation(&squares, &b_squares).abs() < 2.0 * bound, "squares, {other:?}");
    }
}

#[test]
fn neighbours_within_a_stream_are_uncorrelated() {
    let z = normals(NoiseKey::new(9), N);
    let squares: Vec<f64> = z.iter().map(|z| z * z - 1.0).collect();
    // 64 and 128 apart lie the parts of one Box–Muller pair and of one Philox block.
    for lag in [1, 2, 3, 4, 63, 64, 65, 128, 192, 255, 256, 257] {
        let bound = SIGMAS / ((N - lag) as f64).sqrt();
        assert!(correlation(&z[lag..], &z[..N - lag]).abs() < bound, "lag {lag}");
        assert!(correlation(&squares[lag..], &squares[..N - lag]).abs() < 2.0 * bound, "squares, lag {lag}");
    }
}

#[test]
fn uniforms_fill_the_unit_interval_evenly() {
    let mut u = vec![0.0; N];
    noise::uniforms(NoiseKey::new(4), 0, &mut u);
    assert!(u.iter().all(|u| (0.0..1.0).contains(u)));
    u.sort_by(f32::total_cmp);
    let distance = u.iter().enumerate().map(|(i, &u)| (f64::from(u) - i as f64 / N as f64).abs()).fold(0.0, f64::max);
    assert!(distance < ((2.0f64 / 1e-6).ln() / (2.0 * N as f64)).sqrt(), "{distance}");
}

#[test]
fn noise_is_the_same_on_every_instruction_set() {
    assert_same_bits_on_any_level("normals", || random(5000, 1));
}

/// A run resumes only if its noise is the same for ever: this is what the first version made.
#[test]
fn a_long_stream_of_normals_has_the_bits_it_always_had() {
    let mut z = vec![0.0f32; N];
    noise::normals(NoiseKey::new(42).child(Purpose::Weights), 0, &mut z);
    // FNV-1a, a number at a time.
    let fold = |hash: u64, z: &f32| (hash ^ u64::from(z.to_bits())).wrapping_mul(0x100_0000_01b3);
    assert_eq!(z.iter().fold(0xcbf2_9ce4_8422_2325, fold), 0x68ef_ef7a_cadc_27af);
}

fn sign_matrix(shape: SignShape, key: NoiseKey) -> Vec<f32> {
    let len = shape.batch * shape.positions * shape.channels;
    let mut out = vec![0.0; len];
    signs::apply(&mut out, &vec![1.0; len], shape, key).unwrap();
    out
}

#[test]
fn signs_are_fair_shared_by_positions_and_independent_of_the_batch() {
    let key = NoiseKey::new(5).child(Purpose::InputSigns);
    let shape = SignShape { batch: 700, positions: 3, channels: 77 };
    let s = sign_matrix(shape, key);
    assert!(s.iter().all(|s| s.abs() == 1.0));
    for example in s.chunks(3 * 77) {
        assert_eq!(example[..77], example[77..154]);
        assert_eq!(example[..77], example[154..]);
    }
    let mean: f32 = s.iter().sum::<f32>() / s.len() as f32;
    assert!(f64::from(mean).abs() < SIGMAS / f64::sqrt((700 * 77) as f64), "{mean}");
    let first = sign_matrix(SignShape { batch: 5, ..shape }, key);
    assert_eq!(first, s[..5 * 3 * 77]);
}

#[test]
fn signs_of_examples_and_of_channels_are_uncorrelated() {
    let (batch, channels) = (2000, 64);
    let s = sign_matrix(SignShape { batch, positions: 1, channels }, NoiseKey::new(6));
    let s: Vec<f64> = s.into_iter().map(f64::from).collect();
    for lag in [1, 31, 32, 63, 64, 65, 128] {
        let pairs = s.len() - lag;
        assert!(correlation(&s[lag..], &s[..pairs]).abs() < SIGMAS / (pairs as f64).sqrt(), "lag {lag}");
    }
}

#[test]
fn signs_undo_themselves_and_add_what_they_apply() {
    let shape = SignShape { batch: 9, positions: 5, channels: 33 };
    let (x, key) = (random(9 * 5 * 33, 1), NoiseKey::new(8));
    let (mut once, mut twice) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    signs::apply(&mut once, &x, shape, key).unwrap();
    signs::apply(&mut twice, &once, shape, key).unwrap();
    assert_eq!(twice, x);
    let mut sum = vec![1.0; x.len()];
    signs::add(&mut sum, &x, shape, key).unwrap();
    let expected: Vec<f32> = once.iter().map(|s| 1.0 + s).collect();
    assert_eq!(sum, expected);
    assert_same_bits_on_any_level("signs", || sign_matrix(shape, key));
    let large = SignShape { batch: 500, positions: 3, channels: 77 };
    assert_same_bits_on_any_threads("signs", || sign_matrix(large, key));
}

#[test]
fn signs_refuse_lengths_that_do_not_fit() {
    let shape = SignShape { batch: 2, positions: 3, channels: 4 };
    let error = signs::apply(&mut [0.0; 24], &[0.0; 23], shape, NoiseKey::new(1)).unwrap_err();
    assert_eq!(error.to_string(), "signs: `x` must have length 24, got 23");
    let huge = SignShape { batch: usize::MAX, positions: 2, channels: 1 };
    assert!(signs::apply(&mut [], &[], huge, NoiseKey::new(1)).is_err());
    for empty in [[0, 3, 4], [2, 0, 4], [2, 3, 0]] {
        let [batch, positions, channels] = empty;
        signs::apply(&mut [], &[], SignShape { batch, positions, channels }, NoiseKey::new(1)).unwrap();
    }
}
