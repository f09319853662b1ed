//! Numbers that are not finite, put into every place from which they could spread: the step is left out or the run stops, as the
//! policy says, the parameters stay as they were, and the tensor and the step are named.

use std::sync::atomic::AtomicBool;

use ktied::Error;
use ktied::checkpoint::{Checkpoint, NamedTensor, NamedTensors};
use ktied::config::{Config, Preset};
use ktied::data::{Batches, DataSet, Inputs, Targets};
use ktied::train::{Run, StepReport, Trainer, Writer, fit};

use crate::support::{Folder, config, problems};

/// A network and data, and what is put where.
struct Injection {
    name: &'static str,
    config: Config,
    data: DataSet,
    /// Every number of the tensors whose path ends so is replaced by this.
    weights: Option<(&'static str, f32)>,
    /// What is named.
    named: &'static str,
}

fn fill(data: &mut DataSet, x: Option<f32>, y: Option<f32>) {
    if let (Inputs::Floats { data, .. }, Some(x)) = (&mut data.train.inputs, x) {
        data.fill(x);
    }
    if let (Targets::Values { data, .. }, Some(y)) = (&mut data.train.targets, y) {
        data.fill(y);
    }
}

fn injections() -> Vec<Injection> {
    let mlp = || config(Preset::MlpMnist, &[("model.sizes", "6,5,3"), ("optim.clip", "none")]);
    let regression = |noise: &str| {
        let settings = [
            ("model.sizes", "6,1"),
            ("posterior.kind", "point"),
            ("posterior.init_means", "1e-9"),
            ("likelihood.kind", "gaussian-fixed"),
            ("likelihood.noise", noise),
            ("optim.clip", "none"),
        ];
        config(Preset::MlpMnist, &settings)
    };
    let data = |number: usize, x: Option<f32>, y: Option<f32>| {
        let mut data = problems().remove(number).1;
        fill(&mut data, x, y);
        data
    };
    let case = |name, config, data, weights, named| Injection { name, config, data, weights, named };
    let (classes, values) = (0, 1);
    vec![
        case("NaN in the input", mlp(), data(classes, Some(f32::NAN), None), None, "input"),
        case("infinity in the input", mlp(), data(classes, Some(f32::INFINITY), None), None, "input"),
        case("an activation that overflows", mlp(), data(classes, Some(3e38), None), None, "network's output"),
        case(
            "NaN in a parameter",
            mlp(),
            data(classes, None, None),
            Some(("layers.1.weights.kernel.loc", f32::NAN)),
            "parameter `network.layers.1.weights.kernel.loc`",
        ),
        case(
            "a divergence that overflows",
            mlp(),
            data(classes, None, None),
            Some(("layers.1.weights.bias.loc", 3e25)),
            "divergence of the layer `dense_2`",
        ),
        case(
            "a likelihood that overflows",
            regression("1e-30"),
            data(values, Some(1.0), Some(0.5)),
            None,
            "negative log-likelihood",
        ),
        case(
            "a gradient that overflows",
            regression("3e-19"),
            data(values, Some(1e5), Some(0.5)),
            None,
            "gradient of `network.layers.0.weights.kernel.loc`",
        ),
        case(
            "a gradient whose square overflows",
            regression("1e-15"),
            data(values, Some(1.0), Some(0.5)),
            None,
            "square of the gradient of `network.layers.0.weights.kernel.loc`",
        ),
    ]
}

fn with_tensors(tensors: &NamedTensors, end: &str, value: f32) -> NamedTensors {
    let mut changed = NamedTensors::default();
    let mut hits = 0;
    for (path, tensor) in tensors.iter() {
        let tensor = match path.ends_with(end) {
            true => {
                hits += 1;
                let bytes = tensor.bytes().chunks_exact(4).flat_map(|_| value.to_le_bytes()).collect();
                NamedTensor::new(tensor.dtype(), tensor.shape().to_vec(), bytes).unwrap()
            }
            false => tensor.clone(),
        };
        changed.insert(path, tensor).unwrap();
    }
    assert_eq!(hits, 1, "{end}");
    changed
}

impl Injection {
    /// A run at its beginning, with what was put into it.
    fn trainer(&self, policy: &str) -> Trainer {
        let mut config = self.config.clone();
        config.train.non_finite = serde_json::from_value(policy.into()).unwrap();
        let trainer = Trainer::new(config, &self.data).unwrap();
        let Some((end, value)) = self.weights else { return trainer };
        let fresh = trainer.checkpoint().unwrap();
        let weights = with_tensors(fresh.weights(), end, value);
        let source = Checkpoint::new(fresh.header().clone(), weights, fresh.train_state().clone()).unwrap();
        trainer.with_weights_of(&source).unwrap()
    }

    fn step(&self, trainer: Trainer) -> Result<(Trainer, StepReport), Error> {
        let batches = Batches::new(&self.data.train, 8, 0);
        trainer.step(batches.from(0).next().unwrap().unwrap())
    }
}

/// The tensors as bytes: equal even where they are NaN.
fn digest(trainer: &Trainer) -> String {
    trainer.checkpoint().unwrap().digest().to_string()
}

#[test]
fn whatever_is_not_finite_is_named_and_changes_no_parameter() {
    for injection in injections() {
        let Injection { name, named, .. } = &injection;
        let error = injection.step(injection.trainer("stop")).unwrap_err();
        let sentence = format!(
            "training diverged: the {named} is not a finite number in step 1; try a smaller optim.lr or optim.clip"
        );
        assert_eq!(error.to_string(), sentence, "{name}");
        for (policy, halvings) in [("skip", 0), ("halve", 1)] {
            let trainer = injection.trainer(policy);
            let before = digest(&trainer);
            let (after, report) = injection.step(trainer).unwrap();
            assert_eq!(report.left_out.as_deref(), Some(*named), "{name}, {policy}");
            assert_eq!(digest(&after), before, "{name}, {policy}");
            assert_eq!((after.state().step, after.state().skipped), (1, 1), "{name}, {policy}");
            assert_eq!(after.state().halvings, halvings, "{name}, {policy}");
        }
    }
}

#[test]
fn averages_of_a_batch_that_is_not_finite_are_not_taken_in() {
    // Images are bytes; a kernel that overflows makes activations that are not finite.
    let (mut config, data) = problems().remove(4);
    config.train.non_finite = serde_json::from_value("skip".into()).unwrap();
    let trainer = Trainer::new(config.clone(), &data).unwrap();
    let fresh = trainer.checkpoint().unwrap();
    let loc = fresh.weights().iter().map(|(path, _)| path).find(|path| path.ends_with("kernel.loc")).unwrap();
    let weights = with_tensors(fresh.weights(), loc, 3e38);
    let source = Checkpoint::new(fresh.header().clone(), weights, fresh.train_state().clone()).unwrap();
    let trainer = trainer.with_weights_of(&source).unwrap();
    let before = digest(&trainer);
    let batch = Batches::new(&data.train, 8, 0).from(0).next().unwrap().unwrap();
    let (after, report) = trainer.step(batch).unwrap();
    assert!(report.left_out.is_some());
    assert_eq!(digest(&after), before, "{:?}", report.left_out);
}

#[test]
fn an_optimiser_s_state_that_is_not_finite_is_not_resumed() {
    let (config, data) = problems().remove(0);
    let checkpoint = Trainer::new(config.clone(), &data).unwrap().checkpoint().unwrap();
    for (end, value) in
        [("layers.0.weights.kernel.loc.moment_1", f32::NAN), ("layers.1.weights.bias.loc.moment_2", f32::INFINITY)]
    {
        let state = with_tensors(checkpoint.train_state(), end, value);
        let bad = Checkpoint::new(checkpoint.header().clone(), checkpoint.weights().clone(), state).unwrap();
        let sentence = Trainer::resume(config.clone(), &data, &bad).unwrap_err().to_string();
        let expected = format!(
            "the checkpoint of step 0 has a training state that cannot be read: a number of the tensor \
             `adam.network.{end}` is not finite"
        );
        assert_eq!(sentence, expected);
    }
}

/// With the first rate what follows an update overflows, with the second the update itself, which is not made then.
#[test]
fn the_last_good_checkpoint_is_kept_when_a_run_diverges() {
    assert!(diverge(1e19).contains("output"));
    assert!(diverge(1e39).contains("` after its update is not a finite number in step 1"));
}

/// Trains at a rate that is too large, and returns what was said.
fn diverge(lr: f64) -> String {
    let (mut config, data) = problems().remove(0);
    (config.optim.lr, config.optim.scale_lr, config.optim.clip) = (lr, Some(1e-3), None);
    (config.train.checkpoint_steps, config.train.keep) = (Some(1), 99);
    let folder = Folder::new(&format!("last-good-{lr}"));
    let writer = Writer::create(folder.path(), &config).unwrap();
    let trainer = Trainer::new(config.clone(), &data).unwrap();
    let first = trainer.checkpoint().unwrap();
    writer.save(&first, None, 99).unwrap();
    let error = fit(&writer, trainer, &data, &mut (), &AtomicBool::new(false)).unwrap_err();
    let Error::NonFinite { step, .. } = &error else { panic!("{error}") };
    let (newest, skipped) = Run::open(folder.path()).unwrap().newest().unwrap();
    assert!(skipped.is_empty());
    assert_eq!(newest.header().step, step - 1, "{error}");
    assert_eq!(newest.not_finite(), None);
    Trainer::resume(config, &data, &newest).unwrap();
    error.to_string()
}

#[test]
fn a_validation_that_is_no_number_is_never_the_best() {
    let (config, data) = problems().remove(0);
    let mut trainer = Trainer::new(config, &data).unwrap();
    assert!(!trainer.note_validation(f64::NAN));
    assert!(!trainer.note_validation(f64::INFINITY));
    assert!(trainer.note_validation(2.0));
    assert!(!trainer.note_validation(f64::NAN));
    assert!(trainer.note_validation(1.0));
    assert_eq!(trainer.state().best.unwrap().neg_elbo, 1.0);
}
