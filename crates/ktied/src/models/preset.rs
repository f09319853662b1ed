//! The named experiments of the paper, and one on the embedded digits.

use std::fmt;
use std::str::FromStr;

use super::{LeNetSpec, LstmSpec, MlpSpec, ModelSpec, ResNet18Spec};
use crate::error::{Error, Result};
use crate::nearest::nearest;

/// A model on a data set.
///
/// ```
/// use ktied::models::Preset;
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

    /// Its network.
    pub fn model(self) -> ModelSpec {
        match self {
            Self::MlpMnist | Self::MlpFashion => ModelSpec::Mlp(MlpSpec::default()),
            Self::LeNetCifar100 => ModelSpec::LeNet(LeNetSpec::default()),
            Self::LstmImdb => ModelSpec::Lstm(LstmSpec::default()),
            Self::ResNet18Cifar10 => ModelSpec::ResNet18(ResNet18Spec::default()),
            Self::MlpDigits => ModelSpec::Mlp(MlpSpec { sizes: vec![64, 64, 64, 10] }),
        }
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
    use crate::models::PosteriorSpec;

    #[test]
    fn names_round_trip_and_every_preset_makes_a_network() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
            assert!(preset.model().layers(&PosteriorSpec::default()).is_ok(), "{preset}");
        }
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_nearest_and_all_names() {
        let error = "mlp-minst".parse::<Preset>().unwrap_err().to_string();
        assert!(error.contains("preset `mlp-minst` is unknown: did you mean `mlp-mnist`?"), "{error}");
        assert!(Preset::ALL.iter().all(|preset| error.contains(preset.name())), "{error}");
    }
}
