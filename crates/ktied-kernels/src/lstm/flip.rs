//! Flipout's share of an LSTM: every example sees the perturbations under signs of its own, the same at every step.

use rayon::prelude::*;

use super::LstmShape;
use super::block::Plan;
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right, Threads, Update, product, product_packed};
use crate::scratch::with_scratch;
use crate::simd::vectorized;

/// Perturbations of both kernels, and the signs ±1 under which each example sees them. They add
/// r∘((x∘s)·Δkernel + (h₋₁∘s')·Δrecurrent) to z: Flipout of the one dense layer that an LSTM is of (x, h₋₁).
#[derive(Clone, Copy, Debug)]
pub struct LstmFlip<'a> {
    /// Perturbation of the input weights, `[M, 4H]`.
    pub kernel: &'a [f32],
    /// Perturbation of the recurrent weights, `[H, 4H]`.
    pub recurrent: &'a [f32],
    /// s, `[B, M]`
    pub x_signs: &'a [f32],
    /// s', `[B, H]`
    pub hidden_signs: &'a [f32],
    /// r, `[B, 4H]`
    pub gate_signs: &'a [f32],
}

/// Where gradients of the perturbations go; what is `None` is not computed.
#[derive(Debug, Default)]
pub struct LstmFlipGrads<'a> {
    /// `[M, 4H]`
    pub kernel: Option<&'a mut [f32]>,
    /// `[H, 4H]`
    pub recurrent: Option<&'a mut [f32]>,
}

impl<'a> LstmFlip<'a> {
    pub(super) fn check(&self, check: Check, shape: LstmShape, width: usize) -> Result<()> {
        let LstmShape { batch, inputs, hidden, .. } = shape;
        check.len("flip.kernel", self.kernel, check.product(&[inputs, width])?)?;
        check.len("flip.recurrent", self.recurrent, check.product(&[hidden, width])?)?;
        check.len("flip.x_signs", self.x_signs, check.product(&[batch, inputs])?)?;
        check.len("flip.hidden_signs", self.hidden_signs, check.product(&[batch, hidden])?)?;
        check.len("flip.gate_signs", self.gate_signs, check.product(&[batch, width])?)
    }

    /// (x∘s)·Δkernel of all steps, `[T, B, 4H]`.
    pub(super) fn of_inputs(&self, x: &[f32], plan: &Plan) -> Result<Vec<f32>> {
        let inputs = plan.shape.inputs;
        let (x, mut out) = (signed(x, self.x_signs), vec![0.0; plan.steps * plan.width]);
        let kernel = Mat::new(self.kernel, inputs, plan.width)?;
        product(&mut out, Mat::new(&x, plan.steps, inputs)?, kernel, Update::Overwrite, Threads::All)?;
        Ok(out)
    }

    /// What the examples from `first` on need of it, with Δrecurrent packed, or its transpose going back.
    pub(super) fn of_block<'b>(&self, recurrent: Right<'b>, first: usize, plan: &Plan) -> BlockFlip<'b>
    where
        'a: 'b,
    {
        let (hidden, width) = (plan.shape.hidden, plan.width);
        let rows = first..plan.shape.batch.min(first + plan.block);
        BlockFlip {
            recurrent,
            hidden_signs: &self.hidden_signs[rows.start * hidden..rows.end * hidden],
            gate_signs: &self.gate_signs[rows.start * width..rows.end * width],
            num_rows: rows.len(),
        }
    }

    /// Gradients of the perturbations, and the perturbations' share of dx, from r∘dz.
    pub(super) fn products(
        &self,
        grads: LstmFlipGrads<'_>,
        d_x: Option<&mut [f32]>,
        x: &[f32],
        hidden: &[f32],
        signed_dgates: &[f32],
        plan: &Plan,
    ) -> Result<()> {
        let (inputs, whole_x, whole_hidden) = (plan.shape.inputs, x, hidden);
        let dgates = Mat::new(signed_dgates, plan.steps, plan.width)?;
        if let Some(d_x) = d_x {
            let (kernel_t, mut share) = (Mat::new(self.kernel, inputs, plan.width)?.t(), vec![0.0; d_x.len()]);
            product(&mut share, dgates, kernel_t, Update::Overwrite, Threads::All)?;
            add_signed(d_x, &share, self.x_signs);
        }
        let x = grads.kernel.as_ref().map(|_| signed(x, self.x_signs));
        let hidden = grads.recurrent.as_ref().map(|_| signed(hidden, self.hidden_signs));
        let (x, hidden) = (x.as_deref().unwrap_or(whole_x), hidden.as_deref().unwrap_or(whole_hidden));
        plan.weight_products(grads.kernel, grads.recurrent, x, hidden, dgates)
    }
}

/// Flipout of a block of examples.
pub(super) struct BlockFlip<'a> {
    /// Δrecurrent going forward, its transpose going back.
    recurrent: Right<'a>,
    hidden_signs: &'a [f32],
    gate_signs: &'a [f32],
    num_rows: usize,
}

impl BlockFlip<'_> {
    /// gates += r∘(deviation + (h₋₁∘s')·Δrecurrent); `deviation` is the input's share.
    pub fn add(&self, gates: &mut [f32], deviation: &mut [f32], hidden_before: Option<&[f32]>) -> Result<()> {
        let (num_hidden, _) = self.sizes();
        if let Some(hidden) = hidden_before {
            with_scratch(hidden.len(), |scratch| {
                multiply(scratch, hidden, self.hidden_signs);
                let hidden = Mat::new(scratch, self.num_rows, num_hidden)?;
                product_packed(deviation, hidden, self.recurrent, Update::Accumulate, Threads::One)
            })?;
        }
        multiply_add(gates, deviation, self.gate_signs);
        Ok(())
    }

    /// signed = r∘dz, and dh += s'∘(signed·Δrecurrentᵀ), for which `share` is room.
    pub fn add_backward(&self, dh: &mut [f32], signed: &mut [f32], share: &mut [f32], dgates: &[f32]) -> Result<()> {
        let (_, width) = self.sizes();
        multiply(signed, dgates, self.gate_signs);
        let signed = Mat::new(signed, self.num_rows, width)?;
        product_packed(share, signed, self.recurrent, Update::Overwrite, Threads::One)?;
        multiply_add(dh, share, self.hidden_signs);
        Ok(())
    }

    /// H and 4H.
    fn sizes(&self) -> (usize, usize) {
        let num_rows = self.num_rows.max(1);
        (self.hidden_signs.len() / num_rows, self.gate_signs.len() / num_rows)
    }
}

/// x∘signs at every step.
fn signed(x: &[f32], signs: &[f32]) -> Vec<f32> {
    let (mut out, step) = (vec![0.0; x.len()], signs.len().max(1));
    out.par_chunks_mut(step).zip(x.par_chunks(step)).for_each(|(out, x)| multiply(out, x, signs));
    out
}

/// out += x∘signs at every step.
fn add_signed(out: &mut [f32], x: &[f32], signs: &[f32]) {
    let step = signs.len().max(1);
    out.par_chunks_mut(step).zip(x.par_chunks(step)).for_each(|(out, x)| multiply_add(out, x, signs));
}

vectorized! {
    fn multiply(out: &mut [f32], x: &[f32], signs: &[f32]) {
        for (out, (x, sign)) in out.iter_mut().zip(x.iter().zip(signs)) {
            *out = x * sign;
        }
    }

    fn multiply_add(out: &mut [f32], x: &[f32], signs: &[f32]) {
        for (out, (x, sign)) in out.iter_mut().zip(x.iter().zip(signs)) {
            *out += x * sign;
        }
    }
}
