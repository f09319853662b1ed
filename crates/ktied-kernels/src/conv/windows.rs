//! Products with the windows of images where they lie: a window's rows are runs of neighbouring elements of the image, so that no
//! matrix of windows is made, only a border of zeros around the lines in use.

use std::ops::Range;

use crate::conv::im2col::im2col;
use crate::conv::shape::{Conv2dShape, Padding, Plan};
use crate::error::Result;
use crate::gemm::tile::{Left, MAX_ROWS, Tile};
use crate::gemm::{Mat, Right};
use crate::scratch::with_scratch;

/// Most terms of a pass over the windows: a panel of weights then stays in the first-level cache.
const MAX_TERMS: usize = 400;

/// The images under some lines of windows, with their padding.
pub(super) struct Lines<'a> {
    pub(super) x: &'a [f32],
    /// Where, in x, the first window of every line begins.
    pub(super) starts: Vec<usize>,
    /// From a window to the next of its line.
    step: usize,
    /// From a row of a window to the next.
    pub(super) row: usize,
}

/// Runs `task` on the images under `lines`: rows of places of the window, those of all images in order.
pub(super) fn with_lines<T>(x: &[f32], plan: &Plan, lines: Range<usize>, task: impl FnOnce(Lines<'_>) -> T) -> T {
    let Conv2dShape { height, width, channels, stride, padding, .. } = plan.shape;
    let (step, out_height) = (stride[1] * channels, plan.out_height);
    if padding == Padding::default() {
        let row = width * channels;
        let starts = lines.map(|line| (line / out_height * height + line % out_height * stride[0]) * row).collect();
        return task(Lines { x, starts, step, row });
    }
    if !is_like_its_image(plan) {
        let (num_lines, places) = (lines.len(), lines.start * plan.out_width..lines.end * plan.out_width);
        return with_scratch(places.len() * plan.patch, |windows| {
            im2col(windows, x, plan, places, 0..plan.patch);
            let starts = (0..num_lines).map(|line| line * plan.out_width * plan.patch).collect();
            task(Lines { x: windows, starts, step: plan.patch, row: plan.shape.kernel[1] * channels })
        });
    }
    let row = padded_width(plan) * channels;
    let parts: Vec<_> = images(plan, lines).collect();
    let len = parts.iter().map(|(_, lines)| padded_rows(plan, lines.len()) * row).sum();
    with_scratch(len, |padded| {
        let (mut starts, mut at) = (Vec::new(), 0);
        for (image, lines) in parts {
            let len = padded_rows(plan, lines.len()) * row;
            let image = &x[image * height * width * channels..][..height * width * channels];
            pad(&mut padded[at..at + len], image, plan, lines.start * stride[0]);
            starts.extend((0..lines.len()).map(|line| at + line * stride[0] * row));
            at += len;
        }
        task(Lines { x: padded, starts, step, row })
    })
}

/// Whether a padded image is about as large as the image. Where it is not, windows are copied apart.
pub(super) fn is_like_its_image(plan: &Plan) -> bool {
    let Conv2dShape { height, width, kernel, padding: Padding { top, bottom, left, right }, .. } = plan.shape;
    let fits = |size: usize, window: usize, [before, after]: [usize; 2]| {
        before <= window.max(size) && after <= window.max(size)
    };
    fits(height, kernel[0], [top, bottom]) && fits(width, kernel[1], [left, right])
}

/// Columns under all places of the window on a line.
fn padded_width(plan: &Plan) -> usize {
    (plan.out_width - 1) * plan.shape.stride[1] + plan.shape.kernel[1]
}

/// Rows under all places of the window on so many lines.
fn padded_rows(plan: &Plan, num_lines: usize) -> usize {
    (num_lines - 1) * plan.shape.stride[0] + plan.shape.kernel[0]
}

/// The images that `lines` lie on, with the lines on each, counted within it.
fn images(plan: &Plan, lines: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let len = plan.out_height;
    (lines.start / len..lines.end.div_ceil(len)).map(move |image| {
        let first = image * len;
        (image, lines.start.saturating_sub(first)..(lines.end - first).min(len))
    })
}

/// Copies rows of an image, from row `first` of the padded one on, with zeros around it.
fn pad(to: &mut [f32], image: &[f32], plan: &Plan, first: usize) {
    let Conv2dShape { height, width, channels, padding, .. } = plan.shape;
    let padded = padded_width(plan);
    let left = padding.left.min(padded);
    let (left, inside) = (left * channels, width.min(padded - left) * channels);
    for (y, to) in (first..).zip(to.chunks_exact_mut(padded * channels)) {
        match y.checked_sub(padding.top).filter(|y| *y < height) {
            Some(y) => {
                to[..left].fill(0.0);
                to[left..left + inside].copy_from_slice(&image[y * width * channels..][..inside]);
                to[left + inside..].fill(0.0);
            }
            None => to.fill(0.0),
        }
    }
}

/// z = the windows of `lines` times the packed weights.
///
/// - z: `[lines, OW, O]`, weight: `[KH·KW·C, O]`
pub(super) fn multiply(z: &mut [f32], x: &[f32], weight: Right<'_>, plan: &Plan, lines: Range<usize>) {
    let (engine, outputs) = (weight.engine(), plan.shape.outputs);
    let [kernel_rows, kernel_cols] = plan.shape.kernel;
    let run_len = kernel_cols * plan.shape.channels;
    let num_windows = lines.len() * plan.out_width;
    assert_eq!((z.len(), weight.shape()), (num_windows * outputs, (plan.patch, outputs)));
    if run_len == 0 {
        return z.fill(0.0);
    }
    with_lines(x, plan, lines, |lines| {
        let of_line = |start: usize| (0..plan.out_width).map(move |place| start + place * lines.step);
        let windows: Vec<usize> = lines.starts.iter().copied().flat_map(of_line).collect();
        let runs: Vec<usize> = (0..kernel_rows).map(|k| k * lines.row).collect();
        let mut done = 0;
        for runs in runs.chunks((MAX_TERMS / run_len).max(1)) {
            for (panel, columns) in weight.panels() {
                for (first, rows) in engine.cuts(num_windows) {
                    let mut left = [0; MAX_ROWS];
                    left[..rows].copy_from_slice(&windows[first..first + rows]);
                    let tile = Tile {
                        a: lines.x.as_ptr(),
                        left: Left::Apart(left),
                        runs,
                        run_len,
                        b: panel[done * run_len * engine.cols..].as_ptr(),
                        b_stride: engine.cols,
                        b_run: run_len * engine.cols,
                        c: z[first * outputs + columns.start..].as_mut_ptr(),
                        c_stride: outputs,
                        rows,
                        cols: columns.len(),
                        joins: done > 0,
                    };
                    // SAFETY: every run of every window is within the padded lines, a panel has all terms, and z has a row for
                    // every window.
                    unsafe { (engine.tile)(&tile) };
                }
            }
            done += runs.len();
        }
    });
}

/// dweight += windowsᵀ·dz over `lines`, for the elements `columns` of the windows.
///
/// - dweight: `[columns, O]`, dz: `[lines, OW, O]`
pub(super) fn accumulate(
    dweight: &mut [f32],
    dz: &[f32],
    x: &[f32],
    plan: &Plan,
    lines: Range<usize>,
    columns: Range<usize>,
) -> Result<()> {
    let (outputs, out_width) = (plan.shape.outputs, plan.out_width);
    let run_len = plan.shape.kernel[1] * plan.shape.channels;
    let dz = Mat::new(dz, lines.len() * out_width, outputs)?;
    assert_eq!(dweight.len(), columns.len() * outputs);
    Right::with(dz, false, |dz| {
        with_lines(x, plan, lines, |lines| {
            let engine = dz.engine();
            for (panel, cols) in dz.panels() {
                // Elements of one row of the windows after another: they are neighbours on the image.
                for kernel_row in columns.start / run_len..columns.end.div_ceil(run_len) {
                    let start = columns.start.max(kernel_row * run_len);
                    let end = columns.end.min((kernel_row + 1) * run_len);
                    for (first, rows) in engine.cuts(end - start) {
                        let column = start + first;
                        let tile = Tile {
                            a: lines.x[kernel_row * lines.row + (column - kernel_row * run_len)..].as_ptr(),
                            left: Left::Neighbours { stride: lines.step },
                            runs: &lines.starts,
                            run_len: out_width,
                            b: panel.as_ptr(),
                            b_stride: engine.cols,
                            b_run: out_width * engine.cols,
                            c: dweight[(column - columns.start) * outputs + cols.start..].as_mut_ptr(),
                            c_stride: outputs,
                            rows,
                            cols: cols.len(),
                            joins: true,
                        };
                        // SAFETY: every element of every window is within the padded lines, a panel has a term for every window, and
                        // dweight a row for every element.
                        unsafe { (engine.tile)(&tile) };
                    }
                }
            }
        })
    });
    Ok(())
}
