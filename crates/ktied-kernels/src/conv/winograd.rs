//! Convolution by 3×3 or 5×5 windows that move by one pixel, with fewer products than the windows have.
//!
//! Winograd's minimal filtering F(2×2, r×r): four outputs come of a tile d of (r + 1)×(r + 1) pixels and a window g as
//! Y = Aᵀ\[(G g Gᵀ) ∘ (Bᵀ d B)\]A: of 16 products where the windows have 36, or of 36 where they have 100. Over tiles, channels and
//! outputs, ∘ is one matrix product for each place of a tile. With the transforms turned round the same products give the gradient
//! of the weights.
//!
//! The transforms evaluate polynomials at few points and find them again. For 3×3 the points are 0, ±1 and ∞, so that the result
//! errs little more than the sum itself. For 5×5 they are 0, ±1/√2, ±√2 and ∞: of the sets of which pairs share their terms these
//! cancel least (against 0, ±1, ±2 and ∞ the error is less than half).
//!
//! A. Lavin, S. Gray, *Fast algorithms for convolutional neural networks*, CVPR 2016.

#![allow(clippy::needless_range_loop, reason = "rows and columns of a tile are indices of several arrays at once")]

use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::ops::Range;

use rayon::prelude::*;

use crate::activation::Activation;
use crate::conv::Gradient;
use crate::conv::shape::{Conv2dShape, Plan};
use crate::conv::windows::{Lines, is_like_its_image, with_lines};
use crate::error::Result;
use crate::gemm::{Mat, Right, Threads, Update, product_packed};
use crate::par::CHUNK;
use crate::rows::finish;
use crate::scratch::with_scratch;
use crate::simd::vectorized;

/// Channels that are transformed at once.
const LANES: usize = 16;
/// Fewest channels and outputs for which the products are worth the transforms.
const MIN_CHANNELS: usize = 32;
/// Most weights of a place: above, the transformed weights of all places no longer fit into the caches.
const MAX_WEIGHTS: usize = 1 << 16;
/// Fewest tiles: with fewer, transforming the weights costs as much as it saves.
const MIN_TILES: usize = 512;
/// Elements between the places of a buffer beyond what they hold: without them all would lie in one set of the cache.
const APART: usize = 16;
/// About how many tiles one task transforms and multiplies.
const TILES: usize = 64;
/// Most transformed weights of which every group of lines sums a gradient of its own.
const MAX_PRIVATE: usize = 1 << 17;
/// Groups of lines with a gradient of their own.
const NUM_GROUPS: usize = 8;
/// About how many transformed numbers are in memory at once for the gradient of more weights.
const GROUP: usize = 1 << 20;

/// Windows that can be computed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// 3×3
    Three,
    /// 5×5
    Five,
}

impl Window {
    fn taps(self) -> usize {
        match self {
            Self::Three => 9,
            Self::Five => 25,
        }
    }

    /// Places of a tile.
    fn places(self) -> usize {
        match self {
            Self::Three => 16,
            Self::Five => 36,
        }
    }
}

/// The window of a convolution that can be computed so, and gains by it.
pub(super) fn suits(plan: &Plan) -> Option<Window> {
    let Conv2dShape { channels, outputs, kernel, stride, .. } = plan.shape;
    let window = match kernel {
        [3, 3] => Window::Three,
        [5, 5] => Window::Five,
        _ => return None,
    };
    let is_wide = |size: usize| size >= MIN_CHANNELS && size.is_multiple_of(LANES);
    let gains = is_like_its_image(plan)
        && stride == [1, 1]
        && plan.out_height.is_multiple_of(2)
        && plan.out_width.is_multiple_of(2)
        && [channels, outputs].into_iter().all(is_wide)
        && channels * outputs <= MAX_WEIGHTS
        && plan.num_rows() / 4 >= MIN_TILES;
    gains.then_some(window)
}

/// y = act(x ⋆ w + b), as [`super::forward`].
pub(super) fn convolve(
    window: Window,
    y: &mut [f32],
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    plan: &Plan,
    activation: Activation,
) -> Result<()> {
    let (lines, line) = (lines_per_task(plan), line_len(plan));
    with_weights(window, weight, plan, |weights| {
        y.par_chunks_mut(lines * line).enumerate().try_for_each(|(task, y)| {
            multiply(window, y, x, weights, plan, task * lines)?;
            finish(y, bias, activation);
            Ok(())
        })
    })?
}

/// Runs `task` on the weights, transformed and packed, those of all places one after another.
pub(super) fn with_weights<T>(
    window: Window,
    weight: &[f32],
    plan: &Plan,
    task: impl FnOnce(Right<'_>) -> T,
) -> Result<T> {
    let Conv2dShape { channels, outputs, .. } = plan.shape;
    with_scratch(window.places() * channels * outputs, |weights| {
        transform_weights(window, weights, weight);
        Ok(Right::with(Mat::new(weights, window.places() * channels, outputs)?, true, task))
    })
}

/// z = x ⋆ w of whole lines of tiles, from the line `first` on; the calling thread does it.
///
/// - z: `[lines, 2, OW, O]`
pub(super) fn multiply(
    window: Window,
    z: &mut [f32],
    x: &[f32],
    weights: Right<'_>,
    plan: &Plan,
    first: usize,
) -> Result<()> {
    let Conv2dShape { channels, outputs, .. } = plan.shape;
    let here = first..first + z.len() / line_len(plan);
    let tiles = here.len() * (plan.out_width / 2);
    let (inputs_len, sums_len) = (buffer_len(window, tiles * channels), buffer_len(window, tiles * outputs));
    with_scratch(inputs_len + sums_len, |scratch| {
        let (inputs, sums) = scratch.split_at_mut(inputs_len);
        transform_inputs(window, inputs, x, plan, here);
        for place in 0..window.places() {
            let input = Mat::new(of_place(window, inputs, place), tiles, channels)?;
            let weight = weights.part(place * channels, channels);
            product_packed(of_place_mut(window, sums, place), input, weight, Update::Overwrite, Threads::One)?;
        }
        transform_sums(window, z, sums, plan.out_width, outputs);
        Ok(())
    })
}

/// dW = Σ over windows of windowᵀ·dz, as [`super::backward_weight`].
pub(super) fn sum_weights(
    window: Window,
    dweight: &mut [f32],
    dz: &impl Gradient,
    x: &[f32],
    plan: &Plan,
) -> Result<()> {
    let Conv2dShape { channels, outputs, .. } = plan.shape;
    let len = window.places() * channels * outputs;
    let sum = if len <= MAX_PRIVATE { sum_by_lines } else { sum_by_places };
    with_scratch(len, |dweights| {
        sum(window, dweights, dz, x, plan)?;
        gather_weights(window, dweight, dweights);
        Ok(())
    })
}

/// Few weights: the lines are divided into groups, each sums into a gradient of its own, and these are added in order.
fn sum_by_lines(window: Window, dweights: &mut [f32], dz: &impl Gradient, x: &[f32], plan: &Plan) -> Result<()> {
    let (task_lines, num_lines) = (lines_per_task(plan), num_lines(plan));
    let group_lines = num_lines.div_ceil(task_lines).div_ceil(NUM_GROUPS) * task_lines;
    let len = dweights.len();
    with_scratch(num_lines.div_ceil(group_lines) * len, |parts| {
        parts.par_chunks_mut(len).enumerate().try_for_each(|(group, part)| {
            part.fill(0.0);
            let lines = group * group_lines..num_lines.min((group + 1) * group_lines);
            for start in lines.clone().step_by(task_lines) {
                let here = start..lines.end.min(start + task_lines);
                with_scratch(task_len(window, plan, here.len()), |scratch| {
                    let terms = Terms::transform(window, scratch, dz, x, plan, here)?;
                    let mut places = part.chunks_mut(len / window.places()).enumerate();
                    places.try_for_each(|(place, dweight)| terms.accumulate(dweight, place))
                })?;
            }
            Ok(())
        })?;
        let parts = &*parts;
        dweights.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, dweights)| {
            dweights.fill(0.0);
            for part in parts.chunks(len) {
                dweights.iter_mut().zip(&part[chunk * CHUNK..]).for_each(|(d, p)| *d += p);
            }
        });
        Ok(())
    })
}

/// Many weights: the places are divided, and each task sums over all tiles, of which a group after another is transformed.
fn sum_by_places(window: Window, dweights: &mut [f32], dz: &impl Gradient, x: &[f32], plan: &Plan) -> Result<()> {
    let (task_lines, num_lines) = (lines_per_task(plan), num_lines(plan));
    let task_len = task_len(window, plan, task_lines);
    let group_lines = (GROUP / task_len).max(1) * task_lines;
    let place_len = dweights.len() / window.places();
    dweights.fill(0.0);
    for first in (0..num_lines).step_by(group_lines) {
        let group = first..num_lines.min(first + group_lines);
        with_scratch(group.len().div_ceil(task_lines) * task_len, |scratch| {
            let tasks = scratch.par_chunks_mut(task_len).enumerate();
            let terms = tasks.map(|(task, scratch)| {
                let start = group.start + task * task_lines;
                Terms::transform(window, scratch, dz, x, plan, start..group.end.min(start + task_lines))
            });
            let terms = terms.collect::<Result<Vec<_>>>()?;
            let places = dweights.par_chunks_mut(place_len).enumerate();
            places.try_for_each(|(place, dweight)| terms.iter().try_for_each(|terms| terms.accumulate(dweight, place)))
        })?;
    }
    Ok(())
}

/// What the gradient of the weights is a sum of, over the tiles of some lines.
struct Terms<'a> {
    window: Window,
    /// `[places, tiles, C]`, the places [`APART`]
    inputs: &'a [f32],
    /// `[places, tiles, O]`, in panels, the places [`APART`]
    gradients: &'a [f32],
    tiles: usize,
    channels: usize,
    outputs: usize,
}

impl<'a> Terms<'a> {
    /// Those of the lines `here`, in the beginning of `scratch`.
    fn transform(
        window: Window,
        scratch: &'a mut [f32],
        dz: &impl Gradient,
        x: &[f32],
        plan: &Plan,
        here: Range<usize>,
    ) -> Result<Self> {
        let Conv2dShape { channels, outputs, .. } = plan.shape;
        let tiles = here.len() * (plan.out_width / 2);
        let (inputs, rest) = scratch.split_at_mut(buffer_len(window, tiles * channels));
        let gradients = &mut rest[..buffer_len(window, tiles * Right::padded(outputs))];
        transform_inputs(window, inputs, x, plan, here.clone());
        dz.with_lines(2 * here.start..2 * here.end, plan, |dz| {
            transform_gradients(window, gradients, dz, plan.out_width, outputs);
            Ok(())
        })?;
        Ok(Self { window, inputs, gradients, tiles, channels, outputs })
    }

    /// dweight `[C, O]` of a place += their sum.
    fn accumulate(&self, dweight: &mut [f32], place: usize) -> Result<()> {
        let inputs = Mat::new(of_place(self.window, self.inputs, place), self.tiles, self.channels)?;
        let gradients = Right::of_panels(of_place(self.window, self.gradients, place), self.tiles, self.outputs);
        product_packed(dweight, inputs.t(), gradients, Update::Accumulate, Threads::One)
    }
}

/// Elements that [`Terms`] of so many lines have.
fn task_len(window: Window, plan: &Plan, num_lines: usize) -> usize {
    let tiles = num_lines * (plan.out_width / 2);
    buffer_len(window, tiles * plan.shape.channels) + buffer_len(window, tiles * Right::padded(plan.shape.outputs))
}

/// Bᵀ d B of the tiles of some lines: x `[B, H, W, C]` → `[places, tiles, C]`, the places [`APART`].
fn transform_inputs(window: Window, out: &mut [f32], x: &[f32], plan: &Plan, lines: Range<usize>) {
    with_lines(x, plan, 2 * lines.start..2 * lines.end, |lines| {
        transform_lines(window, out, &lines, plan.out_width / 2, plan.shape.channels);
    });
}

/// Lines of tiles, each two rows of an output image.
fn num_lines(plan: &Plan) -> usize {
    plan.num_lines() / 2
}

/// Outputs of such a line.
fn line_len(plan: &Plan) -> usize {
    2 * plan.out_width * plan.shape.outputs
}

/// Lines that one task takes: of any number of images.
pub(super) fn lines_per_task(plan: &Plan) -> usize {
    (TILES / (plan.out_width / 2).max(1)).max(1)
}

/// Elements of a buffer with `len` for every place.
fn buffer_len(window: Window, len: usize) -> usize {
    window.places() * (len + APART)
}

/// What such a buffer holds of a place.
fn of_place(window: Window, all: &[f32], place: usize) -> &[f32] {
    let stride = all.len() / window.places();
    &all[place * stride..(place + 1) * stride - APART]
}

/// The same, to be written.
fn of_place_mut(window: Window, all: &mut [f32], place: usize) -> &mut [f32] {
    let stride = all.len() / window.places();
    &mut all[place * stride..(place + 1) * stride - APART]
}

/// G g Gᵀ of every window: `[taps, C, O]` → `[places, C, O]`.
fn transform_weights(window: Window, weights: &mut [f32], weight: &[f32]) {
    let len = weight.len() / window.taps();
    runs_of(weights, len).into_par_iter().zip(runs_of_const(weight, len)).for_each(|(mut out, taps)| {
        transform_weight_run(window, &mut out, &taps);
    });
}

/// Gᵀ u G of the sums of every pair of channels: `[places, C, O]` → `[taps, C, O]`.
fn gather_weights(window: Window, dweight: &mut [f32], dweights: &[f32]) {
    let len = dweight.len() / window.taps();
    runs_of(dweight, len).into_par_iter().zip(runs_of_const(dweights, len)).for_each(|(mut out, places)| {
        gather_weight_run(window, &mut out, &places);
    });
}

/// Of a matrix with rows of `len` elements, one [`CHUNK`] of columns after another.
fn runs_of(matrix: &mut [f32], len: usize) -> Vec<Vec<&mut [f32]>> {
    let mut rows: Vec<_> = matrix.chunks_mut(len).map(|row| row.chunks_mut(CHUNK)).collect();
    (0..len.div_ceil(CHUNK)).map(|_| rows.iter_mut().filter_map(Iterator::next).collect()).collect()
}

/// The same, to be read.
fn runs_of_const(matrix: &[f32], len: usize) -> Vec<Vec<&[f32]>> {
    let mut rows: Vec<_> = matrix.chunks(len).map(|row| row.chunks(CHUNK)).collect();
    (0..len.div_ceil(CHUNK)).map(|_| rows.iter_mut().filter_map(Iterator::next).collect()).collect()
}

/// Neighbouring channels. What follows is loops over arrays and not closures, which would not be compiled for the level in use.
type Lanes = [f32; LANES];

const ZERO: Lanes = [0.0; LANES];

#[inline(always)]
fn plus(a: Lanes, b: Lanes) -> Lanes {
    let mut sum = a;
    for (sum, b) in sum.iter_mut().zip(b) {
        *sum += b;
    }
    sum
}

#[inline(always)]
fn minus(a: Lanes, b: Lanes) -> Lanes {
    let mut difference = a;
    for (difference, b) in difference.iter_mut().zip(b) {
        *difference -= b;
    }
    difference
}

#[inline(always)]
fn times(factor: f32, a: Lanes) -> Lanes {
    let mut product = a;
    for product in &mut product {
        *product *= factor;
    }
    product
}

/// The transforms of one dimension, of tiles of `SIDE` pixels and windows of `TAPS`.
trait Filter<const SIDE: usize, const TAPS: usize> {
    /// Bᵀd
    fn of_inputs(d: [Lanes; SIDE]) -> [Lanes; SIDE];
    /// Aᵀm
    fn of_sums(m: [Lanes; SIDE]) -> [Lanes; 2];
    /// A dy
    fn of_gradients(dy: [Lanes; 2]) -> [Lanes; SIDE];
    /// G g
    fn of_weights(g: [Lanes; TAPS]) -> [Lanes; SIDE];
    /// Gᵀu
    fn to_weights(u: [Lanes; SIDE]) -> [Lanes; TAPS];
}

/// F(2, 3) at 0, ±1 and ∞.
struct Three;

impl Filter<4, 3> for Three {
    #[inline(always)]
    fn of_inputs([a, b, c, d]: [Lanes; 4]) -> [Lanes; 4] {
        [minus(a, c), plus(b, c), minus(c, b), minus(b, d)]
    }

    #[inline(always)]
    fn of_sums([a, b, c, d]: [Lanes; 4]) -> [Lanes; 2] {
        [plus(plus(a, b), c), minus(minus(b, c), d)]
    }

    #[inline(always)]
    fn of_gradients([a, b]: [Lanes; 2]) -> [Lanes; 4] {
        [a, plus(a, b), minus(a, b), minus(ZERO, b)]
    }

    #[inline(always)]
    fn of_weights([a, b, c]: [Lanes; 3]) -> [Lanes; 4] {
        let (ends, middle) = (times(0.5, plus(a, c)), times(0.5, b));
        [a, plus(ends, middle), minus(ends, middle), c]
    }

    #[inline(always)]
    fn to_weights([a, b, c, d]: [Lanes; 4]) -> [Lanes; 3] {
        let middle = times(0.5, plus(b, c));
        [plus(a, middle), times(0.5, minus(b, c)), plus(middle, d)]
    }
}

/// F(2, 5) at 0, ±1/√2, ±√2 and ∞. A point and its negative share the sums of the even terms and, but for the sign, of the odd ones.
struct Five;

impl Filter<6, 5> for Five {
    #[inline(always)]
    fn of_inputs([a, b, c, d, e, f]: [Lanes; 6]) -> [Lanes; 6] {
        let (low_even, low_odd) = (minus(e, times(2.0, c)), times(FRAC_1_SQRT_2, minus(d, times(2.0, b))));
        let (high_even, high_odd) = (minus(e, times(0.5, c)), times(SQRT_2, minus(d, times(0.5, b))));
        [
            plus(minus(a, times(2.5, c)), e),
            plus(low_even, low_odd),
            minus(low_even, low_odd),
            plus(high_even, high_odd),
            minus(high_even, high_odd),
            plus(minus(b, times(2.5, d)), f),
        ]
    }

    #[inline(always)]
    fn of_sums([a, b, c, d, e, f]: [Lanes; 6]) -> [Lanes; 2] {
        let odd = plus(times(FRAC_1_SQRT_2, minus(b, c)), times(SQRT_2, minus(d, e)));
        [plus(plus(a, plus(b, c)), plus(d, e)), plus(odd, f)]
    }

    #[inline(always)]
    fn of_gradients([a, b]: [Lanes; 2]) -> [Lanes; 6] {
        let (low, high) = (times(FRAC_1_SQRT_2, b), times(SQRT_2, b));
        [a, plus(a, low), minus(a, low), plus(a, high), minus(a, high), b]
    }

    #[inline(always)]
    fn of_weights([a, b, c, d, e]: [Lanes; 5]) -> [Lanes; 6] {
        let low_even = times(-2.0 / 3.0, plus(a, plus(times(0.5, c), times(0.25, e))));
        let low_odd = times(-2.0 / 3.0 * FRAC_1_SQRT_2, plus(b, times(0.5, d)));
        let high_even = times(1.0 / 6.0, plus(a, plus(times(2.0, c), times(4.0, e))));
        let high_odd = times(1.0 / 6.0 * SQRT_2, plus(b, times(2.0, d)));
        [a, plus(low_even, low_odd), minus(low_even, low_odd), plus(high_even, high_odd), minus(high_even, high_odd), e]
    }

    #[inline(always)]
    fn to_weights([a, b, c, d, e, f]: [Lanes; 6]) -> [Lanes; 5] {
        let (low_even, low_odd) = (times(-2.0 / 3.0, plus(b, c)), times(-2.0 / 3.0 * FRAC_1_SQRT_2, minus(b, c)));
        let (high_even, high_odd) = (times(1.0 / 6.0, plus(d, e)), times(1.0 / 6.0 * SQRT_2, minus(d, e)));
        [
            plus(a, plus(low_even, high_even)),
            plus(low_odd, high_odd),
            plus(times(0.5, low_even), times(2.0, high_even)),
            plus(times(0.5, low_odd), times(2.0, high_odd)),
            plus(plus(times(0.25, low_even), times(4.0, high_even)), f),
        ]
    }
}

#[inline(always)]
fn load(x: &[f32], at: usize) -> Lanes {
    let mut lanes = ZERO;
    lanes.copy_from_slice(&x[at..at + LANES]);
    lanes
}

#[inline(always)]
fn store(x: &mut [f32], at: usize, lanes: Lanes) {
    x[at..at + LANES].copy_from_slice(&lanes);
}

#[inline(always)]
fn weights_by<F: Filter<SIDE, TAPS>, const SIDE: usize, const TAPS: usize>(out: &mut [&mut [f32]], taps: &[&[f32]]) {
    for i in (0..out[0].len()).step_by(LANES) {
        let mut columns = [[ZERO; SIDE]; TAPS];
        for q in 0..TAPS {
            let mut column = [ZERO; TAPS];
            for p in 0..TAPS {
                column[p] = load(taps[TAPS * p + q], i);
            }
            columns[q] = F::of_weights(column);
        }
        for p in 0..SIDE {
            let mut row = [ZERO; TAPS];
            for q in 0..TAPS {
                row[q] = columns[q][p];
            }
            let row = F::of_weights(row);
            for q in 0..SIDE {
                store(out[SIDE * p + q], i, row[q]);
            }
        }
    }
}

#[inline(always)]
fn gather_by<F: Filter<SIDE, TAPS>, const SIDE: usize, const TAPS: usize>(out: &mut [&mut [f32]], places: &[&[f32]]) {
    for i in (0..out[0].len()).step_by(LANES) {
        let mut columns = [[ZERO; TAPS]; SIDE];
        for q in 0..SIDE {
            let mut column = [ZERO; SIDE];
            for p in 0..SIDE {
                column[p] = load(places[SIDE * p + q], i);
            }
            columns[q] = F::to_weights(column);
        }
        for p in 0..TAPS {
            let mut row = [ZERO; SIDE];
            for q in 0..SIDE {
                row[q] = columns[q][p];
            }
            let row = F::to_weights(row);
            for q in 0..TAPS {
                store(out[TAPS * p + q], i, row[q]);
            }
        }
    }
}

#[inline(always)]
fn lines_by<F: Filter<SIDE, TAPS>, const SIDE: usize, const TAPS: usize>(
    out: &mut [f32],
    lines: &Lines<'_>,
    across: usize,
    channels: usize,
) {
    let place_len = out.len() / (SIDE * SIDE);
    for (number, start) in lines.starts.iter().step_by(2).enumerate() {
        for channel in (0..channels).step_by(LANES) {
            let mut columns = [[ZERO; SIDE]; SIDE];
            for tile in 0..across {
                // All columns of the first tile; of another, those that it does not share with the one before.
                let mut first = 0;
                if tile > 0 {
                    first = TAPS - 1;
                    for q in 0..first {
                        columns[q] = columns[q + 2];
                    }
                }
                for q in first..SIDE {
                    let top = start + (2 * tile + q) * channels + channel;
                    let mut column = [ZERO; SIDE];
                    for p in 0..SIDE {
                        column[p] = load(lines.x, top + p * lines.row);
                    }
                    columns[q] = F::of_inputs(column);
                }
                let at = (number * across + tile) * channels + channel;
                for p in 0..SIDE {
                    let mut row = [ZERO; SIDE];
                    for q in 0..SIDE {
                        row[q] = columns[q][p];
                    }
                    let row = F::of_inputs(row);
                    for q in 0..SIDE {
                        store(out, (SIDE * p + q) * place_len + at, row[q]);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn sums_by<F: Filter<SIDE, TAPS>, const SIDE: usize, const TAPS: usize>(
    y: &mut [f32],
    sums: &[f32],
    width: usize,
    outputs: usize,
) {
    let place_len = sums.len() / (SIDE * SIDE);
    for (number, y) in y.chunks_exact_mut(2 * width * outputs).enumerate() {
        for tile in 0..width / 2 {
            let at = (number * (width / 2) + tile) * outputs;
            for output in (0..outputs).step_by(LANES) {
                let mut columns = [[ZERO; 2]; SIDE];
                for q in 0..SIDE {
                    let mut column = [ZERO; SIDE];
                    for p in 0..SIDE {
                        column[p] = load(sums, (SIDE * p + q) * place_len + at + output);
                    }
                    columns[q] = F::of_sums(column);
                }
                for p in 0..2 {
                    let mut row = [ZERO; SIDE];
                    for q in 0..SIDE {
                        row[q] = columns[q][p];
                    }
                    let row = F::of_sums(row);
                    for q in 0..2 {
                        store(y, (p * width + 2 * tile + q) * outputs + output, row[q]);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn gradients_by<F: Filter<SIDE, TAPS>, const SIDE: usize, const TAPS: usize>(
    out: &mut [f32],
    dz: &[f32],
    width: usize,
    outputs: usize,
    panel: usize,
) {
    let place_len = out.len() / (SIDE * SIDE);
    let tiles = dz.len() / (4 * outputs);
    for (number, dz) in dz.chunks_exact(2 * width * outputs).enumerate() {
        for tile in 0..width / 2 {
            for output in (0..outputs).step_by(LANES) {
                let mut columns = [[ZERO; SIDE]; 2];
                for q in 0..2 {
                    let above = (2 * tile + q) * outputs + output;
                    columns[q] = F::of_gradients([load(dz, above), load(dz, above + width * outputs)]);
                }
                let at = (output / panel * tiles + number * (width / 2) + tile) * panel + output % panel;
                for p in 0..SIDE {
                    let row = F::of_gradients([columns[0][p], columns[1][p]]);
                    for q in 0..SIDE {
                        store(out, (SIDE * p + q) * place_len + at, row[q]);
                    }
                }
            }
        }
    }
}

vectorized! {
    fn transform_weight_run(window: Window, out: &mut [&mut [f32]], taps: &[&[f32]]) {
        match window {
            Window::Three => weights_by::<Three, 4, 3>(out, taps),
            Window::Five => weights_by::<Five, 6, 5>(out, taps),
        }
    }

    fn gather_weight_run(window: Window, out: &mut [&mut [f32]], places: &[&[f32]]) {
        match window {
            Window::Three => gather_by::<Three, 4, 3>(out, places),
            Window::Five => gather_by::<Five, 6, 5>(out, places),
        }
    }

    /// Bᵀ d B of the tiles of some lines: `[places, tiles, C]`, the places [`APART`].
    fn transform_lines(window: Window, out: &mut [f32], lines: &Lines<'_>, across: usize, channels: usize) {
        match window {
            Window::Three => lines_by::<Three, 4, 3>(out, lines, across, channels),
            Window::Five => lines_by::<Five, 6, 5>(out, lines, across, channels),
        }
    }

    /// Aᵀ m A of the tiles of whole lines: `[places, tiles, O]` → y `[lines, 2, W, O]`.
    fn transform_sums(window: Window, y: &mut [f32], sums: &[f32], width: usize, outputs: usize) {
        match window {
            Window::Three => sums_by::<Three, 4, 3>(y, sums, width, outputs),
            Window::Five => sums_by::<Five, 6, 5>(y, sums, width, outputs),
        }
    }

    /// A dy Aᵀ of the tiles of whole lines: dz `[lines, 2, W, O]` → `[places, tiles, O]`, in panels, the places [`APART`].
    fn transform_gradients(window: Window, out: &mut [f32], dz: &[f32], width: usize, outputs: usize) {
        match window {
            Window::Three => gradients_by::<Three, 4, 3>(out, dz, width, outputs, Right::panel_cols()),
            Window::Five => gradients_by::<Five, 6, 5>(out, dz, width, outputs, Right::panel_cols()),
        }
    }
}
