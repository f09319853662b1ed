//! Judging a posterior on examples: metrics of the average prediction of many draws, each with its standard errors.
//!
//! [`evaluate`] takes a network and batches of examples; an [`Ensemble`] takes one network or several and gives their
//! diagrams and uncertainties too, predicts, and is [compared](compare) with another; an [`Evaluator`] takes outputs, wherever
//! they come from, and [`Metrics`] probabilities. The metrics are those of [`Evaluation`], and their standard errors those of
//! [`Estimate`].
//!
//! **Memory** is that of one batch, whatever the number of draws and of examples: for every example of a batch ten sums of
//! predictions, one for each group of draws, and then a fixed number of sums over examples. Metrics that depend on the
//! order of examples keep them by their score, as [`Ranked`] says, which is bounded too.
//!
//! **Bits** do not depend on how examples are divided into batches, nor on the number of threads, as far as this module
//! is concerned: from the outputs on, everything is summed in double precision, for each example in the order of draws
//! and then in the order of examples. The outputs themselves have the same bits on any number of threads too, but a
//! matrix product may round a row differently in a batch of another size: a single row, for one, is multiplied by other
//! code than many.

mod average;
#[cfg(feature = "train")]
pub mod burn_metrics;
mod calibration;
mod classes;
mod compare;
mod ensemble;
mod estimate;
mod evaluator;
mod groups;
mod jackknife;
mod mixture;
mod moments;
mod normal;
mod ood;
mod plan;
mod predict;
mod predictive;
mod probabilities;
mod ranks;
mod selective;
mod tally;
mod together;
mod whole;

pub use calibration::ReliabilityBin;
pub use compare::{Comparison, Difference, compare};
pub use ensemble::{BATCHES_AT_ONCE, Ensemble};
pub use estimate::{Estimate, Evaluation};
pub use evaluator::{Evaluator, Protocol};
pub use ood::{Detection, OutOfDistribution, Uncertainties};
pub use predict::{ClassPrediction, Draws, Predictions, ValuePrediction};
pub use probabilities::{Classification, Metrics};
pub use ranks::Ranked;
pub use selective::RiskPoint;
pub use whole::{Curves, Judgement};

use crate::error::Result;
use crate::models::Network;
use crate::objective::{Likelihood, Observed};

/// Judges a network on batches of inputs and what was observed of them, without building graphs for gradients.
///
/// `on_progress` gets the number of predictions made so far, of samples × examples in all. Each batch draws the
/// network's weights anew, so batches should be as large as memory allows.
///
/// # Errors
/// What a batch or the network says, and as [`Evaluator`].
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::evaluate::{Protocol, evaluate};
/// use ktied::models::{MlpSpec, NetworkConfig, PosteriorSpec};
/// use ktied::objective::{Likelihood, LikelihoodKind, Observed};
///
/// let device = Device::flex();
/// let config = NetworkConfig::new(PosteriorSpec::new("k-tied:2".parse()?));
/// let mlp = MlpSpec::new([8, 16, 3]).init(&config, &device)?;
/// let likelihood = Likelihood::new(LikelihoodKind::Softmax, 3, 1.0, &device)?;
/// let batch = (Tensor::ones([5, 8], &device), Observed::Classes(vec![0, 1, 2, 1, 1]));
/// let evaluation = evaluate(&mlp, &likelihood, [Ok(batch)], &Protocol::new(1000), |_| ())?;
/// assert_eq!((evaluation.samples, evaluation.examples), (100, 5));
/// assert!(evaluation.neg_elbo.value > evaluation.nll.value + evaluation.kl_per_example); // Jensen
/// # Ok::<(), ktied::Error>(())
/// ```
pub fn evaluate<N: Network>(
    network: &N,
    likelihood: &Likelihood,
    batches: impl IntoIterator<Item = Result<(N::Input, Observed)>>,
    protocol: &Protocol,
    on_progress: impl FnMut(u64),
) -> Result<Evaluation> {
    Ok(Ensemble::new([(network, likelihood)])?.judge(batches, protocol, on_progress)?.evaluation)
}
