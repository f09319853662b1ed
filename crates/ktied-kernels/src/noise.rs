//! Noise as a pure function of a key and an index: Philox4x32-10, normals by Box–Muller, Rademacher signs.
//!
//! Nothing here has state. Element `i` of the stream of a [`NoiseKey`] is the same number whenever, wherever and
//! on however many threads it is made, which is what lets a backward pass make its noise again instead of storing
//! it, and a resumed run equal an unbroken one.
//!
//! Philox: Salmon, Moraes, Dror, Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC 2011.

use std::ops::Range;

use crate::simd::vectorized;
use crate::vmath;

/// What a stream of noise is for; keeps streams of one (seed, step, layer) apart.
///
/// The numbers are part of the file format: a run resumes only if they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Purpose {
    /// Initial values of parameters.
    Init = 1,
    /// ε of weight draws.
    Weights = 2,
    /// ε of local reparameterisation's activations.
    Activations = 3,
    /// Flipout's signs at a layer's input.
    InputSigns = 4,
    /// Flipout's signs at a layer's output.
    OutputSigns = 5,
    /// Order of examples.
    Shuffle = 6,
    /// Dropout masks.
    Dropout = 7,
    /// Draws of evaluation and prediction.
    Evaluate = 8,
    /// Resampling of test examples.
    Bootstrap = 9,
    /// Data made up for tests and measurements.
    Synthetic = 10,
    /// Draws after the first of one training step.
    Draws = 11,
    /// Draws of a process of its own, where several train together.
    Processes = 12,
}

/// Names one stream of noise: 2⁶⁴ numbers, independent of those of every other key.
///
/// ```
/// use ktied_kernels::{NoiseKey, Purpose, noise};
/// let key = NoiseKey::new(42).child(Purpose::Weights).at(1000, 3);
/// let (mut all, mut tail) = ([0.0; 10], [0.0; 4]);
/// noise::normals(key, 0, &mut all);
/// noise::normals(key, 6, &mut tail); // the same numbers, made again from the seventh on
/// assert_eq!(all[6..], tail);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoiseKey {
    key: [u32; 2],
    /// Upper half of the counter; the lower half counts blocks of four words.
    high: [u32; 2],
}

impl NoiseKey {
    /// The root of all streams of one seed.
    pub fn new(seed: u64) -> Self {
        Self { key: words(seed), high: [0x6b74_6965, 0x644e_6f72] } // "ktiedNor"
    }

    /// The key of one purpose.
    pub fn child(self, purpose: Purpose) -> Self {
        self.fold(u64::from(purpose as u32))
    }

    /// The key of one layer at one step.
    pub fn at(self, step: u64, layer: u64) -> Self {
        self.fold(step).fold(layer)
    }

    /// The key of one of 2⁶⁴ branches. Siblings never meet: for a given parent, Philox is a bijection.
    pub fn fold(self, branch: u64) -> Self {
        let [lo, hi] = words(branch);
        let [a, b, c, d] = philox4x32_10([lo, hi, self.high[0], self.high[1]], self.key);
        Self { key: [a, b], high: [c, d] }
    }
}

fn words(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Philox4x32 with ten rounds: a bijection of the 128-bit counter for every key.
///
/// ```
/// use ktied_kernels::noise::philox4x32_10;
/// assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// ```
#[inline(always)]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    // Words stay in the lower halves of 64-bit lanes, where the products need them, whatever is left above: taking
    // them apart and together in every round would cost more than the rounds.
    const WORD: u64 = 0xffff_ffff;
    let [mut a, mut b, mut c, mut d] = counter.map(u64::from);
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let p = u64::from(MULTIPLIER[0]) * (a & WORD);
        let q = u64::from(MULTIPLIER[1]) * (c & WORD);
        (a, c) = ((q >> 32) ^ b ^ u64::from(k0), (p >> 32) ^ d ^ u64::from(k1));
        (b, d) = (q, p);
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [a, b, c, d].map(|word| word as u32)
}

/// Streams are made in groups of this many consecutive elements.
pub const GROUP: usize = 256;
const BLOCKS: usize = GROUP / 4;

/// One group of a stream. Element w·64 + b is word w of the group's block b: that order keeps vector lanes apart
/// whatever their number.
pub(crate) type Group<T> = [T; GROUP];

vectorized! {
    fn words_of_group(key: NoiseKey, group: u64, out: &mut Group<u32>) {
        let first = group.wrapping_mul(BLOCKS as u64);
        let [lo, hi] = [first as u32, (first >> 32) as u32];
        let (a, rest) = out.split_at_mut(BLOCKS);
        let (b, rest) = rest.split_at_mut(BLOCKS);
        let (c, d) = rest.split_at_mut(BLOCKS);
        for (i, (((a, b), c), d)) in a.iter_mut().zip(b).zip(c).zip(d).enumerate() {
            // `first` is a multiple of 64, so adding the block's number never carries.
            [*a, *b, *c, *d] = philox4x32_10([lo | i as u32, hi, key.high[0], key.high[1]], key.key);
        }
    }

    /// Box–Muller: words 0 and 1 of each block make two normals, words 2 and 3 two more.
    fn normals_of_words(words: &Group<u32>, out: &mut Group<f32>) {
        // Four pairs side by side: a logarithm is a chain of operations that each wait for the one before, and four
        // chains keep the processor busy.
        for i in 0..BLOCKS / 2 {
            let at = |l: usize| (l % 2) * 2 * BLOCKS + (l / 2) * (BLOCKS / 2) + i;
            let first: [u32; 4] = std::array::from_fn(|l| words[at(l)]);
            let second: [u32; 4] = std::array::from_fn(|l| words[at(l) + BLOCKS]);
            let radius = vmath::ln_of_unit(first.map(open_unit)).map(|ln| (-2.0 * ln).sqrt());
            let angle = vmath::sin_cos_of_words(second);
            for (l, (radius, (sin, cos))) in radius.iter().zip(&angle).enumerate() {
                out[at(l)] = radius * cos;
                out[at(l) + BLOCKS] = radius * sin;
            }
        }
    }
}

/// 23 bits as a number of [0, 1).
#[inline(always)]
fn unit(x: u32) -> f32 {
    f32::from_bits(0x3f80_0000 | (x >> 9)) - 1.0
}

/// All 32 bits as a number of [2⁻³³, 1]: the middle of the cell, so never zero, and fine near zero, where the
/// tails of the normal come from (up to 6.76 standard deviations).
#[inline(always)]
fn open_unit(x: u32) -> f32 {
    // 1 + the upper 23 bits, and 2⁻²³·(1 + the lower nine and a half): the differences are exact, the sum is not.
    let high = f32::from_bits(0x3f80_0000 | (x >> 9));
    let low = f32::from_bits(0x3400_2000 | ((x & 0x1ff) << 14));
    (high - (1.0 + f32::EPSILON)) + low
}

/// Elements `[256·group, 256·group + 256)` of the stream of standard normals.
#[inline]
pub(crate) fn normal_group(key: NoiseKey, group: u64, out: &mut Group<f32>) {
    let mut words = [0; GROUP];
    words_of_group(key, group, &mut words);
    normals_of_words(&words, out);
}

/// Elements `[first, first + out.len())` of the key's stream of 32-bit words.
pub fn random_words(key: NoiseKey, first: u64, out: &mut [u32]) {
    fill(first, out, |group, buffer| words_of_group(key, group, buffer));
}

/// Elements `[first, first + out.len())` of the key's stream of standard normals.
pub fn normals(key: NoiseKey, first: u64, out: &mut [f32]) {
    fill(first, out, |group, buffer| normal_group(key, group, buffer));
}

/// Elements `[first, first + out.len())` of the key's stream of uniforms in [0, 1), 23 bits each.
pub fn uniforms(key: NoiseKey, first: u64, out: &mut [f32]) {
    fill(first, out, |group, buffer: &mut Group<f32>| {
        let mut words = [0; GROUP];
        words_of_group(key, group, &mut words);
        buffer.iter_mut().zip(words).for_each(|(u, w)| *u = unit(w));
    });
}

/// Calls `visit(first, normals)` for the pieces of `range` that lie in one group each, in order.
#[inline]
pub(crate) fn for_each_normal_group(key: NoiseKey, range: Range<usize>, mut visit: impl FnMut(usize, &[f32])) {
    let mut buffer = [0.0; GROUP];
    let mut first = range.start;
    while first < range.end {
        let (group, skip) = (first / GROUP, first % GROUP);
        let len = (range.end - first).min(GROUP - skip);
        normal_group(key, group as u64, &mut buffer);
        visit(first, &buffer[skip..skip + len]);
        first += len;
    }
}

/// Covers an arbitrary range of a stream with its groups.
fn fill<T: Copy + Default>(first: u64, mut out: &mut [T], make: impl Fn(u64, &mut Group<T>)) {
    let mut group = first / GROUP as u64;
    let mut skip = (first % GROUP as u64) as usize;
    while !out.is_empty() {
        let len = out.len().min(GROUP - skip);
        let (head, tail) = out.split_at_mut(len);
        if let Ok(whole) = head.try_into() {
            make(group, whole);
        } else {
            let mut buffer = [T::default(); GROUP];
            make(group, &mut buffer);
            head.copy_from_slice(&buffer[skip..skip + len]);
        }
        (out, skip, group) = (tail, 0, group.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `kat_vectors` of the Random123 distribution.
    #[test]
    fn philox_gives_the_published_known_answers() {
        assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox4x32_10([!0; 4], [!0; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let pi = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
        assert_eq!(philox4x32_10(pi, [0xa4093822, 0x299f31d0]), [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }

    #[test]
    fn a_group_is_philox_at_consecutive_counters() {
        let key = NoiseKey::new(7).child(Purpose::Weights);
        let mut group = [0; GROUP];
        words_of_group(key, (1 << 40) + 3, &mut group);
        let first = ((1u64 << 40) + 3) * BLOCKS as u64;
        for b in 0..BLOCKS {
            let [lo, hi] = words(first + b as u64);
            let block = philox4x32_10([lo, hi, key.high[0], key.high[1]], key.key);
            assert_eq!([0, 1, 2, 3].map(|w| group[w * BLOCKS + b]), block);
        }
    }

    #[test]
    fn any_range_of_a_stream_equals_that_part_of_the_whole() {
        let key = NoiseKey::new(3);
        let mut whole = vec![0.0; 1000];
        normals(key, 0, &mut whole);
        for (first, len) in [(0, 0), (0, 1), (1, 255), (255, 2), (256, 256), (300, 700), (999, 1)] {
            let mut part = vec![0.0; len];
            normals(key, first as u64, &mut part);
            assert_eq!(part, whole[first..first + len], "{first} + {len}");
        }
    }

    #[test]
    fn a_word_is_the_middle_of_its_cell_rounded_once() {
        let middle = |x: u32| ((f64::from(x) + 0.5) / 4_294_967_296.0) as f32;
        for x in (0..=u32::MAX).step_by(251).chain([u32::MAX]) {
            assert_eq!(open_unit(x), middle(x), "{x:#x}");
        }
    }

    #[test]
    fn the_smallest_and_largest_words_give_finite_normals() {
        assert_eq!(open_unit(0), 2f32.powi(-33));
        assert_eq!(open_unit(u32::MAX), 1.0);
        let mut z = [0.0; GROUP];
        normals_of_words(&[0; GROUP], &mut z);
        assert!((z[0] - 6.7637).abs() < 1e-3 && z[64] == 0.0, "{} {}", z[0], z[64]);
        normals_of_words(&[u32::MAX; GROUP], &mut z);
        assert!(z.iter().all(|z| z.abs() < 1e-3));
    }

    #[test]
    fn keys_differ_by_seed_purpose_step_and_layer() {
        let mut keys = std::collections::HashSet::new();
        for seed in 0..8 {
            for purpose in [Purpose::Weights, Purpose::Activations, Purpose::InputSigns] {
                for step in 0..16 {
                    for layer in 0..16 {
                        keys.insert(NoiseKey::new(seed).child(purpose).at(step, layer));
                    }
                }
            }
        }
        assert_eq!(keys.len(), 8 * 3 * 16 * 16);
    }
}
