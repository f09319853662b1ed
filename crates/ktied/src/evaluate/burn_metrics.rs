//! Calibration error, Brier score and NLL for the training loop of burn, beside its own accuracy and loss.
//!
//! Register them with burn's learner as any metric; [`ClassificationOutput`] feeds them.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use burn::train::ClassificationOutput;
//! use burn::train::metric::{Adaptor, Metric, MetricMetadata, Numeric};
//! use ktied::evaluate::burn_metrics::EceMetric;
//!
//! let device = Device::flex();
//! // Logits whose softmax is 0.8 and 0.2; both examples are of the first class.
//! let logits = Tensor::<2>::from_floats([[0.8f32.ln(), 0.2f32.ln()]; 2], &device);
//! let output = ClassificationOutput::new(Tensor::zeros([1], &device), logits, Tensor::zeros([2], &device));
//! let mut ece = EceMetric::new();
//! # use burn::data::dataloader::Progress;
//! # let progress = Progress { items_processed: 1, items_total: 1, unit: None };
//! # let metadata = MetricMetadata { progress, iteration: None, lr: None };
//! ece.update(&output.adapt(), &metadata)?;
//! assert!((ece.final_value().current() - 0.2).abs() < 1e-6); // right always, sure to 80 %
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorReadError};
use burn::train::ClassificationOutput;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Adaptor, Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry, format_float,
};

use super::calibration::Bins;
use super::classes::softmax;
use super::tally::ClassScores;

const PRECISION: usize = 4;

/// Logits or probabilities of a batch, `[B, C]`, and its labels, `[B]`.
#[derive(Clone, Debug)]
pub struct ProbabilityInput {
    outputs: Tensor<2>,
    targets: Tensor<1, Int>,
}

impl ProbabilityInput {
    /// Of outputs, `[B, C]`, and labels, `[B]`.
    pub fn new(outputs: Tensor<2>, targets: Tensor<1, Int>) -> Self {
        Self { outputs, targets }
    }

    /// NLL and other scores of every example.
    fn scores(&self, outputs: Outputs) -> Result<Vec<(f64, ClassScores)>, TensorReadError> {
        let [_, classes] = self.outputs.dims();
        let mut numbers: Vec<f64> = self.outputs.clone().try_into_data()?.iter::<f64>().collect();
        let labels = self.targets.clone().try_into_data()?;
        let rows = numbers.chunks_mut(classes.max(1)).zip(labels.iter::<i64>());
        let score = |(row, label): (&mut [f64], i64)| {
            // A label that is no class is of none: probability 0.
            let label = usize::try_from(label).unwrap_or(usize::MAX);
            let of_label = row.get(label).copied();
            let log_probability = match outputs {
                Outputs::Logits => {
                    let normalization = softmax(row);
                    of_label.map(|logit| normalization.log_probability(logit))
                }
                Outputs::Probabilities => of_label.map(f64::ln),
            };
            (-log_probability.unwrap_or(f64::NEG_INFINITY), ClassScores::of(row, 0.0, label))
        };
        Ok(rows.map(score).collect())
    }
}

impl Adaptor<ProbabilityInput> for ClassificationOutput {
    fn adapt(&self) -> ProbabilityInput {
        ProbabilityInput::new(self.output.clone(), self.targets.clone())
    }
}

/// What a model's outputs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Outputs {
    #[default]
    Logits,
    Probabilities,
}

/// The expected calibration error over 15 bins of equal width, of all examples of an epoch.
///
/// It is no mean over batches: bins are kept for the epoch, and what is shown of a batch is its own error.
#[derive(Clone, Debug)]
pub struct EceMetric {
    outputs: Outputs,
    epoch: Bins,
    batch: Bins,
}

impl EceMetric {
    /// Of a model whose outputs are logits.
    pub fn new() -> Self {
        Self { outputs: Outputs::Logits, epoch: Bins::default(), batch: Bins::default() }
    }

    /// Of a model whose outputs are probabilities.
    pub fn of_probabilities() -> Self {
        Self { outputs: Outputs::Probabilities, ..Self::new() }
    }

    fn entry(&self) -> SerializedEntry {
        let (Some(epoch), Some(batch)) = (self.epoch.ece(), self.batch.ece()) else {
            return SerializedEntry::not_available(None);
        };
        let [shown, of_batch] = [epoch, batch].map(|value| format_float(value, PRECISION));
        SerializedEntry::new(format!("epoch {shown} - batch {of_batch}"), NumericEntry::Value(epoch).serialize())
    }
}

impl Default for EceMetric {
    fn default() -> Self {
        Self::new()
    }
}

impl Metric for EceMetric {
    type Input = ProbabilityInput;

    fn name(&self) -> MetricName {
        Arc::new("Expected calibration error".into())
    }

    fn attributes(&self) -> MetricAttributes {
        lower_is_better(None)
    }

    fn update(&mut self, input: &ProbabilityInput, _: &MetricMetadata) -> Result<SerializedEntry, TensorReadError> {
        self.batch = Bins::default();
        for (_, class) in input.scores(self.outputs)? {
            for bins in [&mut self.epoch, &mut self.batch] {
                bins.add(class.opinion.confidence, class.correct, 1.0);
            }
        }
        Ok(self.entry())
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.entry())
    }

    fn clear(&mut self) {
        (self.epoch, self.batch) = (Bins::default(), Bins::default());
    }
}

impl Numeric for EceMetric {
    fn value(&self) -> Option<NumericEntry> {
        self.batch.ece().map(NumericEntry::Value)
    }

    fn running_value(&self) -> Option<NumericEntry> {
        self.epoch.ece().map(NumericEntry::Value)
    }

    fn final_value(&self) -> NumericEntry {
        NumericEntry::Final(self.epoch.ece().unwrap_or(f64::NAN))
    }
}

/// A metric of burn that is the mean of one score over examples.
macro_rules! mean_metric {
    ($(#[$doc:meta])* $name:ident, $title:literal, $unit:expr, $score:expr) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            outputs: Outputs,
            state: NumericMetricState,
        }

        impl $name {
            /// Of a model whose outputs are logits.
            pub fn new() -> Self {
                Self { outputs: Outputs::Logits, state: NumericMetricState::default() }
            }

            /// Of a model whose outputs are probabilities.
            pub fn of_probabilities() -> Self {
                Self { outputs: Outputs::Probabilities, ..Self::new() }
            }

            fn format(&self) -> FormatOptions {
                let options = FormatOptions::new(self.name()).precision(PRECISION);
                if let Some(unit) = $unit { options.unit(unit) } else { options }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("outputs", &self.outputs).finish_non_exhaustive()
            }
        }

        impl Metric for $name {
            type Input = ProbabilityInput;

            fn name(&self) -> MetricName {
                Arc::new($title.into())
            }

            fn attributes(&self) -> MetricAttributes {
                lower_is_better($unit)
            }

            fn update(
                &mut self,
                input: &ProbabilityInput,
                _: &MetricMetadata,
            ) -> Result<SerializedEntry, TensorReadError> {
                let scores = input.scores(self.outputs)?;
                let sum: f64 = scores.iter().map($score).sum();
                self.state.update(sum / scores.len().max(1) as f64, scores.len());
                Ok(self.state.compute_update(self.format()))
            }

            fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
                Ok(self.state.compute_final(self.format()))
            }

            fn clear(&mut self) {
                self.state.reset();
            }
        }

        impl Numeric for $name {
            fn value(&self) -> Option<NumericEntry> {
                Some(self.state.current_value())
            }

            fn running_value(&self) -> Option<NumericEntry> {
                Some(self.state.running_value())
            }

            fn final_value(&self) -> NumericEntry {
                self.state.final_value()
            }
        }
    };
}

mean_metric! {
    /// The usual Brier score, mean of Σᵢ (pᵢ − [i is the label])².
    BrierMetric, "Brier score", None, |(_, class)| class.brier + 1.0
}

mean_metric! {
    /// Mean −ln p of the label, in nats.
    NllMetric, "Negative log-likelihood", Some("nats"), |(nll, _)| *nll
}

fn lower_is_better(unit: Option<&str>) -> MetricAttributes {
    NumericAttributes { unit: unit.map(String::from), higher_is_better: false }.into()
}
