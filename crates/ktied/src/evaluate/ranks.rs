//! Examples in the order of a score, in bounded memory.

use std::borrow::Cow;

/// Cells that are held apart; beyond them scores lose bits.
pub const MAX_CELLS: usize = 1 << 20;
/// Examples that may wait before they are put in order.
const MIN_WAITING: usize = 1 << 10;

/// Examples by a score, for everything that depends on their order alone.
///
/// Examples of equal score share a cell, so ties stay ties. Scores are held in single precision; if there are more than
/// 2²⁰ different ones, the last bit of all is dropped and neighbours are merged, as often as it takes. Memory is therefore
/// about 130 MB at most, whatever the number of examples, and their order does not matter.
///
/// ```
/// use ktied::evaluate::Ranked;
/// let known: Ranked = [0.1, 0.2, 0.2, 0.3].into_iter().collect();
/// let strange: Ranked = [0.2, 0.4].into_iter().collect();
/// let found = known.detect(&strange).unwrap();
/// // 0.4 is above all four; 0.2 is above one and ties with two: (4 + 1 + 2·½) of 8 pairs.
/// assert_eq!(found.auroc, 0.75);
/// ```
#[derive(Clone, Debug)]
pub struct Ranked {
    /// By key, each once; and after them, from `settled` on, examples in the order in which they came.
    cells: Vec<(u32, Cell)>,
    settled: usize,
    /// Bits dropped so far.
    shift: u32,
    max_cells: usize,
    len: u64,
}

/// Examples of one score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    pub count: u64,
    /// How many of them are marked: classified wrongly, say.
    pub marked: u64,
    /// Σ score, in double precision.
    pub sum: f64,
}

impl Cell {
    fn take_in(&mut self, other: &Self) {
        self.count += other.count;
        self.marked += other.marked;
        self.sum += other.sum;
    }
}

impl Default for Ranked {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.in_order(), other.in_order());
        (a.shift, &a.cells) == (b.shift, &b.cells)
    }
}

impl Ranked {
    /// No example yet.
    pub fn new() -> Self {
        Self::with_max_cells(MAX_CELLS)
    }

    /// The same with another limit.
    pub(super) fn with_max_cells(max_cells: usize) -> Self {
        Self { cells: vec![], settled: 0, shift: 0, max_cells, len: 0 }
    }

    /// Takes in an example. One whose score is not a number is above all others.
    pub fn add(&mut self, score: f64) {
        self.add_marked(score, false);
    }

    pub(super) fn add_marked(&mut self, score: f64, marked: bool) {
        let cell = Cell { count: 1, marked: u64::from(marked), sum: score };
        self.cells.push((ordered_bits(score) >> self.shift, cell));
        self.len += 1;
        // As many may wait as are in order, so that sorting costs each example a logarithm and no more.
        if self.cells.len() - self.settled >= self.settled.max(MIN_WAITING) {
            self.settle();
        }
    }

    /// Number of examples.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Different scores that are held apart, 2²⁰ at most.
    pub fn num_cells(&self) -> usize {
        self.in_order().cells.len()
    }

    /// From the lowest score to the highest.
    pub(super) fn cells(&self) -> Vec<Cell> {
        self.in_order().cells.iter().map(|(_, cell)| *cell).collect()
    }

    /// How many examples either set has in each cell, from the highest score to the lowest.
    pub(super) fn descending_with(&self, other: &Self) -> Vec<[u64; 2]> {
        let (one, other) = (self.in_order(), other.in_order());
        let shift = one.shift.max(other.shift);
        let keys = |set: &Self| set.cells.iter().map(|(key, cell)| (key >> (shift - set.shift), cell.count)).collect();
        let [one, other]: [Vec<(u32, u64)>; 2] = [keys(&one), keys(&other)];
        let one = one.into_iter().map(|(key, count)| (key, [count, 0]));
        let mut both: Vec<_> = one.chain(other.into_iter().map(|(key, count)| (key, [0, count]))).collect();
        both.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
        merge(&mut both, |kept, next| *kept = [kept[0] + next[0], kept[1] + next[1]]);
        both.into_iter().map(|(_, counts)| counts).collect()
    }

    fn in_order(&self) -> Cow<'_, Self> {
        if self.settled == self.cells.len() {
            return Cow::Borrowed(self);
        }
        let mut ranked = self.clone();
        ranked.settle();
        Cow::Owned(ranked)
    }

    /// Puts those that wait in order. The sort is stable, so sums are in the order in which examples came.
    fn settle(&mut self) {
        self.cells.sort_by_key(|(key, _)| *key);
        merge(&mut self.cells, Cell::take_in);
        while self.cells.len() > self.max_cells && self.shift < 31 {
            self.cells.iter_mut().for_each(|(key, _)| *key >>= 1);
            merge(&mut self.cells, Cell::take_in);
            self.shift += 1;
        }
        self.settled = self.cells.len();
    }
}

/// Makes one of neighbours with the same key.
fn merge<T>(cells: &mut Vec<(u32, T)>, take_in: impl Fn(&mut T, &T)) {
    cells.dedup_by(|(key, next), (kept_key, kept)| {
        let same = key == kept_key;
        if same {
            take_in(kept, next);
        }
        same
    });
}

impl Extend<f64> for Ranked {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, scores: T) {
        scores.into_iter().for_each(|score| self.add(score));
    }
}

impl FromIterator<f64> for Ranked {
    fn from_iter<T: IntoIterator<Item = f64>>(scores: T) -> Self {
        let mut ranked = Self::new();
        ranked.extend(scores);
        ranked
    }
}

/// Bits of a score in single precision, such that integers are in the order of the numbers.
fn ordered_bits(score: f64) -> u32 {
    if score.is_nan() {
        return u32::MAX;
    }
    // Adding 0 turns −0 into 0.
    let bits = (score as f32 + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

#[cfg(test)]
mod tests {
    use ktied_kernels::{NoiseKey, noise};

    use super::*;

    #[test]
    fn the_order_of_bits_is_that_of_numbers() {
        let numbers = [f64::NEG_INFINITY, -3.5, -1e-30, 0.0, 1e-42, 1e-30, 0.1, 0.2, 7.0, f64::INFINITY, f64::NAN];
        let bits = numbers.map(ordered_bits);
        assert!(bits.is_sorted_by(|a, b| a < b), "{bits:?}");
        assert_eq!(ordered_bits(-0.0), ordered_bits(0.0));
    }

    #[test]
    fn equal_scores_share_a_cell_and_cells_are_in_order() {
        let ranked: Ranked = [0.5, -1.0, 0.5, 2.0].into_iter().collect();
        let cells: Vec<(u64, f64)> = ranked.cells().iter().map(|cell| (cell.count, cell.sum)).collect();
        assert_eq!(cells, [(1, -1.0), (2, 1.0), (1, 2.0)]);
        assert_eq!((ranked.len(), ranked.num_cells(), ranked.is_empty()), (4, 3, false));
    }

    #[test]
    fn three_million_different_scores_stay_bounded_and_separate_as_they_would_in_full() {
        const LEN: usize = 1_500_000;
        let (mut words, mut exact) = (vec![0; 2 * LEN], 0.0);
        noise::random_words(NoiseKey::new(2), 0, &mut words);
        // Inside u², outside u of uniform numbers: P(outside > inside) = P(u > v²) = ∫ 1 − v² dv = 2/3.
        let (mut inside, mut outside) = (Ranked::new(), Ranked::new());
        let mut numbers = [Vec::new(), Vec::new()];
        for (i, word) in words.into_iter().enumerate() {
            let uniform = (f64::from(word) + 0.5) / 4_294_967_296.0;
            let (set, score) = if i < LEN { (0, uniform * uniform) } else { (1, uniform) };
            if set == 0 {
                inside.add(score)
            } else {
                outside.add(score)
            }
            numbers[set].push(score);
        }
        for set in [&mut inside, &mut outside] {
            assert!(set.cells.len() <= 2 * MAX_CELLS, "{} cells and examples", set.cells.len());
            set.settle();
            assert!(set.num_cells() <= MAX_CELLS && set.shift > 0, "{} cells", set.num_cells());
        }
        assert_eq!(inside.len() + outside.len(), 2 * LEN as u64);
        numbers.iter_mut().for_each(|set| set.sort_unstable_by(f64::total_cmp));
        let mut below = 0;
        for score in &numbers[1] {
            while below < LEN && numbers[0][below] < *score {
                below += 1;
            }
            exact += below as f64;
        }
        exact /= (LEN * LEN) as f64;
        let found = inside.detect(&outside).unwrap().auroc;
        assert!((found - exact).abs() < 1e-6, "{found} {exact}");
        // Four standard deviations of an AUROC of 1.5 million each are below 4/(2√1.5e6).
        assert!((found - 2.0 / 3.0).abs() < 2e-3, "{found}");
    }

    #[test]
    fn very_few_cells_move_the_area_by_less_than_a_thousandth() {
        let mut uniforms = vec![0.0; 200_000];
        noise::uniforms(NoiseKey::new(3), 0, &mut uniforms);
        let (below, above) = uniforms.split_at(100_000);
        let area = |max_cells: usize| {
            let [mut inside, mut outside] = [(); 2].map(|()| Ranked::with_max_cells(max_cells));
            inside.extend(below.iter().map(|u| f64::from(u * u)));
            outside.extend(above.iter().map(|u| f64::from(*u)));
            assert!(inside.num_cells() <= max_cells && outside.num_cells() <= max_cells);
            inside.detect(&outside).unwrap().auroc
        };
        let exact = area(MAX_CELLS);
        for max_cells in [10_000, 1_000] {
            assert!((area(max_cells) - exact).abs() < 1e-3, "{max_cells} cells");
        }
    }
}
