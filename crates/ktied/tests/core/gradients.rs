//! Gradients of every layer × posterior × estimator: kernels in single precision against the portable path in double
//! precision, and that against central differences with the noise frozen.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use ktied::nn::{
    BatchNormConfig, Conv2d, Conv2dConfig, EmbeddingConfig, Estimator, LayerConfig, Linear, LinearConfig, LstmConfig,
    Pass,
};
use ktied::ops::{Border, ConvWindow};
use ktied::posterior::ScaleInit;
use ktied::{Activation, ScaleForm};

use crate::support::{assert_close, host, random};

const POSTERIORS: [&str; 5] = ["point", "mean-field", "k-tied:1", "k-tied:2", "matrix-normal"];
const ESTIMATORS: [Estimator; 3] = [Estimator::Reparam, Estimator::Flipout, Estimator::Local];

/// Moves every parameter to double precision, adding `shift` to element `element` of parameter `param`.
struct ToDouble {
    count: usize,
    param: usize,
    element: usize,
    shift: f64,
}

impl ModuleMapper for ToDouble {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let here = self.count == self.param;
        self.count += 1;
        param.map(|tensor| {
            let (device, shape) = (tensor.device(), tensor.dims());
            let mut values: Vec<f64> = tensor.into_data().iter::<f64>().collect();
            if here && let Some(value) = values.get_mut(self.element) {
                *value += self.shift;
            }
            Tensor::from_data(TensorData::new(values, shape), (&device, DType::F64)).require_grad()
        })
    }
}

fn shifted<M: Module>(layer: &M, param: usize, element: usize, shift: f64) -> M {
    layer.clone().map(&mut ToDouble { count: 0, param, element, shift })
}

/// The gradients of all parameters, in the order of visits.
struct Grads<'a> {
    grads: &'a burn::tensor::Gradients,
    found: Vec<Vec<f64>>,
}

impl ModuleVisitor for Grads<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let zeros = vec![0.0; tensor.dims().iter().product()];
        self.found.push(tensor.grad(self.grads).map_or(zeros, host));
    }
}

fn grads<M: Module>(layer: &M, loss: Tensor<1>) -> Vec<Vec<f64>> {
    let grads = loss.backward();
    let mut visitor = Grads { grads: &grads, found: Vec::new() };
    layer.visit(&mut visitor);
    visitor.found
}

/// Holds the gradients of `loss`, a function of the layer and the precision, against each other.
fn assert_gradients<M: Module>(what: &str, layer: &M, loss: impl Fn(&M, DType) -> Tensor<1>) {
    let double = shifted(layer, usize::MAX, 0, 0.0);
    let exact = grads(&double, loss(&double, DType::F64));
    let single = grads(layer, loss(layer, DType::F32));
    for (i, (found, expected)) in single.iter().zip(&exact).enumerate() {
        assert_close(&format!("{what}, parameter {i}"), found, expected, 2e-5);
    }
    for (param, exact) in exact.iter().enumerate() {
        let largest = exact.iter().fold(1e-3, |m: f64, g| m.max(g.abs()));
        for element in (0..exact.len()).step_by((exact.len() / 4).max(1)) {
            let value = |shift| host(loss(&shifted(layer, param, element, shift), DType::F64))[0];
            let slope = (value(1e-5) - value(-1e-5)) / 2e-5;
            let d = (slope - exact[element]).abs() / largest;
            assert!(d < 1e-6, "{what}: parameter {param}[{element}] is {}, measured {slope}", exact[element]);
        }
    }
}

fn tensor(values: Vec<f32>, dtype: DType) -> Tensor<1> {
    let len = values.len();
    Tensor::from_data(TensorData::new(values, [len]), (&Device::flex(), dtype))
}

fn config(posterior: &str, form: ScaleForm, seed: u64) -> LayerConfig {
    let scale = ScaleInit { form, scale: 0.2, cap: None };
    LayerConfig { scale, seed, ..LayerConfig::new("layer", 3, posterior.parse().unwrap()) }
}

fn linear(posterior: &str, form: ScaleForm, [inputs, outputs]: [usize; 2], seed: u64) -> Linear {
    let layer = config(posterior, form, seed);
    LinearConfig { inputs, outputs, activation: Activation::Relu, layer }.init(&Device::flex().autodiff()).unwrap()
}

#[test]
fn dense_layers_have_the_right_gradients_under_every_posterior_and_estimator() {
    for (shape, batch, seed) in [([2, 2], 1, 1), ([7, 5], 4, 2), ([5, 9], 3, 3)] {
        for posterior in POSTERIORS {
            for estimator in ESTIMATORS {
                for form in [ScaleForm::Log, ScaleForm::Softplus] {
                    let layer = linear(posterior, form, shape, seed);
                    let pass = Pass::sampled(9, seed, estimator);
                    assert_gradients(&format!("{shape:?} {posterior} {estimator} {form:?}"), &layer, |layer, dtype| {
                        let x = tensor(random(batch * shape[0], 5), dtype).reshape([batch, shape[0]]);
                        let weights = tensor(random(batch * shape[1], 6), dtype).reshape([batch, shape[1]]);
                        let nll = (layer.forward(x, &pass).unwrap() * weights).sum();
                        nll + layer.weights.kl().unwrap() * 0.01
                    });
                }
            }
        }
    }
}

fn conv(posterior: &str, window: ConvWindow, seed: u64) -> Conv2d {
    let layer = config(posterior, ScaleForm::Log, seed);
    let config = Conv2dConfig { channels: 2, outputs: 3, window, activation: Activation::Relu, layer };
    config.init(&Device::flex().autodiff()).unwrap()
}

#[test]
fn convolutions_have_the_right_gradients_under_every_posterior_and_estimator() {
    for (kernel, stride, border) in [([3, 3], [1, 1], Border::Same), ([3, 2], [2, 2], Border::Valid)] {
        for posterior in POSTERIORS {
            for estimator in [Estimator::Reparam, Estimator::Flipout] {
                let layer = conv(posterior, ConvWindow { kernel, stride, border }, 1);
                let pass = Pass::sampled(9, 4, estimator);
                assert_gradients(&format!("{kernel:?} {posterior} {estimator}"), &layer, |layer, dtype| {
                    let x = tensor(random(2 * 5 * 4 * 2, 5), dtype).reshape([2, 5, 4, 2]);
                    let y = layer.forward(x, &pass).unwrap();
                    let weights = tensor(random(y.dims().iter().product(), 6), dtype).reshape(y.dims());
                    (y * weights).sum() + layer.weights.kl().unwrap() * 0.01
                });
            }
        }
    }
}

#[test]
fn recurrent_layers_have_the_right_gradients_under_every_posterior_and_estimator() {
    for ([time, batch, inputs, hidden], seed) in [([1, 1, 2, 2], 1), ([4, 3, 2, 3], 2)] {
        for posterior in POSTERIORS {
            for estimator in [Estimator::Reparam, Estimator::Flipout] {
                let layer = config(posterior, ScaleForm::Softplus, seed);
                let layer = LstmConfig { inputs, hidden, layer }.init(&Device::flex().autodiff()).unwrap();
                let pass = Pass::sampled(9, seed, estimator);
                let x = |dtype| tensor(random(time * batch * inputs, 5), dtype).reshape([time, batch, inputs]);
                let kl = |layer: &ktied::nn::Lstm| layer.kernel.kl().unwrap() + layer.recurrent.kl().unwrap();
                assert_gradients(&format!("all {posterior} {estimator}"), &layer, |layer, dtype| {
                    let y = layer.forward(x(dtype), &pass).unwrap();
                    let weights = tensor(random(time * batch * hidden, 6), dtype).reshape([time, batch, hidden]);
                    (y * weights).sum() + kl(layer) * 0.01
                });
                assert_gradients(&format!("last {posterior} {estimator}"), &layer, |layer, dtype| {
                    let y = layer.forward_last(x(dtype), &pass).unwrap();
                    (y * tensor(random(batch * hidden, 6), dtype).reshape([batch, hidden])).sum() + kl(layer) * 0.01
                });
            }
        }
    }
}

#[test]
fn embeddings_have_the_right_gradients_under_every_posterior_and_estimator() {
    let ids = Tensor::<2, Int>::from_data([[0, 3, 3, 1], [5, 3, 0, 0]], &Device::flex());
    for posterior in POSTERIORS {
        for estimator in [Estimator::Reparam, Estimator::Flipout] {
            let layer = config(posterior, ScaleForm::Log, 1);
            let layer = EmbeddingConfig { words: 6, width: 3, layer }.init(&Device::flex().autodiff()).unwrap();
            let pass = Pass::sampled(9, 2, estimator);
            for time_first in [false, true] {
                assert_gradients(&format!("{posterior} {estimator}"), &layer, |layer, dtype| {
                    let y = match time_first {
                        true => layer.forward_time_first(ids.clone(), &pass).unwrap().swap_dims(0, 1),
                        false => layer.forward(ids.clone(), &pass).unwrap(),
                    };
                    let weights = tensor(random(2 * 4 * 3, 6), dtype).reshape([2, 4, 3]);
                    (y * weights).sum() + layer.weights.kl().unwrap() * 0.01
                });
            }
        }
    }
}

#[test]
fn batch_norm_has_the_right_gradients_with_either_statistics() {
    for pass in [Pass::sampled(1, 0, Estimator::Reparam), Pass::Means] {
        for frozen in [false, true] {
            let config = BatchNormConfig { frozen, ..BatchNormConfig::new(3) };
            let layer = config.init(&Device::flex().autodiff()).unwrap();
            // Gradients of γ and β; those of x are the operation's, which has its own test.
            assert_gradients("batch norm", &layer, |given, dtype| {
                // Clones share their running averages, so each value needs a layer of its own.
                let mut layer = config.init(&Device::flex().autodiff()).unwrap();
                (layer.gamma, layer.beta) = (given.gamma.clone(), given.beta.clone());
                let x = tensor(random(2 * 2 * 2 * 3, 5), dtype).reshape([2, 2, 2, 3]);
                let weights = tensor(random(24, 6), dtype).reshape([2, 2, 2, 3]);
                (layer.forward(x, &pass).unwrap() * weights).sum()
            });
        }
    }
}

#[test]
fn dense_layers_at_several_positions_have_the_right_gradients() {
    for posterior in POSTERIORS {
        for estimator in [Estimator::Reparam, Estimator::Flipout] {
            let (layer, pass) = (linear(posterior, ScaleForm::Log, [4, 3], 1), Pass::sampled(9, 2, estimator));
            assert_gradients(&format!("{posterior} {estimator}"), &layer, |layer, dtype| {
                let x = tensor(random(2 * 5 * 4, 5), dtype).reshape([2, 5, 4]);
                let weights = tensor(random(2 * 5 * 3, 6), dtype).reshape([2, 5, 3]);
                (layer.forward(x, &pass).unwrap() * weights).sum() + layer.weights.kl().unwrap() * 0.01
            });
        }
    }
}
