//! Several networks of one task, judged as the one mixture that they make.

use burn::tensor::Tensor;
use ktied_kernels::Purpose;

use super::classes::Opinion;
use super::evaluator::{Evaluator, Protocol, plan, same_task};
use super::groups::{Group, Wanted, average, groups};
use super::ood::Uncertainties;
use super::predictive::{Predictive, Truth};
use super::whole::Judgement;
use crate::error::{Error, Result};
use crate::models::{Network, Passes};
use crate::nn::Pass;
use crate::objective::{Likelihood, Observed};

/// Batches that share the weights of a draw where they are drawn for all examples, and are in memory together.
pub const BATCHES_AT_ONCE: usize = 4;

/// One network or several, whose predictions are averaged over members and their draws.
///
/// Every member weighs the same. Member m draws its weights from a branch of the seed's noise of its own, so members are
/// independent of each other; the first draws as it would alone. Of several members, one whose draws are all the
/// same (points, no dropout) is run once a batch; if all are, each has one draw.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::evaluate::{Ensemble, Protocol};
/// use ktied::models::{MlpSpec, NetworkConfig, PosteriorSpec};
/// use ktied::objective::{Likelihood, LikelihoodKind, Observed};
///
/// let device = Device::flex();
/// let mlp = |seed| {
///     let config = NetworkConfig { seed, ..NetworkConfig::new(PosteriorSpec::new("k-tied:2".parse()?)) };
///     MlpSpec::new([8, 16, 3]).init(&config, &device)
/// };
/// let (networks, likelihood) = ([mlp(1)?, mlp(2)?], Likelihood::new(LikelihoodKind::Softmax, 3, 1.0, &device)?);
/// let ensemble = Ensemble::new(networks.iter().map(|network| (network, &likelihood)))?;
///
/// let batch = (Tensor::ones([5, 8], &device), Observed::Classes(vec![0, 1, 2, 1, 1]));
/// let known = ensemble.judge([Ok(batch)], &Protocol::new(1000), |_| ())?;
/// assert_eq!((known.evaluation.members, known.evaluation.samples), (2, 100));
///
/// // Examples of another kind, without labels: are their uncertainties larger?
/// let strange = ensemble.uncertainties([Ok(Tensor::ones([4, 8], &device) * 9.0)], &Protocol::new(1000), |_| ())?;
/// let found = known.uncertainties.and_then(|known| known.detect(&strange)).unwrap();
/// assert_eq!((found.inside, found.outside), (5, 4));
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug)]
pub struct Ensemble<N> {
    networks: Vec<N>,
    members: Vec<Predictive>,
    /// Whether all draws of a member are the same.
    points: Vec<bool>,
}

impl<N: Network> Ensemble<N> {
    /// Networks with their likelihoods.
    ///
    /// # Errors
    /// If there is none, some are for classes and some for numbers, or the noise of a likelihood is not finite.
    pub fn new<'a>(members: impl IntoIterator<Item = (&'a N, &'a Likelihood)>) -> Result<Self>
    where
        N: 'a,
    {
        let (mut networks, mut predictives) = (vec![], vec![]);
        for (network, likelihood) in members {
            networks.push(network.valid());
            predictives.push(Predictive::new(likelihood)?);
        }
        plan(&predictives, 1)?;
        same_task(&predictives)?;
        let points = networks.iter().map(|network| networks.len() > 1 && network.is_deterministic()).collect();
        Ok(Self { networks, members: predictives, points })
    }

    /// Judges the mixture on batches of inputs and what was observed of them, without building graphs for gradients.
    ///
    /// `on_progress` gets the number of predictions made so far, of members × samples × examples in all.
    ///
    /// # Errors
    /// What a batch or a network says, and as [`Evaluator`].
    pub fn judge(
        &self,
        batches: impl IntoIterator<Item = Result<(N::Input, Observed)>>,
        protocol: &Protocol,
        on_progress: impl FnMut(u64),
    ) -> Result<Judgement> {
        let protocol = Protocol { samples: self.samples(protocol.samples), ..*protocol };
        let mut evaluator = Evaluator::of_predictives(self.members.clone(), &protocol)?;
        let mut progress = Progress::new(on_progress);
        for window in windows(batches) {
            let (inputs, observed): (Vec<_>, Vec<_>) = window?.into_iter().unzip();
            let mut output = self.outputs(inputs, protocol.seed);
            evaluator.add_window(&observed, |wanted| progress.note(output(wanted)?))?;
        }
        evaluator.judge(self.kl()?)
    }

    /// How uncertain the mixture is about examples whose labels nobody knows, under the draws of
    /// [`judge`](Self::judge).
    ///
    /// # Errors
    /// What a batch or a network says, or if the networks are not for classes.
    pub fn uncertainties(
        &self,
        inputs: impl IntoIterator<Item = Result<N::Input>>,
        protocol: &Protocol,
        on_progress: impl FnMut(u64),
    ) -> Result<Uncertainties> {
        if let Some(member @ Predictive::Gaussian(..)) = self.members.first() {
            return Err(Error::WrongTargets { likelihood: member.kind().name(), found: "classes" });
        }
        let (mut found, mut first) = (Uncertainties::default(), 0);
        let mut progress = Progress::new(on_progress);
        for window in windows(inputs) {
            let window = window?;
            let (batches, mut output) = (window.len(), self.outputs(window, protocol.seed));
            let sums = self.sums(batches, first, protocol.samples, |wanted| progress.note(output(wanted)?))?;
            for (rows, groups) in sums {
                for row in 0..rows {
                    let average = average(&groups, row, None);
                    let opinion = Opinion::new(&average.prediction, average.entropy);
                    found.add(opinion.entropy, opinion.mutual_information);
                }
                first += rows as u64;
            }
        }
        Ok(found)
    }

    /// Number of members.
    pub fn num_members(&self) -> usize {
        self.networks.len()
    }

    /// The members' mean KL(q‖p).
    pub(super) fn kl(&self) -> Result<f64> {
        let mut sum = 0.0;
        for network in &self.networks {
            sum += network.kl()?.into_data().iter::<f64>().sum::<f64>();
        }
        Ok(sum / self.networks.len() as f64)
    }

    /// One draw is enough of several points; a single network is judged as it was asked.
    pub(super) fn samples(&self, samples: u64) -> u64 {
        if self.points.iter().all(|point| *point) { samples.min(1) } else { samples }
    }

    pub(super) fn predictives(&self) -> &[Predictive] {
        &self.members
    }

    /// Rows of each of some batches of which nothing was observed, and the sums of all draws for each.
    pub(super) fn sums(
        &self,
        batches: usize,
        mut first: u64,
        samples: u64,
        mut output: impl FnMut(Wanted) -> Result<Tensor<2>>,
    ) -> Result<Vec<(usize, Vec<Group>)>> {
        let plan = plan(&self.members, self.samples(samples))?;
        // How many examples a batch of inputs has is what the first output says.
        let (mut of_first_draw, mut truths) = (vec![], vec![]);
        for batch in 0..batches {
            let output = output(Wanted { member: 0, draw: 0, batch, first })?;
            let truth = Truth::nothing(first, output.dims()[0]);
            first += truth.len() as u64;
            of_first_draw.push(Some(output));
            truths.push(truth);
        }
        let sums = groups(&self.members, &truths, &plan, |wanted| match of_first_draw[wanted.batch].take() {
            Some(output) => Ok(output),
            None => output(wanted),
        });
        Ok(truths.iter().map(Truth::len).zip(sums?).collect())
    }

    /// The output of a member under a draw, for one of some batches. Asked for one batch after the other, they share the
    /// weights that are drawn; asked for one draw after the other, they share what does not depend on it.
    pub(super) fn outputs(&self, inputs: Vec<N::Input>, seed: u64) -> impl FnMut(Wanted) -> Result<Tensor<2>> {
        let batches = inputs.len();
        let mut passes: Vec<Option<Passes<N>>> = (0..batches * self.networks.len()).map(|_| None).collect();
        let mut of_points = vec![None; passes.len()];
        let mut drawn: Option<(usize, u64, N)> = None;
        move |Wanted { member, draw, batch, first }| {
            let place = member * batches + batch;
            if let Some(output) = &of_points[place] {
                return Ok(Tensor::clone(output));
            }
            let (network, pass) = (&self.networks[member], pass(seed, member, draw, first));
            let output_of = match &mut passes[place] {
                Some(output_of) => output_of,
                none => none.insert(network.passes(inputs[batch].clone())?),
            };
            let network = match &mut drawn {
                Some((of_member, of_draw, network)) if (*of_member, *of_draw) == (member, draw) => network,
                other => &mut other.insert((member, draw, network.drawn(&pass)?)).2,
            };
            let output = output_of(network, &pass)?;
            of_points[place] = self.points[member].then(|| output.clone());
            Ok(output)
        }
    }
}

/// Batches, a few at a time: they share every draw of the weights, and are in memory together.
pub(super) fn windows<T>(batches: impl IntoIterator<Item = Result<T>>) -> impl Iterator<Item = Result<Vec<T>>> {
    let mut batches = batches.into_iter();
    std::iter::from_fn(move || {
        let window: Result<Vec<T>> = batches.by_ref().take(BATCHES_AT_ONCE).collect();
        Some(window).filter(|window| !matches!(window, Ok(batches) if batches.is_empty()))
    })
}

/// Counts predictions and tells.
pub(super) struct Progress<F> {
    predictions: u64,
    on_progress: F,
}

impl<F: FnMut(u64)> Progress<F> {
    pub fn new(on_progress: F) -> Self {
        Self { predictions: 0, on_progress }
    }

    pub fn note(&mut self, output: Tensor<2>) -> Result<Tensor<2>> {
        self.predictions += output.dims()[0] as u64;
        (self.on_progress)(self.predictions);
        Ok(output)
    }
}

/// A draw of one member's weights. The first member's noise is that of a network alone.
fn pass(seed: u64, member: usize, draw: u64, first: u64) -> Pass {
    match Pass::marginal(seed, draw, first) {
        Pass::Marginal { root, draw, first } if member > 0 => {
            Pass::Marginal { root: root.child(Purpose::Draws).fold(member as u64), draw, first }
        }
        pass => pass,
    }
}
