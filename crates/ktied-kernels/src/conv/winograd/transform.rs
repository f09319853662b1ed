//! Tiles, sums and weights of whole lines through the transforms of [`super::filter`], a dimension after the other.

#![allow(clippy::needless_range_loop, reason = "rows and columns of a tile are indices of several arrays at once")]

use super::Window;
use super::filter::{Filter, Five, LANES, Lanes, Three, ZERO};
use crate::conv::windows::Lines;
use crate::gemm::Right;
use crate::simd::vectorized;

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
    pub(super) fn transform_weight_run(window: Window, out: &mut [&mut [f32]], taps: &[&[f32]]) {
        match window {
            Window::Three => weights_by::<Three, 4, 3>(out, taps),
            Window::Five => weights_by::<Five, 6, 5>(out, taps),
        }
    }

    pub(super) fn gather_weight_run(window: Window, out: &mut [&mut [f32]], places: &[&[f32]]) {
        match window {
            Window::Three => gather_by::<Three, 4, 3>(out, places),
            Window::Five => gather_by::<Five, 6, 5>(out, places),
        }
    }

    /// Bᵀ d B of the tiles of some lines: `[places, tiles, C]`, the places [`super::APART`].
    pub(super) fn transform_lines(window: Window, out: &mut [f32], lines: &Lines<'_>, across: usize, channels: usize) {
        match window {
            Window::Three => lines_by::<Three, 4, 3>(out, lines, across, channels),
            Window::Five => lines_by::<Five, 6, 5>(out, lines, across, channels),
        }
    }

    /// Aᵀ m A of the tiles of whole lines: `[places, tiles, O]` → y `[lines, 2, W, O]`.
    pub(super) fn transform_sums(window: Window, y: &mut [f32], sums: &[f32], width: usize, outputs: usize) {
        match window {
            Window::Three => sums_by::<Three, 4, 3>(y, sums, width, outputs),
            Window::Five => sums_by::<Five, 6, 5>(y, sums, width, outputs),
        }
    }

    /// A dy Aᵀ of the tiles of whole lines: dz `[lines, 2, W, O]` → `[places, tiles, O]`, in panels, the places [`super::APART`].
    pub(super) fn transform_gradients(window: Window, out: &mut [f32], dz: &[f32], width: usize, outputs: usize) {
        match window {
            Window::Three => gradients_by::<Three, 4, 3>(out, dz, width, outputs, Right::panel_cols()),
            Window::Five => gradients_by::<Five, 6, 5>(out, dz, width, outputs, Right::panel_cols()),
        }
    }
}
