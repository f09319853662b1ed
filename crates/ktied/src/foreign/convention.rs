//! What a library calls its tensors and how it lays them out.

use std::fmt;
use std::str::FromStr;

use super::{ForeignError, Form, NamePattern, Result};
use crate::nearest::nearest;

/// Where a layer's outputs are among the dimensions of its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputDim {
    /// `first`, as in PyTorch: `[out, in]`, `[out, in, kh, kw]`.
    First,
    /// `last`, as in TensorFlow: `[in, out]`, `[kh, kw, in, out]`.
    Last,
}

impl fmt::Display for OutputDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Last => "last",
        })
    }
}

impl FromStr for OutputDim {
    type Err = ForeignError;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "first" => Ok(Self::First),
            "last" => Ok(Self::Last),
            _ => Err(ForeignError::UnknownOutputDim { found: text.into() }),
        }
    }
}

/// Patterns of names, tried in their order, and where the output dimension is.
///
/// ```
/// use ktied::foreign::{Convention, OutputDim};
/// let torch = Convention::preset("bayesian-torch")?;
/// assert_eq!(torch.output_dim(), OutputDim::First);
/// let own = Convention::new(vec!["{}_mean,{}_std".parse()?], OutputDim::Last)?;
/// assert_eq!(own.to_string(), "{}_mean,{}_std:sigma with outputs last");
/// # Ok::<(), ktied::foreign::ForeignError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convention {
    preset: Option<&'static str>,
    patterns: Vec<NamePattern>,
    output_dim: OutputDim,
}

impl Convention {
    /// The names of the presets.
    pub const PRESETS: [&'static str; 2] = ["bayesian-torch", "tfp"];

    /// A convention of one's own.
    ///
    /// # Errors
    /// If there is no pattern.
    pub fn new(patterns: Vec<NamePattern>, output_dim: OutputDim) -> Result<Self> {
        match patterns.is_empty() {
            true => Err(ForeignError::NoPatterns),
            false => Ok(Self { preset: None, patterns, output_dim }),
        }
    }

    /// The convention of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn preset(name: &str) -> Result<Self> {
        match name {
            "bayesian-torch" => Ok(Self::bayesian_torch()),
            "tfp" => Ok(Self::tfp()),
            _ => Err(ForeignError::UnknownConvention {
                found: name.into(),
                nearest: nearest(name, Self::PRESETS).unwrap_or_default(),
                names: Self::PRESETS.join(", "),
            }),
        }
    }

    /// `bayesian-torch`: Intel Labs' layers, reparameterisation and flipout alike; σ = ln(1 + eʳ).
    ///
    /// Dense layers have `mu_weight` and `rho_weight`, an LSTM two of them (`ih`, `hh`), convolutions `mu_kernel` and
    /// `rho_kernel`, and all of them `mu_bias` and `rho_bias`.
    pub fn bayesian_torch() -> Self {
        let patterns = ["weight", "kernel", "bias"]
            .map(|of| NamePattern::of_endings(&format!(".mu_{of}"), &format!(".rho_{of}"), Form::Softplus));
        Self { preset: Some("bayesian-torch"), patterns: patterns.into(), output_dim: OutputDim::First }
    }

    /// `tfp`: the dense and convolutional layers of `tfp.layers`; σ = ε + ln(1 + eʳ), biases are points by default.
    ///
    /// The names are those of the variables, `dense/kernel_posterior_loc:0`, with the `:0` or without.
    pub fn tfp() -> Self {
        let pattern = |of: &str, tail: &str| {
            let name = |part: &str| format!("/{of}_posterior_{part}{tail}");
            NamePattern::of_endings(&name("loc"), &name("untransformed_scale"), Form::SoftplusEps)
        };
        let patterns = ["", ":0"].map(|tail| [pattern("kernel", tail), pattern("bias", tail).with_optional_scale()]);
        Self { preset: Some("tfp"), patterns: patterns.concat(), output_dim: OutputDim::Last }
    }

    /// The patterns, in the order in which they are tried.
    pub fn patterns(&self) -> &[NamePattern] {
        &self.patterns
    }

    /// Where the output dimension is.
    pub fn output_dim(&self) -> OutputDim {
        self.output_dim
    }
}

impl fmt::Display for Convention {
    /// The name of a preset; the patterns and the output dimension of any other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.preset {
            return f.write_str(name);
        }
        let patterns: Vec<_> = self.patterns.iter().map(NamePattern::to_string).collect();
        write!(f, "{} with outputs {}", patterns.join(" "), self.output_dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(convention: &Convention) -> Vec<String> {
        convention.patterns().iter().map(NamePattern::to_string).collect()
    }

    #[test]
    fn the_presets_are_patterns_that_a_user_could_write() {
        for name in Convention::PRESETS {
            let preset = Convention::preset(name).unwrap();
            assert_eq!(preset.to_string(), name);
            let parsed: Result<Vec<NamePattern>> = patterns(&preset).iter().map(|text| text.parse()).collect();
            assert_eq!(parsed.unwrap(), preset.patterns());
        }
        assert_eq!(patterns(&Convention::bayesian_torch())[1], "{}.mu_kernel,{}.rho_kernel:softplus");
        let tfp = patterns(&Convention::tfp());
        let bias = "{}/bias_posterior_loc:0,{}/bias_posterior_untransformed_scale:0?:softplus-eps";
        assert_eq!((tfp.len(), &*tfp[3]), (4, bias));
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let error = Convention::preset("bayesian_torch").unwrap_err().to_string();
        assert_eq!(
            error,
            "convention `bayesian_torch` is unknown: did you mean `bayesian-torch`? There are bayesian-torch, tfp, or \
             patterns of your own"
        );
        assert_eq!(Convention::new(vec![], OutputDim::First), Err(ForeignError::NoPatterns));
        assert_eq!("last".parse(), Ok(OutputDim::Last));
        let error = "2".parse::<OutputDim>().unwrap_err().to_string();
        assert_eq!(error, "output dimension `2` is unknown: use first or last");
    }
}
