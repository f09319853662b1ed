//! Maximum and mean over windows of channels-last images, and their gradients.

use rayon::prelude::*;

use crate::conv::shape::out_size;
use crate::error::{Check, Result};
use crate::par::{CHUNK, LANES};
use crate::simd::vectorized;

/// Sizes of a pooling of images `[B, H, W, C]`; windows stay inside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Images, B.
    pub batch: usize,
    /// Rows of an image, H.
    pub height: usize,
    /// Columns of an image, W.
    pub width: usize,
    /// Channels, C.
    pub channels: usize,
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// Steps of the window, down and across.
    pub stride: [usize; 2],
}

impl PoolShape {
    /// Rows of an output image.
    ///
    /// # Errors
    /// If a size is impossible.
    pub fn out_height(&self) -> Result<usize> {
        Ok(self.out_sizes(Check("pool2d"))?[0])
    }

    /// Columns of an output image.
    ///
    /// # Errors
    /// If a size is impossible.
    pub fn out_width(&self) -> Result<usize> {
        Ok(self.out_sizes(Check("pool2d"))?[1])
    }

    fn out_sizes(&self, check: Check) -> Result<[usize; 2]> {
        Ok([
            out_size(check, "height", self.height, [0; 2], self.kernel[0], self.stride[0])?,
            out_size(check, "width", self.width, [0; 2], self.kernel[1], self.stride[1])?,
        ])
    }

    fn plan(&self, check: Check, x: &[f32], y: &[f32]) -> Result<Plan> {
        let out = self.out_sizes(check)?;
        check.len("x", x, check.product(&[self.batch, self.height, self.width, self.channels])?)?;
        check.len("y", y, check.product(&[self.batch, out[0], out[1], self.channels])?)?;
        // What is empty is never divided into images, so its sizes, which no length bounds, are never multiplied.
        let image = |len: usize| len.checked_div(self.batch).unwrap_or(1).max(1);
        let (x_image, y_image) = (image(x.len()), image(y.len()));
        Ok(Plan { shape: *self, out, x_image, y_image, images: (CHUNK / x_image).max(1) })
    }
}

/// A shape that was checked.
#[derive(Clone, Copy)]
struct Plan {
    shape: PoolShape,
    out: [usize; 2],
    /// Elements of an image of x and of y.
    x_image: usize,
    y_image: usize,
    /// Images that one task takes.
    images: usize,
}

impl Plan {
    fn x_chunk(&self) -> usize {
        self.images * self.x_image
    }

    fn y_chunk(&self) -> usize {
        self.images * self.y_image
    }

    /// For every window of an image, the start of the window in x and of its result in y.
    ///
    /// Iterators and not functions that call a closure, because a closure might not be compiled for the level in use.
    #[inline(always)]
    fn windows(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (PoolShape { width, channels, stride, .. }, [out_height, out_width]) = (self.shape, self.out);
        (0..out_height).flat_map(move |oy| {
            let (line, out) = (oy * stride[0] * width * channels, oy * out_width * channels);
            (0..out_width).map(move |ox| (line + ox * stride[1] * channels, out + ox * channels))
        })
    }

    /// For every pixel of a window, row by row, its offset from the start of the window.
    #[inline(always)]
    fn offsets(&self) -> impl Iterator<Item = usize> + use<> {
        let PoolShape { width, channels, kernel, .. } = self.shape;
        (0..kernel[0]).flat_map(move |ky| (0..kernel[1]).map(move |kx| (ky * width + kx) * channels))
    }
}

/// Windows of which every pixel has a number that fits a byte.
const MAX_WINDOW: usize = 256;

fn check_window(check: Check, shape: &PoolShape) -> Result<usize> {
    let window = check.product(&shape.kernel)?;
    check.size("kernel", window, window <= MAX_WINDOW, "at most 256 pixels")?;
    Ok(window)
}

/// y = the largest of each window, and argmax = its number in the window, row by row from 0; of equals the first,
/// and a NaN, if there is one, before all.
///
/// # Shapes
/// - y, argmax: `[B, OH, OW, C]`, x: `[B, H, W, C]`
///
/// # Errors
/// If a length does not fit `shape`, the window does not fit the image, or it has more than 256 pixels.
///
/// ```
/// use ktied_kernels::pool::{PoolShape, max_forward};
/// let shape = PoolShape { batch: 1, height: 2, width: 2, channels: 1, kernel: [2, 2], stride: [2, 2] };
/// let (mut y, mut argmax) = ([0.0], [0]);
/// max_forward(&mut y, &mut argmax, &[1.0, 4.0, 2.0, 4.0], &shape)?;
/// assert_eq!((y, argmax), ([4.0], [1]));
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn max_forward(y: &mut [f32], argmax: &mut [u8], x: &[f32], shape: &PoolShape) -> Result<()> {
    let check = Check("max_pool2d");
    check_window(check, shape)?;
    let plan = shape.plan(check, x, y)?;
    check.len("argmax", argmax, y.len())?;
    let outputs = y.par_chunks_mut(plan.y_chunk()).zip(argmax.par_chunks_mut(plan.y_chunk()));
    outputs.zip(x.par_chunks(plan.x_chunk())).for_each(|((y, argmax), x)| max_images(y, argmax, x, &plan));
    Ok(())
}

/// Gradient of [`max_forward`]: each element of dy goes to the pixel that its argmax names.
///
/// # Shapes
/// - dx: `[B, H, W, C]`, dy, argmax: `[B, OH, OW, C]`
///
/// # Errors
/// If a length does not fit `shape`, the window does not fit the image, or a number in argmax lies outside the window.
pub fn max_backward(dx: &mut [f32], dy: &[f32], argmax: &[u8], shape: &PoolShape) -> Result<()> {
    let check = Check("max_pool2d backward");
    let window = check_window(check, shape)?;
    let plan = shape.plan(check, dx, dy)?;
    check.len("argmax", argmax, dy.len())?;
    let largest = argmax.iter().copied().max().map_or(0, usize::from);
    check.size("argmax", largest, largest < window, "below the number of pixels of the window")?;
    let inputs = dy.par_chunks(plan.y_chunk()).zip(argmax.par_chunks(plan.y_chunk()));
    let tasks = dx.par_chunks_mut(plan.x_chunk()).zip(inputs);
    tasks.for_each(|(dx, (dy, argmax))| max_images_backward(dx, dy, argmax, &plan));
    Ok(())
}

/// y = the mean of each window.
///
/// # Shapes
/// - y: `[B, OH, OW, C]`, x: `[B, H, W, C]`
///
/// # Errors
/// If a length does not fit `shape`, or the window does not fit the image.
pub fn avg_forward(y: &mut [f32], x: &[f32], shape: &PoolShape) -> Result<()> {
    let plan = shape.plan(Check("avg_pool2d"), x, y)?;
    let tasks = y.par_chunks_mut(plan.y_chunk()).zip(x.par_chunks(plan.x_chunk()));
    tasks.for_each(|(y, x)| avg_images(y, x, &plan));
    Ok(())
}

/// Gradient of [`avg_forward`]: each element of dy is divided equally among the pixels of its window.
///
/// # Shapes
/// - dx: `[B, H, W, C]`, dy: `[B, OH, OW, C]`
///
/// # Errors
/// If a length does not fit `shape`, or the window does not fit the image.
pub fn avg_backward(dx: &mut [f32], dy: &[f32], shape: &PoolShape) -> Result<()> {
    let plan = shape.plan(Check("avg_pool2d backward"), dx, dy)?;
    let tasks = dx.par_chunks_mut(plan.x_chunk()).zip(dy.par_chunks(plan.y_chunk()));
    tasks.for_each(|(dx, dy)| avg_images_backward(dx, dy, &plan));
    Ok(())
}

/// Whether `new` takes the place of `old`: if larger, or the first NaN.
#[inline(always)]
pub(crate) fn replaces(new: f32, old: f32) -> bool {
    // Not the same as `new > old`: this is also true where new is NaN.
    #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN must make it true")]
    let larger_or_nan = !(new <= old);
    larger_or_nan & !old.is_nan()
}

/// Maximum of up to [`LANES`] neighbouring channels over one window, wholly in registers where there are that many.
#[inline(always)]
fn max_window(y: &mut [f32], argmax: &mut [u8], x: &[f32], plan: &Plan) {
    let (mut best, mut at) = ([f32::NEG_INFINITY; LANES], [0u32; LANES]);
    let len = y.len();
    best[..len].copy_from_slice(&x[..len]);
    for (position, offset) in plan.offsets().enumerate() {
        for ((best, at), x) in best.iter_mut().zip(&mut at).zip(&x[offset..offset + len]) {
            let better = replaces(*x, *best);
            *best = if better { *x } else { *best };
            *at = if better { position as u32 } else { *at };
        }
    }
    y.copy_from_slice(&best[..len]);
    argmax.iter_mut().zip(at).for_each(|(a, at)| *a = at as u8);
}

vectorized! {
    fn max_images(y: &mut [f32], argmax: &mut [u8], x: &[f32], plan: &Plan) {
        let channels = plan.shape.channels;
        let outputs = y.chunks_exact_mut(plan.y_image).zip(argmax.chunks_exact_mut(plan.y_image));
        for ((y, argmax), x) in outputs.zip(x.chunks_exact(plan.x_image)) {
            for (window, out) in plan.windows() {
                let whole = channels - channels % LANES;
                for c in (0..whole).step_by(LANES) {
                    let (y, argmax) = (&mut y[out + c..][..LANES], &mut argmax[out + c..][..LANES]);
                    max_window(y, argmax, &x[window + c..], plan);
                }
                if whole < channels {
                    let rest = out + whole..out + channels;
                    max_window(&mut y[rest.clone()], &mut argmax[rest], &x[window + whole..], plan);
                }
            }
        }
    }

    fn max_images_backward(dx: &mut [f32], dy: &[f32], argmax: &[u8], plan: &Plan) {
        dx.fill(0.0);
        let channels = plan.shape.channels;
        let inputs = dy.chunks_exact(plan.y_image).zip(argmax.chunks_exact(plan.y_image));
        for (dx, (dy, argmax)) in dx.chunks_exact_mut(plan.x_image).zip(inputs) {
            for (window, out) in plan.windows() {
                let (dy, argmax) = (&dy[out..out + channels], &argmax[out..out + channels]);
                // Every pixel asks whether it was the largest: no scattered writes, so this is vector code.
                for (position, offset) in plan.offsets().enumerate() {
                    let dx = &mut dx[window + offset..][..channels];
                    for ((dx, dy), at) in dx.iter_mut().zip(dy).zip(argmax) {
                        *dx += if *at == position as u8 { *dy } else { 0.0 };
                    }
                }
            }
        }
    }

    fn avg_images(y: &mut [f32], x: &[f32], plan: &Plan) {
        let PoolShape { channels, kernel, .. } = plan.shape;
        let share = 1.0 / (kernel[0] as f32 * kernel[1] as f32);
        for (y, x) in y.chunks_exact_mut(plan.y_image).zip(x.chunks_exact(plan.x_image)) {
            for (window, out) in plan.windows() {
                let y = &mut y[out..out + channels];
                y.fill(0.0);
                for offset in plan.offsets() {
                    for (y, x) in y.iter_mut().zip(&x[window + offset..]) {
                        *y += x;
                    }
                }
                for y in y {
                    *y *= share;
                }
            }
        }
    }

    fn avg_images_backward(dx: &mut [f32], dy: &[f32], plan: &Plan) {
        dx.fill(0.0);
        let PoolShape { channels, kernel, .. } = plan.shape;
        let share = 1.0 / (kernel[0] as f32 * kernel[1] as f32);
        for (dx, dy) in dx.chunks_exact_mut(plan.x_image).zip(dy.chunks_exact(plan.y_image)) {
            for (window, out) in plan.windows() {
                let dy = &dy[out..out + channels];
                for offset in plan.offsets() {
                    for (dx, dy) in dx[window + offset..].iter_mut().zip(dy) {
                        *dx += dy * share;
                    }
                }
            }
        }
    }
}
