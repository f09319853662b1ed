//! A dense layer: y = act(x·W + b).

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::activation::Activation;
use ktied_kernels::dense::{self, DenseGrads, DenseShape, DenseTape};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// act(x·W + b).
///
/// # Shapes
/// - x: `[B, M]`; weight: `[M, N]`; bias: `[N]`; output: `[B, N]`
///
/// # Errors
/// If the shapes do not fit.
pub fn dense(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    activation: Activation,
) -> Result<Tensor<2>, ShapeError> {
    let op = Dense { has_bias: bias.is_some(), activation };
    if fused::takes(&x) {
        return fused::apply([x.into_dispatch(), weight.into_dispatch(), fused::optional(bias)], op);
    }
    let bias_shape = fused::optional_shape(bias.as_ref());
    op.output_shape([&x.dims(), &weight.dims(), &bias_shape])?;
    Ok(portable::dense(x, weight, bias, activation))
}

#[derive(Clone, Copy, Debug)]
struct Dense {
    has_bias: bool,
    activation: Activation,
}

fn shape_of(x: View<'_>, weight: View<'_>) -> DenseShape {
    DenseShape { batch: x.shape[0], inputs: weight.shape[0], outputs: weight.shape[1] }
}

impl FusedOp<3> for Dense {
    type Tape = ();

    fn output_shape(&self, [x, weight, bias]: [&[usize]; 3]) -> Result<Vec<usize>, ShapeError> {
        let [batch, _] = check::dims("dense", "x", x)?;
        let [m, n] = check::dims("dense", "weight", weight)?;
        check::same("dense", "x", x, &[batch, m])?;
        check::same_if("dense", "bias", self.has_bias.then_some(bias), &[n])?;
        Ok(vec![batch, n])
    }

    fn forward(&self, [x, weight, bias]: [View<'_>; 3], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let shape = shape_of(x, weight);
        let mut y = buffers::take(shape.batch * shape.outputs);
        dense::forward(&mut y, x.data, weight.data, bias.when(self.has_bias), shape, self.activation)?;
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
        let [x, weight, _] = saved.operands;
        let [x_wanted, weight_wanted, bias_wanted] = wanted;
        let mut grads = fused::grad_buffers(saved.operands, [x_wanted, weight_wanted, bias_wanted && self.has_bias]);
        let [d_x, d_weight, d_bias] = grads.each_mut().map(Option::as_deref_mut);
        let kernel_grads = DenseGrads { x: d_x, weight: d_weight, bias: d_bias };
        let tape = DenseTape { x: x.data, weight: weight.data, y: saved.output };
        dense::backward(kernel_grads, d_out.values_mut(), tape, shape_of(x, weight), self.activation)?;
        Ok(fused::into_grads(grads))
    }
}
