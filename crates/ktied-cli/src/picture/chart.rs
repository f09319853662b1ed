//! Charts: series over two axes, with a grid, ticks, labels and a legend.

use super::axis::{Axis, Padding, Scale, Span};
use super::colour::{GRID, QUIET, SPINE};
use super::font::{self, LINE};
use super::layout::{AXIS_SIZE, Frame, Placed, TICK_SIZE, TITLE_SIZE, below, beside, heading};
use super::legend::Legend;
use super::marks::{Look, Plot};
use super::series::{Datum, Mark, Series};
use super::svg::{Anchor, Svg, number};
use super::ticks::{Tick, spoken, ticks, ticks_that_fit};
use crate::table::grouped;

/// Series over two axes.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Width and height of the plot without its labels.
    pub(crate) size: (f64, f64),
    /// Whether names of series are shown; a page may have a legend of its own.
    has_legend: bool,
}

/// Width and height that suit most charts, and the least and the most that are taken.
const SIZE: (f64, f64) = (360.0, 230.0);
const SIZES: (f64, f64) = (80.0, 2000.0);
/// Room for one tick on the y axis; on the x axis the labels decide.
const TICK_ROOM: f64 = 40.0;
const MAX_X_TICKS: usize = 7;
/// Lengths of ticks with and without a label, and the gap to the label.
const TICK: (f64, f64) = (4.0, 2.0);
const GAP: f64 = 3.0;

impl Chart {
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { title: title.into(), x, y, series, size: SIZE, has_legend: true }
    }

    pub(crate) fn without_legend(self) -> Self {
        Self { has_legend: false, ..self }
    }

    pub(crate) fn with_size(self, width: f64, height: f64) -> Self {
        Self { size: (width, height), ..self }
    }

    /// Each series with its look. Reference lines do not count, and what is shaded looks like the series that follows it.
    fn looks(&self) -> Vec<(&Series, Look)> {
        let mut index = 0;
        let look = |series| {
            let look = Look::of(series, index);
            index += usize::from(!series.is_reference() && !matches!(series.mark, Mark::Band | Mark::Phase));
            (series, look)
        };
        self.series.iter().map(look).collect()
    }

    /// Whether a point can be drawn on both axes.
    fn can_draw(&self, datum: &Datum) -> bool {
        let (x, y) = (self.x.scale, self.y.scale);
        x.of(datum.x).is_some() && y.of(datum.low).is_some() && y.of(datum.high).is_some()
    }

    /// What the axes must reach, as points of which one coordinate may be missing.
    fn reach(&self) -> impl Iterator<Item = Datum> {
        self.series.iter().flat_map(|series| series.data.iter().flat_map(|datum| self.reach_of(series.mark, *datum)))
    }

    fn reach_of(&self, mark: Mark, datum: Datum) -> Vec<Datum> {
        match mark {
            Mark::Level | Mark::Upright => vec![datum],
            _ if !self.can_draw(&datum) => Vec::new(),
            Mark::Bars { width } => {
                let low = if self.y.scale == Scale::Linear { 0.0 } else { datum.low };
                [-0.5, 0.5].map(|side| Datum { x: datum.x + side * width, low, ..datum }).to_vec()
            }
            _ => vec![datum],
        }
    }

    fn has_data(&self) -> bool {
        let of = |series: &Series| !series.is_reference() && series.data.iter().any(|datum| self.can_draw(datum));
        self.series.iter().any(of)
    }

    /// Decides ranges, ticks and margins.
    pub(super) fn place(&self) -> PlacedChart<'_> {
        let side = |side: f64, usual: f64| if side.is_nan() { usual } else { side.clamp(SIZES.0, SIZES.1) };
        let (width, height) = (side(self.size.0, SIZE.0), side(self.size.1, SIZE.1));
        let x = Span::of(&self.x, Padding::Everywhere, self.reach().map(|datum| datum.x));
        let y = Span::of(&self.y, Padding::UpToZero, self.reach().flat_map(|datum| [datum.low, datum.high]));
        let y_ticks = ticks(&y, ((height / TICK_ROOM) as usize).max(2));
        let x_ticks = ticks_that_fit(&x, MAX_X_TICKS.min((width / TICK_ROOM) as usize), width, TICK_SIZE);
        let looks = self.looks();
        let mut placed = PlacedChart {
            chart: self,
            title: font::wrap(&self.title, TITLE_SIZE, width),
            labels: [(&self.x.label, width), (&self.y.label, height)].map(|(l, room)| font::wrap(l, AXIS_SIZE, room)),
            legend: Legend::new(if self.has_legend { &looks } else { &[] }, width),
            frame: Frame { width, height, ..Frame::default() },
            spans: (x, y),
            ticks: (x_ticks, y_ticks),
        };
        placed.frame = placed.margins();
        placed
    }
}

/// A chart that knows its size.
#[derive(Debug)]
pub(super) struct PlacedChart<'a> {
    chart: &'a Chart,
    title: Vec<String>,
    labels: [Vec<String>; 2],
    legend: Legend<'a>,
    frame: Frame,
    spans: (Span, Span),
    ticks: (Vec<Tick>, Vec<Tick>),
}

impl Placed for PlacedChart<'_> {
    fn frame(&self) -> Frame {
        self.frame
    }

    fn draw(&self, svg: &mut Svg, left: f64, top: f64) {
        let Frame { width, height, .. } = self.frame;
        let plot = Plot { left, top, width, height, x: self.spans.0, y: self.spans.1 };
        heading(svg, &self.title, left, top - self.frame.top + TITLE_SIZE);
        self.legend.draw(svg, left, top - 8.0 - self.legend.height());
        self.grid(svg, &plot);
        self.draw_series(svg, &plot);
        self.axes(svg, &plot);
        below(svg, &self.labels[0], left + width / 2.0, top + height + TICK.0 + GAP + TICK_SIZE + 5.0);
        beside(svg, &self.labels[1], left - self.frame.left, top + height / 2.0);
    }

    fn describe(&self) -> String {
        let axis = |axis: &Axis, span: &Span| {
            let scale = if axis.scale == Scale::Log { ", logarithmic" } else { "" };
            format!("{} from {} to {}{scale}", axis.label, spoken(span.value(0.0)), spoken(span.value(1.0)))
        };
        let series = self.chart.series.iter().filter(|series| !series.name.is_empty());
        let named: Vec<String> = series.map(|series| self.describe_series(series)).collect();
        let axes = [axis(&self.chart.x, &self.spans.0), axis(&self.chart.y, &self.spans.1)].join("; ");
        format!("Chart “{}”: {axes}. {}", self.chart.title, named.join("; "))
    }
}

impl PlacedChart<'_> {
    /// The room that title, legend, ticks and labels need around the plot.
    fn margins(&self) -> Frame {
        let tick_width = |tick: &Tick| tick.label.as_ref().map_or(0.0, |label| font::width(label, TICK_SIZE));
        let labels = self.ticks.1.iter().map(tick_width).fold(0.0, f64::max);
        let beyond = |tick: &Tick| tick_width(tick) / 2.0 - (1.0 - tick.place) * self.frame.width;
        let lines = |lines: &[String]| lines.len() as f64 * AXIS_SIZE * LINE;
        let legend = self.legend.height() + if self.legend.height() > 0.0 { 4.0 } else { 0.0 };
        Frame {
            left: TICK.0 + GAP + labels + 6.0 + lines(&self.labels[1]),
            right: self.ticks.0.iter().map(beyond).fold(4.0, f64::max),
            top: self.title.len() as f64 * TITLE_SIZE * LINE + legend + 4.0,
            bottom: TICK.0 + GAP + TICK_SIZE + 5.0 + lines(&self.labels[0]),
            ..self.frame
        }
    }

    /// Light lines at the labelled ticks, one path for all.
    fn grid(&self, svg: &mut Svg, plot: &Plot) {
        let labelled = |ticks: &[Tick]| ticks.iter().filter(|t| t.label.is_some()).map(|t| t.place).collect::<Vec<_>>();
        let upright = |place: &f64| {
            format!("M{} {}v{}", number(plot.left + place * plot.width), number(plot.top), number(plot.height))
        };
        let level = |place: &f64| {
            format!("M{} {}h{}", number(plot.left), number(plot.top + (1.0 - place) * plot.height), number(plot.width))
        };
        let lines: String =
            labelled(&self.ticks.0).iter().map(upright).chain(labelled(&self.ticks.1).iter().map(level)).collect();
        svg.leaf("path", &[("d", &lines), ("stroke", &GRID), ("stroke-width", &0.8), ("fill", &"none")]);
    }

    fn draw_series(&self, svg: &mut Svg, plot: &Plot) {
        if !self.chart.has_data() {
            let middle = (plot.left + plot.width / 2.0, plot.top + plot.height / 2.0);
            svg.words(
                "text",
                &[
                    ("x", &middle.0),
                    ("y", &middle.1),
                    ("font-size", &AXIS_SIZE),
                    ("text-anchor", &"middle"),
                    ("fill", &QUIET),
                ],
                "no data",
            );
            return;
        }
        plot.open(svg);
        for (series, look) in self.chart.looks() {
            plot.draw(svg, series, look);
        }
        svg.close();
    }

    /// Spines and ticks as one path, then the ticks' labels.
    fn axes(&self, svg: &mut Svg, plot: &Plot) {
        let (left, bottom) = (plot.left, plot.top + plot.height);
        let length = |tick: &Tick| if tick.label.is_some() { TICK.0 } else { TICK.1 };
        let mut lines =
            format!("M{} {}V{}H{}", number(left), number(plot.top), number(bottom), number(left + plot.width));
        for tick in &self.ticks.0 {
            lines +=
                &format!("M{} {}v{}", number(left + tick.place * plot.width), number(bottom), number(length(tick)));
        }
        for tick in &self.ticks.1 {
            lines +=
                &format!("M{} {}h{}", number(left), number(bottom - tick.place * plot.height), number(-length(tick)));
        }
        svg.leaf("path", &[("d", &lines), ("stroke", &SPINE), ("stroke-width", &0.8), ("fill", &"none")]);
        self.tick_labels(svg, plot);
    }

    fn tick_labels(&self, svg: &mut Svg, plot: &Plot) {
        let (left, bottom, room) = (plot.left, plot.top + plot.height, TICK.0 + GAP);
        for (tick, label) in self.ticks.0.iter().filter_map(|tick| Some((tick, tick.label.as_ref()?))) {
            let x = left + tick.place * plot.width;
            svg.label((x, bottom + room + 0.8 * TICK_SIZE), TICK_SIZE, Anchor::Middle, label);
        }
        for (tick, label) in self.ticks.1.iter().filter_map(|tick| Some((tick, tick.label.as_ref()?))) {
            let y = bottom - tick.place * plot.height;
            svg.label((left - room, y + 0.36 * TICK_SIZE), TICK_SIZE, Anchor::End, label);
        }
    }

    fn describe_series(&self, series: &Series) -> String {
        let data: Vec<&Datum> = series.data.iter().filter(|datum| self.chart.can_draw(datum)).collect();
        let extent = super::axis::extent(data.iter().flat_map(|datum| [datum.low, datum.high]));
        match (series.is_reference(), extent) {
            _ if series.mark == Mark::Phase => format!("{} as a shaded phase", series.name),
            (true, _) => format!("{} as a dashed line", series.name),
            (_, None) => format!("{}: no data", series.name),
            (_, Some((low, high))) => {
                format!("{}: {} points from {} to {}", series.name, grouped(data.len()), spoken(low), spoken(high))
            }
        }
    }
}
