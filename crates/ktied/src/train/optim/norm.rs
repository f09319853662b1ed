//! The norm of the gradient of a whole module.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

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
        let data = grad.into_data();
        self.sum += match data.as_slice::<f32>() {
            Ok(values) => sum_of_squares(values),
            Err(_) => data.iter::<f64>().map(|x| x * x).sum(),
        };
    }
}

/// Σ x², in as many running sums as the widest vector unit takes, added in one order.
fn sum_of_squares(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(x) * f64::from(x);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_takes_every_element() {
        for len in [0, 1, 7, 8, 9, 100] {
            let values: Vec<f32> = (1..=len).map(|i| i as f32).collect();
            assert_eq!(sum_of_squares(&values), (1..=len).map(|i| f64::from(i * i)).sum::<f64>());
        }
    }

    #[test]
    fn only_long_and_finite_gradients_are_shortened() {
        assert_eq!(shortening(1.0, 4.0), Some(0.25));
        for norm in [0.0, 1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(shortening(1.0, norm), None);
        }
    }
}
