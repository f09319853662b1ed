//! The norm of the gradient of a whole module.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::ops;

/// √Σ g² over all parameters of `module` that have a gradient, in double precision and always in the same order.
pub fn grad_norm<M: Module>(module: &M, grads: &GradientsParams) -> f64 {
    let mut squares = Squares { grads, sum: 0.0 };
    module.visit(&mut squares);
    squares.sum.sqrt()
}

/// What a gradient of this norm is multiplied with; nothing if it is short enough, or not finite: then whoever looks for
/// the first number that is not finite should still find it where it arose.
pub(super) fn shortening(clip: f64, norm: f64) -> Option<f64> {
    (norm.is_finite() && norm > clip).then(|| clip / norm)
}

struct Squares<'a> {
    grads: &'a GradientsParams,
    sum: f64,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(grad) = self.grads.get::<D>(param.id) else { return };
        self.sum += ops::sum_of_squares(grad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_and_finite_gradients_are_shortened() {
        assert_eq!(shortening(1.0, 4.0), Some(0.25));
        for norm in [0.0, 1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(shortening(1.0, norm), None);
        }
    }
}
