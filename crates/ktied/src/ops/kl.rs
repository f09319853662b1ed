//! KL(q‖p) of a Gaussian posterior from a Gaussian prior, in nats.

use burn::tensor::Tensor;
use ktied_kernels::kl::{self, FactorGrads, MeanFieldGrads, Prior};
use ktied_kernels::{ScaleForm, ShapeError};

use super::draw::log_factors;
use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// KL of a mean-field Normal from N(μₚ, σₚ²), summed over all weights.
///
/// # Shapes
/// - loc, raw_scale, prior_loc: any, the same; output: `[1]`
///
/// # Errors
/// If the shapes differ.
pub fn kl_mean_field<const D: usize>(
    loc: Tensor<D>,
    raw_scale: Tensor<D>,
    form: ScaleForm,
    prior_loc: Option<Tensor<D>>,
    prior_scale: f64,
) -> Result<Tensor<1>, ShapeError> {
    let op = KlMeanField { form, prior: PriorKind { has_loc: prior_loc.is_some(), scale: prior_scale as f32 } };
    if fused::takes(&loc) {
        return fused::apply([loc.into_dispatch(), raw_scale.into_dispatch(), fused::optional(prior_loc)], op);
    }
    op.output_shape([&loc.dims(), &raw_scale.dims(), &fused::optional_shape(prior_loc.as_ref())])?;
    Ok(portable::kl_mean_field(loc, raw_scale, form, prior_loc, prior_scale))
}

/// KL of a k-tied Normal from N(μₚ, σₚ²), summed over all weights.
///
/// # Shapes
/// - loc, prior_loc: `[M, N]`; log_u: `[M, K]`; log_v: `[N, K]`; output: `[1]`
///
/// # Errors
/// If the shapes do not fit.
pub fn kl_k_tied(
    loc: Tensor<2>,
    log_u: Tensor<2>,
    log_v: Tensor<2>,
    prior_loc: Option<Tensor<2>>,
    prior_scale: f64,
) -> Result<Tensor<1>, ShapeError> {
    let op = KlKTied { prior: PriorKind { has_loc: prior_loc.is_some(), scale: prior_scale as f32 } };
    if fused::takes(&loc) {
        let [loc, log_u, log_v] = [loc, log_u, log_v].map(Tensor::into_dispatch);
        return fused::apply([loc, log_u, log_v, fused::optional(prior_loc)], op);
    }
    op.output_shape([&loc.dims(), &log_u.dims(), &log_v.dims(), &fused::optional_shape(prior_loc.as_ref())])?;
    Ok(portable::kl_k_tied(loc, log_u, log_v, prior_loc, prior_scale))
}

/// [`kl_mean_field`] as a number, and `by` times its gradients added to `grads`, in memory: what a step that has gradients
/// already needs of a divergence, in one pass and without a graph. All must be tensors that [`fused::takes`].
///
/// # Shapes
/// - grads and params, of means and stored scales, and prior_loc: `[M, N]`
///
/// # Errors
/// If the shapes differ; the gradients are lost then.
pub(crate) fn add_kl_mean_field(
    grads: [Tensor<2>; 2],
    [loc, raw_scale]: [Tensor<2>; 2],
    form: ScaleForm,
    (prior_loc, prior_scale): (Option<Tensor<2>>, f64),
    by: f64,
) -> Result<([Tensor<2>; 2], f64), ShapeError> {
    let prior = PriorKind { has_loc: prior_loc.is_some(), scale: prior_scale as f32 };
    let prior_loc = prior_loc.unwrap_or_else(|| Tensor::empty([0, 0], &loc.device()));
    fused::in_place(grads, [loc, raw_scale, prior_loc], |[d_loc, d_raw], [loc, raw, prior_loc]| {
        let grads = MeanFieldGrads { loc: d_loc, raw_scale: d_raw };
        kl::add_mean_field(grads, loc.data, raw.data, form, prior.with(prior_loc), by as f32)
    })
}

/// The same of [`kl_k_tied`].
///
/// # Shapes
/// - grads and params, of means and factors: `[M, N]`, `[M, K]`, `[N, K]`; prior_loc: `[M, N]`
///
/// # Errors
/// If the shapes do not fit; the gradients are lost then.
pub(crate) fn add_kl_k_tied(
    grads: [Tensor<2>; 3],
    [loc, log_u, log_v]: [Tensor<2>; 3],
    (prior_loc, prior_scale): (Option<Tensor<2>>, f64),
    by: f64,
) -> Result<([Tensor<2>; 3], f64), ShapeError> {
    let prior = PriorKind { has_loc: prior_loc.is_some(), scale: prior_scale as f32 };
    let prior_loc = prior_loc.unwrap_or_else(|| Tensor::empty([0, 0], &loc.device()));
    check::factors("kl_k_tied", &log_u.dims(), &log_v.dims())?;
    fused::in_place(grads, [loc, log_u, log_v, prior_loc], |[d_loc, d_u, d_v], [loc, u, v, prior_loc]| {
        let grads = FactorGrads { log_u: d_u, log_v: d_v };
        kl::add_k_tied(d_loc, grads, loc.data, log_factors(u, v), prior.with(prior_loc), by as f32)
    })
}

#[derive(Clone, Copy, Debug)]
struct PriorKind {
    has_loc: bool,
    scale: f32,
}

impl PriorKind {
    fn with<'a>(self, loc: View<'a>) -> Prior<'a> {
        Prior { loc: loc.when(self.has_loc), scale: self.scale }
    }

    /// The gradient of the prior's mean, the opposite of that of the posterior's.
    fn loc_grad(self, d_loc: &[f32], wanted: bool) -> Grad {
        if wanted && self.has_loc { Grad::Values(d_loc.iter().map(|d| -d).collect()) } else { Grad::None }
    }
}

/// What the gradients are multiplied with.
fn factor(d_out: &OutputGrad<'_>) -> f32 {
    d_out.values().first().copied().unwrap_or(0.0)
}

#[derive(Clone, Copy, Debug)]
struct KlMeanField {
    form: ScaleForm,
    prior: PriorKind,
}

impl FusedOp<3> for KlMeanField {
    type Tape = ();

    fn output_shape(&self, [loc, raw, prior_loc]: [&[usize]; 3]) -> Result<Vec<usize>, ShapeError> {
        check::same("kl_mean_field", "raw_scale", raw, loc)?;
        check::same_if("kl_mean_field", "prior_loc", self.prior.has_loc.then_some(prior_loc), loc)?;
        Ok(vec![1])
    }

    fn forward(&self, [loc, raw, prior_loc]: [View<'_>; 3], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let value = kl::mean_field(loc.data, raw.data, self.form, self.prior.with(prior_loc))?;
        Ok((vec![value as f32], ()))
    }

    fn backward(
        &self,
        saved: Saved<'_, 3, ()>,
        d_out: OutputGrad<'_>,
        wanted: [bool; 3],
    ) -> Result<[Grad; 3], ShapeError> {
        let [loc, raw, prior_loc] = saved.operands;
        let [mut d_loc, mut d_raw] = [loc, raw].map(|view| buffers::take(view.data.len()));
        let grads = MeanFieldGrads { loc: &mut d_loc, raw_scale: &mut d_raw };
        kl::mean_field_backward(grads, loc.data, raw.data, self.form, self.prior.with(prior_loc), factor(&d_out))?;
        let d_prior = self.prior.loc_grad(&d_loc, wanted[2]);
        Ok([Grad::Values(d_loc), Grad::Values(d_raw), d_prior])
    }
}

#[derive(Clone, Copy, Debug)]
struct KlKTied {
    prior: PriorKind,
}

impl FusedOp<4> for KlKTied {
    /// The gradients with respect to the factors, which come with the value in one pass.
    type Tape = [Vec<f32>; 2];

    fn output_shape(&self, [loc, u, v, prior_loc]: [&[usize]; 4]) -> Result<Vec<usize>, ShapeError> {
        let shape = check::factors("kl_k_tied", u, v)?;
        check::same("kl_k_tied", "loc", loc, &shape)?;
        check::same_if("kl_k_tied", "prior_loc", self.prior.has_loc.then_some(prior_loc), &shape)?;
        Ok(vec![1])
    }

    fn forward(
        &self,
        [loc, u, v, prior_loc]: [View<'_>; 4],
        track: bool,
    ) -> Result<(Vec<f32>, [Vec<f32>; 2]), ShapeError> {
        let mut tape = [u, v].map(|view| if track { buffers::take(view.data.len()) } else { Vec::new() });
        let [d_u, d_v] = &mut tape;
        let grads = track.then_some(FactorGrads { log_u: d_u, log_v: d_v });
        let value = kl::k_tied(loc.data, log_factors(u, v), self.prior.with(prior_loc), grads)?;
        Ok((vec![value as f32], tape))
    }

    fn backward(
        &self,
        saved: Saved<'_, 4, [Vec<f32>; 2]>,
        d_out: OutputGrad<'_>,
        wanted: [bool; 4],
    ) -> Result<[Grad; 4], ShapeError> {
        let ([loc, _, _, prior_loc], by) = (saved.operands, factor(&d_out));
        let [d_u, d_v] = saved.tape.map(|mut grad| {
            grad.iter_mut().for_each(|g| *g *= by);
            grad
        });
        let mut d_loc = buffers::take(loc.data.len());
        kl::loc_backward(&mut d_loc, loc.data, self.prior.with(prior_loc), by)?;
        let d_prior = self.prior.loc_grad(&d_loc, wanted[3]);
        Ok([Grad::Values(d_loc), Grad::Values(d_u), Grad::Values(d_v), d_prior])
    }
}
