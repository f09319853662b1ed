//! Convolution by 3×3 windows that move by one pixel, with 16 products where the windows have 36.
//!
//! Winograd's minimal filtering F(2×2, 3×3): four outputs come of a tile d of 4×4 pixels and a window g as
//! Y = Aᵀ\[(G g Gᵀ) ∘ (Bᵀ d B)\]A. Over tiles, channels and outputs, ∘ is one matrix product for each of the 16 places of a
//! tile. The transforms are sums and halves of a few numbers, so that the result errs little more than the sum itself. With
//! them turned round the same products give the gradient of the weights.
//!
//! A. Lavin, S. Gray, *Fast algorithms for convolutional neural networks*, CVPR 2016.

#![allow(clippy::needless_range_loop, reason = "rows and columns of a tile are indices of several arrays at once")]

use std::ops::Range;

use rayon::prelude::*;

use crate::activation::Activation;
use crate::conv::shape::{Conv2dShape, Plan};
use crate::conv::windows::{Lines, is_like_its_image, with_lines};
use crate::error::Result;
use crate::gemm::{Mat, Right, Threads, Update, product, product_packed};
use crate::par::CHUNK;
use crate::rows::finish;
use crate::scratch::with_scratch;
use crate::simd::vectorized;

/// Places of a tile.
const PLACES: usize = 16;
/// Channels that are transformed at once.
const LANES: usize = 8;
/// Fewest channels and outputs for which the products are worth the transforms.
const MIN_CHANNELS: usize = 32;
/// Most weights of a place: above, the transformed weights of all 16 no longer fit into the caches.
const MAX_WEIGHTS: usize = 1 << 16;
/// Fewest tiles: with fewer, transforming the weights costs as much as it saves.
const MIN_TILES: usize = 512;
/// Elements between the places of a buffer beyond what they hold: without them all 16 would lie in one set of the cache.
const APART: usize = 16;
/// About how many tiles one task transforms and multiplies.
const TILES: usize = 64;
/// About how many transformed numbers are in memory at once for the gradient of the weights.
const GROUP: usize = 1 << 20;

/// Whether a convolution can be computed so, and gains by it.
pub(super) fn suits(plan: &Plan) -> bool {
    let Conv2dShape { channels, outputs, kernel, stride, .. } = plan.shape;
    let is_wide = |size: usize| size >= MIN_CHANNELS && size.is_multiple_of(LANES);
    kernel == [3, 3]
        && is_like_its_image(plan)
        && stride == [1, 1]
        && plan.out_height.is_multiple_of(2)
        && plan.out_width.is_multiple_of(2)
        && [channels, outputs].into_iter().all(is_wide)
        && channels * outputs <= MAX_WEIGHTS
        && plan.num_rows() / 4 >= MIN_TILES
}

/// y = act(x ⋆ w + b), as [`super::forward`].
pub(super) fn convolve(
    y: &mut [f32],
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    plan: &Plan,
    activation: Activation,
) -> Result<()> {
    let Conv2dShape { channels, outputs, .. } = plan.shape;
    let (lines, line) = (lines_per_task(plan), 2 * plan.out_width * outputs);
    with_scratch(PLACES * channels * outputs, |weights| {
        transform_weights(weights, weight);
        // The terms of all places one after another, so that they are packed together.
        Right::with(Mat::new(weights, PLACES * channels, outputs)?, true, |weights| {
            y.par_chunks_mut(lines * line).enumerate().try_for_each(|(task, y)| {
                let here = task * lines..task * lines + y.len() / line;
                let tiles = here.len() * (plan.out_width / 2);
                with_scratch(buffer_len(tiles * channels) + buffer_len(tiles * outputs), |scratch| {
                    let (inputs, sums) = scratch.split_at_mut(buffer_len(tiles * channels));
                    transform_inputs(inputs, x, plan, here);
                    for place in 0..PLACES {
                        let input = Mat::new(of_place(inputs, place), tiles, channels)?;
                        let weight = weights.part(place * channels, channels);
                        product_packed(of_place_mut(sums, place), input, weight, Update::Overwrite, Threads::One)?;
                    }
                    transform_sums(y, sums, plan.out_width, outputs);
                    finish(y, bias, activation);
                    Ok(())
                })
            })
        })
    })
}

/// dW = Σ over windows of windowᵀ·dz, as [`super::backward_weight`].
pub(super) fn sum_weights(dweight: &mut [f32], dz: &[f32], x: &[f32], plan: &Plan) -> Result<()> {
    let Conv2dShape { channels, outputs, batch, .. } = plan.shape;
    let (lines, line, num_lines) = (lines_per_task(plan), 2 * plan.out_width * outputs, batch * (plan.out_height / 2));
    let task_tiles = lines * (plan.out_width / 2);
    let task_len = buffer_len(task_tiles * channels) + buffer_len(task_tiles * outputs);
    let group_lines = (GROUP / task_len).max(1) * lines;
    with_scratch(PLACES * channels * outputs, |dweights| {
        dweights.fill(0.0);
        for first in (0..num_lines).step_by(group_lines) {
            let group = first..num_lines.min(first + group_lines);
            let num_tasks = group.len().div_ceil(lines);
            with_scratch(num_tasks * task_len, |scratch| -> Result<()> {
                scratch.par_chunks_mut(task_len).enumerate().for_each(|(task, scratch)| {
                    let here = group.start + task * lines..group.end.min(group.start + (task + 1) * lines);
                    let tiles = here.len() * (plan.out_width / 2);
                    let (inputs, rest) = scratch.split_at_mut(buffer_len(tiles * channels));
                    transform_inputs(inputs, x, plan, here.clone());
                    let dz = &dz[here.start * line..here.end * line];
                    transform_gradients(&mut rest[..buffer_len(tiles * outputs)], dz, plan.out_width, outputs);
                });
                let scratch = &*scratch;
                dweights.par_chunks_mut(channels * outputs).enumerate().try_for_each(|(place, dweight)| {
                    for (task, scratch) in scratch.chunks(task_len).enumerate() {
                        let tiles = (group.len() - task * lines).min(lines) * (plan.out_width / 2);
                        let (inputs, rest) = scratch.split_at(buffer_len(tiles * channels));
                        let input = Mat::new(of_place(inputs, place), tiles, channels)?;
                        let dsums = Mat::new(of_place(&rest[..buffer_len(tiles * outputs)], place), tiles, outputs)?;
                        product(dweight, input.t(), dsums, Update::Accumulate, Threads::One)?;
                    }
                    Ok(())
                })
            })?;
        }
        gather_weights(dweight, dweights);
        Ok(())
    })
}

/// Bᵀ d B of the tiles of some lines: x `[B, H, W, C]` → `[16, tiles, C]`, the places [`APART`].
fn transform_inputs(out: &mut [f32], x: &[f32], plan: &Plan, lines: Range<usize>) {
    with_lines(x, plan, 2 * lines.start..2 * lines.end, |lines| {
        transform_lines(out, &lines, plan.out_width / 2, plan.shape.channels);
    });
}

/// Lines of tiles, each two rows of an output image, that one task takes: of any number of images.
fn lines_per_task(plan: &Plan) -> usize {
    (TILES / (plan.out_width / 2).max(1)).max(1)
}

/// Elements of a buffer with `len` for every place.
fn buffer_len(len: usize) -> usize {
    PLACES * (len + APART)
}

/// What such a buffer holds of a place.
fn of_place(all: &[f32], place: usize) -> &[f32] {
    let stride = all.len() / PLACES;
    &all[place * stride..(place + 1) * stride - APART]
}

/// The same, to be written.
fn of_place_mut(all: &mut [f32], place: usize) -> &mut [f32] {
    let stride = all.len() / PLACES;
    &mut all[place * stride..(place + 1) * stride - APART]
}

/// G g Gᵀ of every window: `[3, 3, C, O]` → `[16, C, O]`.
fn transform_weights(weights: &mut [f32], weight: &[f32]) {
    let len = weight.len() / 9;
    let mut places: Vec<_> = weights.chunks_mut(len).map(|place| place.chunks_mut(CHUNK)).collect();
    let tasks: Vec<[&mut [f32]; PLACES]> = (0..len.div_ceil(CHUNK))
        .map(|_| std::array::from_fn(|place| places[place].next().unwrap_or_default()))
        .collect();
    tasks.into_par_iter().enumerate().for_each(|(task, out)| {
        let here = task * CHUNK..task * CHUNK + out[0].len();
        let taps = std::array::from_fn(|tap| &weight[tap * len + here.start..tap * len + here.end]);
        transform_weight_run(out, taps);
    });
}

/// Gᵀ u G of the sums of every pair of channels: `[16, C, O]` → `[3, 3, C, O]`.
fn gather_weights(dweight: &mut [f32], dweights: &[f32]) {
    let len = dweight.len() / 9;
    let mut taps: Vec<_> = dweight.chunks_mut(len).map(|tap| tap.chunks_mut(CHUNK)).collect();
    let tasks: Vec<[&mut [f32]; 9]> =
        (0..len.div_ceil(CHUNK)).map(|_| std::array::from_fn(|tap| taps[tap].next().unwrap_or_default())).collect();
    tasks.into_par_iter().enumerate().for_each(|(task, out)| {
        let here = task * CHUNK..task * CHUNK + out[0].len();
        let places = std::array::from_fn(|place| &dweights[place * len + here.start..place * len + here.end]);
        gather_weight_run(out, places);
    });
}

/// Neighbouring channels. What follows is loops over arrays and not closures, which would not be compiled for the level in use.
type Lanes = [f32; LANES];

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

/// Bᵀd, of four rows.
#[inline(always)]
fn of_inputs(a: Lanes, b: Lanes, c: Lanes, d: Lanes) -> [Lanes; 4] {
    [minus(a, c), plus(b, c), minus(c, b), minus(b, d)]
}

/// Aᵀm, of four rows.
#[inline(always)]
fn of_sums(a: Lanes, b: Lanes, c: Lanes, d: Lanes) -> [Lanes; 2] {
    [plus(plus(a, b), c), minus(minus(b, c), d)]
}

/// A dy, of two rows.
#[inline(always)]
fn of_gradients(a: Lanes, b: Lanes) -> [Lanes; 4] {
    [a, plus(a, b), minus(a, b), minus([0.0; LANES], b)]
}

/// G g, of three numbers.
#[inline(always)]
fn of_weights(a: f32, b: f32, c: f32) -> [f32; 4] {
    let ends = 0.5 * (a + c);
    [a, ends + 0.5 * b, ends - 0.5 * b, c]
}

/// Gᵀ u, of four numbers.
#[inline(always)]
fn to_weights(a: f32, b: f32, c: f32, d: f32) -> [f32; 3] {
    let middle = 0.5 * (b + c);
    [a + middle, 0.5 * (b - c), middle + d]
}

#[inline(always)]
fn load(x: &[f32], at: usize) -> Lanes {
    let mut lanes = [0.0; LANES];
    lanes.copy_from_slice(&x[at..at + LANES]);
    lanes
}

#[inline(always)]
fn store(x: &mut [f32], at: usize, lanes: Lanes) {
    x[at..at + LANES].copy_from_slice(&lanes);
}

vectorized! {
    fn transform_weight_run(out: [&mut [f32]; PLACES], taps: [&[f32]; 9]) {
        let len = out[0].len();
        for i in 0..len {
            let mut columns = [[0.0; 4]; 3];
            for (q, column) in columns.iter_mut().enumerate() {
                *column = of_weights(taps[q][i], taps[3 + q][i], taps[6 + q][i]);
            }
            for p in 0..4 {
                let row = of_weights(columns[0][p], columns[1][p], columns[2][p]);
                for q in 0..4 {
                    out[4 * p + q][i] = row[q];
                }
            }
        }
    }

    fn gather_weight_run(out: [&mut [f32]; 9], places: [&[f32]; PLACES]) {
        let len = out[0].len();
        for i in 0..len {
            let mut columns = [[0.0; 3]; 4];
            for (q, column) in columns.iter_mut().enumerate() {
                *column = to_weights(places[q][i], places[4 + q][i], places[8 + q][i], places[12 + q][i]);
            }
            for p in 0..3 {
                let row = to_weights(columns[0][p], columns[1][p], columns[2][p], columns[3][p]);
                for q in 0..3 {
                    out[3 * p + q][i] = row[q];
                }
            }
        }
    }

    /// Bᵀ d B of the tiles of some lines: `[16, tiles, C]`, the places [`APART`].
    fn transform_lines(out: &mut [f32], lines: &Lines<'_>, across: usize, channels: usize) {
        let place_len = out.len() / PLACES;
        for (number, start) in lines.starts.iter().step_by(2).enumerate() {
            for tile in 0..across {
                let at = (number * across + tile) * channels;
                let corner = start + 2 * tile * channels;
                for channel in (0..channels).step_by(LANES) {
                    let mut columns = [[[0.0; LANES]; 4]; 4];
                    for q in 0..4 {
                        let top = corner + q * channels + channel;
                        let (a, b) = (load(lines.x, top), load(lines.x, top + lines.row));
                        let (c, d) = (load(lines.x, top + 2 * lines.row), load(lines.x, top + 3 * lines.row));
                        columns[q] = of_inputs(a, b, c, d);
                    }
                    for p in 0..4 {
                        let row = of_inputs(columns[0][p], columns[1][p], columns[2][p], columns[3][p]);
                        for q in 0..4 {
                            store(out, (4 * p + q) * place_len + at + channel, row[q]);
                        }
                    }
                }
            }
        }
    }

    /// Aᵀ m A of the tiles of whole lines: `[16, tiles, O]` → y `[lines, 2, W, O]`.
    fn transform_sums(y: &mut [f32], sums: &[f32], width: usize, outputs: usize) {
        let place_len = sums.len() / PLACES;
        for (number, y) in y.chunks_exact_mut(2 * width * outputs).enumerate() {
            for tile in 0..width / 2 {
                let at = (number * (width / 2) + tile) * outputs;
                for output in (0..outputs).step_by(LANES) {
                    let mut m = [[0.0; LANES]; PLACES];
                    for (place, lanes) in m.iter_mut().enumerate() {
                        *lanes = load(sums, place * place_len + at + output);
                    }
                    let mut columns = [[[0.0; LANES]; 2]; 4];
                    for q in 0..4 {
                        columns[q] = of_sums(m[q], m[4 + q], m[8 + q], m[12 + q]);
                    }
                    for p in 0..2 {
                        let row = of_sums(columns[0][p], columns[1][p], columns[2][p], columns[3][p]);
                        for q in 0..2 {
                            store(y, (p * width + 2 * tile + q) * outputs + output, row[q]);
                        }
                    }
                }
            }
        }
    }

    /// A dy Aᵀ of the tiles of whole lines: dz `[lines, 2, W, O]` → `[16, tiles, O]`, the places [`APART`].
    fn transform_gradients(out: &mut [f32], dz: &[f32], width: usize, outputs: usize) {
        let place_len = out.len() / PLACES;
        for (number, dz) in dz.chunks_exact(2 * width * outputs).enumerate() {
            for tile in 0..width / 2 {
                let at = (number * (width / 2) + tile) * outputs;
                for output in (0..outputs).step_by(LANES) {
                    let mut columns = [[[0.0; LANES]; 4]; 2];
                    for q in 0..2 {
                        let above = (2 * tile + q) * outputs + output;
                        columns[q] = of_gradients(load(dz, above), load(dz, above + width * outputs));
                    }
                    for p in 0..4 {
                        let row = of_gradients(columns[0][p], columns[1][p]);
                        for q in 0..4 {
                            store(out, (4 * p + q) * place_len + at + output, row[q]);
                        }
                    }
                }
            }
        }
    }
}
