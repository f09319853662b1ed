//! A run that was interrupted and resumed equals an unbroken one, bit for bit.

use std::sync::atomic::AtomicBool;

use ktied::Error;
use ktied::data::Batches;
use ktied::train::{Outcome, StepReport, Trainer, Watch, Writer, fit};

use crate::support::{Folder, problems, train, unbroken};

#[test]
fn a_run_resumed_from_memory_at_any_step_equals_an_unbroken_one() {
    for (config, data) in problems() {
        let whole = unbroken(&config, &data);
        for stop in 0..9 {
            let mut trainer = Trainer::new(config.clone(), &data).unwrap();
            let batches = Batches::new(&data.train, config.train.batch, config.train.seed);
            for batch in batches.from(0).take(stop) {
                (trainer, _) = trainer.step(batch.unwrap()).unwrap();
            }
            let mut trainer = Trainer::resume(config.clone(), &data, &trainer.checkpoint().unwrap()).unwrap();
            for batch in batches.from(stop as u64).take(9 - stop) {
                (trainer, _) = trainer.step(batch.unwrap()).unwrap();
            }
            let resumed = trainer.checkpoint().unwrap();
            assert_eq!(resumed.digest(), whole.digest(), "{} stopped after {stop}", data.name);
            assert_eq!(resumed.header().state, whole.header().state, "{} stopped after {stop}", data.name);
        }
    }
}

#[test]
fn every_network_trains_to_the_same_bits_on_any_number_of_threads() {
    // The last is large enough that products and updates are divided.
    let (mut large, data) = problems().remove(0);
    large.model = serde_json::from_value(serde_json::json!({ "kind": "mlp", "sizes": [6, 300, 200, 3] })).unwrap();
    for (mut config, data) in problems().into_iter().chain([(large, data)]) {
        config.train.epochs = 1;
        let digests = [1, 2, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| unbroken(&config, &data).digest())
        });
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{}", data.name);
    }
}

/// Asks to stop after a step.
struct StopAfter<'a> {
    step: u64,
    stop: &'a AtomicBool,
}

impl Watch for StopAfter<'_> {
    fn step(&mut self, _: &Trainer, report: &StepReport) {
        if report.step == self.step {
            self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn validation(&mut self, _: &Trainer, _: &ktied::evaluate::Evaluation, _: bool) {}
    fn checkpoint(&mut self, _: u64) {}
}

#[test]
fn a_run_interrupted_again_and_again_leaves_the_folder_of_an_unbroken_one() {
    for (config, data) in problems() {
        let (broken, whole) =
            (Folder::new(&format!("broken-{}", data.name)), Folder::new(&format!("whole-{}", data.name)));
        let (expected, outcome) = train(whole.path(), &config, &data);
        assert_eq!(outcome, Outcome::Finished);

        let writer = Writer::create(broken.path(), &config).unwrap();
        let mut trainer = Trainer::new(config.clone(), &data).unwrap();
        for step in [1, 2, 4, 8] {
            let stop = AtomicBool::new(false);
            let (stopped, outcome) = fit(&writer, trainer, &data, &mut StopAfter { step, stop: &stop }, &stop).unwrap();
            assert_eq!((outcome, stopped.state().step), (Outcome::Interrupted, step));
            let newest = writer.store().newest_good().unwrap().0.unwrap();
            trainer = Trainer::resume(config.clone(), &data, &newest).unwrap();
        }
        let (trainer, _) = fit(&writer, trainer, &data, &mut (), &AtomicBool::new(false)).unwrap();
        let (found, expected) = (trainer.checkpoint().unwrap(), expected.checkpoint().unwrap());
        assert_eq!(found.digest(), expected.digest(), "{}", data.name);
        assert_eq!(found.header().state, expected.header().state, "{}", data.name);
        // The logs tell the same story, but for the speed and for checkpoints that only one of them has.
        let story = |folder: &Folder| -> Vec<String> {
            let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
            let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let events = events.filter(|event| event["event"] != "checkpoint").map(|mut event| {
                event.as_object_mut().unwrap().remove("steps_per_second");
                event.to_string()
            });
            events.collect()
        };
        assert_eq!(story(&broken), story(&whole), "{}", data.name);
    }
}

#[test]
fn other_data_or_another_network_is_not_resumed() {
    let mut problems = problems();
    let (lenet, images) = problems.remove(2);
    let (config, mut data) = problems.remove(0);
    let checkpoint = Trainer::new(config.clone(), &data).unwrap().checkpoint().unwrap();
    let other = Trainer::resume(lenet, &images, &checkpoint).unwrap_err();
    assert!(matches!(other, Error::OtherData { .. }), "{other}");
    let mut wider = config.clone();
    wider.model = serde_json::from_value(serde_json::json!({ "kind": "mlp", "sizes": [6, 4, 3] })).unwrap();
    let sentence = Trainer::resume(wider, &data, &checkpoint).unwrap_err().to_string();
    assert!(sentence.contains("weights.bias.loc` of the checkpoint is [1, 5]"), "{sentence}");
    data.digest = "another".into();
    let sentence = Trainer::resume(config, &data, &checkpoint).unwrap_err().to_string();
    assert_eq!(sentence, "the data set `mlp` is not the one that the run was trained on");
}
