//! `ktied evaluate`: how a trained run does on examples that it has not seen.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use ktied::checkpoint::Checkpoint;
use ktied::config::Config;
use ktied::data::{DataSet, Split, load};
use ktied::evaluate::{Estimate, Evaluation};
use ktied::train::{Run, Trainer};
use serde::Serialize;

use super::train::parameters;
use crate::args::{Args, Evaluate, SplitName};
use crate::exit::Failure;
use crate::table::{Table, grouped, json, print_json, print_line};

/// What is printed, and kept in the run's folder.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    run: String,
    split: &'static str,
    step: u64,
    parameters: usize,
    #[serde(flatten)]
    metrics: Evaluation,
}

pub(crate) fn run(evaluate: &Evaluate, args: &Args) -> Result<(), Failure> {
    let run = Run::open(&evaluate.run)?;
    let (trainer, data) = trained(&run, evaluate.data.as_deref(), evaluate.best, args)?;
    let (split, name) = (split_of(&data, evaluate.split), evaluate.split.name());
    if split.is_empty() {
        return Err(Failure::Usage(format!("--split {name}: the data set `{}` has no {name} examples", data.name)));
    }
    let bar = progress(args, split, evaluate.samples);
    let metrics = trainer.evaluate(split, evaluate.samples, |done| bar.set_position(done))?;
    bar.finish_and_clear();
    let report = Report {
        run: evaluate.run.display().to_string(),
        split: name,
        step: trainer.state().step,
        parameters: parameters(trainer.config())?,
        metrics,
    };
    run.write(&format!("evaluation/{name}.json"), json(&report)?.as_bytes())?;
    if args.json { print_json(&report) } else { print(&report) }
}

/// The run at its newest good checkpoint, or at its best, and its data.
pub(crate) fn trained(run: &Run, data: Option<&Path>, best: bool, args: &Args) -> Result<(Trainer, DataSet), Failure> {
    let mut config: Config = run.config()?;
    if let Some(dir) = data {
        config.data.dir = Some(dir.into());
    }
    let checkpoint = checkpoint_of(run, best, args)?;
    let data = load(&config.data)?;
    Ok((Trainer::resume(config, &data, &checkpoint)?, data))
}

/// The newest good checkpoint, or the best one.
pub(crate) fn checkpoint_of(run: &Run, best: bool, args: &Args) -> Result<Checkpoint, Failure> {
    if best {
        let missing = || Failure::Usage(format!("--best: no validation has chosen one in {}", run.folder().display()));
        return Ok(run.store()?.load(run.best().ok_or_else(missing)?).map_err(ktied::Error::from)?);
    }
    let (checkpoint, skipped) = run.newest()?;
    skipped.iter().for_each(|skipped| args.say(&skipped.to_string()));
    Ok(checkpoint)
}

fn split_of(data: &DataSet, name: SplitName) -> &Split {
    match name {
        SplitName::Train => &data.train,
        SplitName::Validation => &data.validation,
        SplitName::Test => &data.test,
    }
}

pub(crate) fn progress(args: &Args, split: &Split, samples: u64) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30.cyan/dim} {percent} %  {eta} left");
    ProgressBar::new(split.len() as u64 * samples).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["metric", "value", "± over examples", "± over draws"]);
    let error = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.4}"));
    let Evaluation { neg_elbo, nll, accuracy, brier, brier_usual, ece, rmse, .. } = report.metrics;
    for (name, estimate) in [
        ("−ELBO", Some(neg_elbo)),
        ("NLL", Some(nll)),
        ("accuracy", accuracy),
        ("Brier score − 1", brier),
        ("Brier score", brier_usual),
        ("ECE", ece),
        ("RMSE", rmse),
    ] {
        if let Some(Estimate { value, sem_examples, sem_draws }) = estimate {
            table.row(vec![name.into(), format!("{value:.4}"), error(sem_examples), error(sem_draws)]);
        }
    }
    table.print()?;
    print_line("")?;
    print_line(&format!(
        "{} at step {}: {} {} examples, {} draws, KL/N {:.4}, {} parameters.",
        report.run,
        report.step,
        grouped(report.metrics.examples as usize),
        report.split,
        report.metrics.samples,
        report.metrics.kl_per_example,
        grouped(report.parameters),
    ))
}
