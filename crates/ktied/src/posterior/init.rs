//! Initial values: means by He's rule, scales around a small number.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use ktied_kernels::{NoiseKey, ScaleForm, noise};

use crate::error::{Error, Result};

/// How the standard deviations of a posterior begin, and how far they may grow.
///
/// The default is the paper's: σ ~ N(0.01, 0.001²), stored as logarithms, without a cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleInit {
    /// How mean-field scales are stored; factors of a k-tied scale are always logarithms.
    pub form: ScaleForm,
    /// Where σ begins.
    pub scale: f64,
    /// Largest σ allowed, kept by [`Posterior::clipped`](super::Posterior::clipped): for k-tied, u and v ≤ √(cap/K).
    pub cap: Option<f64>,
}

impl Default for ScaleInit {
    fn default() -> Self {
        Self { form: ScaleForm::Log, scale: 0.01, cap: None }
    }
}

impl ScaleInit {
    /// Spread of the first mean-field scales, relative to [`ScaleInit::scale`].
    const SPREAD: f32 = 0.1;
    /// Spread of the logarithms of the first factors.
    const LOG_SPREAD: f32 = 0.1;

    /// # Errors
    /// If the scale or the cap is not a positive finite number.
    pub fn check(&self) -> Result<()> {
        Error::positive("posterior.init_scale", self.scale)?;
        self.cap.map_or(Ok(1.0), |cap| Error::positive("posterior.cap", cap))?;
        Ok(())
    }

    /// Stored scales: σ ~ N(scale, (scale/10)²), never below a tenth of it.
    pub(crate) fn raw(&self, z: f32) -> f32 {
        let scale = (self.scale as f32 * (1.0 + Self::SPREAD * z)).max(0.1 * self.scale as f32);
        raw_of(self.form, scale)
    }

    /// Logarithms of a factor of rank `rank`: N(½(ln scale − ln K), 0.1²), so that σ begins around `scale`.
    pub(crate) fn log_factor(&self, rank: usize, z: f32) -> f32 {
        (0.5 * (self.scale.ln() - (rank as f64).ln())) as f32 + Self::LOG_SPREAD * z
    }

    /// The largest stored number that the cap allows.
    pub(super) fn raw_cap(&self) -> Option<f64> {
        self.cap.map(|cap| f64::from(raw_of(self.form, cap as f32)))
    }

    /// The largest logarithm of a factor that the cap allows.
    pub(super) fn log_factor_cap(&self, rank: usize) -> Option<f64> {
        self.cap.map(|cap| 0.5 * (cap / rank as f64).ln())
    }
}

/// The stored number whose σ is `scale`.
fn raw_of(form: ScaleForm, scale: f32) -> f32 {
    match form {
        ScaleForm::Log => scale.ln(),
        ScaleForm::Softplus => scale.exp_m1().ln(),
    }
}

/// How the means of a kernel begin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LocInit {
    /// N(0, 2/fan-in) (He et al., 2015), for weights before rectifiers.
    #[default]
    He,
    /// N(0, scale²)
    Normal {
        /// Their standard deviation.
        scale: f64,
    },
}

impl LocInit {
    /// Standard deviation of the first means of a kernel with `fan_in` inputs.
    pub fn scale(self, fan_in: usize) -> f64 {
        match self {
            Self::He => (2.0 / fan_in.max(1) as f64).sqrt(),
            Self::Normal { scale } => scale,
        }
    }
}

/// Everything that the first values of one tensor depend on.
#[derive(Clone, Copy, Debug)]
pub struct WeightInit<'a> {
    /// Standard deviation of the first means.
    pub loc_scale: f64,
    /// The scales.
    pub scale: ScaleInit,
    /// Stream of the first values; one for each tensor.
    pub key: NoiseKey,
    /// Where the parameters live.
    pub device: &'a Device,
}

impl WeightInit<'_> {
    /// Means by He's rule.
    pub fn he(fan_in: usize, scale: ScaleInit, key: NoiseKey, device: &Device) -> WeightInit<'_> {
        WeightInit { loc_scale: LocInit::He.scale(fan_in), scale, key, device }
    }

    /// First means.
    pub(super) fn loc(&self, shape: [usize; 2]) -> Param<Tensor<2>> {
        let scale = self.loc_scale as f32;
        self.param(0, shape, |z| scale * z)
    }

    /// A parameter made of the normals of sub-stream `stream`.
    pub(super) fn param(&self, stream: u64, shape: [usize; 2], map: impl Fn(f32) -> f32) -> Param<Tensor<2>> {
        let mut values = vec![0.0; shape[0] * shape[1]];
        noise::normals(self.key.fold(stream), 0, &mut values);
        values.iter_mut().for_each(|value| *value = map(*value));
        Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), self.device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_scales_give_back_the_scale() {
        for form in [ScaleForm::Log, ScaleForm::Softplus] {
            let init = ScaleInit { form, scale: 0.05, cap: Some(0.1823) };
            assert!((form.scale(init.raw(0.0)) - 0.05).abs() < 1e-6);
            assert!((form.scale(init.raw(1.0)) - 0.055).abs() < 1e-6);
            assert!(form.scale(init.raw(-50.0)) > 0.0);
        }
        // The cap of the ResNet example: ρ ≤ ln 0.2, so σ ≤ ln(1.2).
        let cap = ScaleInit { form: ScaleForm::Softplus, scale: 0.01, cap: Some(1.2f64.ln()) }.raw_cap();
        assert!((cap.unwrap() - 0.2f64.ln()).abs() < 1e-6);
    }

    #[test]
    fn factors_begin_around_the_scale_and_end_under_the_cap() {
        for rank in 1..5 {
            let init = ScaleInit { scale: 0.02, cap: Some(0.5), ..ScaleInit::default() };
            let sigma = rank as f64 * (2.0 * f64::from(init.log_factor(rank, 0.0))).exp();
            assert!((sigma - 0.02).abs() < 1e-8);
            let largest = rank as f64 * (2.0 * init.log_factor_cap(rank).unwrap()).exp();
            assert!((largest - 0.5).abs() < 1e-12);
        }
    }

    #[test]
    fn scales_must_be_positive() {
        let bad = ScaleInit { scale: -0.1, ..ScaleInit::default() };
        let sentence = bad.check().unwrap_err().to_string();
        assert_eq!(sentence, "posterior.init_scale must be a positive finite number, got -0.1");
        let bad = ScaleInit { cap: Some(f64::NAN), ..ScaleInit::default() };
        assert!(bad.check().is_err() && ScaleInit::default().check().is_ok());
    }
}
