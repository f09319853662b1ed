//! Images for a page, one pixel a cell: matrices as colours, the colours' own scale, and photographs.

use super::average::Averages;
use super::axis::{Scale, Span, extent};
use super::image::Cells;

/// How many times longer than the other a side of a matrix may look.
const MAX_ASPECT: f64 = 4.0;
/// Steps of the colour bar.
const BAR: usize = 128;

/// A matrix, averaged to few cells.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    shape: (usize, usize),
    averages: Averages,
}

impl Grid {
    /// Averages a matrix to at most `side` cells along its longer side, and as many along the other as its shape asks.
    pub(crate) fn new((num_rows, num_cols): (usize, usize), values: &[f64], side: usize) -> Self {
        let longer = num_rows.max(num_cols).max(1) as f64;
        let of = |length: usize| ((length as f64 / longer * side as f64).ceil() as usize).max(side.div_ceil(4));
        let shape = (num_rows, num_cols);
        Self { shape, averages: Averages::within(shape, values, (of(num_rows), of(num_cols))) }
    }

    /// The smallest and the largest average.
    pub(crate) fn extent(&self) -> Option<(f64, f64)> {
        extent(self.averages.values.iter().copied())
    }

    /// Rows and columns of cells, and their averages, row after row.
    pub(crate) fn cells(&self) -> ((usize, usize), &[f64]) {
        ((self.averages.num_rows, self.averages.num_cols), &self.averages.values)
    }

    /// Height over width as it should look.
    pub(crate) fn aspect(&self) -> f64 {
        (self.shape.0.max(1) as f64 / self.shape.1.max(1) as f64).clamp(1.0 / MAX_ASPECT, MAX_ASPECT)
    }

    /// The cells as colours, the first for `low` and the last for `high`.
    ///
    /// # Errors
    /// A sentence, if there are no cells.
    pub(crate) fn png(&self, (low, high): (f64, f64)) -> Result<Vec<u8>, String> {
        let span = Span::exact(Scale::Linear, low, high);
        let ((num_rows, num_cols), values) = self.cells();
        let fractions = values.iter().map(|value| span.place(*value)).collect();
        Cells { num_rows, num_cols, fractions }.png(1, 1).map_err(|error| error.to_string())
    }
}

/// The colour scale from left to right.
///
/// # Errors
/// None that can happen.
pub(crate) fn colour_bar() -> Result<Vec<u8>, String> {
    let fractions = (0..BAR).map(|step| Some(step as f64 / (BAR - 1) as f64)).collect();
    Cells { num_rows: 1, num_cols: BAR, fractions }.png(1, 1).map_err(|error| error.to_string())
}

/// A photograph of `[height, width, channels]` bytes, grey or in colours.
///
/// # Errors
/// A sentence, if there are not as many bytes, or neither one nor three channels.
pub(crate) fn photo([height, width, channels]: [usize; 3], bytes: &[u8]) -> Result<Vec<u8>, String> {
    let colour = match channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        other => return Err(format!("an image of {other} channels")),
    };
    let side = |length: usize| u32::try_from(length).map_err(|error| error.to_string());
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, side(width)?, side(height)?);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(bytes)?;
        writer.finish()
    });
    written.map_err(|error| error.to_string())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(png: &[u8]) -> (u32, u32) {
        let reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().expect("a PNG");
        (reader.info().width, reader.info().height)
    }

    #[test]
    fn a_matrix_has_a_pixel_a_cell_in_its_own_proportions() {
        let values: Vec<f64> = (0..784 * 400).map(f64::from).collect();
        let grid = Grid::new((784, 400), &values, 100);
        assert_eq!(grid.cells().0, (100, 52));
        assert_eq!(size(&grid.png((0.0, 1e6)).expect("cells")), (52, 100));
        assert!((grid.aspect() - 1.96).abs() < 1e-12);
        let thin = Grid::new((400, 10), &values[..4000], 100);
        assert_eq!((thin.cells().0, thin.aspect()), ((100, 10), 4.0));
        let (low, high) = thin.extent().expect("numbers");
        assert!(low > 0.0 && high < 3999.0, "averages of four rows");
        assert!(Grid::new((0, 0), &[], 10).png((0.0, 1.0)).is_err());
    }

    #[test]
    fn photographs_are_grey_or_in_colours_and_nothing_else() {
        assert_eq!(size(&photo([2, 3, 1], &[0; 6]).expect("grey")), (3, 2));
        assert_eq!(size(&photo([2, 3, 3], &[0; 18]).expect("colours")), (3, 2));
        assert!(photo([2, 3, 2], &[0; 12]).is_err() && photo([2, 3, 1], &[0; 5]).is_err());
        assert!(photo([0, 3, 1], &[]).is_err() && colour_bar().is_ok());
    }
}
