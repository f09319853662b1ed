//! Ways that part and meet again: a tensor for two readers, and the sum of two tensors, in the memory that is there.
//!
//! burn can do both, but it drops the memory of what it has added, whose pages then have to be cleared again in the next step: 8 %
//! of a step of ResNet-18.

use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;
use ktied_kernels::{ShapeError, rows};

use super::check;
use super::fused::{contiguous, recycle, takes, view, view_mut};

/// a + b.
///
/// # Shapes
/// - a, b, output: any, the same
///
/// # Errors
/// If the shapes differ.
pub fn sum<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Result<Tensor<D>, ShapeError> {
    check::same("sum", "b", &b.dims(), &a.dims())?;
    if !takes(&a) {
        return Ok(a + b);
    }
    Ok(Tensor::from_dispatch(Dispatch::sum(a.into_dispatch(), b.into_dispatch())))
}

/// x for two readers, both of which must be part of what is differentiated: the gradient that comes first waits for the other.
pub(crate) fn fork<const D: usize>(x: Tensor<D>) -> [Tensor<D>; 2] {
    if !takes(&x) {
        return [x.clone(), x];
    }
    let meeting = Meeting::default();
    let tap = |x: Tensor<D>| Tensor::from_dispatch(Dispatch::tap(x.into_dispatch(), meeting.clone()));
    [tap(x.clone()), tap(x)]
}

/// Where the gradient of one reader waits for that of the other.
type Meeting = Arc<Mutex<Option<FlexTensor>>>;

/// The same for a backend.
#[backend_extension(Flex, Autodiff)]
pub trait BranchBackend: Backend {
    /// a + b.
    fn sum(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;
    /// x, for one of two readers.
    fn tap(x: FloatTensor<Self>, meeting: Meeting) -> FloatTensor<Self>;
}

impl BranchBackend for Flex {
    fn sum(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        let (mut a, b) = (contiguous(a), contiguous(b));
        rows::add(view_mut(&mut a), view(&b).data).expect("tensors of one shape");
        recycle(b);
        a
    }

    fn tap(x: FloatTensor<Self>, _: Meeting) -> FloatTensor<Self> {
        x
    }
}

impl<C: CheckpointStrategy> BranchBackend for Autodiff<Flex, C> {
    fn sum(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [a.node(), b.node()];
        let output = <Flex as BranchBackend>::sum(a.into_primitive(), b.into_primitive());
        Sum.prepare::<C>(nodes).compute_bound().stateless(output)
    }

    fn tap(x: FloatTensor<Self>, meeting: Meeting) -> FloatTensor<Self> {
        let node = x.node();
        Tap(meeting).prepare::<C>([node]).compute_bound().stateless(x.into_primitive())
    }
}

#[derive(Debug)]
struct Sum;

impl Backward<Flex, 2> for Sum {
    type State = ();

    fn backward(self, ops: Ops<(), 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_out = grads.consume::<Flex>(&ops.node);
        for parent in ops.parents.into_iter().flatten() {
            grads.register::<Flex>(parent.id, d_out.clone());
        }
    }
}

#[derive(Debug)]
struct Tap(Meeting);

impl Backward<Flex, 1> for Tap {
    type State = ();

    fn backward(self, ops: Ops<(), 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_out = grads.consume::<Flex>(&ops.node);
        let [Some(parent)] = ops.parents else { return };
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.take() {
            Some(other) => grads.register::<Flex>(parent.id, <Flex as BranchBackend>::sum(d_out, other)),
            None => *waiting = Some(d_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};

    use super::*;

    /// Gradients of the sum of a function of x.
    fn gradient(dtype: DType, of: impl Fn(Tensor<1>) -> Tensor<1>) -> Vec<f64> {
        let device = Device::flex().autodiff();
        let x = Tensor::<1>::from_data([1.0, -2.0, 0.5], (&device, dtype)).require_grad();
        let grads = of(x.clone()).sum().backward();
        x.grad(&grads).expect("a gradient").into_data().iter::<f64>().collect()
    }

    #[test]
    fn gradients_of_both_readers_arrive_once_in_either_precision() {
        let of = |x: Tensor<1>| {
            let [square, triple] = fork(x.clone());
            sum(square.clone() * square, triple * 3.0).expect("one shape") * x
        };
        for dtype in [DType::F32, DType::F64] {
            assert_eq!(gradient(dtype, of), [1.0, -2.0, 0.5].map(|x| 3.0 * x * x + 6.0 * x), "{dtype:?}");
        }
    }

    #[test]
    fn forks_within_forks_add_up() {
        let of = |x: Tensor<1>| {
            let [a, b] = fork(x);
            let [c, d] = fork(a * 2.0);
            sum(sum(c * 5.0, d * 7.0).expect("one shape"), b).expect("one shape")
        };
        assert_eq!(gradient(DType::F32, of), [25.0; 3]);
    }

    #[test]
    fn a_tensor_that_somebody_holds_is_not_changed_by_a_sum() {
        let x = Tensor::<1>::from_floats([1.0, 2.0], &Device::flex());
        let sum = sum(x.clone(), x.clone()).expect("one shape");
        assert_eq!(sum.into_data().iter::<f64>().collect::<Vec<_>>(), [2.0, 4.0]);
        assert_eq!(x.into_data().iter::<f64>().collect::<Vec<_>>(), [1.0, 2.0]);
    }
}
