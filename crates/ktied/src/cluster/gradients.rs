//! Gradients of a whole module in a few flat buffers, summed over processes.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

use super::Cluster;
use super::sum::{Sums, Wire};
use crate::ops;

/// Numbers that are sent at once: enough for latency not to matter, few enough for one message of MPI.
const BUFFER: usize = 1 << 24;

/// Where the gradients of a module are in the buffer, and memory for it.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    flat: Vec<f32>,
    sums: Sums,
}

/// Which parameters of a module have a gradient, in the order of a visit.
pub(crate) fn present<M: Module>(module: &M, grads: &GradientsParams) -> Vec<bool> {
    let mut visitor = Present { grads, found: Vec::new() };
    module.visit(&mut visitor);
    visitor.found
}

/// The sums over all processes of the gradients of those parameters that have one in any of them (`wanted`), and how many bytes
/// this process sent.
pub(crate) fn sum_gradients<M: Module>(
    cluster: &dyn Cluster,
    module: &M,
    grads: GradientsParams,
    wanted: &[bool],
    wire: Wire,
    layout: &mut Layout,
) -> (GradientsParams, u64) {
    layout.flat.clear();
    let mut gather = Gather { grads, wanted: wanted.iter(), flat: &mut layout.flat };
    module.visit(&mut gather);
    let sums = &mut layout.sums;
    let sent = layout.flat.chunks_mut(BUFFER).map(|values| sums.sum(cluster, values, wire)).sum();
    let mut scatter = Scatter { grads: GradientsParams::new(), wanted: wanted.iter(), flat: &layout.flat };
    module.visit(&mut scatter);
    (scatter.grads, sent)
}

struct Present<'a> {
    grads: &'a GradientsParams,
    found: Vec<bool>,
}

impl ModuleVisitor for Present<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.push(self.grads.get::<D>(param.id).is_some());
    }
}

struct Gather<'a> {
    grads: GradientsParams,
    wanted: std::slice::Iter<'a, bool>,
    flat: &'a mut Vec<f32>,
}

impl ModuleVisitor for Gather<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.wanted.next() != Some(&true) {
            return;
        }
        match self.grads.remove::<D>(param.id) {
            Some(grad) => {
                let data = grad.into_data();
                match data.as_slice::<f32>() {
                    Ok(values) => self.flat.extend_from_slice(values),
                    Err(_) => self.flat.extend(data.iter::<f32>()),
                }
                ops::recycle(data);
            }
            // Of a process without examples in this batch, or without this layer's divergence.
            None => self.flat.resize(self.flat.len() + param.shape().num_elements(), 0.0),
        }
    }
}

struct Scatter<'a> {
    grads: GradientsParams,
    wanted: std::slice::Iter<'a, bool>,
    flat: &'a [f32],
}

impl ModuleVisitor for Scatter<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.wanted.next() != Some(&true) {
            return;
        }
        let shape = param.shape();
        let (values, rest) = self.flat.split_at(shape.num_elements().min(self.flat.len()));
        self.flat = rest;
        let device = param.val().inner().device();
        let sums = TensorData::new(ops::copy_of(values), shape);
        self.grads.register::<D>(param.id, Tensor::from_data(sums, &device));
    }
}
