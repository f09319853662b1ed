//! The 50,000 film reviews of IMDB: the original folders, or one `reviews.json`; and the data set made of them.
//!
//! The folders are `aclImdb/{train,test}/{pos,neg}/*.txt`, 12,500 files each, taken in the order of their names. The
//! JSON file is a list of 50,000 objects whose `t` is the text, in four blocks of 12,500: test/neg, train/neg, test/pos,
//! train/pos, in the same order. A. L. Maas et al., *Learning Word Vectors for Sentiment Analysis*, ACL 2011.

use std::fmt;
use std::path::{Path, PathBuf};

use ktied_kernels::{NoiseKey, Purpose};
use rayon::prelude::*;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de::DeserializeSeed};

use super::bounded::{read_file, read_text};
use super::digest::Digest;
use super::error::{DataError, Fault};
use super::preprocessing::{Preprocessing, Steps};
use super::set::{DataSet, Inputs, Split, Targets};
use super::shuffle::permutation;
use super::words::{Vocabulary, spaced};

/// Reviews of one sentiment in one part.
pub const BLOCK: usize = 12_500;
/// The last of the shuffled training reviews, kept for validation.
pub const NUM_VALIDATION: usize = 5_000;
/// Negative, positive.
pub const NUM_CLASSES: usize = 2;
/// Seed of the order of the training reviews. Another value would make results incomparable with earlier ones.
const SHUFFLE_SEED: u64 = 2011;
const MAX_JSON_BYTES: usize = 1 << 28;
const MAX_REVIEW_BYTES: usize = 1 << 20;
const JSON_NAME: &str = "reviews.json";

/// The texts: in each part the negative ones first, then as many positive ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reviews {
    /// To train on.
    pub train: Vec<String>,
    /// To judge by.
    pub test: Vec<String>,
}

/// The reviews in one folder, whichever form they have there.
///
/// # Errors
/// A file that is missing or wrong.
pub fn read(folder: &Path) -> Result<Reviews, DataError> {
    read_blocks(folder, BLOCK)
}

fn read_blocks(folder: &Path, block: usize) -> Result<Reviews, DataError> {
    let json = folder.join(JSON_NAME);
    if json.is_file() {
        let bytes = read_file(&json, MAX_JSON_BYTES)?;
        return parse_json(&bytes, block).map_err(|fault| fault.at(&json));
    }
    let root = root(folder);
    let part = |part: &str| -> Result<Vec<String>, DataError> {
        let [neg, pos] = ["neg", "pos"].map(|name| read_folder(&root.join(part).join(name), block));
        Ok([neg?, pos?].concat())
    };
    Ok(Reviews { train: part("train")?, test: part("test")? })
}

/// The folder that holds `train` and `test`.
pub(crate) fn root(folder: &Path) -> PathBuf {
    let inner = folder.join("aclImdb");
    if inner.is_dir() { inner } else { folder.into() }
}

/// Whether one of the two forms is there, without reading it.
pub(crate) fn is_in(folder: &Path) -> bool {
    folder.join(JSON_NAME).is_file() || root(folder).join("train").join("neg").is_dir()
}

/// Exactly `count` texts in the order of their names.
fn read_folder(folder: &Path, count: usize) -> Result<Vec<String>, DataError> {
    let entries = std::fs::read_dir(folder).map_err(|error| DataError::io("list", folder, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| DataError::io("list", folder, &error))?.path();
        if path.extension().is_some_and(|end| end == "txt") {
            paths.push(path);
        }
        if paths.len() > count {
            break;
        }
    }
    if paths.len() != count {
        return Err(Fault::ReviewCount { expected: count, found: paths.len() }.at(folder));
    }
    paths.sort_unstable();
    paths.par_iter().map(|path| read_text(path, MAX_REVIEW_BYTES)).collect()
}

/// One object of the list; other keys are nobody's business.
#[derive(Deserialize)]
struct Review {
    t: String,
    s: Option<u64>,
}

fn parse_json(bytes: &[u8], block: usize) -> Result<Reviews, Fault> {
    let expected = 4 * block;
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let json = |error: serde_json::Error| Fault::Json { message: error.to_string() };
    let list = AtMost(expected).deserialize(&mut parser).map_err(json)?;
    if list.len() != expected {
        return Err(Fault::ReviewCount { expected, found: list.len() });
    }
    parser.end().map_err(json)?;
    let mut reviews = Reviews::default();
    for (i, Review { t, s }) in list.into_iter().enumerate() {
        let (sentiment, is_train) = ((i / (2 * block)) as u8, i / block % 2 == 1);
        if let Some(found) = s.filter(|&found| found != u64::from(sentiment)) {
            return Err(Fault::Sentiment { row: i + 1, expected: sentiment, found });
        }
        if is_train { reviews.train.push(t) } else { reviews.test.push(t) }
    }
    Ok(reviews)
}

/// A list of reviews that is read to one element beyond the greatest right number and no further.
struct AtMost(usize);

impl<'de> DeserializeSeed<'de> for AtMost {
    type Value = Vec<Review>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AtMost {
    type Value = Vec<Review>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {} reviews", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut reviews = Vec::new();
        while let Some(review) = list.next_element()? {
            reviews.push(review);
            if reviews.len() > self.0 {
                return Err(serde::de::Error::invalid_length(reviews.len(), &self));
            }
        }
        Ok(reviews)
    }
}

/// IMDB: 20,000 / 5,000 / 25,000 reviews of `length` words each, from a vocabulary of the 25,000 training texts.
///
/// Class 0 is negative, 1 positive. The training reviews are put into one fixed random order first: the last 5,000 of
/// the files' order would all be positive.
///
/// # Errors
/// A file that is missing or wrong.
pub fn load(name: &str, folder: &Path, vocabulary: usize, length: usize) -> Result<DataSet, DataError> {
    Ok(data_set(name, &read(folder)?, vocabulary, length, NUM_VALIDATION))
}

fn data_set(name: &str, reviews: &Reviews, size: usize, length: usize, num_validation: usize) -> DataSet {
    let vocabulary = Vocabulary::new(&reviews.train, size);
    let key = NoiseKey::new(SHUFFLE_SEED).child(Purpose::Shuffle);
    let order = permutation(reviews.train.len(), key);
    let split = |texts: &[String], order: &[usize]| {
        let encoded = vocabulary.encode(texts, length);
        let rows = order.iter().filter_map(|&row| encoded.get(row * length..(row + 1) * length));
        let labels = order.iter().map(|&row| u32::from(row >= texts.len() / 2));
        Split {
            inputs: Inputs::Tokens { data: rows.flatten().copied().collect(), width: length },
            targets: Targets::Classes { labels: labels.collect(), num_classes: NUM_CLASSES },
        }
    };
    let mut train = split(&reviews.train, &order);
    let validation = train.split_off(reviews.train.len().saturating_sub(num_validation));
    let in_order: Vec<usize> = (0..reviews.test.len()).collect();
    let test = split(&reviews.test, &in_order);
    let steps = Steps::Words { size, vocabulary: Some(vocabulary.into()) };
    DataSet::new(name, [train, validation, test], Preprocessing { width: length, steps })
}

/// SHA-256 of all words, in hexadecimal: one space after each, one line feed after each review, training reviews first.
///
/// It does not depend on the form of the files, nor on white space and punctuation, which copies of the set treat differently.
pub fn words_digest(reviews: &Reviews) -> String {
    let texts: Vec<&String> = reviews.train.iter().chain(&reviews.test).collect();
    let mut digest = Digest::default();
    for part in texts.chunks(1024) {
        let lines: Vec<Vec<u8>> = part.par_iter().map(|text| [&spaced(text)[..], b"\n"].concat()).collect();
        lines.iter().for_each(|line| digest.update(line));
    }
    digest.hex()
}

#[cfg(test)]
mod tests;
