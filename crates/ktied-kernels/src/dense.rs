//! The dense layer: y = act(x·W + b), and its gradients.

use crate::activation::{self, Activation};
use crate::error::{Check, Result};
use crate::gemm::{Mat, Threads, Update, product};
use crate::rows::{column_sums, finish_all};

/// Sizes of a dense layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseShape {
    /// Examples, B.
    pub batch: usize,
    /// Inputs of an example, M.
    pub inputs: usize,
    /// Outputs of an example, N.
    pub outputs: usize,
}

impl DenseShape {
    fn check(&self, check: Check, x: &[f32], weight: &[f32]) -> Result<()> {
        check.len("x", x, check.product(&[self.batch, self.inputs])?)?;
        check.len("weight", weight, check.product(&[self.inputs, self.outputs])?)
    }
}

/// y = act(x·W + b).
///
/// # Shapes
/// - y: `[B, N]`, x: `[B, M]`, weight: `[M, N]`, bias: `[N]`
///
/// # Errors
/// If a length does not fit `shape`.
///
/// ```
/// use ktied_kernels::activation::Activation;
/// use ktied_kernels::dense::{DenseShape, forward};
/// let shape = DenseShape { batch: 1, inputs: 2, outputs: 2 };
/// let mut y = [0.0; 2];
/// forward(&mut y, &[1.0, 2.0], &[1.0, -1.0, 1.0, -1.0], Some(&[0.5, 0.5]), shape, Activation::Relu)?;
/// assert_eq!(y, [3.5, 0.0]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward(
    y: &mut [f32],
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    shape: DenseShape,
    activation: Activation,
) -> Result<()> {
    let DenseShape { batch, inputs, outputs } = shape;
    let check = Check("dense");
    shape.check(check, x, weight)?;
    check.len("y", y, check.product(&[batch, outputs])?)?;
    bias.map_or(Ok(()), |bias| check.len("bias", bias, outputs))?;
    product(y, Mat::new(x, batch, inputs)?, Mat::new(weight, inputs, outputs)?, Update::Overwrite, Threads::All)?;
    finish_all(y, bias, activation);
    Ok(())
}

/// Where [`backward`] writes; what is `None` is not computed.
#[derive(Debug, Default)]
pub struct DenseGrads<'a> {
    /// Gradient of x, `[B, M]`.
    pub x: Option<&'a mut [f32]>,
    /// Gradient of W, `[M, N]`.
    pub weight: Option<&'a mut [f32]>,
    /// Gradient of b, `[N]`.
    pub bias: Option<&'a mut [f32]>,
}

/// What [`forward`] read and wrote.
#[derive(Clone, Copy, Debug)]
pub struct DenseTape<'a> {
    /// Input, `[B, M]`.
    pub x: &'a [f32],
    /// Weights, `[M, N]`.
    pub weight: &'a [f32],
    /// Output, `[B, N]`; not read for `Identity`, and may be empty then.
    pub y: &'a [f32],
}

/// dz = dy ∘ act′ (in place of dy), dx = dz·Wᵀ, dW = xᵀ·dz, db = Σ dz over the batch.
///
/// # Shapes
/// - dz: `[B, N]`, dy on entry; the others as in [`DenseGrads`] and [`DenseTape`]
///
/// # Errors
/// If a length does not fit `shape`; nothing is written then.
pub fn backward(
    grads: DenseGrads<'_>,
    dz: &mut [f32],
    tape: DenseTape<'_>,
    shape: DenseShape,
    activation: Activation,
) -> Result<()> {
    let DenseShape { batch, inputs, outputs } = shape;
    let DenseGrads { x: dx, weight: dweight, bias: dbias } = grads;
    let check = Check("dense backward");
    shape.check(check, tape.x, tape.weight)?;
    check.len("dz", dz, check.product(&[batch, outputs])?)?;
    dx.as_ref().map_or(Ok(()), |dx| check.len("dx", dx, tape.x.len()))?;
    dweight.as_ref().map_or(Ok(()), |dweight| check.len("dweight", dweight, tape.weight.len()))?;
    dbias.as_ref().map_or(Ok(()), |dbias| check.len("dbias", dbias, outputs))?;

    activation::backward(dz, tape.y, activation)?;
    let dz_mat = Mat::new(dz, batch, outputs)?;
    if let Some(dx) = dx {
        let weight = Mat::new(tape.weight, inputs, outputs)?;
        product(dx, dz_mat, weight.t(), Update::Overwrite, Threads::All)?;
    }
    if let Some(dweight) = dweight {
        let x = Mat::new(tape.x, batch, inputs)?;
        product(dweight, x.t(), dz_mat, Update::Overwrite, Threads::All)?;
    }
    if let Some(dbias) = dbias {
        column_sums(dbias, dz);
    }
    Ok(())
}
