//! Golden networks: logits, losses and gradients of LeNet, the LSTM classifier and ResNet-18 against an independent
//! implementation in PyTorch.
//!
//! `tests/golden/network_inputs.json` has everything that they depend on: data, parameters and all noise.
//! `tests/golden/torch_networks.py` reads it and writes `network_outputs.json`. To make both again:
//!
//! ```text
//! KTIED_GOLDEN_EXPORT=1 cargo test --workspace --test core golden
//! python crates/ktied/tests/golden/torch_networks.py
//! ```

mod parameters;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use ktied::models::{
    AnyNetwork, Features, LeNetSpec, LstmSpec, ModelSpec, Network, NetworkConfig, Norm, PosteriorSpec, ResNet18Spec,
    Role,
};
use ktied::nn::{Estimator, Pass, Statistics};
use ktied::objective::{Elbo, Likelihood, LikelihoodKind, Observed};
use ktied::ops::portable;
use ktied::prior::PriorRule;
use ktied::{NoiseKey, Purpose, ScaleForm};
use serde::{Deserialize, Serialize};

use self::parameters::{Found, SetParameters, rounded, rows};
use crate::golden::{Matrix, assert_same, path, read};
use crate::support::{assert_close, host, random};

const SEED: u64 = 11;
const BATCH: usize = 3;
/// Words of an example.
const TIME: usize = 7;
/// Few, so that the divergence has its share of every gradient.
const NUM_TRAIN: usize = 100;
const PRIOR: f64 = 0.5;
/// Sets the noise of a recurrent kernel apart.
const RECURRENT: u64 = 1 << 63;

const NETWORKS: [&str; 4] = ["lenet-5", "lenet-3", "lstm", "resnet18"];
/// Two training passes, then a prediction.
const PASSES: [Statistics; 3] = [Statistics::Batch, Statistics::Batch, Statistics::Running];

#[derive(Serialize)]
struct Inputs {
    networks: BTreeMap<&'static str, NetworkInputs>,
    cases: BTreeMap<String, Case>,
}

#[derive(Serialize)]
struct NetworkInputs {
    model: ModelSpec,
    num_train: usize,
    prior_scale: f64,
    scale_form: String,
    x: Rows,
    labels: Vec<u32>,
    /// By path, of all posteriors together: what they share has the same values.
    parameters: BTreeMap<String, Matrix>,
    passes: Vec<PassInputs>,
}

/// One an example.
#[derive(Serialize)]
#[serde(untagged)]
enum Rows {
    /// By rows, columns and channels.
    Pixels(Matrix),
    Words(Vec<Vec<u32>>),
}

#[derive(Serialize)]
struct PassInputs {
    examples: Range<usize>,
    statistics: &'static str,
    /// By layer.
    noise: BTreeMap<String, BTreeMap<&'static str, Matrix>>,
}

/// Passes through a network, the last of which is compared.
#[derive(Clone, Serialize)]
struct Case {
    network: &'static str,
    posterior: &'static str,
    estimator: String,
    norm: Norm,
    passes: Vec<usize>,
}

type ByPath = BTreeMap<String, Vec<f64>>;

#[derive(Deserialize)]
struct Outcome {
    nll: f64,
    neg_elbo: f64,
    logits: Vec<f64>,
    /// Of −ELBO.
    gradients: ByPath,
    /// Of batch norms, after all passes.
    averages: ByPath,
}

/// Sizes that differ, so that none can stand for another. Images of `lenet-3` leave a row over when pooled for the second
/// time; those of ResNet-18 are 32×32, so that 4×4 are left for its last pooling.
fn model(network: &str, norm: Norm) -> ModelSpec {
    let lenet =
        |side, kernel| LeNetSpec { side, channels: 2, kernel, filters: [3, 4], dense: 6, classes: 5, dropout: 0.0 };
    match network {
        "lenet-5" => ModelSpec::LeNet(lenet(8, 5)),
        "lenet-3" => ModelSpec::LeNet(lenet(10, 3)),
        "lstm" => ModelSpec::Lstm(LstmSpec { vocabulary: 11, embedding: 5, hidden: 4, dropout: 0.0 }),
        "resnet18" => ModelSpec::ResNet18(ResNet18Spec {
            side: 32,
            channels: 3,
            widths: [2, 3, 4, 5],
            classes: 6,
            norm,
            dropout: 0.0,
        }),
        other => panic!("no network `{other}`"),
    }
}

/// The cases of a network by name.
fn cases(network: &'static str) -> Vec<(String, Case)> {
    const DRAWN: &[[&str; 2]] = &[["point", "reparam"], ["mean-field", "reparam"]];
    const SHORT: &[[&str; 2]] = &[DRAWN[0], DRAWN[1], ["mean-field", "flipout"]];
    const TIED: &[[&str; 2]] = &[["mean-field", "local"], ["k-tied:2", "reparam"], ["k-tied:2", "flipout"]];
    let groups = match network {
        "resnet18" => vec![
            ("training", Norm::Batch, SHORT, vec![0]),
            ("evaluation", Norm::Batch, DRAWN, vec![0, 1, 2]),
            ("frozen", Norm::Frozen, SHORT, vec![0]),
        ],
        "lenet-5" => vec![("training", Norm::Batch, SHORT, vec![0])],
        _ => vec![("training", Norm::Batch, SHORT, vec![0]), ("training", Norm::Batch, TIED, vec![0])],
    };
    let of_group = |(what, norm, pairs, passes): (&str, Norm, &'static [[&'static str; 2]], Vec<usize>)| {
        let case = move |&[posterior, estimator]: &[&'static str; 2]| {
            let name = format!("{network} {what} {posterior} {estimator}");
            (name, Case { network, posterior, estimator: estimator.into(), norm, passes: passes.clone() })
        };
        pairs.iter().map(case).collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// ResNet-18's scales are softplus of what is stored.
fn scale_form(network: &str) -> ScaleForm {
    if network == "resnet18" { ScaleForm::Softplus } else { ScaleForm::Log }
}

fn network(network: &str, posterior: &str, norm: Norm) -> AnyNetwork {
    let posterior = PosteriorSpec { scale: scale_form(network), ..PosteriorSpec::new(posterior.parse().unwrap()) };
    let config = NetworkConfig { prior: PriorRule::Normal { scale: PRIOR }, ..NetworkConfig::new(posterior) };
    let first = model(network, norm).init(&config, &Device::flex().autodiff()).unwrap();
    first.map(&mut SetParameters::default())
}

/// A training pass that is not the first has an example less, so that their statistics differ.
fn examples(pass: usize) -> Range<usize> {
    (pass % 2)..BATCH
}

fn pass(number: usize, estimator: Estimator) -> Pass {
    match PASSES[number] {
        Statistics::Batch => Pass::sampled(SEED, number as u64, estimator),
        Statistics::Running => Pass::prediction(SEED, number as u64),
    }
}

fn pixels(model: &ModelSpec) -> Tensor<2> {
    let width = match model {
        ModelSpec::LeNet(LeNetSpec { side, channels, .. }) => side * side * channels,
        ModelSpec::ResNet18(ResNet18Spec { side, channels, .. }) => side * side * channels,
        other => panic!("{other:?} has no images"),
    };
    let values: Vec<f32> = random(BATCH * width, 30).iter().map(|z| rounded(*z, 10.0)).collect();
    Tensor::from_data(TensorData::new(values, [BATCH, width]), &Device::flex())
}

/// Some words stand twice in an example, and not all stand anywhere.
fn words() -> Vec<Vec<u32>> {
    let example = |e: u32| (0..TIME as u32).map(move |t| (t * t + 3 * e * t + e) % 10).collect();
    (0..BATCH as u32).map(example).collect()
}

fn features(model: &ModelSpec, examples: Range<usize>) -> Features {
    match model {
        ModelSpec::Lstm(_) => {
            let words: Vec<u32> = words()[examples].concat();
            Features::Words(Tensor::<1, Int>::from_data(&words[..], &Device::flex()).reshape([-1, TIME as i32]))
        }
        _ => Features::Rows(pixels(model).slice([examples])),
    }
}

fn labels(model: &ModelSpec) -> Vec<u32> {
    (0..BATCH as u32).map(|example| (3 * example + 1) % model.outputs().max(2) as u32).collect()
}

fn network_inputs(name: &'static str) -> NetworkInputs {
    let model = model(name, Norm::Batch);
    let cases = cases(name);
    let parameters = cases
        .iter()
        .flat_map(|(_, case)| Found::in_network(&network(name, case.posterior, case.norm), None).parameters);
    let num_passes = cases.iter().flat_map(|(_, case)| &case.passes).max().unwrap() + 1;
    NetworkInputs {
        num_train: NUM_TRAIN,
        prior_scale: PRIOR,
        scale_form: scale_form(name).to_string(),
        x: match model {
            ModelSpec::Lstm(_) => Rows::Words(words()),
            _ => Rows::Pixels(rows(pixels(&model))),
        },
        labels: labels(&model),
        parameters: parameters.collect(),
        passes: (0..num_passes).map(|number| pass_inputs(&model, number)).collect(),
        model,
    }
}

fn pass_inputs(model: &ModelSpec, number: usize) -> PassInputs {
    let layers = model.layers(&PosteriorSpec::default()).unwrap();
    let kernels = layers.iter().filter(|layer| layer.role == Role::Kernel);
    let noise = kernels.zip(0..).map(|(layer, position)| {
        // Layers are numbered in order; the LSTM, which has two kernels, comes after an embedding, which has none.
        let id = match layer.name.as_str() {
            "lstm.kernel" => 1,
            "lstm.recurrent" => 1 | RECURRENT,
            _ => position,
        };
        (layer.name.clone(), noise(number, id, &layer.shape))
    });
    let statistics = match PASSES[number] {
        Statistics::Batch => "batch",
        Statistics::Running => "running",
    };
    PassInputs { examples: examples(number), statistics, noise: noise.collect() }
}

/// ε and signs as a pass makes them: a function of (seed, purpose, step, layer), and the tensor where there are two.
/// Signs of a convolution, `[KH, KW, C, O]`, are per channel.
fn noise(number: usize, layer: u64, shape: &[usize]) -> BTreeMap<&'static str, Matrix> {
    let &[ref area @ .., inputs, outputs] = shape else { panic!("a kernel has inputs and outputs") };
    let (batch, fan_in) = (examples(number).len(), area.iter().product::<usize>() * inputs);
    let root = match PASSES[number] {
        Statistics::Batch => NoiseKey::new(SEED),
        Statistics::Running => NoiseKey::new(SEED).child(Purpose::Evaluate),
    };
    let key = |purpose| root.child(purpose).at(number as u64, layer);
    let like = |rows, cols| Tensor::<2>::zeros([rows, cols], &Device::flex());
    let normals = |len, cols, key| rows(portable::normals(&like(len, cols), key));
    let signs = |cols, purpose| rows(portable::signs(&like(batch, cols), key(purpose)));
    BTreeMap::from([
        ("kernel", normals(fan_in, outputs, key(Purpose::Weights).fold(0))),
        ("bias", normals(1, outputs, key(Purpose::Weights).fold(1))),
        ("activations", normals(batch, outputs, key(Purpose::Activations))),
        ("input_signs", signs(inputs, Purpose::InputSigns)),
        ("output_signs", signs(outputs, Purpose::OutputSigns)),
    ])
}

fn outcome(case: &Case) -> Outcome {
    let (network, model) = (network(case.network, case.posterior, case.norm), model(case.network, case.norm));
    let (estimator, mut last) = (case.estimator.parse().unwrap(), None);
    for &number in &case.passes {
        let x = features(&model, examples(number));
        last = Some((number, network.forward(x, &pass(number, estimator)).unwrap()));
    }
    let (number, logits) = last.unwrap();
    let kind = if model.outputs() == 1 { LikelihoodKind::Bernoulli } else { LikelihoodKind::Softmax };
    let likelihood = Likelihood::new(kind, model.outputs(), 1.0, &Device::flex()).unwrap();
    let observed = Observed::Classes(labels(&model)[examples(number)].into());
    let nll = likelihood.nll(logits.clone(), &observed).unwrap().mean();
    let loss = Elbo::new(NUM_TRAIN).unwrap().loss(nll.clone(), network.kl().unwrap(), 1.0);
    let gradients = loss.backward();
    let Found { gradients, averages, .. } = Found::in_network(&network, Some(&gradients));
    Outcome { nll: host(nll)[0], neg_elbo: host(loss)[0], logits: host(logits), gradients, averages }
}

/// Every case of a network whose name has `group` in it.
fn assert_golden(network: &'static str, group: &str) {
    let golden = read("network_outputs.json");
    for (name, case) in cases(network).into_iter().filter(|(name, _)| name.contains(group)) {
        let (found, expected): (_, Outcome) = (outcome(&case), serde_json::from_value(golden[&name].clone()).unwrap());
        assert_close(&format!("{name}: NLL"), &[found.nll], &[expected.nll], 1e-5);
        assert_close(&format!("{name}: −ELBO"), &[found.neg_elbo], &[expected.neg_elbo], 1e-5);
        assert_close(&format!("{name}: logits"), &found.logits, &expected.logits, 1e-5);
        assert_same_paths(&name, &found.averages, &expected.averages);
        for (path, expected) in &expected.averages {
            assert_close(&format!("{name}: {path}"), &found.averages[path], expected, 1e-5);
        }
        assert_gradients(&name, &found.gradients, &expected.gradients);
    }
}

fn assert_same_paths(name: &str, found: &ByPath, expected: &ByPath) {
    assert!(found.keys().eq(expected.keys()), "{name}: {:?}, expected {:?}", found.keys(), expected.keys());
}

/// Every element within 2e-5 of the largest of its tensor. A tensor that hardly matters counts as a tenth of the one
/// that matters most: it is a sum of large numbers that cancel, such as a bias before batch norm, whose gradient is 0.
fn assert_gradients(name: &str, found: &ByPath, expected: &ByPath) {
    assert_same_paths(name, found, expected);
    let largest = |values: &[f64]| values.iter().fold(0.0, |m: f64, value| m.max(value.abs()));
    let of_all = expected.values().map(|values| largest(values)).fold(0.0, f64::max);
    for (path, expected) in expected {
        assert_eq!(found[path].len(), expected.len(), "{name}: {path}");
        let tolerance = 2e-5 * largest(expected).max(0.1 * of_all);
        for (i, (found, expected)) in found[path].iter().zip(expected).enumerate() {
            let error = (found - expected).abs();
            assert!(error <= tolerance, "{name}: gradient of {path}[{i}] is {found}, expected {expected}");
        }
    }
}

#[test]
fn the_golden_inputs_of_networks_are_those_that_passes_have_today() {
    let inputs = Inputs {
        networks: NETWORKS.map(|name| (name, network_inputs(name))).into(),
        cases: NETWORKS.into_iter().flat_map(cases).collect(),
    };
    if std::env::var_os("KTIED_GOLDEN_EXPORT").is_some() {
        // A line for each tensor, so that differences can be read.
        let text = serde_json::to_string(&inputs).unwrap().replace("]],\"", "]],\n\"");
        fs::write(path("network_inputs.json"), text + "\n").unwrap();
    }
    assert_same("network_inputs.json", &serde_json::to_value(inputs).unwrap(), &read("network_inputs.json"));
}

#[test]
fn lenet_equals_an_independent_implementation() {
    assert_golden("lenet-5", "");
    assert_golden("lenet-3", "");
}

#[test]
fn the_lstm_classifier_equals_an_independent_implementation() {
    assert_golden("lstm", "");
}

#[test]
fn resnet18_equals_an_independent_implementation_in_training() {
    assert_golden("resnet18", "training");
}

#[test]
fn resnet18_equals_an_independent_implementation_with_running_averages() {
    assert_golden("resnet18", "evaluation");
}

#[test]
fn resnet18_equals_an_independent_implementation_with_frozen_norms() {
    assert_golden("resnet18", "frozen");
}
