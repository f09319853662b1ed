//! Axes: what they say, how far they reach, and where on them a value is.

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// Powers of ten at equal distances. Values that are not positive are left out.
    Log,
}

/// One axis of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) scale: Scale,
    /// From the data if there is none, or if it is none that the scale can show.
    pub(crate) range: Option<(f64, f64)>,
}

impl Axis {
    pub(crate) fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, range: None }
    }

    pub(crate) fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, range: None }
    }

    /// Shows exactly this much; lines are cut at its ends.
    pub(crate) fn with_range(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }
}

/// Larger numbers would overflow when they are subtracted.
const LARGEST: f64 = 1e300;
/// Narrower ranges are widened: their ticks could not be told apart. Relative to the larger end, and absolute.
const NARROWEST: (f64, f64) = (1e-9, 1e-280);
/// What is left free beyond the data, as a fraction of their range.
const PADDING: f64 = 0.04;
/// Values beyond the ends are placed no further away than so many lengths of the axis.
const FURTHEST: f64 = 100.0;

impl Scale {
    /// The number whose distance to others is drawn: the value or its logarithm; none if it cannot be drawn.
    pub(super) fn of(self, value: f64) -> Option<f64> {
        match self {
            Self::Linear => Some(value).filter(|value| value.abs() <= LARGEST),
            Self::Log => Some(value.log10()).filter(|log| log.is_finite()),
        }
    }
}

/// Where the room beyond the data ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    /// The same on both sides, so that nothing is drawn on the other axis.
    Everywhere,
    /// At zero, if the data do not go beyond it, so that heights can be compared.
    UpToZero,
}

/// An axis that has its range, `low` < `high`, in numbers of [`Scale::of`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Span {
    /// The axis' own range, or the data's with `padding` beyond their ends; 0 to 1 (1 to 10) if there are none.
    pub(super) fn of(axis: &Axis, padding: Padding, values: impl Iterator<Item = f64>) -> Self {
        match fixed(axis) {
            Some((low, high)) => Self::exact(axis.scale, low, high),
            None => match extent(values.filter_map(|value| axis.scale.of(value))) {
                Some((low, high)) => Self::exact(axis.scale, low, high).padded(padding),
                None => Self { scale: axis.scale, low: 0.0, high: 1.0 },
            },
        }
    }

    /// Exactly this range, unless it is too narrow.
    pub(super) fn exact(scale: Scale, low: f64, high: f64) -> Self {
        let largest = low.abs().max(high.abs());
        if high - low > (NARROWEST.0 * largest).max(NARROWEST.1) {
            return Self { scale, low, high };
        }
        let half = match scale {
            Scale::Log => 0.5,
            Scale::Linear if largest <= NARROWEST.1 => 1.0,
            Scale::Linear => 0.1 * largest,
        };
        Self { scale, low: low - half, high: high + half }
    }

    fn padded(self, padding: Padding) -> Self {
        let room = PADDING * (self.high - self.low);
        let (low, high) = (self.low - room, self.high + room);
        match (padding, self.scale) {
            (Padding::UpToZero, Scale::Linear) if self.low >= 0.0 => Self { low: low.max(0.0), high, ..self },
            (Padding::UpToZero, Scale::Linear) if self.high <= 0.0 => Self { low, high: high.min(0.0), ..self },
            _ => Self { low, high, ..self },
        }
    }

    /// Where a value is: 0 at the low end, 1 at the high one; none if it cannot be drawn.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        self.scale.of(value).map(|value| self.fraction(value))
    }

    /// Where a number of the scale is.
    pub(super) fn fraction(&self, scaled: f64) -> f64 {
        ((scaled - self.low) / (self.high - self.low)).clamp(-FURTHEST, FURTHEST)
    }

    /// The value at a fraction of the length.
    pub(super) fn value(&self, fraction: f64) -> f64 {
        let scaled = self.low + fraction * (self.high - self.low);
        match self.scale {
            Scale::Linear => scaled,
            Scale::Log => 10f64.powf(scaled),
        }
    }
}

/// The range that the axis asks for, in order, if its scale can show it.
fn fixed(axis: &Axis) -> Option<(f64, f64)> {
    let (one, other) = axis.range?;
    let (one, other) = (axis.scale.of(one)?, axis.scale.of(other)?);
    Some((one.min(other), one.max(other)))
}

/// The smallest and the largest of the finite numbers.
pub(super) fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |found, value| {
        let (low, high) = found.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

    fn span(axis: &Axis, values: &[f64]) -> Span {
        Span::of(axis, Padding::UpToZero, values.iter().copied())
    }

    #[test]
    fn the_range_is_a_little_more_than_the_data() {
        let found = span(&Axis::linear("x"), &[-10.0, 10.0]);
        assert_eq!((found.low, found.high), (-10.8, 10.8));
        let found = span(&Axis::log("x"), &[1e-3, 1e2]);
        assert!((found.low + 3.2).abs() < 1e-12 && (found.high - 2.2).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn nothing_negative_is_shown_where_nothing_is_negative() {
        assert_eq!(span(&Axis::linear("x"), &[0.0, 5.0]).low, 0.0);
        assert_eq!(span(&Axis::linear("x"), &[-5.0, 0.0]).high, 0.0);
        assert_eq!(Span::of(&Axis::linear("x"), Padding::Everywhere, [0.0, 5.0].into_iter()).low, -0.2);
    }

    #[test]
    fn a_range_without_width_is_widened_around_its_value() {
        for value in [0.0, 1.0, -3.0, 1e-12, 1e9, -1e299, 1e-300, 5e-324] {
            let found = span(&Axis::linear("x"), &[value]);
            assert!(found.low < found.high && found.low <= value && value <= found.high, "{value}: {found:?}");
        }
        let found = span(&Axis::log("x"), &[100.0, 100.0]);
        assert!(found.low < 2.0 && found.high > 2.0, "{found:?}");
        let close = span(&Axis::linear("x"), &[1e9, 1e9 + 1e-3]);
        assert!(close.high - close.low > 1e8, "{close:?}");
    }

    #[test]
    fn values_that_cannot_be_drawn_are_left_out() {
        let values = [ODD.as_slice(), &[1.0, 3.0, f64::MAX]].concat();
        assert_eq!(span(&Axis::linear("x"), &values), span(&Axis::linear("x"), &[1.0, 3.0]));
        let values = [ODD.as_slice(), &[0.0, -1.0, 1.0, 100.0]].concat();
        assert_eq!(span(&Axis::log("x"), &values), span(&Axis::log("x"), &[1.0, 100.0]));
        let none = span(&Axis::linear("x"), &ODD);
        assert_eq!((none.low, none.high), (0.0, 1.0));
        assert!(ODD.iter().all(|value| none.place(*value).is_none()));
    }

    #[test]
    fn a_fixed_range_is_kept_and_one_that_makes_no_sense_is_not() {
        let found = span(&Axis::linear("x").with_range(1.0, 0.0), &[5.0]);
        assert_eq!((found.low, found.high), (0.0, 1.0), "in order");
        assert_eq!(found.place(0.25), Some(0.25));
        assert_eq!(found.place(-1.0), Some(-1.0), "outside");
        let found = span(&Axis::log("x").with_range(0.0, 10.0), &[1.0, 100.0]);
        assert_eq!(found, span(&Axis::log("x"), &[1.0, 100.0]));
        let found = span(&Axis::linear("x").with_range(f64::NAN, 10.0), &[1.0, 2.0]);
        assert_eq!(found, span(&Axis::linear("x"), &[1.0, 2.0]));
    }

    #[test]
    fn places_and_values_are_each_others_inverse() {
        for span in [Span::exact(Scale::Linear, -2.0, 6.0), Span::exact(Scale::Log, -3.0, 2.0)] {
            for fraction in [0.0, 0.2, 0.5, 1.0] {
                let back = span.place(span.value(fraction)).expect("can be drawn");
                assert!((back - fraction).abs() < 1e-12, "{span:?}: {fraction} became {back}");
            }
        }
        assert_eq!(Span::exact(Scale::Log, -2.0, 2.0).place(1.0), Some(0.5));
    }
}
