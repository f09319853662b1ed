//! A product cut into tiles: which parts of the operands are packed, and who computes what.

use rayon::prelude::*;

use super::pack::{Right, pack_left};
use super::tile::{Engine, Left, Tile};
use super::{Mat, Threads, Update};
use crate::scratch::with_scratch;

/// Most terms of a block: a panel of the right operand and a tile's rows of the left then stay near the first-level cache.
const MAX_BLOCK: usize = 400;
/// Elements of the right operand that are packed at once: half of a common second-level cache for each of two threads.
const SLAB: usize = 1 << 19;
/// Most tiles of rows that one task takes: its part of the left operand and of the sums stay in the second-level cache.
const TASK_TILES: usize = 20;
/// Fewest multiplications of a task: below, waking another thread costs more than it saves.
const MIN_TASK: usize = 1 << 18;
/// Most panels of columns for which a left operand whose terms lie far apart is read where it is: with more, packing it is worth the copy.
const MAX_UNPACKED: usize = 2;
/// Elements from term to term that are not far: a tile then touches few pages, and its lines come from the second-level cache in time.
const NEAR: usize = 160;

/// Cuts `inner` terms into blocks of about the same number: start and length of each.
fn blocks(inner: usize) -> impl Iterator<Item = (usize, usize)> {
    let num_blocks = inner.div_ceil(MAX_BLOCK).max(1);
    (0..num_blocks).map(move |b| (b * inner / num_blocks, (b + 1) * inner / num_blocks - b * inner / num_blocks))
}

fn is_worth_dividing(a: Mat<'_>, cols: usize, threads: Threads) -> bool {
    threads == Threads::All && a.rows * cols * a.cols >= 2 * MIN_TASK
}

/// dst = a·b or dst += a·b. Sizes were checked and are not zero.
pub(super) fn multiply(
    engine: &'static Engine,
    dst: &mut [f32],
    a: Mat<'_>,
    b: Mat<'_>,
    update: Update,
    threads: Threads,
) {
    let in_parallel = is_worth_dividing(a, b.cols, threads);
    let mut joins = update == Update::Accumulate;
    let mut rest = blocks(a.cols).peekable();
    let mut slab = Vec::new();
    while let Some((start, first)) = rest.next() {
        let mut terms = first;
        slab.clear();
        slab.push((0, first));
        while let Some((next, len)) = rest.next_if(|(_, len)| (terms + len) * b.cols <= SLAB) {
            slab.push((next - start, len));
            terms += len;
        }
        Right::of_engine(engine, &[b.part(start, terms, 0, b.cols)], in_parallel, |right| {
            divide(dst, a.part(0, a.rows, start, terms), right, &slab, joins, in_parallel);
        });
        joins = true;
    }
}

/// dst = a·b or dst += a·b, with b packed. Sizes were checked and are not zero.
pub(super) fn multiply_packed(dst: &mut [f32], a: Mat<'_>, right: Right<'_>, update: Update, threads: Threads) {
    let blocks: Vec<_> = blocks(a.cols).collect();
    let in_parallel = is_worth_dividing(a, right.shape().1, threads);
    divide(dst, a, right, &blocks, update == Update::Accumulate, in_parallel);
}

/// A destination that several tasks write, each its own rows and columns.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// SAFETY: tasks write disjoint elements.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Divides rows, and columns where there are few rows, into tasks.
fn divide(dst: &mut [f32], a: Mat<'_>, right: Right<'_>, blocks: &[(usize, usize)], joins: bool, in_parallel: bool) {
    let (engine, panels, cols) = (right.engine(), right.num_panels(), right.shape().1);
    assert!(dst.len() == a.rows * cols && right.shape().0 == a.cols);
    // As many as end together on all threads, two for each, so that one that is held up elsewhere is helped.
    let threads = if in_parallel { rayon::current_num_threads() } else { 1 };
    let enough = if in_parallel { (2 * threads).min(a.rows * cols * a.cols / MIN_TASK) } else { 1 };
    let num_tiles = a.rows.div_ceil(engine.rows);
    let num_rows = num_tiles.div_ceil(TASK_TILES).max(enough).next_multiple_of(threads).min(num_tiles);
    let num_cols = enough.div_ceil(num_rows).clamp(1, panels);
    let shared = Shared(dst.as_mut_ptr());
    let run = |task: usize| {
        let (i, j) = (task / num_cols, task % num_cols);
        let rows = (i * a.rows / num_rows, (i + 1) * a.rows / num_rows);
        let panels = (j * panels / num_cols, (j + 1) * panels / num_cols);
        part(shared, a, right, blocks, joins, rows, panels);
    };
    if in_parallel {
        (0..num_rows * num_cols).into_par_iter().for_each(run);
    } else {
        (0..num_rows * num_cols).for_each(run);
    }
}

/// The sums of `rows` (first and end) in `panels` of columns (first and end).
fn part(
    dst: Shared,
    a: Mat<'_>,
    right: Right<'_>,
    blocks: &[(usize, usize)],
    mut joins: bool,
    rows: (usize, usize),
    panels: (usize, usize),
) {
    let (engine, (_, cols)) = (right.engine(), right.shape());
    let is_packed = a.col_stride > NEAR && panels.1 - panels.0 > MAX_UNPACKED;
    let stride = engine.rows.next_multiple_of(engine.lanes);
    let tiles = engine.cuts(rows.1 - rows.0);
    for &(start, terms) in blocks {
        let tile_len = stride * terms;
        with_scratch(if is_packed { tiles.len() * tile_len } else { 0 }, |packed| {
            if is_packed {
                for ((first, count), packed) in tiles.clone().zip(packed.chunks_mut(tile_len)) {
                    pack_left(engine, packed, stride, a.part(rows.0 + first, count, start, terms));
                }
            }
            // One tile for all: what is the same is written once, which counts where products are small.
            let mut tile = Tile {
                a: a.data.as_ptr(),
                left: if is_packed { Left::Neighbours { stride } } else { a.left() },
                runs: &[0],
                run_len: terms,
                b: a.data.as_ptr(),
                b_stride: engine.cols,
                b_run: 0,
                c: dst.0,
                c_stride: cols,
                rows: 0,
                cols: 0,
                joins,
            };
            for panel in panels.0..panels.1 {
                let (panel, columns) = right.panel(panel);
                tile.b = panel[start * engine.cols..].as_ptr();
                tile.cols = columns.len();
                for (t, (first, count)) in tiles.clone().enumerate() {
                    let row = rows.0 + first;
                    let from = if is_packed { &packed[t * tile_len..] } else { a.part(row, count, start, terms).data };
                    tile.a = from.as_ptr();
                    tile.c = dst.0.wrapping_add(row * cols + columns.start);
                    tile.rows = count;
                    // SAFETY: rows, columns and terms of the tile are within a, the panel and dst, whose sizes were made sure of;
                    // no other task has these rows and columns of dst.
                    unsafe { (engine.tile)(&tile) };
                }
            }
        });
        joins = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that products and sums round.
    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
    }

    fn with_engine(
        engine: &'static Engine,
        [rows, inner, cols]: [usize; 3],
        turned: [bool; 2],
        threads: Threads,
    ) -> Vec<f32> {
        let (a, b) = (numbers(rows * inner, 1), numbers(inner * cols, 2));
        let a = if turned[0] { Mat::new(&a, inner, rows).map(Mat::t) } else { Mat::new(&a, rows, inner) };
        let b = if turned[1] { Mat::new(&b, cols, inner).map(Mat::t) } else { Mat::new(&b, inner, cols) };
        let mut dst = vec![1.0; rows * cols];
        multiply(engine, &mut dst, a.unwrap(), b.unwrap(), Update::Accumulate, threads);
        dst
    }

    /// The last is packed in three parts.
    const SIZES: [[usize; 3]; 7] =
        [[1, 1, 1], [3, 17, 5], [15, 33, 31], [29, 450, 70], [300, 64, 33], [64, 1000, 17], [3, 3000, 400]];

    #[test]
    fn every_instruction_set_multiplies() {
        for (sizes, turned) in
            SIZES.into_iter().flat_map(|s| [[false; 2], [false, true], [true, false], [true; 2]].map(|t| (s, t)))
        {
            let [rows, inner, cols] = sizes;
            let (a, b) = (numbers(rows * inner, 1), numbers(inner * cols, 2));
            for engine in Engine::all() {
                let found = with_engine(engine, sizes, turned, Threads::One);
                for (e, found) in found.iter().enumerate() {
                    let (i, j) = (e / cols, e % cols);
                    let at = |t: usize| {
                        let a = a[if turned[0] { t * rows + i } else { i * inner + t }];
                        let b = b[if turned[1] { j * inner + t } else { t * cols + j }];
                        f64::from(a) * f64::from(b)
                    };
                    let exact = 1.0 + (0..inner).map(at).sum::<f64>();
                    // A sum of n terms below one in size errs by less than n roundings of numbers below n, mostly far less.
                    let bound = 1e-7 * (inner as f64 + 8.0) * (inner as f64).sqrt().max(1.0);
                    assert!(
                        (f64::from(*found) - exact).abs() <= bound,
                        "{sizes:?} {turned:?} at {i}, {j}: {found}, not {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn engines_that_round_once_have_the_same_bits_on_any_number_of_threads() {
        let rounding_once: Vec<_> = Engine::all().into_iter().filter(|engine| engine.lanes > 4).collect();
        for sizes in SIZES {
            let of = |engine, threads| with_engine(engine, sizes, [true, false], threads);
            for pair in rounding_once.windows(2) {
                assert_eq!(of(pair[0], Threads::One), of(pair[1], Threads::All), "{sizes:?}");
            }
        }
    }

    #[test]
    fn a_packed_operand_gives_the_bits_of_one_that_is_not() {
        let (a, b) = (numbers(40 * 900, 1), numbers(900 * 50, 2));
        let (a, b) = (Mat::new(&a, 40, 900).unwrap(), Mat::new(&b, 900, 50).unwrap());
        let (mut plain, mut packed) = (vec![0.0; 2000], vec![0.0; 2000]);
        multiply(Engine::widest(), &mut plain, a, b, Update::Overwrite, Threads::One);
        Right::with(b, true, |b| multiply_packed(&mut packed, a, b, Update::Overwrite, Threads::All));
        assert_eq!(plain, packed);
    }
}
