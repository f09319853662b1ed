//! Work in fixed pieces: the same cuts and the same order of addition on any number of threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::noise::GROUP;

/// Elements that one task of an elementwise kernel takes; a multiple of [`GROUP`], so no group of noise is cut.
pub(crate) const CHUNK: usize = 64 * GROUP;

/// How many rows of `row_len` elements make about one [`CHUNK`].
pub(crate) fn rows_per_chunk(row_len: usize) -> usize {
    (CHUNK / row_len.max(1)).max(1)
}

/// Most parts of a sum that are in memory at once.
const MAX_PARTS: usize = 256;

/// How many of `num_rows` rows of `row_len` elements one task takes whose result is as long as a row: about one [`CHUNK`], but so many that
/// the results of a wide matrix do not take as much memory as the matrix.
pub(crate) fn rows_per_part(num_rows: usize, row_len: usize) -> usize {
    rows_per_chunk(row_len).max(num_rows.div_ceil(MAX_PARTS))
}

/// Runs `task` on every chunk of `len` elements and returns the results in the order of the chunks.
pub(crate) fn map_chunks<T: Send>(len: usize, chunk: usize, task: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let chunk = chunk.max(1);
    let range = |c: usize| c * chunk..len.min((c + 1) * chunk);
    match len.div_ceil(chunk) {
        0 => Vec::new(),
        1 => vec![task(range(0))],
        count => (0..count).into_par_iter().map(|c| task(range(c))).collect(),
    }
}

/// Adds the parts to `total` element by element, first part first.
pub(crate) fn add_in_order(total: &mut [f32], parts: &[Vec<f32>]) {
    for part in parts {
        total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
    }
}

/// Lanes of a running sum: wide enough for any vector unit and the same on all of them.
pub(crate) const LANES: usize = 16;

/// Adds the lanes, always in the same order.
#[inline(always)]
pub(crate) fn sum_lanes(lanes: [f32; LANES]) -> f32 {
    let mut half = [0.0; LANES / 2];
    for (h, (a, b)) in half.iter_mut().zip(lanes[..8].iter().zip(&lanes[8..])) {
        *h = a + b;
    }
    ((half[0] + half[4]) + (half[1] + half[5])) + ((half[2] + half[6]) + (half[3] + half[7]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_everything_once_and_in_order() {
        for len in [0, 1, 9, 10, 11, 30] {
            let all: Vec<usize> = map_chunks(len, 10, |range| range.collect::<Vec<_>>()).concat();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_wide_matrix_has_no_more_parts_than_a_long_one() {
        assert_eq!(rows_per_part(784, 400), rows_per_chunk(400));
        assert_eq!(rows_per_part(8192, 8192), 32);
        assert_eq!(rows_per_part(0, 0), CHUNK);
    }

    #[test]
    fn lanes_sum_to_the_whole() {
        assert_eq!(sum_lanes(std::array::from_fn(|i| i as f32)), 120.0);
    }
}
