//! What depends on the order of confidences: calibration in bins of equal mass, and risk against coverage.

use ktied_kernels::{NoiseKey, Purpose, noise};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::calibration::{NUM_BINS, NUM_REPLICATES, poisson};
use super::moments::Moments;
use super::ranks::{Cell, Ranked};

const MAX_POINTS: u64 = 200;

/// Examples by uncertainty, those that were classified wrongly being marked.
#[derive(Clone, Debug)]
pub struct Confidences {
    ranked: Ranked,
}

/// A point of the risk–coverage curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RiskPoint {
    /// The share of examples that are answered, the most confident first.
    pub coverage: f64,
    /// The share of wrong answers among them.
    pub risk: f64,
}

impl Confidences {
    pub fn new(max_cells: usize) -> Self {
        Self { ranked: Ranked::with_max_cells(max_cells) }
    }

    pub fn add(&mut self, uncertainty: f64, correct: bool) {
        self.ranked.add_marked(uncertainty, !correct);
    }

    /// [`adaptive_ece`] and [`aurc`].
    pub fn values(&self) -> [Option<f64>; 2] {
        let (cells, len) = (self.ranked.cells(), self.ranked.len());
        [adaptive_ece(&cells, len), aurc(&cells, len)]
    }

    /// The curve at 200 coverages or fewer, the last of them 1.
    pub fn risk_coverage(&self) -> Vec<RiskPoint> {
        let (len, mut points, mut seen, mut wrong) = (self.ranked.len(), vec![], 0, 0);
        for cell in self.ranked.cells() {
            let before = seen;
            (seen, wrong) = (seen + cell.count, wrong + cell.marked);
            let step = |count: u64| u128::from(count) * u128::from(MAX_POINTS) / u128::from(len);
            if step(seen) > step(before) {
                points.push(RiskPoint { coverage: seen as f64 / len as f64, risk: wrong as f64 / seen as f64 });
            }
        }
        points
    }

    /// Standard deviations of both over 200 bootstraps, as [`Bootstrap`](super::calibration::Bootstrap) makes them; they
    /// are made at the end, of the cells, since the order of a resampled set is known only then.
    pub fn standard_errors(&self, seed: u64) -> [Option<f64>; 2] {
        let key = NoiseKey::new(seed).child(Purpose::Bootstrap).child(Purpose::Shuffle);
        let replicates = (0..NUM_REPLICATES as u64).into_par_iter();
        let cells = self.ranked.cells();
        let replicates: Vec<_> = replicates.map(|number| replicate(&cells, key.fold(number))).collect();
        [0, 1].map(|metric| {
            let mut moments = Moments::default();
            replicates.iter().filter_map(|values| values[metric]).for_each(|value| moments.add(value));
            // One example is the same in every replicate.
            moments.standard_deviation().filter(|_| self.ranked.len() > 1)
        })
    }
}

/// Both metrics of a resampled set.
fn replicate(cells: &[Cell], key: NoiseKey) -> [Option<f64>; 2] {
    let mut weights = Weights::new(key);
    let cells: Vec<Cell> = cells.iter().map(|cell| weights.resample(cell)).collect();
    let len = cells.iter().map(|cell| cell.count).sum();
    [adaptive_ece(&cells, len), aurc(&cells, len)]
}

/// The calibration error over 15 bins that hold the same number of examples.
///
/// The sum over bins of |Σ (confidence − correct)|, over n; bin b has the examples from ⌊b·n/15⌋ on in the order of
/// confidence. A cell on an edge gives each side its share of all that is in it.
fn adaptive_ece(cells: &[Cell], len: u64) -> Option<f64> {
    let edge = |bin: u64| (u128::from(bin) * u128::from(len) / NUM_BINS as u128) as u64;
    let (mut gaps, mut bin, mut seen) = ([0.0; NUM_BINS], 0, 0);
    for cell in cells.iter().filter(|cell| cell.count > 0) {
        let gap = (cell.marked as f64 - cell.sum) / cell.count as f64;
        let end = seen + cell.count;
        while seen < end {
            while bin + 1 < NUM_BINS && edge(bin as u64 + 1) <= seen {
                bin += 1;
            }
            let next = end.min(edge(bin as u64 + 1));
            gaps[bin] += gap * (next - seen) as f64;
            seen = next;
        }
    }
    (len > 0).then(|| gaps.iter().map(|gap: &f64| gap.abs()).sum::<f64>() / len as f64)
}

/// The area under the risk–coverage curve: 1/n·Σᵢ (share of wrong among the i most confident).
///
/// Wrong answers of one confidence are spread evenly over its cell.
fn aurc(cells: &[Cell], len: u64) -> Option<f64> {
    let (mut seen, mut wrong, mut area) = (0.0, 0.0, 0.0);
    for cell in cells {
        let share = cell.marked as f64 / cell.count as f64;
        area += (1..=cell.count).map(|i| (wrong + share * i as f64) / (seen + i as f64)).sum::<f64>();
        (seen, wrong) = (seen + cell.count as f64, wrong + cell.marked as f64);
    }
    (len > 0).then(|| area / len as f64)
}

/// A stream of Poisson(1) weights.
struct Weights {
    key: NoiseKey,
    words: [u32; noise::GROUP],
    next: usize,
}

impl Weights {
    fn new(key: NoiseKey) -> Self {
        Self { key, words: [0; noise::GROUP], next: 0 }
    }

    fn next(&mut self) -> u64 {
        let place = self.next % noise::GROUP;
        if place == 0 {
            noise::random_words(self.key, self.next as u64, &mut self.words);
        }
        self.next += 1;
        poisson(self.words[place]) as u64
    }

    /// The cell with every example as often as its weight says.
    fn resample(&mut self, cell: &Cell) -> Cell {
        let marked = (0..cell.marked).map(|_| self.next()).sum();
        let count = marked + (cell.marked..cell.count).map(|_| self.next()).sum::<u64>();
        Cell { count, marked, sum: cell.sum / cell.count as f64 * count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::ranks::MAX_CELLS;

    fn confidences(examples: &[(f64, bool)]) -> Confidences {
        let mut confidences = Confidences::new(MAX_CELLS);
        examples.iter().for_each(|&(uncertainty, correct)| confidences.add(uncertainty, correct));
        confidences
    }

    fn aurc_of(confidences: &Confidences) -> f64 {
        confidences.values()[1].unwrap()
    }

    #[test]
    fn the_area_is_the_mean_risk_of_the_most_confident() {
        // In the order of confidence: right, wrong, right, wrong. Risks 0, ½, ⅓, ½.
        let some = confidences(&[(0.3, true), (0.1, true), (0.4, false), (0.2, false)]);
        assert!((aurc_of(&some) - (0.5 + 1.0 / 3.0 + 0.5) / 4.0).abs() < 1e-15);
        let risks: Vec<(f64, f64)> = some.risk_coverage().iter().map(|point| (point.coverage, point.risk)).collect();
        assert_eq!(risks, [(0.25, 0.0), (0.5, 0.5), (0.75, 1.0 / 3.0), (1.0, 0.5)]);
        assert_eq!(confidences(&[]).values(), [None, None]);
    }

    #[test]
    fn ties_share_their_risk_whatever_their_order() {
        let one = confidences(&[(0.5, true), (0.5, false), (0.1, true)]);
        let other = confidences(&[(0.5, false), (0.1, true), (0.5, true)]);
        // Risks 0, ½/2, 1/3.
        assert!((aurc_of(&one) - (0.25 + 1.0 / 3.0) / 3.0).abs() < 1e-15);
        assert_eq!(one.values(), other.values());
        assert_eq!(one.risk_coverage().len(), 2);
    }

    #[test]
    fn bins_of_equal_mass_divide_a_cell_on_their_edge() {
        // Thirty examples, two a bin. The first three are one cell with one wrong: bins get 2/3 and 1/3 of its gap.
        let mut examples = vec![(0.25, true), (0.25, false), (0.25, true)];
        examples.extend((3..30).map(|i| (0.3 + 0.01 * f64::from(i), true)));
        let gap: f64 = (1.0 - 0.75) / 3.0;
        let rest = |range: std::ops::Range<i32>| range.map(|i| -(0.3 + 0.01 * f64::from(i))).sum::<f64>();
        let expected = (2.0 * gap).abs() + (gap + rest(3..4)).abs() + rest(4..30).abs();
        assert!((confidences(&examples).values()[0].unwrap() - expected / 30.0).abs() < 1e-12);
    }

    #[test]
    fn the_curve_is_thinned_to_its_points_and_ends_at_everything() {
        let examples: Vec<(f64, bool)> = (0..12_345).map(|i| (f64::from(i) / 12_345.0, i % 3 != 0)).collect();
        let points = confidences(&examples).risk_coverage();
        assert!(points.len() <= 200 && points.len() > 190, "{}", points.len());
        assert_eq!(points.last().unwrap(), &RiskPoint { coverage: 1.0, risk: 4115.0 / 12_345.0 });
        assert!(points.is_sorted_by(|a, b| a.coverage < b.coverage));
    }

    #[test]
    fn bootstraps_of_the_area_agree_with_its_linearisation() {
        // Wrong with probability 0.3 whatever the confidence: the area is nearly a mean of errors with weights
        // λᵢ = Σ_{j ≥ i} 1/j, whose variance is 0.21·Σ λ²/n².
        const LEN: usize = 2000;
        let mut words = vec![0; LEN];
        noise::random_words(NoiseKey::new(8), 0, &mut words);
        let examples: Vec<(f64, bool)> =
            words.iter().enumerate().map(|(i, word)| (i as f64 / LEN as f64, word % 10 >= 3)).collect();
        let mut lambda = 0.0;
        let squares = (1..=LEN).rev().map(|j| {
            lambda += 1.0 / j as f64;
            lambda * lambda
        });
        let expected = (0.21 * squares.sum::<f64>()).sqrt() / LEN as f64;
        let found = confidences(&examples).standard_errors(1)[1].unwrap();
        // 200 replicates know it to 5 %, and this sample's few most confident errors weigh much: three times that.
        assert!((found / expected - 1.0).abs() < 0.2, "{found} {expected}");
        assert_eq!(confidences(&examples[..1]).standard_errors(1), [None, None]);
    }
}
