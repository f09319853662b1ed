//! The training loop: batches in, steps, validations, events and checkpoints out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::events::{Event, EventLog, ScaleSummary};
use super::run::Writer;
use super::trainer::{StepReport, Trainer};
use crate::cluster::Cluster;
use crate::data::{Batches, DataSet, ahead};
use crate::error::{Error, Result};
use crate::evaluate::Evaluation;
use crate::models::Network;
use crate::nn::Weights;

/// How training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are over.
    Finished,
    /// Validations did not get better any more.
    OutOfPatience,
    /// Somebody asked it to stop; a checkpoint was written.
    Interrupted,
}

/// Whoever watches a run.
pub trait Watch {
    /// A step is over.
    fn step(&mut self, trainer: &Trainer, report: &StepReport);
    /// A validation is over.
    fn validation(&mut self, trainer: &Trainer, metrics: &Evaluation, best: bool);
    /// A checkpoint was written.
    fn checkpoint(&mut self, step: u64);
    /// The next step has its batch, after so long a wait for it.
    fn waited(&mut self, _: Duration) {}
}

/// Nobody watches.
impl Watch for () {
    fn step(&mut self, _: &Trainer, _: &StepReport) {}
    fn validation(&mut self, _: &Trainer, _: &Evaluation, _: bool) {}
    fn checkpoint(&mut self, _: u64) {}
}

/// Trains to the end of the configuration, or until `stop` is set: then the step is finished and saved.
///
/// Of several processes the first alone has a writer; all of them stop when one is asked to.
///
/// # Errors
/// If the file system refuses, or training diverges; the last checkpoint is still there then.
pub fn fit<'a>(
    writer: impl Into<Option<&'a Writer>>,
    mut trainer: Trainer,
    data: &DataSet,
    watch: &mut impl Watch,
    stop: &AtomicBool,
) -> Result<(Trainer, Outcome)> {
    let (writer, first) = (writer.into(), trainer.state().step);
    let mut log = Log::new(writer.map(|writer| writer.events(first)).transpose()?);
    let (size, seed) = (trainer.config().train.batch, trainer.config().train.seed);
    std::thread::scope(|scope| {
        let batches = ahead(
            scope,
            Batches::new(&data.train, size, seed).of(trainer.cluster().place()).from(trainer.state().step),
        );
        while trainer.state().step < trainer.num_steps() && !trainer.is_out_of_patience() {
            let asked = Instant::now();
            let batch = batches.recv().map_err(|_| Error::NothingToTrainOn { set: data.name.clone() })??;
            watch.waited(asked.elapsed());
            let report;
            (trainer, report) = trainer.step(batch)?;
            watch.step(&trainer, &report);
            let stopping = trainer.cluster().any(stop.load(Ordering::Relaxed))?;
            let due = Due::after(&trainer, stopping);
            if due.log {
                log.train(&mut trainer, &report)?;
            }
            let mut is_best = false;
            if due.validation && !data.validation.is_empty() {
                let metrics = trainer.evaluate(&data.validation, trainer.config().train.validate_draws, |_| {})?;
                is_best = trainer.note_validation(metrics.neg_elbo.value);
                log.validation(&trainer, &metrics, is_best)?;
                watch.validation(&trainer, &metrics, is_best);
            }
            if due.validation {
                log.scales(&trainer)?;
            }
            // The best is always kept, whether or not a checkpoint was due.
            if due.checkpoint || is_best || trainer.is_out_of_patience() {
                save(writer, &trainer, &mut log)?;
                watch.checkpoint(trainer.state().step);
            }
            if stopping {
                return Ok((trainer, Outcome::Interrupted));
            }
        }
        let outcome = if trainer.is_out_of_patience() { Outcome::OutOfPatience } else { Outcome::Finished };
        // A run that was over before has said so, unless it was interrupted just then.
        if trainer.state().step > first || !log.is_finished() {
            log.finished(&trainer, outcome)?;
        }
        Ok((trainer, outcome))
    })
}

/// What is due after a step.
struct Due {
    log: bool,
    validation: bool,
    checkpoint: bool,
}

impl Due {
    fn after(trainer: &Trainer, stopping: bool) -> Self {
        let (train, step) = (&trainer.config().train, trainer.state().step);
        let last = step >= trainer.num_steps();
        let every = |epochs: u64| epochs > 0 && step.is_multiple_of(epochs.saturating_mul(trainer.steps_per_epoch()));
        let of_steps = train.checkpoint_steps.is_some_and(|steps| step.is_multiple_of(steps.max(1)));
        Self {
            log: last || step.is_multiple_of(train.log_every.max(1)),
            validation: train.validate_every > 0 && (last || every(train.validate_every)),
            checkpoint: last || stopping || of_steps || every(train.checkpoint_every),
        }
    }
}

pub(super) fn save(writer: Option<&Writer>, trainer: &Trainer, log: &mut Log) -> Result<()> {
    let checkpoint = trainer.checkpoint()?;
    let (step, digest) = (trainer.state().step, checkpoint.digest().to_string());
    let best = trainer.state().best.map(|best| best.step);
    // A run that goes on from such numbers never comes back from them.
    if let Some(path) = checkpoint.not_finite() {
        return Err(Error::NonFinite { step, what: format!("tensor `{path}`") });
    }
    same_everywhere(trainer.cluster(), step, &digest)?;
    let Some(writer) = writer else { return Ok(()) };
    // What the checkpoint is cut back to must outlive a power cut as it does.
    log.sync()?;
    writer.save(&checkpoint, best, trainer.config().train.keep)?;
    log.push(&Event::Checkpoint { step, digest })
}

/// Refuses to go on where a process does not have the parameters of the first: a fault of the machine or of this program.
fn same_everywhere(cluster: &dyn Cluster, step: u64, digest: &str) -> Result<()> {
    if cluster.place().is_alone() {
        return Ok(());
    }
    let digests = cluster.notes(digest.as_bytes())?;
    match digests.iter().position(|other| Some(other) != digests.first()) {
        None => Ok(()),
        Some(process) => {
            Err(Error::UnlikeFirst { process, differences: format!("other parameters after step {step}") })
        }
    }
}

/// The event log, if this process keeps it, and when its last line was written.
pub(super) struct Log {
    events: Option<EventLog>,
    last: Instant,
}

impl Log {
    pub(super) fn new(events: Option<EventLog>) -> Self {
        Self { events, last: Instant::now() }
    }

    fn push(&mut self, event: &Event<'_>) -> Result<()> {
        self.events.as_mut().map_or(Ok(()), |events| events.push(event))
    }

    fn sync(&self) -> Result<()> {
        self.events.as_ref().map_or(Ok(()), EventLog::sync)
    }

    fn is_finished(&self) -> bool {
        self.events.as_ref().is_none_or(EventLog::is_finished)
    }

    fn train(&mut self, trainer: &mut Trainer, report: &StepReport) -> Result<()> {
        let window = trainer.take_window();
        let steps_per_second = window.steps as f64 / self.last.elapsed().as_secs_f64().max(1e-9);
        self.last = Instant::now();
        self.push(&Event::Train {
            step: report.step,
            epoch: epoch(trainer),
            nll: window.mean_nll(),
            kl: report.terms.kl,
            kl_per_example: report.terms.kl_per_example,
            neg_elbo: window.mean_nll() + report.terms.kl_per_example,
            accuracy: report.correct.map(|_| window.accuracy()),
            weight: report.weight,
            skipped: trainer.state().skipped,
            steps_per_second,
            snr: trainer.take_snr(),
            sent_bytes: trainer.take_sent(),
        })
    }

    fn validation(&mut self, trainer: &Trainer, metrics: &Evaluation, best: bool) -> Result<()> {
        let step = trainer.state().step;
        self.push(&Event::Validation { step, epoch: epoch(trainer), best, metrics })
    }

    fn scales(&mut self, trainer: &Trainer) -> Result<()> {
        let layers = trainer.model().network.weights().into_iter().filter_map(summary).collect();
        self.push(&Event::Scales { step: trainer.state().step, layers })
    }

    fn finished(&mut self, trainer: &Trainer, outcome: Outcome) -> Result<()> {
        let reason = match outcome {
            Outcome::OutOfPatience => "out-of-patience",
            _ => "all-steps",
        };
        self.push(&Event::Finished { step: trainer.state().step, weight: trainer.weight(), reason })
    }
}

fn epoch(trainer: &Trainer) -> f64 {
    trainer.state().step as f64 / trainer.steps_per_epoch().max(1) as f64
}

/// Standard deviations of a layer's kernel; none of a point.
fn summary(weights: &Weights) -> Option<ScaleSummary> {
    let scale = weights.scale()?.into_data();
    let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, 0.0f64, 0.0, 0.0);
    for sigma in scale.iter::<f64>() {
        (min, max, sum, count) = (min.min(sigma), max.max(sigma), sum + sigma, count + 1.0);
    }
    let mean = sum / count;
    let [prior, _] = weights.prior_scales();
    Some(ScaleSummary { layer: weights.name().into(), min, mean, max, of_prior: mean / prior })
}
