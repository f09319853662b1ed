//! Inputs that are rows of a table: a word that stands at several places is multiplied once, and so are its gradients.

use std::ops::Range;

use rayon::prelude::*;

use super::block::Plan;
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right, Threads, Update, product_packed};
use crate::par::add_in_order;
use crate::scratch::with_scratch;
use crate::simd::{prefetch, vectorized};

/// Words that are multiplied at once: their rows of gates stay in the second-level cache.
const SLAB: usize = 128;
/// Parts of the words, each with a gradient of the weights of its own: tasks enough for some threads, and sums that cost little to add.
const PARTS: usize = 8;

/// Which rows of a table stand at which places of a batch of sequences.
///
/// Of running text most words stand at several places, and the product of a word's vector with the weights is the same at all of them.
///
/// ```
/// use ktied_kernels::lstm::Words;
/// let words = Words::new(&[7, 3, 7, 7], 10)?;
/// assert_eq!((words.num_places(), words.num_distinct()), (4, 2));
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// V, rows of the table.
    num_rows: usize,
    /// Rows that stand somewhere, each once and in order; U of them.
    distinct: Vec<u32>,
    /// For each place the number of its row among them.
    of_place: Vec<u32>,
    /// Places of the first of them, then of the second, and so on, each in order.
    places: Vec<u32>,
    /// Where the places of each begin in `places`, and the end.
    starts: Vec<u32>,
}

impl Words {
    /// Looks at the rows `ids` of a table of `num_rows`, place after place: those of the first step, then of the second.
    ///
    /// # Errors
    /// If a row is not there, or there are more places than can be counted.
    pub fn new(ids: &[u32], num_rows: usize) -> Result<Self> {
        let check = Check("words");
        let largest = ids.iter().max().map_or(0, |&id| id as usize);
        check.size("id", largest, ids.is_empty() || largest < num_rows, "below the number of rows")?;
        check.size("ids", ids.len(), u32::try_from(ids.len()).is_ok(), "fewer than 2³² of them")?;
        let mut counts = vec![0; if ids.is_empty() { 0 } else { largest + 1 }];
        ids.iter().for_each(|&id| counts[id as usize] += 1);
        let (mut distinct, mut starts) = (Vec::new(), vec![0]);
        // From how often a row stands somewhere to its number among the distinct ones.
        let mut total = 0;
        for (id, count) in (0..).zip(&mut counts).filter(|(_, count)| **count > 0) {
            total += *count;
            *count = distinct.len() as u32;
            distinct.push(id);
            starts.push(total);
        }
        let of_place: Vec<u32> = ids.iter().map(|&id| counts[id as usize]).collect();
        let (mut places, mut next) = (vec![0; ids.len()], starts.clone());
        for (place, &word) in (0..).zip(&of_place) {
            let next = &mut next[word as usize];
            places[*next as usize] = place;
            *next += 1;
        }
        Ok(Self { num_rows, distinct, of_place, places, starts })
    }

    /// How many places there are.
    pub fn num_places(&self) -> usize {
        self.of_place.len()
    }

    /// How many rows of the table stand somewhere.
    pub fn num_distinct(&self) -> usize {
        self.distinct.len()
    }

    pub(super) fn check(&self, check: Check, table: &[f32], steps: usize, inputs: usize) -> Result<()> {
        check.size("places", self.num_places(), self.num_places() == steps, "the number of examples at all steps")?;
        check.len("table", table, check.product(&[self.num_rows, inputs])?)
    }

    /// For each place the number of its row among those that [`Self::multiply`] makes.
    pub(super) fn of_place(&self) -> &[u32] {
        &self.of_place
    }

    /// out = the distinct rows of the table · kernel, `[U, 4H]`.
    pub(super) fn multiply(&self, out: &mut [f32], table: &[f32], kernel: Right<'_>, plan: &Plan) -> Result<()> {
        let inputs = plan.shape.inputs;
        let slabs = out.par_chunks_mut((SLAB * plan.width).max(1)).zip(self.distinct.par_chunks(SLAB));
        slabs.try_for_each(|(out, ids)| {
            with_scratch(ids.len() * inputs, |x| {
                for (x, &id) in x.chunks_exact_mut(inputs.max(1)).zip(ids) {
                    x.copy_from_slice(&table[id as usize * inputs..][..inputs]);
                }
                let x = Mat::new(x, ids.len(), inputs)?;
                product_packed(out, x, kernel, Update::Overwrite, Threads::One)
            })
        })
    }

    /// Gradients of the table, the kernel and the bias, from dz of all places: those of a word's places are added first.
    pub(super) fn gradients(
        &self,
        grads: WordGrads<'_>,
        dgates: &[f32],
        table: &[f32],
        kernel: Mat<'_>,
        plan: &Plan,
    ) -> Result<()> {
        let WordGrads { table: d_table, kernel: d_kernel, bias: d_bias } = grads;
        let wants_sums = d_kernel.is_some() || d_bias.is_some();
        let part_len = self.num_distinct().div_ceil(PARTS).max(1);
        let num_parts = self.num_distinct().div_ceil(part_len).max(1);
        let num_sums = if wants_sums { (plan.shape.inputs + 1) * plan.width } else { 0 };
        let parts = (0..num_parts).map(|p| p * part_len..self.num_distinct().min((p + 1) * part_len));
        let d_tables = self.split(d_table.unwrap_or_default(), parts.clone(), plan.shape.inputs);
        let tasks: Vec<_> = parts.zip(d_tables).collect();
        let sums = Right::with(kernel.t(), true, |kernel_t| {
            let of_part = |(words, d_table): (Range<usize>, Option<Rows<'_>>)| {
                let mut sums = vec![0.0; num_sums];
                self.part_gradients(words, d_table, &mut sums, dgates, table, kernel_t, plan)?;
                Ok(sums)
            };
            tasks.into_par_iter().map(of_part).collect::<Result<Vec<_>>>()
        })?;
        let (d_kernel, d_bias) = (d_kernel.unwrap_or_default(), d_bias.unwrap_or_default());
        if wants_sums {
            let mut total = vec![0.0; num_sums];
            add_in_order(&mut total, &sums);
            let (of_kernel, of_bias) = total.split_at(plan.shape.inputs * plan.width);
            d_kernel.iter_mut().zip(of_kernel).for_each(|(to, from)| *to = *from);
            d_bias.iter_mut().zip(of_bias).for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }

    /// Cuts a table, unless it is empty, where the words of one part end and those of the next begin.
    fn split<'a>(
        &self,
        mut table: &'a mut [f32],
        parts: impl Iterator<Item = Range<usize>>,
        columns: usize,
    ) -> Vec<Option<Rows<'a>>> {
        let is_there = !table.is_empty();
        let mut first = 0;
        let of_part = |words: Range<usize>| {
            let end = self.distinct.get(words.end).map_or(self.num_rows, |&id| id as usize);
            let (rows, rest) =
                std::mem::take(&mut table).split_at_mut(if is_there { (end - first) * columns } else { 0 });
            table = rest;
            is_there.then(|| Rows { rows, first: std::mem::replace(&mut first, end) })
        };
        parts.map(of_part).collect()
    }

    /// sums = Σ over some words of (x, 1)ᵀ·dz, and the gradients of their rows of the table, dz·kernelᵀ; the calling thread does it.
    #[allow(clippy::too_many_arguments, reason = "operands of two products")]
    fn part_gradients(
        &self,
        words: Range<usize>,
        mut d_table: Option<Rows<'_>>,
        sums: &mut [f32],
        dgates: &[f32],
        table: &[f32],
        kernel_t: Right<'_>,
        plan: &Plan,
    ) -> Result<()> {
        let (inputs, width) = (plan.shape.inputs, plan.width);
        if let Some(d_table) = &mut d_table {
            d_table.rows.fill(0.0);
        }
        for start in words.clone().step_by(SLAB) {
            let slab = start..words.end.min(start + SLAB);
            let len = slab.len();
            with_scratch(len * (width + 2 * inputs + 1), |scratch| {
                let (dz, scratch) = scratch.split_at_mut(len * width);
                let (x, dx) = scratch.split_at_mut(len * (inputs + 1));
                for (dz, word) in dz.chunks_exact_mut(width.max(1)).zip(slab.clone()) {
                    self.sum_places(dz, word, dgates);
                }
                let dz = Mat::new(dz, len, width)?;
                if let Some(d_table) = &mut d_table {
                    product_packed(dx, dz, kernel_t, Update::Overwrite, Threads::One)?;
                    for (dx, &id) in dx.chunks_exact(inputs.max(1)).zip(&self.distinct[slab.clone()]) {
                        d_table.rows[(id as usize - d_table.first) * inputs..][..inputs].copy_from_slice(dx);
                    }
                }
                if sums.is_empty() {
                    return Ok(());
                }
                for (x, &id) in x.chunks_exact_mut(inputs + 1).zip(&self.distinct[slab]) {
                    x[..inputs].copy_from_slice(&table[id as usize * inputs..][..inputs]);
                    x[inputs] = 1.0;
                }
                let x = Mat::new(x, len, inputs + 1)?;
                Right::with(dz, false, |dz| product_packed(sums, x.t(), dz, Update::Accumulate, Threads::One))
            })?;
        }
        Ok(())
    }

    /// dz = Σ over a word's places, in their order.
    fn sum_places(&self, dz: &mut [f32], word: usize, dgates: &[f32]) {
        let places = &self.places[self.starts[word] as usize..self.starts[word + 1] as usize];
        let width = dz.len();
        let row = |place: u32| &dgates[place as usize * width..][..width];
        // Rows lie anywhere, so those of the next word but one are asked for while this one's are added.
        let ahead = self.starts.get(word + 2..word + 4).map_or(0..0, |s| s[0] as usize..s[1] as usize);
        self.places[ahead].iter().for_each(|&place| prefetch(row(place)));
        let mut rows = places.iter().map(|&place| row(place));
        if let Some(first) = rows.next() {
            dz.copy_from_slice(first);
        }
        rows.for_each(|row| add(dz, row));
    }
}

/// Where [`Words::gradients`] go; what is `None` is not computed.
pub(super) struct WordGrads<'a> {
    /// `[V, M]`
    pub table: Option<&'a mut [f32]>,
    /// `[M, 4H]`
    pub kernel: Option<&'a mut [f32]>,
    /// `[4H]`
    pub bias: Option<&'a mut [f32]>,
}

/// Some rows of a table, from `first` on.
struct Rows<'a> {
    rows: &'a mut [f32],
    first: usize,
}

vectorized! {
    fn add(total: &mut [f32], part: &[f32]) {
        for (t, p) in total.iter_mut().zip(part) {
            *t += p;
        }
    }
}
