//! Dropout of single elements: a mask of zeros and 1/(1 − p), drawn again for the backward pass.

use burn::tensor::Tensor;
use ktied_kernels::dropout::{self, DropoutRate};
use ktied_kernels::{NoiseKey, ShapeError};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, portable};

/// x∘m, where m is 0 with probability p and 1/(1 − p) else, drawn for every element; the masks begin at row `first`.
///
/// # Shapes
/// - x, output: any, the same
///
/// # Errors
/// None: every shape will do. Like all operations, it says so in its type.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::{DropoutRate, NoiseKey, ops};
/// let x = Tensor::<2>::ones([3, 400], &Device::flex());
/// let rate = DropoutRate::new(0.5).ok_or("a rate is at least 0 and below 1")?;
/// let mean = ops::dropout(x, rate, (NoiseKey::new(1), 0))?.mean().into_scalar::<f32>();
/// assert!((mean - 1.0).abs() < 0.15); // 4.9 standard deviations of 1/√1200
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn dropout<const D: usize>(
    x: Tensor<D>,
    rate: DropoutRate,
    (key, first): (NoiseKey, usize),
) -> Result<Tensor<D>, ShapeError> {
    let first = first * x.dims().iter().skip(1).product::<usize>();
    if fused::takes(&x) {
        return fused::apply([x.into_dispatch()], Dropout { rate, key, first });
    }
    let mask = portable::dropout_mask(&x, rate, (key, first));
    Ok(x * mask)
}

#[derive(Clone, Copy, Debug)]
struct Dropout {
    rate: DropoutRate,
    key: NoiseKey,
    /// Number of the first element.
    first: usize,
}

impl Dropout {
    fn run(&self, x: &[f32]) -> Result<Vec<f32>, ShapeError> {
        let mut out = buffers::take(x.len());
        dropout::apply(&mut out, x, self.rate, (self.key, self.first))?;
        Ok(out)
    }
}

impl FusedOp<1> for Dropout {
    type Tape = ();

    fn output_shape(&self, [x]: [&[usize]; 1]) -> Result<Vec<usize>, ShapeError> {
        Ok(x.to_vec())
    }

    fn forward(&self, [x]: [View<'_>; 1], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        Ok((self.run(x.data)?, ()))
    }

    fn backward(&self, _: Saved<'_, 1, ()>, d_out: OutputGrad<'_>, _: [bool; 1]) -> Result<[Grad; 1], ShapeError> {
        Ok([Grad::Values(self.run(d_out.values())?)])
    }
}
