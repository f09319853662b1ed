//! A whole sequence through an LSTM in one operation.

use std::sync::Arc;

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::lstm::{
    self, HiddenGradient, LstmFlip, LstmFlipGrads, LstmGrads, LstmInput, LstmShape, LstmTape, LstmTapeMut, LstmWeights,
    Words,
};
use ktied_kernels::signs::{self, SignKey, SignShape};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, embedding, portable};

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
    let op = Lstm::new(&weights, Input::Vectors, false);
    if fused::takes(&x) {
        return op.apply(x, weights);
    }
    op.check(&x.dims(), &weights)?;
    Ok(portable::lstm(x, weights))
}

/// The hidden state after the last step, from a zero state; cheaper than [`lstm()`] and a slice.
///
/// # Shapes
/// - x: `[T, B, M]`, time first; output: `[B, H]`
///
/// # Errors
/// If the shapes do not fit or there is no step.
pub fn lstm_last(x: Tensor<3>, weights: LstmTensors) -> Result<Tensor<2>, ShapeError> {
    let op = Lstm::new(&weights, Input::Vectors, true);
    if fused::takes(&x) {
        return op.apply(x, weights);
    }
    op.check(&x.dims(), &weights)?;
    Ok(last(portable::lstm(x, weights)))
}

/// The same for inputs that are rows of a table: [`embedding()`] and [`lstm_last`] as one, in which a word that stands at several places is
/// multiplied once. Under Flipout, where a word is not the same in every example, it is the two after another.
///
/// # Shapes
/// - table: `[V, M]`; ids: `[T, B]`, time first, each below V; output: `[B, H]`
///
/// # Errors
/// If the shapes do not fit, an id is not below V, or there is no step.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::ops::{LstmTensors, lstm_last_of_words};
/// let (device, ones) = (Device::flex(), |rows| Tensor::<2>::ones([rows, 8], &Device::flex()));
/// let weights = LstmTensors { kernel: ones(3), recurrent: ones(2), bias: None, flip: None };
/// let table = Tensor::<2>::ones([10, 3], &device);
/// // Two examples of three words each.
/// assert_eq!(lstm_last_of_words(table, &[7, 7, 1, 7, 2, 2], 3, weights)?.dims(), [2, 2]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn lstm_last_of_words(
    table: Tensor<2>,
    ids: &[u32],
    time: usize,
    weights: LstmTensors,
) -> Result<Tensor<2>, ShapeError> {
    check::size(
        "lstm",
        "time",
        time,
        time >= 1 && ids.len().is_multiple_of(time.max(1)),
        "at least 1, and divide the words",
    )?;
    let (batch, [rows, columns]) = (ids.len() / time, table.dims());
    if weights.flip.is_some() {
        return lstm_last(embedding(table, ids)?.reshape([time, batch, columns]), weights);
    }
    let words = Arc::new(Words::new(ids, rows)?);
    let op = Lstm::new(&weights, Input::Words { words, time, batch }, true);
    if fused::takes(&table) {
        return op.apply(table, weights);
    }
    op.check(&[rows, columns], &weights)?;
    let x = portable::embedding(table, ids).reshape([time, batch, columns]);
    Ok(last(portable::lstm(x, weights)))
}

/// `[T, B, H]` → `[B, H]`
fn last(hidden: Tensor<3>) -> Tensor<2> {
    let [time, batch, size] = hidden.dims();
    hidden.narrow(0, time - 1, 1).reshape([batch, size])
}

#[derive(Clone, Debug)]
struct Lstm {
    input: Input,
    has_bias: bool,
    signs: Option<LstmSigns>,
    last_only: bool,
}

/// What the first operand is.
#[derive(Clone, Debug)]
enum Input {
    /// `[T, B, M]`
    Vectors,
    /// The table, `[V, M]`, of these words.
    Words { words: Arc<Words>, time: usize, batch: usize },
}

/// What the forward pass leaves behind, as in [`LstmTape`]; nothing where no backward pass follows.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// Empty where the output holds it.
    hidden: Vec<f32>,
    cells: Vec<f32>,
    gates: Vec<f32>,
}

impl Lstm {
    fn new(weights: &LstmTensors, input: Input, last_only: bool) -> Self {
        let signs = weights.flip.as_ref().map(|flip| flip.signs);
        Self { input, has_bias: weights.bias.is_some(), signs, last_only }
    }

    /// Says why these operands do not fit.
    fn check(&self, x: &[usize], weights: &LstmTensors) -> Result<(), ShapeError> {
        let LstmTensors { kernel, recurrent, bias, flip } = weights;
        let bias = fused::optional_shape(bias.as_ref());
        let flip_kernel = fused::optional_shape(flip.as_ref().map(|flip| &flip.kernel));
        let flip_recurrent = fused::optional_shape(flip.as_ref().map(|flip| &flip.recurrent));
        let (kernel, recurrent) = (kernel.dims(), recurrent.dims());
        self.output_shape([x, &kernel, &recurrent, &bias, &flip_kernel, &flip_recurrent]).map(|_| ())
    }

    fn apply<const D: usize, const E: usize>(
        self,
        x: Tensor<D>,
        weights: LstmTensors,
    ) -> Result<Tensor<E>, ShapeError> {
        let LstmTensors { kernel, recurrent, bias, flip } = weights;
        let (flip_kernel, flip_recurrent) = flip.map(|flip| (flip.kernel, flip.recurrent)).unzip();
        let [kernel, recurrent] = [kernel, recurrent].map(Tensor::into_dispatch);
        let flip = [flip_kernel, flip_recurrent].map(fused::optional);
        let [flip_kernel, flip_recurrent] = flip;
        let bias = fused::optional(bias);
        fused::apply([x.into_dispatch(), kernel, recurrent, bias, flip_kernel, flip_recurrent], self)
    }

    /// Sizes, from those of the first operand and of the recurrent kernel.
    fn shape_of(&self, x: &[usize], recurrent: &[usize]) -> Result<LstmShape, ShapeError> {
        let [hidden, _] = check::dims("lstm", "recurrent", recurrent)?;
        let (time, batch, inputs) = match self.input {
            Input::Vectors => check::dims("lstm", "x", x).map(|[time, batch, inputs]| (time, batch, inputs))?,
            Input::Words { time, batch, .. } => {
                check::dims("lstm", "table", x).map(|[_, inputs]| (time, batch, inputs))?
            }
        };
        Ok(LstmShape { time, batch, inputs, hidden })
    }

    fn input<'a>(&'a self, x: View<'a>) -> LstmInput<'a> {
        match &self.input {
            Input::Vectors => LstmInput::Vectors(x.data),
            Input::Words { words, .. } => LstmInput::Words { table: x.data, words },
        }
    }

    /// Runs a kernel on the input and the weights of these operands.
    fn with_weights<T>(
        &self,
        operands: [View<'_>; 6],
        run: impl FnOnce(LstmInput<'_>, LstmWeights<'_>, LstmShape) -> Result<T, ShapeError>,
    ) -> Result<T, ShapeError> {
        let [x, kernel, recurrent, bias, flip_kernel, flip_recurrent] = operands;
        let shape = self.shape_of(x.shape, recurrent.shape)?;
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
        run(self.input(x), LstmWeights { kernel: kernel.data, recurrent: recurrent.data, bias, flip }, shape)
    }
}

/// ±1 of a stream, `[B, width]`.
fn sign_rows(key: SignKey, batch: usize, channels: usize) -> Result<Vec<f32>, ShapeError> {
    let (ones, mut out) = (vec![1.0; batch * channels], buffers::take(batch * channels));
    signs::apply(&mut out, &ones, SignShape { batch, positions: 1, channels }, key)?;
    Ok(out)
}

impl FusedOp<6> for Lstm {
    type Tape = Kept;

    fn output_shape(
        &self,
        [x, kernel, recurrent, bias, flip_kernel, flip_recurrent]: [&[usize]; 6],
    ) -> Result<Vec<usize>, ShapeError> {
        let LstmShape { time, batch, inputs, hidden } = self.shape_of(x, recurrent)?;
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
        let shape = self.shape_of(operands[0].shape, operands[2].shape)?;
        let (last_len, states) = (shape.batch * shape.hidden, shape.time * shape.batch * shape.hidden);
        if self.last_only && !track {
            let mut last = buffers::take(last_len);
            let run = |input: LstmInput<'_>, weights: LstmWeights<'_>, shape| {
                lstm::forward_last(&mut last, input, weights, shape)
            };
            self.with_weights(operands, run)?;
            return Ok((last, Kept::default()));
        }
        let [mut hidden, mut cells, mut gates] = [states, states, 4 * states].map(buffers::take);
        let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
        self.with_weights(operands, |input, weights, shape| lstm::forward(tape, input, weights, shape))?;
        if !self.last_only {
            return Ok((hidden, Kept { hidden: Vec::new(), cells, gates }));
        }
        Ok((hidden[states - last_len..].to_vec(), Kept { hidden, cells, gates }))
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
        self.with_weights(saved.operands, |input, weights, shape| {
            lstm::backward(kernel_grads, d_hidden, input, tape, weights, shape)
        })?;
        [hidden, cells, gates].into_iter().for_each(buffers::give);
        Ok(fused::into_grads(grads))
    }
}
