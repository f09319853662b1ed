//! Binds kernels on plain slices to burn: the backend extension. Only this file and `branch` know Flex.
//!
//! An operation implements [`FusedOp`]: a forward pass and a backward pass on slices. [`apply`] runs it on Flex
//! tensors and, where gradients are wanted, records the backward pass in burn's graph.

use std::fmt::Debug;

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, DispatchTensor, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Device, Tensor, TensorData};
use ktied_kernels::ShapeError;

use super::buffers;

/// An operand as a kernel sees it: row-major, contiguous.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// All elements.
    pub data: &'a [f32],
    /// Sizes of the dimensions.
    pub shape: &'a [usize],
}

impl<'a> View<'a> {
    /// Elements of its shape.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements, if the operation has this operand.
    pub fn when(self, there: bool) -> Option<&'a [f32]> {
        there.then_some(self.data)
    }
}

/// The gradient with respect to one operand.
#[derive(Debug)]
pub enum Grad {
    /// Not wanted, or always zero.
    None,
    /// The gradient of the output itself.
    OfOutput,
    /// Elements of the operand's shape.
    Values(Vec<f32>),
}

/// Buffers for the gradients of the operands that are wanted, to be overwritten.
pub fn grad_buffers<const N: usize>(operands: [View<'_>; N], wanted: [bool; N]) -> [Option<Vec<f32>>; N] {
    std::array::from_fn(|i| wanted[i].then(|| buffers::take(operands[i].len())))
}

/// The buffers as gradients.
pub fn into_grads<const N: usize>(buffers: [Option<Vec<f32>>; N]) -> [Grad; N] {
    buffers.map(|buffer| buffer.map_or(Grad::None, Grad::Values))
}

/// An operation on `N` tensors with one output, whose passes run on slices.
///
/// An operand that an operation may lack is passed as an empty tensor ([`optional`]); the operation knows.
pub trait FusedOp<const N: usize>: Clone + Debug + Send + Sync + 'static {
    /// What the backward pass needs besides the operands.
    type Tape: Clone + Debug + Send + 'static;

    /// The output's shape, or why these operands do not fit. Nothing else runs before this has said yes.
    fn output_shape(&self, shapes: [&[usize]; N]) -> Result<Vec<usize>, ShapeError>;

    /// The output's elements, and the tape; `track` says whether a backward pass may follow.
    fn forward(&self, operands: [View<'_>; N], track: bool) -> Result<(Vec<f32>, Self::Tape), ShapeError>;

    /// Whether the backward pass reads the output; it is kept only then.
    fn reads_output(&self) -> bool {
        false
    }

    /// An operand, by its number, that the backward pass makes again by itself: it is not kept, and has a shape but no elements then.
    fn remade(&self) -> Option<usize> {
        None
    }

    /// Gradients of the operands; those that are not `wanted` need not be computed.
    fn backward(
        &self,
        saved: Saved<'_, N, Self::Tape>,
        d_out: OutputGrad<'_>,
        wanted: [bool; N],
    ) -> Result<[Grad; N], ShapeError>;
}

/// What the forward pass left for the backward pass.
#[derive(Debug)]
pub struct Saved<'a, const N: usize, T> {
    /// The operands.
    pub operands: [View<'a>; N],
    /// The output's elements; none unless [`FusedOp::reads_output`] says so.
    pub output: &'a [f32],
    /// The tape.
    pub tape: T,
}

/// The gradient of the output: to read, or to work in where a pass can do with the memory.
#[derive(Debug)]
pub struct OutputGrad<'a>(&'a mut FlexTensor);

impl OutputGrad<'_> {
    /// The gradient's elements.
    pub fn values(&self) -> &[f32] {
        view(self.0).data
    }

    /// The same to change; copied first if somebody else holds them. [`Grad::OfOutput`] then means what they became.
    pub fn values_mut(&mut self) -> &mut [f32] {
        view_mut(self.0)
    }
}

/// Changes tensors in memory, which [`takes`] has accepted, reading others; a tensor whose memory another one
/// shares is copied first.
///
/// # Errors
/// What `update` says; the tensors are lost then.
pub fn in_place<const D: usize, const N: usize, const R: usize, T>(
    tensors: [Tensor<D>; N],
    read: [Tensor<D>; R],
    update: impl FnOnce([&mut [f32]; N], [View<'_>; R]) -> Result<T, ShapeError>,
) -> Result<([Tensor<D>; N], T), ShapeError> {
    let (mut tensors, read) = (tensors.map(flex), read.map(flex));
    let result = update(tensors.each_mut().map(view_mut), read.each_ref().map(view))?;
    read.into_iter().for_each(recycle);
    Ok((tensors.map(Tensor::from_primitive::<Flex>), result))
}

/// Changes a tensor in memory, which [`takes`] has accepted; copied first if another one shares it.
pub fn change<const D: usize>(tensor: Tensor<D>, update: impl FnOnce(&mut [f32])) -> Tensor<D> {
    let mut tensor = flex(tensor);
    update(view_mut(&mut tensor));
    Tensor::from_primitive::<Flex>(tensor)
}

/// Reads the elements of tensors that [`takes`] has accepted, where they lie.
pub fn read<const D: usize, const N: usize, T>(tensors: [Tensor<D>; N], read: impl FnOnce([&[f32]; N]) -> T) -> T {
    let tensors = tensors.map(flex);
    read(tensors.each_ref().map(|tensor| view(tensor).data))
}

fn flex<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    tensor.try_into_primitive::<Flex>().expect("a Flex tensor").to_contiguous()
}

/// Says whether kernels can take this tensor: single precision, on the Flex device.
pub fn takes<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && tensor.device() == Device::flex()
}

/// The operand, or an empty tensor that stands for one that is not there.
pub fn optional<const D: usize>(operand: Option<Tensor<D>>) -> DispatchTensor {
    match operand {
        Some(operand) => operand.into_dispatch(),
        None => Tensor::<1>::empty([0], (&Device::flex(), DType::F32)).into_dispatch(),
    }
}

/// The shape that [`FusedOp::output_shape`] sees of an operand that may be missing.
pub fn optional_shape<const D: usize>(operand: Option<&Tensor<D>>) -> Vec<usize> {
    operand.map_or(vec![0], |operand| operand.dims().to_vec())
}

/// Checks the operands and runs `op` on them.
///
/// # Errors
/// What [`FusedOp::output_shape`] says.
pub fn apply<const N: usize, const D: usize, O: FusedOp<N>>(
    operands: [DispatchTensor; N],
    op: O,
) -> Result<Tensor<D>, ShapeError>
where
    [DispatchTensor; N]: Operands<O>,
{
    let shapes: Vec<Vec<usize>> = operands.iter().map(|operand| operand.shape().to_vec()).collect();
    op.output_shape(std::array::from_fn(|i| shapes[i].as_slice()))?;
    Ok(Tensor::from_dispatch(operands.dispatch(op)))
}

/// Arrays of operands that burn can dispatch.
pub trait Operands<O> {
    /// Runs `op` on the backend that the operands live on.
    fn dispatch(self, op: O) -> DispatchTensor;
}

/// The operations by their number of operands, which is all that burn has to know of them.
#[backend_extension(Flex, Autodiff)]
pub trait FusedBackend: Backend {
    /// One operand.
    fn fused_1<O: FusedOp<1>>(a: FloatTensor<Self>, op: O) -> FloatTensor<Self>;
    /// Two operands.
    fn fused_2<O: FusedOp<2>>(a: FloatTensor<Self>, b: FloatTensor<Self>, op: O) -> FloatTensor<Self>;
    /// Three operands.
    fn fused_3<O: FusedOp<3>>(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        op: O,
    ) -> FloatTensor<Self>;
    /// Four operands.
    fn fused_4<O: FusedOp<4>>(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        op: O,
    ) -> FloatTensor<Self>;
    /// Five operands.
    fn fused_5<O: FusedOp<5>>(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        e: FloatTensor<Self>,
        op: O,
    ) -> FloatTensor<Self>;
    /// Six operands.
    fn fused_6<O: FusedOp<6>>(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        e: FloatTensor<Self>,
        f: FloatTensor<Self>,
        op: O,
    ) -> FloatTensor<Self>;
}

macro_rules! by_number_of_operands {
    ($($number:literal $method:ident($($x:ident),+);)+) => {
        impl FusedBackend for Flex {$(
            fn $method<O: FusedOp<$number>>($($x: FloatTensor<Self>,)+ op: O) -> FloatTensor<Self> {
                let operands = [$(contiguous($x)),+];
                let output = run(&op, &operands, false).0;
                operands.into_iter().for_each(recycle);
                output
            }
        )+}

        impl<C: CheckpointStrategy> FusedBackend for Autodiff<Flex, C> {$(
            fn $method<O: FusedOp<$number>>($($x: FloatTensor<Self>,)+ op: O) -> FloatTensor<Self> {
                record::<$number, O, C>([$($x),+], op)
            }
        )+}

        $(impl<O: FusedOp<$number>> Operands<O> for [DispatchTensor; $number] {
            fn dispatch(self, op: O) -> DispatchTensor {
                let [$($x),+] = self;
                Dispatch::$method($($x,)+ op)
            }
        })+
    };
}
by_number_of_operands! {
    1 fused_1(a);
    2 fused_2(a, b);
    3 fused_3(a, b, c);
    4 fused_4(a, b, c, d);
    5 fused_5(a, b, c, d, e);
    6 fused_6(a, b, c, d, e, f);
}

/// Why a kernel cannot refuse here.
const CHECKED: &str = "`apply` has checked the operands";
const CONTIGUOUS: &str = "operands are contiguous and of single precision";

/// A contiguous tensor's elements and shape.
pub(super) fn view(tensor: &FlexTensor) -> View<'_> {
    let data = tensor.as_slice::<f32>().expect(CONTIGUOUS);
    View { data, shape: tensor.layout().shape().as_slice() }
}

/// A contiguous tensor's elements, to change; copied first if somebody else holds them.
pub(super) fn view_mut(tensor: &mut FlexTensor) -> &mut [f32] {
    let (start, end) = tensor.layout().contiguous_offsets().expect(CONTIGUOUS);
    &mut tensor.storage_mut::<f32>()[start..end]
}

fn tensor(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// The tensor with its elements in order, and no second handle on them.
pub(super) fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// Keeps the memory of a tensor for later ones, unless somebody else holds it too.
pub(super) fn recycle(tensor: FlexTensor) {
    let whole = tensor.bytes().len() == tensor.layout().num_elements() * size_of::<f32>();
    if !tensor.is_unique() || !tensor.is_contiguous() || !whole {
        return;
    }
    buffers::give_data(tensor.into_data());
}

fn run<const N: usize, O: FusedOp<N>>(op: &O, operands: &[FlexTensor; N], track: bool) -> (FlexTensor, O::Tape) {
    let views = operands.each_ref().map(view);
    let shape = op.output_shape(views.map(|v| v.shape)).expect(CHECKED);
    let (values, tape) = op.forward(views, track).expect(CHECKED);
    (tensor(values, &shape), tape)
}

/// Runs `op` and, if any operand is tracked, notes down its backward pass.
fn record<const N: usize, O: FusedOp<N>, C: CheckpointStrategy>(
    operands: [FloatTensor<Autodiff<Flex, C>>; N],
    op: O,
) -> FloatTensor<Autodiff<Flex, C>> {
    let nodes = operands.each_ref().map(|operand| operand.node());
    let operands = operands.map(|operand| contiguous(operand.into_primitive()));
    match Recorded(op.clone()).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::UnTracked(prep) => {
            let output = run(&op, &operands, false).0;
            operands.into_iter().for_each(recycle);
            prep.finish(output)
        }
        OpsKind::Tracked(prep) => {
            let (output, tape) = run(&op, &operands, true);
            let kept = op.reads_output().then(|| output.clone());
            prep.finish((keep(operands, op.remade()), kept, tape), output)
        }
    }
}

/// An operand between the passes: its shape, and its elements unless they are made again.
type Operand = (Vec<usize>, Option<FlexTensor>);

fn keep<const N: usize>(operands: [FlexTensor; N], remade: Option<usize>) -> [Operand; N] {
    let mut number = 0..;
    operands.map(|operand| {
        let shape = operand.layout().shape().as_slice().to_vec();
        if number.next() != remade {
            return (shape, Some(operand));
        }
        recycle(operand);
        (shape, None)
    })
}

fn view_of((shape, kept): &Operand) -> View<'_> {
    View { data: kept.as_ref().map_or(&[], |operand| view(operand).data), shape }
}

/// The backward step of a fused operation.
#[derive(Debug)]
struct Recorded<O>(O);

impl<const N: usize, O: FusedOp<N>> Backward<Flex, N> for Recorded<O> {
    type State = ([Operand; N], Option<FlexTensor>, O::Tape);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let mut d_out = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (operands, kept, tape) = ops.state;
        let output = kept.as_ref().map_or(&[][..], |output| view(output).data);
        let saved = Saved { operands: operands.each_ref().map(view_of), output, tape };
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let found = self.0.backward(saved, OutputGrad(&mut d_out), wanted).expect(CHECKED);
        for ((parent, operand), grad) in ops.parents.into_iter().zip(&operands).zip(found) {
            let Some(parent) = parent else { continue };
            match grad {
                Grad::None => {}
                Grad::OfOutput => grads.register::<Flex>(parent.id, d_out.clone()),
                Grad::Values(values) => grads.register::<Flex>(parent.id, tensor(values, &operand.0)),
            }
        }
        operands.into_iter().filter_map(|(_, operand)| operand).chain(kept).chain([d_out]).for_each(recycle);
    }
}
