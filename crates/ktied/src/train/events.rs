//! `events.jsonl`: everything that happens in a run, a line each.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::snr::Snr;
use crate::checkpoint::write_file;
use crate::error::{Error, Result};
use crate::evaluate::Evaluation;
use crate::files;

/// Longest log that is read.
pub const MAX_LOG_BYTES: u64 = 1 << 31;

/// One line of the log; `step` counts the steps that are over.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event<'a> {
    /// Means over the steps since the last such line.
    Train {
        /// Steps that are over.
        step: u64,
        /// Passes over the examples, as a fraction.
        epoch: f64,
        /// Mean NLL of an example, in nats.
        nll: f64,
        /// KL(q‖p), in nats, now.
        kl: f64,
        /// KL/N
        kl_per_example: f64,
        /// NLL + KL/N
        neg_elbo: f64,
        /// Share of examples classified rightly.
        accuracy: Option<f64>,
        /// Weight that annealing puts on the divergence.
        weight: f64,
        /// Steps left out so far because something was not finite.
        skipped: u64,
        /// Steps a second since the last line.
        steps_per_second: f64,
        /// Signal-to-noise ratios of the scales' gradients, if asked for.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        snr: Vec<Snr>,
        /// Of several processes: bytes of gradients that the first has sent since the last line.
        #[serde(skip_serializing_if = "Option::is_none")]
        sent_bytes: Option<u64>,
    },
    /// A validation.
    Validation {
        /// Steps that are over.
        step: u64,
        /// Passes over the examples.
        epoch: f64,
        /// Whether none before was better.
        best: bool,
        /// The metrics.
        metrics: &'a Evaluation,
    },
    /// Standard deviations of each layer's kernel.
    Scales {
        /// Steps that are over.
        step: u64,
        /// The layers.
        layers: Vec<ScaleSummary>,
    },
    /// A checkpoint was written.
    Checkpoint {
        /// Steps that are over.
        step: u64,
        /// Digest of its tensors.
        digest: String,
    },
    /// The run ended.
    Finished {
        /// Steps that are over.
        step: u64,
        /// Weight that annealing put on the divergence at the end.
        weight: f64,
        /// Why.
        reason: &'static str,
    },
}

/// Standard deviations of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScaleSummary {
    /// The layer.
    pub layer: String,
    /// Smallest σ.
    pub min: f64,
    /// Mean σ.
    pub mean: f64,
    /// Largest σ.
    pub max: f64,
    /// Mean σ over that of the prior.
    pub of_prior: f64,
}

/// The log of a run, open for more lines.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    is_finished: bool,
}

impl EventLog {
    /// The log at `path`, cut back to what happened up to `step`; a torn last line is cut too.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn open(path: &Path, step: u64) -> Result<Self> {
        let mut is_finished = false;
        if path.exists() {
            let text = files::read_text(path, MAX_LOG_BYTES).map_err(|error| Error::read(path, &error))?;
            let kept = up_to(&text, step);
            if kept.len() < text.len() {
                write_file(path, kept.as_bytes())?;
            }
            is_finished = kept.lines().next_back().is_some_and(|line| line.starts_with("{\"event\":\"finished\""));
        }
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| Error::io("open", path, &error))?;
        Ok(Self { path: path.into(), file, is_finished })
    }

    /// Whether the last line says that the run has ended.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn push(&mut self, event: &Event<'_>) -> Result<()> {
        let mut line = serde_json::to_string(event).unwrap_or_default();
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|error| Error::io("write", &self.path, &error))?;
        self.is_finished = matches!(event, Event::Finished { .. });
        Ok(())
    }

    /// Returns when every line is on the disk.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("flush", &self.path, &error))
    }
}

/// The whole lines from the first on whose `step` is at most `step`.
fn up_to(text: &str, step: u64) -> &str {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        let parsed: Option<Value> = serde_json::from_str(line).ok().filter(|_| line.ends_with('\n'));
        match parsed.and_then(|event| event.get("step").and_then(Value::as_u64)) {
            Some(at) if at <= step => end += line.len(),
            _ => break,
        }
    }
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_cut_back_to_a_step_and_to_whole_lines() {
        let text = "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"b\":1}\n{\"step\":3}\n{\"st";
        assert_eq!(up_to(text, 0), "");
        assert_eq!(up_to(text, 2), "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"b\":1}\n");
        assert_eq!(up_to(text, 9), &text[..text.len() - 4]);
        assert_eq!(up_to("{\"step\":1}", 9), "", "a line without its end may be torn");
        assert_eq!(up_to("nonsense\n{\"step\":1}\n", 9), "");
    }
}
