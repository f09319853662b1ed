//! The predictive distribution of a classifier, averaged over draws without keeping any of them.

use burn::tensor::{Tensor, activation};

use crate::error::Result;
use crate::ops;

/// How a classifier does on some examples.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassScores {
    /// Draws averaged over.
    pub num_draws: u64,
    /// Share of examples whose most probable class, under the averaged prediction, is the label.
    pub accuracy: f64,
    /// Mean −ln of the averaged probability of the label, in nats.
    pub nll: f64,
    /// Mean −ln of the probability of the label, averaged over draws after the logarithm: what −ELBO is made of.
    pub nll_of_draws: f64,
}

/// Scores the mean prediction of `num_draws` draws, where `logits(draw)` gives those of one, `[B, N]`.
///
/// Memory is that of two draws, whatever their number.
///
/// # Errors
/// What `logits` says, or if the labels do not fit its output.
pub fn predict_classes(
    labels: &[u32],
    num_draws: u64,
    mut logits: impl FnMut(u64) -> Result<Tensor<2>>,
) -> Result<ClassScores> {
    let num_draws = num_draws.max(1);
    let (mut sum, mut nll_sum): (Option<Tensor<2>>, f64) = (None, 0.0);
    for draw in 0..num_draws {
        let logits = logits(draw)?.detach();
        nll_sum += mean(ops::softmax_cross_entropy(logits.clone(), labels)?);
        let probabilities = activation::softmax(logits, 1);
        sum = Some(match sum {
            Some(sum) => sum + probabilities,
            None => probabilities,
        });
    }
    let sum: Vec<f64> = sum.map_or(vec![], |sum| sum.into_data().iter::<f64>().collect());
    let rows = sum.chunks((sum.len() / labels.len().max(1)).max(1)).zip(labels);
    let (mut correct, mut nll) = (0.0, 0.0);
    for (row, &label) in rows {
        let probability = row.get(label as usize).copied().unwrap_or(0.0) / num_draws as f64;
        nll -= probability.max(f64::MIN_POSITIVE).ln();
        let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(class, _)| class);
        correct += f64::from(u8::from(best == Some(label as usize)));
    }
    let count = labels.len().max(1) as f64;
    let nll_of_draws = nll_sum / num_draws as f64;
    Ok(ClassScores { num_draws, accuracy: correct / count, nll: nll / count, nll_of_draws })
}

fn mean(losses: Tensor<1>) -> f64 {
    let losses: Vec<f64> = losses.into_data().iter::<f64>().collect();
    losses.iter().sum::<f64>() / losses.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn two_draws_are_averaged_before_the_logarithm_and_after_it() {
        // Example 0 with label 0 gets ½ and ¾ … as softmax of ln p; by hand: mean ⅝, and ½(−ln ½ − ln ¾) after.
        let draws = [[[0.5f32, 0.5], [0.2, 0.8]], [[0.75, 0.25], [0.6, 0.4]]];
        let logits = |draw: u64| Ok(Tensor::<2>::from_floats(draws[draw as usize], &Device::flex()).log());
        let scores = predict_classes(&[0, 1], 2, logits).unwrap();
        let nll = -(0.625f64.ln() + 0.6f64.ln()) / 2.0;
        let nll_of_draws = -(0.5f64.ln() + 0.8f64.ln() + 0.75f64.ln() + 0.4f64.ln()) / 4.0;
        assert!((scores.nll - nll).abs() < 1e-6, "{} {nll}", scores.nll);
        assert!((scores.nll_of_draws - nll_of_draws).abs() < 1e-6);
        assert_eq!((scores.accuracy, scores.num_draws), (1.0, 2));
        assert!(scores.nll < scores.nll_of_draws, "Jensen");
    }

    #[test]
    fn labels_that_do_not_fit_are_refused() {
        let logits = |_| Ok(Tensor::<2>::zeros([2, 3], &Device::flex()));
        assert!(predict_classes(&[0, 3], 1, logits).is_err());
        assert!(predict_classes(&[0], 1, logits).is_err());
    }
}
