//! Maximum and average over windows of an image, channels last.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::pool::{self, PoolShape};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// The largest value of each window and channel.
///
/// # Shapes
/// - x: `[B, H, W, C]`; output: `[B, H', W', C]`
///
/// # Errors
/// If the window does not fit into the image or a size is 0.
pub fn max_pool2d(x: Tensor<4>, kernel: [usize; 2], stride: [usize; 2]) -> Result<Tensor<4>, ShapeError> {
    let op = MaxPool { kernel, stride };
    if fused::takes(&x) {
        return fused::apply([x.into_dispatch()], op);
    }
    op.output_shape([&x.dims()])?;
    Ok(portable::max_pool2d(x, kernel, stride))
}

/// The mean of each window and channel.
///
/// # Shapes
/// - x: `[B, H, W, C]`; output: `[B, H', W', C]`
///
/// # Errors
/// If the window does not fit into the image or a size is 0.
pub fn avg_pool2d(x: Tensor<4>, kernel: [usize; 2], stride: [usize; 2]) -> Result<Tensor<4>, ShapeError> {
    let op = AvgPool { kernel, stride };
    if fused::takes(&x) {
        return fused::apply([x.into_dispatch()], op);
    }
    op.output_shape([&x.dims()])?;
    Ok(portable::avg_pool2d(x, kernel, stride))
}

fn pool_shape(x: &[usize], kernel: [usize; 2], stride: [usize; 2]) -> Result<PoolShape, ShapeError> {
    let [batch, height, width, channels] = check::dims("pool", "x", x)?;
    Ok(PoolShape { batch, height, width, channels, kernel, stride })
}

fn out_dims(shape: &PoolShape) -> Result<Vec<usize>, ShapeError> {
    Ok(vec![shape.batch, shape.out_height()?, shape.out_width()?, shape.channels])
}

#[derive(Clone, Copy, Debug)]
struct MaxPool {
    kernel: [usize; 2],
    stride: [usize; 2],
}

impl FusedOp<1> for MaxPool {
    /// Which element of its window was the largest.
    type Tape = Vec<u8>;

    fn output_shape(&self, [x]: [&[usize]; 1]) -> Result<Vec<usize>, ShapeError> {
        out_dims(&pool_shape(x, self.kernel, self.stride)?)
    }

    fn forward(&self, [x]: [View<'_>; 1], _: bool) -> Result<(Vec<f32>, Vec<u8>), ShapeError> {
        let shape = pool_shape(x.shape, self.kernel, self.stride)?;
        let len = out_dims(&shape)?.iter().product();
        let (mut y, mut argmax) = (buffers::take(len), vec![0; len]);
        pool::max_forward(&mut y, &mut argmax, x.data, &shape)?;
        Ok((y, argmax))
    }

    fn backward(
        &self,
        saved: Saved<'_, 1, Vec<u8>>,
        d_out: OutputGrad<'_>,
        _: [bool; 1],
    ) -> Result<[Grad; 1], ShapeError> {
        let [x] = saved.operands;
        let mut dx = buffers::take(x.data.len());
        let shape = pool_shape(x.shape, self.kernel, self.stride)?;
        pool::max_backward(&mut dx, d_out.values(), &saved.tape, &shape)?;
        Ok([Grad::Values(dx)])
    }
}

#[derive(Clone, Copy, Debug)]
struct AvgPool {
    kernel: [usize; 2],
    stride: [usize; 2],
}

impl FusedOp<1> for AvgPool {
    type Tape = ();

    fn output_shape(&self, [x]: [&[usize]; 1]) -> Result<Vec<usize>, ShapeError> {
        out_dims(&pool_shape(x, self.kernel, self.stride)?)
    }

    fn forward(&self, [x]: [View<'_>; 1], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let shape = pool_shape(x.shape, self.kernel, self.stride)?;
        let mut y = buffers::take(out_dims(&shape)?.iter().product());
        pool::avg_forward(&mut y, x.data, &shape)?;
        Ok((y, ()))
    }

    fn backward(&self, saved: Saved<'_, 1, ()>, d_out: OutputGrad<'_>, _: [bool; 1]) -> Result<[Grad; 1], ShapeError> {
        let [x] = saved.operands;
        let mut dx = buffers::take(x.data.len());
        pool::avg_backward(&mut dx, d_out.values(), &pool_shape(x.shape, self.kernel, self.stride)?)?;
        Ok([Grad::Values(dx)])
    }
}
