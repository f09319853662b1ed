//! The weight on the divergence while training warms up.

use crate::error::{Error, Result};

/// How the weight on KL/N grows from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Anneal {
    /// Weight 1 from the first step.
    #[default]
    None,
    /// min(1, c·100·⌊step/100⌋): the paper's schedule, with c = 5e-5 or 5e-6.
    PerBatch {
        /// c
        rate: f64,
    },
    /// Linear over so many steps: the ResNet's 50 epochs.
    Linear {
        /// Steps until the weight is 1.
        steps: u64,
    },
}

impl Anneal {
    /// The paper's schedule.
    ///
    /// # Errors
    /// If the rate is not a positive finite number.
    pub fn per_batch(rate: f64) -> Result<Self> {
        Ok(Self::PerBatch { rate: Error::positive("anneal.per_batch", rate)? })
    }

    /// The weight at a step; the first is 0.
    pub fn weight(self, step: u64) -> f64 {
        match self {
            Self::None => 1.0,
            Self::PerBatch { rate } => (rate * (100 * (step / 100)) as f64).min(1.0),
            Self::Linear { steps } => (step as f64 / steps.max(1) as f64).min(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_schedule_climbs_in_stairs_of_100_steps_and_stops_at_1() {
        let anneal = Anneal::per_batch(5e-5).unwrap();
        let weights = [0, 99, 100, 199, 10_000, 20_000, 30_000].map(|step| anneal.weight(step));
        let expected = [0.0, 0.0, 0.005, 0.005, 0.5, 1.0, 1.0];
        assert!(weights.iter().zip(expected).all(|(w, e)| (w - e).abs() < 1e-12), "{weights:?}");
        // 300 epochs of MNIST at batch 1024 (49 steps an epoch) end at 0.735 with c = 5e-5.
        assert!((anneal.weight(300 * 49) - 0.735).abs() < 1e-12);
        assert!(Anneal::per_batch(0.0).is_err());
    }

    #[test]
    fn the_linear_schedule_reaches_1_at_its_end_and_none_is_always_1() {
        let linear = Anneal::Linear { steps: 50 };
        assert_eq!([0, 25, 50, 100].map(|step| linear.weight(step)), [0.0, 0.5, 1.0, 1.0]);
        assert_eq!(Anneal::None.weight(0), 1.0);
        assert_eq!(Anneal::Linear { steps: 0 }.weight(1), 1.0);
    }
}
