//! Small images inside an SVG: colours of a palette as a PNG, and that as a data URI.

use super::colour::{MISSING, Rgb, viridis};

/// Steps of the colour scale; the last entry of the palette is for cells without a number.
const LEVELS: usize = 255;

/// A grid of cells, each a fraction of the colour scale, or nothing.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    pub(super) num_rows: usize,
    pub(super) num_cols: usize,
    /// Row after row.
    pub(super) fractions: Vec<Option<f64>>,
}

impl Cells {
    /// A PNG in which each cell is `tall`×`wide` pixels of one colour, so that it is crisp whoever scales it.
    ///
    /// # Errors
    /// If there are no cells.
    pub(super) fn png(&self, tall: usize, wide: usize) -> Result<Vec<u8>, png::EncodingError> {
        let (width, height) = (self.num_cols * wide, self.num_rows * tall);
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette(palette());
        encoder.set_compression(png::Compression::Balanced);
        encoder.set_filter(png::Filter::NoFilter);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels(tall, wide))?;
        writer.finish()?;
        Ok(bytes)
    }

    fn pixels(&self, tall: usize, wide: usize) -> Vec<u8> {
        let rows = self.fractions.chunks(self.num_cols.max(1));
        let row = |cells: &[Option<f64>]| cells.iter().flat_map(|cell| vec![entry(*cell); wide]).collect::<Vec<u8>>();
        rows.flat_map(|cells| row(cells).repeat(tall)).collect()
    }
}

/// The index of a cell's colour.
fn entry(cell: Option<f64>) -> u8 {
    let level = |fraction: f64| (fraction.clamp(0.0, 1.0) * (LEVELS - 1) as f64).round() as u8;
    cell.map_or(LEVELS as u8, level)
}

fn palette() -> Vec<u8> {
    let scale = (0..LEVELS).map(|level| viridis(level as f64 / (LEVELS - 1) as f64));
    scale.chain([MISSING]).flat_map(|colour: Rgb| colour).collect()
}

/// A PNG as the address of an image.
pub(crate) fn data_uri(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", base64(png))
}

/// Three bytes as four characters of six bits each, the last ones filled up with `=` (RFC 4648, section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for place in 0..4 {
            let sixth = (bits >> (18 - 6 * place)) as usize & 63;
            text.push(if place <= chunk.len() { char::from(ALPHABET[sixth]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    fn decoded(bytes: &[u8]) -> (u32, u32, Vec<Rgb>) {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("small")];
        let info = reader.next_frame(&mut pixels).expect("an image");
        (info.width, info.height, pixels.as_chunks().0.to_vec())
    }

    #[test]
    fn an_image_decodes_to_the_colours_of_its_cells() {
        let cells = Cells {
            num_rows: 2,
            num_cols: 3,
            fractions: vec![Some(0.0), Some(0.5), Some(1.0), None, Some(7.0), Some(-7.0)],
        };
        let (width, height, pixels) = decoded(&cells.png(4, 5).expect("cells"));
        assert_eq!((width, height), (15, 8));
        let expected = [viridis(0.0), viridis(0.5), viridis(1.0), MISSING, viridis(1.0), viridis(0.0)];
        for (index, pixel) in pixels.iter().enumerate() {
            let (row, column) = (index / 15 / 4, index % 15 / 5);
            assert_eq!(*pixel, expected[3 * row + column], "row {row}, column {column}");
        }
    }

    #[test]
    fn no_cells_are_an_error_and_no_panic() {
        assert!(Cells { num_rows: 0, num_cols: 0, fractions: Vec::new() }.png(1, 1).is_err());
    }
}
