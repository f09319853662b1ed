//! Matrix products on checked views; the only file that calls the `gemm` crate.

use gemm::Parallelism;

use crate::error::{Check, Result};

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
    let parallelism = match threads {
        Threads::One => Parallelism::None,
        Threads::All => Parallelism::Rayon(0),
    };
    // SAFETY: `Mat`'s constructors proved that every (row, column) of a and b lies inside its slice, `dst` has
    // rows·cols elements and, being a unique borrow, overlaps neither.
    unsafe {
        gemm::gemm(
            rows,
            cols,
            inner,
            dst.as_mut_ptr(),
            1,
            cols as isize,
            update == Update::Accumulate,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
    Ok(())
}
