//! Mean and variance of the columns of a matrix, exact to single precision whatever the mean and the number of rows.

use crate::par::{map_chunks, rows_per_chunk};
use crate::simd::vectorized;

/// Rows that are summed in single precision before double precision takes over.
const MAX_ROWS: usize = 512;

pub(crate) fn chunk_rows(channels: usize) -> usize {
    rows_per_chunk(channels).min(MAX_ROWS)
}

/// Mean and variance of each channel. Each chunk of rows is summed twice, the second time about its own mean, so a
/// mean far from zero costs no digits; chunks are merged in order in double precision.
pub(crate) fn measure(mean: &mut [f32], var: &mut [f32], x: &[f32]) {
    let channels = mean.len().max(1);
    let parts = map_chunks(x.len() / channels, chunk_rows(channels), |rows| {
        let x = &x[rows.start * channels..rows.end * channels];
        let mut part = vec![0.0; 3 * channels];
        chunk_moments(&mut part, x);
        (rows.len() as f64, part)
    });
    for (c, (mean, var)) in mean.iter_mut().zip(var).enumerate() {
        let mut total = Running::default();
        for (rows, part) in &parts {
            total.merge(*rows, [part[c], part[channels + c], part[2 * channels + c]].map(f64::from));
        }
        *mean = total.mean as f32;
        *var = (total.m2 / total.rows.max(1.0)) as f32;
    }
}

/// Count, mean and sum of squared deviations of the rows so far.
#[derive(Default)]
struct Running {
    rows: f64,
    mean: f64,
    m2: f64,
}

impl Running {
    /// Joins a chunk given by a centre near its mean and the sums of deviations and of their squares about it (Chan,
    /// Golub, LeVeque, 1979).
    fn merge(&mut self, rows: f64, [centre, deviation, squares]: [f64; 3]) {
        let mean = centre + deviation / rows;
        let m2 = squares - deviation * deviation / rows;
        let (total, delta) = (self.rows + rows, mean - self.mean);
        self.m2 += m2 + delta * delta * self.rows * rows / total;
        self.mean += delta * rows / total;
        self.rows = total;
    }
}

vectorized! {
    /// part = [centre, Σ (x − centre), Σ (x − centre)²] of each channel.
    fn chunk_moments(part: &mut [f32], x: &[f32]) {
        let channels = part.len() / 3;
        let (centre, sums) = part.split_at_mut(channels);
        let (deviation, squares) = sums.split_at_mut(channels);
        for row in x.chunks_exact(channels) {
            for (m, x) in centre.iter_mut().zip(row) {
                *m += x;
            }
        }
        let share = channels as f32 / x.len() as f32;
        for m in centre.iter_mut() {
            *m *= share;
        }
        for row in x.chunks_exact(channels) {
            let sums = deviation.iter_mut().zip(squares.iter_mut());
            for ((x, m), (s, q)) in row.iter().zip(&*centre).zip(sums) {
                let d = x - m;
                *s += d;
                *q += d * d;
            }
        }
    }
}
