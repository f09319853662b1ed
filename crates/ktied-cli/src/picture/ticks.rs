//! Ticks at round values, and what they say: 1-2-5 on linear axes, powers of ten on logarithmic ones.

use super::axis::{Scale, Span};
use super::font;
use crate::table::grouped;

/// A mark on an axis; those without a label are shorter and have no line across the chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Where it is: 0 at the low end, 1 at the high one.
    pub(super) place: f64,
    pub(super) label: Option<String>,
}

/// A number as it is printed, digits · 10^exponent, so that no rounding can spoil its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: i64,
    exponent: i32,
}

/// From here on numbers are written with a power of ten.
const LARGE: f64 = 1e7;
/// Numbers with more decimals are written with a power of ten.
const MAX_DECIMALS: i32 = 4;
/// From one labelled power of ten to the next.
const STRIDES: [i32; 9] = [1, 2, 3, 5, 10, 20, 50, 100, 200];
/// More powers of ten are not all marked.
const MAX_DECADES: i32 = 40;
/// Room for rounding at the ends, in steps.
const SLACK: f64 = 1e-6;

/// About `count` labelled ticks, at least 1, and on logarithmic axes smaller ones between them.
pub(super) fn ticks(span: &Span, count: usize) -> Vec<Tick> {
    match span.scale {
        Scale::Linear => label_all(span, &round_values(span.low, span.high, count)),
        Scale::Log => log_ticks(span, count),
    }
}

/// As many ticks, but no more than `most`, as have room for their labels side by side on `length`.
pub(super) fn ticks_that_fit(span: &Span, most: usize, length: f64, size: f64) -> Vec<Tick> {
    let mut candidates = (1..=most).rev().map(|count| ticks(span, count));
    candidates.clone().find(|ticks| fits(ticks, length, size)).or_else(|| candidates.next_back()).unwrap_or_default()
}

/// Whether half a digit's space is left between neighbours.
fn fits(ticks: &[Tick], length: f64, size: f64) -> bool {
    let labelled = ticks.iter().filter_map(|tick| Some((tick.place * length, font::width(tick.label.as_ref()?, size))));
    let labelled: Vec<(f64, f64)> = labelled.collect();
    labelled.windows(2).all(|pair| pair[1].0 - pair[0].0 >= (pair[0].1 + pair[1].1) / 2.0 + 0.8 * size)
}

/// Multiples of 1, 2 or 5 times a power of ten within the range, of the step that gives nearest to `count`.
fn round_values(low: f64, high: f64, count: usize) -> Vec<Decimal> {
    let wanted = (high - low) / count.max(1) as f64;
    let exponent = wanted.log10().floor() as i32;
    let (factor, exponent) = match wanted / power(1, exponent) {
        // Halfway between neighbours, as ratios: √(1·2), √(2·5), √(5·10).
        ratio if ratio < 2f64.sqrt() => (1, exponent),
        ratio if ratio < 10f64.sqrt() => (2, exponent),
        ratio if ratio < 50f64.sqrt() => (5, exponent),
        _ => (1, exponent + 1),
    };
    let step = power(factor, exponent);
    let (first, last) = ((low / step - SLACK).ceil() as i64, (high / step + SLACK).floor() as i64);
    (first..=last).map(|index| Decimal { digits: index * factor, exponent }).collect()
}

fn power(factor: i64, exponent: i32) -> f64 {
    Decimal { digits: factor, exponent }.value()
}

/// Ticks with labels in one style: plain, or all with the same power of ten if some are very large or very small.
fn label_all(span: &Span, values: &[Decimal]) -> Vec<Tick> {
    let largest = values.iter().map(|decimal| decimal.value().abs()).fold(0.0, f64::max);
    let plain = largest < LARGE && values.iter().all(|decimal| decimal.exponent >= -MAX_DECIMALS);
    let common = largest.log10().floor() as i32;
    let label = |decimal: &Decimal| if plain { decimal.plain() } else { decimal.scientific(common) };
    values
        .iter()
        .filter_map(|decimal| Some(Tick { place: span.place(decimal.value())?, label: Some(label(decimal)) }))
        .collect()
}

/// Powers of ten if there are three; else 1, 2 and 5 times one if that gives neither too few nor too many; else the two
/// powers that there are, or what a linear axis has.
fn log_ticks(span: &Span, count: usize) -> Vec<Tick> {
    let (first, last) = ((span.low - SLACK).ceil() as i32, (span.high + SLACK).floor() as i32);
    let few = || multiples(span).map(|decimal| small(span, decimal)).collect::<Vec<Tick>>();
    let num_labels = |ticks: &[Tick]| ticks.iter().filter(|tick| tick.label.is_some()).count();
    match last - first {
        2.. => decades(span, first, last, count),
        _ if (2..=count + 1).contains(&num_labels(&few())) => few(),
        1 => decades(span, first, last, count),
        _ => label_all(span, &round_values(span.value(0.0), span.value(1.0), count)),
    }
}

/// Every power of ten, or every second, third, … with a label; the others, or their multiples, without.
fn decades(span: &Span, first: i32, last: i32, count: usize) -> Vec<Tick> {
    let least = ((last - first + 1) as usize).div_ceil(count.max(1)) as i32;
    let every = STRIDES.into_iter().find(|stride| *stride >= least).unwrap_or(least);
    let label = |exponent: i32| (exponent.rem_euclid(every) == 0).then(|| format!("10{}", superscript(exponent)));
    let powers = (first..=last).map(|exponent| Tick { place: span.fraction(exponent.into()), label: label(exponent) });
    let powers = powers.filter(|tick| last - first < MAX_DECADES || tick.label.is_some());
    let between = multiples(span).filter(|decimal| every == 1 && decimal.digits > 1);
    powers.chain(between.map(|decimal| Tick { label: None, ..small(span, decimal) })).collect()
}

/// 1 to 9 times every power of ten that are within the range.
fn multiples(span: &Span) -> impl Iterator<Item = Decimal> {
    let (low, high) = (span.low - SLACK, span.high + SLACK);
    let all = (low.floor() as i32..=high.floor() as i32)
        .flat_map(|exponent| (1..=9).map(move |digits| Decimal { digits, exponent }));
    all.filter(move |decimal| {
        let log = (decimal.digits as f64).log10() + f64::from(decimal.exponent);
        low <= log && log <= high
    })
}

/// A tick at a multiple of a power of ten, labelled if it is 1, 2 or 5.
fn small(span: &Span, decimal: Decimal) -> Tick {
    let place = span.fraction((decimal.digits as f64).log10() + f64::from(decimal.exponent));
    let plain = (-MAX_DECIMALS..MAX_DECIMALS).contains(&decimal.exponent);
    let label = || if plain { decimal.plain() } else { decimal.scientific(decimal.exponent) };
    Tick { place, label: matches!(decimal.digits, 1 | 2 | 5).then(label) }
}

impl Decimal {
    fn value(self) -> f64 {
        // Dividing by a power of ten that is exact rounds once; multiplying by its inverse rounds twice.
        match self.exponent {
            0.. => self.digits as f64 * 10f64.powi(self.exponent),
            _ => self.digits as f64 / 10f64.powi(-self.exponent),
        }
    }

    /// 1,500 or 0.25, with a real minus sign.
    fn plain(self) -> String {
        let places = usize::try_from(-self.exponent).unwrap_or(0);
        let sign = if self.digits < 0 { "−" } else { "" };
        let digits =
            format!("{:0>1$}", self.digits.unsigned_abs(), places + 1) + &"0".repeat(self.exponent.max(0) as usize);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let whole = whole.parse().map_or_else(|_| whole.to_string(), grouped);
        if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }

    /// 1.5×10⁷ for a given power of ten.
    fn scientific(self, power: i32) -> String {
        match self.digits {
            0 => "0".into(),
            digits => format!("{}×10{}", Self { digits, exponent: self.exponent - power }.plain(), superscript(power)),
        }
    }
}

/// −12 as ⁻¹².
fn superscript(exponent: i32) -> String {
    let digit = |character| match character {
        '-' => '⁻',
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        _ => '⁹',
    };
    exponent.to_string().chars().map(digit).collect()
}

/// A value for a sentence, with three digits that count: 1,230, 0.031 or 2.5×10⁻⁷.
pub(super) fn spoken(value: f64) -> String {
    if !(1e-290..=1e300).contains(&value.abs()) {
        return "0".into();
    }
    let power = value.abs().log10().floor() as i32;
    let scale = 10f64.powi((2 - power).abs());
    let digits = if power <= 2 { value * scale } else { value / scale };
    let mut short = Decimal { digits: digits.round() as i64, exponent: power - 2 };
    while short.digits % 10 == 0 {
        short = Decimal { digits: short.digits / 10, exponent: short.exponent + 1 };
    }
    if (-MAX_DECIMALS..7).contains(&power) { short.plain() } else { short.scientific(power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(span: Span, count: usize) -> Vec<String> {
        ticks(&span, count).into_iter().filter_map(|tick| tick.label).collect()
    }

    fn linear(low: f64, high: f64) -> Vec<String> {
        labels(Span::exact(Scale::Linear, low, high), 5)
    }

    fn log(low: f64, high: f64) -> Vec<String> {
        labels(Span::exact(Scale::Log, low.log10(), high.log10()), 6)
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(linear(0.0, 1.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(linear(-1.0, 1.3), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(linear(0.0, 400.0), ["0", "100", "200", "300", "400"]);
        assert_eq!(linear(-3e4, -1e4), ["−30,000", "−25,000", "−20,000", "−15,000", "−10,000"]);
        assert_eq!(linear(0.0, 5e6), ["0", "1,000,000", "2,000,000", "3,000,000", "4,000,000", "5,000,000"]);
        assert_eq!(linear(0.97, 0.983), ["0.970", "0.972", "0.974", "0.976", "0.978", "0.980", "0.982"]);
    }

    #[test]
    fn very_large_and_very_small_numbers_have_powers_of_ten() {
        assert_eq!(linear(0.0, 1e9), ["0", "0.2×10⁹", "0.4×10⁹", "0.6×10⁹", "0.8×10⁹", "1.0×10⁹"]);
        assert_eq!(linear(0.0, 4e-12), ["0", "1×10⁻¹²", "2×10⁻¹²", "3×10⁻¹²", "4×10⁻¹²"]);
        assert_eq!(linear(-1e-5, 1e-5), ["−1.0×10⁻⁵", "−0.5×10⁻⁵", "0", "0.5×10⁻⁵", "1.0×10⁻⁵"]);
    }

    /// Ticks must be in the range, in order, at equal steps of 1, 2 or 5, and neither too few nor too many.
    #[test]
    fn ticks_of_any_range_are_in_it_and_evenly_spaced() {
        let widths = [1e-279, 1e-12, 3.7e-5, 0.1, 0.123, 1.0, 7.0, 99.0, 1e9, 1.1e12, 1e297];
        let starts = [0.0, -1.0, 0.5, -0.37, 12.0];
        for (width, start) in widths.iter().flat_map(|width| starts.map(|start| (*width, start))) {
            let span = Span::exact(Scale::Linear, start * width, start * width + width);
            for count in [3, 5, 8] {
                let places: Vec<f64> = ticks(&span, count).iter().map(|tick| tick.place).collect();
                assert!((1..=count * 3 / 2 + 1).contains(&places.len()), "{span:?}: {places:?}");
                assert!(places.iter().all(|place| (-1e-6..=1.0 + 1e-6).contains(place)), "{span:?}: {places:?}");
                let steps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
                assert!(steps.iter().all(|step| *step > 0.0 && (step - steps[0]).abs() < 1e-9), "{span:?}: {places:?}");
            }
        }
    }

    #[test]
    fn labels_say_where_their_ticks_are() {
        for (low, high) in [(0.0, 1.0), (-7.3, 12.9), (0.001, 0.0017), (123.0, 98_765.0)] {
            let span = Span::exact(Scale::Linear, low, high);
            for tick in ticks(&span, 5) {
                let text = tick.label.expect("labelled").replace(',', "").replace('−', "-");
                let value: f64 = text.parse().expect("a number");
                assert!((span.value(tick.place) - value).abs() < 1e-9 * high.abs().max(1.0), "{text}: {}", tick.place);
            }
        }
    }

    #[test]
    fn ranges_without_width_have_ticks_too() {
        for value in [0.0, 1.0, -2.5, 1e-12, 1e9, -1e9] {
            let found = linear(value, value);
            assert!(found.len() >= 2, "{value}: {found:?}");
            let found = log(value.abs().max(1e-300), value.abs().max(1e-300));
            assert!(!found.is_empty(), "{value}: {found:?}");
        }
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten() {
        assert_eq!(log(0.9e-3, 11.0), ["10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹"]);
        assert_eq!(log(1e-12, 1e9), ["10⁻¹⁰", "10⁻⁵", "10⁰", "10⁵"]);
        assert_eq!(log(1e-280, 1e280).len(), 5);
        assert_eq!(ticks(&Span::exact(Scale::Log, -280.0, 280.0), 6).len(), 5, "too many to mark them all");
        let all = ticks(&Span::exact(Scale::Log, -1.0, 1.0), 6);
        assert_eq!(all.len(), 3 + 16, "0.1, 1, 10 and eight between each two");
        let two = all.iter().find(|tick| (tick.place - 2f64.log10() / 2.0).abs() < 1e-12).expect("a tick at 0.2");
        assert_eq!(two.label, None);
    }

    #[test]
    fn logarithmic_axes_of_less_than_two_powers_show_numbers_between() {
        assert_eq!(log(1.5, 60.0), ["2", "5", "10", "20", "50"]);
        assert_eq!(log(1.0, 20.0), ["1", "2", "5", "10", "20"]);
        assert_eq!(labels(Span::exact(Scale::Log, 0.0, 1.4), 3), ["10⁰", "10¹"], "no room for more");
        assert_eq!(log(2e-8, 9e-8), ["2×10⁻⁸", "5×10⁻⁸"]);
        assert_eq!(log(0.31, 0.42), ["0.32", "0.34", "0.36", "0.38", "0.40", "0.42"]);
    }

    #[test]
    fn labels_side_by_side_do_not_touch() {
        let spans = [
            Span::exact(Scale::Linear, 0.0, 9.8e6),
            Span::exact(Scale::Log, 0.1, 1.9),
            Span::exact(Scale::Log, -9.0, 3.0),
        ];
        for (span, length) in spans.iter().flat_map(|span| [80.0, 150.0, 360.0].map(|length| (span, length))) {
            let found = ticks_that_fit(span, 7, length, 11.0);
            assert!(fits(&found, length, 11.0), "{span:?} on {length}: {found:?}");
            assert!(found.iter().any(|tick| tick.label.is_some()));
        }
    }

    #[test]
    fn spoken_numbers_are_short() {
        let cases = [(0.0, "0"), (f64::NAN, "0"), (784.0, "784"), (-0.031_25, "−0.0313"), (1234.5, "1,230")];
        let more = [(2.5e-7, "2.5×10⁻⁷"), (1e9, "1×10⁹"), (999.9, "1,000"), (0.1 + 0.2, "0.3"), (1e-300, "0")];
        for (value, text) in cases.into_iter().chain(more) {
            assert_eq!(spoken(value), text);
        }
    }
}
