//! Priors: what the weights were before any data.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;

use crate::error::{Error, Result};
use crate::posterior::Posterior;

/// How the priors of a network are chosen, one rule for all its tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriorRule {
    /// N(0, σₚ²) for every weight.
    Normal {
        /// σₚ
        scale: f64,
    },
    /// N(0, 2/fan-in) for kernels and N(0, 1) for biases (appendix B of the paper).
    He,
    /// N(0, σₚ²) with a σₚ for each tensor that maximises the ELBO, found again every so many steps: the usual cure
    /// for underfitting.
    Empirical {
        /// σₚ until the first update.
        scale: f64,
        /// Steps between updates.
        every: u64,
    },
}

impl PriorRule {
    /// The prior of a kernel with `fan_in` inputs.
    ///
    /// # Errors
    /// If a scale is not a positive finite number.
    pub fn of_kernel(self, fan_in: usize) -> Result<Prior> {
        match self {
            Self::He => Prior::normal((2.0 / fan_in.max(1) as f64).sqrt()),
            Self::Normal { scale } | Self::Empirical { scale, .. } => Prior::normal(scale),
        }
    }

    /// The prior of a bias.
    ///
    /// # Errors
    /// If a scale is not a positive finite number.
    pub fn of_bias(self) -> Result<Prior> {
        match self {
            Self::He => Prior::normal(1.0),
            Self::Normal { scale } | Self::Empirical { scale, .. } => Prior::normal(scale),
        }
    }

    /// Whether the priors are due for an update before this step.
    pub fn is_due(self, step: u64) -> bool {
        matches!(self, Self::Empirical { every, .. } if every > 0 && step > 0 && step.is_multiple_of(every))
    }
}

/// The prior of one tensor: N(μₚ, σₚ²) with one σₚ for all its weights.
#[derive(Clone, Debug)]
pub struct Prior {
    loc: Option<Tensor<2>>,
    scale: f64,
}

impl Prior {
    /// N(0, scale²).
    ///
    /// # Errors
    /// If `scale` is not a positive finite number.
    pub fn normal(scale: f64) -> Result<Self> {
        Ok(Self { loc: None, scale: Error::positive("prior.scale", scale)? })
    }

    /// N(loc, scale²): centred on given weights, `[M, N]`, such as those of a trained network.
    ///
    /// # Errors
    /// If `scale` is not a positive finite number.
    pub fn centred(loc: Tensor<2>, scale: f64) -> Result<Self> {
        Ok(Self { loc: Some(loc.detach()), ..Self::normal(scale)? })
    }

    /// The same means with another σₚ.
    ///
    /// # Errors
    /// If `scale` is not a positive finite number.
    pub fn with_scale(self, scale: f64) -> Result<Self> {
        Ok(Self { scale: Error::positive("prior.scale", scale)?, ..self })
    }

    /// The σₚ that makes KL(q‖p) smallest: σₚ² is the mean of (μ − μₚ)² + σ² (a point counts σ = 0). The prior's means
    /// stay.
    ///
    /// # Errors
    /// If the prior's means have another shape, or every weight is exactly the prior's mean.
    pub fn empirical(&self, posterior: &impl Posterior) -> Result<Self> {
        let mean = posterior.loc().detach();
        self.check_shape(&mean)?;
        let centred = match &self.loc {
            Some(loc) => mean - loc.clone(),
            None => mean,
        };
        let variance = posterior.scale().map_or(centred.zeros_like(), |scale| scale.detach().square());
        let mean_square = (centred.square() + variance).mean().into_data().iter::<f64>().next().unwrap_or(0.0);
        Ok(Self { loc: self.loc.clone(), scale: Error::positive("prior.scale", mean_square.sqrt())? })
    }

    /// μₚ, if it is not zero.
    pub fn loc(&self) -> Option<Tensor<2>> {
        self.loc.clone()
    }

    /// σₚ
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The prior's means must have the shape of the posterior's.
    pub(crate) fn check_shape(&self, posterior_loc: &Tensor<2>) -> Result<()> {
        let (expected, found) = (posterior_loc.dims(), self.loc.as_ref().map(Tensor::dims));
        match found {
            Some(found) if found != expected => {
                let (expected, found) = (expected.to_vec(), found.to_vec());
                Err(ShapeError::Shape { kernel: "kl", operand: "prior_loc", expected, found }.into())
            }
            _ => Ok(()),
        }
    }
}
