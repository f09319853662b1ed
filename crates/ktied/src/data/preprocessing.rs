//! What is done to the numbers of a file before a network sees them, kept so that new inputs are treated alike.

use std::sync::Arc;

use super::error::{Fault, product};
use super::set::Scaling;
use super::stream::Content;
use super::words::Vocabulary;

/// How the inputs of a data set were made of its files.
///
/// Applied to the rows of the files themselves it gives the data set's own inputs, bit for bit.
///
/// ```
/// use ktied::data::stream::Content;
/// use ktied::data::{DataSpec, load};
/// let digits = load(&DataSpec::named("digits"))?;
/// let mut inputs = Vec::new();
/// digits.preprocessing.numbers(&Content::Numbers(vec![8.0; 64]), &mut inputs).map_err(|fault| fault.to_string())?;
/// assert_eq!(inputs, [0.5; 64]); // pixels from 0 to 16
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocessing {
    /// Numbers, or words, a row.
    pub width: usize,
    /// What is done to them.
    pub steps: Steps,
}

/// What is done to a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Steps {
    /// Pixels are scaled.
    Pixels {
        /// How.
        scaling: Scaling,
        /// The largest: 255 of bytes, 16 of the embedded digits.
        max: u8,
        /// Height, width and channels, if the files say them.
        image: Option<[usize; 3]>,
    },
    /// (x − loc)/scale, column by column, in double precision; both empty if numbers stay as they are.
    Columns {
        /// Names of the columns, if the files have any.
        names: Vec<String>,
        /// Means of the training rows.
        loc: Vec<f64>,
        /// Their standard deviations; 1 where a column is constant.
        scale: Vec<f64>,
    },
    /// Words become their numbers; what is a number already stays.
    Words {
        /// Numbers are below this.
        size: usize,
        /// The words, if the files have texts.
        vocabulary: Option<Arc<Vocabulary>>,
    },
}

impl Preprocessing {
    /// Rows of numbers that stay as they are.
    pub fn plain(width: usize) -> Self {
        Self { width, steps: Steps::Columns { names: Vec::new(), loc: Vec::new(), scale: Vec::new() } }
    }

    pub(crate) fn pixels(width: usize, scaling: Scaling, max: u8, image: Option<[usize; 3]>) -> Self {
        Self { width, steps: Steps::Pixels { scaling, max, image } }
    }

    /// The same with what the network says about an image's shape, where the files say nothing.
    #[must_use]
    pub fn with_image(mut self, shape: Option<[usize; 3]>) -> Self {
        if let Steps::Pixels { image, .. } = &mut self.steps {
            *image = image.or(shape);
        }
        self
    }

    /// Height, width and channels of an image, if rows are images of a known shape.
    pub fn image(&self) -> Option<[usize; 3]> {
        match self.steps {
            Steps::Pixels { image, .. } => image,
            _ => None,
        }
    }

    /// Whether rows are words, and not numbers.
    pub fn is_words(&self) -> bool {
        matches!(self.steps, Steps::Words { .. })
    }

    /// Whether texts can be read: the words of the training texts are known.
    pub fn reads_text(&self) -> bool {
        matches!(&self.steps, Steps::Words { vocabulary: Some(_), .. })
    }

    /// What the files must hold, for messages.
    pub fn wants(&self) -> &'static str {
        match &self.steps {
            Steps::Pixels { .. } => "pixels",
            Steps::Columns { .. } => "rows of numbers",
            Steps::Words { vocabulary: Some(_), .. } => "texts, or numbers of words",
            Steps::Words { vocabulary: None, .. } => "numbers of words",
        }
    }

    /// Adds a row of inputs to `out`; nothing if it is not as it should be.
    ///
    /// # Errors
    /// Another width; a number that is not finite or no pixel; a text.
    pub fn numbers(&self, row: &Content, out: &mut Vec<f32>) -> Result<(), Fault> {
        let (Content::Numbers(row), false) = (row, self.is_words()) else {
            return Err(Fault::InputKind { expected: self.wants(), found: row.kind() });
        };
        self.check_width(row.len())?;
        match &self.steps {
            Steps::Pixels { scaling, max, .. } => {
                check_pixels(row, *max)?;
                out.extend(row.iter().enumerate().map(|(place, &pixel)| scaling.apply(place, pixel as f32)));
            }
            Steps::Columns { loc, scale, .. } => {
                check_finite(row)?;
                let columns = loc.iter().zip(scale);
                match loc.is_empty() {
                    true => out.extend(row.iter().map(|&x| x as f32)),
                    false => out.extend(row.iter().zip(columns).map(|(x, (loc, scale))| ((x - loc) / scale) as f32)),
                }
            }
            Steps::Words { .. } => {}
        }
        Ok(())
    }

    /// Adds the numbers of a row of words to `out`; nothing if it is not as it should be.
    ///
    /// # Errors
    /// Another width; a number that is no word's; a text whose words nobody knows.
    pub fn words(&self, row: &Content, out: &mut Vec<i32>) -> Result<(), Fault> {
        match (&self.steps, row) {
            (Steps::Words { size, .. }, Content::Numbers(row)) => {
                self.check_width(row.len())?;
                check_words(row, *size)?;
                out.extend(row.iter().map(|&word| word as i32));
            }
            (Steps::Words { vocabulary: Some(vocabulary), .. }, Content::Text(text)) => {
                let mut words = vec![0; self.width];
                vocabulary.fill(&mut words, text);
                out.extend(words.into_iter().map(|word| word as i32));
            }
            _ => return Err(Fault::InputKind { expected: self.wants(), found: row.kind() }),
        }
        Ok(())
    }

    /// Refuses pixels that a file has as fractions of 1, where 0 to 255 are wanted: no picture is that dark. What a decoder
    /// makes of an image has its scale for certain and is not asked.
    pub(crate) fn check_scale(&self, row: &[f64]) -> Result<(), Fault> {
        let Steps::Pixels { max, .. } = self.steps else { return Ok(()) };
        let is_fraction = |x: &f64| (0.0..=1.0).contains(x);
        match row.iter().all(is_fraction) && row.iter().any(|x| x.fract() != 0.0) {
            true => Err(Fault::Fractions { max }),
            false => Ok(()),
        }
    }

    fn check_width(&self, found: usize) -> Result<(), Fault> {
        if found == self.width { Ok(()) } else { Err(Fault::Width { expected: self.width, found }) }
    }

    /// Refuses the shape of an array whose rows are not as they should be: an image with its channels first has the right
    /// width, and would be read as noise.
    pub(crate) fn check_shape(&self, shape: &[usize]) -> Result<(), Fault> {
        let rest = shape.get(1..).unwrap_or_default();
        let fits = match self.image() {
            Some([h, w, c]) => rest == [h, w, c] || (c == 1 && (rest == [h, w] || rest == [1, h, w])),
            None => rest.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim)) == Some(self.width),
        };
        if !shape.is_empty() && (fits || rest == [self.width]) {
            return Ok(());
        }
        let image = self.image().map_or(String::new(), |image| format!("N×{} or ", product(&image)));
        Err(Fault::Shape { expected: format!("{image}N×{}", self.width), found: product(shape) })
    }
}

fn value(place: usize, expected: String, found: f64) -> Fault {
    Fault::Value { column: place + 1, expected, found: found.to_string() }
}

/// Numbers that stay finite in single precision.
fn check_finite(row: &[f64]) -> Result<(), Fault> {
    let is_bad = |x: &f64| x.is_nan() || x.abs() > f64::from(f32::MAX);
    match row.iter().position(is_bad) {
        Some(place) => Err(value(place, "a finite number".into(), row.get(place).copied().unwrap_or(f64::NAN))),
        None => Ok(()),
    }
}

/// Numbers from 0 to `max`.
fn check_pixels(row: &[f64], max: u8) -> Result<(), Fault> {
    if let Some(place) = row.iter().position(|x| !(0.0..=f64::from(max)).contains(x)) {
        let found = row.get(place).copied().unwrap_or(f64::NAN);
        return Err(value(place, format!("a pixel from 0 to {max}"), found));
    }
    Ok(())
}

fn check_words(row: &[f64], size: usize) -> Result<(), Fault> {
    let is_word = |x: &f64| *x >= 0.0 && *x < size as f64 && x.fract() == 0.0;
    match row.iter().position(|x| !is_word(x)) {
        Some(place) => {
            let expected = format!("a word from 0 to {}", size.saturating_sub(1));
            Err(value(place, expected, row.get(place).copied().unwrap_or(f64::NAN)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(image: Option<[usize; 3]>) -> Preprocessing {
        Preprocessing::pixels(12, Scaling::Uniform { divisor: 127.5, offset: 1.0 }, 255, image)
    }

    fn refusal(preprocessing: &Preprocessing, row: &[f64]) -> String {
        let mut out = vec![7.0];
        let fault = preprocessing.numbers(&Content::Numbers(row.into()), &mut out).unwrap_err();
        assert_eq!(out, [7.0], "a refused row leaves nothing");
        fault.to_string()
    }

    #[test]
    fn rows_that_are_not_as_they_should_be_are_refused_with_their_column() {
        let two = Preprocessing { width: 2, ..pixels(None) };
        assert_eq!(refusal(&two, &[1.0]), "expected 2 numbers a row, found 1");
        assert_eq!(refusal(&two, &[1.0, 256.0]), "column 2: expected a pixel from 0 to 255, found 256");
        assert_eq!(refusal(&two, &[f64::NAN, 0.0]), "column 1: expected a pixel from 0 to 255, found NaN");
        let scale = |row: &[f64]| two.check_scale(row).map_err(|fault| fault.to_string());
        let fractions = "expected pixels from 0 to 255, found fractions from 0 to 1: multiply them by 255";
        assert_eq!(scale(&[0.5, 1.0]), Err(fractions.into()));
        assert_eq!((scale(&[0.0, 1.0]), scale(&[0.5, 1.5]), scale(&[-0.5, 0.5])), (Ok(()), Ok(()), Ok(())));
        let plain = Preprocessing::plain(2);
        assert_eq!(
            refusal(&plain, &[0.0, 1e39]),
            "column 2: expected a finite number, found 1000000000000000000000000000000000000000"
        );
        assert_eq!(refusal(&plain, &[f64::INFINITY, 0.0]), "column 1: expected a finite number, found inf");
        let mut out = Vec::new();
        two.numbers(&Content::Numbers(vec![0.0, 1.0]), &mut out).unwrap();
        assert_eq!(out, [-1.0, 1.0 / 127.5 - 1.0], "black and nearly black are pixels");
    }

    #[test]
    fn words_are_numbers_below_the_vocabularys_size_or_texts() {
        let texts = vec!["a a b".to_string()];
        let vocabulary = Some(Arc::new(Vocabulary::new(&texts, 5)));
        let with = Preprocessing { width: 3, steps: Steps::Words { size: 5, vocabulary } };
        let without = Preprocessing { width: 3, steps: Steps::Words { size: 5, vocabulary: None } };
        let mut out = Vec::new();
        with.words(&Content::Text("B a".into()), &mut out).unwrap();
        with.words(&Content::Numbers(vec![0.0, 4.0, 2.0]), &mut out).unwrap();
        assert_eq!(out, [1, 4, 3, 0, 4, 2]);
        let refuse = |which: &Preprocessing, row: Content| which.words(&row, &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(
            refuse(&without, Content::Text("a".into())),
            "expected numbers of words, as the network was trained on, found a text"
        );
        let numbers = |row: [f64; 3]| Content::Numbers(row.into());
        assert_eq!(refuse(&with, numbers([0.0, 5.0, 1.0])), "column 2: expected a word from 0 to 4, found 5");
        assert_eq!(refuse(&with, numbers([0.0, 1.0, 0.5])), "column 3: expected a word from 0 to 4, found 0.5");
        assert_eq!(refuse(&with, numbers([-1.0, 1.0, 0.5])), "column 1: expected a word from 0 to 4, found -1");
        assert!(with.numbers(&numbers([0.0; 3]), &mut Vec::new()).is_err());
    }

    #[test]
    fn an_image_with_its_channels_first_is_refused_and_not_read_as_noise() {
        let colour = pixels(Some([2, 2, 3]));
        assert_eq!(colour.check_shape(&[9, 2, 2, 3]), Ok(()));
        assert_eq!(colour.check_shape(&[9, 12]), Ok(()));
        assert_eq!(
            colour.check_shape(&[9, 3, 2, 2]).unwrap_err().to_string(),
            "expected the shape N×2×2×3 or N×12, found 9×3×2×2"
        );
        let grey = pixels(Some([3, 4, 1]));
        for shape in [&[9, 3, 4][..], &[9, 3, 4, 1], &[9, 1, 3, 4], &[9, 12]] {
            assert_eq!(grey.check_shape(shape), Ok(()), "{shape:?}");
        }
        for shape in [&[12][..], &[], &[9, 4, 3], &[9, 13]] {
            assert!(grey.check_shape(shape).is_err(), "{shape:?}");
        }
        assert_eq!(pixels(None).check_shape(&[1, 2, 6]), Ok(()));
        assert_eq!(pixels(None).with_image(Some([3, 4, 1])).image(), Some([3, 4, 1]));
        assert_eq!(grey.with_image(Some([12, 1, 1])).image(), Some([3, 4, 1]), "the files know better");
    }
}
