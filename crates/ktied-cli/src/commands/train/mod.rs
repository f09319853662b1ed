//! `ktied train`: a configuration, a data set, and a folder that the run goes into.

mod progress;
mod settings;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ktied::checkpoint::Skipped;
use ktied::config::Config;
use ktied::data::{DataSet, load};
use ktied::nn::Estimator;
use ktied::posterior::PosteriorKind;
use ktied::train::memory::Task;
use ktied::train::{Outcome, Run, Trainer, Writer, fit};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

pub(crate) use progress::Progress;
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

pub(crate) fn run(train: &Train, args: &Args) -> Result<(), Failure> {
    let stop = interruptible()?;
    let (writer, trainer, data) = open(train, args)?;
    let (trainer, outcome) = match over(&trainer) {
        Some(outcome) => (trainer, outcome),
        None => {
            announce(&trainer, &data, args);
            let mut progress = Progress::new(args, &trainer);
            let ended = fit(&writer, trainer, &data, &mut progress, &stop);
            progress.finish();
            ended?
        }
    };
    let report = report(&writer, &trainer, outcome)?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&report, train)?;
    }
    if outcome == Outcome::Interrupted { Err(Failure::Interrupted { run: train.out.clone() }) } else { Ok(()) }
}

/// Set by the first SIGINT or SIGTERM; the second ends the process at once.
pub(crate) fn interruptible() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let shutdown = signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop));
        let flag = shutdown.and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)));
        flag.map_err(|source| Failure::Io { action: "listen for signals", source })?;
    }
    Ok(stop)
}

/// The run's folder, the run where it begins or goes on, and its data.
fn open(train: &Train, args: &Args) -> Result<(Writer, Trainer, DataSet), Failure> {
    let existing = Run::open(&train.out).ok().filter(|_| train.resume);
    let Some(run) = existing else {
        let config = config_of(train)?;
        config.check()?;
        memory::check(&config, Task::Train, train.force, args)?;
        let data = load(&config.data)?;
        let trainer = Trainer::new(config.clone(), &data)?;
        let Some(source) = &train.init_from else {
            return Ok((Writer::create(&train.out, &config)?, trainer, data));
        };
        let trainer = trainer.with_weights_of(&Run::open(source)?.newest()?.0)?;
        let writer = Writer::create(&train.out, &config)?;
        // The configuration alone would not repeat this run.
        writer.run().write("init-from", source.display().to_string().as_bytes())?;
        // Saved at once: whoever resumes before the first checkpoint must not begin from nothing.
        writer.save(&trainer.checkpoint()?, None, config.train.keep)?;
        return Ok((writer, trainer, data));
    };
    let writer = Writer::reopen(&train.out)?;
    let config = settings::resumed(train, run.config()?)?;
    memory::check(&config, Task::Train, train.force, args)?;
    let data = load(&config.data)?;
    let trainer = go_on(&writer, config.clone(), &data, args)?;
    // Only now that the run is known to go on with it.
    writer.write_config(&config)?;
    Ok((writer, trainer, data))
}

/// The run of the newest good checkpoint, or at its beginning if there is none.
pub(crate) fn go_on(writer: &Writer, config: Config, data: &DataSet, args: &Args) -> Result<Trainer, Failure> {
    let (newest, skipped) = writer.store().newest_good()?;
    skipped.iter().for_each(|skipped: &Skipped| args.say(&skipped.to_string()));
    Ok(match newest {
        Some(checkpoint) => Trainer::resume(config, data, &checkpoint)?,
        None => Trainer::new(config, data)?,
    })
}

/// How a run that has nothing left to do ended.
fn over(trainer: &Trainer) -> Option<Outcome> {
    if trainer.is_out_of_patience() {
        return Some(Outcome::OutOfPatience);
    }
    (trainer.state().step >= trainer.num_steps()).then_some(Outcome::Finished)
}

/// Says what is about to happen, and what of it is out of the ordinary.
fn announce(trainer: &Trainer, data: &DataSet, args: &Args) {
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
