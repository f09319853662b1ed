//! A whole sequence through a long short-term memory, and back.
//!
//! A block of examples goes through all steps by one task, so threads never wait for each other within a sequence, and the gates of a
//! step are still in the cache when the next product joins them. Weights are packed once for all steps. Hochreiter, Schmidhuber, *Long short-term memory*, 1997; gates i, f, g, o as in Keras.

mod block;
mod flip;
mod step;

use rayon::prelude::*;

pub use self::flip::{LstmFlip, LstmFlipGrads};

use self::block::{BackwardBlock, ForwardBlock, Plan};
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right};
use crate::rows::column_sums;

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
    /// What Flipout adds.
    pub flip: Option<LstmFlip<'a>>,
}

impl<'a> LstmWeights<'a> {
    fn kernel_matrix(&self, plan: &Plan) -> Result<Mat<'a>> {
        Mat::new(self.kernel, plan.shape.inputs, plan.width)
    }

    /// The recurrent weights, and Flipout's perturbation of them, which is empty without Flipout.
    fn recurrent_matrices(&self, plan: &Plan) -> Result<[Mat<'a>; 2]> {
        let of = |weights| Mat::new(weights, plan.shape.hidden, plan.width);
        Ok([of(self.recurrent)?, self.flip.map_or(Mat::new(&[], 0, 0), |flip| of(flip.recurrent))?])
    }
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
    /// Gradients of the perturbations; nothing without [`LstmWeights::flip`].
    pub flip: LstmFlipGrads<'a>,
}

/// For every step: z = x·kernel + h₋₁·recurrent + bias, i, f, o = σ(z), g = tanh(z), c = f·c₋₁ + i·g, h = o·tanh(c),
/// from h = c = 0; [`LstmFlip`] says what Flipout adds to z.
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
/// let bias = [0.0, 1.0, 0.5, 0.0];
/// let weights = LstmWeights { kernel: &[0.0; 4], recurrent: &[0.0; 4], bias: Some(&bias), flip: None };
/// let (mut hidden, mut cells, mut gates) = ([0.0], [0.0], [0.0; 4]);
/// forward(LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates }, &[1.0], weights, shape)?;
/// assert!((cells[0] - 0.5 * 0.5f32.tanh()).abs() < 1e-6);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward(tape: LstmTapeMut<'_>, x: &[f32], weights: LstmWeights<'_>, shape: LstmShape) -> Result<()> {
    let check = Check("lstm");
    let plan = Plan::new(check, shape, x, &weights)?;
    let LstmTapeMut { hidden, cells, gates } = tape;
    check.len("hidden", hidden, check.product(&[plan.steps, shape.hidden])?)?;
    check.len("cells", cells, hidden.len())?;
    check.len("gates", gates, check.product(&[plan.steps, plan.width])?)?;
    if hidden.is_empty() {
        return Ok(());
    }
    let mut deviations = weights.flip.map_or(Ok(Vec::new()), |flip| flip.of_inputs(x, &plan))?;

    let zeros = vec![0.0; plan.width];
    let bias = weights.bias.unwrap_or(&zeros);
    let (gates, deviations) = (plan.split(gates, plan.width), plan.split(&mut deviations, plan.width));
    let (cells, hidden) = (plan.split(cells, shape.hidden), plan.split(hidden, shape.hidden));
    let states = cells.into_par_iter().zip(hidden);
    let blocks = gates.into_par_iter().zip(deviations).zip(states).enumerate();
    let (kernel, [recurrent, deviation]) = (weights.kernel_matrix(&plan)?, weights.recurrent_matrices(&plan)?);
    Right::with(kernel, true, |kernel| {
        Right::with(recurrent, true, |recurrent| {
            Right::with(deviation, true, |deviation| {
                blocks.try_for_each(|(index, ((gates, deviations), (cells, hidden)))| {
                    let first = index * plan.block;
                    let flip = weights.flip.map(|flip| flip.of_block(deviation, first, &plan));
                    let block = ForwardBlock { gates, deviations, cells, hidden, first };
                    block.run(x, [kernel, recurrent], bias, flip, &plan)
                })
            })
        })
    })
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
    let plan = Plan::new(check, shape, x, &weights)?;
    check_grads(check, &grads, dhidden, x, tape, &weights, &plan)?;
    let LstmGrads { gates, x: mut d_x, kernel, recurrent, bias, flip: flip_grads } = grads;
    // r∘dz of all steps, what Flipout's products are made of.
    let mut signed = vec![0.0; weights.flip.map_or(0, |_| gates.len())];
    if !gates.is_empty() {
        gates_backward(gates, d_x.as_deref_mut().unwrap_or_default(), &mut signed, dhidden, tape, &weights, &plan)?;
    }
    let dgates = Mat::new(gates, plan.steps, plan.width)?;
    plan.weight_products(kernel, recurrent, x, tape.hidden, dgates)?;
    if let Some(d_bias) = bias {
        column_sums(d_bias, gates);
    }
    weights.flip.map_or(Ok(()), |flip| flip.products(flip_grads, d_x, x, tape.hidden, &signed, &plan))
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
    check_optional("dbias", &grads.bias, plan.width)?;
    let (kernel, recurrent) = weights.flip.map_or((0, 0), |flip| (flip.kernel.len(), flip.recurrent.len()));
    check_optional("dflip.kernel", &grads.flip.kernel, kernel)?;
    check_optional("dflip.recurrent", &grads.flip.recurrent, recurrent)
}

/// dgates and, if it is not empty, dx of all steps, and r∘dgates where Flipout wants it, a block of examples a task.
fn gates_backward(
    dgates: &mut [f32],
    d_x: &mut [f32],
    signed: &mut [f32],
    dhidden: HiddenGradient<'_>,
    tape: LstmTape<'_>,
    weights: &LstmWeights<'_>,
    plan: &Plan,
) -> Result<()> {
    let (kernel, [recurrent, deviation]) = (weights.kernel_matrix(plan)?, weights.recurrent_matrices(plan)?);
    let (dgates, d_x) = (plan.split(dgates, plan.width), plan.split(d_x, plan.shape.inputs));
    let blocks = dgates.into_par_iter().zip(d_x).zip(plan.split(signed, plan.width));
    Right::with(kernel.t(), true, |kernel_t| {
        Right::with(recurrent.t(), true, |recurrent_t| {
            Right::with(deviation.t(), true, |deviation_t| {
                blocks.enumerate().try_for_each(|(index, ((dgates, d_x), signed))| {
                    let first = index * plan.block;
                    let flip = weights.flip.map(|flip| flip.of_block(deviation_t, first, plan));
                    BackwardBlock { dgates, d_x, signed, first }.run(dhidden, tape, [kernel_t, recurrent_t], flip, plan)
                })
            })
        })
    })
}
