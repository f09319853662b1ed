//! Training: a step, the loop around it, and the folder that a run is.
//!
//! [`Trainer`] holds a run in memory and makes one step after another; [`fit()`] feeds it batches, writes events and
//! checkpoints into the run's folder ([`Writer`]) and tells whoever [watches](Watch). The order of batches and all noise are
//! functions of (seed, step), so a run that was interrupted and resumed equals an unbroken one bit for bit.

mod averages;
mod events;
mod finite;
mod fit;
pub mod memory;
mod model;
mod optim;
mod run;
mod snr;
mod state;
mod together;
mod trainer;

pub use events::{Event, EventLog, MAX_LOG_BYTES, ScaleSummary};
pub use fit::{Outcome, Watch, fit};
pub use model::{Model, check_together};
pub(crate) use optim::Moments;
pub use optim::{Adam, AdamConfig, AdamRule, LearningRates, grad_norm};
pub use run::{MAX_CONFIG_BYTES, Run, Writer};
pub use snr::Snr;
pub use state::{Best, Exact, State, Window};
pub use trainer::{EVALUATION_BATCH, StepReport, Trainer};
