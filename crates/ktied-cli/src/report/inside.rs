//! Inside the posterior: spectra by layer, and standard deviations with what rank 1 and 2 make of them.

use super::html::{Html, short};
use super::plot::{Line, Plot};
use super::{LayerView, RunView};
use crate::picture::{Axis, Mark, colour_bar, data_uri};
use crate::table::grouped;

/// Spectra are smooth: so many columns show them.
const COLUMNS: usize = 60;
/// Shares of variance below this are not drawn.
const LEAST: f64 = 1e-8;

/// One plot a layer: the variance that each singular value explains, of means and of standard deviations.
pub(super) fn spectra(runs: &[RunView]) -> Vec<Plot> {
    let mut names: Vec<(&str, usize, usize)> = Vec::new();
    for layer in runs.iter().flat_map(|run| &run.layers) {
        let key = (layer.name.as_str(), layer.rows, layer.cols);
        if !names.contains(&key) {
            names.push(key);
        }
    }
    let plot = |(index, (name, rows, cols)): (usize, &(&str, usize, usize))| {
        let of = |run: &RunView, layer: &LayerView| {
            let line = |what: &str, dash: usize, shares: &[f64]| Line {
                run: run.index,
                run_name: short(&run.name),
                what: what.into(),
                mark: Mark::Line,
                dash,
                points: (1..).zip(shares).map(|(k, share)| (f64::from(k), *share)).collect(),
            };
            let scales = layer.scales.as_ref().map(|scales| line("standard deviations", 1, &scales.explained));
            std::iter::once(line("means", 0, &layer.means.explained)).chain(scales).collect::<Vec<Line>>()
        };
        let is_it = |layer: &&LayerView| (layer.name.as_str(), layer.rows, layer.cols) == (*name, *rows, *cols);
        let lines = runs.iter().flat_map(|run| run.layers.iter().filter(is_it).flat_map(move |layer| of(run, layer)));
        let title = format!("Spectrum of {} ({}×{})", short(name), grouped(*rows), grouped(*cols));
        let (x, y) = (Axis::log("singular value"), Axis::log("variance explained").with_range(LEAST, 1.0));
        let plot = Plot::new(format!("spectrum-{}", index + 1), title, x, y, lines.collect());
        Plot { columns: COLUMNS, ..plot }
    };
    names.iter().enumerate().map(plot).collect()
}

/// The maps of every run that has standard deviations.
pub(super) fn write_maps(html: &mut Html, runs: &[RunView]) {
    let with_maps = runs.iter().filter(|run| run.layers.iter().any(|layer| !layer.maps.is_empty()));
    for (place, run) in with_maps.enumerate() {
        super::page::folded(html, run, place == 0, |html| {
            run.layers.iter().filter(|layer| !layer.maps.is_empty()).for_each(|layer| write_layer(html, layer));
        });
    }
}

fn write_layer(html: &mut Html, layer: &LayerView) {
    let extents = layer.maps.iter().filter_map(|(_, cells, _)| cells.extent());
    let Some(range) = extents.reduce(|(low, high), (l, h)| (low.min(l), high.max(h))) else { return };
    html.around("h3", &[], |html| {
        html.name(&layer.name);
        html.text(&format!(", {} inputs × {} outputs", grouped(layer.rows), grouped(layer.cols)));
    });
    html.around("div", &[("class", "maps")], |html| {
        for (title, cells, _) in &layer.maps {
            let ((rows, cols), _) = cells.cells();
            html.around("figure", &[], |html| {
                html.words("figcaption", &[], title);
                match cells.png(range) {
                    Ok(png) => {
                        let (low, high) = cells.extent().unwrap_or(range);
                        let words = format!(
                            "Heat map of {title} of {}: {rows} by {cols} cells, averages from {low:.4} to {high:.4}",
                            short(&layer.name)
                        );
                        let (height, width) =
                            ((240.0 * cells.aspect()).min(320.0), 240.0_f64.min(320.0 / cells.aspect()));
                        let (width, height) = (format!("{width:.0}"), format!("{height:.0}"));
                        let source = data_uri(&png);
                        html.open("img", &[("alt", &words), ("width", &width), ("height", &height), ("src", &source)]);
                    }
                    Err(reason) => html.words("p", &[("class", "none")], &format!("Cannot be drawn: {reason}.")),
                }
            });
        }
    });
    scale(html, range);
}

/// What the colours mean.
fn scale(html: &mut Html, (low, high): (f64, f64)) {
    let Ok(png) = colour_bar() else { return };
    html.around("p", &[("class", "scale")], |html| {
        html.text(&format!("σ = {low:.4} "));
        html.open(
            "img",
            &[("alt", "from dark blue to yellow"), ("width", "128"), ("height", "10"), ("src", &data_uri(&png))],
        );
        html.text(&format!(" {high:.4}"));
    });
}
