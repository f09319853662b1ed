//! What the tests measure with: seeded data, derivatives by central differences, comparisons with a stated tolerance.
#![allow(dead_code, reason = "each test module takes what it needs")]

use std::sync::Mutex;

use ktied_kernels::simd::{self, Level};
use ktied_kernels::{NoiseKey, Purpose, noise};

/// Standard normals of a seed.
pub fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    noise::normals(NoiseKey::new(seed).child(Purpose::Synthetic), 0, &mut values);
    values
}

pub fn to_f64(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// Standard normals of a seed, in double precision for references.
pub fn random_f64(len: usize, seed: u64) -> Vec<f64> {
    to_f64(&random(len, seed))
}

/// Σ aᵢbᵢ: a random linear functional of an output, whose gradient is what a backward kernel is given.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// ∂f/∂xᵢ ≈ (f(x + h·eᵢ) − f(x − h·eᵢ))/2h for every i.
///
/// In double precision with h = 1e-5 and values around 1 the error is about 1e-10: truncation h² plus rounding ε/h.
pub fn central_difference(f: &mut dyn FnMut(&[f64]) -> f64, at: &[f64], h: f64) -> Vec<f64> {
    let mut x = at.to_vec();
    let mut slope = |i: usize| {
        x[i] = at[i] + h;
        let above = f(&x);
        x[i] = at[i] - h;
        let below = f(&x);
        x[i] = at[i];
        (above - below) / (2.0 * h)
    };
    (0..at.len()).map(&mut slope).collect()
}

/// Every element within `rel_tol` of the largest expected magnitude, plus `abs_tol`.
///
/// The largest magnitude sets the scale because a sum that cancels is as inexact as its terms are large.
pub fn assert_close(found: &[f32], expected: &[f64], rel_tol: f64, abs_tol: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    let largest = expected.iter().filter(|e| e.is_finite()).fold(0.0, |m: f64, e| m.max(e.abs()));
    let tolerance = rel_tol * largest + abs_tol;
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let equal = (f64::from(f) - e).abs() <= tolerance || f64::from(f) == e || (f.is_nan() && e.is_nan());
        assert!(equal, "{what}: element {i} is {f}, expected {e} ± {tolerance:.1e}");
    }
}

/// Runs `f` in a rayon pool of `num_threads`.
pub fn with_threads<T: Send>(num_threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(num_threads).build().expect("a pool of threads").install(f)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// The same bits from `f` on 1, 2 and 4 threads.
pub fn assert_same_bits_on_any_threads(what: &str, f: impl Fn() -> Vec<f32> + Sync) {
    let one = bits(&with_threads(1, &f));
    for num_threads in [2, 4] {
        assert!(one == bits(&with_threads(num_threads, &f)), "{what}: {num_threads} threads give other bits than one");
    }
}

/// The same bits from `f` on every instruction set. For kernels without a matrix product.
pub fn assert_same_bits_on_any_level(what: &str, f: impl Fn() -> Vec<f32>) {
    // The level belongs to the process: two tests at once would only compare a level with itself.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    simd::select(Level::Baseline);
    let narrow = bits(&f());
    for level in [Level::Avx2, Level::Avx512] {
        let level = simd::select(level);
        assert!(narrow == bits(&f()), "{what}: {level:?} gives other bits than the baseline");
    }
}

/// a·b in double precision, a: [rows, inner], b: [inner, cols].
pub fn matmul(a: &[f64], b: &[f64], rows: usize, inner: usize, cols: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows * cols];
    for i in 0..rows {
        for k in 0..inner {
            for j in 0..cols {
                out[i * cols + j] += a[i * inner + k] * b[k * cols + j];
            }
        }
    }
    out
}
