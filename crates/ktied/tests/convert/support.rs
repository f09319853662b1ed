//! What tests of converted models share.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};
use ktied::NoiseKey;
use ktied::convert::{Bayesian, BayesianConfig, bayesian};
use ktied::noise;

pub fn autodiff() -> Device {
    Device::flex().autodiff()
}

pub fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    noise::normals(NoiseKey::new(seed), 0, &mut values);
    values
}

/// Normals of any shape.
pub fn normals<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    Tensor::<1>::from_floats(&random(shape.iter().product(), seed)[..], device).reshape(shape)
}

pub fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

pub fn scalar<const D: usize>(tensor: Tensor<D>) -> f64 {
    host(tensor)[0]
}

pub fn config(posterior: &str) -> BayesianConfig {
    BayesianConfig::new(posterior.parse().unwrap())
}

pub fn converted<M: Module>(model: M, posterior: &str) -> Bayesian<M> {
    bayesian(model, &config(posterior)).unwrap()
}

/// Paths of all parameters, with the largest |gradient| of each.
pub fn gradients<M: Module>(model: &M, grads: &Gradients) -> Vec<(String, Option<f64>)> {
    let mut visitor = Largest { grads, path: vec![], found: vec![] };
    model.visit(&mut visitor);
    visitor.found
}

struct Largest<'a> {
    grads: &'a Gradients,
    path: Vec<String>,
    found: Vec<(String, Option<f64>)>,
}

impl ModuleVisitor for Largest<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let largest = param.val().grad(self.grads).map(|grad| scalar(grad.abs().max()));
        self.found.push((self.path.join("."), largest));
    }
}
