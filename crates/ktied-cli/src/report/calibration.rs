//! Reliability diagrams, and what is wrong among the most confident answers.

use ktied::evaluate::ReliabilityBin;

use super::RunView;
use super::curves::line;
use super::html::short;
use super::plot::{Line, Plot};
use crate::picture::{Axis, Mark, Series};

/// One diagram a run.
pub(super) fn reliability(runs: &[RunView]) -> Vec<Plot> {
    runs.iter().filter_map(diagram).collect()
}

fn diagram(run: &RunView) -> Option<Plot> {
    let bins = run.judged.as_ref()?.curves()?.reliability;
    let total: f64 = bins.iter().map(|bin| bin.count as f64).sum();
    let middle = |bin: &ReliabilityBin| 0.5 * (bin.lower + bin.upper);
    let width = bins.first().map_or(1.0, |bin| bin.upper - bin.lower);
    let accuracy = bins.iter().filter_map(|bin| Some((middle(bin), bin.accuracy?))).collect();
    let share = bins.iter().map(|bin| (middle(bin), bin.count as f64 / total.max(1.0))).collect();
    let bars = Line { mark: Mark::Bars { width: 0.9 * width }, ..line(run, "accuracy", 0, accuracy) };
    let (x, y) = (Axis::linear("confidence").with_range(0.0, 1.0), Axis::linear("accuracy").with_range(0.0, 1.0));
    let lines = vec![bars, line(run, "share of examples", 1, share)];
    let title = format!("Reliability, {}", short(&run.name));
    let plot = Plot::new(format!("reliability-{}", run.index + 1), title, x, y, lines);
    Some(Plot { others: vec![Series::diagonal("perfect calibration")], run: Some(run.index), ..plot })
}

/// All runs' curves of risk against coverage.
pub(super) fn risk_coverage(runs: &[RunView]) -> Option<Plot> {
    let curve = |run: &RunView| {
        let points = run.judged.as_ref()?.curves()?.risk_coverage;
        Some(line(run, "", 0, points.iter().map(|point| (point.coverage, point.risk)).collect()))
    };
    let lines: Vec<Line> = runs.iter().filter_map(curve).collect();
    let x = Axis::linear("share of examples answered").with_range(0.0, 1.0);
    let plot = Plot::new("risk-coverage", "Risk and coverage", x, Axis::linear("share of wrong answers"), lines);
    Some(Plot { can_be_log: true, ..plot }).filter(|plot| !plot.lines.is_empty())
}
