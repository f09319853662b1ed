//! Draws, divergences, local noise, signs, dropout and Adam.

use burn::tensor::{Tensor, TensorData, activation};
use ktied_kernels::activation::Activation;
use ktied_kernels::adam::AdamStep;
use ktied_kernels::dropout::{self, DropoutRate};
use ktied_kernels::signs::SignKey;
use ktied_kernels::signs::SignShape;
use ktied_kernels::{NoiseKey, ScaleForm, local::VARIANCE_FLOOR, noise, signs as kernel};

use super::network::{activate, dense};
use crate::ops::{BiasScale, LocalInput};

/// Standard normals of the key's stream in the shape of `like`, made on the host.
pub fn normals<const D: usize>(like: &Tensor<D>, key: NoiseKey) -> Tensor<D> {
    normals_from(like, (key, 0))
}

/// The same from row `first` on.
fn normals_from<const D: usize>(like: &Tensor<D>, (key, first): (NoiseKey, usize)) -> Tensor<D> {
    let mut values = vec![0.0f32; like.dims().iter().product()];
    let row = like.dims().iter().skip(1).product::<usize>();
    noise::normals(key, (first * row) as u64, &mut values);
    upload(values, like)
}

/// ±1 per example and channel in the shape of `like`, `[B, …, C]`, made on the host.
pub fn signs<const D: usize>(like: &Tensor<D>, key: impl Into<SignKey>) -> Tensor<D> {
    let dims = like.dims();
    let (batch, channels) = (dims.first().copied().unwrap_or(1), dims.last().copied().unwrap_or(1));
    let len: usize = dims.iter().product();
    let shape = SignShape { batch, positions: len / (batch * channels).max(1), channels };
    let mut values = vec![1.0f32; len];
    if kernel::apply(&mut values, &vec![1.0; len], shape, key).is_err() {
        unreachable!("the shape is made of the tensor's own sizes");
    }
    upload(values, like)
}

/// 0 or 1/(1 − p) per element in the shape of `like`, from an element of the key's stream on, made on the host.
pub fn dropout_mask<const D: usize>(like: &Tensor<D>, rate: DropoutRate, noise: (NoiseKey, usize)) -> Tensor<D> {
    let len: usize = like.dims().iter().product();
    let mut values = vec![0.0f32; len];
    if dropout::apply(&mut values, &vec![1.0; len], rate, noise).is_err() {
        unreachable!("both are of the tensor's own length");
    }
    upload(values, like)
}

fn upload<const D: usize>(values: Vec<f32>, like: &Tensor<D>) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, like.dims()), (&like.device(), like.dtype()))
}

/// σ of stored numbers.
pub fn scale<const D: usize>(raw: Tensor<D>, form: ScaleForm) -> Tensor<D> {
    match form {
        ScaleForm::Log => raw.exp(),
        ScaleForm::Softplus => activation::softplus(raw, 1.0),
    }
}

/// σ = U Vᵀ, `[M, N]`.
pub fn k_tied_scale(log_u: Tensor<2>, log_v: Tensor<2>) -> Tensor<2> {
    log_u.exp().matmul(log_v.exp().transpose())
}

/// σ² = (U Vᵀ)², `[M, N]`, by brute force.
pub fn k_tied_variance(log_u: Tensor<2>, log_v: Tensor<2>) -> Tensor<2> {
    k_tied_scale(log_u, log_v).square()
}

fn draw<const D: usize>(loc: Option<Tensor<D>>, scale: Tensor<D>, key: NoiseKey) -> Tensor<D> {
    let eps = normals(&scale, key);
    let perturbation = scale * eps;
    match loc {
        Some(loc) => loc + perturbation,
        None => perturbation,
    }
}

/// See [`draw_mean_field`](crate::ops::draw_mean_field).
pub fn draw_mean_field<const D: usize>(
    loc: Option<Tensor<D>>,
    raw_scale: Tensor<D>,
    form: ScaleForm,
    key: NoiseKey,
) -> Tensor<D> {
    draw(loc, scale(raw_scale, form), key)
}

/// See [`draw_k_tied`](crate::ops::draw_k_tied).
pub fn draw_k_tied(loc: Option<Tensor<2>>, log_u: Tensor<2>, log_v: Tensor<2>, key: NoiseKey) -> Tensor<2> {
    draw(loc, k_tied_scale(log_u, log_v), key)
}

/// Σ ln(σₚ/σ) + (σ² + (μ − μₚ)²)/(2σₚ²) − ½, `[1]`.
fn kl<const D: usize>(loc: Tensor<D>, scale: Tensor<D>, prior_loc: Option<Tensor<D>>, prior_scale: f64) -> Tensor<1> {
    let count = scale.dims().iter().product::<usize>() as f64;
    let centred = match prior_loc {
        Some(prior_loc) => loc - prior_loc,
        None => loc,
    };
    let squares = (scale.clone().square() + centred.square()).sum() / (2.0 * prior_scale * prior_scale);
    squares - scale.log().sum() + count * (prior_scale.ln() - 0.5)
}

/// See [`kl_mean_field`](crate::ops::kl_mean_field).
pub fn kl_mean_field<const D: usize>(
    loc: Tensor<D>,
    raw_scale: Tensor<D>,
    form: ScaleForm,
    prior_loc: Option<Tensor<D>>,
    prior_scale: f64,
) -> Tensor<1> {
    kl(loc, scale(raw_scale, form), prior_loc, prior_scale)
}

/// See [`kl_k_tied`](crate::ops::kl_k_tied).
pub fn kl_k_tied(
    loc: Tensor<2>,
    log_u: Tensor<2>,
    log_v: Tensor<2>,
    prior_loc: Option<Tensor<2>>,
    prior_scale: f64,
) -> Tensor<1> {
    kl(loc, k_tied_scale(log_u, log_v), prior_loc, prior_scale)
}

/// act(x·μ + b + √(x²·variance + σ_b² + 1e-12) ∘ ε), where `variance` is that of the weights, `[M, N]`; without any
/// uncertainty, act(x·μ + b).
pub fn local_dense(input: LocalInput, loc: Tensor<2>, variance: Option<Tensor<2>>) -> Tensor<2> {
    let LocalInput { x, bias, bias_scale, activation, key, first } = input;
    let variance = variance.map(|variance| x.clone().square().matmul(variance));
    let sd = sum_sd(variance, bias_scale, x.dims()[0]);
    let mean = dense(x, loc, bias, Activation::Identity);
    match sd {
        Some(sd) => add_noise(mean, sd, (key, first), activation),
        None => activate(mean, activation),
    }
}

/// √(variance + σ_b² + 1e-12), `[B, N]`, where `variance` is what the weights give the sums; none without any uncertainty.
pub fn sum_sd(variance: Option<Tensor<2>>, bias_scale: Option<BiasScale>, batch: usize) -> Option<Tensor<2>> {
    let of_bias = bias_scale.map(|bias| scale(bias.raw, bias.form).square().unsqueeze());
    let variance = match (variance, of_bias) {
        (Some(weights), Some(bias)) => weights + bias,
        (Some(weights), None) => weights,
        (None, Some(bias)) => bias.repeat_dim(0, batch),
        (None, None) => return None,
    };
    Some((variance + f64::from(VARIANCE_FLOOR)).sqrt())
}

/// See [`add_noise`](crate::ops::add_noise).
pub fn add_noise(mean: Tensor<2>, sd: Tensor<2>, noise: (NoiseKey, usize), activation: Activation) -> Tensor<2> {
    let eps = normals_from(&mean, noise);
    activate(mean + sd * eps, activation)
}

/// See [`adam_update`](crate::ops::adam_update).
pub fn adam_update<const D: usize>(
    param: Tensor<D>,
    [m, v]: [Tensor<D>; 2],
    grad: Tensor<D>,
    step: AdamStep,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    let time = step.step as f64;
    let m = m * step.beta_1 + grad.clone() * (1.0 - step.beta_1);
    let v = v * step.beta_2 + grad.square() * (1.0 - step.beta_2);
    let m_hat = m.clone() / (1.0 - step.beta_1.powf(time));
    let v_hat = v.clone() / (1.0 - step.beta_2.powf(time));
    (param - m_hat / (v_hat.sqrt() + step.epsilon) * step.lr, [m, v])
}
