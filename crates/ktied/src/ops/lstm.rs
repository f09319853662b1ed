//! A whole sequence through an LSTM in one operation.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::lstm::{self, HiddenGradient, LstmGrads, LstmShape, LstmTape, LstmTapeMut, LstmWeights};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{check, portable};

/// The weights of an LSTM; the columns of all are the gates input, forget, candidate, output, H each.
#[derive(Clone, Debug)]
pub struct LstmTensors {
    /// `[M, 4H]`
    pub kernel: Tensor<2>,
    /// `[H, 4H]`
    pub recurrent: Tensor<2>,
    /// `[4H]`; a forget bias of 1 is part of it.
    pub bias: Option<Tensor<1>>,
}

/// The hidden states of all steps, from a zero state.
///
/// # Shapes
/// - x: `[T, B, M]`, time first; output: `[T, B, H]`
///
/// # Errors
/// If the shapes do not fit or there is no step.
pub fn lstm(x: Tensor<3>, weights: LstmTensors) -> Result<Tensor<3>, ShapeError> {
    let op = Lstm { has_bias: weights.bias.is_some(), last_only: false };
    op.apply(x, weights, |hidden| hidden)
}

/// The hidden state after the last step, from a zero state; cheaper than [`lstm()`] and a slice.
///
/// # Shapes
/// - x: `[T, B, M]`, time first; output: `[B, H]`
///
/// # Errors
/// If the shapes do not fit or there is no step.
pub fn lstm_last(x: Tensor<3>, weights: LstmTensors) -> Result<Tensor<2>, ShapeError> {
    let op = Lstm { has_bias: weights.bias.is_some(), last_only: true };
    op.apply(x, weights, |hidden| {
        let [time, batch, size] = hidden.dims();
        hidden.narrow(0, time - 1, 1).reshape([batch, size])
    })
}

#[derive(Clone, Copy, Debug)]
struct Lstm {
    has_bias: bool,
    last_only: bool,
}

/// What the forward pass leaves behind, as in [`LstmTape`].
#[derive(Clone, Debug)]
struct Kept {
    /// Empty where the output holds it.
    hidden: Vec<f32>,
    cells: Vec<f32>,
    gates: Vec<f32>,
}

impl Lstm {
    fn apply<const D: usize>(
        self,
        x: Tensor<3>,
        weights: LstmTensors,
        of_all: impl FnOnce(Tensor<3>) -> Tensor<D>,
    ) -> Result<Tensor<D>, ShapeError> {
        let LstmTensors { kernel, recurrent, bias } = weights;
        if fused::takes(&x) {
            let [kernel, recurrent] = [kernel, recurrent].map(Tensor::into_dispatch);
            return fused::apply([x.into_dispatch(), kernel, recurrent, fused::optional(bias)], self);
        }
        let bias_shape = fused::optional_shape(bias.as_ref());
        self.output_shape([&x.dims(), &kernel.dims(), &recurrent.dims(), &bias_shape])?;
        Ok(of_all(portable::lstm(x, kernel, recurrent, bias)))
    }

    fn weights<'a>(&self, [kernel, recurrent, bias]: [View<'a>; 3]) -> LstmWeights<'a> {
        LstmWeights { kernel: kernel.data, recurrent: recurrent.data, bias: bias.when(self.has_bias) }
    }
}

fn shape_of(x: &[usize], recurrent: &[usize]) -> Result<LstmShape, ShapeError> {
    let [time, batch, inputs] = check::dims("lstm", "x", x)?;
    let [hidden, _] = check::dims("lstm", "recurrent", recurrent)?;
    Ok(LstmShape { time, batch, inputs, hidden })
}

impl FusedOp<4> for Lstm {
    type Tape = Kept;
    const READS_OUTPUT: bool = true;

    fn output_shape(&self, [x, kernel, recurrent, bias]: [&[usize]; 4]) -> Result<Vec<usize>, ShapeError> {
        let LstmShape { time, batch, inputs, hidden } = shape_of(x, recurrent)?;
        let width = hidden.checked_mul(4).ok_or(ShapeError::Overflow { kernel: "lstm" })?;
        check::size("lstm", "time", time, time >= 1, "at least 1")?;
        check::same("lstm", "kernel", kernel, &[inputs, width])?;
        check::same("lstm", "recurrent", recurrent, &[hidden, width])?;
        check::same_if("lstm", "bias", self.has_bias.then_some(bias), &[width])?;
        Ok(if self.last_only { vec![batch, hidden] } else { vec![time, batch, hidden] })
    }

    fn forward(&self, [x, k, r, b]: [View<'_>; 4], track: bool) -> Result<(Vec<f32>, Kept), ShapeError> {
        let shape = shape_of(x.shape, r.shape)?;
        let states = shape.time * shape.batch * shape.hidden;
        let [mut hidden, mut cells, mut gates] = [states, states, 4 * states].map(|len| vec![0.0; len]);
        let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
        lstm::forward(tape, x.data, self.weights([k, r, b]), shape)?;
        if !self.last_only {
            return Ok((hidden, Kept { hidden: Vec::new(), cells, gates }));
        }
        let last = hidden[states - shape.batch * shape.hidden..].to_vec();
        let hidden = if track { hidden } else { Vec::new() };
        Ok((last, Kept { hidden, cells, gates }))
    }

    fn backward(
        &self,
        saved: Saved<'_, 4, Kept>,
        d_out: OutputGrad<'_>,
        wanted: [bool; 4],
    ) -> Result<[Grad; 4], ShapeError> {
        let [x, k, r, b] = saved.operands;
        let [x_wanted, k_wanted, r_wanted, b_wanted] = wanted;
        let wanted = [x_wanted, k_wanted, r_wanted, b_wanted && self.has_bias];
        let mut grads = fused::grad_buffers(saved.operands, wanted);
        let [d_x, d_kernel, d_recurrent, d_bias] = grads.each_mut().map(Option::as_deref_mut);
        let Kept { hidden, cells, gates } = &saved.tape;
        let hidden = if self.last_only { hidden } else { saved.output };
        let d_hidden = d_out.values();
        let d_hidden = if self.last_only { HiddenGradient::Last(d_hidden) } else { HiddenGradient::All(d_hidden) };
        let mut d_gates = vec![0.0; gates.len()];
        let kernel_grads =
            LstmGrads { gates: &mut d_gates, x: d_x, kernel: d_kernel, recurrent: d_recurrent, bias: d_bias };
        let tape = LstmTape { hidden, cells, gates };
        let shape = shape_of(x.shape, r.shape)?;
        lstm::backward(kernel_grads, d_hidden, x.data, tape, self.weights([k, r, b]), shape)?;
        Ok(fused::into_grads(grads))
    }
}
