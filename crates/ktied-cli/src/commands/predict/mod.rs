//! `ktied predict`: what a run says of new inputs, one line an example, in the memory of a few batches.

mod lines;

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use indicatif::{ProgressBar, ProgressStyle};
use ktied::cluster::Cluster;
use ktied::data::stream::{BadRows, InputBatch, InputStream};
use ktied::evaluate::{BATCHES_AT_ONCE, Draws};
use ktied::train::EVALUATION_BATCH;
use ktied::train::memory::Task;
use serde::Serialize;

use self::lines::Lines;
use super::evaluate::Members;
use crate::args::{Args, Predict};
use crate::exit::Failure;
use crate::inputs;
use crate::table::{grouped, print_json, print_line};

/// What is printed at the end.
#[derive(Debug, Serialize)]
struct Report {
    runs: Vec<PathBuf>,
    input: PathBuf,
    out: PathBuf,
    samples: u64,
    examples: u64,
    skipped: u64,
    /// What was wrong with the first rows that were left out.
    faults: Vec<String>,
}

pub(crate) fn run(arguments: &Predict, args: &Args, cluster: &dyn Cluster) -> Result<(), Failure> {
    let place = cluster.place();
    let mut lines = Lines::create(&arguments.out, place.is_first())?;
    let task = (Task::Predict, arguments.force);
    let members = Members::open(&arguments.runs, arguments.place.data.as_deref(), arguments.place.best, task, args)?;
    members.check_same(cluster, &settings(arguments))?;
    let wanted = members.data.preprocessing.clone().with_image(members.config().model.image());
    let source = inputs::open(&arguments.input, arguments.array.as_deref(), &wanted).map_err(ktied::Error::from)?;
    let bad_rows = if arguments.skip_bad { BadRows::Skip } else { BadRows::Refuse };
    let mut stream = InputStream::new(source, wanted, EVALUATION_BATCH, bad_rows);
    let (ensemble, samples) = (members.ensemble()?, members.protocol(arguments.samples).samples);
    let seed = members.config().train.seed;
    let (bar, mut examples) = (spinner(args), 0);
    // Every process reads all inputs and predicts its part of them; the first writes what all of them found.
    let outcome = loop {
        let batches = stream.by_ref().take(BATCHES_AT_ONCE * place.of).collect::<Result<Vec<_>, _>>();
        let outcome = batches.map_err(|error| ktied::Error::from(error).into()).and_then(|batches| {
            let len = |batches: &[InputBatch]| batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
            let (is_last, own) = (batches.is_empty(), place.part_of(batches.len()));
            let first = examples + len(batches.get(..own.start).unwrap_or_default());
            examples += len(&batches);
            let draws = Draws { samples, seed, first };
            let batches = batches.into_iter().skip(own.start).take(own.len());
            let (names, inputs): (Vec<_>, Vec<_>) = batches.map(|batch| batch.on(&Device::flex())).unzip();
            let predictions = ensemble.predict_batches(inputs, &draws, arguments.level)?;
            let mut text = String::new();
            for (names, predictions) in names.iter().zip(predictions) {
                lines.put(&mut text, names, predictions, &members.data);
            }
            for text in cluster.notes(text.as_bytes())? {
                lines.write(&text)?;
            }
            bar.set_position(examples);
            Ok::<_, Failure>(!is_last)
        });
        match outcome {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    bar.finish_and_clear();
    outcome?;
    lines.finish()?;
    let report = Report {
        runs: arguments.runs.clone(),
        input: arguments.input.clone(),
        out: arguments.out.clone(),
        samples,
        examples,
        skipped: stream.skipped(),
        faults: stream.faults().iter().map(ToString::to_string).collect(),
    };
    match place.is_first() {
        true if args.json => print_json(&report),
        true => print(&report, &arguments.out),
        false => Ok(()),
    }
}

/// What several processes must have in common besides runs and data.
fn settings(arguments: &Predict) -> [(&'static str, String); 4] {
    let length = std::fs::metadata(&arguments.input).ok().filter(|file| file.is_file()).map(|file| file.len());
    [
        ("--samples", arguments.samples.to_string()),
        ("--level", arguments.level.to_string()),
        ("--skip-bad", arguments.skip_bad.to_string()),
        ("bytes of --input", length.map_or("those of its files".into(), |length| length.to_string())),
    ]
}

/// Nobody knows how long a stream is.
fn spinner(args: &Args) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos} examples, {per_sec}");
    ProgressBar::new_spinner().with_style(style.unwrap_or(ProgressStyle::default_spinner()))
}

fn print(report: &Report, out: &Path) -> Result<(), Failure> {
    report.faults.iter().try_for_each(|fault| print_line(&format!("left out: {fault}")))?;
    let (examples, skipped) = (grouped(report.examples as usize), grouped(report.skipped as usize));
    print_line(&format!(
        "{examples} examples by {} draws, {skipped} left out; written to {}.",
        report.samples,
        out.display()
    ))
}
