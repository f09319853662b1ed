//! What can go wrong in a way that a user can act on, one variant each.

use std::path::{Path, PathBuf};

use ktied_kernels::ShapeError;

use crate::checkpoint::CheckpointError;
use crate::convert::ConvertError;

use crate::data::DataError;
use crate::foreign::ForeignError;

/// Why a network could not be built or run, or its data not be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A k-tied rank that the layer's matrix does not allow.
    #[error("layer `{layer}` is {rows}×{cols}: rank must be 1 to {}, got {rank}", rows.min(cols))]
    Rank {
        /// Name of the layer.
        layer: String,
        /// M
        rows: usize,
        /// N
        cols: usize,
        /// K, as it was asked for.
        rank: usize,
    },
    /// A matrix whose singular values could not be found.
    #[error("the singular values of a {rows}×{cols} matrix were not found: the iteration did not converge")]
    NoConvergence {
        /// M
        rows: usize,
        /// N
        cols: usize,
    },
    /// A run that compression cannot work on.
    #[error("only a mean-field posterior can be compressed, and this one is {found}")]
    NotMeanField {
        /// Its posterior.
        found: String,
    },
    /// A network whose weights have no standard deviations, so that nothing says which of them matter.
    #[error("a point posterior has no standard deviations to prune by: train a mean-field or k-tied one")]
    NothingToPrune,
    /// A method of compression that nobody knows.
    #[error("method `{found}` is unknown: use svd or positive")]
    UnknownMethod {
        /// What was asked for.
        found: String,
    },
    /// A posterior that nobody knows.
    #[error(
        "posterior `{found}` is unknown: use point, mean-field, k-tied:K (as in k-tied:2), matrix-normal or low-rank:K"
    )]
    UnknownPosterior {
        /// What was asked for.
        found: String,
    },
    /// A preset that nobody knows.
    #[error("preset `{found}` is unknown: did you mean `{nearest}`? There are {names}")]
    UnknownPreset {
        /// What was asked for.
        found: String,
        /// The name that is written most like it.
        nearest: String,
        /// All names.
        names: String,
    },
    /// A posterior for convolutions, given to a model that has none.
    #[error("posterior.conv is set, but the model `{model}` has no convolutions")]
    NoConvolutions {
        /// The model.
        model: String,
    },
    /// A size with which there is no network.
    #[error("{key} must be at least {least}, got {found}")]
    TooSmall {
        /// The size's name in the configuration.
        key: String,
        /// The smallest that is allowed.
        least: usize,
        /// What was asked for.
        found: usize,
    },
    /// More parameters than can be counted.
    #[error("layer `{layer}` is too large: the number of parameters does not fit into {} bits", usize::BITS)]
    TooLarge {
        /// The layer with which the count went over.
        layer: String,
    },
    /// An estimator that nobody knows.
    #[error("estimator `{found}` is unknown: use reparam, flipout or local")]
    UnknownEstimator {
        /// What was asked for.
        found: String,
    },
    /// Local reparameterisation asked of a layer where it would be biased.
    #[error(
        "layer `{layer}` is {kind} and uses each weight at several positions, which local reparameterisation would \
         treat as independent: use flipout or reparam there"
    )]
    LocalIsBiased {
        /// Name of the layer.
        layer: String,
        /// What it is.
        kind: &'static str,
    },
    /// A number that must be positive and finite.
    #[error("{what} must be a positive finite number, got {found}")]
    NotPositive {
        /// What the number is.
        what: String,
        /// The number.
        found: f64,
    },
    /// A number that must be between 0 and 1.
    #[error("{what} must be between 0 and 1, got {found}")]
    NotAFraction {
        /// What the number is.
        what: String,
        /// The number.
        found: f64,
    },
    /// A dropout that would leave nothing, or that is no probability.
    #[error("a dropout (model.dropout) must be at least 0 and below 1, got {found}")]
    NotADropout {
        /// The number.
        found: f64,
    },
    /// A word that an embedding does not have.
    #[error("the embedding has words 0 to {}, got {found}", words.saturating_sub(1))]
    UnknownWord {
        /// What was asked for.
        found: i64,
        /// How many there are.
        words: usize,
    },
    /// A network whose sizes are not those of the data.
    #[error("{key} must be {expected} for the data set `{set}`, got {found}")]
    DoesNotFit {
        /// The size's name in the configuration.
        key: String,
        /// The data set.
        set: String,
        /// What would fit.
        expected: String,
        /// What was given.
        found: usize,
    },
    /// A data set without training examples.
    #[error("the data set `{set}` has no training examples")]
    NothingToTrainOn {
        /// The data set.
        set: String,
    },
    /// Another process of the same run has failed, and said why.
    #[error("rank {process}: {reason}")]
    Elsewhere {
        /// Its number.
        process: usize,
        /// The code that it ends with.
        code: u8,
        /// What it said.
        reason: String,
    },
    /// Processes that should be the same are not.
    #[error("rank {process} does not have what rank 0 has:\n{differences}")]
    UnlikeFirst {
        /// The first that differs.
        process: usize,
        /// What differs, a line each.
        differences: String,
    },
    /// What several processes cannot train together.
    #[error("{what} takes one process, found {found}")]
    OneProcessOnly {
        /// What.
        what: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A step without any draw.
    #[error("estimator.draws must be at least 1, got 0")]
    NoDraws,
    /// A loss or gradient that is not a finite number.
    #[error(
        "training diverged: the {what} is not a finite number in step {step}; try a smaller optim.lr or optim.clip"
    )]
    NonFinite {
        /// The step.
        step: u64,
        /// What was not finite, by the name of its tensor.
        what: String,
    },
    /// A batch that there are not enough examples for.
    #[error("train.batch must be at most {examples}, all training examples of the data set `{set}`, got {found}")]
    BatchTooLarge {
        /// The data set.
        set: String,
        /// Its training examples.
        examples: usize,
        /// What was asked for.
        found: usize,
    },
    /// A checkpoint of a run on other data.
    #[error("the data set `{set}` is not the one that the run was trained on")]
    OtherData {
        /// The data set.
        set: String,
    },
    /// A checkpoint whose numbers of the training loop cannot be read.
    #[error("the checkpoint of step {step} has a training state that cannot be read: {reason}")]
    BadState {
        /// Its step.
        step: u64,
        /// What is wrong.
        reason: String,
    },
    /// A mean that a run to start from does not have.
    #[error("the run to start from has no tensor `{path}` of the same shape")]
    NotInSource {
        /// Path of the tensor.
        path: String,
    },
    /// A folder that is no run.
    #[error("{} is not a run: it has no config.toml", folder.display())]
    NotARun {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder that is not empty.
    #[error("{} is not empty: choose another folder, or go on with --resume", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// A configuration file that cannot be read.
    #[error("{}: {reason}", path.display())]
    BadConfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A run without a checkpoint that can be used.
    #[error("{} has no good checkpoint: {reason}", folder.display())]
    NoCheckpoint {
        /// The run.
        folder: PathBuf,
        /// What is wrong with the newest.
        reason: String,
    },
    /// The file system refused.
    #[error("cannot {action} {}: {reason}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
    /// A file that can be read, and is no text, or longer than such a file may be.
    #[error("{}: {reason}", path.display())]
    BadText {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// More memory than there is.
    #[error("this needs about {needed} and the machine has {available} free; use --force to try")]
    NotEnoughMemory {
        /// The estimate, with its unit.
        needed: String,
        /// What there is, with its unit.
        available: String,
    },
    /// Two settings that cannot both be.
    #[error("{keys} cannot both be set")]
    Contradiction {
        /// Their names.
        keys: &'static str,
    },
    /// A number that must be finite.
    #[error("{what} must be a finite number, got {found}")]
    NotFinite {
        /// What the number is.
        what: String,
        /// The number.
        found: f64,
    },
    /// A class that the network has no output for.
    #[error("example {example} is of class {found}, but there are only classes 0 to {}", classes.saturating_sub(1))]
    UnknownClass {
        /// Number of the example, the first being 0.
        example: u64,
        /// Its class.
        found: u32,
        /// How many there are.
        classes: usize,
    },
    /// Probabilities of classes that are none.
    #[error("the probabilities of example {example} must sum to 1, got {found}")]
    NotADistribution {
        /// Number of the example, the first being 0.
        example: u64,
        /// Their sum.
        found: f64,
    },
    /// Nothing to judge a network on.
    #[error("there is no example to evaluate on")]
    NoExamples,
    /// A likelihood that nobody knows.
    #[error("likelihood `{found}` is unknown: use softmax, bernoulli, gaussian or gaussian-fixed")]
    UnknownLikelihood {
        /// What was asked for.
        found: String,
    },
    /// A likelihood of numbers for classes, or the other way round.
    #[error("the likelihood `{likelihood}` does not fit a data set whose targets are {found}")]
    WrongTargets {
        /// The likelihood.
        likelihood: &'static str,
        /// What the data set has.
        found: &'static str,
    },
    /// A class that is neither yes nor no.
    #[error("a bernoulli likelihood has classes 0 and 1, got {found}")]
    NotABit {
        /// The class.
        found: u32,
    },
    /// Words for a network of numbers, or the other way round.
    #[error("the model `{model}` does not fit a data set whose inputs are {found}")]
    WrongInputs {
        /// The model.
        model: &'static str,
        /// What the data set has.
        found: &'static str,
    },
    /// More than one thing at once.
    #[error("{} things are wrong:{}", faults.len(), lines(faults))]
    Several {
        /// Each of them.
        faults: Vec<Error>,
    },
    /// A checkpoint that cannot be written, read or used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Operands that do not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Data that are missing or wrong.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Another library's posterior that cannot be read, understood or written.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// A model that cannot be made Bayesian, or not be run so.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}

/// What fallible functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The file system refused to do `action` to `path`.
    pub fn io(action: &'static str, path: &Path, error: &std::io::Error) -> Self {
        Self::Io { action, path: path.into(), reason: error.to_string() }
    }

    /// A file that [`crate::files`] did not give.
    pub fn read(path: &Path, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::InvalidData => Self::BadText { path: path.into(), reason: error.to_string() },
            _ => Self::io("read", path, error),
        }
    }

    /// All of some errors as one; none if there is none.
    pub(crate) fn all(faults: Vec<Self>) -> Result<()> {
        match <[Self; 1]>::try_from(faults) {
            Ok([fault]) => Err(fault),
            Err(faults) if faults.is_empty() => Ok(()),
            Err(faults) => Err(Self::Several { faults }),
        }
    }

    /// The errors that this one is made of.
    pub(crate) fn into_faults(self) -> Vec<Self> {
        match self {
            Self::Several { faults } => faults,
            one => vec![one],
        }
    }

    /// `value`, if it is positive and finite.
    pub(crate) fn positive(what: &str, value: f64) -> Result<f64> {
        if value > 0.0 && value.is_finite() {
            return Ok(value);
        }
        Err(Self::NotPositive { what: what.into(), found: value })
    }

    /// `value`, if it is finite.
    pub(crate) fn finite(what: &str, value: f64) -> Result<f64> {
        if value.is_finite() { Ok(value) } else { Err(Self::NotFinite { what: what.into(), found: value }) }
    }
}

/// A line for each, so that a terminal shows them one below the other.
fn lines(faults: &[Error]) -> String {
    faults.iter().map(|fault| format!("\n  {fault}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_names_what_was_expected_and_what_was_found() {
        let rank = Error::Rank { layer: "dense_1".into(), rows: 784, cols: 400, rank: 512 };
        assert_eq!(rank.to_string(), "layer `dense_1` is 784×400: rank must be 1 to 400, got 512");
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Error::positive("prior.scale", bad).is_err(), "{bad}");
        }
        let zero = Error::positive("prior.scale", 0.0).unwrap_err();
        assert_eq!(zero.to_string(), "prior.scale must be a positive finite number, got 0");
        assert_eq!(Error::positive("prior.scale", 0.3), Ok(0.3));
    }
}
