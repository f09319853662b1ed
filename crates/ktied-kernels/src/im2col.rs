//! Between images and the matrix of their windows: one row for every place of the window, one column for every
//! weight of an output.

use std::ops::Range;

use crate::conv_shape::{Conv2dShape, Plan};
use crate::simd::vectorized;

/// Elements beyond the end of `col` that [`im2col`] may write.
pub(crate) const SLACK: usize = 8;

vectorized! {
    /// col = the windows `rows` (numbered over all images), of which only the elements `columns`.
    ///
    /// - col: `[rows, columns]` + [`SLACK`], x: `[B, H, W, C]`
    pub(crate) fn im2col(col: &mut [f32], x: &[f32], plan: &Plan, rows: Range<usize>, columns: Range<usize>) {
        let mut at = 0;
        for_each_run(plan, rows, columns, |zeros_before, source, zeros_after| {
            col[at..at + zeros_before].fill(0.0);
            at += zeros_before;
            copy_run(&mut col[at..], &x[source.start..], source.len());
            at += source.len();
            col[at..at + zeros_after].fill(0.0);
            at += zeros_after;
        });
    }

    /// dx += the windows `rows`, each element to the pixel it came from.
    ///
    /// - dx: `[B, H, W, C]`, col: `[rows, KH·KW·C]`
    pub(crate) fn col2im(dx: &mut [f32], col: &[f32], plan: &Plan, rows: Range<usize>) {
        let mut at = 0;
        for_each_run(plan, rows, 0..plan.patch, |zeros_before, source, zeros_after| {
            at += zeros_before;
            let len = source.len();
            for (d, c) in dx[source].iter_mut().zip(&col[at..at + len]) {
                *d += c;
            }
            at += len + zeros_after;
        });
    }
}

/// Calls `run(zeros before, elements of x, zeros after)` for every row of every window, in the order of the matrix.
///
/// A row of a window is KW·C elements of x side by side, but for what padding cuts off.
#[inline(always)]
fn for_each_run(
    plan: &Plan,
    rows: Range<usize>,
    columns: Range<usize>,
    mut run: impl FnMut(usize, Range<usize>, usize),
) {
    let Conv2dShape { height, width, channels, kernel, stride, padding, .. } = plan.shape;
    let run_len = kernel[1] * channels;
    if rows.is_empty() || columns.is_empty() {
        return;
    }
    let (first_line, last_line) = (columns.start / run_len, (columns.end - 1) / run_len);
    let [mut image, mut oy] = [rows.start / plan.rows_per_image(), rows.start % plan.rows_per_image() / plan.out_width];
    let mut ox = rows.start % plan.out_width;
    for _ in rows {
        let (left, top) = (ox * stride[1], oy * stride[0]);
        // The part of a window's row that lies on the image, in elements from the window's left edge.
        let inside_start = padding.left.saturating_sub(left).min(kernel[1]) * channels;
        let inside_end = (width + padding.left).saturating_sub(left).min(kernel[1]) * channels;
        for line in first_line..=last_line {
            let start = columns.start.saturating_sub(line * run_len);
            let end = (columns.end - line * run_len).min(run_len);
            let y = top + line;
            if y < padding.top || y >= padding.top + height {
                run(end - start, 0..0, 0);
                continue;
            }
            let (from, to) = (inside_start.clamp(start, end), inside_end.clamp(start, end));
            if from >= to {
                run(end - start, 0..0, 0);
                continue;
            }
            let origin = ((image * height + y - padding.top) * width + left) * channels;
            let shift = padding.left * channels;
            run(from - start, origin + from - shift..origin + to - shift, end - to);
        }
        ox += 1;
        if ox == plan.out_width {
            (ox, oy) = (0, oy + 1);
        }
        if oy == plan.out_height {
            (oy, image) = (0, image + 1);
        }
    }
}

/// Copies the first `len` elements, and up to [`SLACK`] more where both sides have them: whole vectors need no call
/// of `memcpy`, which costs more than a short copy itself.
#[inline(always)]
fn copy_run(dst: &mut [f32], src: &[f32], len: usize) {
    let whole = len.next_multiple_of(SLACK);
    if whole > src.len() || whole > dst.len() {
        return dst[..len].copy_from_slice(&src[..len]);
    }
    match whole {
        8 => dst[..8].copy_from_slice(&src[..8]),
        16 => dst[..16].copy_from_slice(&src[..16]),
        24 => dst[..24].copy_from_slice(&src[..24]),
        32 => dst[..32].copy_from_slice(&src[..32]),
        _ => dst[..len].copy_from_slice(&src[..len]),
    }
}
