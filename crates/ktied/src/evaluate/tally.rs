//! Scores of single examples, and their sums.

use super::calibration::{Bins, Bootstrap};
use super::groups::Average;
use super::predictive::Target;

/// How an average prediction does on one example.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    nll_of_draws: f64,
    nll: f64,
    /// Where a class was observed.
    pub class: Option<ClassScores>,
    squared_error: Option<f64>,
}

/// What classes have besides.
#[derive(Clone, Copy, Debug)]
pub struct ClassScores {
    /// The largest probability.
    pub confidence: f64,
    /// 1 if it is that of the label, 0 if not.
    pub correct: f64,
    /// Σᵢ pᵢ² − 2 p_label
    pub brier: f64,
}

impl Scores {
    pub fn new(average: &Average, target: Target<'_>) -> Self {
        let (class, squared_error) = match target {
            Target::Class(label) => (Some(ClassScores::new(&average.prediction, label)), None),
            Target::Values(values) => (None, Some(mean_squared_error(&average.prediction, values))),
        };
        Self { nll_of_draws: -average.mean_of_logs, nll: -average.log_of_mean, class, squared_error }
    }
}

impl ClassScores {
    fn new(probabilities: &[f64], label: usize) -> Self {
        let (mut best, mut confidence, mut squares, mut of_label) = (0, 0.0, 0.0, 0.0);
        for (class, &p) in probabilities.iter().enumerate() {
            squares += p * p;
            if p > confidence {
                (best, confidence) = (class, p);
            }
            if class == label {
                of_label = p;
            }
        }
        Self { confidence, correct: f64::from(u8::from(best == label)), brier: squares - 2.0 * of_label }
    }
}

fn mean_squared_error(means: &[f64], values: &[f64]) -> f64 {
    means.iter().zip(values).map(|(mean, y)| (y - mean).powi(2)).sum::<f64>() / values.len().max(1) as f64
}

/// Sums of scores over examples.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    nll_of_draws: Moments,
    nll: Moments,
    correct: Moments,
    brier: Moments,
    bins: Bins,
    squared_error: Moments,
}

impl Tally {
    pub fn add(&mut self, scores: &Scores) {
        self.nll_of_draws.add(scores.nll_of_draws);
        self.nll.add(scores.nll);
        if let Some(class) = scores.class {
            self.correct.add(class.correct);
            self.brier.add(class.brier);
            self.bins.add(class, 1.0);
        }
        if let Some(error) = scores.squared_error {
            self.squared_error.add(error);
        }
    }

    /// NLL of draws, NLL, accuracy, Brier score, ECE and RMSE; those that no example has a score for are absent.
    pub fn values(&self) -> [Option<f64>; 6] {
        let rmse = self.squared_error.mean().map(f64::sqrt);
        let [nll_of_draws, nll, correct, brier] =
            [&self.nll_of_draws, &self.nll, &self.correct, &self.brier].map(Moments::mean);
        [nll_of_draws, nll, correct, brier, self.bins.ece(), rmse]
    }

    /// Their standard errors over examples, that of ECE by the bootstrap of the same examples.
    pub fn standard_errors(&self, bootstrap: &Bootstrap) -> [Option<f64>; 6] {
        let [nll_of_draws, nll, correct, brier] =
            [&self.nll_of_draws, &self.nll, &self.correct, &self.brier].map(Moments::standard_error);
        // d√x = dx/(2√x); where all errors are 0, so is theirs.
        let rmse = self.squared_error.mean().zip(self.squared_error.standard_error());
        let rmse = rmse.map(|(mean, error)| if mean > 0.0 { error / (2.0 * mean.sqrt()) } else { 0.0 });
        [nll_of_draws, nll, correct, brier, bootstrap.standard_error(), rmse]
    }
}

/// Mean and spread of numbers that come one at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    count: f64,
    sum: f64,
    /// Σ (x − mean)², by a recurrence that does not subtract sums of squares (Youngs and Cramer, 1971).
    squares: f64,
}

impl Moments {
    pub fn add(&mut self, x: f64) {
        let before = self.count;
        self.count += 1.0;
        self.sum += x;
        if before > 0.0 {
            self.squares += (self.count * x - self.sum).powi(2) / (self.count * before);
        }
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// The sample standard deviation, of two numbers at least.
    pub fn standard_deviation(&self) -> Option<f64> {
        (self.count > 1.0).then(|| (self.squares / (self.count - 1.0)).sqrt())
    }

    /// Of the mean: the sample standard deviation over √count.
    pub fn standard_error(&self) -> Option<f64> {
        Some(self.standard_deviation()? / self.count.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_that_of_a_sample_even_far_from_zero() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.standard_error()), (None, None));
        moments.add(1e9 + 4.0);
        assert_eq!((moments.mean(), moments.standard_error()), (Some(1e9 + 4.0), None));
        [7.0, 13.0, 16.0].into_iter().for_each(|x| moments.add(1e9 + x));
        // Deviations −6, −3, 3, 6 from 10: variance 90/3, standard error √(30/4).
        assert_eq!(moments.mean(), Some(1e9 + 10.0));
        assert!((moments.standard_error().unwrap() - 7.5f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn the_brier_score_is_the_usual_one_minus_1_and_equals_go_to_the_first_class() {
        let scores = ClassScores::new(&[0.5, 0.2, 0.3], 2);
        assert!((scores.brier - (0.25 + 0.04 + 0.49 - 1.0)).abs() < 1e-15);
        assert_eq!((scores.confidence, scores.correct), (0.5, 0.0));
        assert_eq!(ClassScores::new(&[0.25; 4], 0).correct, 1.0);
        assert_eq!(ClassScores::new(&[0.25; 4], 1).correct, 0.0);
        assert_eq!(ClassScores::new(&[0.0, 1.0], 1).brier, -1.0);
    }
}
