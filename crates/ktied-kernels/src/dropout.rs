//! Dropout: zeros at random, what stays made larger so that the mean stays; the mask is drawn from bits, never stored.
//!
//! Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, *Dropout: a simple way to prevent neural networks from
//! overfitting*, JMLR 2014; kept at prediction: Gal, Ghahramani, *Dropout as a Bayesian approximation*, ICML 2016.

use rayon::prelude::*;

use crate::NoiseKey;
use crate::error::{Check, Result};
use crate::noise::random_words;
use crate::par::CHUNK;
use crate::simd::vectorized;

/// p, the probability with which an element becomes zero: at least 0 and below 1.
///
/// ```
/// use ktied_kernels::dropout::DropoutRate;
/// assert_eq!(DropoutRate::new(0.25).map(DropoutRate::scale), Some(4.0 / 3.0));
/// assert!(DropoutRate::new(1.0).is_none() && DropoutRate::new(f64::NAN).is_none());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DropoutRate(f64);

impl DropoutRate {
    /// The rate, if it is one.
    pub fn new(rate: f64) -> Option<Self> {
        (0.0..1.0).contains(&rate).then_some(Self(rate))
    }

    /// p
    pub fn rate(self) -> f64 {
        self.0
    }

    /// 1/(1 − p), which what stays is multiplied with.
    pub fn scale(self) -> f32 {
        (1.0 / (1.0 - self.0)) as f32
    }

    /// An element becomes zero if its word is below this: p·2³², so p is exact to 2⁻³³.
    fn threshold(self) -> u32 {
        (self.0 * 4_294_967_296.0).round() as u32
    }
}

/// out = x∘m, where m is 0 with probability p and 1/(1 − p) else, drawn for every element. Its own backward pass.
///
/// Element i of the mask is a function of the key and `first` + i alone.
///
/// # Errors
/// If the lengths differ.
pub fn apply(out: &mut [f32], x: &[f32], rate: DropoutRate, (key, first): (NoiseKey, usize)) -> Result<()> {
    Check("dropout").len("out", out, x.len())?;
    let (threshold, scale) = (rate.threshold(), rate.scale());
    out.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).enumerate().for_each(|(c, (out, x))| {
        let mut words = vec![0; out.len()];
        random_words(key, (first + c * CHUNK) as u64, &mut words);
        mask(out, x, &words, threshold, scale);
    });
    Ok(())
}

vectorized! {
    fn mask(out: &mut [f32], x: &[f32], words: &[u32], threshold: u32, scale: f32) {
        for ((out, x), word) in out.iter_mut().zip(x).zip(words) {
            // A product, not a choice: a number that is not finite must not vanish from the loss.
            *out = x * if *word < threshold { 0.0 } else { scale };
        }
    }
}
