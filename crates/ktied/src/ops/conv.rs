//! Two-dimensional convolution, channels last.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::activation::{self, Activation};
use ktied_kernels::conv::flipout::{self, FlipoutGrads, FlipoutWeights};
use ktied_kernels::conv::{self, Conv2dShape, pooled};
use ktied_kernels::signs::SignKey;

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::norm::NormRecipe;
use super::{add_signed, apply_signs, buffers, check, max_pool2d, portable};

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

/// act(x * W + b) for images with channels last; the kernel is a matrix whose rows are `[KH, KW, C]` flattened. With a recipe, x is
/// not kept for the backward pass but made again.
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
    recipe: Option<NormRecipe>,
) -> Result<Tensor<4>, ShapeError> {
    let op = Conv2d { has_bias: bias.is_some(), window, activation, recipe };
    if fused::takes(&x) {
        return fused::apply([x.into_dispatch(), weight.into_dispatch(), fused::optional(bias)], op);
    }
    let bias_shape = fused::optional_shape(bias.as_ref());
    op.output_shape([&x.dims(), &weight.dims(), &bias_shape])?;
    let shape = op.shape(&x.dims(), &weight.dims())?;
    Ok(portable::conv2d(x, weight, bias, shape, activation))
}

/// act(max(x * W) + b), where the maximum is over the 2×2 windows of the sums, which are never all in memory.
///
/// # Shapes
/// - as in [`conv2d`]; output: `[B, H'/2, W'/2, O]`, halves rounded down
///
/// # Errors
/// As [`conv2d`].
pub fn conv2d_pooled(
    x: Tensor<4>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    window: ConvWindow,
    activation: Activation,
) -> Result<Tensor<4>, ShapeError> {
    let conv = Conv2d { has_bias: bias.is_some(), window, activation, recipe: None };
    let [_, height, width, _] = check::dims(
        "conv2d",
        "output",
        &conv.output_shape([&x.dims(), &weight.dims(), &fused::optional_shape(bias.as_ref())])?,
    )?;
    if fused::takes(&x) && height % 2 == 0 && width % 2 == 0 {
        let operands = [x.into_dispatch(), weight.into_dispatch(), fused::optional(bias)];
        return fused::apply(operands, PooledConv2d(conv));
    }
    let sums = conv2d(x, weight, bias, window, Activation::Identity, None)?;
    Ok(portable::activate(max_pool2d(sums, [2, 2], [2, 2])?, activation))
}

/// Flipout's convolution, act(x * μ + b + r∘((x∘s) * Δ)), with signs s and r of each example and channel from two streams. With a
/// recipe, x is not kept for the backward pass but made again.
///
/// # Shapes
/// - as in [`conv2d`], loc and deviation both as its weight
///
/// # Errors
/// As [`conv2d`].
pub fn conv2d_flipout(
    x: Tensor<4>,
    [loc, deviation]: [Tensor<2>; 2],
    bias: Option<Tensor<1>>,
    window: ConvWindow,
    [input_signs, output_signs]: [SignKey; 2],
    activation: Activation,
    recipe: Option<NormRecipe>,
) -> Result<Tensor<4>, ShapeError> {
    let conv = Conv2d { has_bias: bias.is_some(), window, activation, recipe };
    let op = FlipoutConv2d { conv, input_signs, output_signs };
    if fused::takes(&x) {
        let [loc, deviation] = [loc, deviation].map(Tensor::into_dispatch);
        return fused::apply([x.into_dispatch(), loc, deviation, fused::optional(bias)], op);
    }
    let bias_shape = fused::optional_shape(bias.as_ref());
    op.output_shape([&x.dims(), &loc.dims(), &deviation.dims(), &bias_shape])?;
    let mean = conv2d(x.clone(), loc, bias, window, Activation::Identity, None)?;
    let deviation = conv2d(apply_signs(x, input_signs)?, deviation, None, window, Activation::Identity, None)?;
    Ok(portable::activate(add_signed(mean, deviation, output_signs)?, activation))
}

#[derive(Clone, Debug)]
struct Conv2d {
    has_bias: bool,
    window: ConvWindow,
    activation: Activation,
    /// Makes x again.
    recipe: Option<NormRecipe>,
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

    /// Runs `task` on the elements of x in a backward pass: those that were kept, or made again.
    fn with_input<T>(&self, x: View<'_>, task: impl FnOnce(&[f32]) -> T) -> T {
        let Some(recipe) = &self.recipe else { return task(x.data) };
        let made = recipe.make();
        let result = task(&made);
        buffers::give(made);
        result
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

    fn remade(&self) -> Option<usize> {
        self.recipe.as_ref().map(|_| 0)
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
        if wanted[1] || wanted[2] {
            let (mut dweight, mut dbias) = (buffers::take(weight.data.len()), buffers::take(bias.data.len()));
            let dbias_out = self.has_bias.then_some(&mut dbias[..]);
            self.with_input(x, |x| conv::backward_weight(&mut dweight, dbias_out, d_out.values(), x, &shape))?;
            grads[1] = Grad::Values(dweight);
            grads[2] = if self.has_bias { Grad::Values(dbias) } else { Grad::None };
        }
        // After the weights, so that an x that was made again has given its memory back.
        if wanted[0] {
            let mut dx = buffers::take(x.len());
            conv::backward_input(&mut dx, d_out.values(), weight.data, &shape)?;
            grads[0] = Grad::Values(dx);
        }
        Ok(grads)
    }
}

/// A convolution of which only the largest sum of every 2×2 is wanted.
#[derive(Clone, Debug)]
struct PooledConv2d(Conv2d);

impl FusedOp<3> for PooledConv2d {
    /// Which of the four was the largest.
    type Tape = Vec<u8>;

    fn output_shape(&self, shapes: [&[usize]; 3]) -> Result<Vec<usize>, ShapeError> {
        let [batch, height, width, outputs] = check::dims("conv2d", "output", &self.0.output_shape(shapes)?)?;
        Ok(vec![batch, height / 2, width / 2, outputs])
    }

    fn forward(&self, [x, weight, bias]: [View<'_>; 3], _: bool) -> Result<(Vec<f32>, Vec<u8>), ShapeError> {
        let shape = self.0.shape(x.shape, weight.shape)?;
        let len = shape.batch * (shape.out_height()? / 2) * (shape.out_width()? / 2) * shape.outputs;
        let (mut y, mut argmax) = (buffers::take(len), vec![0; len]);
        let bias = bias.when(self.0.has_bias);
        pooled::forward(&mut y, &mut argmax, x.data, weight.data, bias, &shape, self.0.activation)?;
        Ok((y, argmax))
    }

    fn reads_output(&self) -> bool {
        self.0.reads_output()
    }

    fn backward(
        &self,
        saved: Saved<'_, 3, Vec<u8>>,
        mut d_out: OutputGrad<'_>,
        wanted: [bool; 3],
    ) -> Result<[Grad; 3], ShapeError> {
        let [x, weight, _] = saved.operands;
        let shape = self.0.shape(x.shape, weight.shape)?;
        if self.reads_output() {
            activation::backward(d_out.values_mut(), saved.output, self.0.activation)?;
        }
        let [x_wanted, weight_wanted, bias_wanted] = wanted;
        let bias_wanted = bias_wanted && self.0.has_bias;
        let mut grads = fused::grad_buffers(saved.operands, [x_wanted, weight_wanted || bias_wanted, bias_wanted]);
        let [d_x, d_weight, d_bias] = grads.each_mut().map(Option::as_deref_mut);
        if let Some(d_x) = d_x {
            pooled::backward_input(d_x, d_out.values(), &saved.tape, weight.data, &shape)?;
        }
        if let Some(d_weight) = d_weight {
            pooled::backward_weight(d_weight, d_bias, d_out.values(), &saved.tape, x.data, &shape)?;
        }
        Ok(fused::into_grads(grads))
    }
}

#[derive(Clone, Debug)]
struct FlipoutConv2d {
    conv: Conv2d,
    input_signs: SignKey,
    output_signs: SignKey,
}

impl FlipoutConv2d {
    fn weights<'a>(&self, loc: View<'a>, deviation: View<'a>) -> FlipoutWeights<'a> {
        let Self { input_signs, output_signs, .. } = *self;
        FlipoutWeights { loc: loc.data, deviation: deviation.data, input_signs, output_signs }
    }
}

impl FusedOp<4> for FlipoutConv2d {
    type Tape = ();

    fn output_shape(&self, [x, loc, deviation, bias]: [&[usize]; 4]) -> Result<Vec<usize>, ShapeError> {
        check::same("conv2d", "deviation", deviation, loc)?;
        self.conv.output_shape([x, loc, bias])
    }

    fn forward(&self, [x, loc, deviation, bias]: [View<'_>; 4], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let shape = self.conv.shape(x.shape, loc.shape)?;
        let mut y = buffers::take(shape.batch * shape.out_height()? * shape.out_width()? * shape.outputs);
        let (weights, bias) = (self.weights(loc, deviation), bias.when(self.conv.has_bias));
        flipout::forward(&mut y, x.data, weights, bias, &shape, self.conv.activation)?;
        Ok((y, ()))
    }

    fn reads_output(&self) -> bool {
        self.conv.reads_output()
    }

    fn remade(&self) -> Option<usize> {
        self.conv.remade()
    }

    fn backward(
        &self,
        saved: Saved<'_, 4, ()>,
        mut d_out: OutputGrad<'_>,
        mut wanted: [bool; 4],
    ) -> Result<[Grad; 4], ShapeError> {
        let [x, loc, deviation, _] = saved.operands;
        let shape = self.conv.shape(x.shape, loc.shape)?;
        if self.reads_output() {
            activation::backward(d_out.values_mut(), saved.output, self.conv.activation)?;
        }
        wanted[3] &= self.conv.has_bias;
        let mut grads = fused::grad_buffers(saved.operands, wanted);
        let [d_x, d_loc, d_deviation, d_bias] = grads.each_mut().map(Option::as_deref_mut);
        let kernel_grads = FlipoutGrads { x: d_x, loc: d_loc, deviation: d_deviation, bias: d_bias };
        let weights = self.weights(loc, deviation);
        self.conv.with_input(x, |x| flipout::backward(kernel_grads, d_out.values(), x, weights, &shape))?;
        Ok(fused::into_grads(grads))
    }
}
