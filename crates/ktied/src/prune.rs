//! Weights that say nothing, set to exactly zero.
//!
//! A weight whose posterior mean is small beside its standard deviation is as likely positive as negative: its
//! signal-to-noise ratio |μ|/σ says how much the network would miss it (Graves, 2011; Blundell et al., 2015). Pruning
//! keeps the weights with the largest ratios, over all kernels together. Biases are few, and stay.

use burn::tensor::{Tensor, TensorData};
use serde::Serialize;

use crate::config::Config;
use crate::data::DataSet;
use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::models::Network;
use crate::nn::Weights;
use crate::posterior::PosteriorKind;
use crate::train::Trainer;

/// What pruning left of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerSparsity {
    /// Its name.
    pub layer: String,
    /// Weights that it has.
    pub weights: usize,
    /// Weights that were kept.
    pub kept: usize,
}

/// The signal-to-noise ratios |μ|/σ of a network's kernels.
///
/// They are found once, and any number of networks of different sparsity made from them.
#[derive(Clone, Debug)]
pub struct Signals {
    /// One for each of the network's weights, in its order; none for a point.
    layers: Vec<Option<Matrix>>,
    /// All of them, the largest first.
    sorted: Vec<f64>,
}

impl Signals {
    /// The ratios of a network.
    ///
    /// # Errors
    /// If a kernel holds a number that is not finite (named), or no kernel has standard deviations.
    pub fn of<N: Network>(network: &N) -> Result<Self> {
        let layers: Vec<_> = network.weights().into_iter().map(signals).collect::<Result<_>>()?;
        let mut sorted: Vec<f64> = layers.iter().flatten().flat_map(Matrix::values).copied().collect();
        if sorted.is_empty() {
            return Err(Error::NothingToPrune);
        }
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        Ok(Self { layers, sorted })
    }

    /// The ratio that a weight must have to be among the `keep_frac` largest.
    ///
    /// # Errors
    /// If `keep_frac` is not between 0 and 1.
    pub fn threshold(&self, keep_frac: f64) -> Result<f64> {
        if !(0.0..=1.0).contains(&keep_frac) {
            return Err(Error::NotAFraction { what: "the share of weights to keep".into(), found: keep_frac });
        }
        let kept = (keep_frac * self.sorted.len() as f64).round() as usize;
        Ok(match kept.checked_sub(1) {
            Some(last) => self.sorted.get(last).copied().unwrap_or(0.0),
            None => f64::INFINITY,
        })
    }

    /// The network without the weights whose ratio is below `threshold`. A weight that had been pruned before stays so.
    ///
    /// # Errors
    /// If the network is not the one that the ratios are of.
    pub fn prune<N: Network>(&self, network: N, threshold: f64) -> Result<(N, Vec<LayerSparsity>)> {
        let (mut layers, mut report) = (self.layers.iter(), Vec::new());
        let network = network.map_weights(|weights| {
            let Some(Some(signals)) = layers.next() else { return Ok(weights) };
            let kept = |signal: f64| signal >= threshold && signal > 0.0;
            let mask: Vec<f32> = signals.values().iter().map(|&signal| f32::from(u8::from(kept(signal)))).collect();
            report.push(LayerSparsity {
                layer: weights.name().into(),
                weights: mask.len(),
                kept: mask.iter().filter(|&&kept| kept > 0.0).count(),
            });
            let data = TensorData::new(mask, [signals.rows(), signals.cols()]);
            let device = weights.loc().device();
            weights.with_mask(Tensor::from_data(data, &device))
        })?;
        Ok((network, report))
    }
}

/// |μ|/σ of a kernel; 0 where it was pruned before; none of a point.
fn signals(weights: &Weights) -> Result<Option<Matrix>> {
    let Some(scale) = weights.scale() else { return Ok(None) };
    let name = weights.name();
    let loc = Matrix::from_tensor(&format!("the mean of {name}"), weights.loc())?;
    let scale = Matrix::from_tensor(&format!("the standard deviation of {name}"), scale)?;
    let signal = |(mu, sigma): (&f64, &f64)| if *mu == 0.0 { 0.0 } else { mu.abs() / sigma };
    let signals = loc.values().iter().zip(scale.values()).map(signal).collect();
    Matrix::new(loc.rows(), loc.cols(), signals).map(Some)
}

/// The configuration of a pruned run.
///
/// # Errors
/// [`Error::NothingToPrune`] if the run has no standard deviations.
pub fn target(config: &Config) -> Result<Config> {
    if config.posterior.kind == PosteriorKind::Point {
        return Err(Error::NothingToPrune);
    }
    let mut target = config.clone();
    target.posterior.pruned = true;
    (target.anneal.per_batch, target.anneal.epochs) = (None, None);
    Ok(target)
}

/// A run that begins where `trained` is, without the weights whose ratio is below `threshold`.
///
/// # Errors
/// If the ratios are not of this run, or it has no standard deviations.
pub fn prune(
    trained: &Trainer,
    signals: &Signals,
    threshold: f64,
    data: &DataSet,
) -> Result<(Trainer, Vec<LayerSparsity>)> {
    let mut model = trained.model().clone();
    let (network, report) = signals.prune(model.network, threshold)?;
    model.network = network;
    Ok((Trainer::begin(target(trained.config())?, data)?.with_model(&model)?, report))
}
