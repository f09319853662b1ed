//! Parameters, gradients and running averages of a network by path.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor, TensorData};

use crate::golden::Matrix;
use crate::support::{host, random};

/// Where a visit is, without the names of variants.
#[derive(Default)]
struct Place(Vec<String>);

impl Place {
    fn enter(&mut self, name: &str, container: &str) {
        if !container.starts_with("Enum:") {
            self.0.push(name.into());
        }
    }

    fn exit(&mut self, container: &str) {
        if !container.starts_with("Enum:") {
            self.0.pop();
        }
    }

    fn path(&self) -> String {
        self.0.join(".")
    }

    fn is_average(&self) -> bool {
        self.path().contains(".running_")
    }
}

/// Gives every parameter, biases and norms included, values that are a function of its path.
#[derive(Default)]
pub struct SetParameters {
    place: Place,
}

impl ModuleMapper for SetParameters {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.place.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, container: &str) {
        self.place.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.place.is_average() {
            return param;
        }
        let path = self.place.path();
        param.map(|tensor| {
            let (device, dims) = (tensor.device(), tensor.dims());
            let values = values_at(&path, &dims);
            Tensor::from_data(TensorData::new(values, dims), &device).require_grad()
        })
    }
}

/// Scales around 0.2, so that the noise matters; three decimals, so that the file of inputs is short.
fn values_at(path: &str, dims: &[usize]) -> Vec<f32> {
    let (centre, spread) = match path.rsplit_once('.').unwrap() {
        (_, "raw_scale") => (-1.6, 0.3),
        (_, "log_u" | "log_v") => (-1.15, 0.3),
        (_, "gamma") => (1.0, 0.3),
        (tensor, "loc") if tensor.ends_with("kernel") => (0.0, (2.0 / dims[0] as f32).sqrt()),
        _ => (0.0, 0.3),
    };
    let seed = path.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    random(dims.iter().product(), seed).iter().map(|z| rounded(centre + spread * z, 1000.0)).collect()
}

pub fn rounded(value: f32, denominator: f32) -> f32 {
    (value * denominator).round() / denominator
}

/// What there is at every path.
#[derive(Default)]
pub struct Found<'a> {
    place: Place,
    of: Option<&'a Gradients>,
    pub parameters: BTreeMap<String, Matrix>,
    pub gradients: BTreeMap<String, Vec<f64>>,
    pub averages: BTreeMap<String, Vec<f64>>,
}

impl<'a> Found<'a> {
    pub fn in_network(network: &impl Module, of: Option<&'a Gradients>) -> Self {
        let mut found = Self { of, ..Self::default() };
        network.visit(&mut found);
        found
    }
}

impl ModuleVisitor for Found<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.place.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, container: &str) {
        self.place.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (path, value) = (self.place.path(), param.val());
        if self.place.is_average() {
            self.averages.insert(path, host(value));
            return;
        }
        if let Some(gradient) = self.of.and_then(|gradients| value.grad(gradients)) {
            self.gradients.insert(path.clone(), host(gradient));
        }
        self.parameters.insert(path, rows(value));
    }
}

/// Rows of the last dimension.
pub fn rows<const D: usize>(tensor: Tensor<D>) -> Matrix {
    let columns = tensor.dims()[D - 1];
    let values: Vec<f32> = tensor.into_data().iter::<f32>().collect();
    values.chunks(columns).map(<[f32]>::to_vec).collect()
}
