//! What a network, or several, say of single examples, with how sure they are.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::classes::Opinion;
use super::ensemble::Ensemble;
use super::groups::{Group, average};
use super::mixture::Mixture;
use super::predictive::{Predictive, host};
use crate::error::{Error, Result};
use crate::models::Network;

/// Predictions for the examples of a batch, in its order.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictions {
    /// Of networks for classes.
    Classes(Vec<ClassPrediction>),
    /// Of networks for numbers: one for every output of every example, `[B][N]`.
    Values(Vec<Vec<ValuePrediction>>),
}

/// Which draws a prediction averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// How many.
    pub samples: u64,
    /// Seed of their noise.
    pub seed: u64,
    /// Number of the batch's first example: noise of single examples begins there, so that a stream of examples gets
    /// the same predictions however it is divided into batches.
    pub first: u64,
}

impl Default for Draws {
    /// 100 draws of seed 0, from the first example on.
    fn default() -> Self {
        Self { samples: 100, seed: 0, first: 0 }
    }
}

/// What is said of one example of some class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassPrediction {
    /// The most probable class; of equals the first.
    pub class: usize,
    /// The average probability of every class.
    pub probabilities: Vec<f64>,
    /// Entropy of these probabilities, in nats: all uncertainty.
    pub entropy: f64,
    /// What of it is about the weights (epistemic); the rest would remain if they were known.
    pub mutual_information: f64,
}

/// What is said of one number: a mixture of a Gaussian for every draw.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValuePrediction {
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation, noise included.
    pub sd: f64,
    /// The lower end of its central interval,
    pub lower: f64,
    /// and the upper end.
    pub upper: f64,
}

impl<N: Network> Ensemble<N> {
    /// Predicts a batch by the average of some draws of every member; for numbers, `level` is the mass of the
    /// central interval, 0.95 say.
    ///
    /// Memory is that of ten sums for every example, and for numbers all draws of the batch, whose quantiles need them.
    /// Many batches are faster by [`predict_batches`](Self::predict_batches), a few at a time.
    ///
    /// # Errors
    /// What a network says; if there is no draw, or `level` is not between 0 and 1.
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use ktied::evaluate::{Draws, Ensemble, Predictions};
    /// use ktied::models::{MlpSpec, NetworkConfig, PosteriorSpec};
    /// use ktied::objective::{Likelihood, LikelihoodKind};
    ///
    /// let device = Device::flex();
    /// let config = NetworkConfig::new(PosteriorSpec::new("mean-field".parse()?));
    /// let mlp = MlpSpec::new([8, 16, 1]).init(&config, &device)?;
    /// let likelihood = Likelihood::new(LikelihoodKind::Gaussian, 1, 0.5, &device)?;
    /// let ensemble = Ensemble::new([(&mlp, &likelihood)])?;
    /// let predictions = ensemble.predict(Tensor::ones([3, 8], &device), &Draws::default(), 0.95)?;
    /// let Predictions::Values(rows) = predictions else { panic!("numbers") };
    /// let value = rows[0][0];
    /// // The noise alone makes ±1.96·0.5, and the weights some more.
    /// assert!(value.sd > 0.5 && value.upper - value.lower > 2.0 * 1.96 * 0.5);
    /// # Ok::<(), ktied::Error>(())
    /// ```
    pub fn predict(&self, x: N::Input, draws: &Draws, level: f64) -> Result<Predictions> {
        self.predict_batches(vec![x], draws, level)?.pop().ok_or(Error::NoExamples)
    }

    /// The predictions for each of some batches, which share every draw of the weights; examples are counted through, so
    /// each has the prediction that it has in a batch of its own.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn predict_batches(&self, inputs: Vec<N::Input>, draws: &Draws, level: f64) -> Result<Vec<Predictions>> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::NotAFraction { what: "level".into(), found: level });
        }
        let Draws { samples, seed, first } = *draws;
        let batches = inputs.len();
        let (mut output, mut draws) = (self.outputs(inputs, seed), vec![vec![]; batches]);
        let members = self.predictives();
        let are_classes = matches!(members.first(), Some(Predictive::Classes(_)));
        let sums = self.sums(batches, first, samples, |wanted| {
            let output = output(wanted)?;
            if !are_classes {
                draws[wanted.batch].push((wanted.member, host(output.clone())));
            }
            Ok(output)
        })?;
        let batches = sums.iter().zip(&draws).map(|((rows, groups), draws)| {
            let rows = (0..*rows).into_par_iter();
            match are_classes {
                true => Predictions::Classes(rows.map(|row| class_of(groups, row)).collect()),
                false => {
                    let of_row = |row| values_of(groups, row, members, draws, level);
                    Predictions::Values(rows.map(of_row).collect())
                }
            }
        });
        Ok(batches.collect())
    }
}

fn class_of(groups: &[Group], row: usize) -> ClassPrediction {
    let average = average(groups, row, None);
    let Opinion { class, entropy, mutual_information, .. } = Opinion::new(&average.prediction, average.entropy);
    ClassPrediction { class, probabilities: average.prediction, entropy, mutual_information }
}

/// `draws` are members with their means, `[B, N]`.
fn values_of(
    groups: &[Group],
    row: usize,
    members: &[Predictive],
    draws: &[(usize, Vec<f64>)],
    level: f64,
) -> Vec<ValuePrediction> {
    let average = average(groups, row, None);
    let width = average.prediction.len();
    let of_output = |(output, (mean, variance)): (usize, (&f64, &f64))| {
        let components = draws.iter().filter_map(|(member, means)| {
            let log_noise = members.get(*member)?.log_noise().get(output)?;
            Some((*means.get(row * width + output)?, log_noise.exp()))
        });
        let mixture = Mixture::new(components.collect());
        let [lower, upper] = mixture.central_interval(level);
        ValuePrediction { mean: *mean, sd: variance.sqrt(), lower, upper }
    };
    average.prediction.iter().zip(&average.variance).enumerate().map(of_output).collect()
}
