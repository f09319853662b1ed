//! The optimiser's state by parameter path: `adam.<path>.moment_1`, `.moment_2` and `.time`.

use std::collections::BTreeSet;

use burn::module::Module;
use burn::tensor::Tensor;

use super::module::{Slot, slots};
use super::tensors::{NamedTensor, NamedTensors};
use super::{CheckpointError, Result};
use crate::train::{Adam, Moments};

/// What the paths of Adam's tensors begin with; a training loop may keep tensors of its own beside them.
const PREFIX: &str = "adam.";
const MOMENTS: [&str; 2] = ["moment_1", "moment_2"];
const TIME: &str = "time";

fn path_of(parameter: &str, what: &str) -> String {
    format!("{PREFIX}{parameter}.{what}")
}

impl Adam {
    /// The moments and number of updates of each parameter of `module`, by path. A tracked parameter that has had no update
    /// yet has moments of zero, so that one that is missing later is always an error.
    ///
    /// # Errors
    /// If two parameters have one path, or checkpoints do not hold their type.
    pub fn to_tensors<M: Module>(&self, module: &M) -> Result<NamedTensors> {
        let mut tensors = NamedTensors::default();
        for (path, slot) in slots(module)? {
            let fresh = || slot.tracked.then(|| fresh(&slot));
            let Some(Moments { shape, flat, time, .. }) = self.moments(slot.id).cloned().or_else(fresh) else {
                continue;
            };
            for (name, moment) in MOMENTS.into_iter().zip(flat) {
                let path = path_of(&path, name);
                let moment = NamedTensor::from_data(&path, shape.clone(), &moment.into_data())?;
                tensors.insert(path, moment)?;
            }
            tensors.insert(path_of(&path, TIME), NamedTensor::scalar_i64(time as i64))?;
        }
        Ok(tensors)
    }

    /// Goes on from what [`to_tensors`](Self::to_tensors) gave, for a module with the same paths. Tensors that are not Adam's are
    /// left alone; whatever state there was is gone.
    ///
    /// # Errors
    /// If a tracked parameter has no state, or a state does not fit its parameter, or holds what no run can have; then nothing is changed.
    pub fn load_tensors<M: Module>(&mut self, module: &M, tensors: &NamedTensors) -> Result<()> {
        let mut used = BTreeSet::new();
        let mut loaded = Vec::new();
        for (path, slot) in slots(module)? {
            let paths = [MOMENTS[0], MOMENTS[1], TIME].map(|what| path_of(&path, what));
            if slot.tracked || paths.iter().any(|path| tensors.get(path).is_some()) {
                loaded.push((slot.id, load_moments(&slot, &paths, tensors)?));
                used.extend(paths);
            }
        }
        let mut adams = tensors.iter().map(|(path, _)| path).filter(|path| path.starts_with(PREFIX));
        if let Some(path) = adams.find(|path| !used.contains(*path)) {
            return Err(CheckpointError::UnexpectedTensor { path: path.into() });
        }
        self.replace_moments(loaded);
        Ok(())
    }
}

/// Moments before the first update.
fn fresh(slot: &Slot) -> Moments {
    let flat = || Tensor::zeros([slot.len()], (&slot.device.clone().inner(), slot.dtype));
    Moments { shape: slot.shape.clone(), flat: [flat(), flat()], time: 0, largest: None }
}

fn load_moments(slot: &Slot, paths: &[String; 3], tensors: &NamedTensors) -> Result<Moments> {
    let [moment_1, moment_2, time] = paths;
    let flat = |path: &String| -> Result<Tensor<1>> {
        let tensor = slot.check(path, tensors.get(path))?;
        if !tensor.is_finite() {
            return Err(CheckpointError::NotFinite { path: path.clone() });
        }
        Ok(Tensor::from_data(tensor.to_data([slot.len()]), (&slot.device.clone().inner(), slot.dtype)))
    };
    let flat = [flat(moment_1)?, flat(moment_2)?];
    if let Some(found) = flat[1].to_data().iter::<f64>().find(|square| *square < 0.0) {
        return Err(CheckpointError::NegativeSquare { path: moment_2.clone(), found: found.to_string() });
    }
    let there = tensors.get(time).ok_or_else(|| CheckpointError::MissingTensor { path: time.clone() })?;
    let found = there.as_scalar_i64().ok_or_else(|| CheckpointError::TensorDtype {
        path: time.clone(),
        expected: "one I64".into(),
        found: format!("{} of shape {:?}", there.dtype(), there.shape()),
    })?;
    let time = u64::try_from(found).map_err(|_| CheckpointError::NumberOfSteps { path: time.clone(), found })?;
    Ok(Moments { shape: slot.shape.clone(), flat, time, largest: None })
}
