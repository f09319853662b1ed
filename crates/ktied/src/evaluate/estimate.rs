//! What an evaluation found.

use serde::{Deserialize, Serialize};

use super::tally::Metric;
use crate::data::Units;
use crate::objective::Terms;

/// A metric and how far chance may have moved it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The metric.
    pub value: f64,
    /// Standard error over examples: how much the metric would vary between test sets of this size. For a mean, the
    /// sample standard deviation over √examples; for [`rmse`](Evaluation::rmse) that of its square, through the
    /// derivative; for [`ece`](Evaluation::ece), [`adaptive_ece`](Evaluation::adaptive_ece) and
    /// [`aurc`](Evaluation::aurc) the standard deviation over 200 bootstraps. Absent for a single example.
    pub sem_examples: Option<f64>,
    /// Standard error over draws: how much the metric would vary between seeds, by a jackknife over ten groups of
    /// draws (as many as there are draws, if fewer), each with as many draws of one member of an ensemble as of another.
    /// Where members have one draw each, it is over members. Absent for a single prediction.
    pub sem_draws: Option<f64>,
}

impl Estimate {
    /// The number of draws that would bring the standard error over draws down to a tolerance, given that this
    /// estimate has `samples`: it falls as 1/√S, so S·(error/tolerance)², rounded up.
    ///
    /// Nothing if the error over draws is not known or the tolerance is not positive. The error is itself an estimate
    /// of ten groups and known to about a quarter of itself, so the answer is known to a factor of 1½ or so.
    ///
    /// ```
    /// use ktied::evaluate::Estimate;
    /// let nll = Estimate { value: 0.25, sem_examples: Some(0.01), sem_draws: Some(0.002) };
    /// assert_eq!(nll.draws_for(0.001, 100), Some(400)); // half the error, four times the draws
    /// assert_eq!(nll.draws_for(0.01, 100), Some(4));
    /// ```
    pub fn draws_for(&self, tolerance: f64, samples: u64) -> Option<u64> {
        let ratio = self.sem_draws? / tolerance;
        // A conversion from f64 stops at the largest integer.
        (tolerance > 0.0 && ratio.is_finite()).then(|| ((samples as f64 * ratio * ratio).ceil() as u64).max(1))
    }

    /// The same, moved by a number that is known exactly.
    pub(super) fn plus(self, constant: f64) -> Self {
        Self { value: self.value + constant, ..self }
    }

    /// The same in a unit of which this one is `factor`.
    fn times(self, factor: f64) -> Self {
        let times = |x: Option<f64>| x.map(|x| x * factor);
        let (sem_examples, sem_draws) = (times(self.sem_examples), times(self.sem_draws));
        Self { value: self.value * factor, sem_examples, sem_draws }
    }
}

/// How a network, or an ensemble of them, does on some examples; `p` is the average prediction of all draws.
///
/// As JSON, metrics that the likelihood does not have are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// −ELBO per example: the mean over draws of the mean −ln likelihood, plus KL/N. A point has none; what stands
    /// here is then its NLL. Of an ensemble, the mean over its members.
    pub neg_elbo: Estimate,
    /// Mean −ln p(observed), in nats: the logarithm of the average, where −ELBO has the average of logarithms.
    pub nll: Estimate,
    /// The mean over draws of each one's mean −ln likelihood: −ELBO without KL/N.
    pub nll_of_draws: Estimate,
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
    /// Classes: the same over 15 bins that hold the same number of examples, in the order of confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive_ece: Option<Estimate>,
    /// Classes: mean entropy of `p`, in nats: all uncertainty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy: Option<Estimate>,
    /// Classes: mean over draws of their entropies: the uncertainty that would remain if the weights were known
    /// (aleatoric).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_entropy: Option<Estimate>,
    /// Classes: the former less the latter, the information that the label has about the weights: what they do not agree
    /// on (epistemic). 0 for a point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_information: Option<Estimate>,
    /// Classes: area under the risk–coverage curve, the mean over i of the share of wrong answers among the i most
    /// confident examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aurc: Option<Estimate>,
    /// Numbers: the root of the mean squared error of the mean prediction, over examples and outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmse: Option<Estimate>,
    /// Numbers: the share of them in the central interval of 50 % of the prediction, a mixture of a Gaussian for every
    /// draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage_50: Option<Estimate>,
    /// Numbers: of 90 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage_90: Option<Estimate>,
    /// Numbers: of 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage_95: Option<Estimate>,
    /// Numbers: the mean standard deviation of the prediction, √(noise² + variance of the means over draws).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharpness: Option<Estimate>,
    /// KL(q‖p) of all weights, in nats; of an ensemble, the mean over its members.
    pub kl: f64,
    /// KL/N, N the number of training examples.
    pub kl_per_example: f64,
    /// Draws averaged over, of each member.
    pub samples: u64,
    /// Networks averaged over.
    #[serde(default = "one")]
    pub members: u64,
    /// Examples judged on.
    pub examples: u64,
}

fn one() -> u64 {
    1
}

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub samples: u64,
    pub members: u64,
    pub examples: u64,
}

impl Evaluation {
    /// Nothing without an NLL, which every example has.
    pub(super) fn new(
        of: impl Fn(Metric) -> Option<Estimate>,
        terms: impl Fn(f64) -> Terms,
        counts: Counts,
    ) -> Option<Self> {
        let (nll, nll_of_draws) = (of(Metric::Nll)?, of(Metric::NllOfDraws)?);
        let (terms, brier) = (terms(nll_of_draws.value), of(Metric::Brier));
        Some(Self {
            neg_elbo: Estimate { value: terms.neg_elbo(), ..nll_of_draws },
            nll,
            nll_of_draws,
            accuracy: of(Metric::Accuracy),
            brier,
            brier_usual: brier.map(|brier| brier.plus(1.0)),
            ece: of(Metric::Ece),
            adaptive_ece: of(Metric::AdaptiveEce),
            entropy: of(Metric::Entropy),
            expected_entropy: of(Metric::ExpectedEntropy),
            mutual_information: of(Metric::MutualInformation),
            aurc: of(Metric::Aurc),
            rmse: of(Metric::Rmse),
            coverage_50: of(Metric::Coverage50),
            coverage_90: of(Metric::Coverage90),
            coverage_95: of(Metric::Coverage95),
            sharpness: of(Metric::Sharpness),
            kl: terms.kl,
            kl_per_example: terms.kl_per_example,
            samples: counts.samples,
            members: counts.members,
            examples: counts.examples,
        })
    }

    /// The same in the units of the data, whose targets were standardised before training.
    ///
    /// With standard deviations sⱼ: NLL (and with it −ELBO) + Σ ln sⱼ, since a density has the inverse unit; RMSE·s and
    /// sharpness·s. Outputs of different s have no common unit, so there these two are left out.
    ///
    /// ```
    /// # use burn::tensor::{Device, Tensor};
    /// # use ktied::evaluate::{Evaluator, Protocol};
    /// # use ktied::objective::{Likelihood, LikelihoodKind, Observed};
    /// use ktied::data::Units;
    /// # let device = Device::flex();
    /// # let likelihood = Likelihood::new(LikelihoodKind::Gaussian, 1, 1.0, &device)?;
    /// # let mut evaluator = Evaluator::new(&likelihood, &Protocol::new(1000))?;
    /// # evaluator.add(&Observed::Values(Tensor::ones([3, 1], &device)), |_| Ok(Tensor::zeros([3, 1], &device)))?;
    /// # let evaluation = evaluator.finish(0.0)?;
    /// // Residuals of 1 under noise of 1, of targets that were divided by 20.
    /// let in_units = evaluation.in_units(&Units { loc: vec![70.0], scale: vec![20.0] });
    /// assert_eq!(in_units.rmse.unwrap().value, 20.0);
    /// assert_eq!(in_units.nll.value, evaluation.nll.value + 20f64.ln());
    /// # Ok::<(), ktied::Error>(())
    /// ```
    pub fn in_units(self, units: &Units) -> Self {
        let Some(&first) = units.scale.first() else { return self };
        let shift: f64 = units.scale.iter().map(|scale| f64::from(*scale).ln()).sum();
        let common = units.scale.iter().all(|scale| *scale == first);
        let times = |metric: Option<Estimate>| metric.filter(|_| common).map(|metric| metric.times(first.into()));
        Self {
            neg_elbo: self.neg_elbo.plus(shift),
            nll: self.nll.plus(shift),
            nll_of_draws: self.nll_of_draws.plus(shift),
            rmse: times(self.rmse),
            sharpness: times(self.sharpness),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_grow_with_the_square_of_the_precision() {
        let estimate = |sem_draws| Estimate { value: 1.0, sem_examples: None, sem_draws };
        assert_eq!(estimate(Some(0.02)).draws_for(0.01, 50), Some(200));
        assert_eq!(estimate(Some(0.02)).draws_for(0.03, 50), Some(23)); // 50·4/9 = 22.2
        assert_eq!(estimate(Some(0.0)).draws_for(0.01, 50), Some(1));
        for (sem, tolerance) in [(None, 0.1), (Some(0.1), 0.0), (Some(0.1), -1.0), (Some(0.1), f64::NAN)] {
            assert_eq!(estimate(sem).draws_for(tolerance, 50), None, "{sem:?} {tolerance}");
        }
        assert_eq!(estimate(Some(1e300)).draws_for(1e-300, 50), None);
    }
}
