//! The paper's experiments: what it claims, which runs show it, how a figure of ours is held against one of the paper's,
//! and the page that says so. Nothing here computes; `commands/reproduce` does.

mod beyond;
mod document;
pub(crate) mod page;
mod paper;
pub(crate) mod pictures;
mod plan;
mod recipe;
mod rows;
mod shelf;
mod verdict;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub(crate) use self::beyond::{ANGLES, Race, finish_lines, racers};
pub(crate) use self::document::Document;
pub(crate) use self::plan::{Job, Stage, jobs};
pub use self::recipe::Model;
pub(crate) use self::recipe::Recipe;
pub(crate) use self::rows::{TIMED, Timed, rows};
pub(crate) use self::shelf::Shelf;

/// A table or figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Table 1 and the totals of all models.
    Parameters,
    /// Table 2, figures 3 and 4: mean-field posteriors replaced by rank 1, 2 and 3.
    LowRank,
    /// The same for ResNet-18, with calibration, and with the He-scaled prior.
    Resnet,
    /// The left table of the results figure: trained k-tied posteriors.
    KTied,
    /// Signal-to-noise ratios of gradients.
    Snr,
    /// Validation −ELBO over training.
    Convergence,
    /// Milliseconds of a training step.
    StepTime,
    /// Appendix C: standard deviations while the divergence is annealed, and after.
    Annealing,
    /// Beyond the paper: kernels of convolutions tied too.
    BeyondConv,
    /// Beyond the paper: −ELBO after equal time, by estimator.
    BeyondEstimators,
    /// Beyond the paper: positive factors in place of singular vectors.
    BeyondCompress,
    /// Beyond the paper: ranks 1 to 8.
    BeyondRank,
    /// Beyond the paper: turned digits, and clothes in place of digits.
    BeyondShift,
}

impl Target {
    /// What the paper shows.
    pub(crate) const PAPER: [Self; 8] = [
        Self::Parameters,
        Self::LowRank,
        Self::Resnet,
        Self::KTied,
        Self::Snr,
        Self::Convergence,
        Self::StepTime,
        Self::Annealing,
    ];
    /// What it does not.
    pub(crate) const BEYOND: [Self; 5] =
        [Self::BeyondConv, Self::BeyondEstimators, Self::BeyondCompress, Self::BeyondRank, Self::BeyondShift];

    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::LowRank => "low-rank",
            Self::Resnet => "resnet",
            Self::KTied => "k-tied",
            Self::Snr => "snr",
            Self::Convergence => "convergence",
            Self::StepTime => "step-time",
            Self::Annealing => "annealing",
            Self::BeyondConv => "beyond-conv",
            Self::BeyondEstimators => "beyond-estimators",
            Self::BeyondCompress => "beyond-compress",
            Self::BeyondRank => "beyond-rank",
            Self::BeyondShift => "beyond-shift",
        }
    }
}

/// How much of the paper's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// A reduction for two cores; docs/REPRODUCTION.md says which.
    Quick,
    /// What two cores cannot do at the paper's length: ResNet-18, narrower, for as long as its standard deviations take to
    /// converge, and k-tied LeNet for a tenth of the epochs.
    Reduced,
    /// The paper's setting.
    Full,
}

impl Scale {
    /// The largest first.
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Reduced, Self::Quick];

    /// The models that have runs of this scale.
    pub(crate) fn models(self) -> &'static [Model] {
        match self {
            Self::Quick | Self::Full => Model::value_variants(),
            Self::Reduced => &[Model::LeNet, Model::ResNet18, Model::ResNet18He],
        }
    }

    /// What is repeated if nothing is named.
    pub(crate) fn targets(self) -> &'static [Target] {
        match self {
            Self::Quick | Self::Full => &Target::PAPER,
            Self::Reduced => &[Target::Resnet, Target::KTied, Target::Annealing],
        }
    }

    /// Whether a target has runs of this scale.
    pub(crate) fn has(self, target: Target) -> bool {
        self != Self::Reduced || self.targets().contains(&target) || target == Target::BeyondConv
    }

    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Reduced => "reduced",
            Self::Full => "full",
        }
    }
}
