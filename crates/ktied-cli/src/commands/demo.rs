//! `ktied demo`: one small network under several posteriors, on the embedded digits.

use std::time::Instant;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use indicatif::{ProgressBar, ProgressStyle};
use ktied::data::digits::{Digits, Examples};
use ktied::data::shuffle::permutation;
use ktied::evaluate::predict_classes;
use ktied::models::{Mlp, MlpSpec, Network, NetworkConfig, PosteriorSpec};
use ktied::nn::{Estimator, Pass};
use ktied::objective::Elbo;
use ktied::ops;
use ktied::posterior::PosteriorKind;
use ktied::prior::PriorRule;
use ktied::train::AdamConfig;
use ktied_kernels::{NoiseKey, Purpose};
use serde::Serialize;

use crate::args::{Args, Demo};
use crate::exit::Failure;
use crate::table::{Table, print_json, print_line};

const SIZES: [usize; 4] = [64, 64, 64, 10];
const BATCH: usize = 256;
const LEARNING_RATE: f64 = 3e-3;
const PRIOR_SCALE: f64 = 0.3;
const NUM_DRAWS: u64 = 100;
const POSTERIORS: [PosteriorKind; 5] = [
    PosteriorKind::Point,
    PosteriorKind::MeanField,
    PosteriorKind::KTied { rank: 1 },
    PosteriorKind::KTied { rank: 2 },
    PosteriorKind::KTied { rank: 3 },
];

/// One network.
#[derive(Debug, Serialize)]
struct Row {
    posterior: String,
    parameters: usize,
    /// Absent for a point, which has no divergence.
    #[serde(skip_serializing_if = "Option::is_none")]
    neg_elbo: Option<f64>,
    kl_per_example: f64,
    nll: f64,
    accuracy: f64,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    model: &'static str,
    estimator: String,
    seed: u64,
    steps: u64,
    samples: u64,
    test_images: usize,
    networks: Vec<Row>,
}

pub(crate) fn run(demo: &Demo, args: &Args) -> Result<(), Failure> {
    let (train, test) = Digits::embedded()?.split();
    let bar = progress(args, POSTERIORS.len() as u64 * demo.steps);
    let networks = POSTERIORS.into_iter().map(|kind| {
        bar.set_message(kind.to_string());
        network(kind, &train, &test, demo, &bar)
    });
    let networks = networks.collect::<Result<Vec<_>, _>>()?;
    bar.finish_and_clear();
    let report = Report {
        model: "mlp 64-64-64-10",
        estimator: Estimator::Local.to_string(),
        seed: demo.seed,
        steps: demo.steps,
        samples: NUM_DRAWS,
        test_images: test.labels.len(),
        networks,
    };
    if args.json { print_json(&report) } else { print(&report) }
}

fn progress(args: &Args, steps: u64) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}  {eta} left");
    ProgressBar::new(steps).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

/// Trains one network and judges it on the test images.
fn network(
    kind: PosteriorKind,
    train: &Examples,
    test: &Examples,
    demo: &Demo,
    bar: &ProgressBar,
) -> Result<Row, Failure> {
    let begin = Instant::now();
    let posterior = PosteriorSpec::new(kind);
    let prior = PriorRule::Normal { scale: PRIOR_SCALE };
    let config = NetworkConfig { prior, seed: demo.seed, ..NetworkConfig::new(posterior) };
    let model = MlpSpec { sizes: SIZES.into() }.init(&config, &Device::flex().autodiff())?;
    let elbo = Elbo::new(train.labels.len())?;
    let model = fit(model, train, &elbo, demo, bar)?;
    let (x, labels) = batch(test, &(0..test.labels.len()).collect::<Vec<_>>());
    let num_draws = if kind == PosteriorKind::Point { 1 } else { NUM_DRAWS };
    let scores =
        predict_classes(&labels, num_draws, |draw| model.forward(x.clone(), &Pass::prediction(demo.seed, draw)))?;
    let kl = model.kl()?.into_data().iter::<f64>().next().unwrap_or(f64::NAN);
    let terms = elbo.terms(scores.nll_of_draws, kl);
    Ok(Row {
        posterior: kind.to_string(),
        parameters: model.num_params(),
        neg_elbo: (kind != PosteriorKind::Point).then(|| terms.neg_elbo()),
        kl_per_example: terms.kl_per_example,
        nll: scores.nll,
        accuracy: scores.accuracy,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Adam over shuffled batches, the last, smaller one of an epoch included.
fn fit(mut model: Mlp, train: &Examples, elbo: &Elbo, demo: &Demo, bar: &ProgressBar) -> Result<Mlp, Failure> {
    let key = NoiseKey::new(demo.seed).child(Purpose::Shuffle);
    let mut optimizer = AdamConfig::new().init();
    let (mut step, mut epoch) = (0, 0);
    while step < demo.steps {
        let order = permutation(train.labels.len(), key.at(epoch, 0));
        for rows in order.chunks(BATCH).take((demo.steps - step) as usize) {
            let (x, labels) = batch(train, rows);
            let pass = Pass::sampled(demo.seed, step, Estimator::Local);
            let nll = ops::softmax_cross_entropy(model.forward(x, &pass)?, &labels)?.mean();
            let loss = elbo.loss(nll, model.kl()?, 1.0);
            let value = loss.to_data().iter::<f32>().next().unwrap_or(f32::NAN);
            if !value.is_finite() {
                return Err(Failure::Diverged { step, loss: value });
            }
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(LEARNING_RATE, model, grads);
            step += 1;
            bar.inc(1);
        }
        epoch += 1;
    }
    Ok(model)
}

/// Inputs `[rows, 64]` and labels of the chosen examples.
fn batch(examples: &Examples, rows: &[usize]) -> (Tensor<2>, Vec<u32>) {
    let pixels = SIZES[0];
    let values = rows.iter().flat_map(|row| &examples.inputs[row * pixels..(row + 1) * pixels]).copied();
    let data = TensorData::new(values.collect::<Vec<f32>>(), [rows.len(), pixels]);
    let labels = rows.iter().map(|&row| examples.labels[row].into());
    (Tensor::from_data(data, &Device::flex()), labels.collect())
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["posterior", "parameters", "−ELBO", "KL/N", "NLL", "accuracy", "seconds"]);
    for row in &report.networks {
        table.row(vec![
            row.posterior.clone(),
            row.parameters.to_string(),
            row.neg_elbo.map_or("–".into(), |value| format!("{value:.3}")),
            format!("{:.3}", row.kl_per_example),
            format!("{:.3}", row.nll),
            format!("{:.1} %", 100.0 * row.accuracy),
            format!("{:.1}", row.seconds),
        ]);
    }
    table.print()?;
    print_line("")?;
    print_line(&format!(
        "One network ({}) under five posteriors: {} steps each on 1,400 handwritten digits, seed {},",
        report.model, report.steps, report.seed
    ))?;
    print_line(&format!(
        "judged on {} others by the average prediction of {} draws. Lower is better for −ELBO and NLL.",
        report.test_images, report.samples
    ))?;
    print_line(
        "A k-tied network stores the uncertainty of every weight at nearly the parameters of the point estimate.",
    )
}
