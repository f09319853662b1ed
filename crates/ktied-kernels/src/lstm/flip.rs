//! Flipout's share of an LSTM: every example sees the perturbations under signs of its own, the same at every step.

use rayon::prelude::*;

use super::LstmShape;
use super::block::Plan;
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right, Threads, Update, product_packed};
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

    /// What the examples from `first` on need of it, with Δkernel and Δrecurrent packed, or their transposes going back.
    pub(super) fn of_block<'b>(&self, [kernel, recurrent]: [Right<'b>; 2], first: usize, plan: &Plan) -> BlockFlip<'b>
    where
        'a: 'b,
    {
        let rows = first..plan.shape.batch.min(first + plan.block);
        let of_rows = |signs: &'a [f32], width: usize| &signs[rows.start * width..rows.end * width];
        BlockFlip {
            kernel,
            recurrent,
            x_signs: of_rows(self.x_signs, plan.shape.inputs),
            hidden_signs: of_rows(self.hidden_signs, plan.shape.hidden),
            gate_signs: of_rows(self.gate_signs, plan.width),
            num_rows: rows.len(),
        }
    }

    /// Gradients of the perturbations, from r∘dz.
    pub(super) fn products(
        &self,
        grads: LstmFlipGrads<'_>,
        x: &[f32],
        hidden: &[f32],
        signed_dgates: Mat<'_>,
        plan: &Plan,
    ) -> Result<()> {
        let signed_x = grads.kernel.as_ref().map(|_| signed(x, self.x_signs));
        let signed_hidden = grads.recurrent.as_ref().map(|_| signed(hidden, self.hidden_signs));
        let (x, hidden) = (signed_x.as_deref().unwrap_or(x), signed_hidden.as_deref().unwrap_or(hidden));
        plan.weight_products(grads.kernel, grads.recurrent, [x, hidden], signed_dgates)
    }
}

/// Flipout of a block of examples.
pub(super) struct BlockFlip<'a> {
    /// Δkernel going forward, its transpose going back; Δrecurrent as well.
    kernel: Right<'a>,
    recurrent: Right<'a>,
    x_signs: &'a [f32],
    hidden_signs: &'a [f32],
    gate_signs: &'a [f32],
    num_rows: usize,
}

impl BlockFlip<'_> {
    /// gates += r∘((x∘s)·Δkernel + (h₋₁∘s')·Δrecurrent).
    pub fn add(&self, gates: &mut [f32], x: &[f32], hidden_before: Option<&[f32]>) -> Result<()> {
        with_scratch(gates.len(), |deviation| {
            self.product_of(deviation, x, self.x_signs, self.kernel, Update::Overwrite)?;
            if let Some(hidden) = hidden_before {
                self.product_of(deviation, hidden, self.hidden_signs, self.recurrent, Update::Accumulate)?;
            }
            multiply_add(gates, deviation, self.gate_signs);
            Ok(())
        })
    }

    /// (seen∘signs)·weights
    fn product_of(
        &self,
        out: &mut [f32],
        seen: &[f32],
        signs: &[f32],
        weights: Right<'_>,
        update: Update,
    ) -> Result<()> {
        with_scratch(seen.len(), |signed| {
            multiply(signed, seen, signs);
            let signed = Mat::new(signed, self.num_rows, weights.shape().0)?;
            product_packed(out, signed, weights, update, Threads::One)
        })
    }

    /// signed = r∘dz, of which dh += s'∘(signed·Δrecurrentᵀ), and dx += s∘(signed·Δkernelᵀ) if it is wanted.
    pub fn add_backward(
        &self,
        dh: &mut [f32],
        d_x: Option<&mut [f32]>,
        signed: &mut [f32],
        dgates: &[f32],
    ) -> Result<()> {
        multiply(signed, dgates, self.gate_signs);
        let signed = Mat::new(signed, self.num_rows, self.recurrent.shape().0)?;
        let add = |out: &mut [f32], signs: &[f32], weights: Right<'_>| {
            with_scratch(out.len(), |share| {
                product_packed(share, signed, weights, Update::Overwrite, Threads::One)?;
                multiply_add(out, share, signs);
                Ok(())
            })
        };
        add(dh, self.hidden_signs, self.recurrent)?;
        d_x.map_or(Ok(()), |d_x| add(d_x, self.x_signs, self.kernel))
    }
}

/// x∘signs at every step.
fn signed(x: &[f32], signs: &[f32]) -> Vec<f32> {
    let (mut out, step) = (vec![0.0; x.len()], signs.len().max(1));
    out.par_chunks_mut(step).zip(x.par_chunks(step)).for_each(|(out, x)| multiply(out, x, signs));
    out
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
