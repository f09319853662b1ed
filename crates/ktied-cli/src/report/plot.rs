//! Plots that a reader can ask for values: a picture, the points that it shows, and all points as a table.

use serde_json::{Value, json};

use super::html::Html;
use super::thin::{COLUMNS, thinned};
use crate::csv::Csv;
use crate::picture::{Axis, Chart, Figure, Mark, Panel, Scale, Series};
use crate::table::grouped;

/// Width and height of a plot without its labels: on a phone about their own size, beside each other on a desk.
const SIZE: (f64, f64) = (285.0, 195.0);

/// Bytes of a point in a picture, and in the data, about.
const BYTES_OF_POINT: (usize, usize) = (13, 16);

/// One line, or one set of bars, of one run.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Which run; its colour, and the box that hides it.
    pub(crate) run: usize,
    pub(crate) run_name: String,
    /// What of the run; empty if there is only one.
    pub(crate) what: String,
    pub(crate) mark: Mark,
    /// Which dash.
    pub(crate) dash: usize,
    /// In the order of x.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Line {
    pub(crate) fn name(&self) -> String {
        match (self.run_name.as_str(), self.what.as_str()) {
            (run, "") => run.to_owned(),
            (run, what) => format!("{run}, {what}"),
        }
    }

    fn series(&self, points: Vec<(f64, f64)>) -> Series {
        Series::new(self.name(), self.mark, points)
            .with_colour(self.run)
            .with_dash(self.dash)
            .with_tag(format!("run-{}", self.run))
    }
}

/// A chart of several runs.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// Name of its files, and of its data on the page.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Phases before the lines, and reference lines.
    pub(crate) others: Vec<Series>,
    /// Whether a reader may want the y axis to be logarithmic.
    pub(crate) can_be_log: bool,
    /// Whether it is so at first.
    pub(crate) starts_log: bool,
    /// The only run that it is about, if it is.
    pub(crate) run: Option<usize>,
    /// Most columns that a line is thinned to.
    pub(crate) columns: usize,
}

impl Plot {
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Self {
        let (id, title, others) = (id.into(), title.into(), Vec::new());
        Self { id, title, x, y, lines, others, can_be_log: false, starts_log: false, run: None, columns: COLUMNS }
    }

    /// Whether any line has a value that can be drawn.
    pub(crate) fn has_data(&self) -> bool {
        self.lines.iter().any(|line| line.points.iter().any(|point| point.1.is_finite()))
    }

    fn with_log_axis(&self) -> Self {
        Self { y: Axis { scale: Scale::Log, range: None, ..self.y.clone() }, ..self.clone() }
    }

    /// Whether a logarithmic axis would show anything else.
    fn has_log_axis(&self) -> bool {
        self.can_be_log && self.lines.iter().any(|line| line.points.iter().any(|point| point.1 > 0.0))
    }

    /// The points of each line that are drawn on the page.
    fn drawn(&self) -> Vec<Vec<(f64, f64)>> {
        let place = |x: f64| if self.x.scale == Scale::Log { x.log10() } else { x };
        self.lines.iter().map(|line| thinned(&line.points, self.columns, place)).collect()
    }

    fn chart(&self, points: Vec<Vec<(f64, f64)>>, title: &str) -> Chart {
        let lines = self.lines.iter().zip(points).map(|(line, points)| line.series(points));
        let series = self.others.iter().cloned().chain(lines).collect();
        Chart::new(title, self.x.clone(), self.y.clone(), series).with_size(SIZE.0, SIZE.1)
    }

    /// About how many bytes its lines take on the page: in each picture, and as data.
    pub(super) fn bytes(&self) -> usize {
        let pictures = if self.has_log_axis() { 2 } else { 1 };
        let points: usize = self.drawn().iter().map(Vec::len).sum();
        points * (pictures * BYTES_OF_POINT.0 + BYTES_OF_POINT.1)
    }

    /// The whole picture with its title and legend, for a file.
    fn figure(&self) -> Figure {
        let points = self.lines.iter().map(|line| line.points.clone()).collect();
        let panels = vec![Panel::Chart(self.chart(points, ""))];
        Figure { title: self.title.clone(), panels, columns: 1 }
    }

    /// Its files without their extensions: as it is, and with a logarithmic axis.
    pub(crate) fn figures(&self) -> Vec<(String, Figure)> {
        let log = self.has_log_axis().then(|| (format!("{}-log", self.id), self.with_log_axis().figure()));
        std::iter::once((self.id.clone(), self.figure())).chain(log).collect()
    }

    /// Every point of every line.
    pub(crate) fn csv(&self) -> String {
        let mut csv = Csv::new(&["run", "series", &self.x.label, &self.y.label]);
        for line in &self.lines {
            for (x, y) in &line.points {
                csv.row(&[line.run_name.as_str().into(), line.what.as_str().into(), json!(x), json!(y)]);
            }
        }
        csv.finish()
    }

    /// What the page's script needs to say values.
    pub(super) fn data(&self) -> Value {
        let line = |(line, points): (&Line, Vec<(f64, f64)>)| {
            let (x, y): (Vec<Value>, Vec<Value>) = points.into_iter().map(|(x, y)| (brief(x), brief(y))).unzip();
            json!({ "run": line.run, "what": line.what, "x": x, "y": y })
        };
        let lines: Vec<Value> = self.lines.iter().zip(self.drawn()).map(line).collect();
        json!({ "x": self.x.label, "y": self.y.label, "lines": lines })
    }

    /// The plot on the page: heading, picture, box for the logarithmic axis, and what was left out.
    pub(super) fn write(&self, html: &mut Html) {
        let run = self.run.map(|run| format!("run-{run}"));
        let tag = run.as_deref().unwrap_or("");
        html.around("figure", &[("class", "plot"), ("id", &self.id), ("data-tag", tag)], |html| {
            html.around("figcaption", &[], |html| html.text(&self.title));
            if !self.has_data() {
                html.words("p", &[("class", "none")], "No finite value to draw.");
                return;
            }
            self.pictures(html);
            self.under(html);
        });
    }

    fn pictures(&self, html: &mut Html) {
        let label = format!("{}: move with the arrow keys to hear values", self.title);
        let frame = [
            ("class", "frame"),
            ("tabindex", "0"),
            ("role", "group"),
            ("aria-roledescription", "chart"),
            ("aria-label", label.as_str()),
            ("data-plot-id", self.id.as_str()),
        ];
        html.around("div", &frame, |html| {
            let figure = |plot: &Self| {
                let panels = vec![Panel::Chart(plot.chart(plot.drawn(), "").without_legend())];
                Figure { title: String::new(), panels, columns: 1 }
            };
            html.around("div", &[("class", "linear")], |html| html.trusted(&figure(self).to_inline()));
            if self.has_log_axis() {
                let log = figure(&self.with_log_axis());
                html.around("div", &[("class", "log")], |html| html.trusted(&log.to_inline()));
            }
            html.words("div", &[("class", "tip"), ("hidden", "")], "");
            html.words("output", &[("class", "said"), ("aria-live", "polite")], "");
        });
    }

    /// The box, the dashes' meaning, and an honest word about thinning.
    fn under(&self, html: &mut Html) {
        html.around("div", &[("class", "under")], |html| {
            if self.has_log_axis() {
                html.around("label", &[], |html| {
                    let attributes = [("type", "checkbox"), ("class", "log-axis"), ("checked", "")];
                    html.open("input", if self.starts_log { &attributes } else { &attributes[..2] });
                    html.text(" logarithmic axis");
                });
            }
            let mut kinds: Vec<&Line> = self.lines.iter().collect();
            kinds.sort_by_key(|line| line.dash);
            kinds.dedup_by_key(|line| (line.dash, line.what.as_str()));
            if kinds.len() > 1 {
                kinds.into_iter().for_each(|line| key(html, line));
            }
            let all: usize = self.lines.iter().map(|line| line.points.len()).sum();
            let drawn: usize = self.drawn().iter().map(Vec::len).sum();
            if drawn < all {
                let (drawn, all) = (grouped(drawn), grouped(all));
                let sentence = format!("{drawn} of {all} points: the lowest and the highest of each column.");
                html.words("span", &[("class", "thinned")], &sentence);
            }
        });
    }
}

/// A sample of a line, or of a bar, with what it means.
fn key(html: &mut Html, line: &Line) {
    let shape = match line.mark {
        Mark::Bars { .. } => {
            "<rect x=\"8\" width=\"12\" height=\"8\" fill=\"currentColor\" fill-opacity=\"0.6\"/>".to_owned()
        }
        _ => {
            let dash = if line.mark == Mark::LineMarkers { "none" } else { crate::picture::dash(line.dash) };
            let path = "<path d=\"M0 4H28\" stroke=\"currentColor\" stroke-width=\"2\" fill=\"none\"";
            format!("{path} stroke-dasharray=\"{dash}\"/>{}", marker(line))
        }
    };
    html.around("span", &[("class", "key")], |html| {
        html.trusted(&format!("<svg viewBox=\"0 0 28 8\" aria-hidden=\"true\">{shape}</svg>"));
        html.text(&line.what);
    });
}

/// The marker of a line that has some.
fn marker(line: &Line) -> &'static str {
    match (line.mark, line.dash) {
        (Mark::LineMarkers, 0) => "<circle cx=\"14\" cy=\"4\" r=\"3.5\" fill=\"currentColor\"/>",
        (Mark::LineMarkers, _) => "<rect x=\"11\" y=\"1\" width=\"6\" height=\"6\" fill=\"currentColor\"/>",
        _ => "",
    }
}

/// A number in six digits, which is more than a plot can show; null if it is not finite.
fn brief(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let short: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if short.fract() == 0.0 && short.abs() < 1e15 { json!(short as i64) } else { json!(short) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        let line = Line { run: 0, run_name: "a".into(), what: "b".into(), mark: Mark::Line, dash: 0, points };
        let plot = Plot::new("p", "A plot", Axis::linear("step"), Axis::linear("nll"), vec![line]);
        Plot { can_be_log: true, ..plot }
    }

    fn page(plot: &Plot) -> String {
        let mut html = Html::default();
        plot.write(&mut html);
        html.finish()
    }

    #[test]
    fn thinning_is_said_and_the_table_has_every_point() {
        let long = plot((0..100_000).map(|i| (f64::from(i), f64::from(i % 97))).collect());
        assert!(page(&long).contains("of 100,000 points: the lowest and the highest of each column."));
        assert_eq!(long.csv().lines().count(), 100_001);
        assert!(long.data().to_string().len() < 15_000);
        assert!(!page(&plot(vec![(1.0, 2.0), (2.0, 3.0)])).contains("points:"));
    }

    #[test]
    fn a_plot_of_nothing_finite_says_so() {
        let nothing = plot(vec![(1.0, f64::NAN), (2.0, f64::INFINITY)]);
        assert!(page(&nothing).contains("No finite value to draw.") && !page(&nothing).contains("<svg"));
        assert_eq!(nothing.csv(), "run,series,step,nll\na,b,1.0,\na,b,2.0,\n");
    }

    #[test]
    fn a_logarithmic_axis_is_offered_where_something_is_positive() {
        assert!(page(&plot(vec![(1.0, 2.0), (2.0, 3.0)])).contains("logarithmic axis"));
        assert!(!page(&plot(vec![(1.0, -2.0), (2.0, 0.0)])).contains("logarithmic axis"));
        assert_eq!(plot(vec![(1.0, 2.0)]).figures().len(), 2);
    }

    #[test]
    fn numbers_of_the_data_have_six_digits() {
        assert_eq!(brief(0.123_456_789), json!(0.123_457));
        assert_eq!(brief(15_000.0), json!(15_000));
        assert_eq!(brief(f64::NAN), Value::Null);
        assert_eq!(brief(1.5e-9), json!(1.5e-9));
    }
}
