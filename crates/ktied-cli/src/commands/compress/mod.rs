//! `ktied compress`: factors of rank K in place of mean-field standard deviations.

pub(super) mod figures;
mod file;

use indicatif::{ProgressBar, ProgressStyle};
use ktied::compress::{Choice, LayerFit, Method, Plan, choose_rank, compress, target, with_floor};
use ktied::data::DataSet;
use ktied::train::{Outcome, Run, Trainer, Writer, fit};
use serde::Serialize;

use self::figures::Figures;
use super::evaluate::trained;
use super::train::{Progress, interruptible};
use crate::args::{Args, Compress, RankChoice};
use crate::exit::Failure;
use crate::table::{Table, grouped, json, print_json, print_line};

/// The higher of two floors that −ELBO is reported with: one weight clamped at 1e-8 costs about 18 nats.
pub(super) const SOFT_FLOOR: f64 = 1e-4;

/// What is printed, and kept in the compressed run's folder.
#[derive(Debug, Serialize)]
struct Report {
    run: String,
    step: u64,
    out: String,
    method: Method,
    rank: usize,
    /// How `--rank auto` came to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<Choice>,
    /// KL(compressed ‖ trained), in nats.
    kl_between: f64,
    clamped: usize,
    /// −ELBO with a floor of 1e-4, where weights were clamped at 1e-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    neg_elbo_at_soft_floor: Option<f64>,
    layers: Vec<LayerFit>,
    before: Figures,
    after: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    finetuned: Option<Figures>,
}

pub(crate) fn run(compress: &Compress, args: &Args) -> Result<(), Failure> {
    if file::is_file(&compress.source) { file::run(compress, args) } else { of_run(compress, args) }
}

fn of_run(arguments: &Compress, args: &Args) -> Result<(), Failure> {
    let stop = interruptible()?;
    let run = Run::open(&arguments.source)?;
    // Whatever can be refused is refused before anything is computed.
    Run::check_free(&arguments.out)?;
    if let RankChoice::Rank(rank) = arguments.rank {
        target(&run.config()?, arguments.method, rank, arguments.conv)?;
    }
    let (trainer, data) = trained(&run, arguments.place.data.as_deref(), arguments.place.best, args)?;
    let (rank, choice) = rank_of(arguments, &trainer, &data, args)?;
    let mut config = target(trainer.config(), arguments.method, rank, arguments.conv)?;
    if let Some(epochs) = arguments.finetune_epochs {
        (config.train.epochs, config.train.steps) = (epochs, None);
    }
    let before = Figures::of(&trainer, &data, arguments.samples, run.bytes_of_weights(trainer.state().step), args)?;
    let (compressed, layers) = factors(&trainer, config, &data, args)?;
    let clamped = if arguments.method == Method::Svd { layers.iter().map(|fit| fit.clamped).sum() } else { 0 };
    let soft = (clamped > 0).then(|| at_soft_floor(&compressed, &data, arguments.samples)).transpose()?;

    let writer = Writer::create(&arguments.out, compressed.config())?;
    writer.save(&compressed.checkpoint()?, None, compressed.config().train.keep)?;
    let after = Figures::of(&compressed, &data, arguments.samples, writer.run().bytes_of_weights(0), args)?;
    let mut report = Report {
        run: arguments.source.display().to_string(),
        step: trainer.state().step,
        out: arguments.out.display().to_string(),
        method: arguments.method,
        rank,
        choice,
        kl_between: layers.iter().map(|fit| fit.kl).sum(),
        clamped,
        neg_elbo_at_soft_floor: soft,
        layers,
        before,
        after,
        finetuned: None,
    };
    writer.run().write("compression.json", json(&report)?.as_bytes())?;
    if arguments.finetune_epochs.is_some() {
        let mut progress = Progress::new(args, &compressed);
        let ended = fit(&writer, compressed, &data, &mut progress, &stop);
        progress.finish();
        let (tuned, outcome) = ended?;
        if outcome == Outcome::Interrupted {
            return Err(Failure::Interrupted { run: arguments.out.clone() });
        }
        let bytes = writer.run().bytes_of_weights(tuned.state().step);
        report.finetuned = Some(Figures::of(&tuned, &data, arguments.samples, bytes, args)?);
        writer.run().write("compression.json", json(&report)?.as_bytes())?;
    }
    if args.json { print_json(&report) } else { print(&report) }
}

/// The rank that was asked for, or the smallest that is good enough.
fn rank_of(
    arguments: &Compress,
    trainer: &Trainer,
    data: &DataSet,
    args: &Args,
) -> Result<(usize, Option<Choice>), Failure> {
    let max_rank = match arguments.rank {
        RankChoice::Rank(rank) => return Ok((rank, None)),
        RankChoice::Auto => arguments.max_rank,
    };
    // The ELBO is an objective of training, so training examples can stand in for validation ones.
    let (split, name) = match data.validation.is_empty() {
        true => (&data.train, "training"),
        false => (&data.validation, "validation"),
    };
    let plan = Plan {
        method: arguments.method,
        convolutions: arguments.conv,
        max_rank,
        tolerance: arguments.tolerance,
        samples: arguments.samples,
    };
    let choice = choose_rank(trainer, data, split, &plan, |row| {
        let loss = row.loss;
        args.say(&format!("rank {}: −ELBO {:.4} on {name} examples, {loss:+.4}", row.rank, row.neg_elbo));
    })?;
    match choice.rank {
        Some(rank) => Ok((rank, Some(choice))),
        None => {
            let (tried, least) = (choice.rows.len(), choice.rows.iter().map(|row| row.loss).fold(f64::MAX, f64::min));
            Err(Failure::Usage(format!(
                "--rank auto: no rank from 1 to {tried} loses less than {} nats of −ELBO on {name} examples (the \
                 nearest loses {least:.4}): raise --tolerance or --max-rank",
                arguments.tolerance
            )))
        }
    }
}

/// The compressed run, with a bar that moves by layers.
fn factors(
    trainer: &Trainer,
    config: ktied::config::Config,
    data: &DataSet,
    args: &Args,
) -> Result<(Trainer, Vec<LayerFit>), Failure> {
    let layers = config.model.layers(&config.posterior)?;
    let bar = bar(args, layers.iter().filter(|layer| layer.posterior.rank().is_some()).count());
    let fitted = compress(trainer, config, data, |fit| {
        bar.set_message(fit.layer.clone());
        bar.inc(1);
    });
    bar.finish_and_clear();
    Ok(fitted?)
}

/// A bar over the layers of a network.
pub(super) fn bar(args: &Args, layers: usize) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30.cyan/dim} {pos}/{len} layers  {msg}");
    ProgressBar::new(layers as u64).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

fn at_soft_floor(compressed: &Trainer, data: &DataSet, samples: u64) -> Result<f64, Failure> {
    let softer = with_floor(compressed.model().network.clone(), SOFT_FLOOR)?;
    Ok(compressed.evaluate_network(&softer, figures::split_of(data), samples, |_| {})?.neg_elbo.value)
}

/// A line for each layer that was compressed.
fn table_of(layers: &[LayerFit], method: Method) -> Table {
    let mut table = Table::new(&["layer", "shape", "rank", "KL(compressed ‖ trained)", "clamped by SVD", "sweeps"]);
    for fit in layers {
        let sweeps: Vec<String> = fit.sweeps.iter().map(usize::to_string).collect();
        table.row(vec![
            fit.layer.clone(),
            format!("{}×{}", fit.rows, fit.cols),
            fit.rank.to_string(),
            match method {
                Method::Svd => format!("{:.2}", fit.kl),
                Method::Positive => format!("{:.2} (SVD {:.2})", fit.kl, fit.kl_of_svd),
            },
            grouped(fit.clamped),
            if sweeps.is_empty() { "–".into() } else { sweeps.join(" ") },
        ]);
    }
    table
}

fn print(report: &Report) -> Result<(), Failure> {
    table_of(&report.layers, report.method).print()?;
    print_line("")?;
    figures::print(&report.before, &report.after, report.finetuned.as_ref())?;
    print_line("")?;
    print_line(&format!(
        "{} by {} at rank {}: KL between the two posteriors {:.2} nats, {:.4} a training example.",
        report.run,
        report.method,
        report.rank,
        report.kl_between,
        report.kl_between / report.before.num_train as f64,
    ))?;
    if let Some(soft) = report.neg_elbo_at_soft_floor {
        let clamped = grouped(report.clamped);
        print_line(&format!(
            "{clamped} standard deviations were clamped at 1e-8; with a floor of 1e-4 −ELBO is {soft:.4}."
        ))?;
    }
    let next = match report.method {
        Method::Positive => format!("ktied train --out {} --resume", report.out),
        Method::Svd => format!("ktied evaluate {}", report.out),
    };
    print_line(&format!("The compressed run is {}. Next: {next}", report.out))
}
