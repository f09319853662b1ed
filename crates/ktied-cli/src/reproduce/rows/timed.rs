//! Times of training steps.

use serde::{Deserialize, Serialize};

use super::{Origin, Rows};
use crate::exit::Failure;
use crate::reproduce::Shelf;

/// A training step to time: the name of its figure, method, estimator, sizes of the MLP, examples.
pub(crate) const TIMED: [(&str, &str, &str, &str, usize); 8] = [
    ("step_ms", "point", "reparam", "784,128,10", 32),
    ("step_ms", "mean-field", "reparam", "784,128,10", 32),
    ("step_ms", "k-tied:2", "reparam", "784,128,10", 32),
    ("step_ms", "k-tied:2, local", "local", "784,128,10", 32),
    ("step_ms@400-400,batch=1024", "point", "reparam", "784,400,400,10", 1024),
    ("step_ms@400-400,batch=1024", "mean-field", "reparam", "784,400,400,10", 1024),
    ("step_ms@400-400,batch=1024", "k-tied:2", "reparam", "784,400,400,10", 1024),
    ("step_ms@400-400,batch=1024", "k-tied:2, local", "local", "784,400,400,10", 1024),
];

/// The time of a training step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Timed {
    pub(crate) metric: String,
    pub(crate) method: String,
    pub(crate) median_ms: f64,
    pub(crate) sem_ms: f64,
    pub(crate) wall_s: f64,
    pub(crate) command: String,
}

pub(super) fn step_time(rows: &mut Rows, shelf: &Shelf) -> Result<(), Failure> {
    let timed: Vec<Timed> = serde_json::from_value(shelf.required("", "step-time.json")?)
        .map_err(|error| Failure::Usage(format!("step-time.json: {error}")))?;
    for Timed { metric, method, median_ms, sem_ms, wall_s, command } in timed {
        let origin = Origin { seed: None, command, wall_s };
        rows.add(["mlp", &method, &metric], (median_ms, Some(sem_ms)), &origin);
    }
    Ok(())
}
