//! A whole sequence through an LSTM in one operation.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::lstm::{
    self, HiddenGradient, LstmFlip, LstmFlipGrads, LstmGrads, LstmShape, LstmTape, LstmTapeMut, LstmWeights,
};
use ktied_kernels::signs::{self, SignKey, SignShape};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// The weights of an LSTM; the columns of all are the gates input, forget, candidate, output, H each.
#[derive(Clone, Debug)]
pub struct LstmTensors {
    /// `[M, 4H]`
    pub kernel: Tensor<2>,
    /// `[H, 4H]`
    pub recurrent: Tensor<2>,
    /// `[4H]`; a forget bias of 1 is part of it.
    pub bias: Option<Tensor<1>>,
    /// What Flipout adds.
    pub flip: Option<LstmPerturbation>,
}

/// Flipout's share of an LSTM: z += r∘((x∘s)·Δkernel + (h₋₁∘s')·Δrecurrent), with signs for each example that are
/// the same at every step.
#[derive(Clone, Debug)]
pub struct LstmPerturbation {
    /// Δkernel, `[M, 4H]`
    pub kernel: Tensor<2>,
    /// Δrecurrent, `[H, 4H]`
    pub recurrent: Tensor<2>,
    /// Streams of the signs.
    pub signs: LstmSigns,
}

/// The streams of Flipout's signs in an LSTM.
#[derive(Clone, Copy, Debug)]
pub struct LstmSigns {
    /// s of the input.
    pub x: SignKey,
    /// s' of the hidden state.
    pub hidden: SignKey,
    /// r of the gates.
    pub gates: SignKey,
}

/// The hidden states of all steps, from a zero state.
///
/// # Shapes
/// - x: `[T, B, M]`, time first; output: `[T, B, H]`
///
/// # Errors
/// If the shapes do not fit or there is no step.
pub fn lstm(x: Tensor<3>, weights: LstmTensors) -> Result<Tensor<3>, ShapeError> {
    Lstm::new(&weights, false).apply(x, weights, |hidden| hidden)
}

/// The hidden state after the last step, from a zero state; cheaper than [`lstm()`] and a slice.
///
/// # Shapes
/// - x: `[T, B, M]`, time first; output: `[B, H]`
///
/// # Errors
/// If the shapes do not fit or there is no step.
pub fn lstm_last(x: Tensor<3>, weights: LstmTensors) -> Result<Tensor<2>, ShapeError> {
    Lstm::new(&weights, true).apply(x, weights, |hidden| {
        let [time, batch, size] = hidden.dims();
        hidden.narrow(0, time - 1, 1).reshape([batch, size])
    })
}

#[derive(Clone, Copy, Debug)]
struct Lstm {
    has_bias: bool,
    signs: Option<LstmSigns>,
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
    fn new(weights: &LstmTensors, last_only: bool) -> Self {
        Self { has_bias: weights.bias.is_some(), signs: weights.flip.as_ref().map(|flip| flip.signs), last_only }
    }

    fn apply<const D: usize>(
        self,
        x: Tensor<3>,
        weights: LstmTensors,
        of_all: impl FnOnce(Tensor<3>) -> Tensor<D>,
    ) -> Result<Tensor<D>, ShapeError> {
        if !fused::takes(&x) {
            let LstmTensors { kernel, recurrent, bias, flip } = &weights;
            let bias = fused::optional_shape(bias.as_ref());
            let flip_kernel = fused::optional_shape(flip.as_ref().map(|flip| &flip.kernel));
            let flip_recurrent = fused::optional_shape(flip.as_ref().map(|flip| &flip.recurrent));
            let (kernel, recurrent) = (kernel.dims(), recurrent.dims());
            self.output_shape([&x.dims(), &kernel, &recurrent, &bias, &flip_kernel, &flip_recurrent])?;
            return Ok(of_all(portable::lstm(x, weights)));
        }
        let LstmTensors { kernel, recurrent, bias, flip } = weights;
        let (flip_kernel, flip_recurrent) = flip.map(|flip| (flip.kernel, flip.recurrent)).unzip();
        let [kernel, recurrent] = [kernel, recurrent].map(Tensor::into_dispatch);
        let flip = [flip_kernel, flip_recurrent].map(fused::optional);
        let [flip_kernel, flip_recurrent] = flip;
        let bias = fused::optional(bias);
        fused::apply([x.into_dispatch(), kernel, recurrent, bias, flip_kernel, flip_recurrent], self)
    }

    /// Runs a kernel on the weights of these operands.
    fn with_weights<T>(
        &self,
        operands: [View<'_>; 6],
        run: impl FnOnce(LstmWeights<'_>, LstmShape) -> Result<T, ShapeError>,
    ) -> Result<T, ShapeError> {
        let [x, kernel, recurrent, bias, flip_kernel, flip_recurrent] = operands;
        let shape = shape_of(x.shape, recurrent.shape)?;
        let LstmShape { batch, inputs, hidden, .. } = shape;
        let signs = match self.signs {
            Some(LstmSigns { x, hidden: h, gates }) => {
                Some([sign_rows(x, batch, inputs)?, sign_rows(h, batch, hidden)?, sign_rows(gates, batch, 4 * hidden)?])
            }
            None => None,
        };
        let flip = signs.as_ref().map(|[x_signs, hidden_signs, gate_signs]| {
            let (kernel, recurrent) = (flip_kernel.data, flip_recurrent.data);
            LstmFlip { kernel, recurrent, x_signs, hidden_signs, gate_signs }
        });
        let bias = bias.when(self.has_bias);
        run(LstmWeights { kernel: kernel.data, recurrent: recurrent.data, bias, flip }, shape)
    }
}

/// ±1 of a stream, `[B, width]`.
fn sign_rows(key: SignKey, batch: usize, channels: usize) -> Result<Vec<f32>, ShapeError> {
    let (ones, mut out) = (vec![1.0; batch * channels], buffers::take(batch * channels));
    signs::apply(&mut out, &ones, SignShape { batch, positions: 1, channels }, key)?;
    Ok(out)
}

fn shape_of(x: &[usize], recurrent: &[usize]) -> Result<LstmShape, ShapeError> {
    let [time, batch, inputs] = check::dims("lstm", "x", x)?;
    let [hidden, _] = check::dims("lstm", "recurrent", recurrent)?;
    Ok(LstmShape { time, batch, inputs, hidden })
}

impl FusedOp<6> for Lstm {
    type Tape = Kept;

    fn output_shape(
        &self,
        [x, kernel, recurrent, bias, flip_kernel, flip_recurrent]: [&[usize]; 6],
    ) -> Result<Vec<usize>, ShapeError> {
        let LstmShape { time, batch, inputs, hidden } = shape_of(x, recurrent)?;
        let width = hidden.checked_mul(4).ok_or(ShapeError::Overflow { kernel: "lstm" })?;
        check::size("lstm", "time", time, time >= 1, "at least 1")?;
        check::same("lstm", "kernel", kernel, &[inputs, width])?;
        check::same("lstm", "recurrent", recurrent, &[hidden, width])?;
        check::same_if("lstm", "bias", self.has_bias.then_some(bias), &[width])?;
        check::same_if("lstm", "flip.kernel", self.signs.map(|_| flip_kernel), kernel)?;
        check::same_if("lstm", "flip.recurrent", self.signs.map(|_| flip_recurrent), recurrent)?;
        Ok(if self.last_only { vec![batch, hidden] } else { vec![time, batch, hidden] })
    }

    fn forward(&self, operands: [View<'_>; 6], track: bool) -> Result<(Vec<f32>, Kept), ShapeError> {
        let (x, shape) = (operands[0], shape_of(operands[0].shape, operands[2].shape)?);
        let states = shape.time * shape.batch * shape.hidden;
        let [mut hidden, mut cells, mut gates] = [states, states, 4 * states].map(buffers::take);
        let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
        self.with_weights(operands, |weights, shape| lstm::forward(tape, x.data, weights, shape))?;
        if !self.last_only {
            return Ok((hidden, Kept { hidden: Vec::new(), cells, gates }));
        }
        let last = hidden[states - shape.batch * shape.hidden..].to_vec();
        if !track {
            [hidden, cells, gates].into_iter().for_each(buffers::give);
            return Ok((last, Kept { hidden: Vec::new(), cells: Vec::new(), gates: Vec::new() }));
        }
        Ok((last, Kept { hidden, cells, gates }))
    }

    fn reads_output(&self) -> bool {
        !self.last_only
    }

    fn backward(
        &self,
        saved: Saved<'_, 6, Kept>,
        d_out: OutputGrad<'_>,
        wanted: [bool; 6],
    ) -> Result<[Grad; 6], ShapeError> {
        let there = [true, true, true, self.has_bias, self.signs.is_some(), self.signs.is_some()];
        let mut grads = fused::grad_buffers(saved.operands, std::array::from_fn(|i| wanted[i] && there[i]));
        let [d_x, d_kernel, d_recurrent, d_bias, flip_kernel, flip_recurrent] =
            grads.each_mut().map(Option::as_deref_mut);
        let Kept { hidden, cells, mut gates } = saved.tape;
        let d_hidden = d_out.values();
        let d_hidden = if self.last_only { HiddenGradient::Last(d_hidden) } else { HiddenGradient::All(d_hidden) };
        let flip = LstmFlipGrads { kernel: flip_kernel, recurrent: flip_recurrent };
        let kernel_grads =
            LstmGrads { gates: &mut gates, x: d_x, kernel: d_kernel, recurrent: d_recurrent, bias: d_bias, flip };
        let tape = LstmTape { hidden: if self.last_only { &hidden } else { saved.output }, cells: &cells };
        self.with_weights(saved.operands, |weights, shape| {
            lstm::backward(kernel_grads, d_hidden, saved.operands[0].data, tape, weights, shape)
        })?;
        [hidden, cells, gates].into_iter().for_each(buffers::give);
        Ok(fused::into_grads(grads))
    }
}
