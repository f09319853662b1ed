//! Words of a text and their numbers, as Keras makes them.
//!
//! A text is put into lower case, ``!"#$%&()*+,-./:;<=>?@[\]^_`{|}~``, tab and line feed become spaces, and what stands
//! between spaces is a word. Only ASCII letters change case: so was the word list made that Keras publishes for IMDB, and a
//! test on the real reviews finds exactly its 88,584 words.

use std::collections::HashMap;

use rayon::prelude::*;

/// Fills a text that is too short, before its beginning.
pub const PAD: u32 = 0;
/// Stands before the first word.
pub const START: u32 = 1;
/// Stands for every word that is not frequent enough.
pub const UNKNOWN: u32 = 2;
/// The most frequent word's number; less frequent ones follow.
pub const FIRST_WORD: u32 = 3;

const SEPARATORS: &[u8] = b" !\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n";

/// Bit b says whether the byte b separates words: all that do are ASCII.
const IS_SEPARATOR: u128 = {
    let (mut bits, mut rest) = (0, SEPARATORS);
    while let [byte, others @ ..] = rest {
        bits |= 1 << *byte;
        rest = others;
    }
    bits
};

fn is_separator(byte: u8) -> bool {
    byte < 128 && IS_SEPARATOR >> byte & 1 == 1
}

/// The words of a text that is in lower case already; separators are ASCII, so UTF-8 stays whole.
fn words(lower: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    lower.split(|&byte| is_separator(byte)).filter(|word| !word.is_empty())
}

/// The words of a text, one space after each.
pub(crate) fn spaced(text: &str) -> Vec<u8> {
    words(text.to_ascii_lowercase().as_bytes()).flat_map(|word| [word, b" "].concat()).collect()
}

/// The numbers of the most frequent words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    ids: HashMap<Box<[u8]>, u32>,
}

impl Vocabulary {
    /// The most frequent words of `texts`, with numbers from [`FIRST_WORD`] to `size − 1`; equally frequent ones in the
    /// order of their bytes.
    pub fn new(texts: &[String], size: usize) -> Self {
        let mut counts: Vec<_> = counts(texts).into_iter().collect();
        counts.sort_unstable_by(|(a, count_a), (b, count_b)| count_b.cmp(count_a).then_with(|| a.cmp(b)));
        let ids = counts.into_iter().map(|(word, _)| word).zip(FIRST_WORD..);
        Self { ids: ids.take_while(|&(_, id)| (id as usize) < size).collect() }
    }

    /// How many words have a number of their own.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The number of a word in lower case.
    pub fn id(&self, word: &str) -> Option<u32> {
        self.ids.get(word.as_bytes()).copied()
    }

    /// The numbers of all texts, each the last `length` of [`START`] and its words, with [`PAD`] before them.
    ///
    /// # Shapes
    /// - output: `[texts.len(), length]`
    pub fn encode(&self, texts: &[String], length: usize) -> Vec<u32> {
        let mut rows = vec![PAD; texts.len() * length];
        rows.par_chunks_exact_mut(length.max(1)).zip(texts).for_each(|(row, text)| self.fill(row, text));
        rows
    }

    /// From the last word backwards, so that no more words are looked at than fit.
    pub(crate) fn fill(&self, row: &mut [u32], text: &str) {
        let lower = text.to_ascii_lowercase();
        let numbers = words(lower.as_bytes()).rev().map(|word| self.ids.get(word).copied().unwrap_or(UNKNOWN));
        let numbers = numbers.chain(std::iter::once(START));
        row.iter_mut().rev().zip(numbers).for_each(|(place, number)| *place = number);
    }
}

fn counts(texts: &[String]) -> HashMap<Box<[u8]>, u32> {
    let count = |mut counts: HashMap<Box<[u8]>, u32>, text: &String| {
        for word in words(text.to_ascii_lowercase().as_bytes()) {
            match counts.get_mut(word) {
                Some(count) => *count = count.saturating_add(1),
                None => drop(counts.insert(word.into(), 1)),
            }
        }
        counts
    };
    let join = |left: HashMap<Box<[u8]>, u32>, right: HashMap<Box<[u8]>, u32>| {
        let (mut all, fewer) = if left.len() < right.len() { (right, left) } else { (left, right) };
        fewer.into_iter().for_each(|(word, more)| *all.entry(word).or_default() += more);
        all
    };
    // A few large parts: every part has a table of its own, and joining them is not free.
    let part = texts.len().div_ceil(rayon::current_num_threads()).max(1);
    texts.par_chunks(part).map(|part| part.iter().fold(HashMap::new(), count)).reduce(HashMap::new, join)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<String> {
        vec![text.into()]
    }

    #[test]
    fn words_are_split_as_keras_splits_them() {
        let spaced = |text| String::from_utf8(spaced(text)).unwrap();
        assert_eq!(spaced("It's a <br />GREAT film--really!"), "it's a br great film really ");
        assert_eq!(spaced("a\tb\nc_d\u{a0}e É"), "a b c d\u{a0}e É ");
        assert_eq!(spaced(" ... "), "");
    }

    #[test]
    fn frequent_words_come_first_and_equals_in_the_order_of_their_bytes() {
        let vocabulary = Vocabulary::new(&text("b c a c b c d a"), 7);
        let ids = ["c", "a", "b", "d", "e"].map(|word| vocabulary.id(word));
        assert_eq!(ids, [Some(3), Some(4), Some(5), Some(6), None]);
        let smaller = Vocabulary::new(&text("b c a c b c d a"), 5);
        assert_eq!((smaller.len(), smaller.id("a"), smaller.id("b")), (2, Some(4), None));
        assert!(Vocabulary::new(&text("a"), 3).is_empty(), "0, 1 and 2 are no words");
    }

    #[test]
    fn short_texts_are_padded_before_and_long_ones_lose_their_beginning() {
        let vocabulary = Vocabulary::new(&text("a a a b b c"), 5);
        let encode = |words: &str, length| vocabulary.encode(&text(words), length);
        assert_eq!(encode("A, b c", 6), [PAD, PAD, START, 3, 4, UNKNOWN]);
        assert_eq!(encode("a b c", 4), [START, 3, 4, UNKNOWN]);
        assert_eq!(encode("a b c", 3), [3, 4, UNKNOWN]);
        assert_eq!(encode("a b c", 2), [4, UNKNOWN]);
        assert_eq!(encode("", 2), [PAD, START]);
    }

    #[test]
    fn the_vocabulary_does_not_depend_on_the_number_of_threads() {
        let texts: Vec<String> = (0..500).map(|i| format!("w{} w{} common", i % 37, i * i % 101)).collect();
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Vocabulary::new(&texts, 60))
        };
        assert_eq!(on(1), on(3));
        assert_eq!(on(1).id("common"), Some(FIRST_WORD));
    }
}
