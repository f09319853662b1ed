//! Batch normalisation over the last dimension's channels, with an optional rectifier fused in.

use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;
use ktied_kernels::activation::Activation;
use ktied_kernels::batch_norm::{self, BatchNorm, BatchNormGrads, Moments, MomentsMut};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// Mean and biased variance of each channel of one batch; running averages are made of them.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchMoments {
    /// `[C]`
    pub mean: Vec<f32>,
    /// `[C]`
    pub var: Vec<f32>,
}

/// act(γ·(x − mean)/√(var + ε) + β) with the mean and variance of this batch, which come back too.
///
/// # Shapes
/// - x, output: `[…, C]`; gamma, beta: `[C]`
///
/// # Errors
/// If the shapes do not fit or there is no row to take the mean of.
pub fn batch_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    activation: Activation,
) -> Result<(Tensor<D>, BatchMoments), ShapeError> {
    let op = Norm { epsilon: epsilon as f32, activation, moments: Arc::default() };
    op.output_shape([&x.dims(), &gamma.dims(), &beta.dims()])?;
    if !fused::takes(&x) {
        return Ok(portable::batch_norm(x, gamma, beta, epsilon, activation));
    }
    let moments = op.moments.clone();
    let y = fused::apply([x.into_dispatch(), gamma.into_dispatch(), beta.into_dispatch()], op)?;
    let moments = moments.get().cloned().unwrap_or(BatchMoments { mean: Vec::new(), var: Vec::new() });
    Ok((y, moments))
}

/// act(γ·(x − mean)/√(var + ε) + β) with given mean and variance, through which no gradient flows.
///
/// # Shapes
/// - x, output: `[…, C]`; gamma, beta, moments: `[C]`
///
/// # Errors
/// If the shapes do not fit.
pub fn frozen_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    moments: BatchMoments,
    epsilon: f64,
    activation: Activation,
) -> Result<Tensor<D>, ShapeError> {
    let op = FrozenNorm { epsilon: epsilon as f32, activation, moments: Arc::new(moments) };
    if fused::takes(&x) {
        return fused::apply([x.into_dispatch(), gamma.into_dispatch(), beta.into_dispatch()], op);
    }
    op.output_shape([&x.dims(), &gamma.dims(), &beta.dims()])?;
    Ok(portable::frozen_norm(x, gamma, beta, &op.moments, epsilon, activation))
}

/// How the output of a normalisation can be made again, bit for bit, from its input, which is kept for its own backward pass
/// anyway. A layer that is given one with its input does not keep that input.
#[derive(Clone, Debug)]
pub struct NormRecipe(Arc<Recipe>);

#[derive(Debug)]
struct Recipe {
    x: Tensor<1>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    moments: BatchMoments,
    epsilon: f32,
    activation: Activation,
}

impl NormRecipe {
    /// That of [`batch_norm()`] or [`frozen_norm`] with these operands and moments, if kernels compute it.
    pub fn new<const D: usize>(
        x: Tensor<D>,
        [gamma, beta]: [Tensor<1>; 2],
        moments: BatchMoments,
        epsilon: f64,
        activation: Activation,
    ) -> Option<Self> {
        if !fused::takes(&x) {
            return None;
        }
        let [gamma, beta] = [gamma, beta].map(|channels| channels.into_data().iter::<f32>().collect());
        let (len, epsilon) = (x.shape().num_elements(), epsilon as f32);
        Some(Self(Arc::new(Recipe { x: x.inner().reshape([len]), gamma, beta, moments, epsilon, activation })))
    }

    /// The output's elements.
    pub(super) fn make(&self) -> Vec<f32> {
        let Recipe { x, gamma, beta, moments, epsilon, activation } = &*self.0;
        let norm = BatchNorm { gamma, beta, epsilon: *epsilon, activation: *activation };
        let moments = Moments { mean: &moments.mean, var: &moments.var };
        fused::read([x.clone()], |[x]| {
            let mut y = buffers::take(x.len());
            batch_norm::forward_frozen(&mut y, x, norm, moments).expect("the forward pass has checked the operands");
            y
        })
    }
}

/// C, where x is `[…, C]` and γ, β are `[C]`.
fn channels(x: &[usize], gamma: &[usize], beta: &[usize]) -> Result<usize, ShapeError> {
    let Some(&channels) = x.last() else {
        return Err(ShapeError::Size {
            kernel: "batch_norm",
            operand: "dimensions of x",
            expected: "at least 1",
            found: 0,
        });
    };
    check::same("batch_norm", "gamma", gamma, &[channels])?;
    check::same("batch_norm", "beta", beta, &[channels])?;
    Ok(channels)
}

/// γ, β and what else both kinds share.
fn kernel_norm<'a>(gamma: View<'a>, beta: View<'a>, epsilon: f32, activation: Activation) -> BatchNorm<'a> {
    BatchNorm { gamma: gamma.data, beta: beta.data, epsilon, activation }
}

#[derive(Clone, Debug)]
struct Norm {
    epsilon: f32,
    activation: Activation,
    /// Where the forward pass leaves the batch's moments, which are no output of the graph.
    moments: Arc<OnceLock<BatchMoments>>,
}

impl FusedOp<3> for Norm {
    type Tape = BatchMoments;

    fn output_shape(&self, [x, gamma, beta]: [&[usize]; 3]) -> Result<Vec<usize>, ShapeError> {
        let channels = channels(x, gamma, beta)?;
        let rows = x.iter().take(x.len() - 1).product();
        check::size("batch_norm", "rows", rows, rows >= 1 || channels == 0, "at least 1")?;
        Ok(x.to_vec())
    }

    fn forward(&self, [x, gamma, beta]: [View<'_>; 3], _: bool) -> Result<(Vec<f32>, BatchMoments), ShapeError> {
        let norm = kernel_norm(gamma, beta, self.epsilon, self.activation);
        let mut y = buffers::take(x.data.len());
        let [mut mean, mut var] = [buffers::take(gamma.data.len()), buffers::take(gamma.data.len())];
        batch_norm::forward_train(&mut y, MomentsMut { mean: &mut mean, var: &mut var }, x.data, norm)?;
        let moments = BatchMoments { mean, var };
        let _ = self.moments.set(moments.clone());
        Ok((y, moments))
    }

    fn backward(
        &self,
        saved: Saved<'_, 3, BatchMoments>,
        d_out: OutputGrad<'_>,
        wanted: [bool; 3],
    ) -> Result<[Grad; 3], ShapeError> {
        let [x, gamma, beta] = saved.operands;
        let mut grads = fused::grad_buffers(saved.operands, wanted);
        let [d_x, d_gamma, d_beta] = grads.each_mut().map(Option::as_deref_mut);
        let moments = Moments { mean: &saved.tape.mean, var: &saved.tape.var };
        let kernel_grads = BatchNormGrads { x: d_x, gamma: d_gamma, beta: d_beta };
        batch_norm::backward_train(
            kernel_grads,
            d_out.values(),
            x.data,
            kernel_norm(gamma, beta, self.epsilon, self.activation),
            moments,
        )?;
        Ok(fused::into_grads(grads))
    }
}

#[derive(Clone, Debug)]
struct FrozenNorm {
    epsilon: f32,
    activation: Activation,
    moments: Arc<BatchMoments>,
}

impl FrozenNorm {
    fn moments(&self) -> Moments<'_> {
        Moments { mean: &self.moments.mean, var: &self.moments.var }
    }
}

impl FusedOp<3> for FrozenNorm {
    type Tape = ();

    fn output_shape(&self, [x, gamma, beta]: [&[usize]; 3]) -> Result<Vec<usize>, ShapeError> {
        let channels = channels(x, gamma, beta)?;
        check::same("frozen_norm", "moments.mean", &[self.moments.mean.len()], &[channels])?;
        check::same("frozen_norm", "moments.var", &[self.moments.var.len()], &[channels])?;
        Ok(x.to_vec())
    }

    fn forward(&self, [x, gamma, beta]: [View<'_>; 3], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let mut y = buffers::take(x.data.len());
        batch_norm::forward_frozen(
            &mut y,
            x.data,
            kernel_norm(gamma, beta, self.epsilon, self.activation),
            self.moments(),
        )?;
        Ok((y, ()))
    }

    fn backward(
        &self,
        saved: Saved<'_, 3, ()>,
        d_out: OutputGrad<'_>,
        wanted: [bool; 3],
    ) -> Result<[Grad; 3], ShapeError> {
        let [x, gamma, beta] = saved.operands;
        let mut grads = fused::grad_buffers(saved.operands, wanted);
        let [d_x, d_gamma, d_beta] = grads.each_mut().map(Option::as_deref_mut);
        let kernel_grads = BatchNormGrads { x: d_x, gamma: d_gamma, beta: d_beta };
        batch_norm::backward_frozen(
            kernel_grads,
            d_out.values(),
            x.data,
            kernel_norm(gamma, beta, self.epsilon, self.activation),
            self.moments(),
        )?;
        Ok(fused::into_grads(grads))
    }
}
