//! The expected calibration error, and its bootstrap over examples.

use ktied_kernels::{NoiseKey, Purpose, noise};

use serde::{Deserialize, Serialize};

use super::moments::Moments;

pub const NUM_BINS: usize = 15;
pub const NUM_REPLICATES: usize = 200;

/// Examples by confidence, in bins of equal width.
///
/// ECE = Σ_b (n_b/n)·|accuracy_b − mean confidence_b| = Σ_b |Σ_{i in b} (confidenceᵢ − correctᵢ)| / n, so a bin is one sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bins {
    /// Σ w·(confidence − correct) in each bin.
    gaps: [f64; NUM_BINS],
    /// Σ w
    weight: f64,
}

impl Bins {
    pub fn add(&mut self, confidence: f64, correct: f64, weight: f64) {
        self.gaps[bin(confidence)] += weight * (confidence - correct);
        self.weight += weight;
    }

    pub fn ece(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.gaps.iter().map(|gap| gap.abs()).sum::<f64>() / self.weight)
    }
}

/// Bin b holds (b/15, (b + 1)/15], the edges being the doubles nearest to these fractions.
fn bin(confidence: f64) -> usize {
    (1..NUM_BINS).filter(|&edge| confidence > edge as f64 / NUM_BINS as f64).count()
}

/// The same bins as they are drawn in a reliability diagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reliability {
    /// Examples, Σ confidence and Σ correct of each bin.
    bins: [(u64, f64, f64); NUM_BINS],
}

/// A bar of the reliability diagram: the examples whose confidence is in (lower, upper].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Confidences above this,
    pub lower: f64,
    /// up to this.
    pub upper: f64,
    /// Examples.
    pub count: u64,
    /// Their mean confidence; absent without examples.
    pub confidence: Option<f64>,
    /// The share of them that is classified rightly.
    pub accuracy: Option<f64>,
}

impl Reliability {
    pub fn add(&mut self, confidence: f64, correct: f64) {
        let (count, confidences, corrects) = &mut self.bins[bin(confidence)];
        *count += 1;
        *confidences += confidence;
        *corrects += correct;
    }

    pub fn bins(&self) -> Vec<ReliabilityBin> {
        let edge = |b: usize| b as f64 / NUM_BINS as f64;
        let bars = self.bins.iter().enumerate().map(|(b, &(count, confidences, corrects))| {
            let mean = |sum: f64| (count > 0).then(|| sum / count as f64);
            let (lower, upper) = (edge(b), edge(b + 1));
            ReliabilityBin { lower, upper, count, confidence: mean(confidences), accuracy: mean(corrects) }
        });
        bars.collect()
    }
}

/// The calibration error of 200 resampled test sets.
///
/// A bootstrap draws n examples with replacement, which needs all of them at hand. Here every example instead comes
/// Poisson(1) times into each replicate, independently of all others: the number of times that a bootstrap takes it is
/// Binomial(n, 1/n), and only their fixed sum is given up, which dividing by the replicate's own weight makes good
/// (Chamandy et al., *Estimating uncertainty for massive data streams*, 2012). The weight of an example is a function of
/// seed, example and replicate alone.
#[derive(Debug)]
pub struct Bootstrap {
    seed: u64,
    key: NoiseKey,
    replicates: Vec<Bins>,
}

impl Bootstrap {
    pub fn new(seed: u64) -> Self {
        let key = NoiseKey::new(seed).child(Purpose::Bootstrap);
        Self { seed, key, replicates: vec![Bins::default(); NUM_REPLICATES] }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn add(&mut self, example: u64, confidence: f64, correct: f64) {
        let mut words = [0; NUM_REPLICATES];
        noise::random_words(self.key.fold(example), 0, &mut words);
        for (replicate, word) in self.replicates.iter_mut().zip(words) {
            replicate.add(confidence, correct, poisson(word));
        }
    }

    /// The standard deviation over replicates; those of very few examples may be empty and do not count.
    pub fn standard_error(&self) -> Option<f64> {
        let mut moments = Moments::default();
        self.replicates.iter().filter_map(Bins::ece).for_each(|ece| moments.add(ece));
        moments.standard_deviation()
    }
}

/// A Poisson(1) number by inversion: how many of P(X ≤ 0), P(X ≤ 1), … lie at or below word/2³².
pub fn poisson(word: u32) -> f64 {
    let (mut count, mut probability) = (0.0, 1.0 / std::f64::consts::E);
    let (mut cumulative, uniform) = (probability, f64::from(word) / 4_294_967_296.0);
    // Ends: the largest word is 2⁻³² below 1, which twelve terms come closer to.
    while uniform >= cumulative {
        count += 1.0;
        probability /= count;
        cumulative += probability;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(bins: &mut Bins, (confidence, correct): (f64, bool)) {
        bins.add(confidence, f64::from(u8::from(correct)), 1.0);
    }

    #[test]
    fn an_edge_belongs_to_the_bin_below_it() {
        for b in 1..NUM_BINS {
            let edge = b as f64 / NUM_BINS as f64;
            assert_eq!((bin(edge), bin(edge.next_up())), (b - 1, b));
        }
        assert_eq!((bin(0.0), bin(1.0)), (0, NUM_BINS - 1));
    }

    #[test]
    fn the_error_is_the_weighted_gap_of_each_bin() {
        let mut bins = Bins::default();
        assert_eq!(bins.ece(), None);
        // 0.61 and 0.65 share a bin (9/15, 10/15], whose gap is |1.26 − 1|; 0.6 = 9/15 is in the bin below.
        let examples = [(0.61, true), (0.65, false), (0.6, true), (0.95, true)];
        examples.into_iter().for_each(|example| add(&mut bins, example));
        assert!((bins.ece().unwrap() - (0.26 + 0.4 + 0.05) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn the_diagram_has_what_the_error_is_made_of() {
        let (mut bins, mut reliability) = (Bins::default(), Reliability::default());
        for (confidence, correct) in [(0.61, 1.0), (0.65, 0.0), (0.6, 1.0), (0.95, 1.0)] {
            bins.add(confidence, correct, 1.0);
            reliability.add(confidence, correct);
        }
        let bars = reliability.bins();
        let ninth = ReliabilityBin {
            lower: 9.0 / 15.0,
            upper: 10.0 / 15.0,
            count: 2,
            confidence: Some(0.63),
            accuracy: Some(0.5),
        };
        assert_eq!((bars.len(), bars[9]), (15, ninth));
        assert_eq!((bars[0].count, bars[0].accuracy), (0, None));
        let gaps = bars.iter().filter_map(|bar| Some(bar.count as f64 * (bar.confidence? - bar.accuracy?).abs()));
        assert!((gaps.sum::<f64>() / 4.0 - bins.ece().unwrap()).abs() < 1e-15);
    }

    #[test]
    fn bootstrap_weights_are_poisson() {
        let expected = |count: u32| (1..=count).fold((-1.0f64).exp(), |p, k| p / f64::from(k));
        let (mut words, mut counts) = (vec![0; 100_000], [0.0; 5]);
        noise::random_words(NoiseKey::new(1), 0, &mut words);
        let weights: Vec<f64> = words.into_iter().map(poisson).collect();
        weights.iter().filter(|w| **w < 5.0).for_each(|w| counts[*w as usize] += 1.0);
        for (count, found) in counts.into_iter().enumerate() {
            let p = expected(count as u32);
            // Four standard deviations of a share of 100,000.
            assert!((found / 1e5 - p).abs() < 4.0 * (p * (1.0 - p) / 1e5).sqrt(), "{count}: {found} {p}");
        }
        assert_eq!((poisson(0), poisson(u32::MAX)), (0.0, 12.0));
    }

    #[test]
    fn the_bootstrap_of_a_single_bin_is_the_standard_error_of_its_gap() {
        let (mut bootstrap, mut gaps) = (Bootstrap::new(3), Moments::default());
        for i in 0..2000u32 {
            // All in the bin (14/15, 1]; one in five is wrong, so the gap never changes its sign.
            let (confidence, correct) = (0.95 + 0.04 * f64::from(i % 7) / 6.0, f64::from(u8::from(i % 5 != 0)));
            bootstrap.add(i.into(), confidence, correct);
            gaps.add(confidence - correct);
        }
        let ratio = bootstrap.standard_error().unwrap() / gaps.standard_error().unwrap();
        // A standard deviation of 200 normals is known to 1/√(2·199) of itself; four of those.
        assert!((ratio - 1.0).abs() < 4.0 / (2.0 * 199.0f64).sqrt(), "{ratio}");
    }

    #[test]
    fn the_bootstrap_agrees_with_one_that_draws_examples_with_replacement() {
        const EXAMPLES: usize = 500;
        let mut noise = vec![0.0; 2 * EXAMPLES];
        noise::uniforms(NoiseKey::new(5).child(Purpose::Synthetic), 0, &mut noise);
        let examples: Vec<(f64, bool)> = noise.chunks(2).map(|u| (f64::from(0.3 + 0.7 * u[0]), u[1] < 0.6)).collect();
        let mut bootstrap = Bootstrap::new(3);
        for (i, &(confidence, correct)) in (0..).zip(&examples) {
            bootstrap.add(i, confidence, f64::from(u8::from(correct)));
        }

        const REPLICATES: usize = 4000;
        let (mut words, mut errors) = (vec![0; EXAMPLES], Moments::default());
        for replicate in 0..REPLICATES {
            let mut bins = Bins::default();
            noise::random_words(NoiseKey::new(6).fold(replicate as u64), 0, &mut words);
            words.iter().for_each(|word| add(&mut bins, examples[*word as usize % EXAMPLES]));
            errors.add(bins.ece().unwrap());
        }
        let ratio = bootstrap.standard_error().unwrap() / errors.standard_deviation().unwrap();
        // Both are standard deviations of samples: of 200 and of 4,000.
        let tolerance = 4.0 * (1.0 / 398.0 + 1.0 / (2.0 * (REPLICATES - 1) as f64)).sqrt();
        assert!((ratio - 1.0).abs() < tolerance, "{ratio}");
    }
}
