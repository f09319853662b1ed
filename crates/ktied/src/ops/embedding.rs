//! Rows of a table by their numbers.

use std::sync::Arc;

use burn::tensor::Tensor;
use ktied_kernels::{ShapeError, embedding as kernel};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// The rows `ids` of a table, in their order; gradients of a row that stands several times add up.
///
/// # Shapes
/// - table: `[V, N]`; ids: L of them; output: `[L, N]`
///
/// # Errors
/// If an id is not below V.
pub fn embedding(table: Tensor<2>, ids: &[u32]) -> Result<Tensor<2>, ShapeError> {
    let op = Embedding { ids: ids.into() };
    if fused::takes(&table) {
        return fused::apply([table.into_dispatch()], op);
    }
    op.output_shape([&table.dims()])?;
    Ok(portable::embedding(table, ids))
}

#[derive(Clone, Debug)]
struct Embedding {
    ids: Arc<[u32]>,
}

impl FusedOp<1> for Embedding {
    type Tape = ();

    fn output_shape(&self, [table]: [&[usize]; 1]) -> Result<Vec<usize>, ShapeError> {
        let [rows, columns] = check::dims("embedding", "table", table)?;
        let largest = self.ids.iter().max().map_or(0, |&id| id as usize);
        let fits = self.ids.is_empty() || largest < rows;
        check::size("embedding", "id", largest, fits, "below the number of rows")?;
        Ok(vec![self.ids.len(), columns])
    }

    fn forward(&self, [table]: [View<'_>; 1], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let [_, columns] = check::dims("embedding", "table", table.shape)?;
        let mut out = buffers::take(self.ids.len() * columns);
        kernel::forward(&mut out, table.data, &self.ids, columns)?;
        Ok((out, ()))
    }

    fn backward(&self, saved: Saved<'_, 1, ()>, d_out: OutputGrad<'_>, _: [bool; 1]) -> Result<[Grad; 1], ShapeError> {
        let [table] = saved.operands;
        let [_, columns] = check::dims("embedding", "table", table.shape)?;
        let mut d_table = buffers::take(table.data.len());
        kernel::backward(&mut d_table, d_out.values(), &self.ids, columns)?;
        Ok([Grad::Values(d_table)])
    }
}
