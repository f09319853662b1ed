//! All steps of a block of examples: what one task does.

use std::ops::Range;

use super::flip::BlockFlip;
use super::step::{step_rows, step_rows_backward};
use super::{HiddenGradient, LstmShape, LstmTape, LstmWeights};
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right, Threads, Update, product_packed};
use crate::scratch::with_scratch;

/// Examples that one task takes: enough to make a recurrent product worth its weights.
const MIN_BLOCK: usize = 8;
const MAX_BLOCK: usize = 64;
/// Tasks for each thread, so that one that is held up elsewhere is helped.
const BLOCKS_PER_THREAD: usize = 2;

/// Rows of dz that are packed at once.
const SLAB: usize = 400;

/// Lengths that follow from a checked shape.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub shape: LstmShape,
    /// T·B
    pub steps: usize,
    /// 4H
    pub width: usize,
    /// Examples that one task takes.
    pub block: usize,
}

impl Plan {
    pub fn new(check: Check, shape: LstmShape, x: &[f32], weights: &LstmWeights<'_>) -> Result<Self> {
        let LstmShape { time, batch, inputs, hidden } = shape;
        let (steps, width) = (check.product(&[time, batch])?, check.product(&[4, hidden])?);
        check.len("x", x, check.product(&[steps, inputs])?)?;
        check.len("kernel", weights.kernel, check.product(&[inputs, width])?)?;
        check.len("recurrent", weights.recurrent, check.product(&[hidden, width])?)?;
        weights.bias.map_or(Ok(()), |bias| check.len("bias", bias, width))?;
        weights.flip.map_or(Ok(()), |flip| flip.check(check, shape, width))?;
        // An example's numbers do not depend on the block it is in.
        let num_blocks = BLOCKS_PER_THREAD * rayon::current_num_threads();
        let block = batch.div_ceil(num_blocks).clamp(MIN_BLOCK, MAX_BLOCK);
        Ok(Self { shape, steps, width, block })
    }

    /// Cuts `[T, B, columns]` into blocks of examples: for each block its part of every step; an empty array into
    /// blocks without any.
    pub fn split<'a>(&self, data: &'a mut [f32], columns: usize) -> Vec<Vec<&'a mut [f32]>> {
        let LstmShape { time, batch, .. } = self.shape;
        let mut blocks: Vec<Vec<_>> = Vec::new();
        blocks.resize_with(batch.div_ceil(self.block), || Vec::with_capacity(time));
        for step in data.chunks_exact_mut((batch * columns).max(1)) {
            for (block, part) in blocks.iter_mut().zip(step.chunks_mut(self.block * columns)) {
                block.push(part);
            }
        }
        blocks
    }

    /// The part of step t that belongs to the block of example `first`, in an array of `columns` an example.
    fn part(&self, t: usize, first: usize, columns: usize) -> Range<usize> {
        let start = t * self.shape.batch + first;
        let num_rows = self.block.min(self.shape.batch - first);
        start * columns..(start + num_rows) * columns
    }

    /// dkernel = Σ over steps of xᵀ·dz and drecurrent = Σ of h₋₁ᵀ·dz, those that are wanted: step t saw the hidden state of step t − 1,
    /// and the first step zeros. Some rows of dz are packed at a time, for both.
    pub fn weight_products(
        &self,
        mut kernel: Option<&mut [f32]>,
        mut recurrent: Option<&mut [f32]>,
        x: &[f32],
        hidden: &[f32],
        dgates: Mat<'_>,
    ) -> Result<()> {
        let LstmShape { batch, inputs, hidden: num_hidden, .. } = self.shape;
        let clear = |out: &mut Option<&mut [f32]>| out.iter_mut().for_each(|out| out.fill(0.0));
        clear(&mut kernel);
        clear(&mut recurrent);
        let (x, hidden) = (Mat::new(x, self.steps, inputs)?, Mat::new(hidden, self.steps, num_hidden)?);
        for start in (0..self.steps).step_by(SLAB) {
            let len = SLAB.min(self.steps - start);
            Right::with(dgates.rows(start, len), true, |dgates| -> Result<()> {
                if let Some(out) = &mut kernel {
                    product_packed(out, x.rows(start, len).t(), dgates, Update::Accumulate, Threads::All)?;
                }
                let skipped = batch.saturating_sub(start).min(len);
                if let Some(out) = &mut recurrent
                    && skipped < len
                {
                    let (before, dgates) = (start + skipped - batch, dgates.part(skipped, len - skipped));
                    let hidden = hidden.rows(before, len - skipped).t();
                    product_packed(out, hidden, dgates, Update::Accumulate, Threads::All)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// A block's part of every step.
pub(super) struct ForwardBlock<'a> {
    /// Gates, to be written; `[rows, 4H]` each.
    pub gates: Vec<&'a mut [f32]>,
    /// The input's share of Flipout's deviation, before its signs; none without Flipout.
    pub deviations: Vec<&'a mut [f32]>,
    /// `[rows, H]` each.
    pub cells: Vec<&'a mut [f32]>,
    /// `[rows, H]` each.
    pub hidden: Vec<&'a mut [f32]>,
    /// The block's first example.
    pub first: usize,
}

impl ForwardBlock<'_> {
    /// From the first step to the last.
    pub fn run(
        self,
        x: &[f32],
        [kernel, recurrent]: [Right<'_>; 2],
        bias: &[f32],
        flip: Option<BlockFlip<'_>>,
        plan: &Plan,
    ) -> Result<()> {
        let Self { gates, deviations, cells, hidden, first } = self;
        let LstmShape { inputs, hidden: num_hidden, .. } = plan.shape;
        let mut deviations = deviations.into_iter();
        let mut before: Option<(&[f32], &[f32])> = None;
        for (t, ((gates, cells), hidden)) in gates.into_iter().zip(cells).zip(hidden).enumerate() {
            let x = &x[plan.part(t, first, inputs)];
            let x = Mat::new(x, gates.len() / plan.width, inputs)?;
            product_packed(gates, x, kernel, Update::Overwrite, Threads::One)?;
            if let Some((_, hidden_before)) = before {
                let hidden_before = Mat::new(hidden_before, hidden.len() / num_hidden, num_hidden)?;
                product_packed(gates, hidden_before, recurrent, Update::Accumulate, Threads::One)?;
            }
            if let (Some(flip), Some(deviation)) = (&flip, deviations.next()) {
                flip.add(gates, deviation, before.map(|(_, hidden)| hidden))?;
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
}

/// A block's part of every step, on the way back.
pub(super) struct BackwardBlock<'a> {
    /// dz, to be written; `[rows, 4H]` each.
    pub dgates: Vec<&'a mut [f32]>,
    /// dx, to be written; `[rows, M]` each, or none.
    pub d_x: Vec<&'a mut [f32]>,
    /// r∘dz, to be written; none without Flipout.
    pub signed: Vec<&'a mut [f32]>,
    /// The block's first example.
    pub first: usize,
}

impl BackwardBlock<'_> {
    /// From the last step to the first.
    pub fn run(
        self,
        dhidden: HiddenGradient<'_>,
        tape: LstmTape<'_>,
        [kernel_t, recurrent_t]: [Right<'_>; 2],
        flip: Option<BlockFlip<'_>>,
        plan: &Plan,
    ) -> Result<()> {
        let LstmShape { time, batch, hidden: num_hidden, .. } = plan.shape;
        let Self { dgates, d_x, signed, first } = self;
        let num_rows = plan.block.min(batch - first);
        let len = num_rows * num_hidden;
        let part = |t: usize, columns: usize| plan.part(t, first, columns);
        let zeros = vec![0.0; len];
        let (mut signed, mut d_x) = (signed.into_iter().rev(), d_x.into_iter().rev());
        with_scratch(3 * len, |carry| {
            carry.fill(0.0);
            let (dh, rest) = carry.split_at_mut(len);
            let (dc, deviation) = rest.split_at_mut(len);
            for (t, dgates) in dgates.into_iter().enumerate().rev() {
                match dhidden {
                    HiddenGradient::All(all) => add(dh, &all[part(t, num_hidden)]),
                    HiddenGradient::Last(last) if t + 1 == time => add(dh, &last[part(0, num_hidden)]),
                    HiddenGradient::Last(_) => {}
                }
                let cells_before = if t == 0 { &zeros } else { &tape.cells[part(t - 1, num_hidden)] };
                let (gates, cells) = (&tape.gates[part(t, plan.width)], &tape.cells[part(t, num_hidden)]);
                step_rows_backward(dgates, dc, dh, gates, cells, cells_before, num_hidden);
                let dgates_here = Mat::new(dgates, num_rows, plan.width)?;
                product_packed(dh, dgates_here, recurrent_t, Update::Overwrite, Threads::One)?;
                if let Some(d_x) = d_x.next() {
                    product_packed(d_x, dgates_here, kernel_t, Update::Overwrite, Threads::One)?;
                }
                if let (Some(flip), Some(signed)) = (&flip, signed.next()) {
                    flip.add_backward(dh, signed, deviation, dgates)?;
                }
            }
            Ok(())
        })
    }
}

fn add(total: &mut [f32], part: &[f32]) {
    total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
}
