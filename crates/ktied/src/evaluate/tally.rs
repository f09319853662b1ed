//! Scores of single examples, and their sums.

use super::average::Average;
use super::calibration::{Bins, Bootstrap};
use super::classes::Opinion;
use super::moments::Moments;
use super::predictive::Target;
use super::selective::Confidences;

/// How an average prediction does on one example.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    pub nll_of_draws: f64,
    pub nll: f64,
    /// Where a class was observed.
    pub class: Option<ClassScores>,
    /// Where numbers were.
    pub values: Option<ValueScores>,
}

/// What classes have besides.
#[derive(Clone, Copy, Debug)]
pub struct ClassScores {
    pub opinion: Opinion,
    /// 1 if the most probable class is the label, 0 if not.
    pub correct: f64,
    /// Σᵢ pᵢ² − 2 p_label
    pub brier: f64,
}

/// What numbers have besides; averages over outputs.
#[derive(Clone, Copy, Debug)]
pub struct ValueScores {
    pub squared_error: f64,
    /// The share of outputs inside their central intervals of 50, 90 and 95 %.
    pub covered: [f64; 3],
    /// The standard deviation of the prediction, noise included.
    pub sharpness: f64,
}

/// Masses of the central intervals.
const LEVELS: [f64; 3] = [0.5, 0.9, 0.95];

impl Scores {
    pub fn new(average: &Average, target: Target<'_>) -> Self {
        let (class, values) = match target {
            Target::Class(label) => (Some(ClassScores::new(average, label)), None),
            Target::Values(values) => (None, Some(ValueScores::new(average, values))),
            Target::Nothing => (None, None),
        };
        Self { nll_of_draws: -average.mean_of_logs(), nll: -average.log_of_mean(), class, values }
    }
}

impl ClassScores {
    fn new(average: &Average, label: usize) -> Self {
        Self::of(&average.prediction, average.entropy, label)
    }

    pub fn of(probabilities: &[f64], expected_entropy: f64, label: usize) -> Self {
        let opinion = Opinion::new(probabilities, expected_entropy);
        let squares: f64 = probabilities.iter().map(|p| p * p).sum();
        let of_label = probabilities.get(label).copied().unwrap_or(0.0);
        let correct = f64::from(u8::from(opinion.class == label));
        Self { opinion, correct, brier: squares - 2.0 * of_label }
    }
}

impl ValueScores {
    fn new(average: &Average, values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let errors = average.prediction.iter().zip(values).map(|(mean, y)| (y - mean).powi(2));
        // y lies between the quantiles ½ − c/2 and ½ + c/2 exactly where its distribution function does.
        let inside = |level: f64| average.cdf.iter().filter(|cdf| (**cdf - 0.5).abs() <= 0.5 * level).count();
        Self {
            squared_error: errors.sum::<f64>() / count,
            covered: LEVELS.map(|level| inside(level) as f64 / count),
            sharpness: average.variance.iter().map(|variance| variance.sqrt()).sum::<f64>() / count,
        }
    }
}

/// A metric's place among all of them. Those before [`Ece`](Metric::Ece) are means over examples, or a root of one.
#[derive(Clone, Copy, Debug)]
pub enum Metric {
    NllOfDraws,
    Nll,
    Accuracy,
    Brier,
    Entropy,
    ExpectedEntropy,
    MutualInformation,
    Rmse,
    Coverage50,
    Coverage90,
    Coverage95,
    Sharpness,
    Ece,
    AdaptiveEce,
    Aurc,
}

const NUM_MEANS: usize = Metric::Ece as usize;
pub const NUM_METRICS: usize = Metric::Aurc as usize + 1;

/// One number for each metric that there is.
pub type Values = [Option<f64>; NUM_METRICS];

/// Sums of scores over examples.
#[derive(Clone, Debug)]
pub struct Tally {
    means: [Moments; NUM_MEANS],
    bins: Bins,
    confidences: Confidences,
}

impl Tally {
    /// No example yet; at most `max_cells` different confidences are held apart.
    pub fn new(max_cells: usize) -> Self {
        let confidences = Confidences::new(max_cells);
        Self { means: [Moments::default(); NUM_MEANS], bins: Bins::default(), confidences }
    }

    pub fn add(&mut self, scores: &Scores) {
        self.mean(Metric::NllOfDraws, scores.nll_of_draws);
        self.mean(Metric::Nll, scores.nll);
        if let Some(class) = scores.class {
            self.mean(Metric::Accuracy, class.correct);
            self.mean(Metric::Brier, class.brier);
            self.mean(Metric::Entropy, class.opinion.entropy);
            self.mean(Metric::ExpectedEntropy, class.opinion.expected_entropy);
            self.mean(Metric::MutualInformation, class.opinion.mutual_information);
            self.bins.add(class.opinion.confidence, class.correct, 1.0);
            self.confidences.add(class.opinion.uncertainty, class.correct > 0.5);
        }
        if let Some(values) = scores.values {
            self.mean(Metric::Rmse, values.squared_error);
            let levels = [Metric::Coverage50, Metric::Coverage90, Metric::Coverage95];
            levels.into_iter().zip(values.covered).for_each(|(level, covered)| self.mean(level, covered));
            self.mean(Metric::Sharpness, values.sharpness);
        }
    }

    fn mean(&mut self, metric: Metric, score: f64) {
        self.means[metric as usize].add(score);
    }

    pub fn confidences(&self) -> &Confidences {
        &self.confidences
    }

    /// The metrics; those that no example has a score for are absent.
    pub fn values(&self) -> Values {
        let mut values = self.of_means(Moments::mean);
        let rmse = &mut values[Metric::Rmse as usize];
        *rmse = rmse.map(f64::sqrt);
        if self.means[Metric::Accuracy as usize].mean().is_some() {
            values[Metric::Ece as usize] = self.bins.ece();
            let [adaptive_ece, aurc] = self.confidences.values();
            values[Metric::AdaptiveEce as usize] = adaptive_ece;
            values[Metric::Aurc as usize] = aurc;
        }
        values
    }

    /// Their standard errors over examples, those that are not means by bootstraps of the same examples.
    pub fn standard_errors(&self, bootstrap: &Bootstrap) -> Values {
        let mut errors = self.of_means(Moments::standard_error);
        // d√x = dx/(2√x); where all errors are 0, so is theirs.
        let rmse = &mut errors[Metric::Rmse as usize];
        let mean = self.means[Metric::Rmse as usize].mean();
        *rmse = mean.zip(*rmse).map(|(mean, error)| if mean > 0.0 { error / (2.0 * mean.sqrt()) } else { 0.0 });
        if self.means[Metric::Accuracy as usize].mean().is_some() {
            let [adaptive_ece, aurc] = self.confidences.standard_errors(bootstrap.seed());
            errors[Metric::Ece as usize] = bootstrap.standard_error();
            errors[Metric::AdaptiveEce as usize] = adaptive_ece;
            errors[Metric::Aurc as usize] = aurc;
        }
        errors
    }

    fn of_means(&self, read: impl Fn(&Moments) -> Option<f64>) -> Values {
        let mut values = [None; NUM_METRICS];
        values.iter_mut().zip(&self.means).for_each(|(value, moments)| *value = read(moments));
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brier_score_is_the_usual_one_minus_1_and_equals_go_to_the_first_class() {
        let of = |probabilities: &[f64], label| ClassScores::of(probabilities, 0.0, label);
        let scores = of(&[0.5, 0.2, 0.3], 2);
        assert!((scores.brier - (0.25 + 0.04 + 0.49 - 1.0)).abs() < 1e-15);
        assert_eq!((scores.opinion.confidence, scores.correct), (0.5, 0.0));
        assert_eq!(of(&[0.25; 4], 0).correct, 1.0);
        assert_eq!(of(&[0.25; 4], 1).correct, 0.0);
        assert_eq!(of(&[0.0, 1.0], 1).brier, -1.0);
    }
}
