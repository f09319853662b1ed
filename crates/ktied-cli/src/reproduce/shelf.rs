//! The folder of the runs: where everything is, and what has been found out already.

use std::path::{Path, PathBuf};

use ktied::compress::Method;
use ktied::files;
use serde_json::Value;

use crate::exit::Failure;
use crate::log::{Log, MAX_DOCUMENT_BYTES};

/// A point of a curve: a step, and −ELBO on the validation examples.
pub(crate) type Point = (u64, f64);

/// The runs of one scale.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    folder: PathBuf,
}

impl Shelf {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a run.
    pub(crate) fn run(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The name of a run's low-rank version.
    pub(crate) fn cut(name: &str, method: Method, rank: usize) -> String {
        match method {
            Method::Svd => format!("{name}-rank-{rank}"),
            Method::Positive => format!("{name}-positive-{rank}"),
        }
    }

    pub(crate) fn log(&self, name: &str) -> Result<Log, Failure> {
        Log::read(&self.run(name))
    }

    /// A document that a stage has written; none if it has not.
    ///
    /// # Errors
    /// If the file system refuses, or the file is no JSON.
    pub(crate) fn document(&self, name: &str, file: &str) -> Result<Option<Value>, Failure> {
        let path = self.run(name).join(file);
        if !path.exists() {
            return Ok(None);
        }
        let text = files::read_text(&path, MAX_DOCUMENT_BYTES).map_err(|error| ktied::Error::read(&path, &error));
        let wrong = |error| Failure::Usage(format!("{}: expected JSON: {error}", path.display()));
        serde_json::from_str(&text?).map(Some).map_err(wrong)
    }

    /// The same, where it must be there.
    pub(crate) fn required(&self, name: &str, file: &str) -> Result<Value, Failure> {
        let missing =
            || Failure::Usage(format!("{} is missing: run the target again", self.run(name).join(file).display()));
        self.document(name, file)?.ok_or_else(missing)
    }
}
