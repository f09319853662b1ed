//! Two-dimensional convolution of channels-last images, and its gradients.
//!
//! All three kernels are matrix products with the windows of the images, which are read where they lie (`windows`), some lines of
//! them at a time, so that images and weights stay in the caches. What is taken at a time depends on the shape alone. Windows of
//! 3×3 and 5×5 that move by one pixel over many channels are computed with fewer products (`winograd`).

pub mod flipout;
mod im2col;
pub mod pooled;
pub(crate) mod shape;
mod windows;
mod winograd;

use std::ops::Range;

use rayon::prelude::*;

use crate::activation::Activation;
use crate::conv::im2col::col2im;
use crate::conv::shape::Plan;
pub use crate::conv::shape::{Conv2dShape, Padding};
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right, Threads, Update, product_packed};
use crate::par::CHUNK;
use crate::rows::{column_sums, finish, transpose};
use crate::scratch::with_scratch;

/// Elements of a tile of windows: a quarter of a megabyte, half of a common second-level cache.
const TILE: usize = 1 << 16;
/// Fewest windows of a tile: below that, reading the weights costs as much as multiplying with them.
const MIN_TILE_ROWS: usize = 256;

/// Windows of a tile of `columns` elements each.
fn tile_rows(columns: usize) -> usize {
    (TILE / columns.max(1)).max(MIN_TILE_ROWS)
}

/// Lines of windows that one task takes.
fn tile_lines(plan: &Plan) -> usize {
    (tile_rows(plan.patch) / plan.out_width).max(1)
}

/// y = act(x ⋆ w + b), the cross-correlation of neural networks:
/// y\[b, i, j, o\] = act(Σ x\[b, i·s + k − top, j·s + l − left, c\] w\[k, l, c, o\] + b\[o\]).
///
/// # Shapes
/// - y: `[B, OH, OW, O]`, x: `[B, H, W, C]`, weight: `[KH, KW, C, O]`, bias: `[O]`
///
/// # Errors
/// If a length does not fit `shape`, or the window does not fit the padded image.
///
/// ```
/// use ktied_kernels::activation::Activation;
/// use ktied_kernels::conv::{Conv2dShape, forward};
/// let shape = Conv2dShape::valid(1, [2, 2], 1, 1, [2, 2], [1, 1]);
/// let mut y = [0.0];
/// forward(&mut y, &[1., 2., 3., 4.], &[1., 0., 0., 1.], None, &shape, Activation::Identity)?;
/// assert_eq!(y, [5.0]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward(
    y: &mut [f32],
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    shape: &Conv2dShape,
    activation: Activation,
) -> Result<()> {
    let check = Check("conv2d");
    let plan = shape.plan(check)?;
    check.len("y", y, plan.y_len)?;
    check.len("x", x, plan.x_len)?;
    check.len("weight", weight, plan.weight_len)?;
    bias.map_or(Ok(()), |bias| check.len("bias", bias, shape.outputs))?;
    convolve(y, x, Weights::Plain(weight), bias, &plan, activation)
}

/// Weights of a convolution.
#[derive(Clone, Copy)]
enum Weights<'a> {
    /// `[KH, KW, C, O]`
    Plain(&'a [f32]),
    /// Those of the convolution that turns dz into dx: another's weights `[KH, KW, O, C]`, with both window axes reversed and every
    /// matrix transposed.
    Mirrored(&'a [f32]),
}

impl<'a> Weights<'a> {
    /// Runs `task` on the matrix `[KH·KW·C, O]`, packed.
    fn with_packed<T>(self, plan: &Plan, task: impl FnOnce(Right<'_>) -> T) -> Result<T> {
        let Conv2dShape { channels, outputs, .. } = plan.shape;
        let parts: Vec<Mat<'a>> = match self {
            Self::Plain(weight) => vec![Mat::new(weight, plan.patch, outputs)?],
            Self::Mirrored(weight) => {
                let taps = weight.chunks_exact((channels * outputs).max(1)).rev();
                taps.map(|tap| Ok(Mat::new(tap, outputs, channels)?.t())).collect::<Result<_>>()?
            }
        };
        Ok(Right::stacked(&parts, true, task))
    }

    /// Runs `task` on the weights `[KH, KW, C, O]`.
    fn with_plain<T>(self, plan: &Plan, task: impl FnOnce(&[f32]) -> T) -> T {
        let Conv2dShape { channels, outputs, .. } = plan.shape;
        match self {
            Self::Plain(weight) => task(weight),
            Self::Mirrored(weight) => with_scratch(plan.weight_len, |plain| {
                let block = (channels * outputs).max(1);
                let blocks = plain.par_chunks_mut(block).zip(weight.par_chunks(block).rev());
                blocks.for_each(|(to, from)| transpose(to, from, outputs, channels));
                task(plain)
            }),
        }
    }
}

fn convolve(
    y: &mut [f32],
    x: &[f32],
    weight: Weights<'_>,
    bias: Option<&[f32]>,
    plan: &Plan,
    activation: Activation,
) -> Result<()> {
    if y.is_empty() {
        return Ok(());
    }
    if let Some(window) = winograd::suits(plan) {
        return weight.with_plain(plan, |weight| winograd::convolve(window, y, x, weight, bias, plan, activation));
    }
    let outputs = plan.shape.outputs;
    let (tile_lines, line) = (tile_lines(plan), plan.out_width * outputs);
    weight.with_packed(plan, |weight| {
        y.par_chunks_mut(tile_lines * line).enumerate().for_each(|(tile, y)| {
            let first = tile * tile_lines;
            windows::multiply(y, x, weight, plan, first..first + y.len() / line);
            finish(y, bias, activation);
        });
    })
}

/// The gradient of a convolution's sums, a row of O for every window: there already, or made where it is needed.
trait Gradient: Sync {
    /// Runs `task` on `lines` of it.
    fn with_lines<T>(&self, lines: Range<usize>, plan: &Plan, task: impl FnOnce(&[f32]) -> Result<T>) -> Result<T>;
}

impl Gradient for &[f32] {
    fn with_lines<T>(&self, lines: Range<usize>, plan: &Plan, task: impl FnOnce(&[f32]) -> Result<T>) -> Result<T> {
        let line = plan.out_width * plan.shape.outputs;
        task(&self[lines.start * line..lines.end * line])
    }
}

/// dW = Σ over windows of windowᵀ·dz, and db = Σ dz.
///
/// dz is the gradient of the sums before the activation: [`crate::activation::backward`] makes it from that of y.
///
/// # Shapes
/// - dweight: `[KH, KW, C, O]`, dbias: `[O]`, dz: `[B, OH, OW, O]`, x: `[B, H, W, C]`
///
/// # Errors
/// If a length does not fit `shape`, or the window does not fit the padded image.
pub fn backward_weight(
    dweight: &mut [f32],
    dbias: Option<&mut [f32]>,
    dz: &[f32],
    x: &[f32],
    shape: &Conv2dShape,
) -> Result<()> {
    let check = Check("conv2d backward_weight");
    let plan = shape.plan(check)?;
    check.len("dweight", dweight, plan.weight_len)?;
    check.len("dz", dz, plan.y_len)?;
    check.len("x", x, plan.x_len)?;
    if let Some(dbias) = dbias {
        check.len("dbias", dbias, shape.outputs)?;
        column_sums(dbias, dz);
    }
    if dz.is_empty() || dweight.is_empty() {
        dweight.fill(0.0);
        return Ok(());
    }
    if let Some(window) = winograd::suits(&plan) {
        return winograd::sum_weights(window, dweight, &dz, x, &plan);
    }
    sum_weights([dweight], &plan, |[dweight], lines, columns| accumulate_weight(dweight, &dz, x, &plan, lines, columns))
}

/// dWs = sums over all windows, where `accumulate(dWs, lines, columns)` adds those of some lines of windows, for some of their
/// elements, which are rows of dW. A dW that is empty is not wanted.
fn sum_weights<const N: usize>(
    dweights: [&mut [f32]; N],
    plan: &Plan,
    accumulate: impl Fn([&mut [f32]; N], Range<usize>, Range<usize>) -> Result<()> + Sync,
) -> Result<()> {
    if plan.weight_len <= MAX_PRIVATE {
        weight_by_rows(dweights, plan, accumulate)
    } else {
        weight_by_columns(dweights, plan, accumulate)
    }
}

/// Largest dW of which every group of windows gets its own.
const MAX_PRIVATE: usize = 1 << 18;
/// Groups of windows with a dW of their own.
const NUM_GROUPS: usize = 8;

/// A small dW: the windows are divided into groups, each sums into a dW of its own, and these are added in order.
fn weight_by_rows<const N: usize>(
    dweights: [&mut [f32]; N],
    plan: &Plan,
    accumulate: impl Fn([&mut [f32]; N], Range<usize>, Range<usize>) -> Result<()> + Sync,
) -> Result<()> {
    let tile_lines = tile_lines(plan);
    let num_tiles = plan.num_lines().div_ceil(tile_lines);
    let group_lines = num_tiles.div_ceil(NUM_GROUPS) * tile_lines;
    let lens = dweights.each_ref().map(|dweight| dweight.len());
    let part_len: usize = lens.iter().sum();
    with_scratch(plan.num_lines().div_ceil(group_lines) * part_len, |parts| {
        parts.par_chunks_mut(part_len).enumerate().try_for_each(|(group, part)| {
            part.fill(0.0);
            let lines = group * group_lines..plan.num_lines().min((group + 1) * group_lines);
            let mut rest = part;
            accumulate(lens.map(|len| rest.split_off_mut(..len).unwrap_or_default()), lines, 0..plan.patch)
        })?;
        let (parts, mut before) = (&*parts, 0);
        for dweight in dweights {
            let here = before;
            before += dweight.len();
            dweight.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, dweight)| {
                dweight.fill(0.0);
                for part in parts.chunks(part_len) {
                    dweight.iter_mut().zip(&part[here + chunk * CHUNK..]).for_each(|(d, p)| *d += p);
                }
            });
        }
        Ok(())
    })
}

/// Tasks among which the rows of a large dW are divided: each reads all images, so that they are few.
const NUM_BLOCKS: usize = 4;

/// A large dW: its rows are divided, and each task sums over all windows.
fn weight_by_columns<const N: usize>(
    mut dweights: [&mut [f32]; N],
    plan: &Plan,
    accumulate: impl Fn([&mut [f32]; N], Range<usize>, Range<usize>) -> Result<()> + Sync,
) -> Result<()> {
    let block = plan.patch.div_ceil(NUM_BLOCKS);
    let blocks = (0..plan.patch).step_by(block).map(|start| {
        let columns = start..plan.patch.min(start + block);
        let len = columns.len() * plan.shape.outputs;
        (columns, dweights.each_mut().map(|rest| rest.split_off_mut(..len).unwrap_or_default()))
    });
    let blocks: Vec<_> = blocks.collect();
    blocks.into_par_iter().try_for_each(|(columns, mut dweights)| {
        dweights.iter_mut().for_each(|dweight| dweight.fill(0.0));
        accumulate(dweights, 0..plan.num_lines(), columns)
    })
}

/// dweight += windowsᵀ·dz, over the given lines, for the given columns of the windows, some lines at a time.
fn accumulate_weight(
    dweight: &mut [f32],
    dz: &impl Gradient,
    x: &[f32],
    plan: &Plan,
    lines: Range<usize>,
    columns: Range<usize>,
) -> Result<()> {
    let tile_lines = tile_lines(plan);
    for start in lines.clone().step_by(tile_lines) {
        let tile = start..lines.end.min(start + tile_lines);
        dz.with_lines(tile.clone(), plan, |dz| windows::accumulate(dweight, dz, x, plan, tile, columns.clone()))?;
    }
    Ok(())
}

/// dx = the sum, over the windows that hold a pixel, of dz·Wᵀ at that pixel.
///
/// # Shapes
/// - dx: `[B, H, W, C]`, dz: `[B, OH, OW, O]`, weight: `[KH, KW, C, O]`
///
/// # Errors
/// If a length does not fit `shape`, or the window does not fit the padded image.
pub fn backward_input(dx: &mut [f32], dz: &[f32], weight: &[f32], shape: &Conv2dShape) -> Result<()> {
    let check = Check("conv2d backward_input");
    let plan = shape.plan(check)?;
    check.len("dx", dx, plan.x_len)?;
    check.len("dz", dz, plan.y_len)?;
    check.len("weight", weight, plan.weight_len)?;
    if dx.is_empty() || dz.is_empty() {
        dx.fill(0.0);
        return Ok(());
    }
    match mirrored(shape) {
        Some(mirror) => convolve(dx, dz, Weights::Mirrored(weight), None, &mirror.plan(check)?, Activation::Identity),
        None => Right::with(Mat::new(weight, plan.patch, shape.outputs)?.t(), true, |weight| {
            scatter(dx, &plan, |col, rows| {
                product_packed(col, rows_of(dz, &plan, rows)?, weight, Update::Overwrite, Threads::One)
            })
        }),
    }
}

/// Fewest channels for which dx is made by a convolution: with fewer, its product is too narrow to be fast.
const MIN_MIRRORED: usize = 16;

/// The convolution of dz with the weights turned round that gives dx: there is one if the window moves by one pixel
/// and never lies wholly in the padding.
fn mirrored(shape: &Conv2dShape) -> Option<Conv2dShape> {
    let ([kh, kw], Padding { top, bottom, left, right }) = (shape.kernel, shape.padding);
    if shape.stride != [1, 1] || shape.channels < MIN_MIRRORED {
        return None;
    }
    let padding = Padding {
        top: (kh - 1).checked_sub(top)?,
        bottom: (kh - 1).checked_sub(bottom)?,
        left: (kw - 1).checked_sub(left)?,
        right: (kw - 1).checked_sub(right)?,
    };
    let (height, width) = (shape.out_height().ok()?, shape.out_width().ok()?);
    Some(Conv2dShape { height, width, channels: shape.outputs, outputs: shape.channels, padding, ..*shape })
}

/// dx by way of the gradients of the windows, added back onto the images; `gradient(col, rows)` makes those of some
/// windows. One task has whole images, so no two write the same pixel.
fn scatter(
    dx: &mut [f32],
    plan: &Plan,
    gradient: impl Fn(&mut [f32], Range<usize>) -> Result<()> + Sync,
) -> Result<()> {
    let tile_rows = tile_rows(plan.patch);
    for_each_image(dx, plan, tile_rows, |dx, images| {
        dx.fill(0.0);
        for start in images.clone().step_by(tile_rows) {
            let rows = start..images.end.min(start + tile_rows);
            with_scratch(rows.len() * plan.patch, |col| -> Result<()> {
                gradient(col, rows.clone())?;
                col2im(dx, col, plan, rows.start - images.start..rows.end - images.start);
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// The elements of dz or y that belong to the windows `rows`, as a matrix.
fn rows_of<'a>(dz: &'a [f32], plan: &Plan, rows: Range<usize>) -> Result<Mat<'a>> {
    let outputs = plan.shape.outputs;
    Mat::new(&dz[rows.start * outputs..rows.end * outputs], rows.len(), outputs)
}

/// Runs `task` on whole images of dx and the windows on them, at once on as many as have about `tile_rows`.
fn for_each_image(
    dx: &mut [f32],
    plan: &Plan,
    tile_rows: usize,
    task: impl Fn(&mut [f32], Range<usize>) -> Result<()> + Sync,
) -> Result<()> {
    let (image, image_rows) = (dx.len() / plan.shape.batch, plan.rows_per_image());
    let num_images = (tile_rows / image_rows).max(1);
    dx.par_chunks_mut(num_images * image).enumerate().try_for_each(|(index, dx)| {
        let first_row = index * num_images * image_rows;
        task(dx, first_row..first_row + dx.len() / image * image_rows)
    })
}
