//! What is trained: a network, and the likelihood that its outputs speak through.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::config::Config;
use crate::data::{DataSet, Inputs, Split, Targets};
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
        let kind = check(config, split)?;
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

/// The likelihood of a configuration, if it can be and its network fits the data; or all that is wrong.
fn check(config: &Config, split: &Split) -> Result<LikelihoodKind> {
    let kind = config.likelihood.kind.unwrap_or_else(|| suggested(&split.targets, config.model.outputs()));
    let all = [config.check(), check_inputs(config, &split.inputs), check_outputs(config, kind, &split.targets)];
    Error::all(all.into_iter().filter_map(Result::err).flat_map(Error::into_faults).collect())?;
    Ok(kind)
}

/// Everything that is wrong with a configuration for a data set, before anything is made for it.
///
/// # Errors
/// Each fault of the configuration itself, of the network for the data, and of the batch ([`Error::Several`] if there are more
/// than one).
pub fn check_together(config: &Config, data: &DataSet) -> Result<()> {
    let mut faults = check(config, &data.train).map_or_else(Error::into_faults, |_| Vec::new());
    let (examples, found) = (data.train.len(), config.train.batch);
    if found > examples && examples > 0 {
        faults.push(Error::BatchTooLarge { set: data.name.clone(), examples, found });
    }
    Error::all(faults)
}

fn check_outputs(config: &Config, kind: LikelihoodKind, targets: &Targets) -> Result<()> {
    let (outputs, expected) = (config.model.outputs(), outputs_for(kind, targets)?);
    match outputs == expected {
        true => Ok(()),
        false => does_not_fit(config, "the number of the model's outputs", expected.to_string(), outputs),
    }
}

fn does_not_fit<T>(config: &Config, key: &str, expected: String, found: usize) -> Result<T> {
    Err(Error::DoesNotFit { key: key.into(), set: config.data.set.clone(), expected, found })
}

fn check_inputs(config: &Config, inputs: &Inputs) -> Result<()> {
    let width = inputs.width();
    let (key, found) = match (&config.model, inputs) {
        (ModelSpec::Lstm(spec), Inputs::Tokens { .. }) => {
            let words = config.data.vocabulary;
            if spec.vocabulary >= words {
                return Ok(());
            }
            return does_not_fit(config, "model.vocabulary", format!("at least {words}"), spec.vocabulary);
        }
        (ModelSpec::Lstm(_), _) => return Err(Error::WrongInputs { model: "lstm", found: "numbers" }),
        (model, Inputs::Tokens { .. }) => return Err(Error::WrongInputs { model: model.name(), found: "words" }),
        (ModelSpec::Mlp(spec), _) => ("the first of model.sizes", spec.sizes.first().copied().unwrap_or(0)),
        (ModelSpec::LeNet(spec), _) => ("model.side² · model.channels", spec.side * spec.side * spec.channels),
        (ModelSpec::ResNet18(spec), _) => ("model.side² · model.channels", spec.side * spec.side * spec.channels),
    };
    match found == width {
        true => Ok(()),
        false => does_not_fit(config, key, width.to_string(), found),
    }
}

/// What targets and the number of outputs suggest.
fn suggested(targets: &Targets, outputs: usize) -> LikelihoodKind {
    match targets {
        Targets::Classes { num_classes: 2, .. } if outputs == 1 => LikelihoodKind::Bernoulli,
        Targets::Classes { .. } => LikelihoodKind::Softmax,
        Targets::Values { .. } => LikelihoodKind::Gaussian,
    }
}

/// How many outputs a likelihood of these targets needs.
fn outputs_for(kind: LikelihoodKind, targets: &Targets) -> Result<usize> {
    match (kind, targets) {
        (LikelihoodKind::Softmax, Targets::Classes { num_classes, .. }) => Ok(*num_classes),
        (LikelihoodKind::Bernoulli, Targets::Classes { num_classes: 2, .. }) => Ok(1),
        (LikelihoodKind::Gaussian | LikelihoodKind::GaussianFixed, Targets::Values { width, .. }) => Ok(*width),
        (kind, Targets::Classes { .. }) => Err(Error::WrongTargets { likelihood: kind.name(), found: "classes" }),
        (kind, Targets::Values { .. }) => Err(Error::WrongTargets { likelihood: kind.name(), found: "numbers" }),
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
            refuse(Preset::LeNetCifar100, &[("model.side", "8"), ("model.classes", "10")]),
            "model.side² · model.channels must be 64 for the data set `digits`, got 192"
        );
        let inputs = "the model `lstm` does not fit a data set whose inputs are numbers";
        assert!(refuse(Preset::LstmImdb, &[]).contains(inputs));
        assert_eq!(
            refuse(Preset::MlpDigits, &[("likelihood.kind", "gaussian")]),
            "the likelihood `gaussian` does not fit a data set whose targets are classes"
        );
    }

    #[test]
    fn all_that_does_not_fit_is_said_at_once() {
        assert_eq!(
            refuse(Preset::LeNetCifar100, &[("model.side", "8")]),
            "2 things are wrong:\n  model.side² · model.channels must be 64 for the data set `digits`, got 192\n  the number of \
             the model's outputs must be 10 for the data set `digits`, got 100"
        );
    }
}
