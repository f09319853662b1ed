//! How weights enter a forward pass: their means, one draw by which estimator, or many.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Tensor;
use ktied_kernels::signs::SignKey;
use ktied_kernels::{NoiseKey, Purpose};

use crate::error::{Error, Result};

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

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "reparam" => Ok(Self::Reparam),
            "flipout" => Ok(Self::Flipout),
            "local" => Ok(Self::Local),
            _ => Err(Error::UnknownEstimator { found: text.into() }),
        }
    }
}

/// Whose mean and variance batch normalisation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistics {
    /// Those of the batch, which the running averages then take in: training.
    Batch,
    /// The running averages: evaluation.
    Running,
}

/// One forward pass through a network: means only, or a draw that is a pure function of (seed, step, layer).
///
/// ```
/// use ktied::nn::{Estimator, Pass};
/// let training = Pass::sampled(42, 1000, Estimator::Flipout); // seed, step
/// assert_ne!(training, Pass::sampled(42, 1001, Estimator::Flipout));
/// let tenth_of_many = Pass::prediction(42, 9); // seed, draw
/// let deterministic = Pass::Means;
/// # let _ = (tenth_of_many, deterministic);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Every weight at its mean, to predict.
    Means,
    /// One draw.
    Sampled {
        /// How.
        estimator: Estimator,
        /// The root of the run's noise.
        root: NoiseKey,
        /// Which draw; in training the step.
        step: u64,
        /// What batch normalisation does.
        statistics: Statistics,
        /// Number of the batch's first example: 0, or more for the later part of a batch that is divided.
        first: u64,
    },
    /// One draw for predictions of single examples: see [`Pass::marginal`].
    Marginal {
        /// The root of the noise.
        root: NoiseKey,
        /// Which draw.
        draw: u64,
        /// Number of the batch's first example.
        first: u64,
    },
}

impl Pass {
    /// The draw of one training step.
    pub fn sampled(seed: u64, step: u64, estimator: Estimator) -> Self {
        Self::Sampled { estimator, root: NoiseKey::new(seed), step, statistics: Statistics::Batch, first: 0 }
    }

    /// The draws of one training step that takes several; the first is that of [`Pass::sampled`].
    pub fn several(seed: u64, step: u64, estimator: Estimator, num_draws: u64) -> impl Iterator<Item = Self> {
        let (first, root) = (Self::sampled(seed, step, estimator), NoiseKey::new(seed).child(Purpose::Draws));
        let later = (1..num_draws).map(move |draw| root.fold(draw));
        let of_root = move |root| Self::Sampled { estimator, root, step, statistics: Statistics::Batch, first: 0 };
        std::iter::once(first).chain(later.map(of_root))
    }

    /// Draw number `draw` of a prediction: one network for every example, with noise that no training step has.
    pub fn prediction(seed: u64, draw: u64) -> Self {
        let root = NoiseKey::new(seed).child(Purpose::Evaluate);
        Self::Sampled { estimator: Estimator::Reparam, root, step: draw, statistics: Statistics::Running, first: 0 }
    }

    /// The same draw for the part of a batch that begins with its example number `first`: noise of single examples is what
    /// it is when the batch is not divided.
    pub fn beginning_with(self, number: u64) -> Self {
        match self {
            Self::Means => Self::Means,
            Self::Sampled { estimator, root, step, statistics, .. } => {
                Self::Sampled { estimator, root, step, statistics, first: number }
            }
            Self::Marginal { root, draw, .. } => Self::Marginal { root, draw, first: number },
        }
    }

    /// Another draw, of process number `process` among several that train together, each with noise of its own.
    pub fn of_process(self, process: u64) -> Self {
        match self {
            Self::Sampled { estimator, root, step, statistics, first } => {
                let root = root.child(Purpose::Processes).fold(process);
                Self::Sampled { estimator, root, step, statistics, first }
            }
            other => other,
        }
    }

    /// Draw number `draw` of predictions of single examples, of which the batch's first is number `first`.
    ///
    /// Each example's output has the distribution that it has under [`prediction`](Self::prediction), but two examples
    /// need not share their weights: noise enters where it costs least, on the activations of k-tied dense layers and
    /// as one draw of the weights elsewhere. Averages over draws are the same, and closer to their limits, because
    /// their errors differ from example to example. An example gets the same noise however examples are divided
    /// into batches.
    pub fn marginal(seed: u64, draw: u64, first: u64) -> Self {
        Self::Marginal { root: NoiseKey::new(seed).child(Purpose::Evaluate), draw, first }
    }

    /// The outputs of the first `num_draws` draws of a prediction in one tensor, where `forward` gives one of them: of
    /// a layer, a network, or any function of passes.
    ///
    /// # Shapes
    /// - an output: `[…]` of rank `D`; result: `[S, …]` of rank `D2` = D + 1
    ///
    /// # Errors
    /// What `forward` says.
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use ktied::nn::{LayerConfig, LinearConfig, Pass};
    ///
    /// let layer = LayerConfig::new("dense", 0, "k-tied:2".parse()?);
    /// let linear = LinearConfig { inputs: 8, outputs: 4, activation: Default::default(), layer }.init(&Device::flex())?;
    /// let x = Tensor::<2>::ones([3, 8], &Device::flex());
    /// let draws: Tensor<3> = Pass::stack_predictions(42, 10, |pass| linear.forward(x.clone(), &pass))?;
    /// assert_eq!(draws.dims(), [10, 3, 4]);
    /// # Ok::<(), ktied::Error>(())
    /// ```
    pub fn stack_predictions<const D: usize, const D2: usize>(
        seed: u64,
        num_draws: u64,
        forward: impl Fn(Self) -> Result<Tensor<D>>,
    ) -> Result<Tensor<D2>> {
        let draws = (0..num_draws.max(1)).map(|draw| forward(Self::prediction(seed, draw)));
        Ok(Tensor::stack(draws.collect::<Result<_>>()?, 0))
    }

    /// What `local` on a whole network means for a layer that uses its weights at several positions: Flipout. Every
    /// other pass is itself.
    pub fn where_weights_are_shared(self) -> Self {
        match self {
            Self::Sampled { estimator: Estimator::Local, root, step, statistics, first } => {
                Self::Sampled { estimator: Estimator::Flipout, root, step, statistics, first }
            }
            other => other,
        }
    }

    /// What a marginal pass means for weights that are drawn: one draw for all examples. Every other pass is itself.
    pub(crate) fn drawn(self) -> Self {
        match self {
            Self::Marginal { root, draw, first } => {
                let (estimator, statistics) = (Estimator::Reparam, Statistics::Running);
                Self::Sampled { estimator, root, step: draw, statistics, first }
            }
            other => other,
        }
    }

    /// Root of the noise, number of the draw and of the batch's first example; none for means.
    pub(crate) fn noise(self) -> Option<(NoiseKey, u64, usize)> {
        match self {
            Self::Means => None,
            Self::Sampled { root, step, first, .. } => Some((root, step, first as usize)),
            Self::Marginal { root, draw, first } => Some((root, draw, first as usize)),
        }
    }

    /// Whose mean and variance batch normalisation uses.
    pub fn statistics(self) -> Statistics {
        match self {
            Self::Means | Self::Marginal { .. } => Statistics::Running,
            Self::Sampled { statistics, .. } => statistics,
        }
    }
}

/// The streams of one layer in one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerNoise {
    root: NoiseKey,
    step: u64,
    layer: u64,
    /// Number of the batch's first example.
    first: usize,
}

impl LayerNoise {
    pub(crate) fn new(root: NoiseKey, step: u64, layer: u64) -> Self {
        Self { root, step, layer, first: 0 }
    }

    pub(crate) fn beginning_with(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// ε of the layer's tensor number `tensor`: 0 the kernel, 1 the bias.
    pub(crate) fn weights(self, tensor: u64) -> NoiseKey {
        self.root.child(Purpose::Weights).at(self.step, self.layer).fold(tensor)
    }

    pub(crate) fn of(self, purpose: Purpose) -> NoiseKey {
        self.root.child(purpose).at(self.step, self.layer)
    }

    pub(crate) fn signs(self, purpose: Purpose) -> SignKey {
        SignKey { key: self.of(purpose), first: self.first }
    }
}
