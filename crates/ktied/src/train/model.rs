//! What is trained: a network, and the likelihood that its outputs speak through.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::config::Config;
use crate::data::{Inputs, Split, Targets};
use crate::error::{Error, Result};
use crate::models::{AnyNetwork, Features, ModelSpec, Network};
use crate::nn::Pass;
use crate::objective::{Likelihood, LikelihoodKind, Observed};

/// A network and its likelihood: all parameters of a run.
#[derive(Debug, Module)]
pub struct Model {
    /// The network.
    pub network: AnyNetwork,
    /// p(target | output)
    pub likelihood: Likelihood,
}

impl Model {
    /// First values for a data set, of which `split` is a part.
    ///
    /// # Errors
    /// If the configuration cannot be, or network and data do not fit each other.
    pub fn new(config: &Config, split: &Split, device: &Device) -> Result<Self> {
        config.check()?;
        let kind = fit(config, split)?;
        let network = config.model.init(&config.network(), device)?;
        let likelihood = Likelihood::new(kind, config.model.outputs(), config.likelihood.noise, device)?;
        Ok(Self { network, likelihood })
    }

    /// The network's output and −ln p(observed | output) of every example, `[B]`, in nats.
    ///
    /// # Errors
    /// If inputs or targets do not fit.
    pub fn nll(&self, features: Features, observed: &Observed, pass: &Pass) -> Result<(Tensor<2>, Tensor<1>)> {
        let output = self.network.forward(features, pass)?;
        let nll = self.likelihood.nll(output.clone(), observed)?;
        Ok((output, nll))
    }
}

/// The likelihood of a configuration, if its network fits the data.
fn fit(config: &Config, split: &Split) -> Result<LikelihoodKind> {
    let set = &config.data.set;
    let refuse = |key: &str, expected: String, found: usize| {
        Err(Error::DoesNotFit { key: key.into(), set: set.clone(), expected, found })
    };
    let width = split.inputs.width();
    match (&config.model, &split.inputs) {
        (ModelSpec::Lstm(spec), Inputs::Tokens { .. }) if spec.vocabulary < config.data.vocabulary => {
            return refuse("model.vocabulary", format!("at least {}", config.data.vocabulary), spec.vocabulary);
        }
        (ModelSpec::Lstm(_), Inputs::Tokens { .. }) => {}
        (ModelSpec::Lstm(_), _) => return Err(Error::WrongInputs { model: "lstm", found: "numbers" }),
        (_, Inputs::Tokens { .. }) => return Err(Error::WrongInputs { model: config.model.name(), found: "words" }),
        (ModelSpec::Mlp(spec), _) if spec.sizes.first() != Some(&width) => {
            let found = spec.sizes.first().copied().unwrap_or(0);
            return refuse("the first of model.sizes", width.to_string(), found);
        }
        (ModelSpec::LeNet(spec), _) if spec.side * spec.side * spec.channels != width => {
            let found = spec.side * spec.side * spec.channels;
            return refuse("model.side² · model.channels", width.to_string(), found);
        }
        (ModelSpec::ResNet18(spec), _) if spec.side * spec.side * spec.channels != width => {
            let found = spec.side * spec.side * spec.channels;
            return refuse("model.side² · model.channels", width.to_string(), found);
        }
        _ => {}
    }
    let outputs = config.model.outputs();
    let suggested = match &split.targets {
        Targets::Classes { num_classes: 2, .. } if outputs == 1 => LikelihoodKind::Bernoulli,
        Targets::Classes { .. } => LikelihoodKind::Softmax,
        Targets::Values { .. } => LikelihoodKind::Gaussian,
    };
    let kind = config.likelihood.kind.unwrap_or(suggested);
    let expected = match (kind, &split.targets) {
        (LikelihoodKind::Softmax, Targets::Classes { num_classes, .. }) => *num_classes,
        (LikelihoodKind::Bernoulli, Targets::Classes { num_classes: 2, .. }) => 1,
        (LikelihoodKind::Gaussian | LikelihoodKind::GaussianFixed, Targets::Values { width, .. }) => *width,
        (kind, Targets::Classes { .. }) => {
            return Err(Error::WrongTargets { likelihood: kind.name(), found: "classes" });
        }
        (kind, Targets::Values { .. }) => {
            return Err(Error::WrongTargets { likelihood: kind.name(), found: "numbers" });
        }
    };
    match outputs == expected {
        true => Ok(kind),
        false => refuse("the number of the model's outputs", expected.to_string(), outputs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Preset, Tree};
    use crate::data::{DataSpec, load};

    fn refuse(preset: Preset, settings: &[(&str, &str)]) -> String {
        let mut tree = Tree::of(&preset.config());
        settings.iter().for_each(|(key, value)| tree.set(key, value).unwrap());
        let mut config = tree.config().unwrap();
        config.data.set = "digits".into();
        let digits = load(&DataSpec::named("digits")).unwrap();
        Model::new(&config, &digits.train, &Device::flex()).unwrap_err().to_string()
    }

    #[test]
    fn a_network_that_does_not_fit_the_data_is_refused_with_what_would() {
        assert_eq!(
            refuse(Preset::MlpMnist, &[]),
            "the first of model.sizes must be 64 for the data set `digits`, got 784"
        );
        assert_eq!(
            refuse(Preset::MlpDigits, &[("model.sizes", "64,5")]),
            "the number of the model's outputs must be 10 for the data set `digits`, got 5"
        );
        assert_eq!(
            refuse(Preset::LeNetCifar100, &[("model.side", "8")]),
            "model.side² · model.channels must be 64 for the data set `digits`, got 192"
        );
        assert_eq!(refuse(Preset::LstmImdb, &[]), "the model `lstm` does not fit a data set whose inputs are numbers");
        assert_eq!(
            refuse(Preset::MlpDigits, &[("likelihood.kind", "gaussian")]),
            "the likelihood `gaussian` does not fit a data set whose targets are classes"
        );
    }
}
