#![doc = include_str!("guide.md")]

mod bayesian;
mod config;
mod draws;
mod error;
#[cfg(feature = "train")]
mod learn;
mod plan;
mod variational;

pub use bayesian::{Bayesian, bayesian};
pub use config::{BayesianConfig, Conversion, ConvertedPrior, InitialScale, ParamInfo};
pub use error::ConvertError;
#[cfg(feature = "train")]
pub use learn::Learning;
pub use plan::Planned;
pub use variational::Variational;
