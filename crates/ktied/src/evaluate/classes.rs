//! Probabilities of classes: from logits, and what an average of them says and leaves open.

/// Turns logits into probabilities in place and returns what else their normalisation gives.
pub fn softmax(logits: &mut [f64]) -> Normalization {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let best = logits.iter().position(|logit| *logit == max).unwrap_or(0);
    // The largest term is 1 and kept apart, so that ln Σ of a network that is sure of itself is not rounded to 0.
    let (mut others, mut weighted) = (0.0, 0.0);
    let (before, rest) = logits.split_at_mut(best);
    let (first, after) = rest.split_at_mut(rest.len().min(1));
    for logit in before.iter_mut().chain(after) {
        let below = max - *logit;
        *logit = (-below).exp();
        others += *logit;
        weighted += *logit * below;
    }
    first.fill(1.0);
    let scale = 1.0 / (1.0 + others);
    logits.iter_mut().for_each(|probability| *probability *= scale);
    let log_sum = others.ln_1p();
    Normalization { max, log_sum, entropy: log_sum + weighted * scale }
}

/// What making probabilities of logits z gives besides.
#[derive(Clone, Copy, Debug)]
pub struct Normalization {
    max: f64,
    /// ln Σ exp(z − max)
    log_sum: f64,
    /// −Σ p ln p = ln Σ eᶻ − Σ p z, in nats: no logarithm but that of the sum.
    pub entropy: f64,
}

impl Normalization {
    /// ln p of the class of this logit; finite even where p is not different from 0.
    pub fn log_probability(&self, logit: f64) -> f64 {
        (logit - self.max) - self.log_sum
    }
}

/// What an average prediction says, and what it leaves open; needs no label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opinion {
    /// The most probable class; of equals the first.
    pub class: usize,
    /// Its probability.
    pub confidence: f64,
    /// 1 − confidence as the sum of all other probabilities: accurate near 0.
    pub uncertainty: f64,
    /// −Σ p ln p
    pub entropy: f64,
    /// The average over draws of theirs: what remains open when the weights are known.
    pub expected_entropy: f64,
    /// The difference, which is never negative: what the weights do not agree on.
    pub mutual_information: f64,
}

/// Differences of entropies below this share of them are rounding.
const ROUNDING: f64 = 1e-12;

impl Opinion {
    pub fn new(probabilities: &[f64], expected_entropy: f64) -> Self {
        let (mut class, mut confidence) = (0, 0.0);
        for (other, &p) in probabilities.iter().enumerate() {
            if p > confidence {
                (class, confidence) = (other, p);
            }
        }
        let others = || probabilities.iter().enumerate().filter(|(other, _)| *other != class).map(|(_, p)| *p);
        let uncertainty: f64 = others().sum();
        let ln_confidence = if uncertainty < 0.5 { (-uncertainty).ln_1p() } else { confidence.ln() };
        let entropy = others().filter(|p| *p > 0.0).map(|p| -p * p.ln()).sum::<f64>() - confidence * ln_confidence;
        let entropy = entropy.max(0.0);
        let difference = entropy - expected_entropy;
        let mutual_information = if difference > ROUNDING * entropy { difference } else { 0.0 };
        Self { class, confidence, uncertainty, entropy, expected_entropy, mutual_information }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_of_a_probability_that_underflows_is_still_finite() {
        let mut logits = [0.0, 2000.0];
        let normalization = softmax(&mut logits);
        assert_eq!((logits, normalization.log_probability(0.0)), ([0.0, 1.0], -2000.0));
        assert_eq!(normalization.entropy, 0.0);
    }

    #[test]
    fn entropy_from_the_normalisation_is_that_of_the_probabilities() {
        for logits in [[0.3, -1.0, 2.5, 0.0], [0.0; 4], [50.0, 10.0, -3.0, 49.0]] {
            let mut p = logits;
            let found = softmax(&mut p).entropy;
            let expected: f64 = p.iter().map(|p| -p * p.ln()).sum();
            assert!((found - expected).abs() < 1e-14, "{found} {expected}");
        }
    }

    #[test]
    fn what_a_sure_network_leaves_open_is_not_rounded_to_nothing() {
        let mut p = [0.0, 40.0];
        let normalization = softmax(&mut p);
        // e⁻⁴⁰ of the other class: H = e⁻⁴⁰·(1 + 40), to first order.
        let other = (-40.0f64).exp();
        assert!((normalization.entropy / (41.0 * other) - 1.0).abs() < 1e-12);
        let opinion = Opinion::new(&p, normalization.entropy);
        assert!((opinion.uncertainty / other - 1.0).abs() < 1e-12);
        assert!((opinion.entropy / (41.0 * other) - 1.0).abs() < 1e-12);
        assert_eq!((opinion.class, opinion.confidence, opinion.mutual_information), (1, 1.0, 0.0));
        assert!((normalization.log_probability(40.0) / -other - 1.0).abs() < 1e-12);
    }

    #[test]
    fn two_draws_that_contradict_each_other_share_nothing_but_doubt() {
        // Each draw is sure, of another class: all of ln 2 is about the weights.
        let opinion = Opinion::new(&[0.5, 0.5], 0.0);
        let ln_2 = std::f64::consts::LN_2;
        assert!((opinion.entropy - ln_2).abs() < 1e-15 && (opinion.mutual_information - ln_2).abs() < 1e-15);
        assert_eq!((opinion.class, opinion.uncertainty), (0, 0.5));
    }
}
