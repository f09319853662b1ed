//! What layers do to a matrix besides multiplying it: add a bias, apply the activation, sum the columns, transpose.

use rayon::prelude::*;

use crate::activation::{Activation, relu};
use crate::error::{Check, Result};
use crate::par::{CHUNK, map_chunks, rows_per_chunk};
use crate::simd::vectorized;

vectorized! {
    fn add_bias(rows: &mut [f32], bias: &[f32]) {
        for row in rows.chunks_exact_mut(bias.len().max(1)) {
            for (y, b) in row.iter_mut().zip(bias) {
                *y += b;
            }
        }
    }

    fn add_bias_relu(rows: &mut [f32], bias: &[f32]) {
        for row in rows.chunks_exact_mut(bias.len().max(1)) {
            for (y, b) in row.iter_mut().zip(bias) {
                *y = relu(*y + b);
            }
        }
    }

    fn relu_all(rows: &mut [f32]) {
        for y in rows {
            *y = relu(*y);
        }
    }

    fn add_all(sums: &mut [f32], more: &[f32]) {
        for (s, x) in sums.iter_mut().zip(more) {
            *s += x;
        }
    }

    fn add_rows(sums: &mut [f32], rows: &[f32]) {
        for row in rows.chunks_exact(sums.len().max(1)) {
            for (s, x) in sums.iter_mut().zip(row) {
                *s += x;
            }
        }
    }
}

/// sums += more.
///
/// # Shapes
/// - sums, more: any, the same
///
/// # Errors
/// If the lengths differ.
pub fn add(sums: &mut [f32], more: &[f32]) -> Result<()> {
    Check("add").len("more", more, sums.len())?;
    sums.par_chunks_mut(CHUNK).zip(more.par_chunks(CHUNK)).for_each(|(sums, more)| add_all(sums, more));
    Ok(())
}

/// rows = act(rows + bias), on the calling thread.
pub(crate) fn finish(rows: &mut [f32], bias: Option<&[f32]>, activation: Activation) {
    match (bias, activation) {
        (None, Activation::Identity) => {}
        (None, Activation::Relu) => relu_all(rows),
        (Some(bias), Activation::Identity) => add_bias(rows, bias),
        (Some(bias), Activation::Relu) => add_bias_relu(rows, bias),
    }
}

/// rows = act(rows + bias), on all threads.
pub(crate) fn finish_all(rows: &mut [f32], bias: Option<&[f32]>, activation: Activation) {
    let chunk = bias.map_or(CHUNK, |bias| rows_per_chunk(bias.len()) * bias.len()).max(1);
    rows.par_chunks_mut(chunk).for_each(|rows| finish(rows, bias, activation));
}

/// sums = Σ over the rows: single precision within a chunk, double precision between chunks.
pub(crate) fn column_sums(sums: &mut [f32], rows: &[f32]) {
    let num_columns = sums.len().max(1);
    let parts = map_chunks(rows.len() / num_columns, rows_per_chunk(num_columns), |range| {
        let mut part = vec![0.0; sums.len()];
        add_rows(&mut part, &rows[range.start * num_columns..range.end * num_columns]);
        part
    });
    for (column, sum) in sums.iter_mut().enumerate() {
        *sum = parts.iter().map(|part| f64::from(part[column])).sum::<f64>() as f32;
    }
}

/// `[rows, columns]` → `[columns, rows]`
pub(crate) fn transposed(from: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut to = vec![0.0; from.len()];
    transpose(&mut to, from, rows, columns);
    to
}

/// to\[j, i\] = from\[i, j\], in squares, so that both sides stay in the cache.
pub(crate) fn transpose(to: &mut [f32], from: &[f32], rows: usize, columns: usize) {
    const SQUARE: usize = 16;
    for top in (0..rows).step_by(SQUARE) {
        for left in (0..columns).step_by(SQUARE) {
            for j in left..columns.min(left + SQUARE) {
                for i in top..rows.min(top + SQUARE) {
                    to[j * rows + i] = from[i * columns + j];
                }
            }
        }
    }
}
