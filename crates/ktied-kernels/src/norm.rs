//! The norm of a vector, summed in double precision.

use crate::par::{CHUNK, map_chunks};
use crate::simd::vectorized;

/// Running sums, as many as the widest vector unit takes.
const LANES: usize = 8;

/// Σ x², in double precision, in one order whatever the number of threads; not finite if an element is not.
///
/// ```
/// assert_eq!(ktied_kernels::norm::sum_of_squares(&[3.0, 4.0]), 25.0);
/// ```
pub fn sum_of_squares(values: &[f32]) -> f64 {
    map_chunks(values.len(), CHUNK, |range| of_chunk(&values[range])).into_iter().sum()
}

vectorized! {
    fn of_chunk(values: &[f32]) -> f64 {
        let (chunks, rest) = values.as_chunks::<LANES>();
        let mut lanes = [0.0f64; LANES];
        for chunk in chunks {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(x) * f64::from(x);
            }
        }
        lanes.iter().sum::<f64>() + rest.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>()
    }
}
