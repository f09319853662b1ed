//! The smallest rank that loses little enough.

use serde::Serialize;

use super::{Method, compress, target};
use crate::config::Config;
use crate::data::{DataSet, Split};
use crate::error::Result;
use crate::train::Trainer;

/// What a rank costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RankRow {
    /// K
    pub rank: usize,
    /// −ELBO of the compressed run.
    pub neg_elbo: f64,
    /// That less the trained run's.
    pub loss: f64,
    /// KL(compressed ‖ trained), in nats.
    pub kl: f64,
}

/// The ranks that were tried, and the one that was chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// −ELBO of the trained run.
    pub trained: f64,
    /// Loss of −ELBO that is accepted, in nats an example.
    pub tolerance: f64,
    /// Ranks from 1 on.
    pub rows: Vec<RankRow>,
    /// The smallest that loses less than the tolerance, if one does.
    pub rank: Option<usize>,
}

/// Tries ranks from 1 to `max_rank` until −ELBO on `split` loses less than `tolerance`, by the same draws for all.
///
/// # Errors
/// As [`compress`].
pub fn choose_rank(
    trained: &Trainer,
    data: &DataSet,
    split: &Split,
    plan: &Plan,
    mut on_row: impl FnMut(&RankRow),
) -> Result<Choice> {
    let before = trained.evaluate(split, plan.samples, |_| {})?.neg_elbo.value;
    let mut choice = Choice { trained: before, tolerance: plan.tolerance, rows: Vec::new(), rank: None };
    for rank in 1..=plan.max_rank.min(largest_rank(trained.config(), plan)?) {
        let target = target(trained.config(), plan.method, rank, plan.convolutions)?;
        let (compressed, fits) = compress(trained, target, data, |_| {})?;
        let neg_elbo = compressed.evaluate(split, plan.samples, |_| {})?.neg_elbo.value;
        let kl = fits.iter().map(|fit| fit.kl).sum();
        let row = RankRow { rank, neg_elbo, loss: neg_elbo - before, kl };
        on_row(&row);
        choice.rows.push(row);
        if row.loss < plan.tolerance {
            choice.rank = Some(rank);
            break;
        }
    }
    Ok(choice)
}

/// How ranks are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How factors are found.
    pub method: Method,
    /// Whether convolutions are compressed too.
    pub convolutions: bool,
    /// Largest rank to try.
    pub max_rank: usize,
    /// Loss of −ELBO that is accepted, in nats an example.
    pub tolerance: f64,
    /// Draws of the weights.
    pub samples: u64,
}

/// The largest rank that all layers allow.
fn largest_rank(config: &Config, plan: &Plan) -> Result<usize> {
    let target = target(config, plan.method, 1, plan.convolutions)?;
    let layers = target.model.layers(&target.posterior)?;
    let tied = layers.iter().filter(|layer| layer.posterior.rank().is_some());
    Ok(tied.map(|layer| layer.rows.min(layer.cols)).min().unwrap_or(0))
}
