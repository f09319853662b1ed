//! `ktied prune`: the weights that say least, set to exactly zero.

use std::path::Path;

use ktied::data::{DataSet, Split};
use ktied::evaluate::{Estimate, Evaluation};
use ktied::prune::{LayerSparsity, Signals, prune, target};
use ktied::train::{Run, Trainer, Writer};
use serde::Serialize;
use serde_json::Value;

use super::compress::figures::{self, Figures};
use super::evaluate::{progress, trained};
use crate::args::{Args, Prune};
use crate::csv::Csv;
use crate::exit::Failure;
use crate::picture::{Axis, Chart, Figure, Mark, Panel, Series};
use crate::table::{Table, grouped, json, print_json, print_line};

/// Shares of the weights that the curve has a point for.
const CURVE: [f64; 14] = [1.0, 0.75, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01];
/// Draws for the figures of the whole and the pruned run.
const SAMPLES: u64 = 100;

/// One point of the curve.
#[derive(Clone, Debug, Serialize)]
struct Point {
    keep_frac: f64,
    /// Weights that are left.
    kept: usize,
    #[serde(flatten)]
    metrics: Evaluation,
}

/// What is printed, and kept in the pruned run's folder.
#[derive(Debug, Serialize)]
struct Report {
    run: String,
    out: String,
    split: &'static str,
    keep_frac: f64,
    /// Smallest |μ|/σ that was kept.
    threshold: f64,
    kept: usize,
    weights: usize,
    layers: Vec<LayerSparsity>,
    curve: Vec<Point>,
    before: Figures,
    after: Figures,
}

pub(crate) fn run(arguments: &Prune, args: &Args) -> Result<(), Failure> {
    let run = Run::open(&arguments.run)?;
    Run::check_free(&arguments.out)?;
    target(&run.config()?)?;
    let (trainer, data) = trained(&run, arguments.place.data.as_deref(), arguments.place.best, args)?;
    let signals = Signals::of(&trainer.model().network)?;
    if let Some(keep_frac) = arguments.keep_frac {
        signals.threshold(keep_frac)?;
    }
    let (split, name) = match data.validation.is_empty() {
        true => (figures::split_of(&data), "test"),
        false => (&data.validation, "validation"),
    };
    let curve = curve(&trainer, &signals, &data, split, arguments.samples, args)?;
    let keep_frac = arguments.keep_frac.unwrap_or_else(|| chosen(&curve, arguments.tolerance));
    let threshold = signals.threshold(keep_frac)?;
    let (pruned, layers) = prune(&trainer, &signals, threshold, &data)?;
    let before = Figures::of(&trainer, &data, SAMPLES, run.bytes_of_weights(trainer.state().step), args)?;

    let writer = Writer::create(&arguments.out, pruned.config())?;
    writer.save(&pruned.checkpoint()?, None, pruned.config().train.keep)?;
    let after = Figures::of(&pruned, &data, SAMPLES, writer.run().bytes_of_weights(0), args)?;
    let report = Report {
        run: arguments.run.display().to_string(),
        out: arguments.out.display().to_string(),
        split: name,
        keep_frac,
        threshold,
        kept: layers.iter().map(|layer| layer.kept).sum(),
        weights: layers.iter().map(|layer| layer.weights).sum(),
        layers,
        curve,
        before,
        after,
    };
    writer.run().write("pruning/pruning.json", json(&report)?.as_bytes())?;
    writer.run().write("pruning/curve.csv", csv(&report.curve).as_bytes())?;
    picture(&report, &arguments.out.join("pruning/curve"))?;
    if args.json { print_json(&report) } else { print(&report) }
}

/// How the run does with less and less of its weights.
fn curve(
    trainer: &Trainer,
    signals: &Signals,
    data: &DataSet,
    split: &Split,
    samples: u64,
    args: &Args,
) -> Result<Vec<Point>, Failure> {
    let bar = progress(args, split, samples * CURVE.len() as u64);
    let whole = split.len() as u64 * samples;
    let point = |(number, keep_frac): (u64, f64)| {
        let (pruned, layers) = prune(trainer, signals, signals.threshold(keep_frac)?, data)?;
        let metrics = pruned.evaluate(split, samples, |done| bar.set_position(number * whole + done))?;
        Ok(Point { keep_frac, kept: layers.iter().map(|layer| layer.kept).sum(), metrics })
    };
    let points = (0..).zip(CURVE).map(point).collect();
    bar.finish_and_clear();
    points
}

/// The smallest share whose NLL, and that of every larger share, loses less than the tolerance.
fn chosen(curve: &[Point], tolerance: f64) -> f64 {
    let Some(whole) = curve.first() else { return 1.0 };
    let fine = |point: &&Point| point.metrics.nll.value - whole.metrics.nll.value < tolerance;
    curve.iter().take_while(fine).last().map_or(1.0, |point| point.keep_frac)
}

/// The curve as a table for machines.
fn csv(curve: &[Point]) -> String {
    let mut csv = Csv::new(&["keep_frac", "kept", "neg_elbo", "nll", "accuracy", "ece", "rmse"]);
    let number = |estimate: Option<Estimate>| Value::from(estimate.map(|estimate| estimate.value));
    for Point { keep_frac, kept, metrics } in curve {
        let Evaluation { neg_elbo, nll, accuracy, ece, rmse, .. } = *metrics;
        let [neg_elbo, nll, accuracy, ece, rmse] = [Some(neg_elbo), Some(nll), accuracy, ece, rmse].map(number);
        csv.row(&[(*keep_frac).into(), (*kept).into(), neg_elbo, nll, accuracy, ece, rmse]);
    }
    csv.finish()
}

fn picture(report: &Report, stem: &Path) -> Result<(), Failure> {
    let panel = |title: &str, of: &dyn Fn(&Evaluation) -> Option<f64>| -> Option<Panel> {
        let points: Option<Vec<(f64, f64)>> =
            report.curve.iter().map(|point| Some((point.keep_frac, of(&point.metrics)?))).collect();
        let series = vec![
            Series::new(title, Mark::LineMarkers, points?),
            Series::upright(format!("{:.3} kept", report.keep_frac), report.keep_frac),
        ];
        Some(Panel::Chart(Chart::new(title, Axis::log("share of weights kept"), Axis::linear(title), series)))
    };
    let panels = [
        panel("accuracy", &|metrics| Some(metrics.accuracy?.value)),
        panel("RMSE", &|metrics| Some(metrics.rmse?.value)),
        panel("NLL", &|metrics| Some(metrics.nll.value)),
        panel("ECE", &|metrics| Some(metrics.ece?.value)),
    ];
    let panels: Vec<Panel> = panels.into_iter().flatten().collect();
    let columns = panels.len();
    let title = format!("Pruning by signal-to-noise ratio: {}", report.run);
    Figure { title, panels, columns }.write(stem).map(drop)
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["kept", "weights", "NLL", "accuracy", "ECE"]);
    let number =
        |estimate: Option<Estimate>| estimate.map_or("–".into(), |estimate| format!("{:.4}", estimate.value));
    for Point { keep_frac, kept, metrics } in &report.curve {
        table.row(vec![
            format!("{:.0} %", 100.0 * keep_frac),
            grouped(*kept),
            format!("{:.4}", metrics.nll.value),
            number(metrics.accuracy),
            number(metrics.ece),
        ]);
    }
    table.print()?;
    print_line("")?;
    let mut table = Table::new(&["layer", "weights", "kept"]);
    for LayerSparsity { layer, weights, kept } in &report.layers {
        let share = 100.0 * *kept as f64 / *weights as f64;
        table.row(vec![layer.clone(), grouped(*weights), format!("{} ({share:.1} %)", grouped(*kept))]);
    }
    table.print()?;
    print_line("")?;
    figures::print(&report.before, &report.after, None)?;
    print_line("")?;
    print_line(&format!(
        "{} of {} weights are left, those with |μ|/σ ≥ {:.3}; the curve is of {} examples. KL counts what is left.",
        grouped(report.kept),
        grouped(report.weights),
        report.threshold,
        report.split
    ))?;
    print_line(&format!("The pruned run is {0}, its curve {0}/pruning/curve.svg and .png.", report.out))
}
