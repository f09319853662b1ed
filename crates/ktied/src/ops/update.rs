//! One step of Adam on a parameter and its moments, in place where nobody else holds them; and the norm of a gradient.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::adam::{self, AdamStep, Largest};
use ktied_kernels::{norm, scale};

use super::{check, fused, portable};

/// (parameter, [first moment, second moment], the largest of what they are) after the step; the largest only from the fused
/// kernel, which sees every number anyway.
///
/// # Shapes
/// - all: any, the same
///
/// # Errors
/// If the shapes differ or the step's number is 0.
pub fn adam_update<const D: usize>(
    param: Tensor<D>,
    moments: [Tensor<D>; 2],
    grad: Tensor<D>,
    step: AdamStep,
) -> Result<(Tensor<D>, [Tensor<D>; 2], Option<Largest>), ShapeError> {
    if !check_adam("adam_update", [&param, &moments[0], &moments[1], &grad], step)? {
        let (param, moments) = portable::adam_update(param, moments, grad, step);
        return Ok((param, moments, None));
    }
    let [m, v] = moments;
    let ([param, m, v], largest) =
        fused::in_place([param, m, v], [grad], |[param, m, v], [grad]| adam::update(param, m, v, grad.data, step))?;
    Ok((param, [m, v], Some(largest)))
}

/// The largest of what [`adam_update`] would make of these, which stay as they are.
///
/// # Shapes
/// - all: any, the same
///
/// # Errors
/// If the shapes differ or the step's number is 0.
pub fn adam_foresee<const D: usize>(
    param: Tensor<D>,
    [m, v]: [Tensor<D>; 2],
    grad: Tensor<D>,
    step: AdamStep,
) -> Result<Largest, ShapeError> {
    if check_adam("adam_foresee", [&param, &m, &v, &grad], step)? {
        return fused::read([param, m, v, grad], |[param, m, v, grad]| adam::foresee(param, m, v, grad, step));
    }
    let (param, [m, v]) = portable::adam_update(param, [m, v], grad, step);
    let [param, moment_1, moment_2] = [param, m, v].map(largest);
    Ok(Largest { param, moment_1, moment_2 })
}

/// Whether the kernel takes these, if they fit each other.
fn check_adam<const D: usize>(op: &'static str, tensors: [&Tensor<D>; 4], step: AdamStep) -> Result<bool, ShapeError> {
    let shape = tensors[0].dims();
    for (operand, tensor) in ["param", "moment_1", "moment_2", "grad"].into_iter().zip(tensors) {
        check::same(op, operand, &tensor.dims(), &shape)?;
    }
    check::size(op, "step", step.step as usize, step.step >= 1, "at least 1")?;
    Ok(tensors.into_iter().all(fused::takes))
}

/// Every element that is above `limit` becomes it, in place where nobody else holds the tensor; NaN stays.
pub fn at_most<const D: usize>(x: Tensor<D>, limit: f32) -> Tensor<D> {
    match fused::takes(&x) {
        true => fused::change(x, |x| scale::at_most(x, limit)),
        false => x.clamp_max(f64::from(limit)),
    }
}

/// The largest magnitude; NaN if there is one.
fn largest<const D: usize>(x: Tensor<D>) -> f32 {
    let magnitudes = x.into_data().iter::<f32>().map(|x| x.abs().to_bits()).max();
    magnitudes.map_or(0.0, f32::from_bits)
}

/// Σ x² over all elements, in double precision and always in the same order; not finite if an element is not.
pub fn sum_of_squares<const D: usize>(x: Tensor<D>) -> f64 {
    match fused::takes(&x) {
        true => fused::read([x], |[x]| norm::sum_of_squares(x)),
        false => x.into_data().iter::<f64>().map(|x| x * x).sum(),
    }
}
