//! Any burn module as tensors by parameter path, and back.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, DType, Device, Float, Int, Tensor, TensorData};

use super::path::{ModulePath, tracks_path};
use super::tensors::{Dtype, NamedTensor, NamedTensors};
use super::{CheckpointError, Result};

/// Every parameter and running average of a module, by path.
///
/// Updates that a [`RunningState`](burn::module::RunningState) has gathered but not yet taken in are taken in first: a
/// visitor alone would see the value before the last update.
///
/// # Errors
/// If a parameter is of a type that checkpoints do not hold.
pub fn module_tensors<M: Module>(module: &M) -> Result<NamedTensors> {
    let mut tensors = NamedTensors::default();
    walk(&module.valid(), |path, slot, data| {
        let tensor = NamedTensor::from_data(&path, slot.shape, &data())?;
        tensors.insert(path, tensor)
    })?;
    Ok(tensors)
}

/// The module with the values of `tensors`; devices, and what is tracked by autodiff, stay as they are.
///
/// Everything is checked before anything is changed. (burn's clones of a module share their running averages: loading
/// one clone loads those of all.)
///
/// # Errors
/// If a tensor is missing, not expected, or of another shape or type.
pub fn load_module<M: Module>(module: M, tensors: &NamedTensors) -> Result<M> {
    // Lets running averages take in what they have gathered, or they would do so on top of what is loaded.
    let _ = module.valid();
    let slots = slots(&module)?;
    for (path, slot) in &slots {
        slot.check(path, tensors.get(path))?;
    }
    if let Some((path, _)) = tensors.iter().find(|(path, _)| !slots.contains_key(*path)) {
        return Err(CheckpointError::UnexpectedTensor { path: path.into() });
    }
    Ok(module.map(&mut Loader { path: ModulePath::default(), tensors }))
}

/// A place for a tensor in a module.
pub(super) struct Slot {
    pub(super) id: ParamId,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) device: Device,
    /// Whether autodiff tracks it.
    pub(super) tracked: bool,
}

impl Slot {
    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The tensor, if it is there and fits.
    pub(super) fn check<'a>(&self, path: &str, tensor: Option<&'a NamedTensor>) -> Result<&'a NamedTensor> {
        let tensor = tensor.ok_or_else(|| CheckpointError::MissingTensor { path: path.into() })?;
        if Dtype::from_burn(self.dtype) != Some(tensor.dtype()) {
            let (expected, found) = (format!("{:?}", self.dtype), tensor.dtype().to_string());
            return Err(CheckpointError::TensorDtype { path: path.into(), expected, found });
        }
        if self.shape != tensor.shape() {
            let (expected, found) = (self.shape.clone(), tensor.shape().to_vec());
            return Err(CheckpointError::TensorShape { path: path.into(), expected, found });
        }
        Ok(tensor)
    }
}

/// All places of a module by path.
pub(super) fn slots<M: Module>(module: &M) -> Result<BTreeMap<String, Slot>> {
    let mut slots = BTreeMap::new();
    walk(module, |path, slot, _| match slots.insert(path.clone(), slot) {
        Some(_) => Err(CheckpointError::DuplicateTensor { path }),
        None => Ok(()),
    })?;
    Ok(slots)
}

/// Shows `see` every tensor of the module: path, place, and a way to its elements. It stops looking after an error.
fn walk<M: Module>(module: &M, see: impl FnMut(String, Slot, &dyn Fn() -> TensorData) -> Result<()>) -> Result<()> {
    let mut walker = Walker { path: ModulePath::default(), see, outcome: Ok(()) };
    module.visit(&mut walker);
    walker.outcome
}

struct Walker<F> {
    path: ModulePath,
    see: F,
    outcome: Result<()>,
}

macro_rules! visits {
    ($($visit:ident $kind:ty, $tracked:expr;)+) => {$(
        fn $visit<const D: usize>(&mut self, param: &Param<Tensor<D, $kind>>) {
            if self.outcome.is_ok() {
                let (tensor, tracked): (_, fn(&Tensor<D, $kind>) -> bool) = (param.val(), $tracked);
                let (shape, dtype, device) = (tensor.dims().to_vec(), tensor.dtype(), tensor.device());
                let slot = Slot { id: param.id, shape, dtype, device, tracked: tracked(&tensor) };
                self.outcome = (self.see)(self.path.joined(), slot, &|| tensor.to_data());
            }
        }
    )+};
}

impl<F: FnMut(String, Slot, &dyn Fn() -> TensorData) -> Result<()>> ModuleVisitor for Walker<F> {
    tracks_path!();

    visits! {
        visit_float Float, Tensor::is_require_grad;
        visit_int Int, |_| false;
        visit_bool Bool, |_| false;
    }
}

/// Puts the tensors in; they have been checked.
struct Loader<'a> {
    path: ModulePath,
    tensors: &'a NamedTensors,
}

impl Loader<'_> {
    /// The elements for a place of this shape.
    fn data(&self, shape: impl Into<Vec<usize>>) -> Option<(TensorData, DType)> {
        let tensor = self.tensors.get(&self.path.joined())?;
        Some((tensor.to_data(shape), tensor.dtype().to_burn()))
    }
}

impl ModuleMapper for Loader<'_> {
    tracks_path!();

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|old| match self.data(old.dims()) {
            Some((data, dtype)) => {
                Tensor::from_data(data, (&old.device(), dtype)).set_require_grad(old.is_require_grad())
            }
            None => old,
        })
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        param.map(|old| match self.data(old.dims()) {
            Some((data, dtype)) => Tensor::from_data(data, (&old.device(), dtype)),
            None => old,
        })
    }
}
