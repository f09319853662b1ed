//! A dense matrix of doubles.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;

use crate::error::{Error, Result};

/// A dense matrix, row-major, with at least one row and one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<f64>,
}

impl Matrix {
    /// A matrix of the values of its rows.
    ///
    /// # Errors
    /// If there are not rows·cols values, or none.
    pub fn new(rows: usize, cols: usize, values: Vec<f64>) -> Result<Self> {
        if rows.checked_mul(cols) != Some(values.len()) || values.is_empty() {
            let (expected, found) = (vec![rows, cols], vec![values.len()]);
            return Err(ShapeError::Shape { kernel: "matrix", operand: "values", expected, found }.into());
        }
        Ok(Self { rows, cols, values })
    }

    /// A matrix of a function of row and column; both sizes are at least one.
    pub(crate) fn from_fn(rows: usize, cols: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let values = (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
        Self { rows, cols, values }
    }

    /// The elements of a tensor, all of them finite; `name` is what the tensor is called if not.
    ///
    /// # Errors
    /// If the tensor is empty, or an element is NaN or infinite: the first one is named.
    pub fn from_tensor(name: &str, tensor: Tensor<2>) -> Result<Self> {
        let [rows, cols] = tensor.dims();
        Self::new(rows, cols, tensor.into_data().iter::<f64>().collect())?.checked(name)
    }

    /// The same matrix, if all of its elements are finite.
    ///
    /// # Errors
    /// If one is NaN or infinite: the first one is named.
    pub fn checked(self, name: &str) -> Result<Self> {
        match self.values.iter().position(|value| !value.is_finite()) {
            Some(at) => {
                let (row, col) = (at / self.cols, at % self.cols);
                Error::finite(&format!("{name} at row {row}, column {col}"), self.values[at])?;
                Ok(self)
            }
            None => Ok(self),
        }
    }

    /// M
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// N
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All elements, row by row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Its rows.
    pub fn iter_rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.cols)
    }

    /// The matrix with rows for columns.
    pub fn transposed(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self.values[j * self.cols + i])
    }

    /// The matrix of a function of each element.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { values: self.values.iter().map(|&value| f(value)).collect(), ..*self }
    }

    /// U Vᵀ, where `self` is U, `[M, K]`, and `v` is `[N, K]`.
    ///
    /// # Errors
    /// If the factors do not have one number of columns.
    pub fn times_transposed(&self, v: &Self) -> Result<Self> {
        if self.cols != v.cols {
            let (expected, found) = (vec![v.rows, self.cols], vec![v.rows, v.cols]);
            return Err(ShapeError::Shape { kernel: "product", operand: "right factor", expected, found }.into());
        }
        let dot = |u: &[f64], v: &[f64]| u.iter().zip(v).map(|(u, v)| u * v).sum();
        let values = self.iter_rows().flat_map(|u| v.iter_rows().map(move |v| dot(u, v))).collect();
        Ok(Self { rows: self.rows, cols: v.rows, values })
    }

    /// Σ of all squares: the squared Frobenius norm.
    pub fn squared_norm(&self) -> f64 {
        self.values.iter().map(|value| value * value).sum()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn the_first_element_that_is_not_finite_is_named() {
        let tensor = Tensor::<2>::from_floats([[1.0, 2.0, 3.0], [4.0, f32::NAN, f32::INFINITY]], &Device::flex());
        let error = Matrix::from_tensor("dense_1.scale", tensor).unwrap_err().to_string();
        assert!(error.contains("dense_1.scale at row 1, column 1") && error.contains("NaN"), "{error}");
    }

    #[test]
    fn a_product_of_factors_is_what_a_hand_finds() {
        let u = Matrix::new(2, 2, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        let v = Matrix::new(3, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, -1.0]).unwrap();
        let product = u.times_transposed(&v).unwrap();
        assert_eq!(product.values(), [1.0, 2.0, -1.0, 3.0, 4.0, -1.0]);
        assert_eq!(product.transposed().values(), [1.0, 3.0, 2.0, 4.0, -1.0, -1.0]);
        assert_eq!(product.squared_norm(), 1.0 + 4.0 + 1.0 + 9.0 + 16.0 + 1.0);
        assert!(u.times_transposed(&product).is_err());
        assert!(Matrix::new(2, 2, vec![0.0; 3]).is_err() && Matrix::new(0, 2, vec![]).is_err());
    }
}
