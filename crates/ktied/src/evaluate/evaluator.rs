//! The stream from outputs to metrics: a few batches at a time, all their draws, then their examples in order.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::estimate::{Counts, Estimate, Evaluation};
use super::groups::{Group, Wanted, average, groups};
use super::jackknife;
use super::plan::Plan;
use super::predictive::{Predictive, Truth};
use super::tally::{Metric, NUM_METRICS, Scores, Tally};
use super::whole::{Judgement, Whole};
use crate::error::{Error, Result};
use crate::objective::{Elbo, Likelihood, Observed};

/// Different confidences that are held apart without one group of draws: enough for a standard error.
const CELLS_WITHOUT: usize = 1 << 16;
/// Examples that are worth a thread's while.
const MIN_ROWS: usize = 8;

/// How a network is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// S, the draws to average over. For a point without dropout one is enough: all are the same.
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

/// Judges outputs as they come, wherever they come from: [`evaluate`](super::evaluate) for a network, an
/// [`Ensemble`](super::Ensemble) for several, or this for a model that is no [`Network`](crate::models::Network).
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
    members: Vec<Predictive>,
    plan: Plan,
    samples: u64,
    elbo: Elbo,
    all: Whole,
    /// The same metrics without the draws of one group, for each.
    without: Vec<Tally>,
}

impl Evaluator {
    /// Nothing seen yet.
    ///
    /// # Errors
    /// If the protocol has no draw or no training example, or the likelihood's noise is not finite.
    pub fn new(likelihood: &Likelihood, protocol: &Protocol) -> Result<Self> {
        Self::of_members(&[likelihood], protocol)
    }

    /// The same for several members with a likelihood each, whose predictions are averaged.
    ///
    /// # Errors
    /// As [`new`](Self::new); if there is no member, or some are for classes and some for numbers.
    pub fn of_members(likelihoods: &[&Likelihood], protocol: &Protocol) -> Result<Self> {
        let members = likelihoods.iter().map(|likelihood| Predictive::new(likelihood));
        Self::of_predictives(members.collect::<Result<_>>()?, protocol)
    }

    pub(super) fn of_predictives(members: Vec<Predictive>, protocol: &Protocol) -> Result<Self> {
        let Protocol { samples, seed, num_train } = *protocol;
        same_task(&members)?;
        let (plan, elbo) = (plan(&members, samples)?, Elbo::new(num_train)?);
        let num_groups = plan.group_sizes().len();
        let without = vec![Tally::new(CELLS_WITHOUT); if num_groups > 1 { num_groups } else { 0 }];
        Ok(Self { members, plan, samples, elbo, all: Whole::new(seed), without })
    }

    /// Examples so far.
    pub fn examples(&self) -> u64 {
        self.all.examples()
    }

    /// Takes in a batch, where `output(draw)` gives the network's output under each draw, `[B, N]`: logits, or means.
    ///
    /// # Errors
    /// What `output` says; if it does not fit what was observed or is not finite; if a class is not one of the
    /// network's. The evaluator should not be used any more then.
    pub fn add(&mut self, observed: &Observed, mut output: impl FnMut(u64) -> Result<Tensor<2>>) -> Result<()> {
        self.add_members(observed, |_, draw| output(draw))
    }

    /// The same, where `output(member, draw)` gives the output of one of several members.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_members(
        &mut self,
        observed: &Observed,
        mut output: impl FnMut(usize, u64) -> Result<Tensor<2>>,
    ) -> Result<()> {
        self.add_window([observed], |Wanted { member, draw, .. }| output(member, draw))
    }

    /// Takes in some batches, which share every draw.
    pub(super) fn add_window<'a>(
        &mut self,
        observed: impl IntoIterator<Item = &'a Observed>,
        output: impl FnMut(Wanted) -> Result<Tensor<2>>,
    ) -> Result<()> {
        let scores = self.scores(self.all.examples(), observed, output)?;
        self.add_scores(&scores);
        Ok(())
    }

    /// The scores of the examples of some batches, of which the first has this number.
    pub(super) fn scores<'a>(
        &self,
        first: u64,
        observed: impl IntoIterator<Item = &'a Observed>,
        output: impl FnMut(Wanted) -> Result<Tensor<2>>,
    ) -> Result<Vec<Scores>> {
        let truths = read(&self.members, observed, first)?;
        let sums = groups(&self.members, &truths, &self.plan, output)?;
        Ok(sums.iter().zip(&truths).flat_map(|(groups, truth)| scores(groups, truth, self.without.len())).collect())
    }

    pub(super) fn add_scores(&mut self, scores: &[Scores]) {
        let of_example = 1 + self.without.len();
        let without = self.without.par_iter_mut().enumerate();
        // Each sum is one thread's, in the order of examples, so its bits do not depend on the number of threads.
        rayon::join(
            || scores.iter().step_by(of_example).for_each(|scores| self.all.add(scores)),
            || {
                without.for_each(|(group, tally)| {
                    scores.iter().skip(1 + group).step_by(of_example).for_each(|s| tally.add(s))
                })
            },
        );
    }

    /// The metrics of all examples, for weights of this divergence KL(q‖p).
    ///
    /// # Errors
    /// If there was no example, or the divergence is not finite.
    pub fn finish(self, kl: f64) -> Result<Evaluation> {
        Ok(self.judge(kl)?.evaluation)
    }

    /// The metrics with all that belongs to them.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn judge(self, kl: f64) -> Result<Judgement> {
        let (samples, members, examples) = (self.samples, self.members.len() as u64, self.all.examples());
        if examples == 0 {
            return Err(Error::NoExamples);
        }
        let (estimates, kl) = (self.estimates(), Error::finite("KL(q‖p)", kl)?);
        let of = |metric: Metric| estimates[metric as usize];
        let counts = Counts { samples, members, examples };
        let evaluation = Evaluation::new(of, |nll| self.elbo.terms(nll, kl), counts).ok_or(Error::NoExamples)?;
        Ok(Judgement { evaluation, curves: self.all.curves(), uncertainties: self.all.into_uncertainties() })
    }

    fn estimates(&self) -> [Option<Estimate>; NUM_METRICS] {
        let (values, errors) = (self.all.values(), self.all.standard_errors());
        let without: Vec<_> = self.without.iter().map(Tally::values).collect();
        let sizes = self.plan.group_sizes();
        std::array::from_fn(|metric| {
            let value = values[metric]?;
            let without: Option<Vec<f64>> = without.iter().map(|values| values[metric]).collect();
            let sem_draws = jackknife::standard_error(value, &without?, &sizes);
            Some(Estimate { value, sem_examples: errors[metric], sem_draws })
        })
    }
}

/// The plan of so many draws of each member.
///
/// # Errors
/// If there is nothing to draw.
pub fn plan(members: &[Predictive], samples: u64) -> Result<Plan> {
    for (key, found) in [("samples", samples), ("members", members.len() as u64)] {
        if found == 0 {
            return Err(Error::TooSmall { key: key.into(), least: 1, found: 0 });
        }
    }
    Ok(Plan::new(members.len(), samples))
}

/// Refuses members of which some are for classes and some for numbers.
pub fn same_task(members: &[Predictive]) -> Result<()> {
    let found = |member: &Predictive| matches!(member, Predictive::Classes(_));
    let Some(classes) = members.first().map(found) else { return Ok(()) };
    match members.iter().find(|member| found(member) != classes) {
        Some(other) => {
            let targets = if classes { "classes" } else { "numbers" };
            Err(Error::WrongTargets { likelihood: other.kind().name(), found: targets })
        }
        None => Ok(()),
    }
}

/// What was observed of some batches, on the host, if all members can say something about it.
pub fn read<'a>(
    members: &[Predictive],
    observed: impl IntoIterator<Item = &'a Observed>,
    mut first: u64,
) -> Result<Vec<Truth<'a>>> {
    let member = members.first().ok_or(Error::NoExamples)?;
    let truths = observed.into_iter().map(|observed| {
        let truth = member.read(observed, first)?;
        first += truth.len() as u64;
        Ok(truth)
    });
    truths.collect()
}

/// The scores of every example: under all draws, and then without each of the first `num_without` groups of them.
pub fn scores(groups: &[Group], truth: &Truth<'_>, num_without: usize) -> Vec<Scores> {
    let of_example = |row: usize| {
        let kept = std::iter::once(None).chain((0..num_without).map(Some));
        kept.map(move |without| Scores::new(&average(groups, row, without), truth.target(row)))
    };
    (0..truth.len()).into_par_iter().with_min_len(MIN_ROWS).flat_map_iter(of_example).collect()
}
