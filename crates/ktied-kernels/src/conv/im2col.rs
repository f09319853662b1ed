//! Between images and the matrix of their windows: one row for every place of the window, one column for every
//! weight of an output.

use std::ops::Range;

use crate::conv::shape::{Conv2dShape, Plan};
use crate::simd::vectorized;

vectorized! {
    /// col = the windows `rows` (numbered over all images), of which only the elements `columns`.
    ///
    /// - col: `[rows, columns]`, x: `[B, H, W, C]`
    pub(crate) fn im2col(col: &mut [f32], x: &[f32], plan: &Plan, rows: Range<usize>, columns: Range<usize>) {
        let (width, step) = (columns.len(), plan.shape.stride[1] * plan.shape.channels);
        for line in lines(plan, rows, columns) {
            let interior = line.interior(plan);
            for ox in line.places.clone().filter(|ox| !interior.contains(ox)) {
                let out = &mut col[line.start_of(ox, width)..][..line.run.len()];
                let (zeros, source) = line.source(ox, plan);
                out.fill(0.0);
                out[zeros..zeros + source.len()].copy_from_slice(&x[source]);
            }
            if !interior.is_empty() {
                let to = &mut col[line.start_of(interior.start, width)..];
                let from = &x[line.source(interior.start, plan).1.start..];
                copy_runs(to, width, from, step, line.run.len(), interior.len());
            }
        }
    }

    /// dx += the windows `rows`, each element to the pixel it came from.
    ///
    /// - dx: `[B, H, W, C]`, col: `[rows, KH·KW·C]`
    pub(crate) fn col2im(dx: &mut [f32], col: &[f32], plan: &Plan, rows: Range<usize>) {
        for line in lines(plan, rows, 0..plan.patch) {
            for ox in line.places.clone() {
                let (zeros, source) = line.source(ox, plan);
                let from = &col[line.start_of(ox, plan.patch) + zeros..];
                for (d, c) in dx[source].iter_mut().zip(from) {
                    *d += c;
                }
            }
        }
    }
}

/// One row of the window at neighbouring places: a row of the image gives a run of elements to each of them.
struct Line {
    /// Start in x of the row of the image, unless it is padding.
    image_row: Option<usize>,
    /// Places of the window along this row.
    places: Range<usize>,
    /// The elements wanted of each run of KW·C.
    run: Range<usize>,
    /// Start in the matrix of the first place's run.
    at: usize,
}

impl Line {
    /// Start in a matrix of `width` columns of the run of place `ox`.
    #[inline(always)]
    fn start_of(&self, ox: usize, width: usize) -> usize {
        self.at + (ox - self.places.start) * width
    }

    /// Places whose run lies wholly on the image.
    #[inline(always)]
    fn interior(&self, plan: &Plan) -> Range<usize> {
        let Conv2dShape { width, kernel, stride, padding, .. } = plan.shape;
        if self.image_row.is_none() || width + padding.left < kernel[1] {
            return self.places.start..self.places.start;
        }
        let (first, last) = (padding.left.div_ceil(stride[1]), (width + padding.left - kernel[1]) / stride[1]);
        let start = first.clamp(self.places.start, self.places.end);
        start..(last + 1).clamp(start, self.places.end)
    }

    /// Zeros before, and elements of x: the run of place `ox` without what padding cuts off.
    #[inline(always)]
    fn source(&self, ox: usize, plan: &Plan) -> (usize, Range<usize>) {
        let Conv2dShape { width, channels, kernel, stride, padding, .. } = plan.shape;
        let left = ox * stride[1];
        let inside_start = padding.left.saturating_sub(left).min(kernel[1]) * channels;
        let inside_end = (width + padding.left).saturating_sub(left).min(kernel[1]) * channels;
        let from = inside_start.max(self.run.start);
        let to = inside_end.min(self.run.end);
        match self.image_row {
            Some(image_row) if from < to => {
                let origin = image_row + left.saturating_sub(padding.left) * channels;
                (from - self.run.start, origin + from - inside_start..origin + to - inside_start)
            }
            _ => (0, 0..0),
        }
    }
}

/// Every row of the window (of which only `columns`) along every row of places.
///
/// An iterator and not a function that calls a closure, because a closure might not be compiled for the level in use.
#[inline(always)]
fn lines(plan: &Plan, rows: Range<usize>, columns: Range<usize>) -> impl Iterator<Item = Line> {
    let Conv2dShape { height, width, channels, kernel, stride, padding, .. } = plan.shape;
    let (out_height, out_width) = (plan.out_height, plan.out_width);
    let run_len = (kernel[1] * channels).max(1);
    let window_rows = columns.start / run_len..columns.end.div_ceil(run_len);
    let out_rows = rows.start / out_width..rows.end.div_ceil(out_width);
    out_rows.flat_map(move |out_row| {
        let first_row = out_row * out_width;
        let places = rows.start.saturating_sub(first_row)..out_width.min(rows.end - first_row);
        let at = (first_row + places.start - rows.start) * columns.len();
        let (image, oy, columns) = (out_row / out_height, out_row % out_height, columns.clone());
        window_rows.clone().map(move |ky| {
            let y = (oy * stride[0] + ky).checked_sub(padding.top).filter(|y| *y < height);
            Line {
                image_row: y.map(|y| (image * height + y) * width * channels),
                places: places.clone(),
                run: columns.start.saturating_sub(ky * run_len)..run_len.min(columns.end - ky * run_len),
                at: at + (ky * run_len).saturating_sub(columns.start),
            }
        })
    })
}

/// Copies `count` runs of `len` elements, each `to_step` and `from_step` after the one before.
#[inline(always)]
fn copy_runs(to: &mut [f32], to_step: usize, from: &[f32], from_step: usize, len: usize, count: usize) {
    match len {
        4..8 => copy_runs_in_two::<4>(to, to_step, from, from_step, len, count),
        8..16 => copy_runs_in_two::<8>(to, to_step, from, from_step, len, count),
        16..=32 => copy_runs_in_two::<16>(to, to_step, from, from_step, len, count),
        _ => (0..count).for_each(|i| to[i * to_step..][..len].copy_from_slice(&from[i * from_step..][..len])),
    }
}

/// The same for runs of N to 2N elements, as two vectors that overlap: a call of `memcpy` would cost more than the
/// copy itself.
#[inline(always)]
fn copy_runs_in_two<const N: usize>(
    to: &mut [f32],
    to_step: usize,
    from: &[f32],
    from_step: usize,
    len: usize,
    count: usize,
) {
    for i in 0..count {
        let (to, from) = (&mut to[i * to_step..][..len], &from[i * from_step..][..len]);
        to[..N].copy_from_slice(&from[..N]);
        to[len - N..].copy_from_slice(&from[len - N..]);
    }
}
