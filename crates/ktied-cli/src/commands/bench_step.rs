//! `ktied bench step`: milliseconds of one training step on made-up data, the work of a real one without its files.

use std::time::Instant;

use burn::optim::GradientsParams;
use burn::tensor::Device;
use ktied::config::{Config, Preset};
use ktied::models::{ModelSpec, Network};
use ktied::nn::Pass;
use ktied::objective::{Elbo, Likelihood, LikelihoodKind};
use ktied::train::{AdamConfig, Model, grad_norm};
use ktied_kernels::Awake;
use serde::Serialize;

use super::made_up;
use crate::args::{Args, BenchModel, BenchStep};
use crate::exit::Failure;
use crate::table::{print_json, print_line};

/// Steps that warm up allocator and caches, and are not counted.
const WARM_UP: u64 = 3;
/// N of KL/N, and what else the peer that this is compared with has.
const NUM_TRAIN: usize = 50_000;
const PRIOR_SCALE: f64 = 0.3;
const LEARNING_RATE: f64 = 1e-4;

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
    let mut config = preset(bench.model).config();
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

/// Whose settings a model has.
pub(super) fn preset(model: BenchModel) -> Preset {
    match model {
        BenchModel::Mlp => Preset::MlpMnist,
        BenchModel::Lenet => Preset::LeNetCifar100,
        BenchModel::Lstm => Preset::LstmImdb,
        BenchModel::Resnet18 => Preset::ResNet18Cifar10,
    }
}

/// Milliseconds of each step, sorted.
pub(super) fn times(bench: &BenchStep) -> Result<Vec<f64>, Failure> {
    let config = config(bench)?;
    config.check()?;
    Ok(measure(bench, &config)?.0)
}

/// Milliseconds of each step, sorted, and the last loss.
fn measure(bench: &BenchStep, config: &Config) -> Result<(Vec<f64>, f64), Failure> {
    let device = Device::flex().autodiff();
    let network = config.model.init(&config.network(), &device)?;
    let kind = if config.model.outputs() == 1 { LikelihoodKind::Bernoulli } else { LikelihoodKind::Softmax };
    let likelihood = Likelihood::new(kind, config.model.outputs(), 1.0, &device)?;
    let mut model = Model { network, likelihood };
    let (features, observed) = made_up::batch(&config.model, config.train.batch)?;
    let (elbo, mut adam) = (Elbo::new(NUM_TRAIN)?, AdamConfig::new().init());
    let (mut times, mut loss) = (Vec::new(), f64::NAN);
    for step in 0..WARM_UP + bench.steps {
        let begin = Instant::now();
        let _awake = Awake::begin();
        let pass = Pass::sampled(0, step, config.estimator.kind);
        let (_, nll) = model.nll(features.clone(), &observed, &pass)?;
        let nll = nll.mean();
        let value = nll.to_data().iter::<f64>().next().unwrap_or(f64::NAN);
        let mut grads = GradientsParams::from_grads(nll.backward(), &model);
        let kl = model.network.add_kl_gradients(elbo.weight_of_kl(1.0), &mut grads)?;
        loss = elbo.terms(value, kl).neg_elbo();
        if !grad_norm(&model, &grads).is_finite() {
            return Err(ktied::Error::NonFinite { step, what: "gradient".into() }.into());
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

pub(super) fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 100.0).round() / 100.0
}

/// The most memory that this process has held, where the system says so.
pub(super) fn peak_rss_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}
