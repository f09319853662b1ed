//! A weight's mean and scale, as matrices of one orientation.

use std::sync::Arc;

use super::Form;
use crate::checkpoint::{Dtype, NamedTensor};

/// The two tensors of a weight; its numbers have been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub(super) name: String,
    pub(super) loc_name: String,
    pub(super) loc: Arc<NamedTensor>,
    pub(super) scale_name: String,
    pub(super) scale: Arc<NamedTensor>,
    pub(super) form: Form,
    pub(super) layout: Layout,
    /// The convention by which it was found, as text.
    pub(super) convention: String,
}

impl Pair {
    /// The weight's name: what `{}` stands for, or the name of the mean if it stands for nothing.
    pub fn name(&self) -> &str {
        match &*self.name {
            "" => &self.loc_name,
            name => name,
        }
    }

    /// Name of the tensor of means.
    pub fn loc_name(&self) -> &str {
        &self.loc_name
    }

    /// Name of the tensor that stores σ.
    pub fn scale_name(&self) -> &str {
        &self.scale_name
    }

    /// How σ is stored.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Type of the numbers that store σ.
    pub fn dtype(&self) -> Dtype {
        self.scale.dtype()
    }

    /// Shape of both tensors.
    pub fn shape(&self) -> &[usize] {
        self.scale.shape()
    }

    /// M and N: N outputs, M of all other dimensions together. None for what has fewer than two dimensions, or no
    /// elements: that is never compressed.
    pub fn matrix(&self) -> Option<(usize, usize)> {
        self.layout.is_matrix.then(|| (self.layout.num_rows(), self.layout.outputs))
    }

    /// μ
    ///
    /// # Shapes
    /// `[M, N]`, row-major; the elements in their order if the weight is no matrix.
    pub fn loc(&self) -> Vec<f64> {
        self.layout.to_matrix(&floats(&self.loc))
    }

    /// σ
    ///
    /// # Shapes
    /// `[M, N]`, row-major; the elements in their order if the weight is no matrix.
    pub fn scale(&self) -> Vec<f64> {
        let mut scale = self.layout.to_matrix(&floats(&self.scale));
        scale.iter_mut().for_each(|value| *value = self.form.scale(*value, self.scale.dtype()));
        scale
    }
}

/// Where the element of row and column is: a tensor `[before, outputs, after]` is the matrix `[before · after, outputs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    before: usize,
    outputs: usize,
    after: usize,
    is_matrix: bool,
}

impl Layout {
    /// A tensor whose dimension `axis` is that of the outputs.
    pub(super) fn new(shape: &[usize], axis: usize) -> Self {
        match (shape.split_at_checked(axis), shape.iter().product()) {
            (Some((before, [outputs, after @ ..])), 1..) if shape.len() > 1 => {
                let (before, after) = (before.iter().product(), after.iter().product());
                Self { before, outputs: *outputs, after, is_matrix: true }
            }
            (_, len) => Self { before: 1, outputs: len, after: 1, is_matrix: false },
        }
    }

    pub(super) fn num_rows(&self) -> usize {
        self.before * self.after
    }

    pub(super) fn num_cols(&self) -> usize {
        self.outputs
    }

    pub(super) fn to_matrix(self, tensor: &[f64]) -> Vec<f64> {
        let Self { before, outputs, after, .. } = self;
        let row = |b: usize, a: usize| (0..outputs).filter_map(move |o| tensor.get((b * outputs + o) * after + a));
        (0..before).flat_map(|b| (0..after).flat_map(move |a| row(b, a))).copied().collect()
    }

    pub(super) fn to_tensor(self, matrix: &[f64]) -> Vec<f64> {
        let Self { before, outputs, after, .. } = self;
        let part = |b: usize, o: usize| (0..after).filter_map(move |a| matrix.get((b * after + a) * outputs + o));
        (0..before).flat_map(|b| (0..outputs).flat_map(move |o| part(b, o))).copied().collect()
    }
}

/// The elements of a tensor of floats; none of any other, which pairing has ruled out.
pub(super) fn floats(tensor: &NamedTensor) -> Vec<f64> {
    let bytes = tensor.bytes();
    match tensor.dtype() {
        Dtype::F32 => bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk).into()).collect(),
        Dtype::F64 => bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tensor of 2×3×4 whose element at (i, j, k) is 100 i + 10 j + k.
    fn numbered() -> Vec<f64> {
        let places = (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| (i, j, k))));
        places.map(|(i, j, k)| f64::from(100 * i + 10 * j + k)).collect()
    }

    #[test]
    fn outputs_are_columns_wherever_they_are() {
        for (axis, rows, cols, second_row) in
            [(0, 12, 2, vec![1.0, 101.0]), (1, 8, 3, vec![1.0, 11.0, 21.0]), (2, 6, 4, vec![10.0, 11.0, 12.0, 13.0])]
        {
            let layout = Layout::new(&[2, 3, 4], axis);
            let matrix = layout.to_matrix(&numbered());
            assert_eq!((layout.num_rows(), layout.num_cols()), (rows, cols));
            assert_eq!(matrix[cols..2 * cols], second_row, "{axis}");
            assert_eq!(layout.to_tensor(&matrix), numbered());
        }
    }

    #[test]
    fn what_is_no_matrix_stays_as_it_is() {
        for (shape, axis, len) in
            [(&[][..], 0, 1), (&[5], 0, 5), (&[0, 3], 0, 0), (&[3, 0], 1, 0), (&[0, 1 << 40, 1 << 40], 1, 0)]
        {
            let layout = Layout::new(shape, axis);
            let values: Vec<f64> = (0..len).map(f64::from).collect();
            assert!(!layout.is_matrix && layout.to_matrix(&values) == values, "{shape:?}");
        }
    }
}
