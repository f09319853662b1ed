//! A run is a folder: `config.toml`, `events.jsonl`, `checkpoints/`, `best`, `evaluation/`, `lock`.

use std::fs;
use std::path::{Path, PathBuf};

use super::events::EventLog;
use crate::checkpoint::{Checkpoint, RunLock, Skipped, Store, clear_leftovers, is_temporary, write_file};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::files;

/// Longest configuration that is read.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

const CONFIG: &str = "config.toml";
const EVENTS: &str = "events.jsonl";
const CHECKPOINTS: &str = "checkpoints";
const BEST: &str = "best";
/// What a folder may hold and still count as empty.
const LOCK: &str = "lock";

/// The folder of a run, to read.
#[derive(Clone, Debug)]
pub struct Run {
    folder: PathBuf,
}

/// The right to write into the folder of a run, until it is dropped.
#[derive(Debug)]
pub struct Writer {
    run: Run,
    store: Store,
    leftovers: Vec<PathBuf>,
    _lock: RunLock,
}

impl Run {
    /// The run in a folder.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        match folder.join(CONFIG).is_file() {
            true => Ok(Self { folder }),
            false => Err(Error::NotARun { folder }),
        }
    }

    /// Says whether a new run may be made in a folder, before any work is done for it.
    ///
    /// # Errors
    /// If the folder has something in it.
    pub fn check_free(folder: &Path) -> Result<()> {
        match holds_something(folder)? {
            true => Err(Error::NotEmpty { folder: folder.into() }),
            false => Ok(()),
        }
    }

    /// Bytes of the weights of a checkpoint on disk; 0 if they cannot be found.
    pub fn bytes_of_weights(&self, step: u64) -> u64 {
        let file = self.store().map(|store| store.weights_file(step));
        file.ok().and_then(|file| fs::metadata(file).ok()).map_or(0, |metadata| metadata.len())
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its configuration.
    ///
    /// # Errors
    /// If the file cannot be read, or is no whole configuration.
    pub fn config(&self) -> Result<Config> {
        let path = self.folder.join(CONFIG);
        let text = files::read_text(&path, MAX_CONFIG_BYTES).map_err(|error| Error::read(&path, &error))?;
        Config::from_toml(&text).map_err(|error| Error::BadConfig { path, reason: error.to_string() })
    }

    /// Its checkpoints.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn store(&self) -> Result<Store> {
        Ok(Store::open(self.folder.join(CHECKPOINTS))?)
    }

    /// The step that `best` names, if a validation has chosen one.
    pub fn best(&self) -> Option<u64> {
        let text = files::read_text(&self.folder.join(BEST), MAX_CONFIG_BYTES).ok()?;
        text.trim().strip_prefix("step-")?.parse().ok()
    }

    /// The newest good checkpoint, and those after it that are not.
    ///
    /// # Errors
    /// If there is no good one.
    pub fn newest(&self) -> Result<(Checkpoint, Vec<Skipped>)> {
        let (newest, skipped) = self.store()?.newest_good()?;
        match newest {
            Some(checkpoint) => Ok((checkpoint, skipped)),
            None => Err(self.no_checkpoint(&skipped)),
        }
    }

    /// The newest good checkpoint, if there is any at all, and those after it that are not.
    ///
    /// # Errors
    /// If there are checkpoints and none of them is good: whoever began anew would put a run in the place of another.
    pub fn newest_if_any(&self) -> Result<(Option<Checkpoint>, Vec<Skipped>)> {
        match self.store()?.newest_good()? {
            (None, skipped) if !skipped.is_empty() => Err(self.no_checkpoint(&skipped)),
            found => Ok(found),
        }
    }

    fn no_checkpoint(&self, skipped: &[Skipped]) -> Error {
        let reasons: Vec<String> = skipped.iter().map(ToString::to_string).collect();
        let reason = if reasons.is_empty() { "there is none".into() } else { reasons.join("; ") };
        Error::NoCheckpoint { folder: self.folder.clone(), reason }
    }

    /// Writes a small file of results into the folder, whole or not at all.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, &error))?;
        }
        write_file(&path, bytes)?;
        Ok(path)
    }
}

impl Writer {
    /// A new run in an empty folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder has something in it, another process writes there, or the file system refuses.
    pub fn create(folder: impl Into<PathBuf>, config: &Config) -> Result<Self> {
        let folder = folder.into();
        if holds_something(&folder)? {
            return Err(Error::NotEmpty { folder });
        }
        let lock = RunLock::acquire(&folder)?;
        // Again under the lock: another process may have been faster.
        if holds_something(&folder)? {
            return Err(Error::NotEmpty { folder });
        }
        // Of a process that died before it had written its configuration.
        let leftovers = clear_leftovers(&folder)?;
        write_file(&folder.join(CONFIG), config.to_toml().as_bytes())?;
        let run = Run { folder };
        Ok(Self { store: run.store()?, run, leftovers, _lock: lock })
    }

    /// A run that is there, to go on with; what interrupted processes left behind in it is cleared away.
    ///
    /// # Errors
    /// If there is none, another process writes there, or the file system refuses.
    pub fn reopen(folder: impl Into<PathBuf>) -> Result<Self> {
        let run = Run::open(folder)?;
        let lock = RunLock::acquire(run.folder())?;
        let store = run.store()?;
        let mut leftovers = clear_leftovers(run.folder())?;
        leftovers.extend(store.clear_leftovers()?);
        Ok(Self { store, run, leftovers, _lock: lock })
    }

    /// What interrupted processes had left behind when this one took over, unfinished; it is gone.
    pub fn leftovers(&self) -> &[PathBuf] {
        &self.leftovers
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Its checkpoints.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Replaces the configuration, as when a run is made longer.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn write_config(&self, config: &Config) -> Result<()> {
        Ok(write_file(&self.run.folder.join(CONFIG), config.to_toml().as_bytes())?)
    }

    /// The log, cut back to what happened up to `step`.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn events(&self, step: u64) -> Result<EventLog> {
        EventLog::open(&self.run.folder.join(EVENTS), step)
    }

    /// Saves a checkpoint, names the best one, and removes those that need not be kept.
    ///
    /// # Errors
    /// If the file system refuses; what was there before is still there then.
    pub fn save(&self, checkpoint: &Checkpoint, best: Option<u64>, keep: usize) -> Result<()> {
        self.store.save(checkpoint)?;
        if let Some(step) = best {
            write_file(&self.run.folder.join(BEST), format!("step-{step:08}\n").as_bytes())?;
        }
        self.prune(best, keep)
    }

    /// Removes the checkpoints that need not be kept.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn prune(&self, best: Option<u64>, keep: usize) -> Result<()> {
        self.store.prune(keep, best.as_slice())?;
        Ok(())
    }
}

fn holds_something(folder: &Path) -> Result<bool> {
    if !folder.exists() {
        return Ok(false);
    }
    let entries = fs::read_dir(folder).map_err(|error| Error::io("read", folder, &error))?;
    Ok(entries.flatten().any(|entry| entry.file_name() != LOCK && !is_temporary(&entry.file_name())))
}
