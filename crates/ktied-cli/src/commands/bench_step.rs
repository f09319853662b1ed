//! `ktied bench step`: milliseconds of one training step on made-up data, the work of a real one without its files.

use std::time::Instant;

use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use ktied::config::{Config, Preset};
use ktied::models::{Features, ModelSpec, Network};
use ktied::nn::Pass;
use ktied::objective::{Elbo, Likelihood, LikelihoodKind, Observed};
use ktied::train::{AdamConfig, Model, grad_norm};
use ktied_kernels::{NoiseKey, Purpose, noise};
use serde::Serialize;

use crate::args::{Args, BenchModel, BenchStep};
use crate::exit::Failure;
use crate::table::{print_json, print_line};

/// Steps that warm up allocator and caches, and are not counted.
const WARM_UP: u64 = 3;
/// N of KL/N, and what else the peer that this is compared with has.
const NUM_TRAIN: usize = 50_000;
const PRIOR_SCALE: f64 = 0.3;
const LEARNING_RATE: f64 = 1e-4;
/// Words of a sequence.
const LENGTH: usize = 80;

#[derive(Debug, Serialize)]
struct Report {
    engine: String,
    model: &'static str,
    posterior: String,
    estimator: String,
    batch: usize,
    threads: usize,
    steps: u64,
    median_ms: f64,
    min_ms: f64,
    loss: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_rss_mb: Option<u64>,
}

pub(crate) fn run(bench: &BenchStep, args: &Args) -> Result<(), Failure> {
    let config = config(bench)?;
    config.check()?;
    let (times, loss) = measure(bench, &config)?;
    let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
    let report = Report {
        engine: concat!("ktied ", env!("CARGO_PKG_VERSION")).into(),
        model: config.model.name(),
        posterior: bench.posterior.to_string(),
        estimator: bench.estimator.to_string(),
        batch: config.train.batch,
        threads: rayon::current_num_threads(),
        steps: bench.steps,
        median_ms: rounded(median),
        min_ms: rounded(times.first().copied().unwrap_or(f64::NAN)),
        loss,
        peak_rss_mb: peak_rss_mb(),
    };
    if args.json {
        return print_json(&report);
    }
    print_line(&format!(
        "{} {} {}, batch {}, {} threads: median {} ms, least {} ms over {} steps (loss {:.4})",
        report.model,
        report.posterior,
        report.estimator,
        report.batch,
        report.threads,
        report.median_ms,
        report.min_ms,
        report.steps,
        report.loss
    ))
}

fn config(bench: &BenchStep) -> Result<Config, Failure> {
    let preset = match bench.model {
        BenchModel::Mlp => Preset::MlpMnist,
        BenchModel::Lenet => Preset::LeNetCifar100,
        BenchModel::Lstm => Preset::LstmImdb,
        BenchModel::Resnet18 => Preset::ResNet18Cifar10,
    };
    let mut config = preset.config();
    (config.posterior.kind, config.estimator.kind, config.prior.scale) =
        (bench.posterior, bench.estimator, PRIOR_SCALE);
    config.train.batch = bench.batch.unwrap_or(config.train.batch);
    match &mut config.model {
        _ if bench.sizes.is_empty() => {}
        ModelSpec::Mlp(spec) => spec.sizes.clone_from(&bench.sizes),
        other => return Err(Failure::Usage(format!("--sizes are those of the model mlp, not of {}", other.name()))),
    }
    Ok(config)
}

/// Milliseconds of each step, sorted, and the last loss.
fn measure(bench: &BenchStep, config: &Config) -> Result<(Vec<f64>, f64), Failure> {
    let device = Device::flex().autodiff();
    let network = config.model.init(&config.network(), &device)?;
    let kind = if config.model.outputs() == 1 { LikelihoodKind::Bernoulli } else { LikelihoodKind::Softmax };
    let likelihood = Likelihood::new(kind, config.model.outputs(), 1.0, &device)?;
    let mut model = Model { network, likelihood };
    let (features, observed) = batch(&config.model, config.train.batch);
    let (elbo, mut adam) = (Elbo::new(NUM_TRAIN)?, AdamConfig::new().init());
    let (mut times, mut loss) = (Vec::new(), f64::NAN);
    for step in 0..WARM_UP + bench.steps {
        let begin = Instant::now();
        let pass = Pass::sampled(0, step, config.estimator.kind);
        let (_, nll) = model.nll(features.clone(), &observed, &pass)?;
        let value = elbo.loss(nll.mean(), model.network.kl()?, 1.0);
        loss = value.to_data().iter::<f64>().next().unwrap_or(f64::NAN);
        let grads = GradientsParams::from_grads(value.backward(), &model);
        if !grad_norm(&model, &grads).is_finite() {
            return Err(ktied::Error::NonFinite { step, what: "gradient" }.into());
        }
        model = adam.step(LEARNING_RATE, model, grads);
        if config.posterior.cap.is_some() {
            model.network = model.network.clipped();
        }
        if step >= WARM_UP {
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok((times, loss))
}

/// Standard normal inputs or random words, and random classes.
pub(super) fn batch(model: &ModelSpec, rows: usize) -> (Features, Observed) {
    let device = Device::flex();
    let key = NoiseKey::new(0).child(Purpose::Synthetic);
    let below = |count: usize, bound: usize, stream: u64| {
        let mut words = vec![0; count];
        noise::random_words(key.fold(stream), 0, &mut words);
        words.into_iter().map(|word| (u64::from(word) * bound as u64) >> 32).collect::<Vec<u64>>()
    };
    let (width, classes) = match model {
        ModelSpec::Mlp(spec) => (spec.sizes.first().copied().unwrap_or(0), model.outputs()),
        ModelSpec::LeNet(spec) => (spec.side * spec.side * spec.channels, spec.classes),
        ModelSpec::ResNet18(spec) => (spec.side * spec.side * spec.channels, spec.classes),
        ModelSpec::Lstm(_) => (LENGTH, 2),
    };
    let features = match model {
        ModelSpec::Lstm(spec) => {
            let ids = below(rows * width, spec.vocabulary, 1).into_iter().map(|id| id as i32).collect::<Vec<_>>();
            Features::Words(Tensor::<2, Int>::from_data(TensorData::new(ids, [rows, width]), &device))
        }
        _ => {
            let mut values = vec![0.0; rows * width];
            noise::normals(key.fold(2), 0, &mut values);
            Features::Rows(Tensor::from_data(TensorData::new(values, [rows, width]), &device))
        }
    };
    (features, Observed::Classes(below(rows, classes, 3).into_iter().map(|class| class as u32).collect()))
}

pub(super) fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 100.0).round() / 100.0
}

/// The most memory that this process has held, where the system says so.
pub(super) fn peak_rss_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}
