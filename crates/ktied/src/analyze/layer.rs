//! The report of one kernel.

use serde::Serialize;

use super::Spectrum;
use crate::compress::SvdFit;
use crate::error::Result;
use crate::linalg::{Matrix, Svd, svd};
use crate::models::Network;
use crate::nn::Weights;
use crate::posterior::{LowRank, Posterior};

/// Largest rank that a recommendation looks at.
pub const MAX_RANK: usize = 8;
/// Share of the cap from which on a scale counts as at it, and of the floor up to which.
const NEAR: f64 = 1e-3;

/// What a report needs to know besides the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// N, the number of training examples that the divergence is shared among.
    pub num_train: usize,
    /// Nats an example that compressing a layer may cost to be recommended.
    pub tolerance: f64,
    /// The configuration's cap on standard deviations.
    pub cap: Option<f64>,
}

/// What one kernel looks like.
#[derive(Clone, Debug, Serialize)]
pub struct LayerReport {
    /// Its name.
    pub layer: String,
    /// Its posterior.
    pub posterior: String,
    /// M
    pub rows: usize,
    /// N
    pub cols: usize,
    /// Spectrum of the means.
    pub means: Spectrum,
    /// Spectrum of the standard deviations; none of a point.
    pub scales: Option<Spectrum>,
    /// The standard deviations themselves.
    pub scale: Option<ScaleReport>,
    /// The rank that is enough.
    pub recommendation: Option<Recommendation>,
}

/// The standard deviations of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ScaleReport {
    /// The smallest.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// Their mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// The prior's, σₚ.
    pub prior: f64,
    /// mean/σₚ: near 1 the weights have learned little, near 0 they are nearly points.
    pub of_prior: f64,
    /// Share of the weights at the cap.
    pub at_cap: f64,
    /// Share of the weights at the floor.
    pub at_floor: f64,
    /// Mean of |μ|/σ, the signal-to-noise ratio that pruning goes by.
    pub mean_signal: f64,
}

/// What a rank would cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RankPrice {
    /// K
    pub rank: usize,
    /// Share of variance that it explains.
    pub explained: f64,
    /// KL(clamped decomposition ‖ trained), in nats.
    pub kl: f64,
    /// That an example.
    pub kl_per_example: f64,
    /// Weights that it clamps.
    pub clamped: usize,
    /// Parameters of scales that it saves.
    pub saved: i64,
}

/// The rank that is enough for a layer, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// K; none if no rank up to [`MAX_RANK`] is.
    pub rank: Option<usize>,
    /// One sentence.
    pub why: String,
    /// The ranks that were looked at.
    pub prices: Vec<RankPrice>,
}

/// The report of each kernel of a network; `on_layer` hears of each, with its standard deviations.
///
/// # Errors
/// If a kernel holds a number that is not finite (named).
pub fn analyze<N: Network>(
    network: &N,
    settings: &Settings,
    mut on_layer: impl FnMut(&LayerReport, Option<&Matrix>),
) -> Result<Vec<LayerReport>> {
    let report = |weights: &Weights| {
        let (report, scale) = LayerReport::new(weights, settings)?;
        on_layer(&report, scale.as_ref());
        Ok(report)
    };
    network.weights().into_iter().map(report).collect()
}

impl LayerReport {
    fn new(weights: &Weights, settings: &Settings) -> Result<(Self, Option<Matrix>)> {
        let (name, kernel) = (weights.name(), &weights.kernel);
        let loc = Matrix::from_tensor(&format!("the mean of {name}"), kernel.loc())?;
        let scale =
            kernel.scale().map(|scale| Matrix::from_tensor(&format!("the standard deviation of {name}"), scale));
        let scale = scale.transpose()?;
        let [prior, _] = weights.prior_scales();
        // One decomposition says all that is asked of the standard deviations.
        let decomposed = scale.as_ref().map(|scale| svd(scale, scale.rows().min(scale.cols()))).transpose()?;
        let both = scale.as_ref().zip(decomposed.as_ref());
        let report = Self {
            layer: name.into(),
            posterior: kernel.kind().to_string(),
            rows: loc.rows(),
            cols: loc.cols(),
            means: Spectrum::of(&loc)?,
            scales: decomposed.as_ref().map(|svd| Spectrum::from_values(svd.values.clone())),
            scale: scale.as_ref().map(|scale| ScaleReport::new(&loc, scale, prior, settings.cap)),
            recommendation: both.map(|(scale, svd)| Recommendation::new(scale, svd, settings)),
        };
        Ok((report, scale))
    }
}

impl ScaleReport {
    fn new(loc: &Matrix, scale: &Matrix, prior: f64, cap: Option<f64>) -> Self {
        let mut sorted = scale.values().to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let share = |is: &dyn Fn(f64) -> bool| sorted.iter().filter(|&&sigma| is(sigma)).count() as f64 / count;
        let mean = sorted.iter().sum::<f64>() / count;
        let signals = loc.values().iter().zip(scale.values()).map(|(mu, sigma)| mu.abs() / sigma);
        Self {
            min: sorted.first().copied().unwrap_or(0.0),
            median: sorted.get(sorted.len() / 2).copied().unwrap_or(0.0),
            mean,
            max: sorted.last().copied().unwrap_or(0.0),
            prior,
            of_prior: mean / prior,
            at_cap: cap.map_or(0.0, |cap| share(&|sigma| sigma >= cap * (1.0 - NEAR))),
            at_floor: share(&|sigma| sigma <= LowRank::FLOOR * (1.0 + NEAR)),
            mean_signal: signals.sum::<f64>() / count,
        }
    }
}

impl Recommendation {
    fn new(scale: &Matrix, svd: &Svd, settings: &Settings) -> Self {
        let largest = MAX_RANK.min(svd.values.len());
        let (positive, total) = (scale.map(|sigma| sigma.max(LowRank::FLOOR)), scale.squared_norm());
        let prices: Vec<RankPrice> = (1..=largest)
            .map(|rank| {
                let SvdFit { kl, clamped, .. } = SvdFit::of(svd, &positive, rank);
                let explained = svd.values.iter().take(rank).map(|value| value * value).sum::<f64>() / total;
                let saved = (scale.values().len() as i64) - (rank * (scale.rows() + scale.cols())) as i64;
                RankPrice { rank, explained, kl, kl_per_example: kl / settings.num_train.max(1) as f64, clamped, saved }
            })
            .collect();
        let enough = prices.iter().find(|price| price.kl_per_example <= settings.tolerance);
        let why = match enough {
            Some(price) if price.saved <= 0 => {
                format!("rank {} is near enough, but needs no fewer numbers than mean field here", price.rank)
            }
            Some(price) => why(&prices, price, settings.tolerance),
            None => format!(
                "no rank up to {largest} comes within {:.4} nats an example; rank {largest} costs {:.4}",
                settings.tolerance,
                prices.last().map_or(f64::NAN, |price| price.kl_per_example)
            ),
        };
        let rank = enough.filter(|price| price.saved > 0).map(|price| price.rank);
        Self { rank, why, prices }
    }
}

/// Why a rank is the smallest that is enough.
fn why(prices: &[RankPrice], enough: &RankPrice, tolerance: f64) -> String {
    let (rank, cost) = (enough.rank, enough.kl_per_example);
    let explained = 100.0 * enough.explained;
    let first = format!("rank {rank} explains {explained:.2} % of the variance and costs {cost:.4} nats an example");
    match prices.iter().find(|price| price.rank + 1 == rank) {
        Some(before) => {
            format!("{first}, within {tolerance:.4}; rank {} would cost {:.4}", before.rank, before.kl_per_example)
        }
        None => format!("{first}, within {tolerance:.4}"),
    }
}
