//! The one schema of a training run: the same names in TOML files, in presets, in `--set` and in a run's manifest.
//!
//! A [`Config`] is a preset with changes on top; [`Tree`] is what makes a change by a dotted name, and refuses a name
//! that does not exist with the nearest one that does. [`KEYS`] says what each means.

mod keys;
mod preset;
mod tree;

pub use keys::{KEYS, Key, reference};
pub use preset::Preset;
pub use tree::{KeyError, Tree};

use serde::{Deserialize, Serialize};

use crate::cluster::Wire;
use crate::data::DataSpec;
use crate::error::{Error, Result};
use crate::models::{ModelSpec, NetworkConfig, PosteriorSpec};
use crate::nn::Estimator;
use crate::objective::{Anneal, Elbo, LikelihoodKind};
use crate::prior::PriorRule;

/// Everything that a training run depends on.
///
/// ```
/// use ktied::config::{Preset, Tree};
/// let mut tree = Tree::of(&Preset::MlpMnist.config());
/// tree.overlay(&toml::from_str("posterior.kind = 'k-tied:2'")?)?;
/// tree.set("optim.lr", "3e-4")?;
/// let config = tree.config()?;
/// assert_eq!((config.optim.lr, config.train.batch), (3e-4, 1024));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which data.
    pub data: DataSpec,
    /// Which network.
    pub model: ModelSpec,
    /// Which posterior.
    pub posterior: PosteriorSpec,
    /// Which prior.
    pub prior: PriorSpec,
    /// How gradients are estimated.
    pub estimator: EstimatorSpec,
    /// What the outputs say of the targets.
    pub likelihood: LikelihoodSpec,
    /// How parameters are updated.
    pub optim: OptimSpec,
    /// How the weight on the divergence grows.
    pub anneal: AnnealSpec,
    /// How long, how often, from which seed.
    pub train: TrainSpec,
    /// How several processes train together, if they do.
    #[serde(default)]
    pub cluster: ClusterSpec,
}

/// Which prior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorSpec {
    /// The rule.
    pub kind: PriorKind,
    /// σₚ of a normal prior, or where an empirical one begins.
    pub scale: f64,
    /// Steps between updates of an empirical prior.
    pub every: u64,
}

/// The rule of the priors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriorKind {
    /// One σₚ for every weight.
    Normal,
    /// N(0, 2/fan-in), biases N(0, 1).
    He,
    /// A σₚ for each tensor, found again as training goes on.
    Empirical,
}

/// How gradients are estimated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimatorSpec {
    /// The estimator.
    #[serde(with = "crate::text")]
    pub kind: Estimator,
    /// Draws a step.
    pub draws: u64,
}

/// What the outputs say of the targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LikelihoodSpec {
    /// The likelihood, where it is not the one that targets and outputs suggest.
    #[serde(default, with = "optional_text")]
    pub kind: Option<LikelihoodKind>,
    /// Standard deviation of a Gaussian's noise, or where it begins.
    pub noise: f64,
    /// The weight on the divergence for ever; below 1 a cold posterior.
    pub temperature: f64,
}

/// How parameters are updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimSpec {
    /// Learning rate.
    pub lr: f64,
    /// Learning rate of the scales, where it is another.
    pub scale_lr: Option<f64>,
    /// The share of the run after which both rates are a tenth.
    pub drop_after: Option<f64>,
    /// Largest norm of a whole gradient.
    pub clip: Option<f64>,
}

/// How the weight on the divergence grows from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnealSpec {
    /// The paper's c: min(1, c·100·⌊step/100⌋).
    pub per_batch: Option<f64>,
    /// Linear over so many epochs.
    pub epochs: Option<f64>,
}

/// What to do when a loss or a gradient is not a finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NonFinite {
    /// Stop, keeping the last good checkpoint.
    Stop,
    /// Leave the step out.
    Skip,
    /// Leave the step out and halve the learning rate.
    Halve,
}

/// How long, how often, from which seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSpec {
    /// Passes over the training examples.
    pub epochs: u64,
    /// Steps, where they and not the epochs say how long.
    pub steps: Option<u64>,
    /// Examples a step.
    pub batch: usize,
    /// The root of all randomness.
    pub seed: u64,
    /// Epochs between validations; 0 for never.
    pub validate_every: u64,
    /// Draws of a validation.
    pub validate_draws: u64,
    /// Validations without a better −ELBO after which training stops.
    pub patience: Option<u64>,
    /// Epochs between checkpoints; 0 for one at the end only.
    pub checkpoint_every: u64,
    /// Steps between checkpoints, besides those of epochs.
    pub checkpoint_steps: Option<u64>,
    /// Checkpoints that are kept besides the best.
    pub keep: usize,
    /// Steps between lines of the event log.
    pub log_every: u64,
    /// What to do when a loss or a gradient is not a finite number.
    pub non_finite: NonFinite,
    /// Whether to log the signal-to-noise ratio of the scales' gradients.
    pub snr: bool,
}

/// Whether processes that train together draw the same weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterNoise {
    /// They do: the run is that of one process, but for the order in which gradients are added.
    #[default]
    Shared,
    /// Each draws its own: the gradient is an average over as many draws, of a lower variance.
    PerRank,
}

/// How several processes train together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// Whose noise.
    pub noise: ClusterNoise,
    /// How gradients go from one to another.
    pub wire: Wire,
}

impl Config {
    /// The configuration as a TOML document; what is not set is left out.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// Reads what [`to_toml`](Self::to_toml) wrote: a whole configuration, in which what is missing is not set.
    ///
    /// # Errors
    /// If the text is no TOML, or not a whole configuration.
    pub fn from_toml(text: &str) -> Result<Self, KeyError> {
        let wrong = |reason: String| KeyError::Value { key: "configuration".into(), reason };
        toml::from_str(text).map_err(|error| wrong(error.to_string()))
    }

    /// Refuses what no run could start with, all of it at once; the data check the rest.
    ///
    /// # Errors
    /// Every key whose value cannot be ([`Error::Several`] if there are more than one).
    pub fn check(&self) -> Result<()> {
        let positive = |key: &str, value: Option<f64>| value.map_or(Ok(()), |v| Error::positive(key, v).map(drop));
        let network = [
            self.model.layers(&self.posterior).map(drop),
            self.posterior.scale_init().check(),
            positive("posterior.init_means", self.posterior.init_means),
        ];
        let numbers = [
            ("prior.scale", Some(self.prior.scale)),
            ("likelihood.noise", Some(self.likelihood.noise)),
            ("likelihood.temperature", Some(self.likelihood.temperature)),
            ("optim.lr", Some(self.optim.lr)),
            ("optim.scale_lr", self.optim.scale_lr),
            ("optim.clip", self.optim.clip),
            ("anneal.per_batch", self.anneal.per_batch),
            ("anneal.epochs", self.anneal.epochs),
        ];
        let counts = [
            ("prior.every", Some(self.prior.every)),
            ("estimator.draws", Some(self.estimator.draws)),
            ("train.batch", Some(self.train.batch as u64)),
            ("train.validate_draws", Some(self.train.validate_draws)),
            ("train.keep", Some(self.train.keep as u64)),
            ("train.log_every", Some(self.train.log_every)),
            ("train.epochs", self.train.steps.is_none().then_some(self.train.epochs)),
            ("train.patience", self.train.patience),
            ("train.checkpoint_steps", self.train.checkpoint_steps),
        ];
        let counts = counts.map(|(key, found)| match found {
            Some(0) => Err(Error::TooSmall { key: key.into(), least: 1, found: 0 }),
            _ => Ok(()),
        });
        let drop_after = match self.optim.drop_after {
            // What is no number is in no range.
            Some(found) if !(0.0..=1.0).contains(&found) => {
                Err(Error::NotAFraction { what: "optim.drop_after".into(), found })
            }
            _ => Ok(()),
        };
        let both = self.anneal.per_batch.is_some() && self.anneal.epochs.is_some();
        let contradiction = Error::Contradiction { keys: "anneal.per_batch and anneal.epochs" };
        let numbers = numbers.map(|(key, value)| positive(key, value));
        let all = network
            .into_iter()
            .chain(numbers)
            .chain(counts)
            .chain([drop_after, if both { Err(contradiction) } else { Ok(()) }]);
        Error::all(all.filter_map(Result::err).collect())
    }

    /// What the network is made of besides its sizes.
    pub fn network(&self) -> NetworkConfig {
        let PriorSpec { kind, scale, every } = self.prior;
        let prior = match kind {
            PriorKind::Normal => PriorRule::Normal { scale },
            PriorKind::He => PriorRule::He,
            PriorKind::Empirical => PriorRule::Empirical { scale, every },
        };
        NetworkConfig { posterior: self.posterior.clone(), prior, seed: self.train.seed }
    }

    /// The schedule of the weight on the divergence.
    ///
    /// # Errors
    /// If a rate is not a positive number.
    pub fn anneal(&self, steps_per_epoch: u64) -> Result<Anneal> {
        Ok(match (self.anneal.per_batch, self.anneal.epochs) {
            (Some(rate), _) => Anneal::per_batch(rate)?,
            (None, Some(epochs)) => Anneal::Linear { steps: (epochs * steps_per_epoch as f64).round() as u64 },
            (None, None) => Anneal::None,
        })
    }

    /// The objective for so many training examples.
    ///
    /// # Errors
    /// If there are none, or the temperature is not a positive number.
    pub fn elbo(&self, num_train: usize) -> Result<Elbo> {
        Elbo::new(num_train)?.with_temperature(self.likelihood.temperature)
    }

    /// How many steps the run has.
    pub fn num_steps(&self, steps_per_epoch: u64) -> u64 {
        self.train.steps.unwrap_or(self.train.epochs.saturating_mul(steps_per_epoch))
    }

    /// What part of the learning rates a step has, of which the first is 1.
    pub fn rate_share(&self, step: u64, steps_per_epoch: u64) -> f64 {
        let num_steps = self.num_steps(steps_per_epoch) as f64;
        let late = self.optim.drop_after.is_some_and(|share| step as f64 > share * num_steps);
        if late { 0.1 } else { 1.0 }
    }
}

/// A text or nothing.
mod optional_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}
