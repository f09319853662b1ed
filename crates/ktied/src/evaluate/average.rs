//! The average over draws of what they say of one example.

/// The log-likelihoods of one example under several draws.
#[derive(Clone, Copy, Debug)]
pub struct LogLikelihoods {
    sum: f64,
    max: f64,
    /// Σ exp(log-likelihood − max), so that neither a density above e⁷⁰⁹ nor one below e⁻⁷⁴⁵ is lost.
    scaled_sum: f64,
}

impl LogLikelihoods {
    pub const NONE: Self = Self { sum: 0.0, max: f64::NEG_INFINITY, scaled_sum: 0.0 };

    pub fn of(log_likelihood: f64) -> Self {
        Self { sum: log_likelihood, max: log_likelihood, scaled_sum: 1.0 }
    }

    /// Those of both; one of them may be [`NONE`](Self::NONE).
    pub fn and(self, other: Self) -> Self {
        let max = self.max.max(other.max);
        Self {
            sum: self.sum + other.sum,
            max,
            scaled_sum: self.scaled_sum * (self.max - max).exp() + other.scaled_sum * (other.max - max).exp(),
        }
    }
}

/// The average over draws of what they say of one example; before [`divided`](Self::divided), the sum.
#[derive(Clone, Debug)]
pub struct Average {
    num_draws: u64,
    log_likelihoods: LogLikelihoods,
    /// Probabilities, or means.
    pub prediction: Vec<f64>,
    /// Classes: the entropy.
    pub entropy: f64,
    /// Means: their variance over draws plus that of the noise, for each output.
    pub variance: Vec<f64>,
    /// Means: the distribution function at what was observed, for each output.
    pub cdf: Vec<f64>,
    noise: Vec<f64>,
}

impl Default for Average {
    fn default() -> Self {
        let (log_likelihoods, num_draws) = (LogLikelihoods::NONE, 0);
        let [prediction, variance, cdf, noise] = [(); 4].map(|()| Vec::new());
        Self { num_draws, log_likelihoods, prediction, entropy: 0.0, variance, cdf, noise }
    }
}

impl Average {
    /// Adds sums of squared deviations from their own means; to be called before these means are added.
    ///
    /// Σ² of both = Σ²ₐ + Σ²_b + (nₐ·sum_b − n_b·sumₐ)²/(nₐ·n_b·(nₐ + n_b))
    pub fn add_spread(&mut self, sums: &[f64], squares: &[f64], noise: &[f64], num_draws: u64) {
        add(&mut self.variance, squares);
        add(&mut self.noise, noise);
        let (a, b) = (self.num_draws as f64, num_draws as f64);
        if self.num_draws == 0 {
            return;
        }
        for ((square, before), sum) in self.variance.iter_mut().zip(&self.prediction).zip(sums) {
            *square += (a * sum - b * before).powi(2) / (a * b * (a + b));
        }
    }

    /// Adds the other sums of some draws.
    pub fn add(&mut self, sums: &[f64], cdfs: &[f64], entropy: f64, log_likelihoods: LogLikelihoods, num_draws: u64) {
        add(&mut self.prediction, sums);
        add(&mut self.cdf, cdfs);
        self.entropy += entropy;
        self.log_likelihoods = self.log_likelihoods.and(log_likelihoods);
        self.num_draws += num_draws;
    }

    /// The sums over the number of draws.
    pub fn divided(mut self) -> Self {
        let count = self.num_draws as f64;
        add(&mut self.variance, &self.noise);
        let sums = self.prediction.iter_mut().chain(&mut self.variance).chain(&mut self.cdf);
        sums.for_each(|sum| *sum /= count);
        self.entropy /= count;
        self
    }

    /// ln of the mean likelihood.
    pub fn log_of_mean(&self) -> f64 {
        let LogLikelihoods { max, scaled_sum, .. } = self.log_likelihoods;
        max + (scaled_sum / self.num_draws as f64).ln()
    }

    /// Mean of the log-likelihoods.
    pub fn mean_of_logs(&self) -> f64 {
        self.log_likelihoods.sum / self.num_draws as f64
    }
}

fn add(totals: &mut Vec<f64>, sums: &[f64]) {
    totals.resize(sums.len(), 0.0);
    totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likelihoods_far_below_and_above_double_precision_are_averaged() {
        let average = |values: [f64; 2]| {
            let mut average = Average::default();
            values.iter().for_each(|value| average.add(&[], &[], 0.0, LogLikelihoods::of(*value), 1));
            average.log_of_mean()
        };
        for values in [[-2000.0, -2001.0], [-2001.0, -2000.0]] {
            let expected = -2000.0 + ((1.0 + (-1.0f64).exp()) / 2.0).ln();
            assert!((average(values) - expected).abs() < 1e-12);
        }
        assert!((average([1500.0, 1500.0]) - 1500.0).abs() < 1e-12);
        assert!((average([0.0, -5000.0]) - 0.5f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn the_variance_of_parts_is_that_of_the_whole_plus_the_noise() {
        // Far from zero, and in parts of unequal size.
        let (mut average, offset) = (Average::default(), 1e8);
        for part in [&[1.0, 4.0, 7.0][..], &[2.0]] {
            let sum: f64 = part.iter().map(|x| x + offset).sum();
            let mean = sum / part.len() as f64;
            let squares = part.iter().map(|x| (x + offset - mean).powi(2)).sum();
            let count = part.len() as u64;
            average.add_spread(&[sum], &[squares], &[0.25 * count as f64], count);
            average.add(&[sum], &[], 0.0, LogLikelihoods::NONE, count);
        }
        // 1, 4, 7, 2: mean 3.5, squares 6.25 + 0.25 + 12.25 + 2.25.
        let average = average.divided();
        assert!((average.variance[0] - (21.0 / 4.0 + 0.25)).abs() < 1e-9, "{:?}", average.variance);
        assert_eq!(average.prediction, [offset + 3.5]);
    }
}
