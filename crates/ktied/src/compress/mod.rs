//! Smaller posteriors: standard deviations of rank K in place of those that mean field has trained.
//!
//! Two methods. [`Method::Svd`] is the paper's (section 2): the truncated singular value decomposition of the matrix of
//! standard deviations, clamped where it is not positive. Its factors are of any sign, so what it makes is a
//! [`LowRank`] posterior. [`Method::Positive`] finds positive factors that minimise KL(compressed ‖ trained), so that
//! the result *is* a k-tied Normal ([`KTied`]), saves as one, and can be trained on. For K ≤ 2 it is at least as near to
//! the trained posterior as the clamped decomposition; for K ≥ 3 a matrix of positive numbers may need more than K
//! positive factors, and the decomposition can be nearer.
//!
//! ```
//! use ktied::compress::{PositiveFit, SvdFit};
//! use ktied::linalg::Matrix;
//!
//! // Standard deviations of rank 2: rank 2 is exact, rank 1 is not.
//! let sigma = Matrix::new(3, 3, vec![0.1, 0.2, 0.1, 0.2, 0.1, 0.1, 0.3, 0.3, 0.2])?;
//! assert!(PositiveFit::new(&sigma, 2)?.kl < 1e-9 && SvdFit::new(&sigma, 2)?.kl < 1e-9);
//! assert!(PositiveFit::new(&sigma, 1)?.kl > 0.1);
//! # Ok::<(), ktied::Error>(())
//! ```

mod divergence;
mod positive;
mod rank;
mod starts;
mod svd;

use std::fmt;
use std::str::FromStr;

use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

pub use divergence::divergence;
pub use positive::PositiveFit;
pub use rank::{Choice, Plan, RankRow, choose_rank};
pub use svd::SvdFit;

use crate::config::Config;
use crate::data::DataSet;
use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::models::Network;
use crate::nn::Weights;
use crate::posterior::{Family, KTied, LowRank, MeanField, Posterior, PosteriorKind};
use crate::train::Trainer;

/// How factors are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `svd`: truncated singular value decomposition, clamped.
    Svd,
    /// `positive`: positive factors of least divergence.
    Positive,
}

impl Method {
    /// The posterior that it makes.
    pub fn posterior(self, rank: usize) -> PosteriorKind {
        match self {
            Self::Svd => PosteriorKind::LowRank { rank },
            Self::Positive => PosteriorKind::KTied { rank },
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Svd => "svd",
            Self::Positive => "positive",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "svd" => Ok(Self::Svd),
            "positive" => Ok(Self::Positive),
            _ => Err(Error::UnknownMethod { found: text.into() }),
        }
    }
}

/// What became of one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerFit {
    /// Its name.
    pub layer: String,
    /// M
    pub rows: usize,
    /// N
    pub cols: usize,
    /// K
    pub rank: usize,
    /// KL(compressed ‖ trained), in nats.
    pub kl: f64,
    /// The same of the other method, for comparison.
    pub kl_of_svd: f64,
    /// Weights that the decomposition had to clamp.
    pub clamped: usize,
    /// Sweeps of each start of positive factors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<usize>,
}

/// The configuration of a compressed run: the posterior that `method` makes, on convolutions too if asked, and no
/// annealing, since there is nothing left to warm up.
///
/// # Errors
/// [`Error::NotMeanField`] if the run is of another posterior; [`Error::Rank`], naming the layer, if a layer does not allow
/// the rank.
pub fn target(config: &Config, method: Method, rank: usize, convolutions: bool) -> Result<Config> {
    if config.posterior.kind != PosteriorKind::MeanField {
        return Err(Error::NotMeanField { found: config.posterior.kind.to_string() });
    }
    let mut target = config.clone();
    target.posterior.kind = method.posterior(rank);
    if convolutions {
        target.posterior.conv = Some(method.posterior(rank));
    }
    (target.anneal.per_batch, target.anneal.epochs) = (None, None);
    target.model.layers(&target.posterior)?;
    Ok(target)
}

/// A run of the configuration `target` that begins where `trained` is, with the scales of each kernel that `target` wants
/// tied replaced by factors; `on_layer` hears of each.
///
/// # Errors
/// If a kernel holds a number that is not finite (named), or the configurations are not of one network.
pub fn compress(
    trained: &Trainer,
    target: Config,
    data: &DataSet,
    mut on_layer: impl FnMut(&LayerFit),
) -> Result<(Trainer, Vec<LayerFit>)> {
    let fresh = Trainer::begin(target, data)?;
    let wanted: Vec<PosteriorKind> = fresh.model().network.weights().iter().map(|w| w.kernel.kind()).collect();
    let (mut wanted, mut fits) = (wanted.into_iter(), Vec::new());
    let mut model = trained.model().clone();
    model.network = model.network.map_weights(|weights| match (&weights.kernel, wanted.next()) {
        (Family::MeanField(kernel), Some(kind)) if kind.rank().is_some() => {
            let (kernel, fit) = compressed(weights.name(), kernel, kind)?;
            on_layer(&fit);
            fits.push(fit);
            weights.with_kernel(kernel)
        }
        _ => Ok(weights),
    })?;
    Ok((fresh.with_model(&model)?, fits))
}

/// One kernel with factors for scales.
fn compressed(layer: &str, kernel: &MeanField, kind: PosteriorKind) -> Result<(Family, LayerFit)> {
    let (loc, scale) = (kernel.loc(), scales(layer, kernel)?);
    let rank = kind.rank().unwrap_or(1);
    kind.check(layer, scale.rows(), scale.cols())?;
    let (svd, device) = (SvdFit::new(&scale, rank)?, loc.device());
    let fit = |kl, sweeps| LayerFit {
        layer: layer.into(),
        rows: scale.rows(),
        cols: scale.cols(),
        rank,
        kl,
        kl_of_svd: svd.kl,
        clamped: svd.clamped,
        sweeps,
    };
    if let PosteriorKind::LowRank { .. } = kind {
        let family = LowRank::from_tensors(loc, tensor(&svd.u, &device), tensor(&svd.v, &device));
        return Ok((Family::LowRank(family), fit(svd.kl, vec![])));
    }
    let positive = PositiveFit::new(&scale, rank)?;
    let [log_u, log_v] = [&positive.u, &positive.v].map(|side| tensor(&side.map(f64::ln), &device));
    let family = KTied::from_tensors(loc, log_u, log_v, kernel.init());
    Ok((Family::KTied(family), fit(positive.kl, positive.sweeps)))
}

/// Means and standard deviations of a kernel, all finite, the latter positive.
fn scales(layer: &str, kernel: &MeanField) -> Result<Matrix> {
    Matrix::from_tensor(&format!("the mean of {layer}"), kernel.loc())?;
    let name = format!("the standard deviation of {layer}");
    let scale = kernel.scale().ok_or_else(|| Error::NotMeanField { found: PosteriorKind::Point.to_string() })?;
    let scale = Matrix::from_tensor(&name, scale)?;
    // A scale that underflowed is as small as one can be.
    Ok(scale.map(|sigma| sigma.max(LowRank::FLOOR)))
}

fn tensor(matrix: &Matrix, device: &Device) -> Tensor<2> {
    let values: Vec<f32> = matrix.values().iter().map(|&value| value as f32).collect();
    Tensor::from_data(TensorData::new(values, [matrix.rows(), matrix.cols()]), device)
}

/// The same network with another floor under the scales of its [`LowRank`] kernels.
///
/// # Errors
/// Never: the shapes stay.
pub fn with_floor<N: Network>(network: N, floor: f64) -> Result<N> {
    network.map_weights(|weights: Weights| match weights.kernel.clone() {
        Family::LowRank(kernel) => weights.with_kernel(Family::LowRank(kernel.with_floor(floor))),
        _ => Ok(weights),
    })
}
