//! How much memory a command will take, before it takes it, and how much there is.
//!
//! The estimate is a sum of what is known to be held at once, in bytes, where B is the batch, P the number of parameters
//! and W that of the weights that have a posterior:
//!
//! | part | to train | to evaluate and predict |
//! |---|---|---|
//! | `program` | 24 MiB: code, threads, allocator | the same |
//! | `parameters` | 16 P: values, gradients, two moments of Adam | 24 P: values and moments, and the checkpoint they come from |
//! | and draws | 16 W, matrix-normal 40 W: a draw, its gradient, scales | 8 W |
//! | `activations` | 4 B · (what layers keep for the backward pass + what passes through), see [`activations`] | 4 · 1000 · what lives at once, and inputs and sums of four batches |
//! | `data` | all examples, and batches that are gathered ahead | all examples |
//! | `reading` | what reading the files takes besides | the same |
//!
//! Reading is over before a step begins, so the larger of `activations` and `reading` counts. Allocators keep some of what
//! they are given back: a tenth more is counted for everything but the program. Held against `ktied bench step` of all models,
//! posteriors and estimators it is between 11 % below and 37 % above the peak.

pub mod activations;
pub mod machine;

use std::fmt;
use std::path::Path;

use crate::config::Config;
use crate::data::standard::Standard;
use crate::data::{DataSpec, cifar, digits, idx};
use crate::error::{Error, Result};
use crate::models::{LayerSpec, Totals};
use crate::posterior::PosteriorKind;

const MIB: u64 = 1 << 20;
const PROGRAM: u64 = 24 * MIB;
/// What allocators keep, in parts of what is asked for.
const KEPT_BY_ALLOCATORS: u64 = 10;
/// Reviews, as text: the file, the strings, and the words that are counted.
const READING_REVIEWS: u64 = 340 * MIB;
/// The largest table of the UCI repository, as numbers and as text.
const TABLE: u64 = 16 * MIB;
/// A user's own file is in memory as it is, as double-precision numbers, and as single-precision ones for a moment.
const COPIES_OF_OWN: u64 = 3;

/// What a command does with a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Steps, and validations between them.
    Train,
    /// Draws on examples with labels.
    Evaluate,
    /// Draws on inputs that are streamed; the training data are read for how inputs are scaled.
    Predict,
}

/// An estimate of what a command holds at its fullest, in bytes.
///
/// ```
/// use ktied::config::Preset;
/// use ktied::train::memory::{Memory, Task};
/// let memory = Memory::of(&Preset::LeNetCifar100.config(), Task::Train)?;
/// assert_eq!(memory.to_string(), "920 MB");
/// let refused = memory.check(Some(100_000_000)).unwrap_err().to_string();
/// assert_eq!(refused, "this needs about 920 MB and the machine has 100 MB free; use --force to try");
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The program itself.
    pub program: u64,
    /// Parameters, gradients, moments and draws.
    pub parameters: u64,
    /// What layers hold of a batch.
    pub activations: u64,
    /// Examples.
    pub data: u64,
    /// What reading the files takes besides, before anything else.
    pub reading: u64,
}

impl Memory {
    /// The estimate for a configuration.
    ///
    /// # Errors
    /// If there is no such network.
    pub fn of(config: &Config, task: Task) -> Result<Self> {
        let layers = config.model.layers(&config.posterior)?;
        let (data, reading, has_validation) = data(&config.data);
        let evaluating = activations::evaluating(config);
        let memory = Self { program: PROGRAM, parameters: parameters(&layers, task)?, activations: 0, data, reading };
        Ok(match task {
            Task::Evaluate | Task::Predict => Self { activations: evaluating, ..memory },
            Task::Train => {
                let validates = has_validation && config.train.validate_every > 0;
                let validating = if validates { evaluating } else { 0 };
                let activations = activations::training(config).max(validating);
                Self { activations, data: data.saturating_add(activations::ahead(config)), ..memory }
            }
        })
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        let moving = self.activations.max(self.reading);
        let parts = [self.parameters, self.data, moving].into_iter().fold(0, u64::saturating_add);
        self.program.saturating_add(parts).saturating_add(parts / KEPT_BY_ALLOCATORS)
    }

    /// Refuses what is more than there is; where nobody knows how much that is, nothing is refused.
    ///
    /// # Errors
    /// [`Error::NotEnoughMemory`]
    pub fn check(&self, available: Option<u64>) -> Result<()> {
        match available {
            Some(available) if self.total() > available => {
                Err(Error::NotEnoughMemory { needed: size(self.total()), available: size(available) })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&size(self.total()))
    }
}

fn parameters(layers: &[LayerSpec], task: Task) -> Result<u64> {
    let all = Totals::of(layers)?.with_head as u64;
    let drawn =
        |layer: &LayerSpec, each: u64| (layer.rows as u64).saturating_mul(layer.cols as u64).saturating_mul(each);
    let draws = layers.iter().map(|layer| match (layer.posterior, task) {
        (PosteriorKind::Point, _) => 0,
        (PosteriorKind::MatrixNormal, Task::Train) => drawn(layer, 40),
        (_, Task::Train) => drawn(layer, 16),
        (_, Task::Evaluate | Task::Predict) => drawn(layer, 8),
    });
    let each = if task == Task::Train { 16 } else { 24 };
    Ok(draws.fold(all.saturating_mul(each), u64::saturating_add))
}

/// Bytes of the examples, bytes that reading them takes besides, and whether some are for validation.
fn data(spec: &DataSpec) -> (u64, u64, bool) {
    let Ok(set) = Standard::named(&spec.set) else {
        let bytes = own_bytes(Path::new(&spec.set));
        return (bytes, bytes.saturating_mul(COPIES_OF_OWN), spec.validation > 0.0);
    };
    let (examples, has_validation) = (set.examples.iter().sum::<usize>() as u64, set.examples[1] > 0);
    let pixels = |width: usize| examples * width as u64;
    match set.name {
        "digits" => (pixels(digits::NUM_PIXELS), 0, has_validation),
        "mnist" | "fashion-mnist" => (pixels(idx::SIDE * idx::SIDE), pixels(idx::SIDE * idx::SIDE), has_validation),
        "cifar10" | "cifar100" => (pixels(cifar::WIDTH), pixels(cifar::WIDTH) / 2, has_validation),
        "imdb" => (pixels(4).saturating_mul(spec.length as u64), READING_REVIEWS, has_validation),
        _ => (TABLE, TABLE, has_validation),
    }
}

/// Length of a file, or of the arrays of a folder; none if there is no such file, which is for others to say.
fn own_bytes(path: &Path) -> u64 {
    let len = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if path.is_dir() { len(&path.join("x.npy")).saturating_add(len(&path.join("y.npy"))) } else { len(path) }
}

/// 3.2 GB, 920 MB
fn size(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

#[cfg(test)]
mod tests;
