//! How series look on a chart and in its legend.

use super::axis::{Scale, Span};
use super::colour::{DASHES, QUIET, SERIES};
use super::series::{Datum, Mark, Series, Spot, spots};
use super::svg::{Svg, number};

/// A marker's reach from its middle.
const RADIUS: f64 = 3.0;
/// Points along y = x, which is no straight line if only one of the axes is logarithmic.
const DIAGONAL_POINTS: u32 = 64;
/// Lines are cut a little outside the plot, so that those on its edge keep their width.
const OVERHANG: f64 = 1.0;
pub(super) const LINE_WIDTH: f64 = 1.5;

/// The place where series are drawn, and its axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Span,
    pub(super) y: Span,
}

/// What tells a series from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) colour: &'static str,
    dash: &'static str,
    marker: usize,
}

impl Look {
    /// The look of the series that is the `index`-th of its chart, reference lines and bands not counted.
    pub(super) fn of(series: &Series, index: usize) -> Self {
        let (colour, dash) = (series.colour.unwrap_or(index), series.dash.unwrap_or(index));
        if series.is_reference() {
            return Self { colour: QUIET, dash: "4 3", marker: 0 };
        }
        let has_markers = matches!(series.mark, Mark::LineMarkers);
        let dash_pattern = if has_markers { "none" } else { DASHES[dash % DASHES.len()] };
        Self { colour: SERIES[colour % SERIES.len()], dash: dash_pattern, marker: dash }
    }
}

impl Plot {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.left + x * self.width, self.top + (1.0 - y) * self.height)
    }

    /// Begins the element that holds all series. A page that holds the picture reads there where a point is.
    pub(super) fn open(&self, svg: &mut Svg) {
        let place = [self.left, self.top, self.width, self.height].map(number).join(" ");
        let axis = |span: &Span| {
            let scale = if span.scale == Scale::Log { "log" } else { "linear" };
            format!("{scale} {} {}", span.low, span.high)
        };
        svg.open("g", &[("data-plot", &place), ("data-x", &axis(&self.x)), ("data-y", &axis(&self.y))]);
    }

    /// Draws one series; its name appears where a reader points at it.
    pub(super) fn draw(&self, svg: &mut Svg, series: &Series, look: Look) {
        let spots = spots(&series.data, &self.x, &self.y);
        match &series.tag {
            Some(tag) => svg.open("g", &[("data-tag", tag)]),
            None => svg.open("g", &[]),
        }
        if !series.name.is_empty() {
            svg.title(&series.name);
        }
        self.clip(svg);
        match series.mark {
            Mark::Line | Mark::LineMarkers => self.line(svg, &spots, look),
            Mark::Band => self.band(svg, &spots, look),
            Mark::Bars { width } => self.bars(svg, series, width, look),
            Mark::Diagonal => self.line(svg, &self.diagonal(), look),
            Mark::Level | Mark::Upright => self.line(svg, &self.across(series), look),
            Mark::Phase => self.phase(svg, series, look),
            Mark::Markers => {}
        }
        svg.close();
        if matches!(series.mark, Mark::Markers | Mark::LineMarkers) {
            self.markers(svg, &spots, look);
        }
        svg.close();
    }

    /// An element that shows nothing beyond the plot. One without a name, so that pictures can share a page.
    fn clip(&self, svg: &mut Svg) {
        let (left, top) = (self.left - OVERHANG, self.top - OVERHANG);
        let (width, height) = (self.width + 2.0 * OVERHANG, self.height + 2.0 * OVERHANG);
        let view = [left, top, width, height].map(number).join(" ");
        let place: [(&str, &dyn super::svg::Value); 5] =
            [("x", &left), ("y", &top), ("width", &width), ("height", &height), ("viewBox", &view)];
        svg.open("svg", &place);
    }

    fn line(&self, svg: &mut Svg, spots: &[Spot], look: Look) {
        let runs = spots.chunk_by(|one, next| one.run == next.run);
        let path: String = runs.map(|run| path(run.iter().map(|spot| self.at((spot.x, spot.high))))).collect();
        if !path.is_empty() {
            stroke(svg, &path, look);
        }
    }

    fn band(&self, svg: &mut Svg, spots: &[Spot], look: Look) {
        for run in spots.chunk_by(|one, next| one.run == next.run) {
            let upper = run.iter().map(|spot| (spot.x, spot.high));
            let lower = run.iter().rev().map(|spot| (spot.x, spot.low));
            let outline = path(upper.chain(lower).map(|point| self.at(point))) + "Z";
            svg.leaf("path", &[("d", &outline), ("fill", &look.colour), ("fill-opacity", &0.2)]);
        }
    }

    /// Bars from the base to each value; one whose ends or value cannot be drawn is left out.
    fn bars(&self, svg: &mut Svg, series: &Series, width: f64, look: Look) {
        let base = self.y.place(0.0).unwrap_or(0.0);
        for datum in &series.data {
            let (from, to) = (self.x.place(datum.x - width / 2.0), self.x.place(datum.x + width / 2.0));
            if let (Some(from), Some(to), Some(end)) = (from, to, self.y.place(datum.high)) {
                let (corner, other) = (self.at((from, base.max(end))), self.at((to, base.min(end))));
                bar(svg, corner, other, look);
            }
        }
    }

    /// From the first to the last x, as much of it as is on the plot.
    fn phase(&self, svg: &mut Svg, series: &Series, look: Look) {
        let place = |datum: Option<&Datum>| Some(self.x.place(datum?.x)?.clamp(0.0, 1.0));
        if let (Some(from), Some(to)) = (place(series.data.first()), place(series.data.last())) {
            shade(svg, self.at((from, 1.0)), self.at((to, 0.0)), look.colour);
        }
    }

    fn markers(&self, svg: &mut Svg, spots: &[Spot], look: Look) {
        let inside = |spot: &&Spot| [spot.x, spot.high].iter().all(|place| (-1e-9..=1.0 + 1e-9).contains(place));
        let shapes: String = spots.iter().filter(inside).map(|s| marker(self.at((s.x, s.high)), look.marker)).collect();
        if !shapes.is_empty() {
            svg.leaf("path", &[("d", &shapes), ("fill", &look.colour)]);
        }
    }

    fn diagonal(&self) -> Vec<Spot> {
        let fractions = (0..=DIAGONAL_POINTS).map(|step| f64::from(step) / f64::from(DIAGONAL_POINTS));
        let points = fractions.filter_map(|x| Some((x, self.y.place(self.x.value(x))?)));
        points.map(|(x, y)| Spot { x, low: y, high: y, run: 0 }).collect()
    }

    /// Both ends of a level or an upright line.
    fn across(&self, series: &Series) -> Vec<Spot> {
        let Some(datum) = series.data.first() else { return Vec::new() };
        let ends = [0.0, 1.0].map(|end| match series.mark {
            Mark::Upright => self.x.place(datum.x).map(|x| (x, end)),
            _ => self.y.place(datum.high).map(|y| (end, y)),
        });
        ends.into_iter().flatten().map(|(x, y)| Spot { x, low: y, high: y, run: 0 }).collect()
    }
}

/// A sample of a series for the legend, `width` wide, its middle at `y`.
pub(super) fn sample(svg: &mut Svg, series: &Series, look: Look, (left, y): (f64, f64), width: f64) {
    let line = || path([(left, y), (left + width, y)].into_iter());
    match series.mark {
        Mark::Band | Mark::Phase => shade(svg, (left, y - 4.0), (left + width, y + 4.0), look.colour),
        Mark::Bars { .. } => bar(svg, (left, y - 4.0), (left + width, y + 4.0), look),
        Mark::Markers => {}
        _ => stroke(svg, &line(), look),
    }
    if matches!(series.mark, Mark::Markers | Mark::LineMarkers) {
        svg.leaf("path", &[("d", &marker((left + width / 2.0, y), look.marker)), ("fill", &look.colour)]);
    }
}

fn stroke(svg: &mut Svg, path: &str, look: Look) {
    let width = if look.colour == QUIET { 1.0 } else { LINE_WIDTH };
    let ends = if look.dash == "none" { "round" } else { "butt" };
    svg.leaf(
        "path",
        &[
            ("d", &path),
            ("fill", &"none"),
            ("stroke", &look.colour),
            ("stroke-width", &width),
            ("stroke-dasharray", &look.dash),
            ("stroke-linejoin", &"round"),
            ("stroke-linecap", &ends),
        ],
    );
}

/// An area without an outline.
fn shade(svg: &mut Svg, (left, top): (f64, f64), (right, bottom): (f64, f64), colour: &str) {
    let place: super::svg::Attributes<'_> =
        &[("x", &left), ("y", &top), ("width", &(right - left)), ("height", &(bottom - top))];
    svg.leaf("rect", &[place, &[("fill", &colour), ("fill-opacity", &0.14)]].concat());
}

fn bar(svg: &mut Svg, (left, top): (f64, f64), (right, bottom): (f64, f64), look: Look) {
    let place: super::svg::Attributes<'_> =
        &[("x", &left), ("y", &top), ("width", &(right - left)), ("height", &(bottom - top))];
    let colours: super::svg::Attributes<'_> =
        &[("fill", &look.colour), ("fill-opacity", &0.55), ("stroke", &look.colour), ("stroke-width", &0.75)];
    svg.leaf("rect", &[place, colours].concat());
}

/// M and L commands through the points; a single point is a dot of no length, which round ends make visible.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let points: Vec<String> = points.map(|(x, y)| format!("{} {}", number(x), number(y))).collect();
    match points.as_slice() {
        [] => String::new(),
        [only] => format!("M{only}L{only}"),
        several => format!("M{}", several.join("L")),
    }
}

/// A circle, a square, a triangle, a diamond, or a triangle on its head, of about equal area.
fn marker((x, y): (f64, f64), shape: usize) -> String {
    let r = RADIUS;
    let corners: &[(f64, f64)] = match shape % 5 {
        0 => {
            return format!(
                "M{} {}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 -{} 0Z",
                number(x - r),
                number(y),
                2.0 * r,
                2.0 * r
            );
        }
        1 => &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
        2 => &[(0.0, -1.25), (1.15, 0.8), (-1.15, 0.8)],
        3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        _ => &[(0.0, 1.25), (1.15, -0.8), (-1.15, -0.8)],
    };
    path(corners.iter().map(|(dx, dy)| (x + dx * r, y + dy * r))) + "Z"
}
