//! Permutations as a pure function of a key.

use ktied_kernels::{NoiseKey, noise};

/// The numbers 0 to `len − 1` in a random order: every order equally likely, the same for the same key.
///
/// Fisher–Yates from the last place down; place i takes one of the i + 1 numbers not yet placed.
///
/// ```
/// use ktied::data::shuffle::permutation;
/// use ktied_kernels::{NoiseKey, Purpose};
/// let key = NoiseKey::new(42).child(Purpose::Shuffle);
/// let mut order = permutation(5, key);
/// assert_eq!(order, permutation(5, key));
/// order.sort();
/// assert_eq!(order, [0, 1, 2, 3, 4]);
/// ```
pub fn permutation(len: usize, key: NoiseKey) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut words = Words::new(key);
    for place in (1..len).rev() {
        let chosen = below(place as u64 + 1, || words.next());
        order.swap(place, chosen as usize);
    }
    order
}

/// A number of [0, bound), each equally likely, from uniform 64-bit words; `bound` must not be zero.
///
/// The upper half of word × bound is nearly uniform; refusing the 2⁶⁴ mod bound smallest lower halves makes it
/// exactly so (Lemire, *Fast random integer generation in an interval*, ACM TOMACS 2019).
fn below(bound: u64, mut next_word: impl FnMut() -> u64) -> u64 {
    let refused = bound.wrapping_neg() % bound;
    loop {
        let product = u128::from(next_word()) * u128::from(bound);
        if product as u64 >= refused {
            return (product >> 64) as u64;
        }
    }
}

/// The stream of a key, taken as 64-bit words from the first on: two 32-bit words each, the lower half first.
struct Words {
    key: NoiseKey,
    next: u64,
    buffer: [u32; noise::GROUP],
}

impl Words {
    fn new(key: NoiseKey) -> Self {
        Self { key, next: 0, buffer: [0; noise::GROUP] }
    }

    fn next(&mut self) -> u64 {
        let place = (self.next % noise::GROUP as u64) as usize;
        if place == 0 {
            noise::random_words(self.key, self.next, &mut self.buffer);
        }
        self.next += 2;
        let (pairs, _) = self.buffer.as_chunks::<2>();
        pairs.get(place / 2).map_or(0, |[low, high]| u64::from(*low) | u64::from(*high) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktied_kernels::Purpose;

    fn key(seed: u64) -> NoiseKey {
        NoiseKey::new(seed).child(Purpose::Shuffle)
    }

    #[test]
    fn a_permutation_holds_every_number_once() {
        for len in [0, 1, 2, 3, 127, 128, 129, 1000] {
            let mut order = permutation(len, key(1));
            order.sort_unstable();
            assert_eq!(order, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn keys_give_different_orders() {
        assert_ne!(permutation(100, key(1)), permutation(100, key(2)));
    }

    /// 24,000 permutations of 4: each of the 24 orders is counted about 1,000 times. The sum of
    /// (count − 1000)²/1000 is χ² with 23 degrees of freedom, which exceeds 60 once in 30,000 times.
    #[test]
    fn every_order_is_equally_likely() {
        let mut counts = std::collections::HashMap::new();
        for seed in 0..24_000 {
            *counts.entry(permutation(4, key(seed))).or_insert(0.0) += 1.0;
        }
        let chi2: f64 = counts.values().map(|count: &f64| (count - 1000.0).powi(2) / 1000.0).sum();
        assert_eq!(counts.len(), 24);
        assert!(chi2 < 60.0, "{chi2}");
    }

    /// 2⁶⁴ mod 3 = 1, so exactly one word of all, zero, must be refused.
    #[test]
    fn the_word_that_would_favour_a_number_is_refused() {
        let mut words = [0, 1, u64::MAX].into_iter();
        assert_eq!(below(3, || words.next().unwrap()), 0);
        assert_eq!(words.len(), 1, "zero was refused and one was taken");
        assert_eq!(below(3, || words.next().unwrap()), 2);
    }

    #[test]
    fn words_follow_the_stream_of_the_key() {
        let mut stream = vec![0; 600];
        noise::random_words(key(5), 0, &mut stream);
        let mut words = Words::new(key(5));
        for pair in stream.chunks_exact(2) {
            assert_eq!(words.next(), u64::from(pair[0]) | u64::from(pair[1]) << 32);
        }
    }
}
