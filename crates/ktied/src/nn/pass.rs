//! How weights enter a forward pass: their means, or one draw, and by which estimator.

use std::fmt;
use std::str::FromStr;

use ktied_kernels::{NoiseKey, Purpose};

use crate::error::Error;

/// How the noise of a posterior is turned into a gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// One draw of the weights for the whole batch: W = μ + σ∘ε.
    #[default]
    Reparam,
    /// One draw ΔW with signs of its own for every example: y = xμ + r∘((x∘s)ΔW) (Wen et al., 2018).
    Flipout,
    /// Noise on the activations, y ~ N(xμ, x²σ²), of its own for every example (Kingma et al., 2015). Exact only where
    /// a layer uses each weight once per example.
    Local,
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reparam => "reparam",
            Self::Flipout => "flipout",
            Self::Local => "local",
        })
    }
}

impl FromStr for Estimator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "reparam" => Ok(Self::Reparam),
            "flipout" => Ok(Self::Flipout),
            "local" => Ok(Self::Local),
            _ => Err(Error::UnknownEstimator { found: text.into() }),
        }
    }
}

/// One forward pass through a network: means only, or a draw that is a pure function of (seed, step, layer).
///
/// ```
/// use ktied::nn::{Estimator, Pass};
/// let training = Pass::sampled(42, 1000, Estimator::Flipout); // seed, step
/// assert_ne!(training, Pass::sampled(42, 1001, Estimator::Flipout));
/// let deterministic = Pass::Means;
/// # let _ = deterministic;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Every weight at its mean.
    Means,
    /// One draw.
    Sampled {
        /// How.
        estimator: Estimator,
        /// The root of the run's noise.
        root: NoiseKey,
        /// Which draw; in training the step.
        step: u64,
    },
}

impl Pass {
    /// The draw of one training step.
    pub fn sampled(seed: u64, step: u64, estimator: Estimator) -> Self {
        Self::Sampled { estimator, root: NoiseKey::new(seed), step }
    }

    /// What `local` on a whole network means for a layer that uses its weights at several positions: Flipout. Every
    /// other pass is itself.
    pub fn where_weights_are_shared(self) -> Self {
        match self {
            Self::Sampled { estimator: Estimator::Local, root, step } => {
                Self::Sampled { estimator: Estimator::Flipout, root, step }
            }
            other => other,
        }
    }
}

/// The streams of one layer in one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerNoise {
    root: NoiseKey,
    step: u64,
    layer: u64,
}

impl LayerNoise {
    pub(crate) fn new(root: NoiseKey, step: u64, layer: u64) -> Self {
        Self { root, step, layer }
    }

    /// ε of the layer's tensor number `tensor`: 0 the kernel, 1 the bias.
    pub(crate) fn weights(self, tensor: u64) -> NoiseKey {
        self.root.child(Purpose::Weights).at(self.step, self.layer).fold(tensor)
    }

    pub(crate) fn of(self, purpose: Purpose) -> NoiseKey {
        self.root.child(purpose).at(self.step, self.layer)
    }
}
