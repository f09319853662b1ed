//! The signal-to-noise ratio of the gradients of standard deviations.
//!
//! The ratio E\[g²\]/Var\[g\] does not change when g is multiplied with a constant, so it is the same for a scale stored as
//! its logarithm and, as long as that scale hardly moves within ten batches, for one stored through a softplus.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use serde::Serialize;

use super::optim::LearningRates;
use crate::checkpoint::path::{ModulePath, tracks_path};

/// Batches that one ratio is made of.
const WINDOW: u64 = 10;

/// E\[g²\]/Var\[g\] over ten batches, for the parameters of one tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Snr {
    /// Path of the tensor.
    pub tensor: String,
    /// Mean over its parameters.
    pub mean: f64,
    /// Median over its parameters.
    pub median: f64,
}

/// Gradients of the scale parameters since the last multiple of ten steps.
#[derive(Debug, Default)]
pub(super) struct SnrWindow {
    count: u64,
    sums: BTreeMap<String, Vec<[f64; 2]>>,
    full: Vec<Snr>,
}

impl SnrWindow {
    /// Takes in the gradients of a step. Windows end at multiples of ten steps, so that a run that was interrupted has
    /// the same ones as an unbroken one, but for the one it was interrupted in.
    pub(super) fn push<M: Module>(&mut self, module: &M, grads: &GradientsParams, step: u64) {
        let mut collector = Collector { path: ModulePath::default(), grads, sums: &mut self.sums };
        module.visit(&mut collector);
        self.count += 1;
        if step.is_multiple_of(WINDOW) {
            let (count, sums) = (std::mem::take(&mut self.count), std::mem::take(&mut self.sums));
            if count == WINDOW {
                self.full = sums.into_iter().map(|(tensor, sums)| summary(tensor, &sums)).collect();
            }
        }
    }

    /// The ratios of the last full window, once.
    pub(super) fn take(&mut self) -> Vec<Snr> {
        std::mem::take(&mut self.full)
    }
}

/// Mean and median of E\[g²\]/Var\[g\], from Σg and Σg² of each parameter. A parameter whose gradient never changed has no
/// noise to compare with and is left out.
fn summary(tensor: String, sums: &[[f64; 2]]) -> Snr {
    let count = WINDOW as f64;
    let ratio = |[sum, squares]: &[f64; 2]| {
        let (mean, mean_square) = (sum / count, squares / count);
        let variance = mean_square - mean * mean;
        (variance > 0.0).then(|| mean_square / variance)
    };
    let mut ratios: Vec<f64> = sums.iter().filter_map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let len = ratios.len();
    let middle = |i: usize| ratios.get(i).copied().unwrap_or(f64::NAN);
    let median =
        if len % 2 == 1 { middle(len / 2) } else { 0.5 * (middle((len / 2).wrapping_sub(1)) + middle(len / 2)) };
    Snr { tensor, mean: ratios.iter().sum::<f64>() / len as f64, median }
}

struct Collector<'a> {
    path: ModulePath,
    grads: &'a GradientsParams,
    sums: &'a mut BTreeMap<String, Vec<[f64; 2]>>,
}

impl ModuleVisitor for Collector<'_> {
    tracks_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !LearningRates::is_scale(self.path.last()) {
            return;
        }
        let Some(grad) = self.grads.get::<D>(param.id) else { return };
        let grad = grad.into_data();
        let sums =
            self.sums.entry(self.path.joined()).or_insert_with(|| vec![[0.0; 2]; param.val().dims().iter().product()]);
        for ([sum, squares], g) in sums.iter_mut().zip(grad.iter::<f64>()) {
            *sum += g;
            *squares += g * g;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_mean_squares_over_variances() {
        // Ten gradients 1 … 10: E[g²] = 38.5, Var = 8.25. Ten of −1, +1: E[g²] = 1 = Var. Ten of 3: no noise.
        let of = |values: [f64; 10]| [values.iter().sum(), values.iter().map(|v| v * v).sum()];
        let rising = of(std::array::from_fn(|i| i as f64 + 1.0));
        let swinging = of(std::array::from_fn(|i| if i % 2 == 0 { 1.0 } else { -1.0 }));
        let steady = of([3.0; 10]);
        let snr = summary("t".into(), &[rising, swinging, steady]);
        let expected = 38.5 / 8.25;
        assert!((snr.mean - (expected + 1.0) / 2.0).abs() < 1e-12 && (snr.median - snr.mean).abs() < 1e-12, "{snr:?}");
        let snr = summary("t".into(), &[swinging, rising, rising]);
        assert!((snr.median - expected).abs() < 1e-12);
        assert!(summary("t".into(), &[]).median.is_nan());
    }
}
