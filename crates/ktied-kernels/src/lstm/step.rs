//! One step of a long short-term memory between its matrix products: gates, cells, hidden states, and back.

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

/// z = act(z + bias).
#[inline(always)]
fn activate(z: &mut [f32], bias: &[f32], act: impl Fn(f32) -> f32) {
    for (z, b) in z.iter_mut().zip(bias) {
        *z = act(*z + b);
    }
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
    /// - gates: `[rows, 4H]`, cells, hidden, cells_before: `[rows, H]`, added: `[any, 4H]`; n is H
    pub(crate) fn step_rows(
        gates: &mut [f32],
        cells: &mut [f32],
        hidden: &mut [f32],
        cells_before: Option<&[f32]>,
        added: &[f32],
        which: Which<'_>,
        n: usize,
    ) {
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
            // A loop a gate: one loop over all would store to so many places that it is not vectorised.
            activate(&mut gates[..2 * n], &added[..2 * n], sigmoid);
            activate(&mut gates[2 * n..3 * n], &added[2 * n..3 * n], tanh);
            activate(&mut gates[3 * n..], &added[3 * n..], sigmoid);
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
    /// - gates: `[rows, 4H]`, row: `[4H]`, whose values do not matter, the others `[rows, H]`; n is H
    pub(crate) fn step_rows_backward(
        gates: &mut [f32],
        row: &mut [f32],
        dc: &mut [f32],
        dh: &[f32],
        cells: &[f32],
        cells_before: &[f32],
        n: usize,
    ) {
        let gradients = dc.chunks_exact_mut(n).zip(dh.chunks_exact(n));
        let cells = cells.chunks_exact(n).zip(cells_before.chunks_exact(n));
        for ((gates, (dc, dh)), (cells, cells_before)) in gates.chunks_exact_mut(4 * n).zip(gradients).zip(cells) {
            // By way of a row of their own: a loop that reads and writes the same four places is not vectorised.
            let ([di, df, dg, d_o], [i, f, g, o]) = (four_mut(row, n), four(gates, n));
            let (dc, dh, cells, cells_before) = (&mut dc[..n], &dh[..n], &cells[..n], &cells_before[..n]);
            for j in 0..n {
                let squashed = tanh(cells[j]);
                let dcell = dc[j] + dh[j] * o[j] * (1.0 - squashed * squashed);
                di[j] = dcell * g[j] * i[j] * (1.0 - i[j]);
                df[j] = dcell * cells_before[j] * f[j] * (1.0 - f[j]);
                dg[j] = dcell * i[j] * (1.0 - g[j] * g[j]);
                d_o[j] = dh[j] * squashed * o[j] * (1.0 - o[j]);
                dc[j] = dcell * f[j];
            }
            gates.copy_from_slice(row);
        }
    }
}
