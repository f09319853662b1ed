//! Simulation-based calibration (Talts et al., 2018): weights are drawn from the prior and data from those weights; in
//! a right posterior every quantile is then as likely as any other to be where the true weight lies.

use ktied::nn::Estimator;

use super::Regression;
use crate::support::{distance_from_normal, dkw_bound, random};

const B: usize = 16;
const M: usize = 16;
/// Replications: each column of the layer is a regression of its own.
const N: usize = 600;
const STEPS: u64 = 600;
/// XᵀX/s², the precision of what the data say of a weight, for a prior N(0, 1).
const DATA_PRECISION: f64 = 3.0;

/// What the simulation and the training believe; right where all agree.
#[derive(Clone, Copy)]
struct Beliefs {
    /// Mean of the true weights, where the prior's is 0.
    centre: f64,
    /// The σₚ of training, where the true weights have 1.
    prior: f64,
    /// The N of training, where there are B examples.
    num_train: usize,
}

const RIGHT: Beliefs = Beliefs { centre: 0.0, prior: 1.0, num_train: B };

impl Beliefs {
    /// (w − μ)/σ of every true weight w, where μ and σ are found by training.
    fn simulate(self, posterior: &str) -> Vec<f64> {
        let w: Vec<f64> = random(M * N, 20).iter().map(|z| self.centre + f64::from(*z)).collect();
        let fit = self.regression(&w).fit(posterior, Estimator::Local, self.num_train, STEPS);
        w.iter().zip(fit.loc.iter().zip(&fit.scale)).map(|(w, (loc, scale))| (w - loc) / scale).collect()
    }

    /// An orthogonal design, so that the exact posterior is diagonal: rows of signs, XᵀX = B·I (Hadamard's matrix).
    fn regression(self, w: &[f64]) -> Regression {
        let sign = |b: usize, i: usize| if (b & i).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let noise_precision = DATA_PRECISION / B as f64;
        let mean = |b: usize, j: usize| (0..M).map(|i| sign(b, i) * w[i * N + j]).sum::<f64>();
        let noise = random(B * N, 21);
        let y = (0..B * N).map(|e| mean(e / N, e % N) + f64::from(noise[e]) / noise_precision.sqrt());
        Regression {
            x: (0..B * M).map(|e| sign(e / M, e % M) as f32).collect(),
            y: y.map(|y| y as f32).collect(),
            noise_precision: vec![noise_precision as f32; B * N],
            sizes: [B, M, N],
            prior: self.prior,
        }
    }

    /// E[(w − μ)²/σ²] in closed form; 1 if the beliefs are right. With t = B/num_train, training finds the precision
    /// 1/σ² = d/t + 1/σₚ² and shrinks what the data say of w, N(w, 1/d), by h = d/(d + t/σₚ²).
    fn mean_square(self) -> f64 {
        let (d, t, prior_precision) = (DATA_PRECISION, B as f64 / self.num_train as f64, self.prior.powi(-2));
        let h = d / (d + t * prior_precision);
        ((1.0 - h).powi(2) * (1.0 + self.centre.powi(2)) + h * h / d) * (d / t + prior_precision)
    }
}

/// 4.9 standard errors of the mean of `len` squares of standard normals: a false alarm of 1e-6.
fn square_bound(len: usize) -> f64 {
    4.9 * (2.0 / len as f64).sqrt()
}

/// Whether the z could be standard normals, by the whole distribution and by its width.
fn is_calibrated(z: &[f64]) -> bool {
    let width = (mean_square(z) - 1.0).abs() < square_bound(z.len());
    width && distance_from_normal(z.to_vec()) < dkw_bound(z.len())
}

fn mean_square(z: &[f64]) -> f64 {
    z.iter().map(|z| z * z).sum::<f64>() / z.len() as f64
}

#[test]
fn true_weights_fall_anywhere_in_a_right_posterior_and_elsewhere_in_a_wrong_one() {
    let wrong = [
        ("the divergence is divided by 4·N: overconfident", Beliefs { num_train: 4 * B, ..RIGHT }),
        ("the divergence is divided by N/4: underconfident", Beliefs { num_train: B / 4, ..RIGHT }),
        ("a prior half as wide: means shrunk too far", Beliefs { prior: 0.5, ..RIGHT }),
        ("a prior centred elsewhere: means biased", Beliefs { centre: 1.0, ..RIGHT }),
    ];
    // The exact scale is the same for every weight, so a k-tied posterior can have it.
    for posterior in ["mean-field", "k-tied:2"] {
        for (what, beliefs) in [("right", RIGHT)].into_iter().chain(wrong) {
            let z = beliefs.simulate(posterior);
            let (found, expected) = (mean_square(&z), beliefs.mean_square());
            let close = (found / expected - 1.0).abs() < square_bound(z.len());
            assert!(close, "{posterior}, {what}: mean square {found}, expected {expected}");
            assert_eq!(is_calibrated(&z), what == "right", "{posterior}, {what}");
        }
    }
}
