//! `ktied predict`: what a run says of new inputs, one line an example, in the memory of a few batches.

mod lines;

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use indicatif::{ProgressBar, ProgressStyle};
use ktied::data::stream::{BadRows, InputStream};
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

pub(crate) fn run(arguments: &Predict, args: &Args) -> Result<(), Failure> {
    let mut lines = Lines::create(&arguments.out)?;
    let task = (Task::Predict, arguments.force);
    let members = Members::open(&arguments.runs, arguments.place.data.as_deref(), arguments.place.best, task, args)?;
    let wanted = members.data.preprocessing.clone().with_image(members.config().model.image());
    let source = inputs::open(&arguments.input, arguments.array.as_deref(), &wanted).map_err(ktied::Error::from)?;
    let bad_rows = if arguments.skip_bad { BadRows::Skip } else { BadRows::Refuse };
    let mut stream = InputStream::new(source, wanted, EVALUATION_BATCH, bad_rows);
    let (ensemble, samples) = (members.ensemble()?, members.protocol(arguments.samples).samples);
    let seed = members.config().train.seed;
    let (bar, mut examples) = (spinner(args), 0);
    let outcome = loop {
        let batches = stream.by_ref().take(BATCHES_AT_ONCE).collect::<Result<Vec<_>, _>>();
        let outcome = batches.map_err(|error| ktied::Error::from(error).into()).and_then(|batches| {
            let draws = Draws { samples, seed, first: examples };
            examples += batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
            let (names, inputs): (Vec<_>, Vec<_>) = batches.into_iter().map(|batch| batch.on(&Device::flex())).unzip();
            let predictions = ensemble.predict_batches(inputs, &draws, arguments.level)?;
            let mut batches = names.iter().zip(predictions);
            batches.try_for_each(|(names, predictions)| lines.write(names, predictions, &members.data))?;
            bar.set_position(examples);
            Ok::<_, Failure>(!names.is_empty())
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
    if args.json { print_json(&report) } else { print(&report, &arguments.out) }
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
