//! How far a run has come, besides its tensors: what a checkpoint keeps of the loop itself.

use serde::{Deserialize, Serialize};

use crate::checkpoint::exact;

/// The loop's own numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Steps that are over, those that were left out included.
    pub step: u64,
    /// Steps that were left out because a loss or a gradient was not finite.
    pub skipped: u64,
    /// How often the learning rate was halved.
    pub halvings: u32,
    /// The best validation so far.
    pub best: Option<Best>,
    /// Validations since then.
    pub stale: u64,
    /// What the next line of the log will average.
    pub window: Window,
    /// σₚ of kernel and bias of each layer, where they are learned.
    pub priors: Vec<[Exact; 2]>,
}

/// A validation that none before was better than.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// Its step.
    pub step: u64,
    /// Its −ELBO.
    #[serde(with = "exact")]
    pub neg_elbo: f64,
}

/// A double that survives JSON bit for bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Exact(#[serde(with = "exact")] pub f64);

/// Sums over the steps since the last line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Steps.
    pub steps: u64,
    /// Examples.
    pub examples: u64,
    /// Examples that were classified rightly.
    pub correct: u64,
    /// Σ NLL over examples, in nats.
    #[serde(with = "exact")]
    pub nll: f64,
}

impl Window {
    /// The same with one more step.
    pub fn with(self, examples: usize, correct: Option<usize>, nll_mean: f64) -> Self {
        Self {
            steps: self.steps + 1,
            examples: self.examples + examples as u64,
            correct: self.correct + correct.unwrap_or(0) as u64,
            nll: self.nll + nll_mean * examples as f64,
        }
    }

    /// Mean NLL of an example.
    pub fn mean_nll(&self) -> f64 {
        self.nll / self.examples.max(1) as f64
    }

    /// Share of examples that were classified rightly.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.examples.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_json_bit_for_bit() {
        let window = Window::default().with(3, Some(2), 0.1).with(5, None, 1.0 / 3.0);
        let state = State {
            step: 8,
            best: Some(Best { step: 4, neg_elbo: 0.1 + 0.2 }),
            window,
            priors: vec![[Exact(1.0 / 7.0), Exact(f64::MIN_POSITIVE)]],
            ..State::default()
        };
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
        assert!((window.mean_nll() - (0.3 + 5.0 / 3.0) / 8.0).abs() < 1e-15);
        assert_eq!((window.steps, window.accuracy()), (2, 0.25));
    }
}
