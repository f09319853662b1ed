//! What an example looks like to people: a picture, a text, or a row of named numbers.

use ktied::config::Config;
use ktied::data::{DataSet, Inputs, Preprocessing, Scaling, Split, Steps, imdb, place};

use crate::args::SplitName;
use crate::picture::photo;
use crate::report::Looks;

/// Words of a text that are shown, the last ones, as the network sees them.
const MOST_WORDS: usize = 80;

/// Single precision, with a digit to spare.
const ROUNDING: f64 = 1e-6;

/// What is needed to show the examples of a data set.
pub(super) struct Looker<'a> {
    data: &'a DataSet,
    image: Option<[usize; 3]>,
    /// The texts themselves, if they are at hand.
    texts: Vec<String>,
    length: usize,
}

impl<'a> Looker<'a> {
    pub(super) fn new(data: &'a DataSet, config: &Config, split: SplitName) -> Self {
        let width = data.train.inputs.width();
        let image = data.preprocessing.clone().with_image(config.model.image()).image().or_else(|| square(width));
        let image = image.filter(|shape| shape.iter().product::<usize>() == width && [1, 3].contains(&shape[2]));
        let is_words = matches!(data.train.inputs, Inputs::Tokens { .. });
        // Only the test reviews are in the order of the files.
        let texts = if is_words && split == SplitName::Test { texts(config) } else { Vec::new() };
        Self { data, image, texts, length: config.data.length.min(MOST_WORDS) }
    }

    pub(super) fn look(&self, split: &Split, row: usize) -> Looks {
        match &split.inputs {
            Inputs::Bytes { data, width, scaling } => {
                let bytes = data.get(row * width..(row + 1) * width).unwrap_or_default();
                self.photo(bytes, scaling).unwrap_or_else(|| self.columns(bytes.iter().map(|byte| f64::from(*byte))))
            }
            Inputs::Floats { data, width, units } => {
                let numbers = data.get(row * width..(row + 1) * width).unwrap_or_default();
                let unit = |values: &[f32], column: usize, otherwise: f64| {
                    values.get(column).map_or(otherwise, |x| f64::from(*x))
                };
                let original = |(column, x): (usize, &f32)| {
                    let (scale, loc) = (unit(&units.scale, column, 1.0), unit(&units.loc, column, 0.0));
                    let value = f64::from(*x) * scale + loc;
                    // What was zero in the file is not quite, after it was standardised in single precision and back.
                    if value.abs() < ROUNDING * scale.abs().max(loc.abs()) { 0.0 } else { value }
                };
                self.columns(numbers.iter().enumerate().map(original))
            }
            Inputs::Tokens { data, width } => match self.texts.get(row) {
                Some(text) => Looks::Text(last_words(text, self.length)),
                None => {
                    let tokens = data.get(row * width..(row + 1) * width).unwrap_or_default();
                    Looks::Columns(vec![(
                        "words of the text".into(),
                        tokens.iter().filter(|token| **token > 0).count() as f64,
                    )])
                }
            },
        }
    }

    /// Pixels as bright as they can be: those of the embedded digits end at 16.
    fn photo(&self, bytes: &[u8], scaling: &Scaling) -> Option<Looks> {
        let shape = self.image?;
        let largest = match scaling {
            Scaling::Uniform { divisor, offset } if *offset == 0.0 => *divisor,
            _ => 255.0,
        };
        let bright = |byte: &u8| (f32::from(*byte) * 255.0 / largest.max(1.0)).min(255.0) as u8;
        let png = photo(shape, &bytes.iter().map(bright).collect::<Vec<u8>>()).ok()?;
        Some(Looks::Photo { png, height: shape[0], width: shape[1] })
    }

    fn columns(&self, values: impl Iterator<Item = f64>) -> Looks {
        let names = match &self.data.preprocessing {
            Preprocessing { steps: Steps::Columns { names, .. }, .. } => names.as_slice(),
            _ => &[],
        };
        let name = |column: usize| names.get(column).cloned().unwrap_or_else(|| format!("column {}", column + 1));
        Looks::Columns(values.enumerate().map(|(column, value)| (name(column), value)).collect())
    }
}

/// The shape of a square image of so many numbers, grey or in colours.
fn square(width: usize) -> Option<[usize; 3]> {
    [1, 3].into_iter().find_map(|channels| {
        let side = (width / channels).isqrt();
        (side > 1 && side * side * channels == width).then_some([side, side, channels])
    })
}

/// The test reviews, in the order of the test examples.
fn texts(config: &Config) -> Vec<String> {
    let mut folders = place::folders(config.data.dir.as_deref()).into_iter();
    folders
        .find_map(|folder| imdb::read(&folder.join(&config.data.set)).ok())
        .map_or_else(Vec::new, |reviews| reviews.test)
}

fn last_words(text: &str, count: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.len().checked_sub(count) {
        None | Some(0) => words.join(" "),
        Some(first) => format!("… {}", words[first..].join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_seen_as_images() {
        assert_eq!([square(784), square(3072), square(13)], [Some([28, 28, 1]), Some([32, 32, 3]), None]);
    }

    #[test]
    fn the_end_of_a_text_is_shown() {
        assert_eq!(last_words("a b  c", 2), "… b c");
        assert_eq!(last_words("a b", 2), "a b");
    }
}
