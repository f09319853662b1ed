//! Broken files made from good ones, the same ones for the same seed.

use ktied::noise;
use ktied::{NoiseKey, Purpose};

/// Longest file that is made.
const MAX_LEN: usize = 1 << 14;
/// Numbers that readers trip over.
const NUMBERS: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];
/// Words that mean something in some format.
const WORDS: [&[u8]; 18] = [
    b"NaN",
    b"inf",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\"",
    b"{",
    b"[",
    b"]",
    b",",
    b"\n",
    b"\0",
    b"'>f8'",
    b"'|O'",
    b"../",
    b"__metadata__",
    b"\xff\xfe",
    b"True",
];

pub struct Mutator {
    key: NoiseKey,
    run: u64,
    words: Vec<u32>,
}

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Self { key: NoiseKey::new(seed).child(Purpose::Synthetic), run: 0, words: vec![] }
    }

    /// The next file.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        self.words = vec![0; 64];
        noise::random_words(self.key.fold(self.run), 0, &mut self.words);
        self.run += 1;
        // What was found last leads on more often than what has been tried for long.
        let oldest = if self.below(2) == 0 { 0 } else { corpus.len() - corpus.len() / 4 };
        let first = oldest + self.below(corpus.len() - oldest);
        let mut bytes = corpus.get(first).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(MAX_LEN);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.place(bytes.len());
        match self.below(12) {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            2 => {
                let byte = self.below(256) as u8;
                bytes.get_mut(at).into_iter().for_each(|old| *old = byte);
            }
            3 => bytes.truncate(at),
            4 => {
                let end = (at + 1 + self.below(32)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            5 => {
                let (end, to) = ((at + 1 + self.below(64)).min(bytes.len()), self.place(bytes.len()));
                let copy = bytes[at.min(end)..end].to_vec();
                bytes.splice(to..to, copy);
            }
            6 => {
                let (number, size, big) = (NUMBERS[self.below(NUMBERS.len())], 1 << self.below(4), self.below(2) == 0);
                let written =
                    if big { number.to_be_bytes()[8 - size..].to_vec() } else { number.to_le_bytes()[..size].to_vec() };
                bytes.iter_mut().skip(at).zip(written).for_each(|(byte, new)| *byte = new);
            }
            7 => {
                let word = WORDS[self.below(WORDS.len())];
                let end = if self.below(2) == 0 { at } else { (at + word.len()).min(bytes.len()) };
                bytes.splice(at..end, word.iter().copied());
            }
            8 => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.place(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            9 => {
                let piece = self.piece(corpus);
                let end = if self.below(2) == 0 { at } else { (at + piece.len()).min(bytes.len()) };
                bytes.splice(at..end, piece);
            }
            10 => {
                let step = 1 + self.below(16) as u8;
                bytes.get_mut(at).into_iter().for_each(|byte| *byte = byte.wrapping_add(step).wrapping_sub(8));
            }
            _ => {
                let count = 1 << self.below(10);
                let byte = self.below(256) as u8;
                bytes.splice(at..at, std::iter::repeat_n(byte, count));
            }
        }
    }

    /// Some bytes of a file.
    fn piece(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let other = &corpus[self.below(corpus.len())];
        let from = self.place(other.len());
        let len = 1 + self.below(32);
        other.iter().skip(from).take(len).copied().collect()
    }

    /// Where a change goes: half of them into the first bytes, where headers are.
    fn place(&mut self, len: usize) -> usize {
        let within = if self.below(2) == 0 { len.min(128) } else { len };
        self.below(within + 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        let word = self.words.pop().unwrap_or(0) as usize;
        if bound == 0 { 0 } else { word % bound }
    }
}
