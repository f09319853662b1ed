//! What one draw says of an example: probabilities or means, and the log-likelihood of what was observed.

use burn::tensor::Tensor;
use ktied_kernels::ShapeError;

use super::classes::{Normalization, softmax};
use super::normal;
use crate::error::{Error, Result};
use crate::objective::{Likelihood, LikelihoodKind, Observed};
use crate::ops;

const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8; // ½ ln 2π

/// A likelihood on the host, in double precision.
#[derive(Clone, Debug)]
pub enum Predictive {
    /// One logit a class, or one logit that is that of the second of two classes.
    Classes(LikelihoodKind),
    /// Means, and ln s of each output.
    Gaussian(LikelihoodKind, Vec<f64>),
}

/// What was observed of a batch.
#[derive(Debug)]
pub struct Truth<'a> {
    /// Number of the batch's first example.
    pub first: u64,
    /// B
    rows: usize,
    observations: Observations<'a>,
}

#[derive(Debug)]
enum Observations<'a> {
    Classes(&'a [u32]),
    /// `[B, N]`
    Values(Vec<f64>),
    Nothing,
}

/// What was observed of one example.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Class(usize),
    Values(&'a [f64]),
    Nothing,
}

impl Predictive {
    pub fn new(likelihood: &Likelihood) -> Result<Self> {
        let Some(gaussian) = &likelihood.gaussian else {
            return Ok(Self::Classes(likelihood.kind()));
        };
        let log_noise: Vec<f64> = gaussian.log_noise.val().into_data().iter::<f64>().collect();
        all_finite(log_noise.iter().copied(), |output| format!("the logarithm of the noise of output {output}"))?;
        Ok(Self::Gaussian(likelihood.kind(), log_noise))
    }

    pub fn kind(&self) -> LikelihoodKind {
        match self {
            Self::Classes(kind) | Self::Gaussian(kind, _) => *kind,
        }
    }

    /// ln s of each output; none where outputs are logits.
    pub fn log_noise(&self) -> &[f64] {
        match self {
            Self::Classes(_) => &[],
            Self::Gaussian(_, log_noise) => log_noise,
        }
    }

    /// Brings what was observed of a batch to the host; its first example has the number `first`.
    pub fn read<'a>(&self, observed: &'a Observed, first: u64) -> Result<Truth<'a>> {
        match (self, observed) {
            (Self::Classes(_), Observed::Classes(labels)) => {
                Ok(Truth { first, rows: labels.len(), observations: Observations::Classes(labels) })
            }
            (Self::Gaussian(_, log_noise), Observed::Values(values)) => {
                let ([rows, found], outputs) = (values.dims(), log_noise.len());
                check_shape("observed values", [rows, found], [rows, outputs])?;
                let values = host(values.clone());
                all_finite(values.iter().copied(), |i| {
                    format!("observed value {} of example {}", i % outputs, first + (i / outputs) as u64)
                })?;
                Ok(Truth { first, rows, observations: Observations::Values(values) })
            }
            (Self::Classes(kind), Observed::Values(_)) => {
                Err(Error::WrongTargets { likelihood: kind.name(), found: "numbers" })
            }
            (Self::Gaussian(kind, _), Observed::Classes(_)) => {
                Err(Error::WrongTargets { likelihood: kind.name(), found: "classes" })
            }
        }
    }

    /// How many numbers a prediction has, once the shape of the output and the labels are found to allow one.
    pub fn width(&self, truth: &Truth<'_>, output: [usize; 2]) -> Result<usize> {
        let outputs = match self {
            Self::Classes(LikelihoodKind::Bernoulli) => 1,
            Self::Classes(_) => output[1],
            Self::Gaussian(_, log_noise) => log_noise.len(),
        };
        check_shape("output", output, [truth.rows, outputs])?;
        let width = if self.kind() == LikelihoodKind::Bernoulli { 2 } else { outputs };
        let Observations::Classes(labels) = &truth.observations else { return Ok(width) };
        match (truth.first..).zip(*labels).find(|(_, label)| **label as usize >= width) {
            Some((example, &found)) => Err(Error::UnknownClass { example, found, classes: width }),
            None => Ok(width),
        }
    }

    /// Writes the probabilities that logits mean, and returns the log-likelihood of the label, if there is one, and
    /// their entropy.
    ///
    /// The former is never the logarithm of a probability which may have underflowed: it is finite where the output is.
    pub fn probabilities(&self, output: &[f64], target: Target<'_>, prediction: &mut [f64]) -> (f64, f64) {
        let normalization = self.normalize(output, prediction);
        let log_likelihood = match target {
            Target::Class(label) => normalization.log_probability(self.logit(output, label)),
            _ => 0.0,
        };
        (log_likelihood, normalization.entropy)
    }

    fn normalize(&self, output: &[f64], prediction: &mut [f64]) -> Normalization {
        // A single logit z is the softmax of 0 and z.
        let zeros = prediction.len().saturating_sub(output.len());
        let (zeros, logits) = prediction.split_at_mut(zeros);
        zeros.fill(0.0);
        logits.iter_mut().zip(output).for_each(|(logit, output)| *logit = *output);
        softmax(prediction)
    }

    fn logit(&self, output: &[f64], label: usize) -> f64 {
        match (self.kind(), label) {
            (LikelihoodKind::Bernoulli, 0) => 0.0,
            (LikelihoodKind::Bernoulli, label) => output.get(label - 1).copied().unwrap_or(f64::NAN),
            (_, label) => output.get(label).copied().unwrap_or(f64::NAN),
        }
    }

    /// The log-likelihood of what was observed, if anything was, whose distribution function under this draw is added
    /// to `cdf` for each output.
    pub fn density(&self, means: &[f64], target: Target<'_>, cdf: &mut [f64]) -> f64 {
        let Target::Values(values) = target else { return 0.0 };
        let outputs = values.iter().zip(means).zip(self.log_noise()).zip(cdf);
        -outputs
            .map(|(((y, mean), log_noise), cdf)| {
                let z = (y - mean) * (-log_noise).exp();
                *cdf += normal::cdf(z);
                0.5 * z * z + log_noise + HALF_LN_TAU
            })
            .sum::<f64>()
    }
}

impl<'a> Truth<'a> {
    /// Of a batch of which nothing was observed.
    pub fn nothing(first: u64, rows: usize) -> Self {
        Self { first, rows, observations: Observations::Nothing }
    }

    /// B
    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn target(&self, row: usize) -> Target<'_> {
        match &self.observations {
            Observations::Classes(labels) => Target::Class(labels[row] as usize),
            Observations::Values(values) => {
                let outputs = values.len() / self.rows.max(1);
                Target::Values(&values[row * outputs..(row + 1) * outputs])
            }
            Observations::Nothing => Target::Nothing,
        }
    }
}

/// A tensor's numbers in double precision.
pub fn host(tensor: Tensor<2>) -> Vec<f64> {
    let mut numbers = vec![];
    read_into(tensor, &mut numbers);
    numbers
}

/// The same in the place of what `numbers` held.
pub fn read_into(tensor: Tensor<2>, numbers: &mut Vec<f64>) {
    let data = tensor.into_data();
    numbers.clear();
    match data.as_slice::<f32>() {
        Ok(found) => numbers.extend(found.iter().map(|&x| f64::from(x))),
        Err(_) => numbers.extend(data.iter::<f64>()),
    }
    ops::recycle(data);
}

pub fn check_shape(operand: &'static str, found: [usize; 2], expected: [usize; 2]) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let (expected, found) = (expected.to_vec(), found.to_vec());
    Err(ShapeError::Shape { kernel: "evaluate", operand, expected, found }.into())
}

/// Refuses values that are not finite by the name of the first.
pub fn all_finite(values: impl IntoIterator<Item = f64>, name: impl Fn(usize) -> String) -> Result<()> {
    match values.into_iter().enumerate().find(|(_, value)| !value.is_finite()) {
        Some((i, value)) => Error::finite(&name(i), value).map(drop),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;

    fn nll_of(kind: LikelihoodKind, output: [[f32; 3]; 2], observed: &Observed) -> (Vec<f64>, Vec<f64>) {
        let device = Device::flex();
        let outputs = if kind == LikelihoodKind::Bernoulli { 1 } else { 3 };
        let output = Tensor::<2>::from_floats(output, &device).slice([0..2, 0..outputs]);
        let likelihood = Likelihood::new(kind, outputs, 0.3, &device).unwrap();
        let expected = likelihood.nll(output.clone(), observed).unwrap().into_data().iter::<f64>().collect();
        let predictive = Predictive::new(&likelihood).unwrap();
        let truth = predictive.read(observed, 0).unwrap();
        let mut prediction = vec![0.0; predictive.width(&truth, [2, outputs]).unwrap()];
        let rows = host(output);
        let found = rows.chunks(outputs).enumerate().map(|(row, output)| match predictive {
            Predictive::Classes(_) => -predictive.probabilities(output, truth.target(row), &mut prediction).0,
            Predictive::Gaussian(..) => -predictive.density(output, truth.target(row), &mut prediction),
        });
        (found.collect(), expected)
    }

    #[test]
    fn log_likelihoods_are_those_that_training_minimises() {
        let output = [[0.5, -1.5, 2.0], [-3.0, 0.25, 1.0]];
        let values = Tensor::<2>::from_floats([[0.4, -1.0, 2.0], [-3.0, 0.5, 1.1]], &Device::flex());
        for (kind, observed) in [
            (LikelihoodKind::Softmax, Observed::Classes(vec![2, 0])),
            (LikelihoodKind::Bernoulli, Observed::Classes(vec![1, 0])),
            (LikelihoodKind::Gaussian, Observed::Values(values.clone())),
            (LikelihoodKind::GaussianFixed, Observed::Values(values)),
        ] {
            let (found, expected) = nll_of(kind, output, &observed);
            // Training's are in single precision.
            for (f, e) in found.iter().zip(&expected) {
                assert!((f - e).abs() < 1e-5 * e.abs().max(1.0), "{kind}: {found:?} {expected:?}");
            }
        }
    }
}
