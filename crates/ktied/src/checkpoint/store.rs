//! The checkpoints of a run: a folder each, written whole or not at all, read only if they are what was written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::digest::Digest;
use super::error::{CheckpointError, Damage};
use super::manifest::{FORMAT, FileEntry, Header, Manifest};
use super::tensors::{self, NamedTensor, NamedTensors};
use super::{Result, atomic, format};

const WEIGHTS: &str = "weights.safetensors";
const TRAIN_STATE: &str = "train_state.safetensors";
/// What the names of checkpoints begin with.
const PREFIX: &str = "step-";

/// Everything that a run goes on from.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    header: Header,
    weights: NamedTensors,
    train_state: NamedTensors,
}

impl Checkpoint {
    /// A checkpoint of the weights and of what else training needs, above all the optimiser's state.
    ///
    /// # Errors
    /// If a path is in both.
    pub fn new(header: Header, weights: NamedTensors, train_state: NamedTensors) -> Result<Self> {
        let twice = weights.iter().find(|(path, _)| train_state.get(path).is_some());
        if let Some(path) = twice.map(|(path, _)| path.to_string()) {
            return Err(CheckpointError::DuplicateTensor { path });
        }
        Ok(Self { header, weights, train_state })
    }

    /// What it holds besides tensors.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The weights by parameter path.
    pub fn weights(&self) -> &NamedTensors {
        &self.weights
    }

    /// What else training needs.
    pub fn train_state(&self) -> &NamedTensors {
        &self.train_state
    }

    /// All tensors, in the order of their paths.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &NamedTensor)> {
        self.weights.iter().chain(self.train_state.iter()).collect::<BTreeMap<_, _>>().into_iter()
    }

    /// One digest of all tensors, as [`NamedTensors::digest`]: equal digests mean equal runs.
    pub fn digest(&self) -> Digest {
        tensors::digest(self.tensors())
    }

    /// The first tensor with a number that is not finite.
    pub fn not_finite(&self) -> Option<&str> {
        self.tensors().find(|(_, tensor)| !tensor.is_finite()).map(|(path, _)| path)
    }

    fn same_tensors(&self, other: &Self) -> bool {
        (&self.weights, &self.train_state) == (&other.weights, &other.train_state)
    }
}

/// A checkpoint that is there but cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its step.
    pub step: u64,
    /// What is wrong with it.
    pub error: CheckpointError,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the checkpoint of step {} is skipped: {}", self.step, self.error)
    }
}

/// The folder of a run's checkpoints.
///
/// Any number of processes may read. Whoever saves or prunes holds the run's [`RunLock`](super::RunLock): what an interrupted
/// process left behind is cleared away without asking whose it is.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        atomic::create_folder(&folder)?;
        Ok(Self { folder })
    }

    /// Where the checkpoint of a step is, or would be.
    pub fn step_folder(&self, step: u64) -> PathBuf {
        self.folder.join(step_name(step))
    }

    /// Where the weights of a step are, or would be.
    pub fn weights_file(&self, step: u64) -> PathBuf {
        self.step_folder(step).join(WEIGHTS)
    }

    /// The steps that are there, good or not, first to last.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let steps: BTreeSet<u64> = self.names()?.iter().filter_map(|name| parse_step(name)).collect();
        Ok(steps.into_iter().collect())
    }

    /// Writes a checkpoint, reads it again and returns its folder; before that returns, it is on the disk.
    ///
    /// A good checkpoint of that step with the same tensors is left as it is. A damaged one is not deleted but
    /// moved to a name that ends in `.damaged`.
    ///
    /// # Errors
    /// If the file system refuses, what was written is not what is read, or the step is there with other tensors.
    pub fn save(&self, checkpoint: &Checkpoint) -> Result<PathBuf> {
        self.clear_leftovers()?;
        let folder = self.step_folder(checkpoint.header.step);
        if folder.exists() {
            match self.load(checkpoint.header.step) {
                Ok(there) if there.same_tensors(checkpoint) => return Ok(folder),
                Ok(_) => {
                    let (folder, step) = (self.folder.clone(), checkpoint.header.step);
                    return Err(CheckpointError::OtherTensors { folder, step });
                }
                Err(_) => self.move_aside(&folder)?,
            }
        }
        let aside = atomic::temporary(&folder);
        let outcome = write(&aside, checkpoint).and_then(|()| atomic::rename(&aside, &folder));
        if outcome.is_err() {
            // The first failure is the one to tell; the next save clears away what stays behind.
            let _ = atomic::remove_if_there(&aside);
        }
        outcome?;
        self.load(checkpoint.header.step)?;
        Ok(folder)
    }

    /// The checkpoint of a step.
    ///
    /// # Errors
    /// If there is none, or anything in it is not what was written.
    pub fn load(&self, step: u64) -> Result<Checkpoint> {
        let folder = self.step_folder(step);
        if !folder.is_dir() {
            return Err(CheckpointError::NoSuchStep { folder: self.folder.clone(), step });
        }
        read(&folder, step)
    }

    /// The newest checkpoint that is what was written, and those after it that are not. Nothing is deleted.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn newest_good(&self) -> Result<(Option<Checkpoint>, Vec<Skipped>)> {
        let mut skipped = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            match self.load(step) {
                Ok(checkpoint) => return Ok((Some(checkpoint), skipped)),
                Err(error) => skipped.push(Skipped { step, error }),
            }
        }
        Ok((None, skipped))
    }

    /// Removes all good checkpoints but the newest `keep_last` (at least one) and those of `protect`; returns the steps
    /// that it removed. Damaged ones do not count, and stay.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn prune(&self, keep_last: usize, protect: &[u64]) -> Result<Vec<u64>> {
        let mut good = 0;
        let mut removed = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            if self.load(step).is_err() {
                continue;
            }
            good += 1;
            if good > keep_last.max(1) && !protect.contains(&step) {
                self.remove(step)?;
                removed.push(step);
            }
        }
        removed.reverse();
        Ok(removed)
    }

    /// Takes the name away first, so that an interruption leaves no half of a checkpoint.
    fn remove(&self, step: u64) -> Result<()> {
        let folder = self.step_folder(step);
        let aside = atomic::temporary(&folder);
        atomic::remove_if_there(&aside)?;
        atomic::rename(&folder, &aside)?;
        atomic::remove_if_there(&aside)
    }

    fn move_aside(&self, folder: &Path) -> Result<()> {
        let name = |number: u64| folder.with_extension(format!("{number}.damaged"));
        let free = (1..).map(name).find(|aside| !aside.exists());
        free.map_or(Ok(()), |aside| atomic::rename(folder, &aside))
    }

    /// Removes what interrupted processes left behind, unfinished; returns what that was.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn clear_leftovers(&self) -> Result<Vec<PathBuf>> {
        atomic::clear_leftovers(&self.folder)
    }

    fn names(&self) -> Result<Vec<String>> {
        let fail = |error| CheckpointError::io("read the folder", &self.folder, &error);
        let entries = fs::read_dir(&self.folder).map_err(fail)?;
        entries.map(|entry| Ok(entry.map_err(fail)?.file_name().to_string_lossy().into_owned())).collect()
    }
}

/// `step-00001234`
fn step_name(step: u64) -> String {
    format!("{PREFIX}{step:08}")
}

/// The step of a folder's name, which is exactly as [`step_name`] writes it.
fn parse_step(name: &str) -> Option<u64> {
    let step = name.strip_prefix(PREFIX)?.parse().ok()?;
    (step_name(step) == name).then_some(step)
}

/// A new folder with everything in it, the manifest last; on the disk when this returns.
fn write(folder: &Path, checkpoint: &Checkpoint) -> Result<()> {
    atomic::create_folder(folder)?;
    let mut files = BTreeMap::new();
    for (name, tensors) in [(WEIGHTS, &checkpoint.weights), (TRAIN_STATE, &checkpoint.train_state)] {
        let bytes = format::tensors_to_bytes(tensors);
        atomic::write_new(&folder.join(name), &bytes)?;
        files.insert(name.to_string(), FileEntry::of(&bytes));
    }
    let manifest = Manifest { format: FORMAT, header: checkpoint.header.clone(), tensors: checkpoint.digest(), files };
    atomic::write_new(&folder.join(Manifest::NAME), &manifest.to_bytes()?)?;
    atomic::sync_folder(folder)
}

/// A checkpoint that is what its manifest says.
fn read(folder: &Path, step: u64) -> Result<Checkpoint> {
    let path = folder.join(Manifest::NAME);
    let manifest = Manifest::from_bytes(&path, &atomic::read_file(&path, Manifest::MAX_LENGTH)?)?;
    let damaged = |damage| CheckpointError::damaged(&path, damage);
    if manifest.header.step != step {
        return Err(damaged(Damage::Step { expected: step, found: manifest.header.step }));
    }
    let entry = |name| manifest.files.get(name).ok_or_else(|| damaged(Damage::Files));
    let (weights, train_state) = (entry(WEIGHTS)?, entry(TRAIN_STATE)?);
    if manifest.files.len() != 2 {
        return Err(damaged(Damage::Files));
    }
    let weights = read_listed(&folder.join(WEIGHTS), weights)?;
    let train_state = read_listed(&folder.join(TRAIN_STATE), train_state)?;
    let checkpoint = Checkpoint::new(manifest.header, weights, train_state).map_err(|error| match error {
        CheckpointError::DuplicateTensor { path } => damaged(Damage::InBoth { path }),
        other => other,
    })?;
    match checkpoint.digest() {
        found if found == manifest.tensors => Ok(checkpoint),
        found => Err(damaged(Damage::Tensors { expected: manifest.tensors, found })),
    }
}

/// The tensors of a file, if it is as long as it was and has its digest.
fn read_listed(path: &Path, entry: &FileEntry) -> Result<NamedTensors> {
    let expected = entry.length;
    let bytes = atomic::read_file(path, expected).map_err(|error| match error {
        CheckpointError::Damaged { damage: Damage::TooLong { found, .. }, .. } => {
            CheckpointError::damaged(path, Damage::Length { expected, found })
        }
        other => other,
    })?;
    let found = FileEntry::of(&bytes);
    if found.length != expected {
        return Err(CheckpointError::damaged(path, Damage::Length { expected, found: found.length }));
    }
    if found.sha256 != entry.sha256 {
        return Err(CheckpointError::damaged(path, Damage::Sha256 { expected: entry.sha256, found: found.sha256 }));
    }
    format::read_tensors(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_one_name() {
        assert_eq!(step_name(1234), "step-00001234");
        for step in [0, 7, 99_999_999, 100_000_000, u64::MAX] {
            assert_eq!(parse_step(&step_name(step)), Some(step));
        }
        for name in
            ["step-7", "step-000000007", "step-+0000007", ".tmp-step-00000007", "step-00000007.1.damaged", "best"]
        {
            assert_eq!(parse_step(name), None, "{name}");
        }
    }
}
