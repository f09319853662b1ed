//! One step of a long short-term memory between its matrix products: gates, cells, hidden states, and back.

use std::ops::Range;

use crate::simd::{prefetch, vectorized};
use crate::vmath::{sigmoid, tanh};

/// A row of 4H as its four gates, whose common length the compiler then knows.
#[inline(always)]
fn four(row: &[f32], num_hidden: usize) -> [&[f32]; 4] {
    let (i, rest) = row.split_at(num_hidden);
    let (f, rest) = rest.split_at(num_hidden);
    let (g, o) = rest.split_at(num_hidden);
    [i, f, g, &o[..num_hidden]]
}

#[inline(always)]
fn four_mut(row: &mut [f32], num_hidden: usize) -> [&mut [f32]; 4] {
    let (i, rest) = row.split_at_mut(num_hidden);
    let (f, rest) = rest.split_at_mut(num_hidden);
    let (g, o) = rest.split_at_mut(num_hidden);
    [i, f, g, &mut o[..num_hidden]]
}

/// z = act(z + (added + bias)).
#[inline(always)]
fn activate(z: &mut [f32], [added, bias]: [&[f32]; 2], act: impl Fn(f32) -> f32) {
    for (z, (a, b)) in z.iter_mut().zip(added.iter().zip(bias)) {
        *z = act(*z + (a + b));
    }
}

/// Cells whose gradients are made side by side.
const LANES: usize = 16;

/// The gradients of L cells from `start` on. By way of arrays: a loop over slices that reads and writes the same four places is not
/// vectorised.
#[inline(always)]
fn cells_backward<const L: usize>(
    gates: &mut [&mut [f32]; 4],
    dc: &mut [f32],
    [dh, cells, cells_before]: [&[f32]; 3],
    start: usize,
) {
    let load = |values: &[f32]| -> [f32; L] {
        let mut lanes = [0.0; L];
        lanes.copy_from_slice(&values[start..start + L]);
        lanes
    };
    let [i, f, g, o] = [load(gates[0]), load(gates[1]), load(gates[2]), load(gates[3])];
    let (mut carry, dh, cells, cells_before) = (load(dc), load(dh), load(cells), load(cells_before));
    let [mut di, mut df, mut dg, mut d_o] = [[0.0; L]; 4];
    for l in 0..L {
        let squashed = tanh(cells[l]);
        let dcell = carry[l] + dh[l] * o[l] * (1.0 - squashed * squashed);
        di[l] = dcell * g[l] * i[l] * (1.0 - i[l]);
        df[l] = dcell * cells_before[l] * f[l] * (1.0 - f[l]);
        dg[l] = dcell * i[l] * (1.0 - g[l] * g[l]);
        d_o[l] = dh[l] * squashed * o[l] * (1.0 - o[l]);
        carry[l] = dcell * f[l];
    }
    for (gate, gradient) in gates.iter_mut().zip([di, df, dg, d_o]) {
        gate[start..start + L].copy_from_slice(&gradient);
    }
    dc[start..start + L].copy_from_slice(&carry);
}

/// Which row of a matrix each row of gates adds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    /// All of them the first.
    First,
    /// Each the one of its number.
    Numbered(&'a [u32]),
}

vectorized! {
    /// Sums before activations to gates, in place, and the cells and hidden states; without states before, they were zero.
    ///
    /// - gates: `[rows, 4H]`, cells, hidden, cells_before: `[rows, H]`, added: `[any, 4H]`, bias: `[4H]`; n is H
    pub(crate) fn step_rows(
        gates: &mut [f32],
        cells: &mut [f32],
        hidden: &mut [f32],
        cells_before: Option<&[f32]>,
        added: &[f32],
        which: Which<'_>,
        bias: &[f32],
        n: usize,
    ) {
        let bias = &bias[..4 * n];
        let states = cells.chunks_exact_mut(n).zip(hidden.chunks_exact_mut(n));
        for (row, (gates, (cells, hidden))) in gates.chunks_exact_mut(4 * n).zip(states).enumerate() {
            let number = match which {
                Which::First => 0,
                Which::Numbered(numbers) => {
                    // The rows lie anywhere, so the next one is asked for while this one is worked on.
                    if let Some(next) = numbers.get(row + 1) {
                        prefetch(&added[*next as usize * 4 * n..][..4 * n]);
                    }
                    numbers[row] as usize
                }
            };
            let added = &added[number * 4 * n..][..4 * n];
            let to_add = |columns: Range<usize>| [&added[columns.clone()], &bias[columns]];
            // A loop a gate: one loop over all would store to so many places that it is not vectorised.
            activate(&mut gates[..2 * n], to_add(0..2 * n), sigmoid);
            activate(&mut gates[2 * n..3 * n], to_add(2 * n..3 * n), tanh);
            activate(&mut gates[3 * n..], to_add(3 * n..4 * n), sigmoid);
            let [i, f, g, o] = four(gates, n);
            let (cells, hidden) = (&mut cells[..n], &mut hidden[..n]);
            match cells_before {
                Some(before) => {
                    let before = &before[row * n..][..n];
                    for j in 0..n {
                        cells[j] = f[j] * before[j] + i[j] * g[j];
                    }
                }
                None => {
                    for j in 0..n {
                        cells[j] = i[j] * g[j];
                    }
                }
            }
            for j in 0..n {
                hidden[j] = o[j] * tanh(cells[j]);
            }
        }
    }

    /// Gates to their gradients, in place, from dh and dc (that of the step after on entry, of the step before on return).
    ///
    /// - gates: `[rows, 4H]`, the others `[rows, H]`; n is H
    pub(crate) fn step_rows_backward(
        gates: &mut [f32],
        dc: &mut [f32],
        dh: &[f32],
        cells: &[f32],
        cells_before: &[f32],
        n: usize,
    ) {
        let gradients = dc.chunks_exact_mut(n).zip(dh.chunks_exact(n));
        let cells = cells.chunks_exact(n).zip(cells_before.chunks_exact(n));
        for ((gates, (dc, dh)), (cells, cells_before)) in gates.chunks_exact_mut(4 * n).zip(gradients).zip(cells) {
            let mut gates = four_mut(gates, n);
            let whole = n / LANES * LANES;
            for start in (0..whole).step_by(LANES) {
                cells_backward::<LANES>(&mut gates, dc, [dh, cells, cells_before], start);
            }
            for start in whole..n {
                cells_backward::<1>(&mut gates, dc, [dh, cells, cells_before], start);
            }
        }
    }
}
