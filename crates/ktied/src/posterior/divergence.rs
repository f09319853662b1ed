//! KL(q‖p) and its gradients, added to those that a backward pass has left.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::ops;

/// The value of a divergence, and `by` times its gradients added to those of the module's parameters, through burn's graph: right for
/// every family, on every device.
pub(crate) fn add_by_graph<M: Module>(module: &M, kl: Tensor<1>, by: f64, grads: &mut GradientsParams) -> f64 {
    let value = kl.to_data().iter::<f64>().next().unwrap_or(f64::NAN);
    // Of a point, or where nothing is trained, it is a constant.
    if kl.is_tracked() {
        add_gradients(module, grads, GradientsParams::from_grads((kl * by).backward(), module));
    }
    value
}

/// Values of parameters and gradients of them so far, off the graph, if every one is trained and kernels take it.
pub(super) fn off_graph<const N: usize>(
    params: [&Param<Tensor<2>>; N],
    grads: &mut GradientsParams,
) -> Option<[[Tensor<2>; N]; 2]> {
    let values = params.map(Param::val);
    if !values.iter().all(|value| value.is_require_grad() && ops::takes(value)) {
        return None;
    }
    let values = values.map(Tensor::inner);
    let so_far = |i: usize| grads.remove::<2>(params[i].id).unwrap_or_else(|| values[i].zeros_like());
    let so_far = std::array::from_fn(so_far);
    Some([values, so_far])
}

/// Puts gradients back that [`off_graph`] has taken out.
pub(super) fn put_back<const N: usize>(
    params: [&Param<Tensor<2>>; N],
    gradients: [Tensor<2>; N],
    grads: &mut GradientsParams,
) {
    params.into_iter().zip(gradients).for_each(|(param, gradient)| grads.register(param.id, gradient));
}

/// Adds gradients to others, parameter by parameter.
pub(crate) fn add_gradients<M: Module>(module: &M, to: &mut GradientsParams, from: GradientsParams) {
    module.visit(&mut Add { to, from });
}

struct Add<'a> {
    to: &'a mut GradientsParams,
    from: GradientsParams,
}

impl ModuleVisitor for Add<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(grad) = self.from.remove::<D>(param.id) else { return };
        let sum = match self.to.remove::<D>(param.id) {
            Some(other) => other + grad,
            None => grad,
        };
        self.to.register(param.id, sum);
    }
}
