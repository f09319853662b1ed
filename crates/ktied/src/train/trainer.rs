//! One step of training after another, each a pure function of the run so far.

use std::sync::Arc;

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied_kernels::Awake;

use super::averages::Averages;
use super::finite;
use super::model::{Model, check_together};
use super::optim::{Adam, AdamConfig, LearningRates};
use super::snr::{Snr, SnrWindow};
use super::state::{Best, Exact, State};
use super::together::{Part, Together};
use crate::checkpoint::{Checkpoint, Header, NamedTensor, NamedTensors, load_module, module_tensors};
use crate::cluster::Cluster;
use crate::config::{ClusterSpec, Config, NonFinite, PriorKind};
use crate::data::{Batch, Batches, DataSet, InOrder, Split};
use crate::error::{Error, Result};
use crate::evaluate::{Ensemble, Evaluation, Protocol};
use crate::models::{AnyNetwork, Network};
use crate::nn::{Pass, Weights};
use crate::objective::{Anneal, Elbo, Observed, Terms};

/// Examples that a validation or an evaluation looks at together.
pub const EVALUATION_BATCH: usize = 1000;

/// Steps in a row that may be left out before training gives up.
const MAX_SKIPS: u64 = 100;

/// What one step did.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Steps that are over now.
    pub step: u64,
    /// The batch's NLL per example, and the divergence before the update.
    pub terms: Terms,
    /// The weight that annealing put on the divergence.
    pub weight: f64,
    /// Examples of the batch.
    pub examples: usize,
    /// Those that were classified rightly, if the targets are classes.
    pub correct: Option<usize>,
    /// What was not finite, by the name of its tensor, if the step was left out.
    pub left_out: Option<String>,
}

/// A run in memory: parameters, optimiser, and how far it has come.
#[derive(Debug)]
pub struct Trainer {
    config: Config,
    data_digest: String,
    model: Model,
    adam: Adam,
    elbo: Elbo,
    anneal: Anneal,
    steps_per_epoch: u64,
    state: State,
    snr: Option<SnrWindow>,
    skips_in_a_row: u64,
    together: Together,
}

impl Trainer {
    /// A run at its beginning.
    ///
    /// # Errors
    /// If the configuration cannot be, network and data do not fit, or there is nothing to train on.
    pub fn new(config: Config, data: &DataSet) -> Result<Self> {
        check_together(&config, data)?;
        Self::begin(config, data)
    }

    /// The same for a run that is there already, whatever its batch.
    pub(crate) fn begin(config: Config, data: &DataSet) -> Result<Self> {
        let model = Model::new(&config, &data.train, &Device::flex().autodiff())?;
        let steps_per_epoch = Batches::new(&data.train, config.train.batch, config.train.seed).steps_per_epoch();
        let (elbo, anneal) = (config.elbo(data.train.len())?, config.anneal(steps_per_epoch)?);
        let adam = AdamConfig::new().with_clip(config.optim.clip).init();
        let snr = config.train.snr.then(SnrWindow::default);
        let (data_digest, state, together) = (data.digest.clone(), State::default(), Together::alone());
        let skips_in_a_row = 0;
        Ok(Self {
            config,
            data_digest,
            model,
            adam,
            elbo,
            anneal,
            steps_per_epoch,
            state,
            snr,
            skips_in_a_row,
            together,
        })
    }

    /// The same run as one of several processes, each of which has such a trainer and its part of every batch
    /// ([`Batches::of`]). All of them hold the same parameters after every step.
    ///
    /// # Errors
    /// [`Error::OneProcessOnly`] if a layer needs the whole batch in one place.
    pub fn with_cluster(self, cluster: Arc<dyn Cluster>) -> Result<Self> {
        let found = cluster.place().of;
        if found > 1 && self.config.model.has_batch_statistics() {
            return Err(Error::OneProcessOnly { what: "model.norm = \"batch\" (\"frozen\" takes any number)", found });
        }
        let ClusterSpec { noise, wire } = self.config.cluster;
        Ok(Self { together: Together::new(cluster, noise, wire), ..self })
    }

    /// The run of a checkpoint, which goes on as if it had never stopped.
    ///
    /// # Errors
    /// If the checkpoint is of another network, or its data were others.
    pub fn resume(config: Config, data: &DataSet, checkpoint: &Checkpoint) -> Result<Self> {
        let fresh = Self::begin(config, data)?;
        if checkpoint.header().data != data.digest {
            return Err(Error::OtherData { set: data.name.clone() });
        }
        let state: State = serde_json::from_value(checkpoint.header().state.clone())
            .map_err(|error| Error::BadState { step: checkpoint.header().step, reason: error.to_string() })?;
        if let Some(path) = checkpoint.not_finite() {
            let reason = format!("a number of the tensor `{path}` is not finite");
            return Err(Error::BadState { step: checkpoint.header().step, reason });
        }
        let mut model = load_module(fresh.model, checkpoint.weights())?;
        if !state.priors.is_empty() {
            let mut priors = state.priors.iter();
            let with = |weights: Weights| match priors.next() {
                Some([kernel, bias]) => weights.with_prior_scales([kernel.0, bias.0]),
                None => Ok(weights),
            };
            model.network = model.network.map_weights(with)?;
        }
        let mut adam = fresh.adam;
        adam.load_tensors(&model, checkpoint.train_state())?;
        Ok(Self { model, adam, state, ..fresh })
    }

    /// The same run with the weights of another at its beginning, as far as both have them.
    ///
    /// # Errors
    /// If a mean of this network is not in `source`.
    pub fn with_weights_of(self, source: &Checkpoint) -> Result<Self> {
        let mut tensors = NamedTensors::default();
        for (path, own) in module_tensors(&self.model)?.iter() {
            let same_shape = |other: &&NamedTensor| other.shape() == own.shape() && other.dtype() == own.dtype();
            match source.weights().get(path).filter(same_shape) {
                Some(other) => tensors.insert(path, other.clone())?,
                None if path.ends_with(".loc") => return Err(Error::NotInSource { path: path.into() }),
                None => tensors.insert(path, own.clone())?,
            }
        }
        Ok(Self { model: load_module(self.model, &tensors)?, ..self })
    }

    /// The same run with all parameters of a model of the same shape, and its priors, at its beginning.
    ///
    /// # Errors
    /// If the model is another one.
    pub fn with_model(self, source: &Model) -> Result<Self> {
        let mut model = load_module(self.model, &module_tensors(source)?)?;
        let mut sources = source.network.weights().into_iter();
        model.network = model.network.map_weights(|weights| match sources.next() {
            Some(source) => weights.with_prior_scales(source.prior_scales()),
            None => Ok(weights),
        })?;
        Ok(Self { model, ..self })
    }

    /// Everything that [`resume`](Self::resume) needs.
    ///
    /// # Errors
    /// If a tensor cannot be stored.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let learned = self.config.prior.kind == PriorKind::Empirical;
        let priors = if learned { self.model.network.weights() } else { Vec::new() };
        let priors = priors.into_iter().map(|weights| weights.prior_scales().map(Exact)).collect();
        let state = State { priors, ..self.state.clone() };
        let header = Header {
            data: self.data_digest.clone(),
            config: serde_json::to_value(&self.config).unwrap_or_default(),
            state: serde_json::to_value(state).unwrap_or_default(),
            ..Header::new(self.state.step, self.config.train.seed)
        };
        let optimizer = self.adam.to_tensors(&self.model)?;
        Ok(Checkpoint::new(header, module_tensors(&self.model)?, optimizer)?)
    }

    /// The step on a batch; the run is lost if it fails.
    ///
    /// # Errors
    /// [`Error::NonFinite`] if a loss, a gradient or what the update would write is not finite and the configuration says to
    /// stop then, or it has happened too often in a row.
    pub fn step(mut self, batch: Batch) -> Result<(Self, StepReport)> {
        let _awake = Awake::begin();
        let (step, seed, examples) = (self.state.step, self.config.train.seed, batch.len_of_whole());
        if self.config.network().prior.is_due(step) {
            self.model.network = self.model.network.clone().with_empirical_priors()?;
        }
        let averages = Averages::of(&self.model);
        let weight = self.anneal.weight(step);
        let part = self.part(batch, seed, weight)?;
        let Part { nll, kl, correct, grads } = self.together.whole(&self.model, part)?;
        let terms = self.elbo.terms(nll, kl);
        let report = StepReport { step: step + 1, terms, weight, examples, correct, left_out: None };
        self.state.step += 1;

        let grads = grads.and_then(|grads| self.foresee(&grads).map(|norm| (grads, norm)));
        match grads {
            Ok((grads, norm)) => Ok((self.update(grads, norm, &report)?, report)),
            Err(what) => {
                self.model = averages.put_back(self.model);
                Ok((self.leave_out(&what)?, StepReport { left_out: Some(what), ..report }))
            }
        }
    }

    /// What this process finds of its part of a batch: of all of it, if it is alone.
    fn part(&self, batch: Batch, seed: u64, weight: f64) -> Result<Part> {
        let (step, share) = (self.state.step, batch.len() as f64 / batch.len_of_whole().max(1) as f64);
        let (is_empty, first) = (batch.is_empty(), batch.first());
        let (features, observed) = batch.on(&Device::flex());
        let mut nll: Option<Tensor<1>> = None;
        let mut first_output = None;
        let estimator = &self.config.estimator;
        for pass in Pass::several(seed, step, estimator.kind, estimator.draws).filter(|_| !is_empty) {
            let pass = self.together.pass(pass, first);
            let (output, of_draw) = self.model.nll(features.clone(), &observed, &pass)?;
            first_output.get_or_insert(output);
            let mean = of_draw.mean();
            nll = Some(nll.map_or(mean.clone(), |sum| sum + mean));
        }
        let correct = first_output.clone().and_then(|output| num_correct(output, &observed));
        if nll.is_none() && !is_empty {
            return Err(Error::NoDraws);
        }
        let nll = nll.map(|nll| nll / estimator.draws as f64);
        let nll = if share == 1.0 { nll } else { nll.map(|nll| nll * share) };
        let value = nll.as_ref().map_or(0.0, number);
        let mut grads = match nll.filter(|_| value.is_finite()) {
            Some(nll) => GradientsParams::from_grads(nll.backward(), &self.model),
            // Of a process without examples in this batch, or lost anyway.
            None => GradientsParams::new(),
        };
        let by = self.elbo.weight_of_kl(weight);
        let kl = self.together.add_kl_gradients(&self.model.network, by, &mut grads)?;
        let terms = self.elbo.terms(value, kl);
        let grads = match terms.neg_elbo().is_finite() {
            true => Ok(grads),
            false => Err(finite::in_loss(&self.model, &features, first_output, &terms)),
        };
        Ok(Part { nll: terms.nll, kl: terms.kl, correct, grads })
    }

    /// The norm of gradients that are finite and leave everything finite, or what would not be.
    fn foresee(&self, grads: &GradientsParams) -> std::result::Result<f64, String> {
        let norm = finite::norm_of(&self.model, grads, self.config.optim.clip.is_some())?;
        self.adam.foresee(self.rates(), &self.model, grads, norm).map_or(Ok(norm), Err)
    }

    fn rates(&self) -> LearningRates {
        let by =
            0.5f64.powi(self.state.halvings as i32) * self.config.rate_share(self.state.step, self.steps_per_epoch);
        let lr = self.config.optim.lr;
        let scale = self.config.optim.scale_lr.unwrap_or(lr);
        LearningRates { loc: by * lr, scale: by * scale }
    }

    fn update(mut self, grads: GradientsParams, norm: f64, report: &StepReport) -> Result<Self> {
        if let Some(snr) = &mut self.snr {
            snr.push(&self.model, &grads, report.step);
        }
        let (mut model, ruined) = self.adam.step_of_norm(self.rates(), self.model, grads, norm);
        // Nothing can be put back any more, so no policy helps; the last checkpoint is good.
        if let Some(what) = ruined {
            return Err(Error::NonFinite { step: report.step, what });
        }
        if self.config.posterior.cap.is_some() {
            model.network = model.network.clipped();
        }
        self.state.window = self.state.window.with(report.examples, report.correct, report.terms.nll);
        Ok(Self { model, skips_in_a_row: 0, ..self })
    }

    fn leave_out(mut self, what: &str) -> Result<Self> {
        self.skips_in_a_row += 1;
        let policy = self.config.train.non_finite;
        if policy == NonFinite::Stop || self.skips_in_a_row > MAX_SKIPS {
            return Err(Error::NonFinite { step: self.state.step, what: what.into() });
        }
        self.state.skipped += 1;
        self.state.halvings += u32::from(policy == NonFinite::Halve);
        Ok(self)
    }

    /// How the run does on other examples, with weight 1 on the divergence whatever annealing says now.
    ///
    /// # Errors
    /// If the examples do not fit.
    pub fn evaluate(&self, split: &Split, samples: u64, on_progress: impl FnMut(u64)) -> Result<Evaluation> {
        self.evaluate_network(&self.model.network, split, samples, on_progress)
    }

    /// How another network would do in this run's place.
    ///
    /// # Errors
    /// If the examples do not fit.
    pub fn evaluate_network(
        &self,
        network: &AnyNetwork,
        split: &Split,
        samples: u64,
        on_progress: impl FnMut(u64),
    ) -> Result<Evaluation> {
        let samples = if network.is_deterministic() { 1 } else { samples };
        let protocol = Protocol { samples, seed: self.config.train.seed, num_train: self.elbo.num_train() };
        let ensemble = Ensemble::new([(network, &self.model.likelihood)])?;
        let examples = InOrder::new(split, EVALUATION_BATCH);
        Ok(ensemble.judge_together(self.together.cluster(), &examples, &protocol, on_progress)?.evaluation)
    }

    /// Takes note of a validation's −ELBO, and says whether none before was better.
    pub fn note_validation(&mut self, neg_elbo: f64) -> bool {
        // What is no number is never better, not even than nothing: no number would be better than it.
        let better = neg_elbo.is_finite() && self.state.best.is_none_or(|best| neg_elbo < best.neg_elbo);
        if better {
            self.state.best = Some(Best { step: self.state.step, neg_elbo });
        }
        self.state.stale = if better { 0 } else { self.state.stale + 1 };
        better
    }

    /// Whether validations have been without a better one for as long as the configuration allows.
    pub fn is_out_of_patience(&self) -> bool {
        self.config.train.patience.is_some_and(|patience| self.state.stale >= patience)
    }

    /// The processes that train together, of which this is one.
    pub fn cluster(&self) -> &dyn Cluster {
        self.together.cluster()
    }

    /// Bytes that this process has sent to others since the last call; none if there are no others.
    pub fn take_sent(&mut self) -> Option<u64> {
        self.together.take_sent()
    }

    /// Takes the sums since the last call out.
    pub fn take_window(&mut self) -> super::state::Window {
        std::mem::take(&mut self.state.window)
    }

    /// The signal-to-noise ratios of the last full window of gradients, once.
    pub fn take_snr(&mut self) -> Vec<Snr> {
        self.snr.as_mut().map_or_else(Vec::new, SnrWindow::take)
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The parameters.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How far the run has come.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Steps that visit every example once.
    pub fn steps_per_epoch(&self) -> u64 {
        self.steps_per_epoch
    }

    /// Steps of the whole run.
    pub fn num_steps(&self) -> u64 {
        self.config.num_steps(self.steps_per_epoch)
    }

    /// The weight that annealing puts on the divergence now.
    pub fn weight(&self) -> f64 {
        self.anneal.weight(self.state.step)
    }
}

/// How many outputs have the observed class as their largest.
fn num_correct(output: Tensor<2>, observed: &Observed) -> Option<usize> {
    let Observed::Classes(labels) = observed else { return None };
    let [_, outputs] = output.dims();
    let logits: Vec<f32> = output.into_data().iter::<f32>().collect();
    let class = |row: &[f32]| match row {
        [logit] => u32::from(*logit > 0.0),
        row => {
            let best = (0..row.len()).reduce(|best, i| if row[i] > row[best] { i } else { best });
            best.unwrap_or(0) as u32
        }
    };
    Some(logits.chunks(outputs.max(1)).zip(labels).filter(|(row, label)| class(row) == **label).count())
}

fn number(tensor: &Tensor<1>) -> f64 {
    tensor.to_data().iter::<f64>().next().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests;
