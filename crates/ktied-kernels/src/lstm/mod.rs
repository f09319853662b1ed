//! A whole sequence through a long short-term memory, and back.
//!
//! A block of examples goes through all steps by one task, so threads never wait for each other within a sequence, and the gates of a
//! step are still in the cache when the next product joins them. Weights are packed once for all steps, and a word that stands at several
//! places is multiplied once. Hochreiter, Schmidhuber, *Long short-term memory*, 1997; gates i, f, g, o as in Keras.

mod block;
mod flip;
mod step;
mod words;

use rayon::prelude::*;

pub use self::flip::{LstmFlip, LstmFlipGrads};
pub use self::words::Words;

use self::block::{BackwardBlock, BlockInput, ForwardBlock, Plan};
use self::words::WordGrads;
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right};
use crate::rows::column_sums;
use crate::scratch::with_scratch;

/// Sizes of a sequence and its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LstmShape {
    /// Steps, T.
    pub time: usize,
    /// Examples, B.
    pub batch: usize,
    /// Inputs of a step, M.
    pub inputs: usize,
    /// Cells, H.
    pub hidden: usize,
}

/// What the steps of a sequence read.
#[derive(Clone, Copy, Debug)]
pub enum LstmInput<'a> {
    /// A vector for every example at every step, `[T, B, M]`, time first.
    Vectors(&'a [f32]),
    /// Rows of a table by their numbers. Not with Flipout, under which a row is not the same at every place.
    Words {
        /// `[V, M]`
        table: &'a [f32],
        /// Which row stands where, `[T, B]`, time first.
        words: &'a Words,
    },
}

impl<'a> From<&'a [f32]> for LstmInput<'a> {
    fn from(x: &'a [f32]) -> Self {
        Self::Vectors(x)
    }
}

/// Weights; the columns of all three are the gates input, forget, candidate, output, H each.
#[derive(Clone, Copy, Debug)]
pub struct LstmWeights<'a> {
    /// From the input, `[M, 4H]`.
    pub kernel: &'a [f32],
    /// From the hidden state of the step before, `[H, 4H]`.
    pub recurrent: &'a [f32],
    /// `[4H]`; a forget bias of 1 is part of it.
    pub bias: Option<&'a [f32]>,
    /// What Flipout adds.
    pub flip: Option<LstmFlip<'a>>,
}

impl<'a> LstmWeights<'a> {
    /// The weights of the input and of the hidden state, and Flipout's perturbations of them, which are empty without Flipout.
    fn matrices(&self, plan: &Plan) -> Result<[Mat<'a>; 4]> {
        let LstmShape { inputs, hidden, .. } = plan.shape;
        let of = |weights, rows| Mat::new(weights, rows, plan.width);
        let none = Mat::new(&[], 0, 0)?;
        let (flip_kernel, flip_recurrent) = match self.flip {
            Some(flip) => (of(flip.kernel, inputs)?, of(flip.recurrent, hidden)?),
            None => (none, none),
        };
        Ok([of(self.kernel, inputs)?, of(self.recurrent, hidden)?, flip_kernel, flip_recurrent])
    }
}

/// Runs `task` on all of them, packed.
fn packed<T>([a, b, c, d]: [Mat<'_>; 4], task: impl FnOnce([Right<'_>; 4]) -> T) -> T {
    Right::with(a, true, |a| {
        Right::with(b, true, |b| Right::with(c, true, |c| Right::with(d, true, |d| task([a, b, c, d]))))
    })
}

/// What [`forward`] writes.
#[derive(Debug)]
pub struct LstmTapeMut<'a> {
    /// Hidden states, the output, `[T, B, H]`.
    pub hidden: &'a mut [f32],
    /// Cell states, `[T, B, H]`.
    pub cells: &'a mut [f32],
    /// Gates after their activations, `[T, B, 4H]`.
    pub gates: &'a mut [f32],
}

/// What [`backward`] reads of what [`forward`] wrote.
#[derive(Clone, Copy, Debug)]
pub struct LstmTape<'a> {
    /// Hidden states, `[T, B, H]`.
    pub hidden: &'a [f32],
    /// Cell states, `[T, B, H]`.
    pub cells: &'a [f32],
}

/// Gradient of the hidden states that [`backward`] starts from.
#[derive(Clone, Copy, Debug)]
pub enum HiddenGradient<'a> {
    /// Of every step, `[T, B, H]`.
    All(&'a [f32]),
    /// Of the last step, `[B, H]`; the others are zero.
    Last(&'a [f32]),
}

/// Where [`backward`] writes; what is `None` is not computed.
#[derive(Debug)]
pub struct LstmGrads<'a> {
    /// The gates as [`forward`] wrote them, `[T, B, 4H]`, replaced by their gradient before the activations: the others are made of it.
    pub gates: &'a mut [f32],
    /// Gradient of the input: of the vectors, `[T, B, M]`, or of the table, `[V, M]`.
    pub x: Option<&'a mut [f32]>,
    /// Gradient of the input weights, `[M, 4H]`.
    pub kernel: Option<&'a mut [f32]>,
    /// Gradient of the recurrent weights, `[H, 4H]`.
    pub recurrent: Option<&'a mut [f32]>,
    /// Gradient of the bias, `[4H]`.
    pub bias: Option<&'a mut [f32]>,
    /// Gradients of the perturbations; nothing without [`LstmWeights::flip`].
    pub flip: LstmFlipGrads<'a>,
}

/// For every step: z = x·kernel + h₋₁·recurrent + bias, i, f, o = σ(z), g = tanh(z), c = f·c₋₁ + i·g, h = o·tanh(c),
/// from h = c = 0; [`LstmFlip`] says what Flipout adds to z.
///
/// # Shapes
/// - as in [`LstmTapeMut`], [`LstmInput`] and [`LstmWeights`]
///
/// # Errors
/// If a length does not fit `shape`, or words are given together with Flipout.
///
/// ```
/// use ktied_kernels::lstm::{LstmShape, LstmTapeMut, LstmWeights, forward};
/// let shape = LstmShape { time: 1, batch: 1, inputs: 1, hidden: 1 };
/// let bias = [0.0, 1.0, 0.5, 0.0];
/// let weights = LstmWeights { kernel: &[0.0; 4], recurrent: &[0.0; 4], bias: Some(&bias), flip: None };
/// let (mut hidden, mut cells, mut gates) = ([0.0], [0.0], [0.0; 4]);
/// let (tape, x) = (LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates }, &[1.0][..]);
/// forward(tape, x.into(), weights, shape)?;
/// assert!((cells[0] - 0.5 * 0.5f32.tanh()).abs() < 1e-6);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward(tape: LstmTapeMut<'_>, input: LstmInput<'_>, weights: LstmWeights<'_>, shape: LstmShape) -> Result<()> {
    let check = Check("lstm");
    let plan = Plan::new(check, shape, input, &weights)?;
    let LstmTapeMut { hidden, cells, gates } = &tape;
    check.len("hidden", hidden, check.product(&[plan.steps, shape.hidden])?)?;
    check.len("cells", cells, hidden.len())?;
    check.len("gates", gates, check.product(&[plan.steps, plan.width])?)?;
    if hidden.is_empty() {
        return Ok(());
    }
    let num_hidden = shape.hidden;
    let gates = plan.split(tape.gates, plan.width);
    let states = plan.split(tape.cells, num_hidden).into_par_iter().zip(plan.split(tape.hidden, num_hidden));
    let blocks = gates.into_par_iter().zip(states).enumerate();
    with_blocks(input, &weights, &plan, |of_block| {
        blocks.try_for_each(|(index, (gates, (cells, hidden)))| of_block(index).run(gates, cells, hidden))
    })
}

/// The hidden states that [`forward`] ends with, in the memory of two steps.
///
/// # Shapes
/// - last: `[B, H]`; the others as in [`LstmInput`] and [`LstmWeights`]
///
/// # Errors
/// As [`forward`].
pub fn forward_last(last: &mut [f32], input: LstmInput<'_>, weights: LstmWeights<'_>, shape: LstmShape) -> Result<()> {
    let check = Check("lstm");
    let plan = Plan::new(check, shape, input, &weights)?;
    check.len("last", last, check.product(&[shape.batch, shape.hidden])?)?;
    if shape.time == 0 || last.is_empty() {
        last.fill(0.0);
        return Ok(());
    }
    let blocks = last.par_chunks_mut(plan.block * shape.hidden).enumerate();
    with_blocks(input, &weights, &plan, |of_block| blocks.try_for_each(|(index, last)| of_block(index).run_to(last)))
}

/// Runs `task` on what makes a block of its number.
fn with_blocks(
    input: LstmInput<'_>,
    weights: &LstmWeights<'_>,
    plan: &Plan,
    task: impl for<'b> FnOnce(&(dyn Fn(usize) -> ForwardBlock<'b> + Sync)) -> Result<()>,
) -> Result<()> {
    let zeros = vec![0.0; plan.width];
    let bias = weights.bias.unwrap_or(&zeros);
    let num_products = match input {
        LstmInput::Vectors(_) => 0,
        LstmInput::Words { words, .. } => words.num_distinct() * plan.width,
    };
    packed(weights.matrices(plan)?, |[kernel, recurrent, flip_kernel, flip_recurrent]| {
        with_scratch(num_products, |rows| {
            let input = match input {
                LstmInput::Vectors(x) => BlockInput::Vectors { x, kernel, zeros: &zeros },
                LstmInput::Words { table, words } => {
                    words.multiply(rows, table, kernel, plan)?;
                    BlockInput::Products { rows, of_place: words.of_place() }
                }
            };
            task(&|index| {
                let first = index * plan.block;
                let flip = weights.flip.map(|flip| flip.of_block([flip_kernel, flip_recurrent], first, plan));
                ForwardBlock { input, bias, recurrent, flip, first, plan }
            })
        })
    })
}

/// Gradients of [`forward`], from those of the hidden states.
///
/// Going back step by step: do = dh·tanh(c), dc = dc₊₁·f₊₁ + dh·o·(1 − tanh²c), di = dc·g, df = dc·c₋₁, dg = dc·i,
/// then through the activations to dz (that of the gates), and dh₋₁ = dz·recurrentᵀ. At the end dx = dz·kernelᵀ,
/// dkernel = xᵀ·dz, drecurrent = h₋₁ᵀ·dz and dbias = Σ dz, each one product over all steps. Where the input is words, dz is first added
/// up over the places of each.
///
/// # Shapes
/// - as in [`LstmGrads`], [`HiddenGradient`], [`LstmInput`], [`LstmTape`] and [`LstmWeights`]
///
/// # Errors
/// If a length does not fit `shape`, or words are given together with Flipout; nothing is written then.
pub fn backward(
    grads: LstmGrads<'_>,
    dhidden: HiddenGradient<'_>,
    input: LstmInput<'_>,
    tape: LstmTape<'_>,
    weights: LstmWeights<'_>,
    shape: LstmShape,
) -> Result<()> {
    let check = Check("lstm backward");
    let plan = Plan::new(check, shape, input, &weights)?;
    check_grads(check, &grads, dhidden, input, tape, &weights, &plan)?;
    let LstmGrads { gates, x: d_x, kernel, recurrent, bias, flip: flip_grads } = grads;
    let x = match input {
        LstmInput::Vectors(x) => x,
        LstmInput::Words { table, words } => {
            gates_backward(gates, &mut [], &mut [], dhidden, tape, &weights, &plan)?;
            let [kernel_values, ..] = weights.matrices(&plan)?;
            words.gradients(WordGrads { table: d_x, kernel, bias }, gates, table, kernel_values, &plan)?;
            return plan.weight_products(None, recurrent, [&[], tape.hidden], Mat::new(gates, plan.steps, plan.width)?);
        }
    };
    // r∘dz of all steps, what Flipout's products are made of.
    let mut signed = vec![0.0; weights.flip.map_or(0, |_| gates.len())];
    gates_backward(gates, d_x.unwrap_or_default(), &mut signed, dhidden, tape, &weights, &plan)?;
    plan.weight_products(kernel, recurrent, [x, tape.hidden], Mat::new(gates, plan.steps, plan.width)?)?;
    if let Some(d_bias) = bias {
        column_sums(d_bias, gates);
    }
    let flip_products = |flip: LstmFlip<'_>| {
        let signed = Mat::new(&signed, plan.steps, plan.width)?;
        flip.products(flip_grads, x, tape.hidden, signed, &plan)
    };
    weights.flip.map_or(Ok(()), flip_products)
}

fn check_grads(
    check: Check,
    grads: &LstmGrads<'_>,
    dhidden: HiddenGradient<'_>,
    input: LstmInput<'_>,
    tape: LstmTape<'_>,
    weights: &LstmWeights<'_>,
    plan: &Plan,
) -> Result<()> {
    let LstmShape { batch, hidden, .. } = plan.shape;
    let states = check.product(&[plan.steps, hidden])?;
    check.len("gates", grads.gates, check.product(&[plan.steps, plan.width])?)?;
    check.len("hidden", tape.hidden, states)?;
    check.len("cells", tape.cells, states)?;
    match dhidden {
        HiddenGradient::All(all) => check.len("dhidden", all, states)?,
        HiddenGradient::Last(last) => check.len("dhidden", last, check.product(&[batch, hidden])?)?,
    }
    let check_optional = |operand, slice: &Option<&mut [f32]>, expected| match slice {
        Some(slice) => check.len(operand, slice, expected),
        None => Ok(()),
    };
    let (LstmInput::Vectors(x) | LstmInput::Words { table: x, .. }) = input;
    check_optional("dx", &grads.x, x.len())?;
    check_optional("dkernel", &grads.kernel, weights.kernel.len())?;
    check_optional("drecurrent", &grads.recurrent, weights.recurrent.len())?;
    check_optional("dbias", &grads.bias, plan.width)?;
    let (kernel, recurrent) = weights.flip.map_or((0, 0), |flip| (flip.kernel.len(), flip.recurrent.len()));
    check_optional("dflip.kernel", &grads.flip.kernel, kernel)?;
    check_optional("dflip.recurrent", &grads.flip.recurrent, recurrent)
}

/// Gates to dz and, if it is not empty, dx of all steps, and r∘dz where Flipout wants it, a block of examples a task.
fn gates_backward(
    gates: &mut [f32],
    d_x: &mut [f32],
    signed: &mut [f32],
    dhidden: HiddenGradient<'_>,
    tape: LstmTape<'_>,
    weights: &LstmWeights<'_>,
    plan: &Plan,
) -> Result<()> {
    if gates.is_empty() {
        return Ok(());
    }
    let (gates, d_x) = (plan.split(gates, plan.width), plan.split(d_x, plan.shape.inputs));
    let blocks = gates.into_par_iter().zip(d_x).zip(plan.split(signed, plan.width));
    packed(weights.matrices(plan)?.map(Mat::t), |[kernel_t, recurrent_t, flip_kernel_t, flip_recurrent_t]| {
        blocks.enumerate().try_for_each(|(index, ((gates, d_x), signed))| {
            let first = index * plan.block;
            let flip = weights.flip.map(|flip| flip.of_block([flip_kernel_t, flip_recurrent_t], first, plan));
            BackwardBlock { gates, d_x, signed, first }.run(dhidden, tape, [kernel_t, recurrent_t], flip, plan)
        })
    })
}
