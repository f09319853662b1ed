//! Rademacher signs per example and channel, as Flipout needs them: drawn from bits, never stored.

use std::ops::Range;

use rayon::prelude::*;

use crate::NoiseKey;
use crate::error::{Check, Result};
use crate::noise::random_words;
use crate::par::rows_per_chunk;
use crate::simd::vectorized;

/// The stream that the signs of a batch come from, and where in it they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignKey {
    /// The stream.
    pub key: NoiseKey,
    /// Number of the batch's first example: 0, or more for the later part of a batch that is divided.
    pub first: usize,
}

impl From<NoiseKey> for SignKey {
    fn from(key: NoiseKey) -> Self {
        Self { key, first: 0 }
    }
}

/// An activation: examples, positions that share their signs (1 for a dense layer, H·W for an image), channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignShape {
    /// B
    pub batch: usize,
    /// Positions of one example; the signs are the same at each.
    pub positions: usize,
    /// Channels; each has its own sign.
    pub channels: usize,
}

impl SignShape {
    fn check(self, check: Check) -> Result<usize> {
        check.product(&[self.batch, self.positions, self.channels])
    }

    fn example_len(self) -> usize {
        self.positions * self.channels
    }
}

/// out = x∘s, where s = ±1 is drawn per example and channel. Its own inverse and its own backward pass.
///
/// # Shapes
/// - out, x: `[batch, positions, channels]`
///
/// # Errors
/// If the lengths do not fit the shape.
pub fn apply(out: &mut [f32], x: &[f32], shape: SignShape, key: impl Into<SignKey>) -> Result<()> {
    let check = Check("signs");
    check.len("x", x, shape.check(check)?)?;
    check.len("out", out, x.len())?;
    for_each_example(out, x, shape, key.into(), flip);
    Ok(())
}

/// out += x∘s, with the signs of [`apply`].
///
/// # Shapes
/// - out, x: `[batch, positions, channels]`
///
/// # Errors
/// If the lengths do not fit the shape.
pub fn add(out: &mut [f32], x: &[f32], shape: SignShape, key: impl Into<SignKey>) -> Result<()> {
    let check = Check("add_signed");
    check.len("x", x, shape.check(check)?)?;
    check.len("out", out, x.len())?;
    for_each_example(out, x, shape, key.into(), flip_and_add);
    Ok(())
}

/// Calls `visit(out, x, signs)` for each example, where a sign is 0 or the sign bit.
fn for_each_example(
    out: &mut [f32],
    x: &[f32],
    shape: SignShape,
    key: SignKey,
    visit: impl Fn(&mut [f32], &[f32], &[u32]) + Sync,
) {
    let len = shape.example_len();
    if out.is_empty() {
        return;
    }
    let examples = rows_per_chunk(len);
    out.par_chunks_mut(examples * len).zip(x.par_chunks(examples * len)).enumerate().for_each(|(c, (out, x))| {
        let first = c * examples;
        let signs = sign_bits(first..first + out.len() / len, shape.channels, key);
        let rows = out.chunks_exact_mut(len).zip(x.chunks_exact(len)).zip(signs.chunks_exact(shape.channels));
        rows.for_each(|((out, x), signs)| visit(out, x, signs));
    });
}

/// Signs of some examples of a batch, `[examples, channels]`, each 0 or the sign bit.
pub(crate) fn sign_bits(examples: Range<usize>, channels: usize, SignKey { key, first }: SignKey) -> Vec<u32> {
    // Every example starts at a word of its own, so that its signs do not depend on the batch it came in.
    let words_per_example = channels.div_ceil(32);
    let mut words = vec![0; examples.len() * words_per_example];
    random_words(key, ((first + examples.start) * words_per_example) as u64, &mut words);
    let mut signs = vec![0; examples.len() * channels];
    let rows = signs.chunks_exact_mut(channels.max(1)).zip(words.chunks_exact(words_per_example.max(1)));
    rows.for_each(|(signs, words)| expand(words, signs));
    signs
}

vectorized! {
    /// Bit b of each word, moved to the place of a float's sign.
    fn expand(words: &[u32], signs: &mut [u32]) {
        for (signs, word) in signs.chunks_mut(32).zip(words) {
            for (b, sign) in signs.iter_mut().enumerate() {
                *sign = (word >> b) << 31;
            }
        }
    }

    fn flip(out: &mut [f32], x: &[f32], signs: &[u32]) {
        for (out, x) in out.chunks_exact_mut(signs.len()).zip(x.chunks_exact(signs.len())) {
            out.iter_mut().zip(x.iter().zip(signs)).for_each(|(o, (x, s))| *o = f32::from_bits(x.to_bits() ^ s));
        }
    }

    /// rows = rows∘s, where each row has as many elements as there are signs.
    pub(crate) fn flip_in_place(rows: &mut [f32], signs: &[u32]) {
        for row in rows.chunks_exact_mut(signs.len()) {
            row.iter_mut().zip(signs).for_each(|(x, s)| *x = f32::from_bits(x.to_bits() ^ s));
        }
    }

    fn flip_and_add(out: &mut [f32], x: &[f32], signs: &[u32]) {
        for (out, x) in out.chunks_exact_mut(signs.len()).zip(x.chunks_exact(signs.len())) {
            out.iter_mut().zip(x.iter().zip(signs)).for_each(|(o, (x, s))| *o += f32::from_bits(x.to_bits() ^ s));
        }
    }
}
