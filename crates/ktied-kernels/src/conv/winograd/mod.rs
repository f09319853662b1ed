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

mod filter;
mod transform;

use std::ops::Range;

use rayon::prelude::*;

use self::filter::LANES;
use self::transform::{gather_weight_run, transform_gradients, transform_lines, transform_sums, transform_weight_run};
use crate::activation::Activation;
use crate::conv::Gradient;
use crate::conv::shape::{Conv2dShape, Plan};
use crate::conv::windows::{is_like_its_image, with_lines};
use crate::error::Result;
use crate::gemm::{Mat, Right, Threads, Update, product_packed};
use crate::par::CHUNK;
use crate::rows::finish;
use crate::scratch::with_scratch;

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
const MAX_PRIVATE: usize = 1 << 18;
/// Most groups of lines with a gradient of their own, and most elements of these gradients.
const NUM_GROUPS: usize = 8;
const MAX_GROUPED: usize = 1 << 20;
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
    let len = dweights.len();
    let num_groups = NUM_GROUPS.min(MAX_GROUPED / len);
    let group_lines = num_lines.div_ceil(task_lines).div_ceil(num_groups) * task_lines;
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
