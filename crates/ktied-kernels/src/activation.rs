//! The nonlinearity at the end of a layer.

use rayon::prelude::*;

use crate::error::{Check, Result};
use crate::par::CHUNK;
use crate::simd::vectorized;

/// What a layer applies to its sums z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// y = z
    #[default]
    Identity,
    /// y = max(z, 0); NaN stays NaN
    Relu,
}

/// max(z, 0), keeping NaN.
#[inline(always)]
pub(crate) fn relu(z: f32) -> f32 {
    if z < 0.0 { 0.0 } else { z }
}

/// dy where the unit was on, 0 elsewhere; `y` may be the unit's input as well as its output.
#[inline(always)]
pub(crate) fn relu_gradient(dy: f32, y: f32) -> f32 {
    if y <= 0.0 { 0.0 } else { dy }
}

vectorized! {
    fn relu_backward(dz: &mut [f32], y: &[f32]) {
        for (dz, y) in dz.iter_mut().zip(y) {
            *dz = relu_gradient(*dz, *y);
        }
    }
}

/// Turns the gradient of an activation's output into that of its input, in place: dz = dy ∘ act′.
///
/// # Shapes
/// - dz (dy on entry), y (the activation's output): any, the same; `Identity` does not read y, which may be empty
///
/// # Errors
/// If the lengths differ.
///
/// ```
/// use ktied_kernels::activation::{Activation, backward};
/// let mut dz = [1.0, 2.0, 3.0];
/// backward(&mut dz, &[0.5, 0.0, 4.0], Activation::Relu)?;
/// assert_eq!(dz, [1.0, 0.0, 3.0]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn backward(dz: &mut [f32], y: &[f32], activation: Activation) -> Result<()> {
    if activation == Activation::Identity {
        return Ok(());
    }
    Check("activation backward").len("y", y, dz.len())?;
    dz.par_chunks_mut(CHUNK).zip(y.par_chunks(CHUNK)).for_each(|(dz, y)| relu_backward(dz, y));
    Ok(())
}
