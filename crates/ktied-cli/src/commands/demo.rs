//! `ktied demo`: one small network under several posteriors, on the embedded digits, each a run like any other.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use ktied::compress::{Method, compress, target};
use ktied::config::{Config, Preset};
use ktied::data::{DataSet, load};
use ktied::evaluate::Evaluation;
use ktied::posterior::PosteriorKind;
use ktied::train::{Outcome, StepReport, Trainer, Watch, Writer, fit};
use serde::Serialize;

use super::train::{interruptible, parameters};
use crate::args::{Args, Demo};
use crate::exit::Failure;
use crate::table::{Table, grouped, json, print_json, print_line};
use crate::workers::side_by_side;

const NUM_DRAWS: u64 = 100;
const POSTERIORS: [PosteriorKind; 5] = [
    PosteriorKind::Point,
    PosteriorKind::MeanField,
    PosteriorKind::KTied { rank: 1 },
    PosteriorKind::KTied { rank: 2 },
    PosteriorKind::KTied { rank: 3 },
];
/// Ranks that the trained mean-field posterior is cut to, as the paper does after training.
const CUTS: [usize; 2] = [1, 2];
/// Steps between movements of the bar: it must cost nothing.
const BAR_EVERY: u64 = 50;

/// One network.
#[derive(Clone, Debug, Serialize)]
struct Row {
    posterior: String,
    run: PathBuf,
    parameters: usize,
    #[serde(flatten)]
    metrics: Evaluation,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    model: &'static str,
    estimator: String,
    seed: u64,
    steps: u64,
    samples: u64,
    test_images: usize,
    folder: PathBuf,
    seconds: f64,
    networks: Vec<Row>,
}

pub(crate) fn run(demo: &Demo, args: &Args) -> Result<(), Failure> {
    let (begin, stop) = (Instant::now(), interruptible()?);
    let data = load(&config(demo, PosteriorKind::Point).data)?;
    let folder = demo.out.clone().unwrap_or_else(free_folder);
    let bar = progress(args, POSTERIORS.len() as u64 * demo.steps);
    let networks = side_by_side(&POSTERIORS, |&kind| network(kind, demo, &data, &folder, &bar, &stop))?.concat();
    bar.finish_and_clear();
    let report = Report {
        model: "mlp 64-64-64-10",
        estimator: config(demo, PosteriorKind::Point).estimator.kind.to_string(),
        seed: demo.seed,
        steps: demo.steps,
        samples: NUM_DRAWS,
        test_images: data.test.len(),
        folder,
        seconds: begin.elapsed().as_secs_f64(),
        networks,
    };
    if args.json { print_json(&report) } else { print(&report) }
}

/// `ktied-demo`, or the first `ktied-demo-2`, `-3`, … that is not there.
fn free_folder() -> PathBuf {
    let names = std::iter::once("ktied-demo".to_owned()).chain((2..).map(|number| format!("ktied-demo-{number}")));
    names.map(PathBuf::from).find(|path| !path.exists()).unwrap_or_else(|| "ktied-demo".into())
}

fn config(demo: &Demo, kind: PosteriorKind) -> Config {
    let mut config = Preset::MlpDigits.config();
    config.posterior.kind = kind;
    (config.train.seed, config.train.steps, config.train.checkpoint_every) = (demo.seed, Some(demo.steps), 0);
    config
}

/// Trains one network and judges it on the test images; a mean-field one also after its standard deviations were cut to
/// a low rank.
fn network(
    kind: PosteriorKind,
    demo: &Demo,
    data: &DataSet,
    folder: &Path,
    bar: &ProgressBar,
    stop: &AtomicBool,
) -> Result<Vec<Row>, Failure> {
    let (begin, config) = (Instant::now(), config(demo, kind));
    let run = folder.join(kind.to_string().replace(':', "-"));
    let (writer, trainer) = (Writer::create(&run, &config)?, Trainer::new(config, data)?);
    let (trainer, outcome) = fit(&writer, trainer, data, &mut Steps { bar }, stop)?;
    if outcome == Outcome::Interrupted {
        return Err(Failure::Interrupted { run });
    }
    let mut rows = vec![row(&writer, &trainer, data, begin)?];
    if kind == PosteriorKind::MeanField {
        for rank in CUTS {
            let begin = Instant::now();
            let target = target(trainer.config(), Method::Svd, rank, false)?;
            let (cut, _) = compress(&trainer, target, data, |_| {})?;
            let writer = Writer::create(folder.join(format!("low-rank-{rank}")), cut.config())?;
            writer.save(&cut.checkpoint()?, None, cut.config().train.keep)?;
            rows.push(row(&writer, &cut, data, begin)?);
        }
    }
    Ok(rows)
}

/// Judges a run on the test images.
fn row(writer: &Writer, trainer: &Trainer, data: &DataSet, begin: Instant) -> Result<Row, Failure> {
    let metrics = trainer.evaluate(&data.test, NUM_DRAWS, |_| {})?;
    writer.run().write("evaluation/test.json", json(&metrics)?.as_bytes())?;
    Ok(Row {
        posterior: trainer.config().posterior.kind.to_string(),
        run: writer.run().folder().into(),
        parameters: parameters(trainer.config())?,
        metrics,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

fn progress(args: &Args, steps: u64) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("training five networks {bar:30.cyan/dim} {percent} %  {eta} left");
    ProgressBar::new(steps).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

/// Moves the bar.
struct Steps<'a> {
    bar: &'a ProgressBar,
}

impl Watch for Steps<'_> {
    fn step(&mut self, _: &Trainer, report: &StepReport) {
        if report.step.is_multiple_of(BAR_EVERY) {
            self.bar.inc(BAR_EVERY);
        }
    }

    fn validation(&mut self, _: &Trainer, _: &Evaluation, _: bool) {}
    fn checkpoint(&mut self, _: u64) {}
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["posterior", "parameters", "−ELBO", "KL/N", "NLL", "accuracy", "ECE", "seconds"]);
    for row in &report.networks {
        let Evaluation { neg_elbo, nll, accuracy, ece, kl_per_example, .. } = row.metrics;
        let is_point = row.posterior == PosteriorKind::Point.to_string();
        let number = |value: f64| format!("{value:.3}");
        table.row(vec![
            row.posterior.clone(),
            grouped(row.parameters),
            if is_point { "–".into() } else { number(neg_elbo.value) },
            if is_point { "–".into() } else { number(kl_per_example) },
            number(nll.value),
            accuracy.map_or("–".into(), |share| format!("{:.1} %", 100.0 * share.value)),
            ece.map_or("–".into(), |ece| number(ece.value)),
            format!("{:.1}", row.seconds),
        ]);
    }
    table.print()?;
    for line in [
        String::new(),
        format!(
            "One network ({}) under five posteriors: {} steps each on 1,400 handwritten digits, seed {},",
            report.model,
            grouped(report.steps as usize),
            report.seed
        ),
        format!(
            "judged on {} others by the average prediction of {} draws, in {:.0} seconds.",
            report.test_images, report.samples, report.seconds
        ),
        "−ELBO, NLL (nats) and ECE, the calibration error: lower is better. A point has no uncertainty about its"
            .into(),
        "weights, so it has no ELBO. Mean field doubles the parameters to give every weight a standard deviation;"
            .into(),
        "a k-tied network stores them as two thin factors, at nearly the parameters of the point. Rank 1 is too".into(),
        "stiff; from rank 2 on the bound is nearly that of mean field, as the paper says. The low-rank rows are the"
            .into(),
        "mean-field network after training, its standard deviations cut to rank 1 and 2 by singular values.".into(),
        String::new(),
        format!("The runs are in {}. Look at one:", report.folder.display()),
        format!("  ktied inspect {}", report.folder.join("k-tied-2").display()),
        format!("  ktied evaluate {}", report.folder.join("k-tied-2").display()),
        format!("  ktied analyze {}", report.folder.join("mean-field").display()),
        "Or at all of them, on one page:".into(),
        format!("  ktied report {}/* --out report.html", report.folder.display()),
    ] {
        print_line(&line)?;
    }
    Ok(())
}
