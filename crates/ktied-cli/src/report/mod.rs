//! The report: what is known of some runs, and the one page that shows it.

mod assets;
mod calibration;
mod curves;
mod examples;
mod html;
mod inside;
mod notes;
mod page;
mod plot;
mod settings;
mod style;
mod table;
mod thin;

use ktied::analyze::Spectrum;
use ktied::config::Config;
use ktied::evaluate::Curves;
use serde_json::Value;

pub(crate) use self::assets::write as write_assets;
pub(crate) use self::html::short;
pub(crate) use self::notes::of_log;
pub(crate) use self::page::page;

use crate::log::{Log, number};
use crate::picture::{Cells, HeatMap};

/// Everything that the page says of one run.
#[derive(Debug)]
pub(crate) struct RunView {
    /// Its place on the page, from 0.
    pub(crate) index: usize,
    /// The last part of its folder's name, or all of it where another run has the same.
    pub(crate) name: String,
    pub(crate) folder: String,
    pub(crate) config: Config,
    pub(crate) config_text: String,
    pub(crate) parameters: usize,
    pub(crate) log: Log,
    pub(crate) checkpoint: Option<CheckpointView>,
    pub(crate) layers: Vec<LayerView>,
    pub(crate) judged: Option<Judged>,
    pub(crate) examples: Option<Examples>,
    /// How to make it again, or why that is not known.
    pub(crate) repeat: Result<String, String>,
    /// What cannot be shown, and why.
    pub(crate) notes: Vec<String>,
}

/// The checkpoint that was looked into.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointView {
    pub(crate) step: u64,
    pub(crate) digest: String,
    pub(crate) data_digest: String,
    pub(crate) ktied: String,
    pub(crate) instruction_set: String,
}

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct LayerView {
    pub(crate) name: String,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) means: Spectrum,
    pub(crate) scales: Option<Spectrum>,
    /// Standard deviations, and what rank 1 and 2 make of them; for the page, and for files.
    pub(crate) maps: Vec<(String, Cells, HeatMap)>,
}

/// What an evaluation said, by the run's own file or by this report.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) split: &'static str,
    pub(crate) document: Value,
    /// Whether this report made it.
    pub(crate) is_fresh: bool,
}

/// A metric as a file has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// NaN if it was not finite.
    pub(crate) value: f64,
    pub(crate) sem_examples: Option<f64>,
    pub(crate) sem_draws: Option<f64>,
}

impl Judged {
    pub(crate) fn metric(&self, key: &str) -> Option<Measured> {
        let found = self.document.get(key)?;
        let part = |name: &str| found.get(name).map(number);
        Some(Measured { value: part("value")?, sem_examples: part("sem_examples"), sem_draws: part("sem_draws") })
    }

    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        self.document.get(key)?.as_u64()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.document.get(key).map(number)
    }

    pub(crate) fn curves(&self) -> Option<Curves> {
        serde_json::from_value(self.document.get("curves")?.clone()).ok()
    }
}

/// The most and the least certain examples.
#[derive(Clone, Debug)]
pub(crate) struct Examples {
    /// The most certain first.
    pub(crate) most: Vec<Example>,
    /// The least certain first.
    pub(crate) least: Vec<Example>,
    pub(crate) samples: u64,
    pub(crate) split: &'static str,
    pub(crate) count: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Example {
    /// Its number in the split, from 0.
    pub(crate) row: usize,
    pub(crate) looks: Looks,
    pub(crate) said: Said,
}

/// What an example looks like.
#[derive(Clone, Debug)]
pub(crate) enum Looks {
    /// A PNG, and its height and width.
    Photo {
        png: Vec<u8>,
        height: usize,
        width: usize,
    },
    Text(String),
    /// Columns and their values.
    Columns(Vec<(String, f64)>),
}

/// What a run says of an example.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Classes {
        label: String,
        is_right: bool,
        /// The most probable first.
        probabilities: Vec<(String, f64)>,
        entropy: f64,
        mutual_information: f64,
    },
    Values(Vec<SaidValue>),
}

/// A number, in the units of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SaidValue {
    pub(crate) truth: f64,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl RunView {
    /// Whether its weights have no uncertainty, and so no ELBO.
    pub(crate) fn is_point(&self) -> bool {
        self.config.posterior.kind == ktied::posterior::PosteriorKind::Point
    }

    /// What files about it are called.
    pub(crate) fn stem(&self) -> String {
        let name: String =
            self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        format!("run-{}-{name}", self.index + 1)
    }
}
