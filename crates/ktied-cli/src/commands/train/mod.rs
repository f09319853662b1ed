//! `ktied train`: a configuration, a data set, and a folder that the run goes into.

mod progress;
mod settings;
mod together;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ktied::checkpoint::Skipped;
use ktied::cluster::Cluster;
use ktied::config::{ClusterNoise, Config};
use ktied::data::{DataSet, load};
use ktied::nn::Estimator;
use ktied::posterior::PosteriorKind;
use ktied::train::memory::Task;
use ktied::train::{Outcome, Run, Trainer, Watch, Writer, check_together, fit};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

pub(crate) use progress::{Progress, duration};
pub(crate) use settings::{assign, config_of};

use super::memory;
use crate::args::{Args, Train};
use crate::exit::Failure;
use crate::table::{print_json, print_line};

/// Code of a process that a signal ended.
pub(crate) const INTERRUPTED: i32 = 130;

/// What is printed at the end.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) run: PathBuf,
    pub(crate) step: u64,
    pub(crate) finished: bool,
    pub(crate) reason: &'static str,
    pub(crate) parameters: usize,
    pub(crate) best: Option<u64>,
    pub(crate) best_neg_elbo: Option<f64>,
    pub(crate) anneal_weight: f64,
    pub(crate) skipped_steps: u64,
    pub(crate) digest: String,
}

pub(crate) fn run(train: &Train, args: &Args, cluster: &Arc<dyn Cluster>) -> Result<(), Failure> {
    let stop = interruptible()?;
    let opened = together::open_together(train, args, cluster)?;
    announce(&opened, args);
    let mut progress = Progress::new(args, &opened.trainer);
    let ended = complete(opened, &mut progress, &stop);
    progress.finish();
    let (Opened { writer, trainer, .. }, outcome) = ended?;
    if let Some(writer) = writer {
        let report = report(&writer, &trainer, outcome)?;
        if args.json { print_json(&report) } else { print(&report, train) }?;
    }
    if outcome == Outcome::Interrupted { Err(Failure::Interrupted { run: train.out.clone() }) } else { Ok(()) }
}

/// A run that begins or goes on.
pub(crate) struct Opened {
    /// Of several processes the first alone has one.
    pub(crate) writer: Option<Writer>,
    pub(crate) trainer: Trainer,
    pub(crate) data: DataSet,
}

/// Trains what is left, or until `stop` is set. Where nothing is left, the run may still have been interrupted before it could
/// say that it was over.
pub(crate) fn complete(
    opened: Opened,
    watch: &mut impl Watch,
    stop: &AtomicBool,
) -> Result<(Opened, Outcome), Failure> {
    let Opened { writer, trainer, data } = opened;
    let (trainer, outcome) = fit(writer.as_ref(), trainer, &data, watch, stop)?;
    Ok((Opened { writer, trainer, data }, outcome))
}

/// Set by the first SIGINT or SIGTERM, or by SIGUSR1, which launchers pass on; the second ends the process at once.
pub(crate) fn interruptible() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGUSR1] {
        let shutdown = signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop));
        let flag = shutdown.and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)));
        flag.map_err(|source| Failure::Io { action: "listen for signals", source })?;
    }
    Ok(stop)
}

/// The run's folder, the run where it begins or goes on, and its data.
pub(crate) fn open(train: &Train, args: &Args) -> Result<Opened, Failure> {
    let existing = Run::open(&train.out).ok().filter(|_| train.resume);
    let Some(run) = existing else {
        let config = config_of(train)?;
        check(&config)?;
        memory::check(&config, Task::Train, train.force, args)?;
        let data = load(&config.data)?;
        let trainer = Trainer::new(config.clone(), &data)?;
        let Some(source) = &train.init_from else {
            return Ok(Opened { writer: Some(create(train, &config, args)?), trainer, data });
        };
        let trainer = trainer.with_weights_of(&Run::open(source)?.newest()?.0)?;
        let writer = create(train, &config, args)?;
        // The configuration alone would not repeat this run.
        writer.run().write("init-from", source.display().to_string().as_bytes())?;
        // Saved at once: whoever resumes before the first checkpoint must not begin from nothing.
        writer.save(&trainer.checkpoint()?, None, config.train.keep)?;
        return Ok(Opened { writer: Some(writer), trainer, data });
    };
    let writer = Writer::reopen(&train.out)?;
    let stored = run.config()?;
    let config = settings::resumed(train, stored.clone()).map_err(|refused| with_data(refused, &run, &stored))?;
    memory::check(&config, Task::Train, train.force, args)?;
    let data = load(&config.data)?;
    let trainer = go_on(&writer, config.clone(), &data, args)?;
    // Only now that the run is known to go on with it.
    writer.write_config(&config)?;
    writer.prune(trainer.state().best.map(|best| best.step), config.train.keep)?;
    Ok(Opened { writer: Some(writer), trainer, data })
}

/// A new run's folder.
fn create(train: &Train, config: &Config, args: &Args) -> Result<Writer, Failure> {
    let writer = Writer::create(&train.out, config)?;
    say_leftovers(&writer, args);
    Ok(writer)
}

fn say_leftovers(writer: &Writer, args: &Args) {
    for path in writer.leftovers() {
        args.say(&format!("{} was left unfinished by an interrupted process, and is removed.", path.display()));
    }
}

/// Refuses what cannot be; if anything cannot, what else the data have against it is said too.
fn check(config: &Config) -> Result<(), Failure> {
    let Err(wrong) = config.check() else { return Ok(()) };
    match load(&config.data) {
        Ok(data) => Ok(check_together(config, &data)?),
        Err(missing) => Err(Failure::Usage(format!("{wrong}\n{missing}"))),
    }
}

/// The same refusal, with what has become of the run's data: who resumes as another run should hear of all differences at once.
fn with_data(refused: Failure, run: &Run, stored: &Config) -> Failure {
    let trained_on = run.newest().map(|(checkpoint, _)| checkpoint.header().data.clone());
    match (refused, trained_on, load(&stored.data)) {
        (Failure::Usage(lines), Ok(digest), Ok(data)) if data.digest != digest => {
            Failure::Usage(format!("{lines}\n{}", ktied::Error::OtherData { set: data.name }))
        }
        (refused, ..) => refused,
    }
}

/// The run of the newest good checkpoint, or at its beginning if there is none.
pub(crate) fn go_on(writer: &Writer, config: Config, data: &DataSet, args: &Args) -> Result<Trainer, Failure> {
    say_leftovers(writer, args);
    let (newest, skipped) = writer.run().newest_if_any()?;
    skipped.iter().for_each(|skipped: &Skipped| args.say(&skipped.to_string()));
    Ok(match newest {
        Some(checkpoint) => Trainer::resume(config, data, &checkpoint)?,
        None => Trainer::new(config, data)?,
    })
}

/// Whether a run has nothing left to do.
fn is_over(trainer: &Trainer) -> bool {
    trainer.is_out_of_patience() || trainer.state().step >= trainer.num_steps()
}

/// Says what is about to happen, and what of it is out of the ordinary; nothing if nothing is.
fn announce(Opened { trainer, data, .. }: &Opened, args: &Args) {
    if is_over(trainer) {
        return;
    }
    let config = trainer.config();
    args.say(&format!(
        "{} on {} ({} training examples), posterior {}, estimator {}, {} steps of {} examples, seed {}.",
        config.model.name(),
        config.data.set,
        data.train.len(),
        config.posterior.kind,
        config.estimator.kind,
        trainer.num_steps(),
        config.train.batch,
        config.train.seed,
    ));
    if config.estimator.kind == Estimator::Local && config.posterior.kind != PosteriorKind::Point {
        let shared = settings::layers_by_flipout(config);
        if !shared.is_empty() {
            args.say(&format!("local where a layer sees one position an example; flipout for {}.", shared.join(", ")));
        }
    }
    if config.likelihood.temperature != 1.0 {
        let temperature = config.likelihood.temperature;
        args.say(&format!("The divergence is weighted by {temperature}: what is minimised is not the ELBO."));
    }
    let processes = trainer.cluster().place().of;
    if processes > 1 {
        let noise = match config.cluster.noise {
            ClusterNoise::Shared => "all of which draw the same weights",
            ClusterNoise::PerRank => "each of which draws its own weights",
        };
        args.say(&format!("{processes} processes, {noise}."));
    }
    if trainer.state().step > 0 {
        args.say(&format!("Going on after step {}.", trainer.state().step));
    }
}

pub(crate) fn report(writer: &Writer, trainer: &Trainer, outcome: Outcome) -> Result<Report, Failure> {
    let state = trainer.state();
    let reason = match outcome {
        Outcome::Finished => "all steps are over",
        Outcome::OutOfPatience => "validations did not get better any more",
        Outcome::Interrupted => "interrupted",
    };
    Ok(Report {
        run: writer.run().folder().into(),
        step: state.step,
        finished: outcome != Outcome::Interrupted,
        reason,
        parameters: parameters(trainer.config())?,
        best: state.best.map(|best| best.step),
        best_neg_elbo: state.best.map(|best| best.neg_elbo),
        anneal_weight: trainer.weight(),
        skipped_steps: state.skipped,
        digest: trainer.checkpoint()?.digest().to_string(),
    })
}

/// Parameters of a configuration's network, heads included.
pub(crate) fn parameters(config: &Config) -> Result<usize, Failure> {
    Ok(ktied::models::Totals::of(&config.model.layers(&config.posterior)?)?.with_head)
}

fn print(report: &Report, train: &Train) -> Result<(), Failure> {
    let folder = train.out.display();
    print_line(&format!("{folder}: {} steps, {}.", report.step, report.reason))?;
    if let (Some(step), Some(neg_elbo)) = (report.best, report.best_neg_elbo) {
        print_line(&format!("Best validation: −ELBO {neg_elbo:.4} at step {step}."))?;
    }
    if report.anneal_weight < 1.0 {
        let weight = report.anneal_weight;
        print_line(&format!("The weight on the divergence had only reached {weight:.3} when training ended."))?;
    }
    if report.skipped_steps > 0 {
        print_line(&format!("{} steps were left out: not finite.", report.skipped_steps))?;
    }
    print_line(&format!("Next: ktied evaluate {folder}"))
}
