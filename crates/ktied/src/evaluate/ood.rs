//! Telling examples that are unlike the training data from those that are like it, by how uncertain the network is.

use serde::{Deserialize, Serialize};

use super::ranks::Ranked;

/// How well a score tells outside (positive) from inside; ties count half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Area under the ROC curve: the chance that an example from outside scores above one from inside. ½ is guessing.
    pub auroc: f64,
    /// Average precision, Σ (Rₙ − Rₙ₋₁)·Pₙ over thresholds, outside being positive. The share of outside is guessing.
    pub aupr: f64,
    /// The share of inside that a threshold takes for outside if it finds 95 % of outside, or just more.
    pub fpr95: f64,
}

impl Ranked {
    /// How well these scores, of examples from inside, stay below those from outside; nothing if either is empty.
    pub fn detect(&self, outside: &Self) -> Option<Detection> {
        if self.is_empty() || outside.is_empty() {
            return None;
        }
        let (negatives, positives) = (self.len() as f64, outside.len() as f64);
        let (mut taken, mut area, mut aupr, mut fpr95) = ([0u64; 2], 0.0, 0.0, None);
        for [inside, outside] in self.descending_with(outside) {
            area += inside as f64 * (taken[1] as f64 + 0.5 * outside as f64);
            taken = [taken[0] + inside, taken[1] + outside];
            aupr += outside as f64 / positives * (taken[1] as f64 / (taken[0] + taken[1]) as f64);
            if taken[1] as f64 >= 0.95 * positives {
                fpr95.get_or_insert(taken[0] as f64 / negatives);
            }
        }
        Some(Detection { auroc: area / (negatives * positives), aupr, fpr95: fpr95.unwrap_or(1.0) })
    }
}

/// The uncertainties of a set of examples, which need no labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uncertainties {
    /// H of the average prediction.
    pub entropy: Ranked,
    /// H of the average prediction less the average H of the draws: what the draws do not agree on.
    pub mutual_information: Ranked,
}

/// How well uncertainty tells one set of examples from another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfDistribution {
    /// By the entropy of the average prediction.
    pub entropy: Detection,
    /// By the mutual information of prediction and weights.
    pub mutual_information: Detection,
    /// Examples from inside.
    pub inside: u64,
    /// Examples from outside.
    pub outside: u64,
}

impl Uncertainties {
    /// How well they stay below those of examples from outside; nothing if either set is empty.
    ///
    /// ```
    /// use ktied::evaluate::Uncertainties;
    /// let [mut inside, mut outside] = [Uncertainties::default(), Uncertainties::default()];
    /// inside.entropy.extend([0.1, 0.4]);
    /// inside.mutual_information.extend([0.0, 0.1]);
    /// outside.entropy.extend([0.3, 0.9]);
    /// outside.mutual_information.extend([0.2, 0.5]);
    /// let found = inside.detect(&outside).unwrap();
    /// assert_eq!((found.entropy.auroc, found.mutual_information.auroc), (0.75, 1.0));
    /// ```
    pub fn detect(&self, outside: &Self) -> Option<OutOfDistribution> {
        Some(OutOfDistribution {
            entropy: self.entropy.detect(&outside.entropy)?,
            mutual_information: self.mutual_information.detect(&outside.mutual_information)?,
            inside: self.entropy.len(),
            outside: outside.entropy.len(),
        })
    }

    pub(super) fn add(&mut self, entropy: f64, mutual_information: f64) {
        self.entropy.add(entropy);
        self.mutual_information.add(mutual_information);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(inside: &[f64], outside: &[f64]) -> Option<Detection> {
        let ranked = |scores: &[f64]| scores.iter().copied().collect::<Ranked>();
        ranked(inside).detect(&ranked(outside))
    }

    #[test]
    fn scores_that_separate_are_perfect_and_equal_ones_are_guessing() {
        let perfect = detect(&[-2.0, -1.0], &[0.0, 0.5, 3.0]).unwrap();
        assert_eq!(perfect, Detection { auroc: 1.0, aupr: 1.0, fpr95: 0.0 });
        let guessing = detect(&[0.5; 3], &[0.5]).unwrap();
        assert_eq!(guessing, Detection { auroc: 0.5, aupr: 0.25, fpr95: 1.0 });
        let reversed = detect(&[2.0, 3.0], &[1.0]).unwrap();
        assert_eq!(reversed, Detection { auroc: 0.0, aupr: 1.0 / 3.0, fpr95: 1.0 });
        assert_eq!((detect(&[], &[1.0]), detect(&[1.0], &[])), (None, None));
    }

    #[test]
    fn the_threshold_of_95_percent_takes_all_that_tie_with_it() {
        // 19 of 20 outside lie above everything; the last ties with one of two inside.
        let mut outside = vec![9.0; 19];
        outside.push(1.0);
        assert_eq!(detect(&[1.0, 0.0], &outside).unwrap().fpr95, 0.0);
        outside.push(1.0);
        assert_eq!(detect(&[1.0, 0.0], &outside).unwrap().fpr95, 0.5);
    }
}
