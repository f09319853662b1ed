//! Two-dimensional convolution, channels last.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::activation::{self, Activation};
use ktied_kernels::conv::{self, Conv2dShape};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// How a convolution treats the borders of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Border {
    /// Padded with zeros so that the output is ⌈H/stride⌉ × ⌈W/stride⌉, the odd row and column at the end, as
    /// TensorFlow does.
    #[default]
    Same,
    /// Not padded.
    Valid,
}

/// The window of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvWindow {
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Steps down and across.
    pub stride: [usize; 2],
    /// Borders.
    pub border: Border,
}

/// act(x * W + b) for images with channels last; the kernel is a matrix whose rows are `[KH, KW, C]` flattened.
///
/// # Shapes
/// - x: `[B, H, W, C]`; weight: `[KH·KW·C, O]`; bias: `[O]`; output: `[B, H', W', O]`
///
/// # Errors
/// If the shapes do not fit, or the kernel does not fit into the image.
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    window: ConvWindow,
    activation: Activation,
) -> Result<Tensor<4>, ShapeError> {
    let op = Conv2d { has_bias: bias.is_some(), window, activation };
    if fused::takes(&x) {
        return fused::apply([x.into_dispatch(), weight.into_dispatch(), fused::optional(bias)], op);
    }
    let bias_shape = fused::optional_shape(bias.as_ref());
    op.output_shape([&x.dims(), &weight.dims(), &bias_shape])?;
    let shape = op.shape(&x.dims(), &weight.dims())?;
    Ok(portable::conv2d(x, weight, bias, shape, activation))
}

#[derive(Clone, Copy, Debug)]
struct Conv2d {
    has_bias: bool,
    window: ConvWindow,
    activation: Activation,
}

impl Conv2d {
    fn shape(&self, x: &[usize], weight: &[usize]) -> Result<Conv2dShape, ShapeError> {
        let [batch, height, width, channels] = check::dims("conv2d", "x", x)?;
        let [_, outputs] = check::dims("conv2d", "weight", weight)?;
        let ConvWindow { kernel, stride, border } = self.window;
        check::size("conv2d", "stride", 0, stride[0] > 0 && stride[1] > 0, "at least 1")?;
        Ok(match border {
            Border::Same => Conv2dShape::same(batch, [height, width], channels, outputs, kernel, stride),
            Border::Valid => Conv2dShape::valid(batch, [height, width], channels, outputs, kernel, stride),
        })
    }
}

impl FusedOp<3> for Conv2d {
    type Tape = ();

    fn output_shape(&self, [x, weight, bias]: [&[usize]; 3]) -> Result<Vec<usize>, ShapeError> {
        let shape = self.shape(x, weight)?;
        let fan_in =
            [shape.kernel[0], shape.kernel[1], shape.channels].iter().try_fold(1usize, |p, &s| p.checked_mul(s));
        let fan_in = fan_in.ok_or(ShapeError::Overflow { kernel: "conv2d" })?;
        check::same("conv2d", "weight", weight, &[fan_in, shape.outputs])?;
        check::same_if("conv2d", "bias", self.has_bias.then_some(bias), &[shape.outputs])?;
        Ok(vec![shape.batch, shape.out_height()?, shape.out_width()?, shape.outputs])
    }

    fn forward(&self, [x, weight, bias]: [View<'_>; 3], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let shape = self.shape(x.shape, weight.shape)?;
        let mut y = buffers::take(shape.batch * shape.out_height()? * shape.out_width()? * shape.outputs);
        conv::forward(&mut y, x.data, weight.data, bias.when(self.has_bias), &shape, self.activation)?;
        Ok((y, ()))
    }

    fn reads_output(&self) -> bool {
        self.activation != Activation::Identity
    }

    fn backward(
        &self,
        saved: Saved<'_, 3, ()>,
        mut d_out: OutputGrad<'_>,
        wanted: [bool; 3],
    ) -> Result<[Grad; 3], ShapeError> {
        let [x, weight, bias] = saved.operands;
        let shape = self.shape(x.shape, weight.shape)?;
        if self.activation != Activation::Identity {
            activation::backward(d_out.values_mut(), saved.output, self.activation)?;
        }
        let mut grads = [Grad::None, Grad::None, Grad::None];
        if wanted[0] {
            let mut dx = buffers::take(x.data.len());
            conv::backward_input(&mut dx, d_out.values(), weight.data, &shape)?;
            grads[0] = Grad::Values(dx);
        }
        if wanted[1] || wanted[2] {
            let (mut dweight, mut dbias) = (buffers::take(weight.data.len()), buffers::take(bias.data.len()));
            let dbias_out = self.has_bias.then_some(&mut dbias[..]);
            conv::backward_weight(&mut dweight, dbias_out, d_out.values(), x.data, &shape)?;
            grads[1] = Grad::Values(dweight);
            grads[2] = if self.has_bias { Grad::Values(dbias) } else { Grad::None };
        }
        Ok(grads)
    }
}
