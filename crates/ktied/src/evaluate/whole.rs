//! Everything that is kept of the examples seen so far, under all draws.

use serde::{Deserialize, Serialize};

use super::calibration::{Bootstrap, Reliability, ReliabilityBin};
use super::estimate::Evaluation;
use super::ood::Uncertainties;
use super::ranks::MAX_CELLS;
use super::selective::RiskPoint;
use super::tally::{Scores, Tally, Values};

/// The metrics, and what is drawn or compared rather than read.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The metrics.
    pub evaluation: Evaluation,
    /// Classes: the diagrams.
    pub curves: Option<Curves>,
    /// Classes: the uncertainties of the examples, to hold against those of [others](super::Ensemble::uncertainties).
    pub uncertainties: Option<Uncertainties>,
}

/// Diagrams of a classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// Confidence against accuracy in the 15 bins of [`ece`](Evaluation::ece).
    pub reliability: Vec<ReliabilityBin>,
    /// The share of wrong answers against the share of examples that are answered, at 200 points or fewer.
    pub risk_coverage: Vec<RiskPoint>,
}

/// Sums over examples.
#[derive(Debug)]
pub struct Whole {
    examples: u64,
    tally: Tally,
    bootstrap: Bootstrap,
    reliability: Reliability,
    uncertainties: Uncertainties,
}

impl Whole {
    pub fn new(seed: u64) -> Self {
        let (tally, bootstrap) = (Tally::new(MAX_CELLS), Bootstrap::new(seed));
        let (reliability, uncertainties) = (Reliability::default(), Uncertainties::default());
        Self { examples: 0, tally, bootstrap, reliability, uncertainties }
    }

    pub fn examples(&self) -> u64 {
        self.examples
    }

    pub fn add(&mut self, scores: &Scores) {
        self.tally.add(scores);
        if let Some(class) = scores.class {
            let (opinion, correct) = (class.opinion, class.correct);
            self.bootstrap.add(self.examples, opinion.confidence, correct);
            self.reliability.add(opinion.confidence, correct);
            self.uncertainties.add(opinion.entropy, opinion.mutual_information);
        }
        self.examples += 1;
    }

    pub fn values(&self) -> Values {
        self.tally.values()
    }

    pub fn standard_errors(&self) -> Values {
        self.tally.standard_errors(&self.bootstrap)
    }

    /// The diagrams, if there were classes.
    pub fn curves(&self) -> Option<Curves> {
        let (reliability, risk_coverage) = (self.reliability.bins(), self.tally.confidences().risk_coverage());
        (!risk_coverage.is_empty()).then_some(Curves { reliability, risk_coverage })
    }

    /// The uncertainties, if there were classes.
    pub fn into_uncertainties(self) -> Option<Uncertainties> {
        Some(self.uncertainties).filter(|uncertainties| !uncertainties.entropy.is_empty())
    }
}
