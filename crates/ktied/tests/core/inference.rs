//! Inference where the answer is known: Bayesian linear regression, whose best diagonal Gaussian has a closed form.

mod calibration;
mod rank;

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied::Activation;
use ktied::nn::{Estimator, LayerConfig, Linear, LinearConfig, Pass};
use ktied::objective::Elbo;
use ktied::posterior::{Posterior, ScaleInit};
use ktied::prior::PriorRule;
use ktied::train::AdamConfig;

use crate::support::{assert_close, host, random};

/// Linear regression of M inputs and N outputs with noise of known precision and prior N(0, prior²) on every weight.
struct Regression {
    /// `[B, M]`
    x: Vec<f32>,
    /// `[B, N]`
    y: Vec<f32>,
    /// 1/s² of every observation, `[B, N]`.
    noise_precision: Vec<f32>,
    /// B, M, N
    sizes: [usize; 3],
    prior: f64,
}

/// Means and scales, `[M, N]`.
struct Fit {
    loc: Vec<f64>,
    scale: Vec<f64>,
}

impl Regression {
    /// Trains with a data set that the objective believes to have `num_train` examples, and averages the last half of
    /// the steps, in which the noise of the gradient cancels out (Polyak and Juditsky, 1992).
    fn fit(&self, posterior: &str, estimator: Estimator, num_train: usize, num_steps: u64) -> Fit {
        let [b, m, n] = self.sizes;
        let matrix = |values: &[f32], cols| Tensor::<1>::from_floats(values, &Device::flex()).reshape([b, cols]);
        let (x, y, noise_precision) = (matrix(&self.x, m), matrix(&self.y, n), matrix(&self.noise_precision, n));
        let mut layer = self.layer(posterior);
        let (mut optimizer, elbo) = (AdamConfig::new().init(), Elbo::new(num_train).unwrap());
        let [mut loc, mut scale] = [(); 2].map(|()| Tensor::<2>::zeros([m, n], &Device::flex()));
        for step in 0..num_steps {
            let mean = layer.forward(x.clone(), &Pass::sampled(1, step, estimator)).unwrap();
            let nll = ((mean - y.clone()).square() * noise_precision.clone()).sum() / (2.0 * b as f64);
            let loss = elbo.loss(nll, layer.weights.kl().unwrap(), 1.0);
            let grads = GradientsParams::from_grads(loss.backward(), &layer);
            layer = optimizer.step(0.03 / (1.0 + step as f64 / 150.0), layer, grads);
            if step >= num_steps / 2 {
                loc = loc + layer.weights.kernel.loc().inner();
                scale = scale + layer.weights.kernel.scale().unwrap().inner();
            }
        }
        let mean = |sum| host(sum / (num_steps - num_steps / 2) as f64);
        Fit { loc: mean(loc), scale: mean(scale) }
    }

    fn layer(&self, posterior: &str) -> Linear {
        let [_, inputs, outputs] = self.sizes;
        let (scale, prior) = (ScaleInit { scale: 0.1, ..Default::default() }, PriorRule::Normal { scale: self.prior });
        let layer = LayerConfig { bias: None, scale, prior, ..LayerConfig::new("w", 0, posterior.parse().unwrap()) };
        let config = LinearConfig { inputs, outputs, activation: Activation::Identity, layer };
        config.init(&Device::flex().autodiff()).unwrap()
    }
}

const B: usize = 60;
const M: usize = 6;
const N: usize = 3;
const NOISE: f64 = 0.5;
const PRIOR: f64 = 0.7;
const STEPS: u64 = 5000;

/// Correlated inputs, and outputs of a random linear map with noise of variance 0.25.
fn correlated() -> Regression {
    let (z, w, e) = (random(B * M, 1), random(M * N, 2), random(B * N, 3));
    let x: Vec<f32> = (0..B * M).map(|i| z[i] + 0.5 * z[i - i % M]).collect();
    let mean = |b: usize, j: usize| (0..M).map(|i| x[b * M + i] * w[i * N + j]).sum::<f32>();
    let y = (0..B * N).map(|i| mean(i / N, i % N) + NOISE as f32 * e[i]).collect();
    let noise_precision = vec![(NOISE * NOISE).recip() as f32; B * N];
    Regression { x, y, noise_precision, sizes: [B, M, N], prior: PRIOR }
}

/// Solves a·x = b for a symmetric positive matrix by elimination, b having N columns.
fn solve(mut a: Vec<f64>, mut b: Vec<f64>) -> Vec<f64> {
    for pivot in 0..M {
        for row in (0..M).filter(|&row| row != pivot) {
            let factor = a[row * M + pivot] / a[pivot * M + pivot];
            (0..M).for_each(|j| a[row * M + j] -= factor * a[pivot * M + j]);
            (0..N).for_each(|j| b[row * N + j] -= factor * b[pivot * N + j]);
        }
    }
    (0..M * N).map(|i| b[i] / a[i / N * M + i / N]).collect()
}

/// The exact posterior's means, and the scales of the diagonal Gaussian closest to it in KL(q‖p): with precision
/// Λ = XᵀX/s² + I/σₚ², means Λ⁻¹Xᵀy/s² and variances 1/Λᵢᵢ.
fn closed_form(Regression { x, y, .. }: &Regression) -> Fit {
    let at = |v: &[f32], row: usize, col: usize, cols: usize| f64::from(v[row * cols + col]);
    let precision = |i, j| {
        let gram: f64 = (0..B).map(|b| at(x, b, i, M) * at(x, b, j, M)).sum();
        gram / (NOISE * NOISE) + if i == j { 1.0 / (PRIOR * PRIOR) } else { 0.0 }
    };
    let a: Vec<f64> = (0..M * M).map(|e| precision(e / M, e % M)).collect();
    let moment = |i, j| (0..B).map(|b| at(x, b, i, M) * at(y, b, j, N)).sum::<f64>() / (NOISE * NOISE);
    let scale = (0..M * N).map(|e| 1.0 / a[e / N * M + e / N].sqrt()).collect();
    Fit { loc: solve(a, (0..M * N).map(|e| moment(e / N, e % N)).collect()), scale }
}

#[test]
fn linear_regression_recovers_the_closed_form_under_every_posterior_and_estimator() {
    let regression = correlated();
    let exact = closed_form(&regression);
    // σ depends on the input alone, so it has rank 1 and every family can represent it.
    for posterior in ["mean-field", "k-tied:1", "k-tied:2", "matrix-normal"] {
        // The noisier the gradient of a scale, the farther 5,000 steps leave it: local noise is the calmest.
        for (estimator, tolerance) in
            [(Estimator::Reparam, 0.15), (Estimator::Flipout, 0.05), (Estimator::Local, 0.015)]
        {
            let found = regression.fit(posterior, estimator, B, STEPS);
            assert_close(&format!("{posterior} {estimator}: loc"), &found.loc, &exact.loc, 0.01);
            assert_close(&format!("{posterior} {estimator}: scale"), &found.scale, &exact.scale, tolerance);
        }
    }
}

#[test]
fn a_wrong_number_of_examples_is_a_wrong_posterior() {
    let regression = correlated();
    let (exact, found) = (closed_form(&regression), regression.fit("mean-field", Estimator::Local, 4 * B, STEPS));
    let ratio = found.scale.iter().sum::<f64>() / exact.scale.iter().sum::<f64>();
    // A quarter of the divergence: variances shrink to about a quarter, scales to about a half.
    assert!((0.4..0.6).contains(&ratio), "{ratio}");
}
