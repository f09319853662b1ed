//! Heat maps: matrices as colours, averaged down to what a picture can show.

use super::average::Averages;
use super::axis::{Scale, Span, extent};
use super::colour::{QUIET, SPINE};
use super::font::{self, LINE};
use super::image::{Cells, data_uri};
use super::layout::{AXIS_SIZE, Frame, Placed, TICK_SIZE, TITLE_SIZE, below, beside, heading};
use super::svg::{Anchor, Attributes, Svg, number};
use super::ticks::{Tick, spoken, ticks};
use crate::table::grouped;

/// A matrix as colours.
#[derive(Clone, Debug)]
pub(crate) struct HeatMap {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    /// What the colours mean; beside the colour bar.
    pub(crate) value_label: String,
    /// Which values have the first and the last colour; from the cells if there is none.
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) has_colour_bar: bool,
    shape: (usize, usize),
    averages: Averages,
}

/// Length of the longer side, about, and how many times longer than the shorter it may look.
const SIDE: f64 = 300.0;
const MAX_ASPECT: f64 = 4.0;
/// Pixels of the PNG, which is twice as large as the SVG; cells are a whole number of them wide.
const PIXEL: f64 = 0.5;
/// Width of the colour bar, and the gap before it.
const BAR: (f64, f64) = (12.0, 14.0);
const BAR_TICK_ROOM: f64 = 40.0;
/// Titles may be wider, and labels longer, than small maps.
const TITLE_ROOM: f64 = 150.0;
const LABEL_ROOM: f64 = 90.0;
/// Between the map and what belongs to it.
const GAP: f64 = 5.0;

impl HeatMap {
    /// A matrix of `values`, row after row; the first row is at the top. They are averaged here, and not kept.
    pub(crate) fn new(title: impl Into<String>, (num_rows, num_cols): (usize, usize), values: &[f64]) -> Self {
        Self {
            title: title.into(),
            x_label: format!("{} columns", grouped(num_cols)),
            y_label: format!("{} rows", grouped(num_rows)),
            value_label: String::new(),
            range: None,
            has_colour_bar: true,
            shape: (num_rows, num_cols),
            averages: Averages::new((num_rows, num_cols), values),
        }
    }

    pub(crate) fn with_labels(self, x: impl Into<String>, y: impl Into<String>, value: impl Into<String>) -> Self {
        Self { x_label: x.into(), y_label: y.into(), value_label: value.into(), ..self }
    }

    #[cfg_attr(not(test), expect(dead_code, reason = "maps share their scale so far"))]
    pub(crate) fn with_range(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }

    /// The smallest and the largest average of a cell.
    pub(crate) fn extent(&self) -> Option<(f64, f64)> {
        extent(self.averages.values.iter().copied())
    }

    /// Gives maps that stand side by side one scale, from the smallest to the largest of all, and one colour bar.
    pub(crate) fn share_scale(maps: &mut [Self]) {
        let range = extent(maps.iter().filter_map(Self::extent).flat_map(|(low, high)| [low, high]));
        let last = maps.len().saturating_sub(1);
        for (index, map) in maps.iter_mut().enumerate() {
            (map.range, map.has_colour_bar) = (range, index == last);
        }
    }

    /// From the first to the last colour; none if there is nothing to show.
    fn span(&self) -> Option<Span> {
        let (low, high) = self.extent()?;
        let fixed = self.range.filter(|(one, other)| one.is_finite() && other.is_finite());
        let (one, other) = fixed.unwrap_or((low, high));
        Some(Span::exact(Scale::Linear, one.min(other), one.max(other)))
    }

    /// Decides sizes and margins.
    pub(super) fn place(&self) -> PlacedHeat<'_> {
        let pixels = self.pixels();
        let (width, height) = match self.averages.values.len() {
            0 => (TITLE_ROOM, TITLE_ROOM),
            _ => {
                ((self.averages.num_cols * pixels.1) as f64 * PIXEL, (self.averages.num_rows * pixels.0) as f64 * PIXEL)
            }
        };
        let mut placed = PlacedHeat {
            map: self,
            pixels,
            span: self.span(),
            title: font::wrap(&self.title, TITLE_SIZE, width.max(TITLE_ROOM)),
            x_label: font::wrap(&self.x_label, AXIS_SIZE, width.max(LABEL_ROOM)),
            y_label: font::wrap(&self.y_label, AXIS_SIZE, height.max(LABEL_ROOM)),
            value_label: font::wrap(&self.value_label, AXIS_SIZE, height.max(LABEL_ROOM)),
            bar_labels: Vec::new(),
            frame: Frame { width, height, ..Frame::default() },
        };
        placed.bar_labels = placed.bar_ticks();
        placed.frame = placed.margins();
        placed
    }

    /// Height and width of a cell, in pixels of the PNG: the matrix' own proportions, as far as they are bearable.
    fn pixels(&self) -> (usize, usize) {
        let (rows, cols) = (self.averages.num_rows.max(1), self.averages.num_cols.max(1));
        let whole = |length: f64, cells: usize| ((length / PIXEL / cells as f64).round() as usize).max(1);
        let (tall, wide) = (whole(SIDE, rows), whole(SIDE, cols));
        let aspect = (self.shape.1.max(1) as f64 / self.shape.0.max(1) as f64).clamp(1.0 / MAX_ASPECT, MAX_ASPECT);
        match aspect <= 1.0 {
            true => (tall, whole((rows * tall) as f64 * PIXEL * aspect, cols)),
            false => (whole((cols * wide) as f64 * PIXEL / aspect, rows), wide),
        }
    }
}

/// A heat map that knows its size.
#[derive(Debug)]
pub(super) struct PlacedHeat<'a> {
    map: &'a HeatMap,
    pixels: (usize, usize),
    span: Option<Span>,
    title: Vec<String>,
    x_label: Vec<String>,
    y_label: Vec<String>,
    value_label: Vec<String>,
    bar_labels: Vec<Tick>,
    frame: Frame,
}

impl Placed for PlacedHeat<'_> {
    fn frame(&self) -> Frame {
        self.frame
    }

    fn draw(&self, svg: &mut Svg, left: f64, top: f64) {
        let Frame { width, height, .. } = self.frame;
        heading(svg, &self.title, left, top - self.frame.top + TITLE_SIZE);
        match &self.span {
            Some(span) => image(svg, &self.cells(span), self.pixels, [left, top, width, height]),
            None => note(svg, "no data", (left + width / 2.0, top + height / 2.0)),
        }
        outline(svg, [left, top, width, height]);
        below(svg, &self.x_label, left + width / 2.0, top + height + GAP);
        beside(svg, &self.y_label, left - self.lines(&self.y_label) - GAP, top + height / 2.0);
        if self.has_bar() {
            self.bar(svg, left + width + BAR.1, top);
        }
    }

    fn describe(&self) -> String {
        let (rows, cols) = self.map.shape;
        let values = match self.map.extent() {
            Some((low, high)) => format!("averages of cells from {} to {}", spoken(low), spoken(high)),
            None => "no data".into(),
        };
        format!("Heat map “{}”: {} rows by {} columns, {values}.", self.map.title, grouped(rows), grouped(cols))
    }
}

impl PlacedHeat<'_> {
    fn has_bar(&self) -> bool {
        self.map.has_colour_bar && self.span.is_some()
    }

    fn lines(&self, lines: &[String]) -> f64 {
        lines.len() as f64 * AXIS_SIZE * LINE
    }

    /// The room for title and labels, which may be wider than the map, and for the colour bar.
    fn margins(&self) -> Frame {
        let widest = |lines: &[String], size| lines.iter().map(|line| font::width(line, size)).fold(0.0, f64::max);
        let beyond = (widest(&self.x_label, AXIS_SIZE) - self.frame.width) / 2.0;
        let labels = self.bar_labels.iter().filter_map(|tick| Some(font::width(tick.label.as_ref()?, TICK_SIZE)));
        let bar = BAR.1 + BAR.0 + 2.0 * GAP + labels.fold(0.0, f64::max) + self.lines(&self.value_label);
        Frame {
            left: (self.lines(&self.y_label) + GAP).max(beyond),
            right: [beyond, widest(&self.title, TITLE_SIZE) - self.frame.width, if self.has_bar() { bar } else { 0.0 }]
                .into_iter()
                .fold(4.0, f64::max),
            top: self.title.len() as f64 * TITLE_SIZE * LINE + 4.0,
            bottom: self.lines(&self.x_label) + GAP,
            ..self.frame
        }
    }

    fn cells(&self, span: &Span) -> Cells {
        let Averages { num_rows, num_cols, values } = &self.map.averages;
        let fractions = values.iter().map(|value| span.place(*value)).collect();
        Cells { num_rows: *num_rows, num_cols: *num_cols, fractions }
    }

    fn bar_ticks(&self) -> Vec<Tick> {
        let count = ((self.frame.height / BAR_TICK_ROOM) as usize).max(2);
        self.span.as_ref().filter(|_| self.has_bar()).map(|span| ticks(span, count)).unwrap_or_default()
    }

    /// The colour bar, the highest value at the top, with its ticks and its label.
    fn bar(&self, svg: &mut Svg, left: f64, top: f64) {
        let (height, right) = (self.frame.height, left + BAR.0);
        let num_rows = (height / PIXEL) as usize;
        let fractions = (0..num_rows).map(|row| Some(1.0 - row as f64 / (num_rows - 1).max(1) as f64)).collect();
        let whole = Cells { num_rows, num_cols: 1, fractions };
        image(svg, &whole, (1, (BAR.0 / PIXEL) as usize), [left, top, BAR.0, height]);
        outline(svg, [left, top, BAR.0, height]);
        for (tick, label) in self.bar_labels.iter().filter_map(|tick| Some((tick, tick.label.as_ref()?))) {
            let y = top + (1.0 - tick.place) * height;
            svg.leaf(
                "path",
                &[("d", &format!("M{} {}h3", number(right), number(y))), ("stroke", &SPINE), ("stroke-width", &0.8)],
            );
            svg.label((right + GAP, y + 0.36 * TICK_SIZE), TICK_SIZE, Anchor::Start, label);
        }
        let edge = left - BAR.1 + self.frame.right;
        beside(svg, &self.value_label, edge - self.lines(&self.value_label), top + height / 2.0);
    }
}

/// One image at [left, top, width, height], its cells so many pixels tall and wide.
fn image(svg: &mut Svg, cells: &Cells, (tall, wide): (usize, usize), [left, top, width, height]: [f64; 4]) {
    let png = match cells.png(tall, wide) {
        Ok(png) => png,
        Err(error) => return note(svg, &format!("cannot be drawn: {error}"), (left + width / 2.0, top + height / 2.0)),
    };
    svg.leaf(
        "image",
        &[
            ("x", &left),
            ("y", &top),
            ("width", &width),
            ("height", &height),
            ("preserveAspectRatio", &"none"),
            ("image-rendering", &"pixelated"),
            ("href", &data_uri(&png)),
        ],
    );
}

/// A thin frame around an area, wholly outside it.
fn outline(svg: &mut Svg, [left, top, width, height]: [f64; 4]) {
    let (x, y, width, height) = (left - 0.4, top - 0.4, width + 0.8, height + 0.8);
    let place: Attributes<'_> = &[("x", &x), ("y", &y), ("width", &width), ("height", &height)];
    svg.leaf("rect", &[place, &[("fill", &"none"), ("stroke", &SPINE), ("stroke-width", &0.8)]].concat());
}

/// Words in the middle of a plot that has nothing else.
fn note(svg: &mut Svg, words: &str, (x, y): (f64, f64)) {
    let place: Attributes<'_> = &[("x", &x), ("y", &y), ("font-size", &AXIS_SIZE)];
    svg.words("text", &[place, &[("text-anchor", &"middle"), ("fill", &QUIET)]].concat(), words);
}
