//! How a file stores standard deviations.

use std::fmt;
use std::str::FromStr;

use super::{ForeignError, Result};
use crate::checkpoint::Dtype;

/// The least part of ε that a scale of the form `softplus-eps` has above ε.
///
/// TensorFlow Probability's σ is always more than ε; what is less becomes the least that we write.
const LEAST_ABOVE_EPS: f64 = 1e-3;

/// What the number r that is stored makes of σ.
///
/// ```
/// use ktied::checkpoint::Dtype;
/// use ktied::foreign::Form;
/// let form: Form = "softplus".parse()?;
/// assert!((form.scale(-3.0, Dtype::F32) - 0.048_587_351_573_742_06).abs() < 1e-17);
/// assert!((form.stored(0.048_587_351_573_742_06, Dtype::F32) + 3.0).abs() < 1e-14);
/// # Ok::<(), ktied::foreign::ForeignError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `sigma`: σ = r
    Sigma,
    /// `log`: σ = eʳ
    Log,
    /// `softplus`: σ = ln(1 + eʳ)
    Softplus,
    /// `softplus-eps`: σ = ε + ln(1 + eʳ), ε being the distance from 1 to the next number of the tensor's type.
    SoftplusEps,
}

impl Form {
    const ALL: [Self; 4] = [Self::Sigma, Self::Log, Self::Softplus, Self::SoftplusEps];

    /// σ of a stored number, in a tensor of this type.
    pub fn scale(self, stored: f64, dtype: Dtype) -> f64 {
        match self {
            Self::Sigma => stored,
            Self::Log => stored.exp(),
            Self::Softplus => softplus(stored),
            Self::SoftplusEps => eps(dtype) + softplus(stored),
        }
    }

    /// The number to store for σ, before it is rounded to the tensor's type.
    ///
    /// A σ of ε or less, which `softplus-eps` does not have, becomes 1.001 ε.
    pub fn stored(self, scale: f64, dtype: Dtype) -> f64 {
        match self {
            Self::Sigma => scale,
            Self::Log => scale.ln(),
            Self::Softplus => softplus_inverse(scale),
            Self::SoftplusEps => {
                let eps = eps(dtype);
                softplus_inverse((scale - eps).max(eps * LEAST_ABOVE_EPS))
            }
        }
    }

    /// Its name in patterns.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sigma => "sigma",
            Self::Log => "log",
            Self::Softplus => "softplus",
            Self::SoftplusEps => "softplus-eps",
        }
    }
}

/// ln(1 + eʳ), which neither overflows nor loses digits.
fn softplus(r: f64) -> f64 {
    r.max(0.0) + (-r.abs()).exp().ln_1p()
}

/// ln(e^σ − 1) = σ + ln(1 − e^−σ)
fn softplus_inverse(scale: f64) -> f64 {
    scale + (-(-scale).exp_m1()).ln()
}

fn eps(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => f64::EPSILON,
        _ => f32::EPSILON.into(),
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Form {
    type Err = ForeignError;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|form| form.name() == text);
        known.ok_or_else(|| ForeignError::UnknownForm { found: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways from 10⁻³⁰ to 10²: the relative error of σ is that of r times |r|, a few ulps of double precision.
    #[test]
    fn every_form_comes_back() {
        for form in Form::ALL {
            for exponent in -60..=4 {
                let scale = 10f64.powf(f64::from(exponent) / 2.0) + if form == Form::SoftplusEps { 1e-6 } else { 0.0 };
                let back = form.scale(form.stored(scale, Dtype::F32), Dtype::F32);
                assert!((back / scale - 1.0).abs() < 1e-13, "{form} {scale} {back}");
            }
        }
    }

    #[test]
    fn what_tfp_cannot_hold_becomes_the_least_that_it_can() {
        for dtype in [Dtype::F32, Dtype::F64] {
            let eps = eps(dtype);
            for too_small in [0.5 * eps, eps] {
                let back = Form::SoftplusEps.scale(Form::SoftplusEps.stored(too_small, dtype), dtype);
                assert!((back / eps - 1.001).abs() < 1e-9, "{back}");
            }
        }
        assert_eq!((eps(Dtype::F32), eps(Dtype::F64)), (2f64.powi(-23), 2f64.powi(-52)));
    }

    #[test]
    fn forms_have_names() {
        for form in Form::ALL {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
        let error = "softpuls".parse::<Form>().unwrap_err().to_string();
        assert_eq!(error, "scale form `softpuls` is unknown: use sigma, log, softplus or softplus-eps");
    }
}
