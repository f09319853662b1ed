//! Negative log-likelihoods of labels, one per example, in nats.

use std::sync::Arc;

use burn::tensor::Tensor;
use ktied_kernels::{ShapeError, softmax};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// −ln softmax(logits) at the label, of every example.
///
/// # Shapes
/// - logits: `[B, N]`; labels: B of them; output: `[B]`
///
/// # Errors
/// If the shapes do not fit or a label is not below N.
pub fn softmax_cross_entropy(logits: Tensor<2>, labels: &[u32]) -> Result<Tensor<1>, ShapeError> {
    let op = SoftmaxCrossEntropy { labels: labels.into() };
    if fused::takes(&logits) {
        return fused::apply([logits.into_dispatch()], op);
    }
    op.output_shape([&logits.dims()])?;
    Ok(portable::softmax_cross_entropy(logits, labels))
}

/// −ln of the Bernoulli likelihood of every target in [0, 1]: ln(1 + eᶻ) − t·z.
///
/// # Shapes
/// - logits: `[B]`; targets: B of them; output: `[B]`
///
/// # Errors
/// If the lengths differ.
pub fn sigmoid_cross_entropy(logits: Tensor<1>, targets: &[f32]) -> Result<Tensor<1>, ShapeError> {
    let op = SigmoidCrossEntropy { targets: targets.into() };
    if fused::takes(&logits) {
        return fused::apply([logits.into_dispatch()], op);
    }
    op.output_shape([&logits.dims()])?;
    Ok(portable::sigmoid_cross_entropy(logits, targets))
}

#[derive(Clone, Debug)]
struct SoftmaxCrossEntropy {
    labels: Arc<[u32]>,
}

impl FusedOp<1> for SoftmaxCrossEntropy {
    /// The probabilities.
    type Tape = Vec<f32>;

    fn output_shape(&self, [logits]: [&[usize]; 1]) -> Result<Vec<usize>, ShapeError> {
        let [batch, classes] = check::dims("softmax_cross_entropy", "logits", logits)?;
        check::same("softmax_cross_entropy", "labels", &[self.labels.len()], &[batch])?;
        let largest = self.labels.iter().max().map_or(0, |&label| label as usize);
        let fits = self.labels.is_empty() || largest < classes;
        check::size("softmax_cross_entropy", "label", largest, fits, "below the number of classes")?;
        Ok(vec![batch])
    }

    fn forward(&self, [logits]: [View<'_>; 1], _: bool) -> Result<(Vec<f32>, Vec<f32>), ShapeError> {
        let (mut loss, mut probabilities) = (buffers::take(self.labels.len()), buffers::take(logits.data.len()));
        softmax::cross_entropy(&mut loss, &mut probabilities, logits.data, &self.labels, logits.shape[1])?;
        Ok((loss, probabilities))
    }

    fn backward(
        &self,
        saved: Saved<'_, 1, Vec<f32>>,
        d_out: OutputGrad<'_>,
        _: [bool; 1],
    ) -> Result<[Grad; 1], ShapeError> {
        let [logits] = saved.operands;
        let mut d_logits = buffers::take(logits.data.len());
        let classes = logits.shape[1];
        softmax::cross_entropy_backward(&mut d_logits, &saved.tape, &self.labels, d_out.values(), classes)?;
        buffers::give(saved.tape);
        Ok([Grad::Values(d_logits)])
    }
}

#[derive(Clone, Debug)]
struct SigmoidCrossEntropy {
    targets: Arc<[f32]>,
}

impl FusedOp<1> for SigmoidCrossEntropy {
    type Tape = ();

    fn output_shape(&self, [logits]: [&[usize]; 1]) -> Result<Vec<usize>, ShapeError> {
        check::same("sigmoid_cross_entropy", "targets", &[self.targets.len()], logits)?;
        Ok(logits.to_vec())
    }

    fn forward(&self, [logits]: [View<'_>; 1], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let mut loss = buffers::take(logits.data.len());
        softmax::sigmoid_cross_entropy(&mut loss, logits.data, &self.targets)?;
        Ok((loss, ()))
    }

    fn backward(&self, saved: Saved<'_, 1, ()>, d_out: OutputGrad<'_>, _: [bool; 1]) -> Result<[Grad; 1], ShapeError> {
        let [logits] = saved.operands;
        let mut d_logits = buffers::take(logits.data.len());
        softmax::sigmoid_cross_entropy_backward(&mut d_logits, logits.data, &self.targets, d_out.values())?;
        Ok([Grad::Values(d_logits)])
    }
}
