//! The named experiments of the paper, and one on the embedded digits.

use std::fmt;
use std::str::FromStr;

use ktied_kernels::ScaleForm;

use super::{
    AnnealSpec, ClusterSpec, Config, EstimatorSpec, LikelihoodSpec, NonFinite, OptimSpec, PriorKind, PriorSpec,
    TrainSpec,
};
use crate::data::DataSpec;
use crate::error::{Error, Result};
use crate::models::{LeNetSpec, LstmSpec, MlpSpec, ModelSpec, PosteriorSpec, ResNet18Spec};
use crate::nearest::nearest;
use crate::nn::Estimator;

/// A model on a data set.
///
/// ```
/// use ktied::config::Preset;
/// assert_eq!("lenet-cifar100".parse(), Ok(Preset::LeNetCifar100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// `mlp-mnist`
    MlpMnist,
    /// `mlp-fashion`
    MlpFashion,
    /// `lenet-cifar100`
    LeNetCifar100,
    /// `lstm-imdb`
    LstmImdb,
    /// `resnet18-cifar10`
    ResNet18Cifar10,
    /// `mlp-digits`
    MlpDigits,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::MlpMnist, Self::MlpFashion, Self::LeNetCifar100, Self::LstmImdb, Self::ResNet18Cifar10, Self::MlpDigits];

    /// Its name in configurations and in the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::MlpMnist => "mlp-mnist",
            Self::MlpFashion => "mlp-fashion",
            Self::LeNetCifar100 => "lenet-cifar100",
            Self::LstmImdb => "lstm-imdb",
            Self::ResNet18Cifar10 => "resnet18-cifar10",
            Self::MlpDigits => "mlp-digits",
        }
    }

    /// Its configuration, mean-field.
    pub fn config(self) -> Config {
        match self {
            Self::MlpMnist => at_rate(3e-3, paper("mnist", ModelSpec::Mlp(MlpSpec::default()), 1024)),
            Self::MlpFashion => paper("fashion-mnist", ModelSpec::Mlp(MlpSpec::default()), 1024),
            Self::LeNetCifar100 => at_rate(3e-3, paper("cifar100", ModelSpec::LeNet(LeNetSpec::default()), 1024)),
            Self::LstmImdb => at_rate(3e-3, paper("imdb", ModelSpec::Lstm(LstmSpec::default()), 128)),
            Self::ResNet18Cifar10 => resnet18(),
            Self::MlpDigits => digits(),
        }
    }
}

/// The settings of appendix D, with the middle one where the paper chose by search.
fn paper(set: &str, model: ModelSpec, batch: usize) -> Config {
    Config {
        data: DataSpec::named(set),
        model,
        posterior: PosteriorSpec::default(),
        prior: PriorSpec { kind: PriorKind::Normal, scale: 0.2, every: 100 },
        estimator: EstimatorSpec { kind: Estimator::Reparam, draws: 1 },
        likelihood: LikelihoodSpec { kind: None, noise: 1.0, temperature: 1.0 },
        optim: OptimSpec { lr: 1e-3, scale_lr: None, drop_after: None, clip: None },
        anneal: AnnealSpec { per_batch: Some(5e-5), epochs: None },
        train: TrainSpec {
            epochs: 300,
            steps: None,
            batch,
            seed: 0,
            validate_every: 1,
            validate_draws: 5,
            patience: None,
            checkpoint_every: 1,
            checkpoint_steps: None,
            keep: 2,
            log_every: 50,
            non_finite: NonFinite::Stop,
            snr: false,
        },
        cluster: ClusterSpec::default(),
    }
}

/// The rate that the search on validation examples has chosen (docs/REPRODUCTION.md).
fn at_rate(lr: f64, config: Config) -> Config {
    Config { optim: OptimSpec { lr, ..config.optim }, ..config }
}

/// TensorFlow Probability's example: prior N(0, 1), σ = softplus(ρ) from ρ = −9 and never above ln 1.2, Flipout.
fn resnet18() -> Config {
    let config = paper("cifar10", ModelSpec::ResNet18(ResNet18Spec::default()), 128);
    Config {
        posterior: PosteriorSpec {
            scale: ScaleForm::Softplus,
            init_scale: (-9.0f64).exp().ln_1p(),
            cap: Some(0.2f64.ln_1p()),
            init_means: Some(0.1),
            ..PosteriorSpec::default()
        },
        prior: PriorSpec { scale: 1.0, ..config.prior },
        estimator: EstimatorSpec { kind: Estimator::Flipout, draws: 1 },
        optim: OptimSpec { lr: 1e-4, ..config.optim },
        anneal: AnnealSpec { per_batch: None, epochs: Some(50.0) },
        train: TrainSpec { epochs: 700, ..config.train },
        ..config
    }
}

/// 15,000 steps: only that long do the scales converge on so small a set.
fn digits() -> Config {
    let config = paper("digits", ModelSpec::Mlp(MlpSpec::new([64, 64, 64, 10])), 256);
    Config {
        prior: PriorSpec { scale: 0.3, ..config.prior },
        estimator: EstimatorSpec { kind: Estimator::Local, draws: 1 },
        optim: OptimSpec { lr: 3e-3, ..config.optim },
        anneal: AnnealSpec { per_batch: None, epochs: None },
        train: TrainSpec {
            steps: Some(15_000),
            checkpoint_every: 250,
            validate_every: 0,
            log_every: 500,
            ..config.train
        },
        ..config
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            let names = Self::ALL.map(Self::name);
            let nearest = nearest(text, names).unwrap_or_default().into();
            Error::UnknownPreset { found: text.into(), nearest, names: names.join(", ") }
        };
        Self::ALL.into_iter().find(|preset| preset.name() == text).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Anneal;

    #[test]
    fn names_round_trip_and_every_preset_can_run() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
            assert_eq!(preset.config().check(), Ok(()), "{preset}");
        }
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_nearest_and_all_names() {
        let error = "mlp-minst".parse::<Preset>().unwrap_err().to_string();
        assert!(error.contains("preset `mlp-minst` is unknown: did you mean `mlp-mnist`?"), "{error}");
        assert!(Preset::ALL.iter().all(|preset| error.contains(preset.name())), "{error}");
    }

    #[test]
    fn the_residual_network_begins_and_ends_where_its_example_does() {
        let config = Preset::ResNet18Cifar10.config();
        // softplus(−9) and softplus(ln 0.2).
        assert!((config.posterior.init_scale - 1.2340e-4).abs() < 1e-8);
        assert!((config.posterior.cap.unwrap() - 0.1823).abs() < 1e-4);
        assert_eq!(config.anneal(391).unwrap(), Anneal::Linear { steps: 50 * 391 });
    }
}
