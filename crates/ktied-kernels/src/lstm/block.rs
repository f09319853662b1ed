//! All steps of a block of examples: what one task does.

use std::ops::Range;

use rayon::prelude::*;

use super::flip::BlockFlip;
use super::step::{Which, step_rows, step_rows_backward};
use super::{HiddenGradient, LstmInput, LstmShape, LstmTape, LstmWeights};
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right, Threads, Update, product_packed};
use crate::scratch::with_scratch;

/// Examples that one task takes: enough to make a recurrent product worth its weights.
const MIN_BLOCK: usize = 8;
const MAX_BLOCK: usize = 64;
/// Tasks for each thread, so that one that is held up elsewhere is helped.
const BLOCKS_PER_THREAD: usize = 2;

/// Rows of dz that a weight gradient packs and sums at once: a panel of them and a tile's inputs stay in the first-level cache.
const SLAB: usize = 256;

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
    pub fn new(check: Check, shape: LstmShape, input: LstmInput<'_>, weights: &LstmWeights<'_>) -> Result<Self> {
        let LstmShape { time, batch, inputs, hidden } = shape;
        let (steps, width) = (check.product(&[time, batch])?, check.product(&[4, hidden])?);
        match input {
            LstmInput::Vectors(x) => check.len("x", x, check.product(&[steps, inputs])?)?,
            LstmInput::Words { table, words } => {
                words.check(check, table, steps, inputs)?;
                let flips = usize::from(weights.flip.is_some());
                check.size("flip", flips, flips == 0, "none where the input is words")?;
            }
        }
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
    /// and the first step zeros. A task takes some gates of both through all steps, so that dz is read from memory once.
    pub fn weight_products(
        &self,
        kernel: Option<&mut [f32]>,
        recurrent: Option<&mut [f32]>,
        [x, hidden]: [&[f32]; 2],
        dgates: Mat<'_>,
    ) -> Result<()> {
        if self.steps == 0 {
            [kernel, recurrent].into_iter().flatten().for_each(|out| out.fill(0.0));
            return Ok(());
        }
        let LstmShape { batch, inputs, hidden: num_hidden, .. } = self.shape;
        let rows = [kernel.as_ref().map_or(0, |_| inputs), recurrent.as_ref().map_or(0, |_| num_hidden)];
        let seen = [Mat::new(x, self.steps, x.len() / self.steps)?, Mat::new(hidden, self.steps, num_hidden)?];
        let task_cols = Right::padded(self.width.div_ceil(rayon::current_num_threads())).max(1);
        let num_rows = rows[0] + rows[1];
        with_scratch(num_rows * self.width, |sums| {
            let tasks = sums.par_chunks_mut((num_rows * task_cols).max(1)).enumerate();
            tasks.try_for_each(|(task, sums)| {
                let columns = task * task_cols..self.width.min((task + 1) * task_cols);
                let (of_x, of_hidden) = sums.split_at_mut(rows[0] * columns.len());
                let dgates = dgates.part(0, self.steps, columns.start, columns.len());
                self.sum_steps([of_x, of_hidden], seen, [0, batch], dgates)
            })?;
            let parts = sums.chunks((num_rows * task_cols).max(1)).enumerate();
            let (kernel, recurrent) = (kernel.unwrap_or_default(), recurrent.unwrap_or_default());
            for (task, sums) in parts {
                let (first, cols) = (task * task_cols, sums.len() / num_rows);
                let rows_of = kernel.chunks_exact_mut(self.width).chain(recurrent.chunks_exact_mut(self.width));
                for (row, sums) in rows_of.zip(sums.chunks_exact(cols)) {
                    row[first..first + cols].copy_from_slice(sums);
                }
            }
            Ok(())
        })
    }

    /// outs = Σ over steps of seenᵀ·dz, each from its first step on; the calling thread does it.
    fn sum_steps(&self, outs: [&mut [f32]; 2], seen: [Mat<'_>; 2], late: [usize; 2], dgates: Mat<'_>) -> Result<()> {
        let mut sums: Vec<_> = outs.into_iter().zip(seen).zip(late).filter(|((out, _), _)| !out.is_empty()).collect();
        sums.iter_mut().for_each(|((out, _), _)| out.fill(0.0));
        for start in (0..self.steps).step_by(SLAB) {
            let len = SLAB.min(self.steps - start);
            Right::with(dgates.rows(start, len), false, |dgates| {
                sums.iter_mut().try_for_each(|((out, seen), late)| {
                    let skipped = late.saturating_sub(start).min(len);
                    if skipped == len {
                        return Ok(());
                    }
                    let (first, len) = (start + skipped - *late, len - skipped);
                    let (seen, dgates) = (seen.rows(first, len).t(), dgates.part(skipped, len));
                    product_packed(out, seen, dgates, Update::Accumulate, Threads::One)
                })
            })?;
        }
        Ok(())
    }
}

/// What the steps of all blocks read.
#[derive(Clone, Copy)]
pub(super) enum BlockInput<'a> {
    /// Vectors, to be multiplied by the kernel where they are read.
    Vectors {
        /// `[T, B, M]`
        x: &'a [f32],
        kernel: Right<'a>,
        /// `[4H]`
        zeros: &'a [f32],
    },
    /// Products that are there already.
    Products {
        /// `[U, 4H]`
        rows: &'a [f32],
        /// Which of them, `[T, B]`.
        of_place: &'a [u32],
    },
}

/// What a block of examples needs on its way forward.
pub(super) struct ForwardBlock<'a> {
    pub input: BlockInput<'a>,
    /// `[4H]`
    pub bias: &'a [f32],
    pub recurrent: Right<'a>,
    pub flip: Option<BlockFlip<'a>>,
    /// The block's first example.
    pub first: usize,
    pub plan: &'a Plan,
}

/// A block's part of a step: its cells and its hidden states, `[rows, H]` each.
type States<'a> = (&'a [f32], &'a [f32]);

impl ForwardBlock<'_> {
    fn num_rows(&self) -> usize {
        self.plan.block.min(self.plan.shape.batch - self.first)
    }

    /// From the first step to the last, each into its part of gates, `[rows, 4H]`, cells and hidden states.
    pub fn run(&self, gates: Vec<&mut [f32]>, cells: Vec<&mut [f32]>, hidden: Vec<&mut [f32]>) -> Result<()> {
        let mut before: Option<States<'_>> = None;
        for (t, ((gates, cells), hidden)) in gates.into_iter().zip(cells).zip(hidden).enumerate() {
            self.step(t, gates, (&mut *cells, &mut *hidden), before)?;
            before = Some((cells, hidden));
        }
        Ok(())
    }

    /// The same in the memory of two steps; `last` gets the hidden states of the last one.
    pub fn run_to(&self, last: &mut [f32]) -> Result<()> {
        let len = self.num_rows() * self.plan.shape.hidden;
        with_scratch(8 * len, |scratch| {
            let (gates, states) = scratch.split_at_mut(4 * len);
            let (mut before, mut now) = states.split_at_mut(2 * len);
            for t in 0..self.plan.shape.time {
                self.step(t, gates, now.split_at_mut(len), (t > 0).then(|| before.split_at(len)))?;
                std::mem::swap(&mut before, &mut now);
            }
            last.copy_from_slice(&before[len..]);
            Ok(())
        })
    }

    fn step(
        &self,
        t: usize,
        gates: &mut [f32],
        (cells, hidden): (&mut [f32], &mut [f32]),
        before: Option<States<'_>>,
    ) -> Result<()> {
        let (plan, num_rows) = (self.plan, self.num_rows());
        let LstmShape { inputs, hidden: num_hidden, .. } = plan.shape;
        let (x, added, which) = match self.input {
            BlockInput::Vectors { x, zeros, .. } => (&x[plan.part(t, self.first, inputs)], zeros, Which::First),
            BlockInput::Products { rows, of_place } => {
                (&[][..], rows, Which::Numbered(&of_place[plan.part(t, self.first, 1)]))
            }
        };
        let mut update = Update::Overwrite;
        if let BlockInput::Vectors { kernel, .. } = self.input {
            product_packed(gates, Mat::new(x, num_rows, inputs)?, kernel, update, Threads::One)?;
            update = Update::Accumulate;
        }
        match before {
            Some((_, hidden_before)) => {
                let hidden_before = Mat::new(hidden_before, num_rows, num_hidden)?;
                product_packed(gates, hidden_before, self.recurrent, update, Threads::One)?;
            }
            None if update == Update::Overwrite => gates.fill(0.0),
            None => {}
        }
        if let Some(flip) = &self.flip {
            flip.add(gates, x, before.map(|(_, hidden)| hidden))?;
        }
        step_rows(gates, cells, hidden, before.map(|(cells, _)| cells), added, which, self.bias, num_hidden);
        Ok(())
    }
}

/// A block's part of every step, on the way back.
pub(super) struct BackwardBlock<'a> {
    /// Gates, to be replaced by dz; `[rows, 4H]` each.
    pub gates: Vec<&'a mut [f32]>,
    /// dx, to be written; `[rows, M]` each, or none.
    pub d_x: Vec<&'a mut [f32]>,
    /// r∘dz, to be written, as dz is; none without Flipout.
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
        let first = self.first;
        let num_rows = plan.block.min(batch - first);
        let len = num_rows * num_hidden;
        let part = |t: usize, columns: usize| plan.part(t, first, columns);
        let zeros = vec![0.0; len];
        let (mut signed, mut d_x) = (self.signed.into_iter().rev(), self.d_x.into_iter().rev());
        with_scratch(2 * len, |carry| {
            carry.fill(0.0);
            let (dh, dc) = carry.split_at_mut(len);
            for (t, gates) in self.gates.into_iter().enumerate().rev() {
                match dhidden {
                    HiddenGradient::All(all) => add(dh, &all[part(t, num_hidden)]),
                    HiddenGradient::Last(last) if t + 1 == time => add(dh, &last[part(0, num_hidden)]),
                    HiddenGradient::Last(_) => {}
                }
                let cells_before = if t == 0 { &zeros } else { &tape.cells[part(t - 1, num_hidden)] };
                step_rows_backward(gates, dc, dh, &tape.cells[part(t, num_hidden)], cells_before, num_hidden);
                let dgates = &*gates;
                let dgates_here = Mat::new(dgates, num_rows, plan.width)?;
                // Before the first step there is no hidden state.
                if t > 0 {
                    product_packed(dh, dgates_here, recurrent_t, Update::Overwrite, Threads::One)?;
                }
                let mut d_x = d_x.next();
                if let Some(d_x) = &mut d_x {
                    product_packed(d_x, dgates_here, kernel_t, Update::Overwrite, Threads::One)?;
                }
                if let (Some(flip), Some(signed)) = (&flip, signed.next()) {
                    flip.add_backward(dh, d_x, signed, dgates)?;
                }
            }
            Ok(())
        })
    }
}

fn add(total: &mut [f32], part: &[f32]) {
    total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
}
