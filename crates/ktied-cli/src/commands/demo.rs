//! `ktied demo`: a small network on the embedded digits.

use std::time::Instant;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use indicatif::{ProgressBar, ProgressStyle};
use ktied::data::digits::{Digits, Examples};
use ktied::data::shuffle::permutation;
use ktied::ops;
use ktied::train::AdamConfig;
use ktied_kernels::activation::Activation;
use ktied_kernels::{NoiseKey, Purpose, ShapeError, noise};
use serde::Serialize;

use crate::args::{Args, Demo};
use crate::exit::Failure;
use crate::table::{Table, print_json, print_line};

const SIZES: [usize; 4] = [64, 64, 64, 10];
const BATCH: usize = 256;
const LEARNING_RATE: f64 = 3e-3;

/// Three dense layers with rectifiers between them; every weight is one number, not yet a distribution.
#[derive(Debug, Module)]
struct Mlp {
    weights: Vec<Param<Tensor<2>>>,
    biases: Vec<Param<Tensor<1>>>,
}

impl Mlp {
    /// Weights N(0, 2/fan-in), biases zero.
    fn new(key: NoiseKey, device: &Device) -> Self {
        let layers = SIZES.windows(2).zip(0..);
        let weights = layers.map(|(size, layer)| {
            let mut values = vec![0.0; size[0] * size[1]];
            noise::normals(key.child(Purpose::Init).at(0, layer), 0, &mut values);
            values.iter_mut().for_each(|w| *w *= (2.0 / size[0] as f32).sqrt());
            Param::from_tensor(Tensor::from_data(TensorData::new(values, [size[0], size[1]]), device))
        });
        let biases = SIZES[1..].iter().map(|&size| Param::from_tensor(Tensor::zeros([size], device)));
        Self { weights: weights.collect(), biases: biases.collect() }
    }

    /// # Shapes
    /// - x: `[B, 64]`; output: `[B, 10]`
    fn forward(&self, x: Tensor<2>) -> Result<Tensor<2>, ShapeError> {
        let last = self.weights.len() - 1;
        let layers = self.weights.iter().zip(&self.biases).enumerate();
        layers.into_iter().try_fold(x, |x, (i, (weight, bias))| {
            let activation = if i == last { Activation::Identity } else { Activation::Relu };
            ops::dense(x, weight.val(), Some(bias.val()), activation)
        })
    }
}

/// How well the network does on some images.
#[derive(Debug, Serialize)]
struct Score {
    images: usize,
    accuracy: f64,
    nll: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    model: &'static str,
    posterior: &'static str,
    parameters: usize,
    seed: u64,
    epochs: u32,
    steps: u64,
    train: Score,
    test: Score,
    seconds: f64,
}

pub(crate) fn run(demo: &Demo, args: &Args) -> Result<(), Failure> {
    let begin = Instant::now();
    let (train, test) = Digits::embedded()?.split();
    let device = Device::flex().autodiff();
    let (model, steps) = fit(Mlp::new(NoiseKey::new(demo.seed), &device), &train, demo, args)?;
    let report = Report {
        model: "mlp 64-64-64-10",
        posterior: "point",
        parameters: model.num_params(),
        seed: demo.seed,
        epochs: demo.epochs,
        steps,
        train: score(&model, &train)?,
        test: score(&model, &test)?,
        seconds: begin.elapsed().as_secs_f64(),
    };
    if args.json { print_json(&report) } else { print(&report) }
}

/// Adam over shuffled batches, the last, smaller one included.
fn fit(mut model: Mlp, train: &Examples, demo: &Demo, args: &Args) -> Result<(Mlp, u64), Failure> {
    let key = NoiseKey::new(demo.seed).child(Purpose::Shuffle);
    let mut optimizer = AdamConfig::new().init();
    let bar = progress(args, demo.epochs.into());
    let mut step = 0;
    for epoch in 0..demo.epochs {
        let order = permutation(train.labels.len(), key.at(epoch.into(), 0));
        for rows in order.chunks(BATCH) {
            let (x, labels) = batch(train, rows);
            let loss = ops::softmax_cross_entropy(model.forward(x)?, &labels)?.mean();
            let value = loss.to_data().iter::<f32>().next().unwrap_or(f32::NAN);
            step += 1;
            if !value.is_finite() {
                return Err(Failure::Diverged { step, loss: value });
            }
            bar.set_message(format!("loss {value:.4}"));
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(LEARNING_RATE, model, grads);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((model, step))
}

fn progress(args: &Args, epochs: u64) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{bar:30} epoch {pos}/{len}  {msg}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(epochs).with_style(style)
}

/// Inputs `[rows, 64]` and labels of the chosen examples.
fn batch(examples: &Examples, rows: &[usize]) -> (Tensor<2>, Vec<u32>) {
    let pixels = SIZES[0];
    let values = rows.iter().flat_map(|row| &examples.inputs[row * pixels..(row + 1) * pixels]).copied();
    let data = TensorData::new(values.collect::<Vec<f32>>(), [rows.len(), pixels]);
    let labels = rows.iter().map(|&row| examples.labels[row].into());
    (Tensor::from_data(data, &Device::flex()), labels.collect())
}

fn score(model: &Mlp, examples: &Examples) -> Result<Score, Failure> {
    let (x, labels) = batch(examples, &(0..examples.labels.len()).collect::<Vec<_>>());
    let logits = model.forward(x)?;
    let predicted = logits.clone().argmax(1).into_data();
    let correct = predicted.iter::<i64>().zip(&labels).filter(|(p, l)| *p == i64::from(**l)).count();
    let losses = ops::softmax_cross_entropy(logits, &labels)?.into_data();
    let nll = losses.iter::<f64>().sum::<f64>() / labels.len() as f64;
    Ok(Score { images: labels.len(), accuracy: correct as f64 / labels.len() as f64, nll })
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["digits", "images", "accuracy", "NLL"]);
    for (name, score) in [("training", &report.train), ("test", &report.test)] {
        let accuracy = format!("{:.1} %", 100.0 * score.accuracy);
        table.row(vec![name.into(), score.images.to_string(), accuracy, format!("{:.4}", score.nll)]);
    }
    table.print()?;
    print_line("")?;
    print_line(&format!(
        "An ordinary network ({}, {} parameters) trained for {} steps, seed {}, in {:.1} s.",
        report.model, report.parameters, report.steps, report.seed, report.seconds
    ))?;
    print_line("It has no uncertainty yet: that comes with the posteriors.")
}
