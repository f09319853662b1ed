//! What these tests share: seeded posteriors, and comparisons.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use ktied::posterior::{Family, Posterior, PosteriorKind, ScaleInit, WeightInit};
use ktied::{NoiseKey, Purpose, noise};

pub fn key(step: u64) -> NoiseKey {
    NoiseKey::new(5).child(Purpose::Weights).at(step, 0)
}

/// A family with first values whose scales differ visibly.
pub fn family(kind: &str, shape: [usize; 2]) -> Family {
    family_with(kind, shape, ScaleInit { scale: 0.3, ..ScaleInit::default() })
}

pub fn family_with(kind: &str, shape: [usize; 2], scale: ScaleInit) -> Family {
    let kind: PosteriorKind = kind.parse().unwrap();
    let device = Device::flex().autodiff();
    let init = WeightInit::he(shape[0], scale, NoiseKey::new(1).child(Purpose::Init), &device);
    Family::new(kind, "test", shape, init).unwrap()
}

/// Standard normals of a seed.
pub fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    noise::normals(NoiseKey::new(seed).child(Purpose::Synthetic), 0, &mut values);
    values
}

pub fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Every element within `tolerance` of the largest expected magnitude.
pub fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    let largest = expected.iter().fold(1e-12, |m: f64, e| m.max(e.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * largest, "{what}: element {i} is {f}, expected {e}");
    }
}

fn cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// Largest distance between the empirical and the standard normal distribution function.
pub fn distance_from_normal(mut z: Vec<f64>) -> f64 {
    z.sort_by(f64::total_cmp);
    let len = z.len() as f64;
    z.iter().enumerate().map(|(i, &z)| (cdf(z) - (i as f64 + 0.5) / len).abs()).fold(0.0, f64::max)
}

/// Dvoretzky–Kiefer–Wolfowitz: what [`distance_from_normal`] of `len` standard normals exceeds once in a million times.
pub fn dkw_bound(len: usize) -> f64 {
    ((2.0f64 / 1e-6).ln() / (2.0 * len as f64)).sqrt()
}

/// The same posterior with nothing but the methods that the trait provides.
#[derive(Debug, Module)]
pub struct Plain {
    pub inner: Family,
}

impl Posterior for Plain {
    fn loc(&self) -> Tensor<2> {
        self.inner.loc()
    }

    fn scale(&self) -> Option<Tensor<2>> {
        self.inner.scale()
    }
}
