//! Curves over training: −ELBO, NLL and KL/N, the signal in the gradients, and standard deviations by layer.

use std::collections::BTreeSet;

use serde_json::Value;

use super::RunView;
use super::html::short;
use super::plot::{Line, Plot};
use crate::log::{number, step};
use crate::picture::{Axis, Mark, Series};

/// Series with so few points show them.
const FEW: usize = 15;
/// Plots of which there is one a layer are smaller.
const COLUMNS_OF_LAYER: usize = 120;
/// The last colour of series, which no run has unless there are seven.
const GREY: usize = 6;

/// A line of a run, its points marked where they are few.
pub(super) fn line(run: &RunView, what: &str, dash: usize, points: Vec<(f64, f64)>) -> Line {
    let mark = if points.len() <= FEW { Mark::LineMarkers } else { Mark::Line };
    Line { run: run.index, run_name: short(&run.name), what: short(what), mark, dash, points }
}

/// −ELBO, NLL and KL/N, on training and validation examples.
pub(super) fn convergence(runs: &[RunView]) -> Vec<Plot> {
    let plot = |id: &str, title: &str, label: &str, train: &str, validation: &str, of_points: bool| {
        let shown = runs.iter().filter(|run| of_points || !run.is_point());
        let both = shown.flat_map(|run| {
            [("training", 0, "train", train), ("validation", 1, "validation", validation)]
                .map(|(what, dash, kind, pointer)| line(run, what, dash, run.log.series(kind, pointer)))
        });
        let lines = both.filter(|line| !line.points.is_empty()).collect();
        let plot = Plot::new(id, title, Axis::linear("step"), Axis::linear(label), lines);
        Plot { can_be_log: true, ..plot }
    };
    vec![
        plot("neg-elbo", "−ELBO", "−ELBO, nats an example", "/neg_elbo", "/metrics/neg_elbo/value", false),
        plot("nll", "NLL", "NLL, nats an example", "/nll", "/metrics/nll/value", true),
        plot("kl-per-example", "KL/N", "KL/N, nats an example", "/kl_per_example", "/metrics/kl_per_example", false),
    ]
}

/// One plot a layer of E\[g²\]/Var\[g\] over steps.
pub(super) fn gradient_snr(runs: &[RunView]) -> Vec<Plot> {
    let tensors: BTreeSet<(String, String)> =
        runs.iter().flat_map(|run| entries(run, "train", "snr", "tensor")).filter_map(|name| kernel(&name)).collect();
    let layers: BTreeSet<&String> = tensors.iter().map(|(layer, _)| layer).collect();
    let parts: Vec<&String> = tensors.iter().map(|(_, part)| part).collect::<BTreeSet<_>>().into_iter().collect();
    let plot = |(index, layer): (usize, &String)| {
        let mut lines = Vec::new();
        for run in runs {
            for (dash, part) in parts.iter().enumerate() {
                let points = listed(run, "train", "snr", "mean", |item| {
                    kernel(item.get("tensor").and_then(Value::as_str).unwrap_or_default())
                        .is_some_and(|(of, is)| of == *layer && is == **part)
                });
                lines.push(line(run, part, dash, points));
            }
        }
        lines.retain(|line| !line.points.is_empty());
        let title = format!("Signal-to-noise ratio, {}", short(layer));
        let plot =
            Plot::new(format!("snr-{}", index + 1), title, Axis::linear("step"), Axis::linear("E[g²]/Var[g]"), lines);
        Plot { can_be_log: true, starts_log: true, columns: COLUMNS_OF_LAYER, ..plot }
    };
    layers.into_iter().enumerate().map(plot).collect()
}

/// The layer of a kernel's tensor, and which of its tensors.
fn kernel(tensor: &str) -> Option<(String, String)> {
    let (layer, part) = tensor.split_once(".kernel.")?;
    let layer = layer.strip_prefix("network.").unwrap_or(layer);
    Some((layer.strip_suffix(".weights").unwrap_or(layer).to_owned(), part.to_owned()))
}

/// One plot a layer of its mean standard deviation over steps, with the annealing shaded.
pub(super) fn scales(runs: &[RunView]) -> Vec<Plot> {
    let mut layers: Vec<String> = Vec::new();
    for name in runs.iter().flat_map(|run| entries(run, "scales", "layers", "layer")) {
        if !layers.contains(&name) {
            layers.push(name);
        }
    }
    let phases = phases(runs);
    let plot = |(index, layer): (usize, &String)| {
        let is_of = |item: &Value| item.get("layer").and_then(Value::as_str) == Some(layer);
        let lines = runs.iter().map(|run| line(run, "", 0, listed(run, "scales", "layers", "mean", is_of)));
        let lines = lines.filter(|line| !line.points.is_empty()).collect();
        let title = format!("Mean σ, {}", short(layer));
        let plot =
            Plot::new(format!("scales-{}", index + 1), title, Axis::linear("step"), Axis::linear("mean σ"), lines);
        Plot { others: phases.clone(), can_be_log: true, columns: COLUMNS_OF_LAYER, ..plot }
    };
    layers.iter().enumerate().map(plot).collect()
}

/// Names in the lists of events, in the order in which they first occur.
fn entries(run: &RunView, kind: &str, list: &str, name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let lists = run.log.of(kind).filter_map(|event| event.get(list)?.as_array());
    for item in lists.flatten().filter_map(|item| item.get(name)?.as_str()) {
        if !found.iter().any(|known| known == item) {
            found.push(item.to_owned());
        }
    }
    found
}

/// A number of one item in the lists of events, over steps.
fn listed(run: &RunView, kind: &str, list: &str, key: &str, is_of: impl Fn(&Value) -> bool) -> Vec<(f64, f64)> {
    let of = |event: &Value| {
        let item = event.get(list)?.as_array()?.iter().find(|item| is_of(item))?;
        Some((step(event) as f64, number(item.get(key)?)))
    };
    run.log.of(kind).filter_map(of).collect()
}

/// The annealing of each run as a shaded phase; one for all that have the same.
fn phases(runs: &[RunView]) -> Vec<Series> {
    let ends: Vec<(usize, u64)> = runs.iter().filter_map(|run| Some((run.index, annealing(run)?))).collect();
    match ends.as_slice() {
        [] => Vec::new(),
        [(_, end), ..] if ends.iter().all(|(_, other)| other == end) => {
            vec![Series::phase("annealing", 0.0, *end as f64).with_colour(GREY)]
        }
        several => {
            let phase = |(run, end): &(usize, u64)| {
                Series::phase("annealing", 0.0, *end as f64).with_colour(*run).with_tag(format!("run-{run}"))
            };
            several.iter().map(phase).collect()
        }
    }
}

/// The step at which the weight on the divergence had grown to 1, or at which the log ends before that; none without
/// annealing.
pub(super) fn annealing(run: &RunView) -> Option<u64> {
    let last = run.log.last_step()?;
    let anneal = run.config.anneal(run.log.steps_per_epoch().unwrap_or(1)).ok()?;
    if anneal.weight(0) >= 1.0 {
        return None;
    }
    // The weight never falls, so the first step with weight 1 is found by halving.
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = low + (high - low) / 2;
        if anneal.weight(middle) >= 1.0 { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_kernels_belong_to_layers() {
        let found = kernel("network.layers.0.weights.kernel.log_u");
        assert_eq!(found, Some(("layers.0".into(), "log_u".into())));
        assert_eq!(kernel("network.layers.0.weights.bias.raw_scale"), None);
    }
}
