//! Sums of predictions over groups of draws, for the examples of one batch.

use burn::tensor::Tensor;

use super::predictive::{Truth, all_finite};
use crate::error::Result;

/// Groups that draws are divided into, where there are that many.
const NUM_GROUPS: u64 = 10;

/// How many draws each group has: draw d of S is in group ⌊d·G/S⌋, G = min(10, S), so groups are neighbours and their
/// sizes differ by one at most.
pub fn group_sizes(samples: u64) -> Vec<u64> {
    let groups = samples.min(NUM_GROUPS);
    let begin = |group: u64| (u128::from(group) * u128::from(samples)).div_ceil(u128::from(groups.max(1))) as u64;
    (0..groups).map(|group| begin(group + 1) - begin(group)).collect()
}

/// The log-likelihoods of one example under several draws.
#[derive(Clone, Copy, Debug)]
struct LogLikelihoods {
    num_draws: u64,
    sum: f64,
    max: f64,
    /// Σ exp(log-likelihood − max), so that neither a density above e⁷⁰⁹ nor one below e⁻⁷⁴⁵ is lost.
    scaled_sum: f64,
}

impl LogLikelihoods {
    const NONE: Self = Self { num_draws: 0, sum: 0.0, max: f64::NEG_INFINITY, scaled_sum: 0.0 };

    fn of(log_likelihood: f64) -> Self {
        Self { num_draws: 1, sum: log_likelihood, max: log_likelihood, scaled_sum: 1.0 }
    }

    /// Those of both; one of them may be [`NONE`](Self::NONE).
    fn and(self, other: Self) -> Self {
        let max = self.max.max(other.max);
        Self {
            num_draws: self.num_draws + other.num_draws,
            sum: self.sum + other.sum,
            max,
            scaled_sum: self.scaled_sum * (self.max - max).exp() + other.scaled_sum * (other.max - max).exp(),
        }
    }
}

/// What the draws of one group say of each example of a batch.
#[derive(Debug)]
pub struct Group {
    /// Sums of predictions, `[B, width]`.
    predictions: Vec<f64>,
    /// `[B]`
    log_likelihoods: Vec<LogLikelihoods>,
}

impl Group {
    /// Sums over `draws`, of which `output` gives what the network says, `[B, N]`.
    ///
    /// # Errors
    /// What `output` says, or if it does not fit the truth or is not finite.
    pub fn of(
        truth: &Truth<'_>,
        draws: impl Iterator<Item = u64>,
        mut output: impl FnMut(u64) -> Result<Tensor<2>>,
    ) -> Result<Self> {
        let mut group = Self { predictions: vec![], log_likelihoods: vec![LogLikelihoods::NONE; truth.len()] };
        for draw in draws {
            group.add(truth, draw, output(draw)?)?;
        }
        Ok(group)
    }

    fn add(&mut self, truth: &Truth<'_>, draw: u64, output: Tensor<2>) -> Result<()> {
        let [rows, outputs] = output.dims();
        let width = truth.width([rows, outputs])?;
        let example = |row: usize| format!("of example {} in draw {draw}", truth.first + row as u64);
        let output: Vec<f64> = output.into_data().iter::<f64>().collect();
        all_finite(&output, |i| format!("output {} {}", i % outputs, example(i / outputs)))?;
        self.predictions.resize(rows * width, 0.0);
        let mut prediction = vec![0.0; width];
        let sums = self.predictions.chunks_mut(width.max(1)).zip(&mut self.log_likelihoods);
        for (row, (output, (sum, log_likelihoods))) in output.chunks(outputs.max(1)).zip(sums).enumerate() {
            let log_likelihood = truth.predict(row, output, &mut prediction);
            all_finite(&[log_likelihood], |_| format!("the log-likelihood {}", example(row)))?;
            *log_likelihoods = log_likelihoods.and(LogLikelihoods::of(log_likelihood));
            sum.iter_mut().zip(&prediction).for_each(|(sum, p)| *sum += p);
        }
        Ok(())
    }

    /// This group's sums for one example.
    fn prediction(&self, row: usize) -> &[f64] {
        let width = self.predictions.len() / self.log_likelihoods.len().max(1);
        &self.predictions[row * width..(row + 1) * width]
    }
}

/// The average over draws of what they say of one example.
#[derive(Debug)]
pub struct Average {
    /// Probabilities, or means.
    pub prediction: Vec<f64>,
    /// ln of the mean likelihood.
    pub log_of_mean: f64,
    /// Mean of the log-likelihoods.
    pub mean_of_logs: f64,
}

impl Average {
    /// Over all groups, or all but one.
    ///
    /// The rest is added up rather than subtracted from the sum of all, which would leave nothing but rounding where
    /// the group left out held nearly all of it.
    pub fn of(groups: &[Group], row: usize, without: Option<usize>) -> Self {
        let rest = groups.iter().enumerate().filter(|(g, _)| Some(*g) != without).map(|(_, group)| group);
        let (mut prediction, mut log_likelihoods) = (vec![], LogLikelihoods::NONE);
        for group in rest {
            let sum = group.prediction(row);
            prediction.resize(sum.len(), 0.0);
            prediction.iter_mut().zip(sum).for_each(|(total, sum)| *total += sum);
            log_likelihoods = log_likelihoods.and(group.log_likelihoods[row]);
        }
        let LogLikelihoods { num_draws, sum, max, scaled_sum } = log_likelihoods;
        prediction.iter_mut().for_each(|p| *p /= num_draws as f64);
        Self {
            prediction,
            log_of_mean: max + (scaled_sum / num_draws as f64).ln(),
            mean_of_logs: sum / num_draws as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_neighbours_of_nearly_equal_size() {
        assert_eq!(group_sizes(100), [10; 10]);
        assert_eq!(group_sizes(3), [1; 3]);
        assert_eq!(group_sizes(1), [1]);
        for samples in 1..60 {
            let sizes = group_sizes(samples);
            let (min, max) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert_eq!((sizes.iter().sum::<u64>(), max - min <= 1, *min >= 1), (samples, true, true));
        }
        assert_eq!(group_sizes(u64::MAX).iter().sum::<u64>(), u64::MAX);
    }

    #[test]
    fn likelihoods_far_below_and_above_double_precision_are_averaged() {
        let average = |values: [f64; 2]| {
            let both = values.map(LogLikelihoods::of).into_iter().fold(LogLikelihoods::NONE, LogLikelihoods::and);
            both.max + (both.scaled_sum / 2.0).ln()
        };
        for values in [[-2000.0, -2001.0], [-2001.0, -2000.0]] {
            let expected = -2000.0 + ((1.0 + (-1.0f64).exp()) / 2.0).ln();
            assert!((average(values) - expected).abs() < 1e-12);
        }
        assert!((average([1500.0, 1500.0]) - 1500.0).abs() < 1e-12);
        assert!((average([0.0, -5000.0]) - 0.5f64.ln()).abs() < 1e-12);
    }
}
