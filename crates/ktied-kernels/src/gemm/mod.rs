//! Matrix products on checked views.
//!
//! Every sum is made in blocks of neighbouring terms whose size depends on the number of terms alone, a block in order and the
//! blocks in order, so that its bits depend neither on the number of threads nor on what else is computed. Processors that round
//! a product and a sum once (AVX2 with FMA, AVX-512) all have the same bits.

mod blocked;
mod pack;
pub(crate) mod tile;
mod vector;

use crate::error::{Check, Result};
pub(crate) use pack::Right;
use tile::{Engine, Left};

/// A read-only matrix in a slice, row-major or, after [`Mat::t`], column-major.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Mat<'a> {
    /// Views `data` as `rows`×`cols`, row-major.
    ///
    /// # Errors
    /// If `data` does not have exactly `rows * cols` elements.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Result<Self> {
        let check = Check("matrix");
        check.len("data", data, check.product(&[rows, cols])?)?;
        Ok(Self { data, rows, cols, row_stride: cols, col_stride: 1 })
    }

    /// Views the rows of a wider row-major matrix: row i starts at `i * row_stride`.
    ///
    /// # Errors
    /// If rows overlap or the last one leaves `data`.
    pub fn with_row_stride(data: &'a [f32], rows: usize, cols: usize, row_stride: usize) -> Result<Self> {
        let check = Check("matrix");
        check.size("row_stride", row_stride, row_stride >= cols, "at least the number of columns")?;
        let end = check.product(&[rows.saturating_sub(1), row_stride])?.saturating_add(cols);
        check.size("data", data.len(), rows == 0 || data.len() >= end, "long enough for its rows")?;
        Ok(Self { data, rows, cols, row_stride, col_stride: 1 })
    }

    /// `rows` rows from `first_row` on, and `cols` columns from `first_col` on, which must be there.
    pub(crate) fn part(self, first_row: usize, rows: usize, first_col: usize, cols: usize) -> Self {
        let data = &self.data[first_row * self.row_stride + first_col * self.col_stride..];
        Self { data, rows, cols, ..self }
    }

    /// `len` rows from `first` on, which must be there.
    pub(crate) fn rows(self, first: usize, len: usize) -> Self {
        self.part(first, len, 0, self.cols)
    }

    /// Its rows as those of a left operand.
    fn left(self) -> Left {
        if self.col_stride == 1 { Left::rows(self.row_stride) } else { Left::Neighbours { stride: self.col_stride } }
    }

    /// The transpose, without moving anything.
    pub fn t(self) -> Self {
        Self { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }
}

/// Who computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread.
    One,
    /// The whole rayon pool. Rows and columns are divided, never the sum, so the bits do not change.
    All,
}

/// Whether a product replaces or joins what the destination holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// dst = a·b
    Overwrite,
    /// dst += a·b
    Accumulate,
}

/// dst = a·b or dst += a·b.
///
/// # Shapes
/// - a: `[I, K]`, b: `[K, J]`, dst: `[I, J]` row-major
///
/// # Errors
/// If the sizes do not fit.
///
/// ```
/// use ktied_kernels::gemm::{Mat, Threads, Update, product};
/// let (a, b) = ([1., 2., 3., 4.], [5., 6.]);
/// let mut dst = [0.; 2];
/// product(&mut dst, Mat::new(&a, 2, 2)?, Mat::new(&b, 2, 1)?, Update::Overwrite, Threads::One)?;
/// assert_eq!(dst, [17., 39.]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn product(dst: &mut [f32], a: Mat<'_>, b: Mat<'_>, update: Update, threads: Threads) -> Result<()> {
    let check = Check("product");
    let (rows, cols, inner) = (a.rows, b.cols, a.cols);
    check.size("rows of b", b.rows, b.rows == inner, "the number of columns of a")?;
    check.len("dst", dst, check.product(&[rows, cols])?)?;
    if dst.is_empty() {
        return Ok(());
    }
    if inner == 0 {
        if update == Update::Overwrite {
            dst.fill(0.0);
        }
        return Ok(());
    }
    blocked::multiply(Engine::widest(), dst, a, b, update, threads);
    Ok(())
}

/// dst = a·b or dst += a·b, with b packed before, for products that share it.
///
/// # Errors
/// If the sizes do not fit.
pub(crate) fn product_packed(
    dst: &mut [f32],
    a: Mat<'_>,
    b: Right<'_>,
    update: Update,
    threads: Threads,
) -> Result<()> {
    let check = Check("product");
    let (inner, cols) = b.shape();
    check.size("rows of b", inner, inner == a.cols, "the number of columns of a")?;
    check.len("dst", dst, check.product(&[a.rows, cols])?)?;
    if !dst.is_empty() && inner > 0 {
        blocked::multiply_packed(dst, a, b, update, threads);
    } else if update == Update::Overwrite {
        dst.fill(0.0);
    }
    Ok(())
}
