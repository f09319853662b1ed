//! What a run does besides its steps: chooses, logs, gives up, begins from another.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied::Error;
use ktied::checkpoint::{NamedTensor, module_tensors};
use ktied::config::Preset;
use ktied::data::{Batches, DataSet, Inputs, Targets};
use ktied::models::Network;
use ktied::nn::{Estimator, Pass};
use ktied::objective::Elbo;
use ktied::train::{AdamConfig, LearningRates, Model, Outcome, Run, Trainer, Writer};
use serde_json::Value;

use crate::support::{Folder, config, problems, train};

fn events(folder: &Folder) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_log_has_the_terms_apart_and_validation_at_full_weight() {
    let folder = Folder::new("log");
    let (mut config, data) = problems().remove(0);
    config.train.snr = true;
    config.train.log_every = 10;
    config.train.epochs = 4;
    let (trainer, _) = train(folder.path(), &config, &data);
    let events = events(&folder);
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).cloned().collect::<Vec<Value>>();
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
    let train = of("train");
    assert_eq!(train.iter().map(|event| event["step"].as_u64().unwrap()).collect::<Vec<_>>(), [10, 12]);
    for event in &train {
        let (nll, kl) = (number(event, "nll"), number(event, "kl"));
        assert!((number(event, "kl_per_example") - kl / 22.0).abs() < 1e-12);
        assert!((number(event, "neg_elbo") - (nll + kl / 22.0)).abs() < 1e-12);
        assert_eq!(number(event, "weight"), 0.0, "the paper's schedule begins with 100 steps at 0");
    }
    assert_eq!(train[0]["snr"].as_array().unwrap().len(), 2 * 3, "U and V … of two kernels, and two biases");
    let validations = of("validation");
    assert_eq!(validations.len(), 4);
    for event in &validations {
        let metrics = &event["metrics"];
        let neg_elbo = metrics["neg_elbo"]["value"].as_f64().unwrap();
        assert!(neg_elbo > number(metrics, "kl_per_example"), "the divergence has weight 1");
    }
    let best = trainer.state().best.unwrap();
    let least =
        validations.iter().map(|e| e["metrics"]["neg_elbo"]["value"].as_f64().unwrap()).fold(f64::MAX, f64::min);
    // To the last bit but one: serde_json rounds what it reads.
    assert!((best.neg_elbo - least).abs() <= 1e-15 * least, "{} {least}", best.neg_elbo);
    assert_eq!(of("scales")[0]["layers"].as_array().unwrap().len(), 2);
    assert_eq!(of("finished")[0]["reason"], "all-steps");
    let run = Run::open(folder.path()).unwrap();
    assert_eq!(run.best(), Some(best.step));
    assert_eq!(run.config().unwrap(), config);
    assert_eq!(run.newest().unwrap().0.header().step, 12);
}

#[test]
fn training_stops_when_validations_do_not_get_better_and_the_best_is_kept() {
    let folder = Folder::new("patience");
    let (mut config, data) = problems().remove(0);
    // A rate at which nothing gets better after the first epochs.
    (config.optim.lr, config.optim.scale_lr, config.optim.clip) = (0.5, Some(0.5), None);
    (config.train.epochs, config.train.patience, config.train.keep) = (200, Some(3), 1);
    config.train.checkpoint_every = 0;
    let (trainer, outcome) = train(folder.path(), &config, &data);
    assert_eq!(outcome, Outcome::OutOfPatience);
    let best = trainer.state().best.unwrap().step;
    assert_eq!(trainer.state().step, best + 3 * 3, "three validations of three steps after the best");
    let run = Run::open(folder.path()).unwrap();
    assert_eq!(run.best(), Some(best));
    assert_eq!(run.store().unwrap().steps().unwrap(), [best, trainer.state().step]);
}

/// Data with an input that no network survives.
fn poisoned() -> DataSet {
    let (_, mut data) = problems().remove(0);
    if let Inputs::Floats { data, .. } = &mut data.train.inputs {
        data[0] = f32::NAN;
    }
    data
}

#[test]
fn a_loss_that_is_not_finite_stops_or_is_left_out_as_the_policy_says() {
    let data = poisoned();
    let steps = |policy: &str, epochs: &str| -> Result<Trainer, Error> {
        let settings = [("model.sizes", "6,5,3"), ("train.non_finite", policy), ("train.epochs", epochs)];
        let config = config(Preset::MlpMnist, &settings);
        let mut trainer = Trainer::new(config.clone(), &data)?;
        for batch in Batches::new(&data.train, 8, 0).from(0).take(trainer.num_steps() as usize) {
            (trainer, _) = trainer.step(batch?)?;
        }
        Ok(trainer)
    };
    let sentence = steps("stop", "3").unwrap_err().to_string();
    assert!(sentence.starts_with("training diverged: the input is not a finite number in step "), "{sentence}");
    let skipped = steps("skip", "3").unwrap();
    // One batch of each epoch has the bad example.
    assert_eq!((skipped.state().skipped, skipped.state().halvings), (3, 0));
    let halved = steps("halve", "3").unwrap();
    assert_eq!((halved.state().skipped, halved.state().halvings), (3, 3));
    for trainer in [&skipped, &halved] {
        let kl = trainer.model().network.kl().unwrap().into_data().iter::<f64>().next().unwrap();
        assert!(kl.is_finite(), "no bad number got into the weights");
    }
}

#[test]
fn a_run_can_begin_with_the_weights_of_another() {
    let folder = Folder::new("source");
    let (config, data) = problems().remove(0);
    let mut point = config.clone();
    point.posterior.kind = "point".parse().unwrap();
    train(folder.path(), &point, &data);
    let source = Run::open(folder.path()).unwrap().newest().unwrap().0;
    let begun = Trainer::new(config.clone(), &data).unwrap().with_weights_of(&source).unwrap().checkpoint().unwrap();
    let fresh = Trainer::new(config, &data).unwrap().checkpoint().unwrap();
    let mut means = 0;
    for (path, tensor) in begun.weights().iter() {
        match path.ends_with(".loc") {
            true => assert_eq!(Some(tensor), source.weights().get(path), "{path}"),
            false => assert_eq!(Some(tensor), fresh.weights().get(path), "{path}"),
        }
        means += usize::from(path.ends_with(".loc"));
    }
    assert_eq!(means, 4);
    let (lenet, images) = problems().remove(2);
    let sentence = Trainer::new(lenet, &images).unwrap().with_weights_of(&source).unwrap_err().to_string();
    assert!(sentence.starts_with("the run to start from has no tensor `"), "{sentence}");
}

#[test]
fn a_folder_that_is_not_empty_is_refused_and_left_alone() {
    let folder = Folder::new("not-empty");
    std::fs::create_dir_all(folder.path()).unwrap();
    std::fs::write(folder.path().join("thesis.txt"), "years of work").unwrap();
    let (config, _) = problems().remove(0);
    let sentence = Writer::create(folder.path(), &config).unwrap_err().to_string();
    assert!(sentence.ends_with("is not empty: choose another folder, or go on with --resume"), "{sentence}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let sentence = Run::open(folder.path()).unwrap_err().to_string();
    assert!(sentence.ends_with("is not a run: it has no config.toml"), "{sentence}");
}

#[test]
fn learned_priors_move_and_are_kept() {
    let (config, data) = problems().remove(1);
    let folder = Folder::new("priors");
    let (trainer, _) = train(folder.path(), &config, &data);
    let scales =
        |trainer: &Trainer| trainer.model().network.weights().iter().map(|w| w.prior_scales()).collect::<Vec<_>>();
    let moved = scales(&trainer);
    assert!(moved.iter().flatten().all(|scale| (scale - 0.2).abs() > 1e-6), "{moved:?}");
    let newest = Run::open(folder.path()).unwrap().newest().unwrap().0;
    assert_eq!(scales(&Trainer::resume(config, &data, &newest).unwrap()), moved);
}

#[test]
fn runs_that_begin_at_the_same_time_in_one_new_folder_do_not_disturb_each_other() {
    let (config, _) = problems().remove(0);
    for round in 0..20 {
        let folder = Folder::new(&format!("together-{round}"));
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (path, config) = (folder.path().join(format!("a/b/{number}")), &config);
                scope.spawn(move || Writer::create(path, config).unwrap());
            }
        });
    }
}

#[test]
fn a_gradient_that_is_not_finite_is_found_although_the_loss_is() {
    let (_, mut data) = problems().remove(1);
    // Residuals of ½ over a noise of 3e-19 square to a loss that single precision holds; times inputs of 1e5 it does not.
    if let (Inputs::Floats { data: x, .. }, Targets::Values { data: y, .. }) =
        (&mut data.train.inputs, &mut data.train.targets)
    {
        x.fill(1e5);
        y.fill(0.5);
    }
    let settings = [
        ("model.sizes", "6,1"),
        ("posterior.kind", "point"),
        ("posterior.init_means", "1e-9"),
        ("likelihood.kind", "gaussian-fixed"),
        ("likelihood.noise", "3e-19"),
        ("optim.clip", "none"),
    ];
    let config = config(Preset::MlpMnist, &settings);
    let batch = Batches::new(&data.train, 8, 0).from(0).next().unwrap().unwrap();
    let sentence = Trainer::new(config, &data).unwrap().step(batch).unwrap_err().to_string();
    assert!(
        sentence.starts_with(
            "training diverged: the gradient of `network.layers.0.weights.kernel.loc` is not a finite number in step 1;"
        ),
        "{sentence}"
    );
}

#[test]
fn a_step_is_what_its_parts_make_of_it() {
    let settings = [
        ("model.sizes", "6,5,3"),
        ("estimator.kind", "flipout"),
        ("estimator.draws", "3"),
        ("anneal.per_batch", "none"),
        ("anneal.epochs", "2"),
        ("optim.clip", "none"),
        ("posterior.cap", "0.0101"),
    ];
    let (config, (_, data)) = (config(Preset::MlpMnist, &settings), problems().remove(0));
    let mut trainer = Trainer::new(config.clone(), &data).unwrap();
    let mut model = Model::new(&config, &data.train, &Device::flex().autodiff()).unwrap();
    let (elbo, mut adam) = (Elbo::new(22).unwrap(), AdamConfig::new().init());
    for (step, batch) in Batches::new(&data.train, 8, 0).from(0).take(9).map(Result::unwrap).enumerate() {
        let (features, observed) = batch.clone().on(&Device::flex());
        let passes = Pass::several(0, step as u64, Estimator::Flipout, 3);
        let nll: Vec<Tensor<1>> =
            passes.map(|pass| model.nll(features.clone(), &observed, &pass).unwrap().1.mean()).collect();
        let nll = nll.into_iter().reduce(|a, b| a + b).unwrap() / 3.0;
        // Linear over two epochs of three steps.
        let weight = (step as f64 / 6.0).min(1.0);
        let loss = elbo.loss(nll.clone(), model.network.kl().unwrap(), weight);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(LearningRates { loc: 0.01, scale: 0.02 }, model, grads);
        model.network = model.network.clipped();

        let report;
        (trainer, report) = trainer.step(batch).unwrap();
        assert_eq!(report.weight, weight);
        assert_eq!(report.terms.nll, nll.into_data().iter::<f64>().next().unwrap());
    }
    // The graph adds the gradients of three draws and of the divergence in another order.
    let [found, expected] = [trainer.model(), &model].map(|model| module_tensors(model).unwrap());
    for (path, expected) in expected.iter() {
        let numbers = |tensor: &NamedTensor| {
            let chunks = tensor.bytes().chunks_exact(4);
            chunks.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect::<Vec<_>>()
        };
        for (found, expected) in numbers(found.get(path).unwrap()).into_iter().zip(numbers(expected)) {
            assert!((found - expected).abs() < 2e-6, "{path}: {found}, expected {expected}");
        }
    }
}

#[test]
fn rates_drop_to_a_tenth_after_a_share_of_the_run() {
    let (plain, data) = problems().remove(0);
    let mut dropping = plain.clone();
    dropping.optim.drop_after = Some(0.6);
    let mut slow = plain.clone();
    slow.optim.lr *= 0.1;
    slow.optim.scale_lr = slow.optim.scale_lr.map(|rate| rate * 0.1);
    let digest = |trainer: &Trainer| trainer.checkpoint().unwrap().digest().to_string();
    let weights = |trainer: &Trainer| module_tensors(trainer.model()).unwrap();
    let after = |trainer: Trainer, steps: u64| {
        let batches = Batches::new(&data.train, plain.train.batch, plain.train.seed);
        let batches = batches.from(trainer.state().step).take(steps as usize);
        batches.fold(trainer, |trainer, batch| trainer.step(batch.unwrap()).unwrap().0)
    };
    let [early, undropped] = [&dropping, &plain].map(|config| Trainer::new(config.clone(), &data).unwrap());
    assert_eq!(early.num_steps(), 9);
    // 0.6 of nine steps are 5.4: the sixth is the first of the slow ones.
    let (early, undropped) = (after(early, 5), after(undropped, 5));
    assert_eq!(weights(&early), weights(&undropped));
    let slow = Trainer::resume(slow, &data, &undropped.checkpoint().unwrap()).unwrap();
    let (late, slow, undropped) = (after(early, 4), after(slow, 4), after(undropped, 4));
    assert_eq!(weights(&late), weights(&slow));
    assert_ne!(weights(&late), weights(&undropped));
    let half = after(Trainer::new(dropping.clone(), &data).unwrap(), 7);
    let resumed = Trainer::resume(dropping, &data, &half.checkpoint().unwrap()).unwrap();
    assert_eq!(digest(&after(resumed, 2)), digest(&late), "an interruption does not change it");
}

#[test]
fn a_point_is_judged_by_one_draw_and_others_by_as_many_as_asked() {
    for (posterior, samples) in [("point", 1), ("mean-field", 7)] {
        let (mut config, data) = problems().remove(0);
        config.posterior.kind = posterior.parse().unwrap();
        let metrics = Trainer::new(config, &data).unwrap().evaluate(&data.test, 7, |_| {}).unwrap();
        assert_eq!((metrics.samples, metrics.examples), (samples, 5), "{posterior}");
    }
}
