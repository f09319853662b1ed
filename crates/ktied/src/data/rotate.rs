//! Images turned about their centre: the same pictures, as no network was trained to see them.

use super::error::DataError;
use super::set::{Inputs, Split};

/// The examples with every image turned counter-clockwise by `degrees`, bilinear between pixels, 0 beyond the edges.
///
/// # Shapes
/// - image: height, width and channels of a row
///
/// # Errors
/// If the inputs are not pixels, or rows are no images of that shape.
pub fn rotated(split: &Split, image: [usize; 3], degrees: f64) -> Result<Split, DataError> {
    let Inputs::Bytes { data, width, scaling } = &split.inputs else {
        return Err(DataError::Kind { expected: "pixels", found: "numbers or words" });
    };
    if image.iter().product::<usize>() != *width || *width == 0 {
        let expected = "images of a known shape";
        return Err(DataError::Kind { expected, found: "rows of another width" });
    }
    let turn = Turn::new(image, degrees);
    let data = data.chunks_exact(*width).flat_map(|row| turn.of(row)).collect();
    let inputs = Inputs::Bytes { data, width: *width, scaling: scaling.clone() };
    Ok(Split { inputs, targets: split.targets.clone() })
}

/// Where each pixel of a turned image comes from.
struct Turn {
    channels: usize,
    /// For each pixel up to four others, and how much of each.
    sources: Vec<Vec<(usize, f64)>>,
}

impl Turn {
    fn new([height, width, channels]: [usize; 3], degrees: f64) -> Self {
        let (sin, cos) = sin_cos(degrees);
        let centre = [(height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0];
        let source = |row: usize, col: usize| {
            // Rows grow downwards, so this is clockwise, which is the way back.
            let (y, x) = (row as f64 - centre[0], col as f64 - centre[1]);
            let (from_row, from_col) = (centre[0] + cos * y + sin * x, centre[1] - sin * y + cos * x);
            corners(from_row, height)
                .into_iter()
                .flat_map(|(row, share)| corners(from_col, width).map(|(col, part)| (row, col, share * part)))
                .filter_map(|(row, col, share)| Some((row? * width + col?, share)))
                .filter(|(_, share)| *share > 0.0)
                .collect()
        };
        let pixels = (0..height).flat_map(|row| (0..width).map(move |col| (row, col)));
        Self { channels, sources: pixels.map(|(row, col)| source(row, col)).collect() }
    }

    fn of<'a>(&'a self, row: &'a [u8]) -> impl Iterator<Item = u8> + 'a {
        self.sources.iter().flat_map(move |sources| {
            (0..self.channels).map(move |channel| {
                let part = |&(pixel, share): &(usize, f64)| {
                    f64::from(row.get(pixel * self.channels + channel).copied().unwrap_or(0)) * share
                };
                sources.iter().map(part).sum::<f64>().round() as u8
            })
        })
    }
}

/// The two whole places around `place` that exist, and how near it is to each.
fn corners(place: f64, len: usize) -> [(Option<usize>, f64); 2] {
    let low = place.floor();
    let at = |place: f64| (place >= 0.0 && place < len as f64).then_some(place as usize);
    [(at(low), 1.0 - (place - low)), (at(low + 1.0), place - low)]
}

/// Sine and cosine, without rounding for quarters of a turn.
fn sin_cos(degrees: f64) -> (f64, f64) {
    match degrees.rem_euclid(360.0) {
        0.0 => (0.0, 1.0),
        90.0 => (1.0, 0.0),
        180.0 => (0.0, -1.0),
        270.0 => (-1.0, 0.0),
        other => other.to_radians().sin_cos(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::set::{Scaling, Targets};
    use super::*;

    fn split(data: Vec<u8>, width: usize) -> Split {
        let labels = vec![0; data.len() / width];
        let scaling = Scaling::Uniform { divisor: 255.0, offset: 0.0 };
        let inputs = Inputs::Bytes { data, width, scaling };
        Split { inputs, targets: Targets::Classes { labels, num_classes: 1 } }
    }

    fn bytes(split: &Split) -> Vec<u8> {
        match &split.inputs {
            Inputs::Bytes { data, .. } => data.clone(),
            _ => unreachable!("pixels stay pixels"),
        }
    }

    #[test]
    fn quarters_of_a_turn_move_pixels_and_change_none() {
        let square = split(vec![1, 2, 3, 4, 5, 6, 7, 8, 9], 9);
        let turned = |degrees| bytes(&rotated(&square, [3, 3, 1], degrees).unwrap());
        assert_eq!(turned(0.0), bytes(&square));
        // Counter-clockwise: what was on the right is on top.
        assert_eq!(turned(90.0), [3, 6, 9, 2, 5, 8, 1, 4, 7]);
        assert_eq!(turned(180.0), [9, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(turned(-90.0), turned(270.0));
        assert_eq!(turned(360.0), bytes(&square));
    }

    #[test]
    fn colours_turn_together_and_every_row_is_an_image() {
        let two = split((1..=16).collect(), 8);
        let turned = bytes(&rotated(&two, [2, 2, 2], 90.0).unwrap());
        assert_eq!(turned, [3, 4, 7, 8, 1, 2, 5, 6, 11, 12, 15, 16, 9, 10, 13, 14]);
    }

    #[test]
    fn between_pixels_light_is_shared() {
        // One bright pixel in the middle stays where it is; one beside it goes half-way round the corner.
        let mut data = vec![0; 25];
        data[12] = 200;
        assert_eq!(bytes(&rotated(&split(data, 25), [5, 5, 1], 45.0).unwrap())[12], 200);
        let mut data = vec![0; 25];
        data[13] = 200;
        let turned = bytes(&rotated(&split(data, 25), [5, 5, 1], 45.0).unwrap());
        // 1 to the right becomes (0.71, 0.71) up and to the right; the pixel there sees it from 0.41 away.
        assert_eq!(turned[8], (200.0 * (2.0 - std::f64::consts::SQRT_2)).round() as u8);
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let square = split(vec![1; 9], 9);
        assert!(rotated(&square, [2, 2, 1], 10.0).is_err());
        let words = Split { inputs: Inputs::Tokens { data: vec![1; 9], width: 9 }, ..square };
        assert!(rotated(&words, [3, 3, 1], 10.0).is_err());
    }
}
