//! Local reparameterisation of a dense layer: noise on the activations instead of on the weights.

use burn::tensor::Tensor;
use ktied_kernels::local::{self, KTiedLocalGrads, LocalLayer, MeanFieldLocalGrads, RawScale};
use ktied_kernels::{NoiseKey, ScaleForm, ShapeError};

use super::draw::log_factors;
use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{check, portable};

/// Adds the noise of a k-tied layer to its mean activations: mean + √(x²σ² + σ_b² + 1e-12) ∘ ε, in O(B(M + N)R).
///
/// `bias_raw` is the stored scale of a mean-field bias, whose mean is part of `mean`.
///
/// # Shapes
/// - mean, output: `[B, N]`; x: `[B, M]`; log_u: `[M, K]`; log_v: `[N, K]`; bias_raw: `[N]`
///
/// # Errors
/// If the shapes do not fit.
pub fn local_k_tied(
    mean: Tensor<2>,
    x: Tensor<2>,
    log_u: Tensor<2>,
    log_v: Tensor<2>,
    bias_raw: Option<Tensor<1>>,
    bias_form: ScaleForm,
    key: NoiseKey,
) -> Result<Tensor<2>, ShapeError> {
    let op = LocalKTied { has_bias: bias_raw.is_some(), bias_form, key };
    if fused::takes(&mean) {
        let operands = [mean, x, log_u, log_v].map(Tensor::into_dispatch);
        let [mean, x, log_u, log_v] = operands;
        return fused::apply([mean, x, log_u, log_v, fused::optional(bias_raw)], op);
    }
    let bias_shape = fused::optional_shape(bias_raw.as_ref());
    op.output_shape([&mean.dims(), &x.dims(), &log_u.dims(), &log_v.dims(), &bias_shape])?;
    let variance = portable::k_tied_variance(log_u, log_v);
    Ok(portable::add_local_noise(mean, x, variance, bias_raw, bias_form, key))
}

/// Adds the noise of a mean-field layer to its mean activations: mean + √(x²σ² + σ_b² + 1e-12) ∘ ε.
///
/// # Shapes
/// - mean, output: `[B, N]`; x: `[B, M]`; raw_scale: `[M, N]`; bias_raw: `[N]`
///
/// # Errors
/// If the shapes do not fit.
pub fn local_mean_field(
    mean: Tensor<2>,
    x: Tensor<2>,
    raw_scale: Tensor<2>,
    bias_raw: Option<Tensor<1>>,
    form: ScaleForm,
    key: NoiseKey,
) -> Result<Tensor<2>, ShapeError> {
    let op = LocalMeanField { has_bias: bias_raw.is_some(), form, key };
    if fused::takes(&mean) {
        let [mean, x, raw_scale] = [mean, x, raw_scale].map(Tensor::into_dispatch);
        return fused::apply([mean, x, raw_scale, fused::optional(bias_raw)], op);
    }
    let bias_shape = fused::optional_shape(bias_raw.as_ref());
    op.output_shape([&mean.dims(), &x.dims(), &raw_scale.dims(), &bias_shape])?;
    let variance = portable::scale(raw_scale, form).square();
    Ok(portable::add_local_noise(mean, x, variance, bias_raw, form, key))
}

/// `[B, M, N]`, where the weights are `[M, N]`.
fn check_layer(
    kernel: &'static str,
    mean: &[usize],
    x: &[usize],
    [m, n]: [usize; 2],
    bias: Option<&[usize]>,
) -> Result<(), ShapeError> {
    let [batch, _] = check::dims(kernel, "mean", mean)?;
    check::size(kernel, "batch", batch, batch >= 1, "at least 1")?;
    check::same(kernel, "mean", mean, &[batch, n])?;
    check::same(kernel, "x", x, &[batch, m])?;
    check::same_if(kernel, "bias_raw", bias, &[n])
}

#[derive(Clone, Copy, Debug)]
struct LocalKTied {
    has_bias: bool,
    bias_form: ScaleForm,
    key: NoiseKey,
}

impl LocalKTied {
    fn layer<'a>(&self, x: View<'a>, bias: View<'a>) -> LocalLayer<'a> {
        let bias = bias.when(self.has_bias).map(|raw| RawScale { raw, form: self.bias_form });
        LocalLayer { x: x.data, batch: x.shape[0], bias, key: self.key }
    }
}

impl FusedOp<5> for LocalKTied {
    type Tape = Vec<f32>;

    fn output_shape(&self, [mean, x, u, v, bias]: [&[usize]; 5]) -> Result<Vec<usize>, ShapeError> {
        let weights = check::factors("local_k_tied", u, v)?;
        check_layer("local_k_tied", mean, x, weights, self.has_bias.then_some(bias))?;
        Ok(mean.to_vec())
    }

    fn forward(&self, [mean, x, u, v, bias]: [View<'_>; 5], _: bool) -> Result<(Vec<f32>, Vec<f32>), ShapeError> {
        let (batch, factors) = (mean.shape[0], log_factors(u, v));
        let mut y = mean.data.to_vec();
        let mut tape = vec![0.0; batch * factors.rank * (factors.rank + 1) / 2];
        local::k_tied(&mut y, &mut tape, self.layer(x, bias), factors)?;
        Ok((y, tape))
    }

    fn backward(
        &self,
        saved: Saved<'_, 5, Vec<f32>>,
        d_out: OutputGrad<'_>,
        _: [bool; 5],
    ) -> Result<[Grad; 5], ShapeError> {
        let [_, x, u, v, bias] = saved.operands;
        let [mut d_x, mut d_u, mut d_v, mut d_bias] = [x, u, v, bias].map(|view| vec![0.0; view.data.len()]);
        let bias_raw = self.has_bias.then_some(&mut d_bias[..]);
        let grads = KTiedLocalGrads { x: &mut d_x, log_u: &mut d_u, log_v: &mut d_v, bias_raw };
        local::k_tied_backward(grads, d_out.values(), &saved.tape, self.layer(x, bias), log_factors(u, v))?;
        Ok([Grad::OfOutput, Grad::Values(d_x), Grad::Values(d_u), Grad::Values(d_v), Grad::Values(d_bias)])
    }
}

#[derive(Clone, Copy, Debug)]
struct LocalMeanField {
    has_bias: bool,
    form: ScaleForm,
    key: NoiseKey,
}

impl LocalMeanField {
    fn scale<'a>(&self, raw: View<'a>) -> RawScale<'a> {
        RawScale { raw: raw.data, form: self.form }
    }

    fn layer<'a>(&self, x: View<'a>, bias: View<'a>) -> LocalLayer<'a> {
        let bias = self.has_bias.then(|| self.scale(bias));
        LocalLayer { x: x.data, batch: x.shape[0], bias, key: self.key }
    }
}

impl FusedOp<4> for LocalMeanField {
    type Tape = Vec<f32>;

    fn output_shape(&self, [mean, x, raw, bias]: [&[usize]; 4]) -> Result<Vec<usize>, ShapeError> {
        let weights = check::dims("local_mean_field", "raw_scale", raw)?;
        check_layer("local_mean_field", mean, x, weights, self.has_bias.then_some(bias))?;
        Ok(mean.to_vec())
    }

    fn forward(&self, [mean, x, raw, bias]: [View<'_>; 4], _: bool) -> Result<(Vec<f32>, Vec<f32>), ShapeError> {
        let (mut y, mut tape) = (mean.data.to_vec(), vec![0.0; mean.data.len()]);
        local::mean_field(&mut y, &mut tape, self.layer(x, bias), self.scale(raw))?;
        Ok((y, tape))
    }

    fn backward(
        &self,
        saved: Saved<'_, 4, Vec<f32>>,
        d_out: OutputGrad<'_>,
        _: [bool; 4],
    ) -> Result<[Grad; 4], ShapeError> {
        let [_, x, raw, bias] = saved.operands;
        let [mut d_x, mut d_raw, mut d_bias] = [x, raw, bias].map(|view| vec![0.0; view.data.len()]);
        let bias_raw = self.has_bias.then_some(&mut d_bias[..]);
        let grads = MeanFieldLocalGrads { x: &mut d_x, raw_scale: &mut d_raw, bias_raw };
        let (layer, scale) = (self.layer(x, bias), self.scale(raw));
        local::mean_field_backward(grads, d_out.values(), &saved.tape, layer, scale)?;
        Ok([Grad::OfOutput, Grad::Values(d_x), Grad::Values(d_raw), Grad::Values(d_bias)])
    }
}
