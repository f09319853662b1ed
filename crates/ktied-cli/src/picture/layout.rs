//! What all panels share: margins around a plot, sizes of text, and titles and labels at their places.

use super::font::LINE;
use super::svg::{Anchor, Svg};

/// Sizes of text.
pub(super) const FIGURE_SIZE: f64 = 17.0;
pub(super) const TITLE_SIZE: f64 = 13.0;
pub(super) const AXIS_SIZE: f64 = 11.5;
pub(super) const TICK_SIZE: f64 = 10.5;

/// A plot and the room around it for everything that belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    /// The smallest that has room for both, side by side or one above the other.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            left: self.left.max(other.left),
            right: self.right.max(other.right),
            top: self.top.max(other.top),
            bottom: self.bottom.max(other.bottom),
            width: self.width.max(other.width),
            height: self.height.max(other.height),
        }
    }

    pub(super) fn outer_width(&self) -> f64 {
        self.left + self.width + self.right
    }

    pub(super) fn outer_height(&self) -> f64 {
        self.top + self.height + self.bottom
    }
}

/// A panel that knows its size.
pub(super) trait Placed {
    fn frame(&self) -> Frame;

    /// Draws it, the upper left corner of its plot at (`left`, `top`).
    fn draw(&self, svg: &mut Svg, left: f64, top: f64);

    /// What it shows, for those who cannot see it.
    fn describe(&self) -> String;
}

/// The lines of a title, the first one's baseline at `y`.
pub(super) fn heading(svg: &mut Svg, lines: &[String], left: f64, y: f64) {
    for (index, line) in lines.iter().enumerate() {
        svg.label((left, y + index as f64 * TITLE_SIZE * LINE), TITLE_SIZE, Anchor::Start, line);
    }
}

/// The label of an x axis below `top`.
pub(super) fn below(svg: &mut Svg, lines: &[String], middle: f64, top: f64) {
    for (index, line) in lines.iter().enumerate() {
        svg.label((middle, top + (index as f64 * LINE + 0.9) * AXIS_SIZE), AXIS_SIZE, Anchor::Middle, line);
    }
}

/// The label of a y axis, read upwards, to the right of `left`.
pub(super) fn beside(svg: &mut Svg, lines: &[String], left: f64, middle: f64) {
    for (index, line) in lines.iter().enumerate() {
        svg.upright((left + (index as f64 * LINE + 0.9) * AXIS_SIZE, middle), AXIS_SIZE, line);
    }
}
