//! What goes beyond the paper: which runs, and the rows and figures that come of them.

use ktied::compress::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scale;
use super::recipe::{Model, RANKS, Recipe, SEED};
use super::rows::{self, CALIBRATION, Origin, Rows, SCORES, figure, origin};
use super::shelf::Shelf;
use crate::exit::Failure;
use crate::log::number;
use crate::picture::{Axis, Chart, Figure, Mark, Panel, Series};

/// Posteriors that meet turned digits.
pub(super) const SHIFTED: [&str; 3] = ["point", "mean-field", "k-tied:2"];
/// Degrees by which digits are turned.
pub(crate) const ANGLES: [f64; 7] = [0.0, 15.0, 30.0, 45.0, 60.0, 75.0, 90.0];
/// Posteriors and estimators that race.
const RACERS: [(&str, &str); 6] = [
    ("mean-field", "reparam"),
    ("k-tied:2", "reparam"),
    ("k-tied:2", "flipout"),
    ("k-tied:2", "local"),
    ("mean-field", "flipout"),
    ("mean-field", "local"),
];

/// Who races: where it takes long, of mean field only what the usual libraries do.
pub(crate) fn racers(scale: Scale) -> &'static [(&'static str, &'static str)] {
    match scale {
        Scale::Full | Scale::Reduced => &RACERS[..4],
        Scale::Quick => &RACERS,
    }
}

/// Seconds after which racers are compared.
pub(crate) fn finish_lines(scale: Scale) -> [u64; 3] {
    match scale {
        Scale::Full | Scale::Reduced => [60, 300, 1200],
        Scale::Quick => [20, 60, 120],
    }
}

/// Mean field, and every rank.
pub(super) fn all_ranks() -> impl Iterator<Item = String> {
    std::iter::once("mean-field".to_owned()).chain((1..=8).map(|rank| format!("k-tied:{rank}")))
}

/// A run against the clock: seconds, steps and validation −ELBO.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Race {
    pub(crate) points: Vec<(f64, u64, f64)>,
}

/// Scores, calibration and parameters of a trained run.
fn judged(
    rows: &mut Rows,
    (model, method): (Model, &str),
    recipe: &Recipe,
    scale: Scale,
    shelf: &Shelf,
) -> Result<(), Failure> {
    let metrics = [&SCORES[..], &CALIBRATION].concat();
    rows::judged(rows, (model, method, &metrics), recipe, scale, shelf)
}

pub(super) fn conv(rows: &mut Rows, models: &[Model], scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    if models.contains(&Model::LeNet) {
        for method in ["mean-field", "k-tied:2"] {
            judged(rows, (Model::LeNet, method), &Recipe::annealed(Model::LeNet, method, scale), scale, shelf)?;
        }
        let tied = Recipe::all_tied(Model::LeNet, scale);
        judged(rows, (Model::LeNet, "k-tied:2, kernels too"), &tied, scale, shelf)?;
    }
    if models.contains(&Model::ResNet18) {
        judged(rows, (Model::ResNet18, "mean-field"), &Recipe::resnet(Model::ResNet18, scale), scale, shelf)?;
        judged(rows, (Model::ResNet18, "k-tied:2"), &Recipe::all_tied(Model::ResNet18, scale), scale, shelf)?;
    }
    Ok(())
}

pub(super) fn rank(rows: &mut Rows, scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    all_ranks().try_for_each(|method| {
        judged(rows, (Model::Mlp, &method), &Recipe::annealed(Model::Mlp, &method, scale), scale, shelf)
    })
}

pub(super) fn compress(rows: &mut Rows, models: &[Model], scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    for &model in models {
        let recipe = Recipe::converged(model, "mean-field", scale);
        let (name, best) = (&recipe.name, recipe.checkpoint());
        let evaluate = format!(" && ktied evaluate {name}{best} --samples {}", model.draws(scale));
        let of_run = origin(&recipe, &evaluate, shelf)?;
        rows.scores(model, "mean-field", &SCORES, &shelf.required(name, "evaluation/test.json")?, &of_run);
        for rank in RANKS {
            for method in [Method::Svd, Method::Positive] {
                let cut = Shelf::cut(name, method, rank);
                let compress = format!("ktied compress {name}{best} --rank {rank} --method {method} --out {cut}");
                let origin = origin(&recipe, &format!(" && {compress} && ktied evaluate {cut}"), shelf)?;
                let label = format!("{method}, rank {rank}");
                rows.scores(model, &label, &SCORES, &shelf.required(&cut, "evaluation/test.json")?, &origin);
                let cost = shelf.required(&cut, "compression.json")?;
                let nats = cost.get("kl_between").map_or(f64::NAN, number);
                rows.add([model.name(), &label, "kl_between"], (nats, None), &origin);
            }
        }
    }
    Ok(())
}

/// A racer's points.
fn race(shelf: &Shelf, (method, estimator): (&str, &str)) -> Result<(Recipe, Race), Failure> {
    let recipe = Recipe::racer(method, estimator);
    let value = shelf.required(&recipe.name, "race.json")?;
    let wrong = |error| Failure::Usage(format!("{}/race.json: {error}", recipe.name));
    let race = serde_json::from_value(value).map_err(wrong)?;
    Ok((recipe, race))
}

pub(super) fn estimators(rows: &mut Rows, scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    for &(method, estimator) in racers(scale) {
        let (recipe, race) = race(shelf, (method, estimator))?;
        let label = format!("{method}, {estimator}");
        for line in finish_lines(scale) {
            let before = race.points.iter().rev().find(|(at, ..)| *at <= line as f64);
            let Some(&(seconds, step, value)) = before else { continue };
            let command = format!("{} --threads 1 (its validation at step {step})", recipe.command());
            let origin = Origin { seed: Some(SEED), command, wall_s: seconds };
            rows.add(["mlp", &label, &format!("neg_elbo@{line}s")], (value, None), &origin);
            rows.add(["mlp", &label, &format!("steps@{line}s")], (step as f64, None), &origin);
        }
    }
    Ok(())
}

/// −ELBO over time.
pub(super) fn race_figure(scale: Scale, shelf: &Shelf) -> Result<Figure, Failure> {
    let mut series = vec![];
    for &(method, estimator) in racers(scale) {
        let (_, race) = race(shelf, (method, estimator))?;
        let points = race.points.iter().map(|&(seconds, _, value)| (seconds, value)).collect::<Vec<_>>();
        series.push(
            Series::new(format!("{method}, {estimator}"), Mark::Line, points)
                .with_dash(usize::from(method != "mean-field")),
        );
    }
    let chart = Chart::new("MLP, MNIST", Axis::linear("seconds of training"), Axis::log("validation −ELBO"), series);
    let panels = vec![Panel::Chart(chart.with_size(520.0, 300.0))];
    Ok(Figure { title: "−ELBO after equal time, by estimator".into(), panels, columns: 1 })
}

/// A run's evaluation of turned digits.
fn turned(shelf: &Shelf, name: &str, degrees: f64) -> Result<Value, Failure> {
    shelf.required(name, &format!("evaluation/test-rotated-{degrees}.json"))
}

pub(super) fn shift(rows: &mut Rows, scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    for method in SHIFTED {
        let recipe = Recipe::converged(Model::Mlp, method, scale);
        let evaluate = format!(" && ktied evaluate {} --samples {}", recipe.name, Model::Mlp.draws(scale));
        for degrees in ANGLES {
            let found = turned(shelf, &recipe.name, degrees)?;
            let origin = origin(&recipe, &format!("{evaluate} --rotate {degrees}"), shelf)?;
            for metric in ["accuracy", "nll", "ece"] {
                if let Some(figure) = figure(&found, metric) {
                    rows.add(["mlp", method, &format!("{metric}@{degrees}°")], figure, &origin);
                }
            }
        }
        let found = turned(shelf, &recipe.name, ANGLES[0])?;
        let origin = origin(&recipe, &format!("{evaluate} --ood fashion-mnist"), shelf)?;
        for by in ["entropy", "mutual_information"] {
            if let Some(auroc) = found.pointer(&format!("/ood/{by}/auroc")).map(number) {
                rows.add(["mlp", method, &format!("auroc_by_{by}")], (auroc, None), &origin);
            }
        }
    }
    Ok(())
}

/// Accuracy, NLL and calibration over the angle.
pub(super) fn shift_figure(scale: Scale, shelf: &Shelf) -> Result<Figure, Failure> {
    let mut panels = vec![];
    for (metric, label) in [("accuracy", "accuracy"), ("nll", "NLL"), ("ece", "ECE")] {
        let mut series = vec![];
        for method in SHIFTED {
            let name = Recipe::converged(Model::Mlp, method, scale).name;
            let point = |degrees: f64| {
                let found = turned(shelf, &name, degrees)?;
                Ok::<_, Failure>((degrees, found.pointer(&format!("/{metric}/value")).map_or(f64::NAN, number)))
            };
            let points: Result<Vec<_>, Failure> = ANGLES.into_iter().map(point).collect();
            series.push(Series::new(method, Mark::LineMarkers, points?));
        }
        panels.push(Panel::Chart(Chart::new(label, Axis::linear("degrees"), Axis::linear(label), series)));
    }
    Ok(Figure { title: "Turned digits".into(), columns: 3, panels })
}
