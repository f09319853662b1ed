//! The innermost loops of every product: a tile of sums that stays in registers, compiled for each instruction set.

use super::vector::Vector;

/// Most rows of a tile on any instruction set.
pub(crate) const MAX_ROWS: usize = 14;

/// Where the rows and terms of a left operand are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// Term t of row i is at `[i] + t`.
    Apart([usize; MAX_ROWS]),
    /// Term t of row i is at `i + t·stride`.
    Neighbours {
        /// From term to term.
        stride: usize,
    },
}

impl Left {
    /// Rows of a row-major matrix, `stride` apart.
    pub(crate) fn rows(stride: usize) -> Self {
        Self::Apart(std::array::from_fn(|i| i * stride))
    }
}

/// A tile of a product: sums over runs of neighbouring terms.
///
/// Term t of run r of row i and column j is `a[runs[r] + left(i, t)] · b[r·b_run + t·b_stride + j]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile<'a> {
    /// The left operand.
    pub a: *const f32,
    /// Its rows and terms.
    pub left: Left,
    /// Where its runs begin.
    pub runs: &'a [usize],
    /// Terms of a run.
    pub run_len: usize,
    /// The right operand; the columns of a term are neighbours.
    pub b: *const f32,
    /// From term to term.
    pub b_stride: usize,
    /// From run to run.
    pub b_run: usize,
    /// Where the sums go; the columns of a row are neighbours.
    pub c: *mut f32,
    /// From row to row.
    pub c_stride: usize,
    /// Rows, at most those of the engine.
    pub rows: usize,
    /// Columns, at most those of the engine.
    pub cols: usize,
    /// Whether the sums join what is at `c`.
    pub joins: bool,
}

/// What products are made of on one instruction set.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Most rows of a tile.
    pub rows: usize,
    /// Most columns of a tile.
    pub cols: usize,
    /// Elements of a vector; a packed row of a has as many as are needed for `rows`.
    pub lanes: usize,
    /// Computes a tile. Its pointers must be good for all that the tile reads and writes.
    pub tile: unsafe fn(&Tile<'_>),
    /// `to[t·to_stride + i] = from[i·from_stride + t]` for a square of `lanes`².
    pub transpose: unsafe fn(*const f32, usize, *mut f32, usize),
}

impl Engine {
    /// The widest that this machine runs. It does not follow [`crate::simd::select`], because bits depend on it.
    #[inline]
    pub(crate) fn widest() -> &'static Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return &avx512::ENGINE;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return &avx2::ENGINE;
            }
        }
        &baseline::ENGINE
    }

    /// Every one that this machine runs, for tests.
    #[cfg(test)]
    pub(super) fn all() -> Vec<&'static Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let mut all = vec![&baseline::ENGINE];
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(&avx2::ENGINE);
            }
            if is_x86_feature_detected!("avx512f") {
                all.push(&avx512::ENGINE);
            }
            all
        }
        #[cfg(not(target_arch = "x86_64"))]
        vec![&baseline::ENGINE]
    }

    /// Cuts `rows` into tiles of about the same number: start and length of each. Few rows take as long as many.
    pub(crate) fn cuts(&self, rows: usize) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone + use<> {
        let num_tiles = rows.div_ceil(self.rows).max(1);
        (0..num_tiles).map(move |t| (t * rows / num_tiles, (t + 1) * rows / num_tiles - t * rows / num_tiles))
    }
}

/// The sums of a tile of MR rows and at most NV vectors of columns. Every sum is made in the order of its terms, so that its bits
/// depend neither on the tile nor on its place in it.
#[inline(always)]
unsafe fn compute<V: Vector, const MR: usize, const NV: usize, const APART: bool>(t: &Tile<'_>) {
    // Columns of the last vector.
    let last = t.cols - (NV - 1) * V::LEN;
    let (stride, at): (usize, [usize; MR]) = match t.left {
        Left::Apart(at) => (1, std::array::from_fn(|i| at[i])),
        Left::Neighbours { stride } => (stride, std::array::from_fn(|i| i)),
    };
    // SAFETY: the caller's pointers are good for all terms of the tile, and only its columns are read and written. Pointers are
    // advanced past the last term without being read there.
    unsafe {
        let mut sums = [[V::zero(); NV]; MR];
        for (run, start) in t.runs.iter().enumerate() {
            let (mut a, mut b) = (t.a.wrapping_add(*start), t.b.wrapping_add(run * t.b_run));
            for _ in 0..t.run_len {
                let mut right = [V::zero(); NV];
                for (j, right) in right.iter_mut().enumerate() {
                    let b = b.add(j * V::LEN);
                    *right = if j + 1 < NV { V::load(b) } else { V::load_first(b, last) };
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let left = V::splat(a.add(if APART { at[i] } else { i }));
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = sum.add_product(left, right);
                    }
                }
                a = a.wrapping_add(if APART { 1 } else { stride });
                b = b.wrapping_add(t.b_stride);
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            let c = t.c.add(i * t.c_stride);
            for (j, sum) in sums.into_iter().enumerate() {
                let (c, len) = (c.add(j * V::LEN), if j + 1 < NV { V::LEN } else { last });
                let sum = if t.joins { V::load_first(c, len).plus(sum) } else { sum };
                sum.store_first(c, len);
            }
        }
    }
}

/// An engine: `$tile` for every number of rows up to `$rows` and of vectors up to two.
macro_rules! engine {
    ($(#[$features:meta])? $vector:ty, $rows:literal: $($row:literal)+) => {
        use super::{Engine, Left, Tile, compute};
        use crate::gemm::vector::Vector;

        pub(super) static ENGINE: Engine = Engine {
            rows: $rows,
            cols: 2 * <$vector as Vector>::LEN,
            lanes: <$vector as Vector>::LEN,
            tile,
            transpose,
        };

        /// # Safety
        /// As [`Engine::tile`] says.
        unsafe fn tile(t: &Tile<'_>) {
            // SAFETY: the engine is used only where the processor has its instructions, and the caller's pointers are good.
            unsafe {
                match (t.cols > <$vector as Vector>::LEN, matches!(t.left, Left::Apart(_))) {
                    (false, false) => of_rows::<1, false>(t),
                    (false, true) => of_rows::<1, true>(t),
                    (true, false) => of_rows::<2, false>(t),
                    (true, true) => of_rows::<2, true>(t),
                }
            }
        }

        /// # Safety
        /// As [`tile`].
        unsafe fn of_rows<const NV: usize, const APART: bool>(t: &Tile<'_>) {
            debug_assert!(t.rows <= $rows && t.cols <= 2 * <$vector as Vector>::LEN);
            // SAFETY: as in `tile`.
            unsafe {
                match t.rows {
                    $($row => compiled::<$row, NV, APART>(t),)+
                    _ => {}
                }
            }
        }

        /// # Safety
        /// As [`tile`].
        $(#[$features])?
        unsafe fn compiled<const MR: usize, const NV: usize, const APART: bool>(t: &Tile<'_>) {
            // SAFETY: as in `tile`; these instructions are this function's.
            unsafe { compute::<$vector, MR, NV, APART>(t) }
        }

        /// # Safety
        /// As [`Engine::transpose`] says.
        $(#[$features])?
        unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            // SAFETY: as in `tile`; these instructions are this function's.
            unsafe { <$vector>::transpose(from, from_stride, to, to_stride) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    engine!(#[target_feature(enable = "avx512f")] std::arch::x86_64::__m512, 14: 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    engine!(#[target_feature(enable = "avx2,fma")] std::arch::x86_64::__m256, 6: 1 2 3 4 5 6);
}

mod baseline {
    engine!([f32; 4], 6: 1 2 3 4 5 6);
}
