//! A whole sequence through a long short-term memory, and back.
//!
//! The products with the input are made for all steps at once. What is left of each step, the recurrent product and
//! the gates, is done for a block of examples through all steps by one task, so threads never wait for each other
//! within a sequence. Hochreiter, Schmidhuber, *Long short-term memory*, 1997; gates i, f, g, o as in Keras.

use rayon::prelude::*;

use crate::error::{Check, Result};
use crate::gemm::{Mat, Threads, Update, product};
use crate::rows::column_sums;
use crate::scratch::with_scratch;
use crate::simd::vectorized;
use crate::vmath::{sigmoid, tanh};

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
pub struct LstmGradients<'a> {
    /// Gradient of the gates before their activations, `[T, B, 4H]`: the others are made of it.
    pub dgates: &'a mut [f32],
    /// Gradient of x, `[T, B, M]`.
    pub dx: Option<&'a mut [f32]>,
    /// Gradient of the input weights, `[M, 4H]`.
    pub dkernel: Option<&'a mut [f32]>,
    /// Gradient of the recurrent weights, `[H, 4H]`.
    pub drecurrent: Option<&'a mut [f32]>,
    /// Gradient of the bias, `[4H]`.
    pub dbias: Option<&'a mut [f32]>,
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
/// then through the activations to dz (`dgates`), and dh₋₁ = dz·recurrentᵀ. At the end dx = dz·kernelᵀ,
/// dkernel = xᵀ·dz, drecurrent = h₋₁ᵀ·dz and dbias = Σ dz, each one product over all steps.
///
/// # Shapes
/// - x: `[T, B, M]`; the others as in [`LstmGradients`], [`HiddenGradient`], [`LstmTape`] and [`LstmWeights`]
///
/// # Errors
/// If a length does not fit `shape`; nothing is written then.
pub fn backward(
    gradients: LstmGradients<'_>,
    dhidden: HiddenGradient<'_>,
    x: &[f32],
    tape: LstmTape<'_>,
    weights: LstmWeights<'_>,
    shape: LstmShape,
) -> Result<()> {
    let check = Check("lstm backward");
    let plan = shape.plan(check, x, &weights)?;
    let LstmGradients { dgates, dx, dkernel, drecurrent, dbias } = gradients;
    let states = check.product(&[plan.steps, shape.hidden])?;
    check.len("dgates", dgates, check.product(&[plan.steps, plan.width])?)?;
    check.len("hidden", tape.hidden, states)?;
    check.len("cells", tape.cells, states)?;
    check.len("gates", tape.gates, dgates.len())?;
    match dhidden {
        HiddenGradient::All(dhidden) => check.len("dhidden", dhidden, states)?,
        HiddenGradient::Last(dhidden) => check.len("dhidden", dhidden, check.product(&[shape.batch, shape.hidden])?)?,
    }
    dx.as_ref().map_or(Ok(()), |dx| check.len("dx", dx, x.len()))?;
    dkernel.as_ref().map_or(Ok(()), |dkernel| check.len("dkernel", dkernel, weights.kernel.len()))?;
    drecurrent.as_ref().map_or(Ok(()), |d| check.len("drecurrent", d, weights.recurrent.len()))?;
    dbias.as_ref().map_or(Ok(()), |dbias| check.len("dbias", dbias, plan.width))?;

    if !dgates.is_empty() {
        gates_backward(dgates, dhidden, tape, &weights, &plan)?;
    }
    let dgates_mat = Mat::new(dgates, plan.steps, plan.width)?;
    if let Some(dx) = dx {
        let kernel = Mat::new(weights.kernel, shape.inputs, plan.width)?;
        product(dx, dgates_mat, kernel.t(), Update::Overwrite, Threads::All)?;
    }
    if let Some(dkernel) = dkernel {
        let x = Mat::new(x, plan.steps, shape.inputs)?;
        product(dkernel, x.t(), dgates_mat, Update::Overwrite, Threads::All)?;
    }
    if let Some(drecurrent) = drecurrent {
        // Step t saw the hidden state of step t − 1, the first step saw zeros.
        let later = plan.steps - shape.batch.min(plan.steps);
        let hidden = Mat::new(&tape.hidden[..later * shape.hidden], later, shape.hidden)?;
        let dgates = Mat::new(&dgates[dgates.len() - later * plan.width..], later, plan.width)?;
        product(drecurrent, hidden.t(), dgates, Update::Overwrite, Threads::All)?;
    }
    if let Some(dbias) = dbias {
        column_sums(dbias, dgates);
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
    for (i, row) in weights.recurrent.chunks_exact(plan.width).enumerate() {
        row.iter().enumerate().for_each(|(j, r)| recurrent_t[j * num_hidden + i] = *r);
    }
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
            let states = States {
                gates: &tape.gates[part(t, plan.width)],
                cells: &tape.cells[part(t, num_hidden)],
                cells_before,
                num_hidden,
            };
            step_rows_backward(dgates, dc, dh, &states);
            let dgates = Mat::new(dgates, num_rows, plan.width)?;
            product(dh, dgates, recurrent_t, Update::Overwrite, Threads::One)?;
        }
        Ok(())
    })
}

fn add(total: &mut [f32], part: &[f32]) {
    total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
}

/// What one step of one block left on the tape.
struct States<'a> {
    gates: &'a [f32],
    cells: &'a [f32],
    cells_before: &'a [f32],
    num_hidden: usize,
}

/// A row of 4H as its four gates.
#[inline(always)]
fn four(row: &[f32]) -> [&[f32]; 4] {
    let (i, rest) = row.split_at(row.len() / 4);
    let (f, rest) = rest.split_at(i.len());
    let (g, o) = rest.split_at(i.len());
    [i, f, g, o]
}

#[inline(always)]
fn four_mut(row: &mut [f32]) -> [&mut [f32]; 4] {
    let num_hidden = row.len() / 4;
    let (i, rest) = row.split_at_mut(num_hidden);
    let (f, rest) = rest.split_at_mut(num_hidden);
    let (g, o) = rest.split_at_mut(num_hidden);
    [i, f, g, o]
}

vectorized! {
    /// Sums before activations to gates, cells before to cells, both in place, and the hidden states.
    fn step_rows(gates: &mut [f32], cells: &mut [f32], hidden: &mut [f32], bias: &[f32]) {
        let num_hidden = bias.len() / 4;
        let [bias_i, bias_f, bias_g, bias_o] = four(bias);
        let states = cells.chunks_exact_mut(num_hidden).zip(hidden.chunks_exact_mut(num_hidden));
        for (gates, (cells, hidden)) in gates.chunks_exact_mut(4 * num_hidden).zip(states) {
            let [i, f, g, o] = four_mut(gates);
            for j in 0..num_hidden {
                i[j] = sigmoid(i[j] + bias_i[j]);
                f[j] = sigmoid(f[j] + bias_f[j]);
                g[j] = tanh(g[j] + bias_g[j]);
                o[j] = sigmoid(o[j] + bias_o[j]);
                cells[j] = f[j] * cells[j] + i[j] * g[j];
                hidden[j] = o[j] * tanh(cells[j]);
            }
        }
    }

    /// dgates from dh and dc (that of the step after on entry, of the step before on return).
    fn step_rows_backward(dgates: &mut [f32], dc: &mut [f32], dh: &[f32], states: &States<'_>) {
        let num_hidden = states.num_hidden;
        let gradients = dc.chunks_exact_mut(num_hidden).zip(dh.chunks_exact(num_hidden));
        let cells = states.cells.chunks_exact(num_hidden).zip(states.cells_before.chunks_exact(num_hidden));
        let gates = dgates.chunks_exact_mut(4 * num_hidden).zip(states.gates.chunks_exact(4 * num_hidden));
        for (((dgates, gates), (dc, dh)), (cells, cells_before)) in gates.zip(gradients).zip(cells) {
            let ([di, df, dg, d_o], [i, f, g, o]) = (four_mut(dgates), four(gates));
            for j in 0..num_hidden {
                let squashed = tanh(cells[j]);
                let dcell = dc[j] + dh[j] * o[j] * (1.0 - squashed * squashed);
                di[j] = dcell * g[j] * i[j] * (1.0 - i[j]);
                df[j] = dcell * cells_before[j] * f[j] * (1.0 - f[j]);
                dg[j] = dcell * i[j] * (1.0 - g[j] * g[j]);
                d_o[j] = dh[j] * squashed * o[j] * (1.0 - o[j]);
                dc[j] = dcell * f[j];
            }
        }
    }
}
