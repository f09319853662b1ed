//! One step of Adam on a parameter and its moments, in place where nobody else holds them; and the norm of a gradient.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::adam::{self, AdamStep};
use ktied_kernels::norm;

use super::{check, fused, portable};

/// (parameter, [first moment, second moment]) after the step.
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
) -> Result<(Tensor<D>, [Tensor<D>; 2]), ShapeError> {
    let shape = param.dims();
    for (operand, tensor) in [("moment_1", &moments[0]), ("moment_2", &moments[1]), ("grad", &grad)] {
        check::same("adam_update", operand, &tensor.dims(), &shape)?;
    }
    check::size("adam_update", "step", step.step as usize, step.step >= 1, "at least 1")?;
    if ![&param, &moments[0], &moments[1], &grad].into_iter().all(fused::takes) {
        return Ok(portable::adam_update(param, moments, grad, step));
    }
    let [m, v] = moments;
    let [param, m, v] =
        fused::in_place([param, m, v], grad, |[param, m, v], grad| adam::update(param, m, v, grad, step))?;
    Ok((param, [m, v]))
}

/// Σ x² over all elements, in double precision and always in the same order; not finite if an element is not.
pub fn sum_of_squares<const D: usize>(x: Tensor<D>) -> f64 {
    match fused::takes(&x) {
        true => fused::read(x, norm::sum_of_squares),
        false => x.into_data().iter::<f64>().map(|x| x * x).sum(),
    }
}
