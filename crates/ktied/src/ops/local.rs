//! Local reparameterisation of a dense layer: noise on the activations instead of on the weights.

use burn::tensor::Tensor;
use ktied_kernels::activation::{self, Activation};
use ktied_kernels::dense::{self, DenseGrads, DenseShape, DenseTape};
use ktied_kernels::local::{self, KTiedLocalGrads, LocalLayer, MeanFieldLocalGrads, RawScale};
use ktied_kernels::{NoiseKey, ScaleForm, ShapeError};

use super::draw::log_factors;
use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// A dense layer in a pass of local reparameterisation, besides its kernel.
#[derive(Clone, Debug)]
pub struct LocalInput {
    /// `[B, M]`
    pub x: Tensor<2>,
    /// Means of the bias, `[N]`.
    pub bias: Option<Tensor<1>>,
    /// Scales of the bias, if it is uncertain.
    pub bias_scale: Option<BiasScale>,
    /// Applied to the noisy sums.
    pub activation: Activation,
    /// The sums get its normals, row by row.
    pub key: NoiseKey,
    /// Number of the first row among the examples that share the normals: its noise begins there. 0 in training.
    pub first: usize,
}

/// Standard deviations of a bias as they are stored, `[N]`.
#[derive(Clone, Debug)]
pub struct BiasScale {
    /// The stored numbers.
    pub raw: Tensor<1>,
    /// How they are stored.
    pub form: ScaleForm,
}

/// A k-tied dense layer, act(x·μ + b + √(x²σ² + σ_b² + 1e-12) ∘ ε), whose noise costs O(B(M + N)R).
///
/// # Shapes
/// - loc: `[M, N]`; log_u: `[M, K]`; log_v: `[N, K]`; output: `[B, N]`
///
/// # Errors
/// If the shapes do not fit.
pub fn local_k_tied(
    input: LocalInput,
    loc: Tensor<2>,
    log_u: Tensor<2>,
    log_v: Tensor<2>,
) -> Result<Tensor<2>, ShapeError> {
    let op = LocalKTied(Layer::of(&input));
    if fused::takes(&input.x) {
        let [x, loc, log_u, log_v] = [input.x, loc, log_u, log_v].map(Tensor::into_dispatch);
        let [bias, raw] = [input.bias, input.bias_scale.map(|bias| bias.raw)].map(fused::optional);
        return fused::apply([x, loc, log_u, log_v, bias, raw], op);
    }
    let [bias, raw] = optional_shapes(&input);
    op.output_shape([&input.x.dims(), &loc.dims(), &log_u.dims(), &log_v.dims(), &bias, &raw])?;
    Ok(portable::local_dense(input, loc, Some(portable::k_tied_variance(log_u, log_v))))
}

/// A mean-field dense layer, act(x·μ + b + √(x²σ² + σ_b² + 1e-12) ∘ ε), whose noise costs a second product, x²σ².
///
/// # Shapes
/// - loc, raw_scale: `[M, N]`; output: `[B, N]`
///
/// # Errors
/// If the shapes do not fit.
pub fn local_mean_field(
    input: LocalInput,
    loc: Tensor<2>,
    raw_scale: Tensor<2>,
    form: ScaleForm,
) -> Result<Tensor<2>, ShapeError> {
    let op = LocalMeanField { layer: Layer::of(&input), form };
    if fused::takes(&input.x) {
        let [x, loc, raw_scale] = [input.x, loc, raw_scale].map(Tensor::into_dispatch);
        let [bias, raw] = [input.bias, input.bias_scale.map(|bias| bias.raw)].map(fused::optional);
        return fused::apply([x, loc, raw_scale, bias, raw], op);
    }
    let [bias, raw] = optional_shapes(&input);
    op.output_shape([&input.x.dims(), &loc.dims(), &raw_scale.dims(), &bias, &raw])?;
    let variance = portable::scale(raw_scale, form).square();
    Ok(portable::local_dense(input, loc, Some(variance)))
}

/// act(mean + sd∘ε), where the normals ε begin at row `first`.
///
/// # Shapes
/// - mean, sd, output: `[B, N]`
///
/// # Errors
/// If the shapes differ.
pub fn add_noise(
    mean: Tensor<2>,
    sd: Tensor<2>,
    (key, first): (NoiseKey, usize),
    activation: Activation,
) -> Result<Tensor<2>, ShapeError> {
    let op = AddNoise { key, first: first * mean.dims()[1], activation };
    if fused::takes(&mean) {
        return fused::apply([mean.into_dispatch(), sd.into_dispatch()], op);
    }
    op.output_shape([&mean.dims(), &sd.dims()])?;
    Ok(portable::add_noise(mean, sd, (key, first), activation))
}

fn optional_shapes(input: &LocalInput) -> [Vec<usize>; 2] {
    [input.bias.as_ref(), input.bias_scale.as_ref().map(|bias| &bias.raw)].map(fused::optional_shape)
}

/// What both kinds of layers have in common.
#[derive(Clone, Copy, Debug)]
struct Layer {
    has_bias: bool,
    bias_form: Option<ScaleForm>,
    activation: Activation,
    key: NoiseKey,
    first: usize,
}

/// The gradients of x, the means and the bias's means.
type MeanGrads = [Option<Vec<f32>>; 3];

impl Layer {
    fn of(input: &LocalInput) -> Self {
        let bias_form = input.bias_scale.as_ref().map(|bias| bias.form);
        let LocalInput { activation, key, first, .. } = *input;
        Self { has_bias: input.bias.is_some(), bias_form, activation, key, first }
    }

    /// `[B, N]`, if all operands but the scales fit the weights, `[M, N]`.
    fn check(
        &self,
        kernel: &'static str,
        [m, n]: [usize; 2],
        [x, loc, bias, raw]: [&[usize]; 4],
    ) -> Result<Vec<usize>, ShapeError> {
        let [batch, _] = check::dims(kernel, "x", x)?;
        check::size(kernel, "batch", batch, batch >= 1, "at least 1")?;
        check::same(kernel, "x", x, &[batch, m])?;
        check::same(kernel, "loc", loc, &[m, n])?;
        check::same_if(kernel, "bias", self.has_bias.then_some(bias), &[n])?;
        check::same_if(kernel, "bias_scale", self.bias_form.map(|_| raw), &[n])?;
        Ok(vec![batch, n])
    }

    fn noise<'a>(&self, x: View<'a>, loc: View<'a>, raw: View<'a>) -> LocalLayer<'a> {
        let bias = self.bias_form.map(|form| RawScale { raw: raw.data, form });
        let first = self.first * loc.shape[1];
        LocalLayer { x: x.data, batch: x.shape[0], bias, key: self.key, first, activation: self.activation }
    }

    /// x·μ + b
    fn means(&self, [x, loc, bias]: [View<'_>; 3]) -> Result<Vec<f32>, ShapeError> {
        let shape = dense_shape(x, loc);
        let mut y = buffers::take(shape.batch * shape.outputs);
        dense::forward(&mut y, x.data, loc.data, bias.when(self.has_bias), shape, Activation::Identity)?;
        Ok(y)
    }

    /// Turns the gradient of the output into that of the sums, in place, and gives what comes through the means.
    fn means_backward(
        &self,
        [x, loc, bias]: [View<'_>; 3],
        y: &[f32],
        dz: &mut [f32],
        [x_wanted, loc_wanted, bias_wanted]: [bool; 3],
    ) -> Result<MeanGrads, ShapeError> {
        activation::backward(dz, y, self.activation)?;
        let mut grads = fused::grad_buffers([x, loc, bias], [x_wanted, loc_wanted, bias_wanted && self.has_bias]);
        let [d_x, d_loc, d_bias] = grads.each_mut().map(Option::as_deref_mut);
        let tape = DenseTape { x: x.data, weight: loc.data, y: &[] };
        let kernel_grads = DenseGrads { x: d_x, weight: d_loc, bias: d_bias };
        dense::backward(kernel_grads, dz, tape, dense_shape(x, loc), Activation::Identity)?;
        Ok(grads)
    }

    fn reads_output(&self) -> bool {
        self.activation != Activation::Identity
    }

    /// A place for the gradient of the bias's scales, if it has any.
    fn bias_grad(&self, raw: View<'_>) -> Option<Vec<f32>> {
        self.bias_form.map(|_| buffers::take(raw.data.len()))
    }
}

fn dense_shape(x: View<'_>, loc: View<'_>) -> DenseShape {
    DenseShape { batch: x.shape[0], inputs: loc.shape[0], outputs: loc.shape[1] }
}

#[derive(Clone, Copy, Debug)]
struct LocalKTied(Layer);

impl FusedOp<6> for LocalKTied {
    /// x²P, and the slopes of the sums by their variances.
    type Tape = Vec<f32>;

    fn output_shape(&self, [x, loc, u, v, bias, raw]: [&[usize]; 6]) -> Result<Vec<usize>, ShapeError> {
        self.0.check("local_k_tied", check::factors("local_k_tied", u, v)?, [x, loc, bias, raw])
    }

    fn forward(
        &self,
        [x, loc, u, v, bias, raw]: [View<'_>; 6],
        track: bool,
    ) -> Result<(Vec<f32>, Vec<f32>), ShapeError> {
        let factors = log_factors(u, v);
        let mut y = self.0.means([x, loc, bias])?;
        let mut tape = buffers::take(x.shape[0] * (factors.rank * (factors.rank + 1) / 2 + factors.num_cols));
        local::k_tied(&mut y, &mut tape, self.0.noise(x, loc, raw), factors)?;
        Ok((y, buffers::keep_if(track, tape)))
    }

    fn reads_output(&self) -> bool {
        self.0.reads_output()
    }

    fn backward(
        &self,
        saved: Saved<'_, 6, Vec<f32>>,
        mut d_out: OutputGrad<'_>,
        [x_wanted, loc_wanted, _, _, bias_wanted, _]: [bool; 6],
    ) -> Result<[Grad; 6], ShapeError> {
        let [x, loc, u, v, bias, raw] = saved.operands;
        let (wanted, dz) = ([x_wanted, loc_wanted, bias_wanted], d_out.values_mut());
        let mut means = self.0.means_backward([x, loc, bias], saved.output, dz, wanted)?;
        let ([mut d_u, mut d_v], mut d_raw) =
            ([u, v].map(|view| buffers::take(view.data.len())), self.0.bias_grad(raw));
        let grads = KTiedLocalGrads {
            x: means[0].as_deref_mut(),
            log_u: &mut d_u,
            log_v: &mut d_v,
            bias_raw: d_raw.as_deref_mut(),
        };
        local::k_tied_backward(grads, dz, &saved.tape, self.0.noise(x, loc, raw), log_factors(u, v))?;
        buffers::give(saved.tape);
        let [d_x, d_loc, d_bias] = means;
        Ok(fused::into_grads([d_x, d_loc, Some(d_u), Some(d_v), d_bias, d_raw]))
    }
}

#[derive(Clone, Copy, Debug)]
struct LocalMeanField {
    layer: Layer,
    form: ScaleForm,
}

impl FusedOp<5> for LocalMeanField {
    /// The slopes of the sums by their variances.
    type Tape = Vec<f32>;

    fn output_shape(&self, [x, loc, raw_scale, bias, raw]: [&[usize]; 5]) -> Result<Vec<usize>, ShapeError> {
        let weights = check::dims("local_mean_field", "raw_scale", raw_scale)?;
        self.layer.check("local_mean_field", weights, [x, loc, bias, raw])
    }

    fn forward(
        &self,
        [x, loc, raw_scale, bias, raw]: [View<'_>; 5],
        track: bool,
    ) -> Result<(Vec<f32>, Vec<f32>), ShapeError> {
        let mut y = self.layer.means([x, loc, bias])?;
        let mut tape = buffers::take(y.len());
        let scale = RawScale { raw: raw_scale.data, form: self.form };
        local::mean_field(&mut y, &mut tape, self.layer.noise(x, loc, raw), scale)?;
        Ok((y, buffers::keep_if(track, tape)))
    }

    fn reads_output(&self) -> bool {
        self.layer.reads_output()
    }

    fn backward(
        &self,
        saved: Saved<'_, 5, Vec<f32>>,
        mut d_out: OutputGrad<'_>,
        [x_wanted, loc_wanted, _, bias_wanted, _]: [bool; 5],
    ) -> Result<[Grad; 5], ShapeError> {
        let [x, loc, raw_scale, bias, raw] = saved.operands;
        let (wanted, dz) = ([x_wanted, loc_wanted, bias_wanted], d_out.values_mut());
        let mut means = self.layer.means_backward([x, loc, bias], saved.output, dz, wanted)?;
        let (mut d_scale, mut d_raw) = (buffers::take(raw_scale.data.len()), self.layer.bias_grad(raw));
        let x_grad = means[0].as_deref_mut();
        let grads = MeanFieldLocalGrads { x: x_grad, raw_scale: &mut d_scale, bias_raw: d_raw.as_deref_mut() };
        let scale = RawScale { raw: raw_scale.data, form: self.form };
        local::mean_field_backward(grads, dz, &saved.tape, self.layer.noise(x, loc, raw), scale)?;
        buffers::give(saved.tape);
        let [d_x, d_loc, d_bias] = means;
        Ok(fused::into_grads([d_x, d_loc, Some(d_scale), d_bias, d_raw]))
    }
}

#[derive(Clone, Copy, Debug)]
struct AddNoise {
    key: NoiseKey,
    /// Number of the first element.
    first: usize,
    activation: Activation,
}

impl FusedOp<2> for AddNoise {
    type Tape = ();

    fn output_shape(&self, [mean, sd]: [&[usize]; 2]) -> Result<Vec<usize>, ShapeError> {
        check::same("add_noise", "sd", sd, mean)?;
        Ok(mean.to_vec())
    }

    fn forward(&self, [mean, sd]: [View<'_>; 2], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let mut y = buffers::take(mean.data.len());
        local::noisy(&mut y, mean.data, sd.data, (self.key, self.first), self.activation)?;
        Ok((y, ()))
    }

    fn reads_output(&self) -> bool {
        self.activation != Activation::Identity
    }

    fn backward(
        &self,
        saved: Saved<'_, 2, ()>,
        mut d_out: OutputGrad<'_>,
        _: [bool; 2],
    ) -> Result<[Grad; 2], ShapeError> {
        let dz = d_out.values_mut();
        activation::backward(dz, saved.output, self.activation)?;
        let mut d_sd = buffers::take(dz.len());
        local::noisy_backward(&mut d_sd, dz, (self.key, self.first))?;
        Ok([Grad::OfOutput, Grad::Values(d_sd)])
    }
}
