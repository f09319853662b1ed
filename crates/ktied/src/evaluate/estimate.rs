//! What an evaluation found.

use serde::{Deserialize, Serialize};

/// A metric and how far chance may have moved it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The metric.
    pub value: f64,
    /// Standard error over examples: how much the metric would vary between test sets of this size. For a mean, the
    /// sample standard deviation over √examples; for [`rmse`](Evaluation::rmse) that of its square, through the
    /// derivative; for [`ece`](Evaluation::ece) the standard deviation over 200 bootstraps. Absent for a single example.
    pub sem_examples: Option<f64>,
    /// Standard error over draws: how much the metric would vary between seeds, by a jackknife over ten groups of
    /// draws (as many as there are draws, if fewer). Absent for a single draw.
    pub sem_draws: Option<f64>,
}

impl Estimate {
    /// The same, moved by a number that is known exactly.
    pub(super) fn plus(self, constant: f64) -> Self {
        Self { value: self.value + constant, ..self }
    }
}

/// How a network does on some examples; `p` is the average prediction of all draws.
///
/// As JSON, metrics that the likelihood does not have are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// −ELBO per example: the mean over draws of the mean −ln likelihood, plus KL/N. A point has none; what stands
    /// here is then its NLL.
    pub neg_elbo: Estimate,
    /// Mean −ln p(observed), in nats: the logarithm of the average, where −ELBO has the average of logarithms.
    pub nll: Estimate,
    /// Classes: the share of examples whose most probable class is the label; of equals the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Estimate>,
    /// Classes: mean of Σᵢ pᵢ² − 2 p_label, from −1 (perfect) to 1, as TensorFlow Probability has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brier: Option<Estimate>,
    /// Classes: mean of Σᵢ (pᵢ − [i is the label])², the usual score, which is the former plus 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brier_usual: Option<Estimate>,
    /// Classes: the expected calibration error, Σ over bins of (share of examples)·|accuracy − mean confidence|, where
    /// confidence is the largest of `p` and the 15 bins (0, 1/15], …, (14/15, 1] are closed on the right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ece: Option<Estimate>,
    /// Numbers: the root of the mean squared error of the mean prediction, over examples and outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmse: Option<Estimate>,
    /// KL(q‖p) of all weights, in nats.
    pub kl: f64,
    /// KL/N, N the number of training examples.
    pub kl_per_example: f64,
    /// Draws averaged over.
    pub samples: u64,
    /// Examples judged on.
    pub examples: u64,
}
