//! What a chart shows: lines, markers, bars, bands and reference lines; and how very long series are thinned.

use super::axis::Span;

/// Longer series are thinned.
const MAX_POINTS: usize = 2000;
/// Half of which as columns leave room for the least and the greatest of each.
const COLUMNS: f64 = 1000.0;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mark {
    Line,
    LineMarkers,
    #[cfg_attr(not(test), expect(dead_code, reason = "no chart is of single points yet"))]
    Markers,
    /// From zero (on a logarithmic axis from its low end), this wide on the x axis.
    Bars {
        width: f64,
    },
    /// Shaded between two lines, in the colour of the series that follows.
    Band,
    /// y = x, dashed.
    Diagonal,
    /// A dashed line at one y.
    Level,
    /// A dashed line at one x.
    Upright,
    /// Shaded from the first x to the last, over the whole height.
    Phase,
}

/// One point; what has no second y has it twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Datum {
    pub(crate) x: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// One thing to draw. Without a name it is not in the legend.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) mark: Mark,
    pub(crate) data: Vec<Datum>,
    pub(crate) colour: Option<usize>,
    pub(crate) dash: Option<usize>,
    /// What a page that holds the picture knows it by.
    pub(crate) tag: Option<String>,
}

impl Series {
    /// A series of points. Lines are broken where a point cannot be drawn.
    pub(crate) fn new(name: impl Into<String>, mark: Mark, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let data = points.into_iter().map(|(x, y)| Datum { x, low: y, high: y }).collect();
        Self { name: name.into(), mark, data, colour: None, dash: None, tag: None }
    }

    /// A line through the values, at 1, 2, 3, …
    pub(crate) fn ranked(name: impl Into<String>, values: &[f64]) -> Self {
        Self::new(name, Mark::Line, values.iter().enumerate().map(|(index, value)| (index as f64 + 1.0, *value)))
    }

    /// A band of points (x, lower, upper).
    #[cfg_attr(not(test), expect(dead_code, reason = "no chart has bands yet"))]
    pub(crate) fn band(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        let data = points.into_iter().map(|(x, low, high)| Datum { x, low, high }).collect();
        Self { data, ..Self::new(name, Mark::Band, []) }
    }

    pub(crate) fn diagonal(name: impl Into<String>) -> Self {
        Self::new(name, Mark::Diagonal, [])
    }

    /// A dashed line at one y.
    pub(crate) fn level(name: impl Into<String>, y: f64) -> Self {
        Self { data: vec![Datum { x: f64::NAN, low: y, high: y }], ..Self::new(name, Mark::Level, []) }
    }

    /// A dashed line at one x.
    pub(crate) fn upright(name: impl Into<String>, x: f64) -> Self {
        Self { data: vec![Datum { x, low: f64::NAN, high: f64::NAN }], ..Self::new(name, Mark::Upright, []) }
    }

    /// Shaded between two x.
    pub(crate) fn phase(name: impl Into<String>, from: f64, to: f64) -> Self {
        let data = [from, to].map(|x| Datum { x, low: f64::NAN, high: f64::NAN }).to_vec();
        Self { data, ..Self::new(name, Mark::Phase, []) }
    }

    /// The colour of the chart's series of this index, instead of its own.
    pub(crate) fn with_colour(self, index: usize) -> Self {
        Self { colour: Some(index), ..self }
    }

    /// The dash and the marker of the chart's series of this index, instead of its own.
    pub(crate) fn with_dash(self, index: usize) -> Self {
        Self { dash: Some(index), ..self }
    }

    /// What a page that holds the picture knows it by.
    pub(crate) fn with_tag(self, tag: impl Into<String>) -> Self {
        Self { tag: Some(tag.into()), ..self }
    }

    /// Whether it only helps to read the others.
    pub(crate) fn is_reference(&self) -> bool {
        matches!(self.mark, Mark::Diagonal | Mark::Level | Mark::Upright)
    }
}

/// A point on the plot, in fractions of its width and height. Points of different runs have one between them that could
/// not be drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) x: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) run: usize,
}

/// The points that can be drawn, at most about 2,000.
pub(super) fn spots(data: &[Datum], x: &Span, y: &Span) -> Vec<Spot> {
    let (mut found, mut run) = (Vec::new(), 0);
    for datum in data {
        match (x.place(datum.x), y.place(datum.low), y.place(datum.high)) {
            (Some(x), Some(low), Some(high)) => found.push(Spot { x, low, high, run }),
            _ => run += 1,
        }
    }
    if found.len() > MAX_POINTS { thinned(&found) } else { found }
}

/// The lowest and the highest point of each narrow column, in their order, so that what is seen stays as it is. Where x
/// goes back and forth there are no columns, and equal stretches of the series take their place.
fn thinned(spots: &[Spot]) -> Vec<Spot> {
    let is_ordered = spots.windows(2).all(|pair| pair[0].x <= pair[1].x);
    let column = |index: usize, spot: &Spot| match is_ordered {
        true => (spot.x * COLUMNS).clamp(-1.0, COLUMNS + 1.0).floor() as i64,
        false => (index as f64 / spots.len() as f64 * COLUMNS) as i64,
    };
    let columns: Vec<(i64, Spot)> =
        spots.iter().enumerate().map(|(index, spot)| (column(index, spot), *spot)).collect();
    columns.chunk_by(|one, next| one.0 == next.0).flat_map(extremes).collect()
}

/// The lowest and the highest of some points, in their order; one of them if they are the same.
fn extremes(column: &[(i64, Spot)]) -> impl Iterator<Item = Spot> + use<> {
    let indexed = || column.iter().map(|(_, spot)| spot).enumerate();
    let lowest = indexed().min_by(|one, other| one.1.low.total_cmp(&other.1.low)).map(|(index, _)| index);
    let highest = indexed().max_by(|one, other| one.1.high.total_cmp(&other.1.high)).map(|(index, _)| index);
    let (first, last) = (lowest.min(highest), lowest.max(highest).filter(|_| lowest != highest));
    let kept: Vec<Spot> = [first, last].into_iter().flatten().filter_map(|index| Some(column.get(index)?.1)).collect();
    kept.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::axis::Scale;

    fn unit() -> Span {
        Span::exact(Scale::Linear, 0.0, 1.0)
    }

    fn line(points: impl IntoIterator<Item = (f64, f64)>) -> Vec<Spot> {
        spots(&Series::new("", Mark::Line, points).data, &unit(), &unit())
    }

    #[test]
    fn thinning_keeps_the_extremes_of_every_column() {
        let height = |index: usize| 0.5 + 0.3 * ((index * 7919 % 1009) as f64 / 1009.0 - 0.5);
        let point = |index: usize| (index as f64 / 1e5, if index == 77_777 { 0.99 } else { height(index) });
        let all: Vec<(f64, f64)> = (0..100_000).map(point).collect();
        let kept = line(all.iter().copied());
        assert!((1000..=MAX_POINTS).contains(&kept.len()), "{}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[0].x < pair[1].x), "in their order");
        assert!(kept.iter().any(|spot| spot.high == 0.99), "the one spike");
        assert_eq!(reaches(kept.iter().map(|spot| (spot.x, spot.high))), reaches(all.into_iter()));
    }

    /// The least and the greatest of each column.
    fn reaches(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
        let mut reaches = vec![(f64::INFINITY, f64::NEG_INFINITY); 1000];
        for (x, y) in points {
            let (low, high) = reaches[(x * 1000.0) as usize];
            reaches[(x * 1000.0) as usize] = (y.min(low), y.max(high));
        }
        reaches
    }

    #[test]
    fn short_series_are_not_thinned() {
        assert_eq!(line((0..2000).map(|index| (0.5, f64::from(index) / 2000.0))).len(), 2000);
    }

    #[test]
    fn a_long_walk_back_and_forth_is_thinned_too() {
        let circle = |index: i32| (0.5 + 0.4 * f64::from(index).cos(), 0.5 + 0.4 * f64::from(index).sin());
        let kept = line((0..50_000).map(circle));
        assert!((1000..=MAX_POINTS).contains(&kept.len()), "{}", kept.len());
    }

    #[test]
    fn values_that_cannot_be_drawn_break_the_line_and_nothing_else() {
        let nan = f64::NAN;
        let kept =
            line([(0.0, 0.1), (nan, 0.2), (0.2, f64::INFINITY), (0.3, 0.4), (0.4, 0.5), (0.5, f64::NEG_INFINITY)]);
        assert_eq!(kept.iter().map(|spot| spot.high).collect::<Vec<_>>(), [0.1, 0.4, 0.5]);
        assert!(kept[0].run != kept[1].run && kept[1].run == kept[2].run);
        let holes = line((0..100_000).map(|index| (f64::from(index) / 1e5, if index % 2 == 0 { nan } else { 0.5 })));
        assert!((1000..=MAX_POINTS).contains(&holes.len()), "{}", holes.len());
        let log = Span::exact(Scale::Log, 0.0, 1.0);
        let data = Series::new("", Mark::Line, [(1.0, 0.0), (2.0, -1.0), (3.0, 5.0)]).data;
        assert_eq!(spots(&data, &log, &log).len(), 1);
    }

    #[test]
    fn a_thinned_band_keeps_its_widest_reach() {
        let band =
            Series::band("", (0..10_000).map(|index| (f64::from(index) / 1e4, 0.2, 0.4 + 0.1 * f64::from(index % 7))));
        let kept = spots(&band.data, &unit(), &unit());
        assert!(kept.len() <= MAX_POINTS && kept.iter().filter(|spot| spot.high == 1.0).count() >= 999);
    }
}
