//! Draws of weights, W = μ + σ∘ε.

use burn::tensor::Tensor;
use ktied_kernels::{LogFactors, NoiseKey, ScaleForm, ShapeError, sample};

use super::fused::{self, FusedOp, Grad, OutputGrad, Saved, View};
use super::{buffers, check, portable};

/// Draws from a mean-field Normal, Wᵢ = μᵢ + σ(rᵢ) εᵢ, or without `loc` the perturbation σ(rᵢ) εᵢ alone.
///
/// # Shapes
/// - loc, raw_scale, output: any, the same
///
/// # Errors
/// If the shapes differ.
pub fn draw_mean_field<const D: usize>(
    loc: Option<Tensor<D>>,
    raw_scale: Tensor<D>,
    form: ScaleForm,
    key: NoiseKey,
) -> Result<Tensor<D>, ShapeError> {
    let op = DrawMeanField { has_loc: loc.is_some(), form, key };
    if fused::takes(&raw_scale) {
        return fused::apply([fused::optional(loc), raw_scale.into_dispatch()], op);
    }
    op.output_shape([&fused::optional_shape(loc.as_ref()), &raw_scale.dims()])?;
    Ok(portable::draw_mean_field(loc, raw_scale, form, key))
}

/// Draws from a k-tied Normal, Wᵢⱼ = μᵢⱼ + (Σₐ uᵢₐ vⱼₐ) εᵢⱼ, or without `loc` the perturbation alone.
///
/// # Shapes
/// - loc, output: `[M, N]`; log_u: `[M, K]`; log_v: `[N, K]`
///
/// # Errors
/// If the shapes do not fit.
pub fn draw_k_tied(
    loc: Option<Tensor<2>>,
    log_u: Tensor<2>,
    log_v: Tensor<2>,
    key: NoiseKey,
) -> Result<Tensor<2>, ShapeError> {
    let op = DrawKTied { has_loc: loc.is_some(), key };
    if fused::takes(&log_u) {
        return fused::apply([fused::optional(loc), log_u.into_dispatch(), log_v.into_dispatch()], op);
    }
    op.output_shape([&fused::optional_shape(loc.as_ref()), &log_u.dims(), &log_v.dims()])?;
    Ok(portable::draw_k_tied(loc, log_u, log_v, key))
}

#[derive(Clone, Copy, Debug)]
struct DrawMeanField {
    has_loc: bool,
    form: ScaleForm,
    key: NoiseKey,
}

impl FusedOp<2> for DrawMeanField {
    type Tape = ();

    fn output_shape(&self, [loc, raw]: [&[usize]; 2]) -> Result<Vec<usize>, ShapeError> {
        check::same_if("draw_mean_field", "loc", self.has_loc.then_some(loc), raw)?;
        Ok(raw.to_vec())
    }

    fn forward(&self, [loc, raw]: [View<'_>; 2], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let mut out = buffers::take(raw.data.len());
        sample::mean_field(&mut out, loc.when(self.has_loc), raw.data, self.form, self.key)?;
        Ok((out, ()))
    }

    fn backward(
        &self,
        saved: Saved<'_, 2, ()>,
        d_out: OutputGrad<'_>,
        [_, raw_wanted]: [bool; 2],
    ) -> Result<[Grad; 2], ShapeError> {
        let [_, raw] = saved.operands;
        if !raw_wanted {
            return Ok([Grad::OfOutput, Grad::None]);
        }
        let mut d_raw = buffers::take(raw.data.len());
        sample::mean_field_backward(&mut d_raw, d_out.values(), raw.data, self.form, self.key)?;
        Ok([Grad::OfOutput, Grad::Values(d_raw)])
    }
}

#[derive(Clone, Copy, Debug)]
struct DrawKTied {
    has_loc: bool,
    key: NoiseKey,
}

/// The factors that two views `[M, K]` and `[N, K]` hold.
pub(super) fn log_factors<'a>(u: View<'a>, v: View<'a>) -> LogFactors<'a> {
    LogFactors { log_u: u.data, log_v: v.data, num_rows: u.shape[0], num_cols: v.shape[0], rank: u.shape[1] }
}

impl FusedOp<3> for DrawKTied {
    type Tape = ();

    fn output_shape(&self, [loc, u, v]: [&[usize]; 3]) -> Result<Vec<usize>, ShapeError> {
        let shape = check::factors("draw_k_tied", u, v)?;
        check::same_if("draw_k_tied", "loc", self.has_loc.then_some(loc), &shape)?;
        Ok(shape.to_vec())
    }

    fn forward(&self, [loc, u, v]: [View<'_>; 3], _: bool) -> Result<(Vec<f32>, ()), ShapeError> {
        let factors = log_factors(u, v);
        let mut out = buffers::take(factors.num_rows * factors.num_cols);
        sample::k_tied(&mut out, loc.when(self.has_loc), factors, self.key)?;
        Ok((out, ()))
    }

    fn backward(&self, saved: Saved<'_, 3, ()>, d_out: OutputGrad<'_>, _: [bool; 3]) -> Result<[Grad; 3], ShapeError> {
        let [_, u, v] = saved.operands;
        let (mut d_u, mut d_v) = (buffers::take(u.data.len()), buffers::take(v.data.len()));
        sample::k_tied_backward(&mut d_u, &mut d_v, d_out.values(), log_factors(u, v), self.key)?;
        Ok([Grad::OfOutput, Grad::Values(d_u), Grad::Values(d_v)])
    }
}
