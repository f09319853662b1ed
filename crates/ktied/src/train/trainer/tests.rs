//! Numbers that are not finite, put into the optimiser's state in memory between two steps.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use ktied_kernels::adam::AdamStep;

use super::*;
use crate::checkpoint::path::{ModulePath, tracks_path};
use crate::config::{Preset, Tree};
use crate::data::{Inputs, Preprocessing, Targets, Units};
use crate::train::fit::{Log, save};
use crate::train::{Run, Writer, fit};

/// The parameter whose moments are touched: not the first, so that others would have been updated before it.
const PATH: &str = "network.layers.1.weights.kernel.loc";

fn config(policy: &str) -> Config {
    let mut tree = Tree::of(&Preset::MlpMnist.config());
    let settings = [
        ("model.sizes", "4,3,2"),
        ("posterior.kind", "k-tied:2"),
        ("train.batch", "8"),
        ("train.steps", "9"),
        ("train.checkpoint_steps", "1"),
        ("train.non_finite", policy),
        ("optim.lr", "1"),
        ("optim.scale_lr", "0.01"),
    ];
    settings.iter().for_each(|(key, value)| tree.set(key, value).unwrap());
    tree.config().unwrap()
}

fn data() -> DataSet {
    let split = |len: usize| Split {
        inputs: Inputs::Floats {
            data: (0..4 * len).map(|i| (i as f32).sin()).collect(),
            width: 4,
            units: Units::default(),
        },
        targets: Targets::Classes { labels: (0..len as u32).map(|i| i % 2).collect(), num_classes: 2 },
    };
    DataSet {
        name: "sines".into(),
        train: split(16),
        validation: split(0),
        test: split(0),
        class_names: Vec::new(),
        digest: "digest of sines".into(),
        preprocessing: Preprocessing::plain(4),
    }
}

/// A run after `steps` good steps.
fn trained(policy: &str, steps: u64) -> Trainer {
    let data = data();
    let mut trainer = Trainer::new(config(policy), &data).unwrap();
    while trainer.state.step < steps {
        trainer = step(trainer).unwrap().0;
    }
    trainer
}

fn step(trainer: Trainer) -> Result<(Trainer, StepReport)> {
    let data = data();
    let batch = Batches::new(&data.train, 8, 0).from(trainer.state.step).next().unwrap().unwrap();
    trainer.step(batch)
}

/// Finds a parameter by its path.
#[derive(Default)]
struct Find {
    path: ModulePath,
    id: Option<ParamId>,
}

impl ModuleVisitor for Find {
    tracks_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.path.joined() == PATH {
            self.id = Some(param.id);
        }
    }
}

fn id(trainer: &Trainer) -> ParamId {
    let mut find = Find::default();
    trainer.model.visit(&mut find);
    find.id.unwrap()
}

/// Puts a value into the last number of a moment; by stealth, what the optimiser knows of it is left as if it held.
fn inject(trainer: &mut Trainer, moment: usize, value: f32, by_stealth: bool) {
    let id = id(trainer);
    let mut moments = trainer.adam.moments(id).unwrap().clone();
    let mut numbers: Vec<f32> = moments.flat[moment].to_data().iter::<f32>().collect();
    *numbers.last_mut().unwrap() = value;
    moments.flat[moment] = Tensor::from_floats(numbers.as_slice(), &moments.flat[moment].device());
    moments.largest = moments.largest.filter(|_| by_stealth);
    trainer.adam.set_moments(id, moments);
}

fn digest(trainer: &Trainer) -> String {
    trainer.checkpoint().unwrap().digest().to_string()
}

fn bad_values() -> impl Iterator<Item = (usize, &'static str, f32)> {
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    [(0, "first"), (1, "second")].into_iter().flat_map(move |(moment, name)| values.map(|bad| (moment, name, bad)))
}

fn sentence(what: &str, step: u64) -> String {
    format!("training diverged: the {what} is not a finite number in step {step}; try a smaller optim.lr or optim.clip")
}

#[test]
fn a_moment_that_is_not_finite_is_named_and_reaches_no_parameter() {
    for (moment, name, bad) in bad_values() {
        let named = format!("optimiser's {name} moment of `{PATH}`");
        let mut trainer = trained("stop", 3);
        inject(&mut trainer, moment, bad, false);
        assert_eq!(step(trainer).unwrap_err().to_string(), sentence(&named, 4), "{bad}");
        for (policy, halvings) in [("skip", 0), ("halve", 1)] {
            let mut trainer = trained(policy, 3);
            inject(&mut trainer, moment, bad, false);
            let before = digest(&trainer);
            let (after, report) = step(trainer).unwrap();
            assert_eq!(report.left_out.as_deref(), Some(&*named), "{bad}, {policy}");
            assert_eq!(digest(&after), before, "{bad}, {policy}");
            let State { step, skipped, halvings: found, .. } = after.state;
            assert_eq!((step, skipped, found), (4, 1, halvings), "{bad}, {policy}");
        }
    }
}

/// A moment in memory never mends itself, so a run that leaves out such steps must end some time.
#[test]
fn steps_are_not_left_out_for_ever() {
    let mut trainer = trained("skip", 3);
    inject(&mut trainer, 1, f32::INFINITY, false);
    let error = loop {
        trainer = match step(trainer) {
            Ok((trainer, _)) => trainer,
            Err(error) => break error.to_string(),
        };
    };
    assert_eq!(error, sentence(&format!("optimiser's second moment of `{PATH}`"), 3 + MAX_SKIPS + 1));
}

/// The numbers are finite, but a gradient's mean is huge beside its squares, or a mean of squares has no root.
#[test]
fn an_update_that_would_not_be_finite_is_not_made() {
    for [first, second] in [[3e38, 0.0], [0.1, -1.0]] {
        let mut trainer = trained("skip", 3);
        inject(&mut trainer, 0, first, false);
        inject(&mut trainer, 1, second, false);
        let before = digest(&trainer);
        let (after, report) = step(trainer).unwrap();
        assert_eq!(report.left_out, Some(format!("parameter `{PATH}` after its update")));
        assert_eq!(digest(&after), before);
    }
}

/// What changes behind the optimiser's back is seen only after the update, and no policy goes on from there.
#[test]
fn a_moment_that_memory_lost_stops_the_run_in_that_step() {
    for (moment, name, bad) in bad_values() {
        for policy in ["stop", "skip", "halve"] {
            let mut trainer = trained(policy, 3);
            inject(&mut trainer, moment, bad, true);
            let error = step(trainer).unwrap_err().to_string();
            assert_eq!(error, sentence(&format!("optimiser's {name} moment of `{PATH}`"), 4), "{bad}, {policy}");
        }
    }
}

#[test]
fn the_last_good_checkpoint_is_kept_and_nothing_is_saved_over_it() {
    for by_stealth in [false, true] {
        let folder = Vanishing::new(&by_stealth.to_string());
        let (config, data) = (config("stop"), data());
        let writer = Writer::create(&folder.0, &config).unwrap();
        let mut trainer = trained("stop", 3);
        let good = trainer.checkpoint().unwrap();
        writer.save(&good, None, 2).unwrap();
        inject(&mut trainer, 0, f32::NAN, by_stealth);
        let error = fit(&writer, trainer, &data, &mut (), &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.to_string(), sentence(&format!("optimiser's first moment of `{PATH}`"), 4));
        let (newest, skipped) = Run::open(&folder.0).unwrap().newest().unwrap();
        assert!(skipped.is_empty() && newest.header().step == 3);
        assert_eq!(newest.digest(), good.digest());
        // And the run goes on from there.
        let resumed = Trainer::resume(config, &data, &newest).unwrap();
        fit(&writer, resumed, &data, &mut (), &AtomicBool::new(false)).unwrap();
    }
}

#[test]
fn a_state_that_is_not_finite_is_not_saved() {
    let folder = Vanishing::new("unsaved");
    let writer = Writer::create(&folder.0, &config("stop")).unwrap();
    let mut trainer = trained("stop", 3);
    inject(&mut trainer, 1, f32::NAN, true);
    let error = save(Some(&writer), &trainer, &mut Log::new(Some(writer.events(3).unwrap()))).unwrap_err();
    assert_eq!(error.to_string(), sentence(&format!("tensor `adam.{PATH}.moment_2`"), 3));
    assert!(Run::open(&folder.0).unwrap().newest_if_any().unwrap().0.is_none());
}

/// A look at every number in every step would be felt; after the first step none is needed.
#[test]
fn ordinary_steps_are_known_to_be_safe_without_a_look() {
    let trainer = trained("stop", 2);
    let largest = trainer.adam.moments(id(&trainer)).unwrap().largest.unwrap();
    let step = AdamStep { lr: 1.0, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8, step: 3 };
    assert!(largest.param > 0.0 && largest.moment_1 > 0.0 && largest.moment_2 > 0.0);
    assert!(largest.stays_finite(1e3, step));
}

/// A folder of a test's own, removed at the end.
struct Vanishing(PathBuf);

impl Vanishing {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("ktied-moments-{name}-{}", std::process::id())))
    }
}

impl Drop for Vanishing {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
