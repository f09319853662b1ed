//! The running averages of batch norm, to be put back when a step is left out: its forward pass has moved them.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

use super::model::Model;
use crate::models::AnyNetwork;

/// What autodiff does not track in a network with batch norm; nothing of others. Handles only: no number is copied.
#[derive(Debug, Default)]
pub(super) struct Averages(HashMap<ParamId, Tensor<1>>);

impl Averages {
    /// As they are now.
    pub(super) fn of(model: &Model) -> Self {
        let mut averages = Self::default();
        if matches!(model.network, AnyNetwork::ResNet18(_)) {
            model.visit(&mut averages);
        }
        averages
    }

    /// The model with its averages as they were.
    pub(super) fn put_back(mut self, model: Model) -> Model {
        if self.0.is_empty() { model } else { model.map(&mut self) }
    }
}

impl ModuleVisitor for Averages {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        if !tensor.is_require_grad() {
            let len = tensor.dims().iter().product::<usize>();
            self.0.insert(param.id, tensor.reshape([len]));
        }
    }
}

impl ModuleMapper for Averages {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.0.remove(&param.id) {
            Some(before) => param.map(|now| before.reshape(now.dims())),
            None => param,
        }
    }
}
