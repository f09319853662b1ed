//! A convolution of which only the largest of every 2×2 sums is wanted: act(max(x ⋆ w) + b), and its gradients.
//!
//! The same as [`super::forward`], [`crate::pool::max_forward`] with a window and stride of two, and the activation, but
//! the sums, four times as many as the outputs, are never all there: a band of two rows of them after another is made
//! in a buffer that stays in the cache, and the gradients are made of bands that are expanded again in the same way.

use std::ops::Range;

use rayon::prelude::*;

use crate::activation::Activation;
use crate::conv::shape::{Conv2dShape, Plan};
use crate::conv::{
    Gradient, Weights, accumulate_weight, for_each_image, mirrored, scatter, sum_weights, tile_lines, tile_rows,
    windows, winograd,
};
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right, Threads, Update, product_packed};
use crate::par::LANES;
use crate::pool::replaces;
use crate::rows::{column_sums, finish};
use crate::scratch::with_scratch;
use crate::simd::vectorized;

/// y = act(p + b), p the largest of each 2×2 of x ⋆ w, and argmax = its number, row by row from 0; of equals the
/// first, and a NaN, if there is one, before all.
///
/// The bias comes after the maximum: of sums that only its rounding would make equal, the largest is chosen.
///
/// # Shapes
/// - y, argmax: `[B, OH/2, OW/2, O]`, x: `[B, H, W, C]`, weight: `[KH, KW, C, O]`, bias: `[O]`
///
/// # Errors
/// If a length does not fit `shape`, the window does not fit the padded image, or OH or OW is odd.
///
/// ```
/// use ktied_kernels::activation::Activation;
/// use ktied_kernels::conv::{Conv2dShape, pooled};
/// let shape = Conv2dShape::valid(1, [2, 2], 1, 1, [1, 1], [1, 1]);
/// let (mut y, mut argmax) = ([0.0], [0]);
/// pooled::forward(&mut y, &mut argmax, &[1., 4., 2., 4.], &[2.], Some(&[-3.]), &shape, Activation::Relu)?;
/// assert_eq!((y, argmax), ([5.0], [1]));
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward(
    y: &mut [f32],
    argmax: &mut [u8],
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    shape: &Conv2dShape,
    activation: Activation,
) -> Result<()> {
    let check = Check("conv2d pooled");
    let plan = plan(check, shape)?;
    check.len("y", y, plan.y_len / WINDOW)?;
    check.len("argmax", argmax, y.len())?;
    check.len("x", x, plan.x_len)?;
    check.len("weight", weight, plan.weight_len)?;
    bias.map_or(Ok(()), |bias| check.len("bias", bias, shape.outputs))?;
    if y.is_empty() {
        return Ok(());
    }
    let outputs = shape.outputs;
    let finish = |y: &mut [f32]| finish(y, bias, activation);
    if let Some(window) = winograd::suits(&plan) {
        let num_bands = winograd::lines_per_task(&plan);
        return winograd::with_weights(window, weight, &plan, |weights| {
            let sums = |z: &mut [f32], first| winograd::multiply(window, z, x, weights, &plan, first);
            pool_bands(y, argmax, &plan, num_bands, sums, finish)
        })?;
    }
    let num_bands = (tile_lines(&plan) / 2).max(1);
    Right::with(Mat::new(weight, plan.patch, outputs)?, true, |weight| {
        let sums = |z: &mut [f32], first| {
            let num_lines = z.len() / (plan.out_width * outputs);
            windows::multiply(z, x, weight, &plan, 2 * first..2 * first + num_lines);
            Ok(())
        };
        pool_bands(y, argmax, &plan, num_bands, sums, finish)
    })
}

/// y = the largest of each 2×2 of the sums, finished, `num_bands` bands a task; `sums(z, first)` makes those of the bands from `first` on.
fn pool_bands(
    y: &mut [f32],
    argmax: &mut [u8],
    plan: &Plan,
    num_bands: usize,
    sums: impl Fn(&mut [f32], usize) -> Result<()> + Sync,
    finish: impl Fn(&mut [f32]) + Sync,
) -> Result<()> {
    let chunk = num_bands * plan.out_width / 2 * plan.shape.outputs;
    let tasks = y.par_chunks_mut(chunk).zip(argmax.par_chunks_mut(chunk)).enumerate();
    tasks.try_for_each(|(task, (y, argmax))| {
        with_scratch(WINDOW * y.len(), |z| {
            sums(z, task * num_bands)?;
            max_bands(y, argmax, z, plan.out_width, plan.shape.outputs);
            finish(y);
            Ok(())
        })
    })
}

/// dW = Σ over windows of windowᵀ·dz, each dz at the window that its argmax names, and db = Σ dz.
///
/// dz is the gradient of the sums before the activation: [`crate::activation::backward`] makes it from that of y.
///
/// # Shapes
/// - dweight: `[KH, KW, C, O]`, dbias: `[O]`, dz, argmax: `[B, OH/2, OW/2, O]`, x: `[B, H, W, C]`
///
/// # Errors
/// As [`forward`], or if a number in argmax is not below 4.
pub fn backward_weight(
    dweight: &mut [f32],
    dbias: Option<&mut [f32]>,
    dz: &[f32],
    argmax: &[u8],
    x: &[f32],
    shape: &Conv2dShape,
) -> Result<()> {
    let check = Check("conv2d pooled backward_weight");
    let plan = plan(check, shape)?;
    check.len("dweight", dweight, plan.weight_len)?;
    check.len("x", x, plan.x_len)?;
    let winners = Winners::new(check, dz, argmax, &plan)?;
    if let Some(dbias) = dbias {
        check.len("dbias", dbias, shape.outputs)?;
        column_sums(dbias, dz);
    }
    if dz.is_empty() || dweight.is_empty() {
        dweight.fill(0.0);
        return Ok(());
    }
    if let Some(window) = winograd::suits(&plan) {
        return winograd::sum_weights(window, dweight, &winners, x, &plan);
    }
    sum_weights([dweight], &plan, |[dweight], lines, columns| {
        accumulate_weight(dweight, &winners, x, &plan, lines, columns)
    })
}

/// dx = the sum, over the windows that hold a pixel and that argmax names, of dz·Wᵀ at that pixel.
///
/// # Shapes
/// - dx: `[B, H, W, C]`, dz, argmax: `[B, OH/2, OW/2, O]`, weight: `[KH, KW, C, O]`
///
/// # Errors
/// As [`forward`], or if a number in argmax is not below 4.
pub fn backward_input(dx: &mut [f32], dz: &[f32], argmax: &[u8], weight: &[f32], shape: &Conv2dShape) -> Result<()> {
    let check = Check("conv2d pooled backward_input");
    let plan = plan(check, shape)?;
    check.len("dx", dx, plan.x_len)?;
    check.len("weight", weight, plan.weight_len)?;
    let winners = Winners::new(check, dz, argmax, &plan)?;
    if dx.is_empty() || dz.is_empty() {
        dx.fill(0.0);
        return Ok(());
    }
    let Some(mirror) = mirrored(shape) else {
        return Right::with(Mat::new(weight, plan.patch, shape.outputs)?.t(), true, |weight| {
            scatter(dx, &plan, |col, rows| {
                winners.with_rows(rows.clone(), &plan, |dz| {
                    let dz = Mat::new(dz, rows.len(), shape.outputs)?;
                    product_packed(col, dz, weight, Update::Overwrite, Threads::One)
                })
            })
        });
    };
    let mirror = mirror.plan(check)?;
    if let Some(window) = winograd::suits(&mirror) {
        return Weights::Mirrored(weight).with_plain(&mirror, |weight| {
            winograd::with_weights(window, weight, &mirror, |weights| {
                let rows = 2 * winograd::lines_per_task(&mirror) * mirror.out_width;
                for_each_image(dx, &plan, rows, |dx, rows| {
                    winners.with_rows(rows, &plan, |dz| winograd::multiply(window, dx, dz, weights, &mirror, 0))
                })
            })?
        });
    }
    Weights::Mirrored(weight).with_packed(&mirror, |weight| {
        for_each_image(dx, &plan, tile_rows(mirror.patch), |dx, rows| {
            let lines = 0..dx.len() / (mirror.out_width * shape.channels);
            winners.with_rows(rows, &plan, |dz| {
                windows::multiply(dx, dz, weight, &mirror, lines);
                Ok(())
            })
        })
    })?
}

/// Pixels of a window of the pooling.
const WINDOW: usize = 4;

fn plan(check: Check, shape: &Conv2dShape) -> Result<Plan> {
    let plan = shape.plan(check)?;
    check.size("out_height", plan.out_height, plan.out_height.is_multiple_of(2), "even")?;
    check.size("out_width", plan.out_width, plan.out_width.is_multiple_of(2), "even")?;
    Ok(plan)
}

/// Windows of the convolution in a band: two rows of an image, side by side, that are pooled into one.
fn band_rows(plan: &Plan) -> usize {
    2 * plan.out_width
}

/// The gradient of a convolution's sums of which only the winners have one.
struct Winners<'a> {
    dz: &'a [f32],
    argmax: &'a [u8],
}

impl<'a> Winners<'a> {
    fn new(check: Check, dz: &'a [f32], argmax: &'a [u8], plan: &Plan) -> Result<Self> {
        check.len("dz", dz, plan.y_len / WINDOW)?;
        check.len("argmax", argmax, dz.len())?;
        let largest = argmax.iter().copied().max().map_or(0, usize::from);
        check.size("argmax", largest, largest < WINDOW, "below the number of pixels of the window")?;
        Ok(Self { dz, argmax })
    }
}

impl Gradient for Winners<'_> {
    fn with_lines<T>(&self, lines: Range<usize>, plan: &Plan, task: impl FnOnce(&[f32]) -> Result<T>) -> Result<T> {
        self.with_rows(lines.start * plan.out_width..lines.end * plan.out_width, plan, task)
    }
}

impl Winners<'_> {
    /// Runs `task` on the gradients of the windows `rows`, of which it expands the bands that hold them.
    fn with_rows<T>(&self, rows: Range<usize>, plan: &Plan, task: impl FnOnce(&[f32]) -> Result<T>) -> Result<T> {
        let (outputs, band_rows) = (plan.shape.outputs, band_rows(plan));
        let bands = rows.start / band_rows..rows.end.div_ceil(band_rows);
        let pooled = band_rows / WINDOW * outputs;
        let source = bands.start * pooled..bands.end * pooled;
        with_scratch(WINDOW * source.len(), |dz| {
            expand_bands(dz, &self.dz[source.clone()], &self.argmax[source], plan.out_width, outputs);
            let before = (rows.start - bands.start * band_rows) * outputs;
            task(&dz[before..before + rows.len() * outputs])
        })
    }
}

/// The largest of four, for up to [`LANES`] neighbouring channels, wholly in registers where there are that many.
#[inline(always)]
fn max_of_four(y: &mut [f32], argmax: &mut [u8], cells: [&[f32]; WINDOW]) {
    let (mut best, mut at) = ([f32::NEG_INFINITY; LANES], [0u32; LANES]);
    best[..y.len()].copy_from_slice(cells[0]);
    for (position, cell) in (1..).zip(&cells[1..]) {
        for ((best, at), z) in best.iter_mut().zip(&mut at).zip(*cell) {
            let better = replaces(*z, *best);
            *best = if better { *z } else { *best };
            *at = if better { position } else { *at };
        }
    }
    y.copy_from_slice(&best[..y.len()]);
    argmax.iter_mut().zip(at).for_each(|(a, at)| *a = at as u8);
}

vectorized! {
    /// - y, argmax: `[bands, width/2, channels]`, z: `[bands, 2, width, channels]`
    fn max_bands(y: &mut [f32], argmax: &mut [u8], z: &[f32], width: usize, channels: usize) {
        let line = width * channels;
        let outputs = y.chunks_exact_mut(line / 2).zip(argmax.chunks_exact_mut(line / 2));
        for ((y, argmax), z) in outputs.zip(z.chunks_exact(2 * line)) {
            let (above, below) = z.split_at(line);
            let outputs = y.chunks_exact_mut(channels).zip(argmax.chunks_exact_mut(channels));
            let windows = above.chunks_exact(2 * channels).zip(below.chunks_exact(2 * channels));
            for ((y, argmax), (above, below)) in outputs.zip(windows) {
                let ((a, b), (c, d)) = (above.split_at(channels), below.split_at(channels));
                let cells = a.chunks(LANES).zip(b.chunks(LANES)).zip(c.chunks(LANES).zip(d.chunks(LANES)));
                let outputs = y.chunks_mut(LANES).zip(argmax.chunks_mut(LANES));
                for ((y, argmax), ((a, b), (c, d))) in outputs.zip(cells) {
                    max_of_four(y, argmax, [a, b, c, d]);
                }
            }
        }
    }

    /// - expanded: `[bands, 2, width, channels]`, dz, argmax: `[bands, width/2, channels]`
    fn expand_bands(expanded: &mut [f32], dz: &[f32], argmax: &[u8], width: usize, channels: usize) {
        let line = width * channels;
        let inputs = dz.chunks_exact(line / 2).zip(argmax.chunks_exact(line / 2));
        for (expanded, (dz, argmax)) in expanded.chunks_exact_mut(2 * line).zip(inputs) {
            for (row, expanded) in expanded.chunks_exact_mut(line).enumerate() {
                let inputs = dz.chunks_exact(channels).zip(argmax.chunks_exact(channels));
                for (expanded, (dz, argmax)) in expanded.chunks_exact_mut(2 * channels).zip(inputs) {
                    for (column, expanded) in expanded.chunks_exact_mut(channels).enumerate() {
                        let position = (2 * row + column) as u8;
                        for ((e, dz), at) in expanded.iter_mut().zip(dz).zip(argmax) {
                            *e = if *at == position { *dz } else { 0.0 };
                        }
                    }
                }
            }
        }
    }
}
