//! Operands copied into the order in which tiles read them.

use std::ops::Range;

use rayon::prelude::*;

use super::Mat;
use super::tile::Engine;
use crate::scratch::with_scratch;

/// A right operand, packed: panel after panel of the engine's columns, of each the terms in order. What is beyond the last column is
/// whatever was there, and never part of a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right<'a> {
    data: &'a [f32],
    /// Terms of a panel, and of them those in use.
    panel_terms: usize,
    first: usize,
    terms: usize,
    cols: usize,
    engine: &'static Engine,
}

impl<'a> Right<'a> {
    /// Runs `task` on b, packed by the calling thread or by all.
    pub(crate) fn with<T>(b: Mat<'_>, in_parallel: bool, task: impl FnOnce(Right<'_>) -> T) -> T {
        Self::of_engine(Engine::widest(), &[b], in_parallel, task)
    }

    /// The same for an operand whose terms are those of several matrices, one after another, which have as many columns.
    pub(crate) fn stacked<T>(parts: &[Mat<'_>], in_parallel: bool, task: impl FnOnce(Right<'_>) -> T) -> T {
        Self::of_engine(Engine::widest(), parts, in_parallel, task)
    }

    /// The same for an engine.
    pub(super) fn of_engine<T>(
        engine: &'static Engine,
        parts: &[Mat<'_>],
        in_parallel: bool,
        task: impl FnOnce(Right<'_>) -> T,
    ) -> T {
        let terms: usize = parts.iter().map(|part| part.rows).sum();
        let cols = parts.first().map_or(0, |part| part.cols);
        let (panel_len, num_panels) = (terms * engine.cols, cols.div_ceil(engine.cols));
        with_scratch(num_panels * panel_len, |data| {
            let pack = |(panel, mut to): (usize, &mut [f32])| {
                let first = panel * engine.cols;
                for part in parts {
                    let (here, rest) = to.split_at_mut(part.rows * engine.cols);
                    pack_panel(
                        engine,
                        here,
                        engine.cols,
                        part.part(0, part.rows, first, engine.cols.min(cols - first)),
                    );
                    to = rest;
                }
            };
            // Without terms there is nothing to pack, and no length of a panel to divide by.
            if in_parallel {
                data.par_chunks_mut(panel_len.max(1)).enumerate().for_each(pack);
            } else {
                data.chunks_mut(panel_len.max(1)).enumerate().for_each(pack);
            }
            task(Right { data, panel_terms: terms, first: 0, terms, cols, engine })
        })
    }

    /// An operand that was written in this order: panel after panel of [`Right::panel_cols`] columns, of each the terms in order.
    pub(crate) fn of_panels(data: &'a [f32], terms: usize, cols: usize) -> Self {
        assert_eq!(data.len(), terms * Self::padded(cols));
        Self { data, panel_terms: terms, first: 0, terms, cols, engine: Engine::widest() }
    }

    /// Columns of a panel.
    pub(crate) fn panel_cols() -> usize {
        Engine::widest().cols
    }

    /// So many columns, and what the last panel has beyond them.
    pub(crate) fn padded(cols: usize) -> usize {
        cols.next_multiple_of(Self::panel_cols())
    }

    /// `terms` terms from `first` on, which must be there.
    pub(crate) fn part(self, first: usize, terms: usize) -> Self {
        Self { first: self.first + first, terms, ..self }
    }

    pub(crate) fn engine(&self) -> &'static Engine {
        self.engine
    }

    /// Terms and columns.
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.terms, self.cols)
    }

    pub(super) fn num_panels(&self) -> usize {
        self.cols.div_ceil(self.engine.cols)
    }

    /// A panel, `[terms, engine.cols]`, and its columns.
    pub(crate) fn panel(&self, panel: usize) -> (&'a [f32], Range<usize>) {
        let (width, first) = (self.engine.cols, panel * self.engine.cols);
        let start = (panel * self.panel_terms + self.first) * width;
        (&self.data[start..start + self.terms * width], first..self.cols.min(first + width))
    }

    /// All of them.
    pub(crate) fn panels(&self) -> impl Iterator<Item = (&'a [f32], Range<usize>)> {
        (0..self.num_panels()).map(|panel| self.panel(panel))
    }
}

/// Packs rows of a left operand: of every term, its rows side by side, `stride` apart.
pub(super) fn pack_left(engine: &Engine, to: &mut [f32], stride: usize, a: Mat<'_>) {
    pack_panel(engine, to, stride, a.t());
}

/// `to[t·stride + j] = part[t, j]`.
fn pack_panel(engine: &Engine, to: &mut [f32], stride: usize, part: Mat<'_>) {
    let Mat { data, rows: terms, cols, row_stride, col_stride } = part;
    if col_stride == 1 {
        for (t, to) in to.chunks_mut(stride).enumerate().take(terms) {
            copy_run(&mut to[..cols], &data[t * row_stride..][..cols]);
        }
        return;
    }
    let lanes = engine.lanes;
    let (whole_terms, whole_cols) = (terms / lanes * lanes, cols / lanes * lanes);
    for j in (0..whole_cols).step_by(lanes) {
        for t in (0..whole_terms).step_by(lanes) {
            let (from, to) = (&data[j * col_stride + t * row_stride..], &mut to[t * stride + j..]);
            assert!(
                row_stride == 1 && from.len() > (lanes - 1) * (col_stride + 1) && to.len() > (lanes - 1) * (stride + 1)
            );
            // SAFETY: both slices hold the square, as was just made sure, and the engine is one that this machine runs.
            unsafe { (engine.transpose)(from.as_ptr(), col_stride, to.as_mut_ptr(), stride) };
        }
    }
    let transpose_rest = |to: &mut [f32], terms: Range<usize>, cols: Range<usize>| {
        for j in cols {
            let from = &data[j * col_stride..];
            for t in terms.clone() {
                to[t * stride + j] = from[t * row_stride];
            }
        }
    };
    transpose_rest(to, whole_terms..terms, 0..whole_cols);
    transpose_rest(to, 0..terms, whole_cols..cols);
}

/// A copy of few elements, without the call that a copy of many is.
#[inline(always)]
fn copy_run(to: &mut [f32], from: &[f32]) {
    if let (Ok(to), Ok(from)) = (<&mut [f32; 32]>::try_from(&mut *to), <&[f32; 32]>::try_from(from)) {
        *to = *from;
    } else if to.len() == from.len() && (8..=16).contains(&to.len()) {
        let rest = to.len() - 8;
        let (low, high): ([f32; 8], [f32; 8]) =
            (std::array::from_fn(|i| from[i]), std::array::from_fn(|i| from[rest + i]));
        to[..8].copy_from_slice(&low);
        to[rest..].copy_from_slice(&high);
    } else {
        to.copy_from_slice(from);
    }
}
