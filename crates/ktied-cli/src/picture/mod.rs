//! The drawing room: charts and heat maps as SVG, and the same picture as PNG.

mod average;
mod axis;
mod chart;
mod colour;
mod font;
mod heat;
mod image;
mod layout;
mod legend;
mod marks;
mod pixels;
mod raster;
mod series;
mod svg;
mod ticks;

use std::path::{Path, PathBuf};

use ktied::checkpoint::write_file;

pub(crate) use self::{
    axis::{Axis, Scale},
    chart::Chart,
    colour::{dash, rules, series as series_colour},
    heat::HeatMap,
    image::{base64, data_uri},
    pixels::{Grid as Cells, colour_bar, photo},
    series::{Mark, Series},
    svg::entity,
};

use self::colour::TEXT;
use self::font::{FAMILIES, LINE};
use self::layout::{FIGURE_SIZE, Frame, Placed};
use self::svg::{Anchor, Svg, number};
use crate::exit::Failure;

/// One picture: panels in a grid under a title.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) title: String,
    pub(crate) panels: Vec<Panel>,
    /// Panels side by side, at least one.
    pub(crate) columns: usize,
}

/// One part of a picture.
#[derive(Clone, Debug)]
pub(crate) enum Panel {
    Chart(Chart),
    Heat(HeatMap),
}

/// How a document begins: the figure, its panels, and its size.
type Begin = fn(&Figure, &mut Svg, &[Box<dyn Placed + '_>], f64, f64);

/// Room around the figure, and between its panels.
const MARGIN: f64 = 16.0;
const INLINE_MARGIN: f64 = 3.0;
const GAP: f64 = 26.0;
/// Narrower figures would have no room for a title.
const MIN_WIDTH: f64 = 200.0;

impl Figure {
    /// The picture as an SVG document, the same bytes for the same figure.
    pub(crate) fn to_svg(&self) -> String {
        self.draw(Svg::default(), MARGIN, Self::begin)
    }

    /// The picture as an element of a page, which has its own colours and titles.
    pub(crate) fn to_inline(&self) -> String {
        self.draw(Svg::without_titles(), INLINE_MARGIN, Self::begin_inline)
    }

    /// The PNG of [`to_svg`](Self::to_svg), twice as large.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>, String> {
        raster::png(&self.to_svg())
    }

    fn draw(&self, mut svg: Svg, margin: f64, begin: Begin) -> String {
        let placed: Vec<Box<dyn Placed + '_>> = self.panels.iter().map(Panel::place).collect();
        let grid = Grid::new(&placed, self.columns.max(1));
        let width = (grid.width() + 2.0 * margin).max(MIN_WIDTH).ceil();
        let title = font::wrap(&self.title, FIGURE_SIZE, width - 2.0 * margin);
        let title_height = title.len() as f64 * FIGURE_SIZE * LINE + if title.is_empty() { 0.0 } else { 8.0 };
        let top = (margin + title_height).ceil();
        begin(self, &mut svg, &placed, width, (top + grid.height() + margin).ceil());
        for (index, line) in title.iter().enumerate() {
            svg.label((margin, margin + (index as f64 * LINE + 0.9) * FIGURE_SIZE), FIGURE_SIZE, Anchor::Start, line);
        }
        for (index, panel) in placed.iter().enumerate() {
            let (left, plot_top) = grid.corner(index);
            panel.draw(&mut svg, margin + left, top + plot_top);
        }
        svg.finish()
    }

    /// What comes before the panels: size, font, words for those who cannot see it, and a white background.
    fn begin(&self, svg: &mut Svg, placed: &[Box<dyn Placed + '_>], width: f64, height: f64) {
        let view = format!("0 0 {} {}", number(width), number(height));
        svg.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("width", &width),
                ("height", &height),
                ("viewBox", &view),
                ("role", &"img"),
                ("font-family", &FAMILIES),
                ("fill", &TEXT),
            ],
        );
        let title = if self.title.is_empty() { "A picture" } else { &self.title };
        svg.title(title);
        let panels: Vec<String> = placed.iter().map(|panel| panel.describe()).collect();
        svg.words("desc", &[], &panels.join(" "));
        svg.leaf("rect", &[("width", &width), ("height", &height), ("fill", &"#FFFFFF")]);
    }

    /// As wide as the page lets it be. The words are the page's.
    fn begin_inline(&self, svg: &mut Svg, placed: &[Box<dyn Placed + '_>], width: f64, height: f64) {
        let view = format!("0 0 {} {}", number(width), number(height));
        let panels: Vec<String> = placed.iter().map(|panel| panel.describe()).collect();
        svg.open("svg", &[("viewBox", &view), ("role", &"img"), ("aria-label", &panels.join(" ")), ("fill", &TEXT)]);
    }

    /// Writes `stem.svg` and `stem.png`, the latter twice as large; each file is whole or not there.
    ///
    /// # Errors
    /// If the file system refuses.
    pub(crate) fn write(&self, stem: &Path) -> Result<[PathBuf; 2], Failure> {
        let svg = self.to_svg();
        let paths = ["svg", "png"].map(|extension| stem.with_added_extension(extension));
        let png = self.to_png().map_err(|reason| Failure::Picture { path: paths[1].clone(), reason })?;
        write_file(&paths[0], svg.as_bytes())?;
        write_file(&paths[1], &png)?;
        Ok(paths)
    }
}

impl Panel {
    fn place(&self) -> Box<dyn Placed + '_> {
        match self {
            Self::Chart(chart) => Box::new(chart.place()),
            Self::Heat(map) => Box::new(map.place()),
        }
    }
}

/// Columns and rows, each with margins that suit all of its panels, so that plots line up.
struct Grid {
    columns: Vec<Frame>,
    rows: Vec<Frame>,
}

impl Grid {
    fn new(placed: &[Box<dyn Placed + '_>], num_columns: usize) -> Self {
        let frames: Vec<Frame> = placed.iter().map(|panel| panel.frame()).collect();
        let union = |frames: &mut dyn Iterator<Item = &Frame>| frames.copied().fold(Frame::default(), Frame::union);
        let columns = 0..num_columns.min(frames.len());
        Self {
            columns: columns.map(|column| union(&mut frames.iter().skip(column).step_by(num_columns))).collect(),
            rows: frames.chunks(num_columns).map(|row| union(&mut row.iter())).collect(),
        }
    }

    fn width(&self) -> f64 {
        sum_with_gaps(self.columns.iter().map(Frame::outer_width))
    }

    fn height(&self) -> f64 {
        sum_with_gaps(self.rows.iter().map(Frame::outer_height))
    }

    /// The upper left corner of a panel's plot. Plots begin where their column's and their row's do; whole numbers keep
    /// images on the PNG's pixels.
    fn corner(&self, index: usize) -> (f64, f64) {
        let (row, column) = (index / self.columns.len().max(1), index % self.columns.len().max(1));
        let before = |sizes: f64, count: usize| sizes + count as f64 * GAP;
        let left = before(self.columns.iter().take(column).map(Frame::outer_width).sum(), column);
        let top = before(self.rows.iter().take(row).map(Frame::outer_height).sum(), row);
        let margin = |frame: Option<&Frame>| frame.map_or((0.0, 0.0), |frame| (frame.left, frame.top));
        ((left + margin(self.columns.get(column)).0).round(), (top + margin(self.rows.get(row)).1).round())
    }
}

/// Sizes side by side.
fn sum_with_gaps(sizes: impl ExactSizeIterator<Item = f64>) -> f64 {
    let gaps = sizes.len().saturating_sub(1) as f64 * GAP;
    sizes.sum::<f64>() + gaps
}

#[cfg(test)]
mod tests;
