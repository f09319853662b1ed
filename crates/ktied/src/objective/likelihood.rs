//! What a network's output says of what was observed: classes, yes or no, or numbers.

use std::fmt;
use std::str::FromStr;

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::Gaussian;
use crate::error::{Error, Result};
use crate::ops;

/// What was observed of a batch of examples.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each batch, not one for each example")]
pub enum Observed {
    /// A class each.
    Classes(Vec<u32>),
    /// Numbers, `[B, N]`.
    Values(Tensor<2>),
}

/// The family of a likelihood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LikelihoodKind {
    /// `softmax`: one logit a class.
    Softmax,
    /// `bernoulli`: one logit, that of the second of two classes.
    Bernoulli,
    /// `gaussian`: one mean an output, noise that is trained along.
    Gaussian,
    /// `gaussian-fixed`: the same with given noise.
    GaussianFixed,
}

impl LikelihoodKind {
    const ALL: [Self; 4] = [Self::Softmax, Self::Bernoulli, Self::Gaussian, Self::GaussianFixed];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Softmax => "softmax",
            Self::Bernoulli => "bernoulli",
            Self::Gaussian => "gaussian",
            Self::GaussianFixed => "gaussian-fixed",
        }
    }
}

impl fmt::Display for LikelihoodKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LikelihoodKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::UnknownLikelihood { found: text.into() };
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(unknown)
    }
}

/// p(observed | output), with the parameters that it may have of its own.
#[derive(Debug, Module)]
pub struct Likelihood {
    /// The noise of a Gaussian.
    pub gaussian: Option<Gaussian>,
    #[module(skip)]
    kind: LikelihoodKind,
}

impl Likelihood {
    /// A likelihood for a network of so many outputs; `noise` is the standard deviation of a Gaussian, or where it
    /// begins.
    ///
    /// # Errors
    /// If the noise of a Gaussian is not a positive finite number.
    pub fn new(kind: LikelihoodKind, outputs: usize, noise: f64, device: &Device) -> Result<Self> {
        let gaussian = match kind {
            LikelihoodKind::Softmax | LikelihoodKind::Bernoulli => None,
            LikelihoodKind::Gaussian => Some(Gaussian::learned(outputs, noise, device)?),
            LikelihoodKind::GaussianFixed => Some(Gaussian::fixed(outputs, noise, device)?),
        };
        Ok(Self { gaussian, kind })
    }

    /// Its family.
    pub fn kind(&self) -> LikelihoodKind {
        self.kind
    }

    /// −ln p(observed | output) of every example, in nats.
    ///
    /// # Shapes
    /// - network_output: `[B, N]`; output: `[B]`
    ///
    /// # Errors
    /// If classes are observed where the likelihood is of numbers or the other way round, shapes do not fit, or a label
    /// is out of range.
    pub fn nll(&self, network_output: Tensor<2>, observed: &Observed) -> Result<Tensor<1>> {
        match (self.kind, &self.gaussian, observed) {
            (LikelihoodKind::Softmax, _, Observed::Classes(labels)) => {
                Ok(ops::softmax_cross_entropy(network_output, labels)?)
            }
            (LikelihoodKind::Bernoulli, _, Observed::Classes(labels)) => {
                let targets = labels.iter().map(|&label| match label {
                    0 | 1 => Ok(label as f32),
                    found => Err(Error::NotABit { found }),
                });
                let targets: Vec<f32> = targets.collect::<Result<_>>()?;
                let [batch, outputs] = network_output.dims();
                Ok(ops::sigmoid_cross_entropy(network_output.reshape([batch * outputs]), &targets)?)
            }
            (_, Some(gaussian), Observed::Values(values)) => gaussian.nll(network_output, values.clone()),
            (kind, _, Observed::Classes(_)) => Err(Error::WrongTargets { likelihood: kind.name(), found: "classes" }),
            (kind, _, Observed::Values(_)) => Err(Error::WrongTargets { likelihood: kind.name(), found: "numbers" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> Tensor<2> {
        Tensor::from_floats([[0.5], [-1.0]], &Device::flex())
    }

    #[test]
    fn a_bernoulli_of_a_logit_is_the_softmax_of_zero_and_that_logit() {
        let (bernoulli, softmax) = (LikelihoodKind::Bernoulli, LikelihoodKind::Softmax);
        let observed = Observed::Classes(vec![1, 0]);
        let nll = |kind, output: Tensor<2>| {
            let likelihood = Likelihood::new(kind, 1, 1.0, &Device::flex()).unwrap();
            likelihood.nll(output, &observed).unwrap().into_data().iter::<f64>().collect::<Vec<_>>()
        };
        let two = Tensor::cat(vec![Tensor::zeros([2, 1], &Device::flex()), output()], 1);
        for (a, b) in nll(bernoulli, output()).iter().zip(nll(softmax, two)) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn observations_of_the_wrong_kind_are_refused() {
        let refuse = |kind, observed| {
            let likelihood = Likelihood::new(kind, 1, 1.0, &Device::flex()).unwrap();
            likelihood.nll(output(), &observed).unwrap_err().to_string()
        };
        let values = || Observed::Values(Tensor::zeros([2, 1], &Device::flex()));
        let classes = |labels: &[u32]| Observed::Classes(labels.into());
        assert_eq!(
            refuse(LikelihoodKind::Softmax, values()),
            "the likelihood `softmax` does not fit a data set whose targets are numbers"
        );
        assert_eq!(
            refuse(LikelihoodKind::Gaussian, classes(&[0, 1])),
            "the likelihood `gaussian` does not fit a data set whose targets are classes"
        );
        assert_eq!(
            refuse(LikelihoodKind::Bernoulli, classes(&[0, 2])),
            "a bernoulli likelihood has classes 0 and 1, got 2"
        );
        assert!(refuse(LikelihoodKind::Bernoulli, classes(&[0])).contains("[2]"));
    }

    #[test]
    fn names_round_trip() {
        for kind in LikelihoodKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("gauss".parse::<LikelihoodKind>().is_err());
    }
}
