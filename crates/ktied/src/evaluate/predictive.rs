//! What one draw says of an example: probabilities or means, and the log-likelihood of what was observed.

use ktied_kernels::ShapeError;

use crate::error::{Error, Result};
use crate::objective::{Likelihood, LikelihoodKind, Observed};

const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8; // ½ ln 2π

/// A likelihood on the host, in double precision.
#[derive(Debug)]
pub enum Predictive {
    /// One logit a class, or one logit that is that of the second of two classes.
    Classes(LikelihoodKind),
    /// Means, and ln s of each output.
    Gaussian(LikelihoodKind, Vec<f64>),
}

/// What was observed of a batch, with what its likelihood needs.
#[derive(Debug)]
pub struct Truth<'a> {
    /// Number of the batch's first example.
    pub first: u64,
    observations: Observations<'a>,
}

#[derive(Debug)]
enum Observations<'a> {
    Classes {
        labels: &'a [u32],
        bernoulli: bool,
    },
    /// Values, `[B, N]`, and ln s, `[N]`.
    Values {
        values: Vec<f64>,
        rows: usize,
        log_noise: &'a [f64],
    },
}

/// What was observed of one example.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Class(usize),
    Values(&'a [f64]),
}

impl Predictive {
    pub fn new(likelihood: &Likelihood) -> Result<Self> {
        let Some(gaussian) = &likelihood.gaussian else {
            return Ok(Self::Classes(likelihood.kind()));
        };
        let log_noise: Vec<f64> = gaussian.log_noise.val().into_data().iter::<f64>().collect();
        all_finite(&log_noise, |output| format!("the logarithm of the noise of output {output}"))?;
        Ok(Self::Gaussian(likelihood.kind(), log_noise))
    }

    /// Brings what was observed of a batch to the host; its first example has the number `first`.
    pub fn read<'a>(&'a self, observed: &'a Observed, first: u64) -> Result<Truth<'a>> {
        let observations = match (self, observed) {
            (Self::Classes(kind), Observed::Classes(labels)) => {
                Observations::Classes { labels, bernoulli: *kind == LikelihoodKind::Bernoulli }
            }
            (Self::Gaussian(_, log_noise), Observed::Values(values)) => {
                let ([rows, found], outputs) = (values.dims(), log_noise.len());
                check_shape("observed values", [rows, found], [rows, outputs])?;
                let values: Vec<f64> = values.to_data().iter::<f64>().collect();
                all_finite(&values, |i| {
                    format!("observed value {} of example {}", i % outputs, first + (i / outputs) as u64)
                })?;
                Observations::Values { values, rows, log_noise }
            }
            (Self::Classes(kind), Observed::Values(_)) => {
                return Err(Error::WrongTargets { likelihood: kind.name(), found: "numbers" });
            }
            (Self::Gaussian(kind, _), Observed::Classes(_)) => {
                return Err(Error::WrongTargets { likelihood: kind.name(), found: "classes" });
            }
        };
        Ok(Truth { first, observations })
    }
}

impl Truth<'_> {
    /// B
    pub fn len(&self) -> usize {
        match &self.observations {
            Observations::Classes { labels, .. } => labels.len(),
            Observations::Values { rows, .. } => *rows,
        }
    }

    pub fn target(&self, row: usize) -> Target<'_> {
        match &self.observations {
            Observations::Classes { labels, .. } => Target::Class(labels[row] as usize),
            Observations::Values { values, log_noise, .. } => Target::Values(values_of(values, row, log_noise.len())),
        }
    }

    /// How many numbers a prediction has, once the shape of the output and the labels are found to allow one.
    pub fn width(&self, output: [usize; 2]) -> Result<usize> {
        let outputs = match &self.observations {
            Observations::Classes { bernoulli: false, .. } => output[1],
            Observations::Classes { .. } => 1,
            Observations::Values { log_noise, .. } => log_noise.len(),
        };
        check_shape("output", output, [self.len(), outputs])?;
        let Observations::Classes { labels, bernoulli } = &self.observations else { return Ok(outputs) };
        let classes = if *bernoulli { 2 } else { outputs };
        match (self.first..).zip(*labels).find(|(_, label)| **label as usize >= classes) {
            Some((example, &found)) => Err(Error::UnknownClass { example, found, classes }),
            None => Ok(classes),
        }
    }

    /// Writes the prediction that an output makes, and returns the log-likelihood of what was observed.
    ///
    /// That is never the logarithm of a probability which may have underflowed: it is finite where the output is.
    pub fn predict(&self, row: usize, output: &[f64], prediction: &mut [f64]) -> f64 {
        match &self.observations {
            Observations::Classes { labels, bernoulli, .. } => {
                // A single logit z is the softmax of 0 and z.
                let (zeros, logits) = prediction.split_at_mut(usize::from(*bernoulli));
                zeros.fill(0.0);
                logits.copy_from_slice(output);
                softmax(prediction, labels[row] as usize)
            }
            Observations::Values { values, log_noise, .. } => {
                prediction.copy_from_slice(output);
                let terms = values_of(values, row, log_noise.len()).iter().zip(output).zip(*log_noise);
                -terms.map(|((y, mean), log_noise)| gaussian_nll(y - mean, *log_noise)).sum::<f64>()
            }
        }
    }
}

fn values_of(values: &[f64], row: usize, outputs: usize) -> &[f64] {
    &values[row * outputs..(row + 1) * outputs]
}

/// Turns logits into probabilities and returns the logarithm of the label's.
fn softmax(logits: &mut [f64], label: usize) -> f64 {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let label_logit = logits.get(label).copied().unwrap_or(f64::NAN);
    let mut sum = 0.0;
    for logit in logits.iter_mut() {
        *logit = (*logit - max).exp();
        sum += *logit;
    }
    logits.iter_mut().for_each(|probability| *probability /= sum);
    label_logit - max - sum.ln()
}

/// −ln N(residual; 0, s²)
fn gaussian_nll(residual: f64, log_noise: f64) -> f64 {
    let z = residual * (-log_noise).exp();
    0.5 * z * z + log_noise + HALF_LN_TAU
}

fn check_shape(operand: &'static str, found: [usize; 2], expected: [usize; 2]) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let (expected, found) = (expected.to_vec(), found.to_vec());
    Err(ShapeError::Shape { kernel: "evaluate", operand, expected, found }.into())
}

/// Refuses values that are not finite by the name of the first.
pub fn all_finite(values: &[f64], name: impl Fn(usize) -> String) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(i) => Error::finite(&name(i), values[i]).map(drop),
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
        let mut prediction = vec![0.0; truth.width([2, outputs]).unwrap()];
        let rows: Vec<f64> = output.into_data().iter::<f64>().collect();
        let rows = rows.chunks(outputs).enumerate();
        (rows.map(|(row, output)| -truth.predict(row, output, &mut prediction)).collect(), expected)
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

    #[test]
    fn the_logarithm_of_a_probability_that_underflows_is_still_finite() {
        let mut logits = [0.0, 2000.0];
        let log_likelihood = softmax(&mut logits, 0);
        assert_eq!((logits, log_likelihood), ([0.0, 1.0], -2000.0));
    }
}
