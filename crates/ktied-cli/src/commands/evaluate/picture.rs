//! The reliability diagram and the risk–coverage curve.

use std::path::Path;

use ktied::evaluate::{Curves, ReliabilityBin, RiskPoint};

use super::report::Report;
use crate::exit::Failure;
use crate::picture::{Axis, Chart, Figure, Mark, Panel, Series};

/// Writes both as one figure, if there were classes.
pub(super) fn write(report: &Report, stem: &Path) -> Result<(), Failure> {
    let Some(Curves { reliability, risk_coverage }) = &report.curves else { return Ok(()) };
    let panels = vec![Panel::Chart(diagram(reliability)), Panel::Chart(risk(risk_coverage))];
    Figure { title: format!("Calibration: {}", report.run), panels, columns: 2 }.write(stem).map(drop)
}

fn diagram(bins: &[ReliabilityBin]) -> Chart {
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    let middle = |bin: &ReliabilityBin| 0.5 * (bin.lower + bin.upper);
    let width = bins.first().map_or(1.0, |bin| bin.upper - bin.lower);
    let accuracy = bins.iter().filter_map(|bin| Some((middle(bin), bin.accuracy?)));
    let share = bins.iter().map(|bin| (middle(bin), bin.count as f64 / total.max(1) as f64));
    let series = vec![
        Series::new("accuracy", Mark::Bars { width: 0.9 * width }, accuracy),
        Series::new("share of examples", Mark::LineMarkers, share),
        Series::diagonal("perfect calibration"),
    ];
    let (x, y) = (Axis::linear("confidence").with_range(0.0, 1.0), Axis::linear("accuracy").with_range(0.0, 1.0));
    Chart::new("Reliability", x, y, series)
}

fn risk(points: &[RiskPoint]) -> Chart {
    let curve = points.iter().map(|point| (point.coverage, point.risk));
    let all = points.last().map_or(f64::NAN, |point| point.risk);
    let series = vec![Series::new("the most confident first", Mark::Line, curve), Series::level("all examples", all)];
    let x = Axis::linear("share of examples answered").with_range(0.0, 1.0);
    Chart::new("Risk and coverage", x, Axis::linear("share of wrong answers"), series)
}
