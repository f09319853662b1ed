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

/// The largest magnitude of a parameter and of its moments; not finite if one of their numbers is not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Largest {
    /// Of the parameter.
    pub param: f32,
    /// Of the mean of gradients.
    pub moment_1: f32,
    /// Of the mean of squared gradients.
    pub moment_2: f32,
}

impl Largest {
    /// Whether all three are.
    pub fn is_finite(&self) -> bool {
        self.param.is_finite() && self.moment_1.is_finite() && self.moment_2.is_finite()
    }

    /// Whether nothing can overflow in an update by gradients of at most this norm, whatever the numbers below the largest are:
    /// |θ| + rate·|m|/ε and all that is between must fit into single precision. `false` says only that it must be
    /// [looked at](foresee).
    pub fn stays_finite(&self, norm: f64, step: AdamStep) -> bool {
        let c = Coefficients::new(step);
        let [keep_1, take_1, keep_2, take_2, rate] = [c.keep_1, c.take_1, c.keep_2, c.take_2, c.rate].map(f64::from);
        let moment_1 = keep_1.abs() * f64::from(self.moment_1) + take_1.abs() * norm;
        let moment_2 = keep_2.abs() * f64::from(self.moment_2) + take_2.abs() * norm * norm;
        let numerator = rate.abs() * moment_1;
        let denominator = moment_2.sqrt() * f64::from(c.root_correction);
        let param = f64::from(self.param) + numerator / f64::from(c.epsilon);
        // One in a thousand for all that is rounded on the way.
        let limit = f64::from(f32::MAX) / 1.001;
        let fits = [norm * norm, moment_1, moment_2, numerator, denominator, param].into_iter().all(|x| x < limit);
        fits && (0.0..=1.0).contains(&step.beta_2)
    }

    fn of(bits: Bits) -> Self {
        let [param, moment_1, moment_2] = bits.map(f32::from_bits);
        Self { param, moment_1, moment_2 }
    }
}

/// Magnitudes of parameter and moments as whole numbers, which are in the same order, with infinity and NaN above all others.
type Bits = [u32; 3];

#[inline(always)]
fn larger(a: Bits, b: Bits) -> Bits {
    [a[0].max(b[0]), a[1].max(b[1]), a[2].max(b[2])]
}

#[inline(always)]
fn magnitudes(numbers: [f32; 3]) -> Bits {
    numbers.map(|x| x.abs().to_bits())
}

/// m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← θ − lr·m̂/(√v̂ + ε), where m̂ = m/(1 − β₁ᵗ) and v̂ = v/(1 − β₂ᵗ).
/// Returns the largest of what they became.
///
/// What would be below the normal numbers (1.2e-38) becomes zero. The mean of a weight that the data do not need is pulled towards zero
/// by its prior alone, for ever in the same proportion, and products with subnormal numbers take many times longer.
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
/// let largest = adam::update(&mut param, &mut m, &mut v, &[5.0], step)?;
/// assert!((param[0] - 0.9).abs() < 1e-6); // the first step has length lr, whatever the gradient
/// assert_eq!(largest.param, param[0]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn update(
    param: &mut [f32],
    moment_1: &mut [f32],
    moment_2: &mut [f32],
    grad: &[f32],
    step: AdamStep,
) -> Result<Largest> {
    check(param, [moment_1, moment_2, grad], step)?;
    let coefficients = Coefficients::new(step);
    let bits = param
        .par_chunks_mut(CHUNK)
        .zip(moment_1.par_chunks_mut(CHUNK))
        .zip(moment_2.par_chunks_mut(CHUNK))
        .zip(grad.par_chunks(CHUNK))
        .map(|(((param, m), v), grad)| update_chunk(param, m, v, grad, coefficients))
        .reduce(|| [0; 3], larger);
    Ok(Largest::of(bits))
}

/// The largest of what [`update`] would make of these, which stay as they are.
///
/// # Shapes
/// - param, moment_1, moment_2, grad: any, the same
///
/// # Errors
/// If the lengths differ or `step` is 0.
pub fn foresee(param: &[f32], moment_1: &[f32], moment_2: &[f32], grad: &[f32], step: AdamStep) -> Result<Largest> {
    check(param, [moment_1, moment_2, grad], step)?;
    let coefficients = Coefficients::new(step);
    let bits = param
        .par_chunks(CHUNK)
        .zip(moment_1.par_chunks(CHUNK))
        .zip(moment_2.par_chunks(CHUNK))
        .zip(grad.par_chunks(CHUNK))
        .map(|(((param, m), v), grad)| foresee_chunk(param, m, v, grad, coefficients))
        .reduce(|| [0; 3], larger);
    Ok(Largest::of(bits))
}

fn check(param: &[f32], others: [&[f32]; 3], step: AdamStep) -> Result<()> {
    let check = Check("adam");
    for (name, operand) in ["moment_1", "moment_2", "grad"].into_iter().zip(others) {
        check.len(name, operand, param.len())?;
    }
    check.size("step", step.step as usize, step.step >= 1, "at least 1")
}

/// Zero in place of a number below the normal ones; keeps NaN.
#[inline(always)]
fn without_subnormals(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
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

    /// A parameter and its moments after the update.
    #[inline(always)]
    fn apply(self, [param, m, v]: [f32; 3], g: f32) -> [f32; 3] {
        let m = self.keep_1 * m + self.take_1 * g;
        let v = self.keep_2 * v + self.take_2 * (g * g);
        let param = param - self.rate * m / (v.sqrt() * self.root_correction + self.epsilon);
        [param, m, v].map(without_subnormals)
    }
}

vectorized! {
    fn update_chunk(param: &mut [f32], m: &mut [f32], v: &mut [f32], grad: &[f32], c: Coefficients) -> Bits {
        let mut largest = [0; 3];
        for (((param, m), v), g) in param.iter_mut().zip(m).zip(v).zip(grad) {
            [*param, *m, *v] = c.apply([*param, *m, *v], *g);
            largest = larger(largest, magnitudes([*param, *m, *v]));
        }
        largest
    }

    fn foresee_chunk(param: &[f32], m: &[f32], v: &[f32], grad: &[f32], c: Coefficients) -> Bits {
        let mut largest = [0; 3];
        for (((param, m), v), g) in param.iter().zip(m).zip(v).zip(grad) {
            largest = larger(largest, magnitudes(c.apply([*param, *m, *v], *g)));
        }
        largest
    }
}
