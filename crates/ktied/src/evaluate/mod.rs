//! Judging a posterior: for now the predictive distribution of a classifier.

mod predictive;

pub use predictive::{ClassScores, predict_classes};
