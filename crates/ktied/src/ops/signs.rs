//! Flipout's signs: ±1 per example and channel, the same at every position.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::signs::{self, SignShape};

pub use ktied_kernels::signs::SignKey;

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// x∘s.
///
/// # Shapes
/// - x, output: `[B, …, C]`
///
/// # Errors
/// If x has fewer than two dimensions.
pub fn apply_signs<const D: usize>(x: Tensor<D>, key: impl Into<SignKey>) -> Result<Tensor<D>, ShapeError> {
    let key = key.into();
    let op = ApplySigns { key };
    if fused::takes(&x) {
        return fused::apply([x.into_dispatch()], op);
    }
    op.output_shape([&x.dims()])?;
    Ok(x.clone() * portable::signs(&x, key))
}

/// y + z∘s: Flipout's two halves put together.
///
/// # Shapes
/// - y, z, output: `[B, …, C]`
///
/// # Errors
/// If the shapes differ or have fewer than two dimensions.
pub fn add_signed<const D: usize>(
    y: Tensor<D>,
    z: Tensor<D>,
    key: impl Into<SignKey>,
) -> Result<Tensor<D>, ShapeError> {
    let key = key.into();
    let op = AddSigned { key };
    if fused::takes(&y) {
        return fused::apply([y.into_dispatch(), z.into_dispatch()], op);
    }
    op.output_shape([&y.dims(), &z.dims()])?;
    let signs = portable::signs(&z, key);
    Ok(y + z * signs)
}

/// Batch first, channels last, whatever lies between are positions.
pub(super) fn sign_shape(kernel: &'static str, shape: &[usize]) -> Result<SignShape, ShapeError> {
    let found = shape.len();
    let [batch, positions @ .., channels] = shape else {
        return Err(ShapeError::Size { kernel, operand: "number of dimensions", expected: "at least 2", found });
    };
    Ok(SignShape { batch: *batch, positions: positions.iter().product(), channels: *channels })
}

#[derive(Clone, Copy, Debug)]
struct ApplySigns {
    key: SignKey,
}

impl ApplySigns {
    fn run(&self, x: &[f32], shape: &[usize]) -> Result<Vec<f32>, ShapeError> {
        let mut out = buffers::take(x.len());
        signs::apply(&mut out, x, sign_shape("apply_signs", shape)?, self.key)?;
        Ok(out)
    }
}

impl FusedOp<1> for ApplySigns {
    type Tape = ();

    fn output_shape(&self, [x]: [&[usize]; 1]) -> Result<Vec<usize>, ShapeError> {
        sign_shape("apply_signs", x)?;
        Ok(x.to_vec())
    }

    fn forward(&self, [x]: [View<'_>; 1], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        Ok((self.run(x.data, x.shape)?, ()))
    }

    fn backward(&self, saved: Saved<'_, 1, ()>, d_out: OutputGrad<'_>, _: [bool; 1]) -> Result<[Grad; 1], ShapeError> {
        Ok([Grad::Values(self.run(d_out.values(), saved.operands[0].shape)?)])
    }
}

#[derive(Clone, Copy, Debug)]
struct AddSigned {
    key: SignKey,
}

impl FusedOp<2> for AddSigned {
    type Tape = ();

    fn output_shape(&self, [y, z]: [&[usize]; 2]) -> Result<Vec<usize>, ShapeError> {
        sign_shape("add_signed", y)?;
        check::same("add_signed", "z", z, y)?;
        Ok(y.to_vec())
    }

    fn forward(&self, [y, z]: [View<'_>; 2], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let mut out = buffers::copy_of(y.data);
        signs::add(&mut out, z.data, sign_shape("add_signed", y.shape)?, self.key)?;
        Ok((out, ()))
    }

    fn backward(
        &self,
        saved: Saved<'_, 2, ()>,
        d_out: OutputGrad<'_>,
        [_, z_wanted]: [bool; 2],
    ) -> Result<[Grad; 2], ShapeError> {
        if !z_wanted {
            return Ok([Grad::OfOutput, Grad::None]);
        }
        let signed = ApplySigns { key: self.key }.run(d_out.values(), saved.operands[1].shape)?;
        Ok([Grad::OfOutput, Grad::Values(signed)])
    }
}
