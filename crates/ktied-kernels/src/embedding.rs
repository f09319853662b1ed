//! Rows of a table by their numbers, and the way back: the gradients of each row added up.

use rayon::prelude::*;

use crate::error::{Check, Result};
use crate::par::rows_per_chunk;
use crate::simd::vectorized;

/// out = table\[ids\], row by row.
///
/// # Shapes
/// - out: `[L, N]`, table: `[V, N]`, ids: L of them, each below V
///
/// # Errors
/// If the lengths do not fit or a row is not there.
///
/// ```
/// let mut out = [0.0; 4];
/// ktied_kernels::embedding::forward(&mut out, &[1., 2., 3., 4., 5., 6.], &[2, 0], 2)?;
/// assert_eq!(out, [5., 6., 1., 2.]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward(out: &mut [f32], table: &[f32], ids: &[u32], num_columns: usize) -> Result<()> {
    check_all(Check("embedding"), out, table, ids, num_columns)?;
    if out.is_empty() {
        return Ok(());
    }
    let rows = rows_per_chunk(num_columns);
    out.par_chunks_mut(rows * num_columns).zip(ids.par_chunks(rows)).for_each(|(out, ids)| {
        for (out, &id) in out.chunks_exact_mut(num_columns).zip(ids) {
            out.copy_from_slice(&table[id as usize * num_columns..][..num_columns]);
        }
    });
    Ok(())
}

/// dtable\[v\] = Σ dout over the places where v stood, added in their order; zero for a row that stood nowhere.
///
/// # Shapes
/// - dtable: `[V, N]`, dout: `[L, N]`, ids: L of them, each below V
///
/// # Errors
/// If the lengths do not fit or a row is not there; nothing is written then.
pub fn backward(dtable: &mut [f32], dout: &[f32], ids: &[u32], num_columns: usize) -> Result<()> {
    check_all(Check("embedding backward"), dout, dtable, ids, num_columns)?;
    if dtable.is_empty() {
        return Ok(());
    }
    // Sorted by row, then by place: every task finds its rows in one piece, and the order of addition is fixed.
    let mut places: Vec<(u32, usize)> = ids.iter().enumerate().map(|(place, &id)| (id, place)).collect();
    places.sort_unstable();
    let rows = rows_per_chunk(num_columns);
    dtable.par_chunks_mut(rows * num_columns).enumerate().for_each(|(chunk, dtable)| {
        dtable.fill(0.0);
        let first = chunk * rows;
        let start = places.partition_point(|&(id, _)| (id as usize) < first);
        let here = places[start..].iter().take_while(|&&(id, _)| (id as usize) < first + rows);
        for &(id, place) in here {
            let row = (id as usize - first) * num_columns;
            add(&mut dtable[row..row + num_columns], &dout[place * num_columns..][..num_columns]);
        }
    });
    Ok(())
}

fn check_all(check: Check, rows: &[f32], table: &[f32], ids: &[u32], num_columns: usize) -> Result<()> {
    check.len("rows", rows, check.product(&[ids.len(), num_columns])?)?;
    let num_rows = table.len().checked_div(num_columns).unwrap_or(usize::MAX);
    check.len("table", table, num_rows.saturating_mul(num_columns))?;
    let largest = ids.iter().max().map_or(0, |&id| id as usize);
    check.size("id", largest, ids.is_empty() || largest < num_rows, "below the number of rows")
}

vectorized! {
    fn add(total: &mut [f32], part: &[f32]) {
        for (t, p) in total.iter_mut().zip(part) {
            *t += p;
        }
    }
}
