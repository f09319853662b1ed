//! The legend of a chart: its named series in lines under the title, where no data are.

use super::font::{self, LINE};
use super::marks::{Look, sample};
use super::series::Series;
use super::svg::{Anchor, Svg};

const SIZE: f64 = 11.0;
/// Length of the sample before a name, and the gaps after it and after the name.
const SAMPLE: f64 = 24.0;
const GAPS: (f64, f64) = (5.0, 16.0);

/// Named series at their places.
#[derive(Debug)]
pub(super) struct Legend<'a> {
    entries: Vec<Entry<'a>>,
    num_lines: usize,
}

#[derive(Debug)]
struct Entry<'a> {
    series: &'a Series,
    look: Look,
    text: String,
    left: f64,
    line: usize,
}

impl<'a> Legend<'a> {
    /// Places names side by side as long as there is room; nothing if there is only one name, or none.
    pub(super) fn new(series: &[(&'a Series, Look)], room: f64) -> Self {
        let named: Vec<&(&Series, Look)> = series.iter().filter(|(series, _)| !series.name.trim().is_empty()).collect();
        let (mut entries, mut left, mut line) = (Vec::new(), 0.0, 0);
        for (series, look) in named.into_iter().copied() {
            let text = font::shorten(&series.name, SIZE, room - SAMPLE - GAPS.0);
            let width = SAMPLE + GAPS.0 + font::width(&text, SIZE);
            if left > 0.0 && left + width > room {
                (left, line) = (0.0, line + 1);
            }
            entries.push(Entry { series, look, text, left, line });
            left += width + GAPS.1;
        }
        match entries.len() {
            0 | 1 => Self { entries: Vec::new(), num_lines: 0 },
            _ => Self { entries, num_lines: line + 1 },
        }
    }

    pub(super) fn height(&self) -> f64 {
        self.num_lines as f64 * SIZE * (LINE + 0.1)
    }

    /// Draws it, its upper left corner at (`left`, `top`).
    pub(super) fn draw(&self, svg: &mut Svg, left: f64, top: f64) {
        for entry in &self.entries {
            let (x, y) = (left + entry.left, top + (entry.line as f64 + 0.5) * SIZE * (LINE + 0.1));
            sample(svg, entry.series, entry.look, (x, y), SAMPLE);
            svg.label((x + SAMPLE + GAPS.0, y + 0.36 * SIZE), SIZE, Anchor::Start, &entry.text);
        }
    }
}
