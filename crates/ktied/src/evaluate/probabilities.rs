//! Metrics of a user's own probabilities, which need no network.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use serde::{Deserialize, Serialize};

use super::classes::softmax;
use super::estimate::Estimate;
use super::predictive::{all_finite, host};
use super::tally::{ClassScores, Metric, Scores};
use super::whole::{Curves, Whole};
use crate::error::{Error, Result};

/// How far from 1 probabilities may sum: those in single precision, of very many classes too, are closer.
const SLACK: f64 = 1e-3;

/// The metrics of probabilities of classes, as they come, in the memory of [`Ranked`](super::Ranked).
///
/// ```
/// use ktied::evaluate::Metrics;
/// // Two examples of three classes; the second is classified wrongly.
/// let found = Metrics::of_probabilities(&[0.7, 0.2, 0.1, 0.5, 0.3, 0.2], 3, &[0, 1])?;
/// assert_eq!(found.accuracy.value, 0.5);
/// assert!((found.nll.value - (-(0.7f64.ln()) - 0.3f64.ln()) / 2.0).abs() < 1e-15);
/// // (0.3² + 0.2² + 0.1² + 0.5² + 0.7² + 0.2²)/2
/// assert!((found.brier_usual.value - 0.46).abs() < 1e-15);
/// // 0.7 and 0.5 lie in different bins: (|0.7 − 1| + |0.5 − 0|)/2.
/// assert!((found.ece.value - 0.4).abs() < 1e-15);
/// // The more confident half is right, the whole half wrong: (0 + ½)/2.
/// assert_eq!(found.aurc.value, 0.25);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug)]
pub struct Metrics {
    num_classes: usize,
    all: Whole,
}

/// Metrics of probabilities, each as [`Evaluation`](super::Evaluation) has it; draws are unknown, so there is no error
/// over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Classification {
    /// Mean −ln p of the label, in nats; infinite if one has probability 0.
    pub nll: Estimate,
    /// Share of labels that are the most probable class.
    pub accuracy: Estimate,
    /// Σᵢ pᵢ² − 2 p_label
    pub brier: Estimate,
    /// Σᵢ (pᵢ − [i is the label])²
    pub brier_usual: Estimate,
    /// Calibration error over 15 bins of equal width.
    pub ece: Estimate,
    /// Calibration error over 15 bins of equal mass.
    pub adaptive_ece: Estimate,
    /// Mean entropy, in nats.
    pub entropy: Estimate,
    /// Area under the risk–coverage curve.
    pub aurc: Estimate,
    /// The diagrams.
    pub curves: Curves,
    /// Examples judged on.
    pub examples: u64,
}

impl Metrics {
    /// Nothing seen yet of so many classes; `seed` is that of the bootstraps.
    ///
    /// # Errors
    /// If there is no class.
    pub fn new(num_classes: usize, seed: u64) -> Result<Self> {
        match num_classes {
            0 => Err(Error::TooSmall { key: "num_classes".into(), least: 1, found: 0 }),
            _ => Ok(Self { num_classes, all: Whole::new(seed) }),
        }
    }

    /// The metrics of one batch.
    ///
    /// # Errors
    /// As [`add`](Self::add) and [`finish`](Self::finish).
    pub fn of_probabilities(probabilities: &[f64], num_classes: usize, labels: &[u32]) -> Result<Classification> {
        let mut metrics = Self::new(num_classes, 0)?;
        metrics.add(probabilities, labels)?;
        metrics.finish()
    }

    /// Takes in a batch of probabilities.
    ///
    /// # Shapes
    /// - probabilities: `[B, C]`, row-major; labels: `[B]`
    ///
    /// # Errors
    /// If the lengths do not fit, a label is no class, or a row is no distribution.
    pub fn add(&mut self, probabilities: &[f64], labels: &[u32]) -> Result<()> {
        let expected = labels.len().saturating_mul(self.num_classes);
        if probabilities.len() != expected {
            let found = probabilities.len();
            return Err(ShapeError::Length { kernel: "metrics", operand: "probabilities", expected, found }.into());
        }
        for (row, &label) in probabilities.chunks(self.num_classes).zip(labels) {
            self.check(row, label)?;
            let nll = -row.get(label as usize).map_or(f64::NAN, |p| p.ln());
            self.push(row, nll, label);
        }
        Ok(())
    }

    /// Takes in a batch of logits.
    ///
    /// # Shapes
    /// - logits: `[B, C]`; labels: `[B]`
    ///
    /// # Errors
    /// If the shapes do not fit, a label is no class, or a logit is not finite.
    pub fn add_logits(&mut self, logits: Tensor<2>, labels: &[u32]) -> Result<()> {
        let (found, expected) = (logits.dims(), [labels.len(), self.num_classes]);
        if found != expected {
            let (expected, found) = (expected.to_vec(), found.to_vec());
            return Err(ShapeError::Shape { kernel: "metrics", operand: "logits", expected, found }.into());
        }
        let (mut logits, first) = (host(logits), self.all.examples());
        let name =
            |i: usize| format!("logit {} of example {}", i % self.num_classes, first + (i / self.num_classes) as u64);
        all_finite(logits.iter().copied(), name)?;
        for (row, &label) in logits.chunks_mut(self.num_classes).zip(labels) {
            self.check_label(label)?;
            let logit = row.get(label as usize).copied().unwrap_or(f64::NAN);
            let nll = -softmax(row).log_probability(logit);
            self.push(row, nll, label);
        }
        Ok(())
    }

    /// The metrics of all examples.
    ///
    /// # Errors
    /// If there was none.
    pub fn finish(self) -> Result<Classification> {
        let (values, errors) = (self.all.values(), self.all.standard_errors());
        let of = |metric: Metric| {
            let value = values[metric as usize].ok_or(Error::NoExamples)?;
            Ok::<_, Error>(Estimate { value, sem_examples: errors[metric as usize], sem_draws: None })
        };
        Ok(Classification {
            nll: of(Metric::Nll)?,
            accuracy: of(Metric::Accuracy)?,
            brier: of(Metric::Brier)?,
            brier_usual: of(Metric::Brier)?.plus(1.0),
            ece: of(Metric::Ece)?,
            adaptive_ece: of(Metric::AdaptiveEce)?,
            entropy: of(Metric::Entropy)?,
            aurc: of(Metric::Aurc)?,
            curves: self.all.curves().ok_or(Error::NoExamples)?,
            examples: self.all.examples(),
        })
    }

    fn push(&mut self, probabilities: &[f64], nll: f64, label: u32) {
        let class = Some(ClassScores::of(probabilities, 0.0, label as usize));
        self.all.add(&Scores { nll_of_draws: nll, nll, class, values: None });
    }

    fn check(&self, row: &[f64], label: u32) -> Result<()> {
        self.check_label(label)?;
        let example = self.all.examples();
        if let Some((class, &found)) = row.iter().enumerate().find(|(_, p)| !(0.0..=1.0).contains(*p)) {
            return Err(Error::NotAFraction { what: format!("probability {class} of example {example}"), found });
        }
        match row.iter().sum::<f64>() {
            sum if (sum - 1.0).abs() > SLACK => Err(Error::NotADistribution { example, found: sum }),
            _ => Ok(()),
        }
    }

    fn check_label(&self, label: u32) -> Result<()> {
        match (label as usize) < self.num_classes {
            true => Ok(()),
            false => {
                let (example, classes) = (self.all.examples(), self.num_classes);
                Err(Error::UnknownClass { example, found: label, classes })
            }
        }
    }
}
