//! Golden values: the first twenty losses of a small classifier against an independent implementation in PyTorch.
//!
//! `tests/golden/inputs.json` has everything that the losses depend on: data, first parameters and all noise.
//! `tests/golden/torch_losses.py` reads it and writes `losses.json`. To make both again:
//!
//! ```text
//! KTIED_GOLDEN_EXPORT=1 cargo test --workspace --test core golden
//! python crates/ktied/tests/golden/torch_losses.py
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied::models::{Mlp, MlpSpec, Network, NetworkConfig, PosteriorSpec};
use ktied::nn::{Estimator, Pass};
use ktied::objective::Elbo;
use ktied::ops::{self, portable};
use ktied::posterior::Family;
use ktied::prior::PriorRule;
use ktied::train::AdamConfig;
use ktied::{NoiseKey, Purpose};
use serde::Serialize;
use serde_json::Value;

use crate::support::{host, random};

const SIZES: [usize; 3] = [6, 5, 4];
const NUM_TRAIN: usize = 20;
/// Three batches an epoch, the last of 4.
const BATCH: usize = 8;
const STEPS: u64 = 20;
const SEED: u64 = 11;
const LEARNING_RATE: f64 = 0.03;
const PRIOR: f64 = 0.5;
const POSTERIORS: [&str; 2] = ["mean-field", "k-tied:2"];
const ESTIMATORS: [Estimator; 3] = [Estimator::Reparam, Estimator::Flipout, Estimator::Local];

/// Rows of a matrix.
pub type Matrix = Vec<Vec<f32>>;
type Tensors = BTreeMap<&'static str, Matrix>;

#[derive(Serialize)]
struct Inputs {
    num_train: usize,
    prior_scale: f64,
    learning_rate: f64,
    x: Matrix,
    labels: Vec<u32>,
    /// First parameters of each layer under each posterior.
    parameters: BTreeMap<&'static str, Vec<Tensors>>,
    steps: Vec<StepInputs>,
}

#[derive(Serialize)]
struct StepInputs {
    /// The examples of the batch, by number.
    examples: Range<usize>,
    /// The noise of each layer, the same for every posterior.
    noise: Vec<Tensors>,
}

fn inputs() -> Inputs {
    Inputs {
        num_train: NUM_TRAIN,
        prior_scale: PRIOR,
        learning_rate: LEARNING_RATE,
        x: matrix(x(0..NUM_TRAIN)),
        labels: labels(0..NUM_TRAIN),
        parameters: POSTERIORS.map(|posterior| (posterior, parameters(&mlp(posterior)))).into(),
        steps: (0..STEPS).map(|step| StepInputs { examples: batch(step), noise: noise(step) }).collect(),
    }
}

fn batch(step: u64) -> Range<usize> {
    let first = step as usize % NUM_TRAIN.div_ceil(BATCH) * BATCH;
    first..NUM_TRAIN.min(first + BATCH)
}

fn x(examples: Range<usize>) -> Tensor<2> {
    let x = Tensor::<1>::from_floats(&random(NUM_TRAIN * SIZES[0], 30)[..], &Device::flex());
    x.reshape([NUM_TRAIN, SIZES[0]]).slice([examples])
}

fn labels(examples: Range<usize>) -> Vec<u32> {
    examples.map(|example| (example * 7 % 5 % SIZES[2]) as u32).collect()
}

/// Scales large enough that the noise matters to the losses.
fn mlp(posterior: &str) -> Mlp {
    let posterior = PosteriorSpec { init_scale: 0.3, ..PosteriorSpec::new(posterior.parse().unwrap()) };
    let config = NetworkConfig { prior: PriorRule::Normal { scale: PRIOR }, ..NetworkConfig::new(posterior) };
    MlpSpec::new(SIZES).init(&config, &Device::flex().autodiff()).unwrap()
}

fn matrix(tensor: Tensor<2>) -> Matrix {
    let cols = tensor.dims()[1];
    let values: Vec<f32> = tensor.into_data().iter::<f32>().collect();
    values.chunks(cols).map(<[f32]>::to_vec).collect()
}

fn parameters(mlp: &Mlp) -> Vec<Tensors> {
    let of_layer = mlp.layers().iter().map(|layer| {
        let Some(Family::MeanField(bias)) = &layer.weights.bias else { panic!("a bias is mean-field") };
        let bias = [("bias.loc", &bias.loc), ("bias.log_scale", &bias.raw_scale)];
        let kernel = match &layer.weights.kernel {
            Family::MeanField(kernel) => vec![("kernel.loc", &kernel.loc), ("kernel.log_scale", &kernel.raw_scale)],
            Family::KTied(kernel) => {
                vec![("kernel.loc", &kernel.loc), ("kernel.log_u", &kernel.log_u), ("kernel.log_v", &kernel.log_v)]
            }
            other => panic!("no golden values of {other:?}"),
        };
        kernel.into_iter().chain(bias).map(|(name, param)| (name, matrix(param.val()))).collect()
    });
    of_layer.collect()
}

/// ε and signs as a pass makes them: a function of (seed, purpose, step, layer), and the tensor where there are two.
fn noise(step: u64) -> Vec<Tensors> {
    let of_layer = SIZES.windows(2).zip(0..).map(|(size, layer)| {
        let (b, m, n) = (batch(step).len(), size[0], size[1]);
        let key = |purpose| NoiseKey::new(SEED).child(purpose).at(step, layer);
        let like = |rows, cols| Tensor::<2>::zeros([rows, cols], &Device::flex());
        let normals = |rows, cols, key| matrix(portable::normals(&like(rows, cols), key));
        let signs = |cols, purpose| matrix(portable::signs(&like(b, cols), key(purpose)));
        Tensors::from([
            ("kernel", normals(m, n, key(Purpose::Weights).fold(0))),
            ("bias", normals(1, n, key(Purpose::Weights).fold(1))),
            ("activations", normals(b, n, key(Purpose::Activations))),
            ("input_signs", signs(m, Purpose::InputSigns)),
            ("output_signs", signs(n, Purpose::OutputSigns)),
        ])
    });
    of_layer.collect()
}

/// −ELBO of each batch, before the update that it leads to.
fn losses(posterior: &str, estimator: Estimator) -> Vec<f64> {
    let (mut mlp, elbo, mut optimizer) = (mlp(posterior), Elbo::new(NUM_TRAIN).unwrap(), AdamConfig::new().init());
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let logits = mlp.forward(x(batch(step)), &Pass::sampled(SEED, step, estimator)).unwrap();
        let nll = ops::softmax_cross_entropy(logits, &labels(batch(step))).unwrap().mean();
        let loss = elbo.loss(nll, mlp.kl().unwrap(), 1.0);
        losses.push(host(loss.clone())[0]);
        let grads = GradientsParams::from_grads(loss.backward(), &mlp);
        mlp = optimizer.step(LEARNING_RATE, mlp, grads);
    }
    losses
}

pub fn path(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", file].iter().collect()
}

pub fn read(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path(file)).unwrap()).unwrap()
}

/// The same structure, and numbers within 1e-6: logarithms of first scales are the platform's, to the last bit.
pub fn assert_same(place: &str, found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let pairs = found.iter().zip(expected).enumerate();
            pairs.for_each(|(i, (found, expected))| assert_same(&format!("{place}[{i}]"), found, expected));
        }
        (Value::Object(found), Value::Object(expected)) if found.keys().eq(expected.keys()) => {
            let pairs = found.iter().zip(expected.values());
            pairs.for_each(|((key, found), expected)| assert_same(&format!("{place}.{key}"), found, expected));
        }
        (Value::Number(found), Value::Number(expected)) => {
            let [found, expected] = [found, expected].map(|number| number.as_f64().unwrap());
            assert!((found - expected).abs() <= 1e-6 * expected.abs(), "{place} is {expected}, would be {found}");
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

#[test]
fn the_golden_inputs_are_those_that_training_has_today() {
    let inputs = inputs();
    if std::env::var_os("KTIED_GOLDEN_EXPORT").is_some() {
        // A line for each tensor, so that differences can be read.
        let text = serde_json::to_string(&inputs).unwrap().replace("],\"", "],\n\"");
        fs::write(path("inputs.json"), text + "\n").unwrap();
    }
    assert_same("inputs.json", &serde_json::to_value(inputs).unwrap(), &read("inputs.json"));
}

#[test]
fn losses_of_twenty_steps_equal_those_of_an_independent_implementation() {
    let golden = read("losses.json");
    for posterior in POSTERIORS {
        for estimator in ESTIMATORS {
            let losses = losses(posterior, estimator);
            let expected: Vec<f64> = serde_json::from_value(golden[posterior][estimator.to_string()].clone()).unwrap();
            assert_eq!(losses.len(), expected.len());
            for (step, (found, expected)) in losses.iter().zip(&expected).enumerate() {
                // Single precision against double: rounding alone leaves 2e-7.
                let error = (found / expected - 1.0).abs();
                assert!(error < 1e-5, "{posterior} {estimator}, step {step}: {found}, expected {expected}");
            }
        }
    }
}
