//! A whole sequence through a long short-term memory, and back.
//!
//! The products with the input are made for all steps at once. What is left of each step, the recurrent product and
//! the gates, is done for a block of examples through all steps by one task, so threads never wait for each other
//! within a sequence. Hochreiter, Schmidhuber, *Long short-term memory*, 1997; gates i, f, g, o as in Keras.

mod step;

use rayon::prelude::*;

use crate::error::{Check, Result};
use crate::gemm::{Mat, Threads, Update, product};
use crate::lstm::step::{step_rows, step_rows_backward};
use crate::rows::{column_sums, transpose};
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

/// Weights; the columns of all three are the gates input, forget, candidate, output, H each.
#[derive(Clone, Copy, Debug)]
pub struct LstmWeights<'a> {
    /// From the input, `[M, 4H]`.
    pub kernel: &'a [f32],
    /// From the hidden state of the step before, `[H, 4H]`.
    pub recurrent: &'a [f32],
    /// `[4H]`; a forget bias of 1 is part of it.
    pub bias: Option<&'a [f32]>,
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
    /// Gates after their activations, `[T, B, 4H]`.
    pub gates: &'a [f32],
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
    /// Gradient of the gates before their activations, `[T, B, 4H]`: the others are made of it.
    pub gates: &'a mut [f32],
    /// Gradient of x, `[T, B, M]`.
    pub x: Option<&'a mut [f32]>,
    /// Gradient of the input weights, `[M, 4H]`.
    pub kernel: Option<&'a mut [f32]>,
    /// Gradient of the recurrent weights, `[H, 4H]`.
    pub recurrent: Option<&'a mut [f32]>,
    /// Gradient of the bias, `[4H]`.
    pub bias: Option<&'a mut [f32]>,
}

/// Lengths that follow from a checked shape.
#[derive(Clone, Copy)]
struct Plan {
    shape: LstmShape,
    /// T·B
    steps: usize,
    /// 4H
    width: usize,
    /// Examples that one task takes.
    block: usize,
}

/// Examples that one task takes: few enough for many tasks, enough to make a recurrent product worth its weights.
const MIN_BLOCK: usize = 8;
const MAX_BLOCK: usize = 64;
const NUM_BLOCKS: usize = 8;

impl LstmShape {
    fn plan(&self, check: Check, x: &[f32], weights: &LstmWeights<'_>) -> Result<Plan> {
        let Self { time, batch, inputs, hidden } = *self;
        let (steps, width) = (check.product(&[time, batch])?, check.product(&[4, hidden])?);
        check.len("x", x, check.product(&[steps, inputs])?)?;
        check.len("kernel", weights.kernel, check.product(&[inputs, width])?)?;
        check.len("recurrent", weights.recurrent, check.product(&[hidden, width])?)?;
        weights.bias.map_or(Ok(()), |bias| check.len("bias", bias, width))?;
        let block = batch.div_ceil(NUM_BLOCKS).clamp(MIN_BLOCK, MAX_BLOCK);
        Ok(Plan { shape: *self, steps, width, block })
    }
}

/// For every step: z = x·kernel + h₋₁·recurrent + bias, i, f, o = σ(z), g = tanh(z), c = f·c₋₁ + i·g, h = o·tanh(c),
/// from h = c = 0.
///
/// # Shapes
/// - x: `[T, B, M]`, time first; the others as in [`LstmTapeMut`] and [`LstmWeights`]
///
/// # Errors
/// If a length does not fit `shape`.
///
/// ```
/// use ktied_kernels::lstm::{LstmShape, LstmTapeMut, LstmWeights, forward};
/// let shape = LstmShape { time: 1, batch: 1, inputs: 1, hidden: 1 };
/// let weights = LstmWeights { kernel: &[0.0; 4], recurrent: &[0.0; 4], bias: Some(&[0.0, 1.0, 0.5, 0.0]) };
/// let (mut hidden, mut cells, mut gates) = ([0.0], [0.0], [0.0; 4]);
/// forward(LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates }, &[1.0], weights, shape)?;
/// assert!((cells[0] - 0.5 * 0.5f32.tanh()).abs() < 1e-6);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward(tape: LstmTapeMut<'_>, x: &[f32], weights: LstmWeights<'_>, shape: LstmShape) -> Result<()> {
    let check = Check("lstm");
    let plan = shape.plan(check, x, &weights)?;
    let LstmTapeMut { hidden, cells, gates } = tape;
    check.len("hidden", hidden, check.product(&[plan.steps, shape.hidden])?)?;
    check.len("cells", cells, hidden.len())?;
    check.len("gates", gates, check.product(&[plan.steps, plan.width])?)?;
    if hidden.is_empty() {
        return Ok(());
    }
    let kernel = Mat::new(weights.kernel, shape.inputs, plan.width)?;
    product(gates, Mat::new(x, plan.steps, shape.inputs)?, kernel, Update::Overwrite, Threads::All)?;

    let recurrent = Mat::new(weights.recurrent, shape.hidden, plan.width)?;
    let zeros = vec![0.0; plan.width];
    let bias = weights.bias.unwrap_or(&zeros);
    let gates = plan.split(gates, plan.width);
    let (cells, hidden) = (plan.split(cells, shape.hidden), plan.split(hidden, shape.hidden));
    let blocks = gates.into_par_iter().zip(cells).zip(hidden);
    blocks.try_for_each(|((gates, cells), hidden)| forward_block(gates, cells, hidden, recurrent, bias))
}

impl Plan {
    /// Cuts `[T, B, columns]` into blocks of examples: for each block its part of every step.
    fn split<'a>(&self, data: &'a mut [f32], columns: usize) -> Vec<Vec<&'a mut [f32]>> {
        let LstmShape { time, batch, .. } = self.shape;
        let mut blocks: Vec<Vec<_>> = Vec::new();
        blocks.resize_with(batch.div_ceil(self.block), || Vec::with_capacity(time));
        for step in data.chunks_exact_mut(batch * columns) {
            for (block, part) in blocks.iter_mut().zip(step.chunks_mut(self.block * columns)) {
                block.push(part);
            }
        }
        blocks
    }
}

/// All steps of a block of examples. `gates` hold the input's share of z on entry.
fn forward_block(
    gates: Vec<&mut [f32]>,
    cells: Vec<&mut [f32]>,
    hidden: Vec<&mut [f32]>,
    recurrent: Mat<'_>,
    bias: &[f32],
) -> Result<()> {
    let num_hidden = bias.len() / 4;
    let mut before: Option<(&[f32], &[f32])> = None;
    for ((gates, cells), hidden) in gates.into_iter().zip(cells).zip(hidden) {
        if let Some((_, hidden_before)) = before {
            let hidden_before = Mat::new(hidden_before, hidden.len() / num_hidden, num_hidden)?;
            product(gates, hidden_before, recurrent, Update::Accumulate, Threads::One)?;
        }
        match before {
            Some((cells_before, _)) => cells.copy_from_slice(cells_before),
            None => cells.fill(0.0),
        }
        step_rows(gates, cells, hidden, bias);
        before = Some((cells, hidden));
    }
    Ok(())
}

/// Gradients of [`forward`], from those of the hidden states.
///
/// Going back step by step: do = dh·tanh(c), dc = dc₊₁·f₊₁ + dh·o·(1 − tanh²c), di = dc·g, df = dc·c₋₁, dg = dc·i,
/// then through the activations to dz (that of the gates), and dh₋₁ = dz·recurrentᵀ. At the end dx = dz·kernelᵀ,
/// dkernel = xᵀ·dz, drecurrent = h₋₁ᵀ·dz and dbias = Σ dz, each one product over all steps.
///
/// # Shapes
/// - x: `[T, B, M]`; the others as in [`LstmGrads`], [`HiddenGradient`], [`LstmTape`] and [`LstmWeights`]
///
/// # Errors
/// If a length does not fit `shape`; nothing is written then.
pub fn backward(
    grads: LstmGrads<'_>,
    dhidden: HiddenGradient<'_>,
    x: &[f32],
    tape: LstmTape<'_>,
    weights: LstmWeights<'_>,
    shape: LstmShape,
) -> Result<()> {
    let check = Check("lstm backward");
    let plan = shape.plan(check, x, &weights)?;
    check_grads(check, &grads, dhidden, x, tape, &weights, &plan)?;
    if !grads.gates.is_empty() {
        gates_backward(&mut *grads.gates, dhidden, tape, &weights, &plan)?;
    }
    products_of_gates(grads, x, tape.hidden, weights.kernel, &plan)
}

fn check_grads(
    check: Check,
    grads: &LstmGrads<'_>,
    dhidden: HiddenGradient<'_>,
    x: &[f32],
    tape: LstmTape<'_>,
    weights: &LstmWeights<'_>,
    plan: &Plan,
) -> Result<()> {
    let LstmShape { batch, hidden, .. } = plan.shape;
    let states = check.product(&[plan.steps, hidden])?;
    check.len("dgates", grads.gates, check.product(&[plan.steps, plan.width])?)?;
    check.len("hidden", tape.hidden, states)?;
    check.len("cells", tape.cells, states)?;
    check.len("gates", tape.gates, grads.gates.len())?;
    match dhidden {
        HiddenGradient::All(all) => check.len("dhidden", all, states)?,
        HiddenGradient::Last(last) => check.len("dhidden", last, check.product(&[batch, hidden])?)?,
    }
    let check_optional = |operand, slice: &Option<&mut [f32]>, expected| match slice {
        Some(slice) => check.len(operand, slice, expected),
        None => Ok(()),
    };
    check_optional("dx", &grads.x, x.len())?;
    check_optional("dkernel", &grads.kernel, weights.kernel.len())?;
    check_optional("drecurrent", &grads.recurrent, weights.recurrent.len())?;
    check_optional("dbias", &grads.bias, plan.width)
}

/// The gradients that are one product each, over all steps, with that of the gates.
fn products_of_gates(grads: LstmGrads<'_>, x: &[f32], hidden: &[f32], kernel: &[f32], plan: &Plan) -> Result<()> {
    let LstmShape { batch, inputs, hidden: num_hidden, .. } = plan.shape;
    let dgates = Mat::new(grads.gates, plan.steps, plan.width)?;
    if let Some(dx) = grads.x {
        product(dx, dgates, Mat::new(kernel, inputs, plan.width)?.t(), Update::Overwrite, Threads::All)?;
    }
    if let Some(dkernel) = grads.kernel {
        product(dkernel, Mat::new(x, plan.steps, inputs)?.t(), dgates, Update::Overwrite, Threads::All)?;
    }
    if let Some(drecurrent) = grads.recurrent {
        // Step t saw the hidden state of step t − 1, and the first step zeros.
        let later = plan.steps - batch.min(plan.steps);
        let hidden = Mat::new(&hidden[..later * num_hidden], later, num_hidden)?;
        let dgates = Mat::new(&grads.gates[(plan.steps - later) * plan.width..], later, plan.width)?;
        product(drecurrent, hidden.t(), dgates, Update::Overwrite, Threads::All)?;
    }
    if let Some(dbias) = grads.bias {
        column_sums(dbias, grads.gates);
    }
    Ok(())
}

/// dgates of all steps, a block of examples a task.
fn gates_backward(
    dgates: &mut [f32],
    dhidden: HiddenGradient<'_>,
    tape: LstmTape<'_>,
    weights: &LstmWeights<'_>,
    plan: &Plan,
) -> Result<()> {
    let num_hidden = plan.shape.hidden;
    // Transposed once: as it lies, every step's product would have to transpose it again.
    let mut recurrent_t = vec![0.0; weights.recurrent.len()];
    transpose(&mut recurrent_t, weights.recurrent, num_hidden, plan.width);
    let recurrent_t = Mat::new(&recurrent_t, plan.width, num_hidden)?;
    let blocks = plan.split(dgates, plan.width);
    blocks
        .into_par_iter()
        .enumerate()
        .try_for_each(|(index, dgates)| backward_block(dgates, index * plan.block, dhidden, tape, recurrent_t, plan))
}

/// dgates of the examples from `first` on, through all steps from the last to the first.
fn backward_block(
    dgates: Vec<&mut [f32]>,
    first: usize,
    dhidden: HiddenGradient<'_>,
    tape: LstmTape<'_>,
    recurrent_t: Mat<'_>,
    plan: &Plan,
) -> Result<()> {
    let LstmShape { time, batch, hidden: num_hidden, .. } = plan.shape;
    let num_rows = plan.block.min(batch - first);
    let len = num_rows * num_hidden;
    // This block's part of step t in an array of `columns` an example.
    let part = |t: usize, columns: usize| (t * batch + first) * columns..(t * batch + first + num_rows) * columns;
    let zeros = vec![0.0; len];
    with_scratch(2 * len, |carry| {
        carry.fill(0.0);
        let (dh, dc) = carry.split_at_mut(len);
        for (t, dgates) in dgates.into_iter().enumerate().rev() {
            match dhidden {
                HiddenGradient::All(all) => add(dh, &all[part(t, num_hidden)]),
                HiddenGradient::Last(last) if t + 1 == time => add(dh, &last[part(0, num_hidden)]),
                HiddenGradient::Last(_) => {}
            }
            let cells_before = if t == 0 { &zeros } else { &tape.cells[part(t - 1, num_hidden)] };
            let (gates, cells) = (&tape.gates[part(t, plan.width)], &tape.cells[part(t, num_hidden)]);
            step_rows_backward(dgates, dc, dh, gates, cells, cells_before, num_hidden);
            let dgates = Mat::new(dgates, num_rows, plan.width)?;
            product(dh, dgates, recurrent_t, Update::Overwrite, Threads::One)?;
        }
        Ok(())
    })
}

fn add(total: &mut [f32], part: &[f32]) {
    total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
}
