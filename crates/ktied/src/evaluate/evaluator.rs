//! The stream from outputs to metrics: one batch at a time, all its draws, then its examples in order.

use burn::tensor::Tensor;

use super::calibration::Bootstrap;
use super::estimate::{Estimate, Evaluation};
use super::groups::{Average, Group, group_sizes};
use super::jackknife;
use super::predictive::Predictive;
use super::tally::{Scores, Tally};
use crate::error::{Error, Result};
use crate::objective::{Elbo, Likelihood, Observed};

/// How a network is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// S, the draws to average over. For a point one is enough: all are the same.
    pub samples: u64,
    /// Seed of the draws and of the bootstraps.
    pub seed: u64,
    /// N of KL/N, the number of training examples.
    pub num_train: usize,
}

impl Protocol {
    /// 100 draws of seed 0.
    pub fn new(num_train: usize) -> Self {
        Self { samples: 100, seed: 0, num_train }
    }
}

/// Judges outputs as they come, wherever they come from: [`evaluate`](super::evaluate) for a network, or this for an
/// ensemble or a model that is no [`Network`](crate::models::Network).
///
/// Draws are divided into groups of neighbours, so an ensemble should take its members in turn.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::evaluate::{Evaluator, Protocol};
/// use ktied::objective::{Likelihood, LikelihoodKind, Observed};
///
/// let likelihood = Likelihood::new(LikelihoodKind::Softmax, 2, 1.0, &Device::flex())?;
/// let mut evaluator = Evaluator::new(&likelihood, &Protocol { samples: 2, ..Protocol::new(1000) })?;
/// let draws = [[[0.5f32, 0.5], [0.2, 0.8]], [[0.75, 0.25], [0.6, 0.4]]]; // probabilities of two draws, two examples
/// evaluator.add(&Observed::Classes(vec![0, 1]), |draw| {
///     Ok(Tensor::<2>::from_floats(draws[draw as usize], &Device::flex()).log())
/// })?;
/// let evaluation = evaluator.finish(50.0)?;
/// assert!((evaluation.nll.value + (0.625f64.ln() + 0.6f64.ln()) / 2.0).abs() < 1e-7);
/// assert_eq!(evaluation.kl_per_example, 0.05);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug)]
pub struct Evaluator {
    predictive: Predictive,
    elbo: Elbo,
    samples: u64,
    examples: u64,
    all: Tally,
    bootstrap: Bootstrap,
    /// The same metrics without the draws of one group, for each.
    without: Vec<Tally>,
}

impl Evaluator {
    /// Nothing seen yet.
    ///
    /// # Errors
    /// If the protocol has no draw or no training example, or the likelihood's noise is not finite.
    pub fn new(likelihood: &Likelihood, protocol: &Protocol) -> Result<Self> {
        let Protocol { samples, seed, num_train } = *protocol;
        if samples == 0 {
            return Err(Error::TooSmall { key: "samples".into(), least: 1, found: 0 });
        }
        let (predictive, elbo) = (Predictive::new(likelihood)?, Elbo::new(num_train)?);
        let num_without = if samples == 1 { 0 } else { group_sizes(samples).len() };
        let (without, bootstrap) = (vec![Tally::default(); num_without], Bootstrap::new(seed));
        Ok(Self { predictive, elbo, samples, examples: 0, all: Tally::default(), bootstrap, without })
    }

    /// Takes in a batch, where `output(draw)` gives the network's output under each draw, `[B, N]`: logits, or means.
    ///
    /// # Errors
    /// What `output` says; if it does not fit what was observed or is not finite; if a class is not one of the
    /// network's. The evaluator should not be used any more then.
    pub fn add(&mut self, observed: &Observed, mut output: impl FnMut(u64) -> Result<Tensor<2>>) -> Result<()> {
        let truth = self.predictive.read(observed, self.examples)?;
        let mut draws = 0..self.samples;
        let groups = group_sizes(self.samples).into_iter();
        let groups = groups.map(|size| Group::of(&truth, draws.by_ref().take(size as usize), &mut output));
        let groups = groups.collect::<Result<Vec<_>>>()?;
        for row in 0..truth.len() {
            let scores = Scores::new(&Average::of(&groups, row, None), truth.target(row));
            self.all.add(&scores);
            if let Some(class) = scores.class {
                self.bootstrap.add(self.examples, class);
            }
            for (group, tally) in self.without.iter_mut().enumerate() {
                tally.add(&Scores::new(&Average::of(&groups, row, Some(group)), truth.target(row)));
            }
            self.examples += 1;
        }
        Ok(())
    }

    /// The metrics of all examples, for weights of this divergence KL(q‖p).
    ///
    /// # Errors
    /// If there was no example, or the divergence is not finite.
    pub fn finish(self, kl: f64) -> Result<Evaluation> {
        let [neg_elbo, nll, accuracy, brier, ece, rmse] = self.estimates();
        let (Some(nll_of_draws), Some(nll)) = (neg_elbo, nll) else {
            return Err(Error::NoExamples);
        };
        let terms = self.elbo.terms(nll_of_draws.value, Error::finite("KL(q‖p)", kl)?);
        Ok(Evaluation {
            neg_elbo: Estimate { value: terms.neg_elbo(), ..nll_of_draws },
            nll,
            accuracy,
            brier,
            brier_usual: brier.map(|brier| brier.plus(1.0)),
            ece,
            rmse,
            kl,
            kl_per_example: terms.kl_per_example,
            samples: self.samples,
            examples: self.examples,
        })
    }

    /// The metrics in the order of [`Tally::values`].
    fn estimates(&self) -> [Option<Estimate>; 6] {
        let (values, errors) = (self.all.values(), self.all.standard_errors(&self.bootstrap));
        let without: Vec<_> = self.without.iter().map(Tally::values).collect();
        let sizes = group_sizes(self.samples);
        std::array::from_fn(|metric| {
            let value = values[metric]?;
            let without: Option<Vec<f64>> = without.iter().map(|values| values[metric]).collect();
            let sem_draws = jackknife::standard_error(value, &without?, &sizes);
            Some(Estimate { value, sem_examples: errors[metric], sem_draws })
        })
    }
}
