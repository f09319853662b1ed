//! In burn's own training loop: the step is the model's own under a draw, plus the divergence, and goes on after a resume.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::{Module, Param};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor};
use burn::train::checkpoint::KeepLastNCheckpoints;
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::LossMetric;
use burn::train::{InferenceStep, Learner, RegressionOutput, SupervisedTraining, TrainOutput, TrainStep};
use ktied::convert::{Bayesian, Learning};
use ktied::nn::{Estimator, Pass};

use crate::support::{autodiff, converted, host, normals};

const EXAMPLES: usize = 12;

#[derive(Debug, Module)]
struct Fit {
    weight: Param<Tensor<2>>,
}

impl Fit {
    fn new() -> Self {
        Self { weight: Param::from_tensor(normals([3, 2], 1, &autodiff())) }
    }

    fn fit(&self, x: Tensor<2>) -> RegressionOutput {
        let (output, targets) = (x.clone().matmul(self.weight.val()), x.narrow(1, 0, 2));
        RegressionOutput::new((output.clone() - targets.clone()).square().mean(), output, targets)
    }
}

impl TrainStep for Fit {
    type Input = Tensor<2>;
    type Output = RegressionOutput;

    fn step(&self, x: Tensor<2>) -> TrainOutput<RegressionOutput> {
        let item = self.fit(x);
        TrainOutput::new(self, item.loss.backward(), item)
    }
}

impl InferenceStep for Fit {
    type Input = Tensor<2>;
    type Output = RegressionOutput;

    fn step(&self, x: Tensor<2>) -> RegressionOutput {
        self.fit(x)
    }
}

struct Rows;

impl Batcher<[f32; 3], Tensor<2>> for Rows {
    fn batch(&self, items: Vec<[f32; 3]>, device: &Device) -> Tensor<2> {
        Tensor::<1>::from_floats(&items.concat()[..], device).reshape([items.len(), 3])
    }
}

fn loader() -> Arc<dyn DataLoader<Tensor<2>>> {
    let rows = host(normals([EXAMPLES, 3], 2, &Device::flex()));
    let rows = rows.chunks(3).map(|row| std::array::from_fn(|i| row[i] as f32)).collect();
    DataLoaderBuilder::new(Rows).batch_size(4).build(InMemDataset::new(rows))
}

fn learning() -> Learning<Fit> {
    Learning::new(converted(Fit::new(), "k-tied:2"), EXAMPLES, 5).unwrap()
}

/// Gradients of all parameters of a model, by the order of their visit.
fn all(model: &Bayesian<Fit>, grads: &GradientsParams) -> Vec<Vec<f64>> {
    struct Visit<'a>(&'a GradientsParams, Vec<Vec<f64>>);
    impl burn::module::ModuleVisitor for Visit<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.push(self.0.get::<D>(param.id).map(host).unwrap_or_default());
        }
    }
    let mut visit = Visit(grads, vec![]);
    model.visit(&mut visit);
    visit.1
}

#[test]
fn a_step_has_the_gradient_of_the_negative_elbo() {
    let (model, x) = (learning(), normals([4, 3], 3, &autodiff()));
    let found = TrainStep::step(&model, x.clone());
    let bayesian = model.bayesian();
    let pass = Pass::sampled(5, 0, Estimator::Reparam);
    let nll = bayesian.run(&pass, |fit| fit.fit(x.clone()).loss).unwrap();
    let loss = nll + bayesian.kl().unwrap() / EXAMPLES as f64;
    let expected = GradientsParams::from_grads(loss.backward(), bayesian);
    let [found_grads, expected] = [&found.grads, &expected].map(|grads| all(bayesian, grads));
    assert_eq!(found_grads.len(), 3);
    for (found, expected) in found_grads.iter().flatten().zip(expected.iter().flatten()) {
        assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} {expected}");
    }
    assert!(found_grads.iter().all(|grads| !grads.is_empty()));
    // Validation is at the means.
    let valid = InferenceStep::step(&model.valid(), normals([4, 3], 3, &Device::flex())).output;
    let mean = bayesian.clone().into_point().unwrap().weight.val();
    let expected = host(normals([4, 3], 3, &autodiff()).matmul(mean));
    assert!(host(valid).iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-6));
}

/// Trains to the end of an epoch, from the beginning or from a checkpoint.
fn train(folder: &Path, epochs: usize, from: Option<usize>) -> (u64, Vec<Vec<f64>>) {
    let training = SupervisedTraining::new(folder, loader(), loader())
        .num_epochs(epochs)
        .with_default_checkpointers()
        .with_checkpointing_strategy(KeepLastNCheckpoints::new(4))
        .with_metric_logger(InMemoryMetricLogger::new())
        .metric_train_numeric(LossMetric::new())
        .metric_valid_numeric(LossMetric::new())
        .with_application_logger(None);
    let training = match from {
        Some(epoch) => training.checkpoint(epoch),
        None => training,
    };
    let result = training.launch(Learner::new(learning(), AdamConfig::new().init(), 1e-2));
    let (steps, model) = (result.model.steps(), result.model.into_bayesian());
    (steps, model.moments("weight").unwrap().unwrap().map(host).to_vec())
}

#[test]
fn a_run_that_is_resumed_goes_on_with_the_draws_that_come_next() {
    let folder = |name: &str| -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("converted-{name}"));
        std::fs::remove_dir_all(&folder).ok();
        folder
    };
    let (whole, broken) = (folder("whole"), folder("broken"));
    let expected = train(&whole, 4, None);
    let half = train(&broken, 2, None);
    let resumed = train(&broken, 4, Some(2));
    assert_eq!((half.0, expected.0), (6, 12)); // three batches an epoch
    assert_ne!(half, expected);
    assert_eq!(resumed, expected);
}
