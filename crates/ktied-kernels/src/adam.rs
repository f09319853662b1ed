//! Adam in one pass over memory, in place.

use rayon::prelude::*;

use crate::error::{Check, Result};
use crate::par::CHUNK;
use crate::simd::vectorized;

/// The numbers of one Adam step (Kingma and Ba, 2015).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the mean of gradients.
    pub beta_1: f64,
    /// Decay of the mean of squared gradients.
    pub beta_2: f64,
    /// Added to the root, outside of it, as PyTorch and TensorFlow do.
    pub epsilon: f64,
    /// Number of this step; the first is 1.
    pub step: u64,
}

/// m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← θ − lr·m̂/(√v̂ + ε), where m̂ = m/(1 − β₁ᵗ) and v̂ = v/(1 − β₂ᵗ).
///
/// # Shapes
/// - param, moment_1, moment_2, grad: any, the same
///
/// # Errors
/// If the lengths differ or `step` is 0.
///
/// ```
/// use ktied_kernels::adam::{self, AdamStep};
/// let step = AdamStep { lr: 0.1, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8, step: 1 };
/// let (mut param, mut m, mut v) = ([1.0], [0.0], [0.0]);
/// adam::update(&mut param, &mut m, &mut v, &[5.0], step)?;
/// assert!((param[0] - 0.9).abs() < 1e-6); // the first step has length lr, whatever the gradient
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn update(
    param: &mut [f32],
    moment_1: &mut [f32],
    moment_2: &mut [f32],
    grad: &[f32],
    step: AdamStep,
) -> Result<()> {
    let check = Check("adam");
    check.len("moment_1", moment_1, param.len())?;
    check.len("moment_2", moment_2, param.len())?;
    check.len("grad", grad, param.len())?;
    check.size("step", step.step as usize, step.step >= 1, "at least 1")?;
    let coefficients = Coefficients::new(step);
    param
        .par_chunks_mut(CHUNK)
        .zip(moment_1.par_chunks_mut(CHUNK))
        .zip(moment_2.par_chunks_mut(CHUNK))
        .zip(grad.par_chunks(CHUNK))
        .for_each(|(((param, m), v), grad)| update_chunk(param, m, v, grad, coefficients));
    Ok(())
}

/// What is the same for every element, worked out once in double precision.
#[derive(Clone, Copy)]
struct Coefficients {
    keep_1: f32,
    take_1: f32,
    keep_2: f32,
    take_2: f32,
    rate: f32,
    root_correction: f32,
    epsilon: f32,
}

impl Coefficients {
    fn new(step: AdamStep) -> Self {
        let (beta_1, beta_2, t) = (step.beta_1, step.beta_2, step.step as f64);
        Self {
            keep_1: beta_1 as f32,
            take_1: (1.0 - beta_1) as f32,
            keep_2: beta_2 as f32,
            take_2: (1.0 - beta_2) as f32,
            rate: (step.lr / (1.0 - beta_1.powf(t))) as f32,
            root_correction: (1.0 / (1.0 - beta_2.powf(t)).sqrt()) as f32,
            epsilon: step.epsilon as f32,
        }
    }
}

vectorized! {
    fn update_chunk(param: &mut [f32], m: &mut [f32], v: &mut [f32], grad: &[f32], c: Coefficients) {
        for (((param, m), v), g) in param.iter_mut().zip(m).zip(v).zip(grad) {
            *m = c.keep_1 * *m + c.take_1 * g;
            *v = c.keep_2 * *v + c.take_2 * (g * g);
            *param -= c.rate * *m / (v.sqrt() * c.root_correction + c.epsilon);
        }
    }
}
