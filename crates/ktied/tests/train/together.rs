//! Several processes make the steps of one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ktied::Error;
use ktied::checkpoint::Digest;
use ktied::cluster::{Alone, Cluster};
use ktied::config::{Config, Preset, Tree};
use ktied::data::{Batches, DataSet, InOrder, Inputs};
use ktied::evaluate::{Ensemble, Protocol};
use ktied::train::{Outcome, StepReport, Trainer, Writer, fit};

use crate::support::{Folder, config, problems};
use crate::threads::processes;

fn with(config: &Config, settings: &[(&str, &str)]) -> Config {
    let mut tree = Tree::of(config);
    settings.iter().for_each(|(key, value)| tree.set(key, value).unwrap());
    tree.config().unwrap()
}

/// Every kind of network that several processes can train, under every estimator that it takes, with and without dropout.
fn cases() -> Vec<(Config, DataSet)> {
    let mut cases = vec![];
    for (config, data) in problems() {
        let resnet = data.name == "resnet18";
        let config = if resnet { with(&config, &[("model.norm", "frozen")]) } else { config };
        for estimator in ["reparam", "flipout", "local"] {
            let dropout = if estimator == "local" && !resnet { "0.25" } else { "0" };
            cases.push((with(&config, &[("estimator.kind", estimator), ("model.dropout", dropout)]), data.clone()));
        }
        cases.push((with(&config, &[("posterior.kind", "mean-field")]), data.clone()));
    }
    cases
}

/// `steps` steps of one process, what they said, and its parameters at the end.
fn steps(config: &Config, data: &DataSet, cluster: Arc<dyn Cluster>, steps: usize) -> (Vec<StepReport>, Digest) {
    let place = cluster.place();
    let mut trainer = Trainer::new(config.clone(), data).unwrap().with_cluster(cluster).unwrap();
    let mut reports = vec![];
    for batch in Batches::new(&data.train, config.train.batch, config.train.seed).of(place).from(0).take(steps) {
        let report;
        (trainer, report) = trainer.step(batch.unwrap()).unwrap();
        reports.push(report);
    }
    (reports, trainer.checkpoint().unwrap().digest())
}

fn losses(reports: &[StepReport]) -> Vec<f64> {
    reports.iter().map(|report| report.terms.neg_elbo()).collect()
}

#[test]
fn the_losses_of_several_processes_are_those_of_one() {
    for (config, data) in cases() {
        let what = format!("{} {} {}", data.name, config.posterior.kind, config.estimator.kind);
        // 22 examples by 8: batches of 8, 8 and 6, none of which three can divide evenly.
        let (alone, _) = steps(&config, &data, Arc::new(Alone), 100);
        for of in [2, 3] {
            let all = processes(of, |cluster| steps(&config, &data, cluster, 100));
            for (reports, digest) in &all {
                assert_eq!(*digest, all[0].1, "{what}: the same parameters everywhere");
                assert_eq!(*reports, all[0].0, "{what}: the same losses everywhere");
            }
            for (step, (ours, one)) in losses(&all[0].0).into_iter().zip(losses(&alone)).enumerate() {
                assert!((ours - one).abs() <= 1e-5 * one.abs(), "{what}, {of}, step {step}: {ours} against {one}");
            }
            let counts = |reports: &[StepReport]| reports.iter().map(|r| (r.examples, r.correct)).collect::<Vec<_>>();
            assert_eq!(counts(&all[0].0), counts(&alone), "{what}: examples, and how many are right");
        }
    }
}

#[test]
fn a_batch_may_be_smaller_than_the_number_of_processes() {
    let (config, data) = problems().swap_remove(0);
    let config = with(&config, &[("train.batch", "2")]);
    let (alone, _) = steps(&config, &data, Arc::new(Alone), 12);
    let all = processes(5, |cluster| steps(&config, &data, cluster, 12));
    for (ours, one) in losses(&all[4].0).into_iter().zip(losses(&alone)) {
        assert!((ours - one).abs() <= 1e-5 * one.abs(), "{ours} against {one}");
    }
}

#[test]
fn with_noise_of_their_own_processes_draw_different_weights_and_stay_together() {
    let (config, data) = problems().swap_remove(0);
    let config = with(&config, &[("estimator.kind", "reparam")]);
    let own = with(&config, &[("cluster.noise", "per-rank")]);
    let shared = processes(2, |cluster| steps(&config, &data, cluster, 5));
    let per_rank = processes(2, |cluster| steps(&own, &data, cluster, 5));
    assert_eq!(per_rank[0], per_rank[1]);
    assert_ne!(losses(&per_rank[0].0), losses(&shared[0].0));
    // Alone, there is nobody to differ from.
    assert_eq!(steps(&own, &data, Arc::new(Alone), 5), steps(&config, &data, Arc::new(Alone), 5));
}

#[test]
fn half_the_bytes_are_nearly_the_same_run_and_the_same_in_every_process() {
    let (config, data) = problems().swap_remove(0);
    let half = with(&config, &[("cluster.wire", "half")]);
    let single = processes(3, |cluster| steps(&config, &data, cluster, 20));
    let all = processes(3, |cluster| steps(&half, &data, cluster, 20));
    assert!(all.iter().all(|one| *one == all[0]));
    assert_ne!(all[0].1, single[0].1, "something was rounded");
    for (ours, exact) in losses(&all[0].0).into_iter().zip(losses(&single[0].0)) {
        assert!((ours - exact).abs() <= 0.01 * exact.abs(), "{ours} against {exact}");
    }
}

#[test]
fn bytes_are_those_of_the_gradients_and_k_tied_sends_fewer() {
    let sent = |posterior: &str, wire: &str, of: usize| {
        let settings = [("posterior.kind", posterior), ("cluster.wire", wire), ("model.sizes", "6,50,3")];
        let (config, data) = (config(Preset::MlpMnist, &settings), problems().swap_remove(0).1);
        let all = processes(of, |cluster| {
            let place = cluster.place();
            let trainer = Trainer::new(config.clone(), &data).unwrap().with_cluster(cluster).unwrap();
            let batch = Batches::new(&data.train, 8, 0).of(place).from(0).next().unwrap().unwrap();
            trainer.step(batch).unwrap().0.take_sent().unwrap()
        });
        all.iter().sum::<u64>()
    };
    // Weights and biases, a mean and a scale each, or k numbers for every row and column; sent once to be added up, and once back.
    let (weights, biases) = (6 * 50 + 50 * 3, 50 + 3);
    let mean_field = 2 * (weights + biases);
    let tied = weights + 2 * (6 + 50 + 50 + 3) + 2 * biases;
    for of in [2u64, 3] {
        assert_eq!(sent("mean-field", "single", of as usize), 2 * (of - 1) * 4 * mean_field);
        assert_eq!(sent("k-tied:2", "single", of as usize), 2 * (of - 1) * 4 * tied);
        assert_eq!(sent("k-tied:2", "half", of as usize), 2 * (of - 1) * 2 * tied);
    }
}

#[test]
fn what_is_not_finite_in_one_part_is_left_out_by_all() {
    let (config, mut data) = problems().swap_remove(0);
    let config = with(&config, &[("train.non_finite", "skip")]);
    let Inputs::Floats { data: numbers, .. } = &mut data.train.inputs else { panic!("rows") };
    numbers[0] = f32::NAN;
    let all = processes(3, |cluster| steps(&config, &data, cluster, 3));
    let left_out: Vec<Option<String>> = all[0].0.iter().map(|report| report.left_out.clone()).collect();
    assert_eq!(left_out.iter().flatten().collect::<Vec<_>>(), ["input"], "one of the three batches of an epoch");
    assert!(all.iter().all(|(reports, digest)| {
        *digest == all[0].1 && reports.iter().zip(&all[0].0).all(|(a, b)| a.left_out == b.left_out)
    }));
}

#[test]
fn an_evaluation_is_that_of_one_process_digit_for_digit() {
    for (config, data) in problems() {
        let judged = |cluster: Arc<dyn Cluster>| {
            let config = with(&config, if data.name == "resnet18" { &[("model.norm", "frozen")] } else { &[] });
            let trainer = Trainer::new(config, &data).unwrap().with_cluster(cluster).unwrap();
            // Eight batches of three, the last of one: more than are judged at once.
            let examples = InOrder::new(&data.train, 3);
            let ensemble = Ensemble::new([(&trainer.model().network, &trainer.model().likelihood)]).unwrap();
            let protocol = Protocol { samples: 13, ..Protocol::new(22) };
            ensemble.judge_together(trainer.cluster(), &examples, &protocol, |_| ()).unwrap()
        };
        let alone = judged(Arc::new(Alone));
        for of in [2, 3, 4] {
            assert!(processes(of, judged).into_iter().all(|together| together == alone), "{}", data.name);
        }
    }
}

#[test]
fn a_run_of_several_is_written_by_the_first_and_goes_on_with_any_number() {
    let (config, data) = problems().swap_remove(0);
    let run = |folder: &Folder, of: usize| {
        let writer = match Writer::reopen(folder.path()) {
            Ok(writer) => writer,
            Err(_) => Writer::create(folder.path(), &config).unwrap(),
        };
        let (newest, _) = writer.run().newest_if_any().unwrap();
        let stop = AtomicBool::new(newest.is_none());
        let ended = processes(of, |cluster| {
            let place = cluster.place();
            let trainer = match &newest {
                Some(checkpoint) => Trainer::resume(config.clone(), &data, checkpoint).unwrap(),
                None => Trainer::new(config.clone(), &data).unwrap(),
            };
            let trainer = trainer.with_cluster(cluster).unwrap();
            // Only the last of them hears the signal.
            let never = AtomicBool::new(false);
            let stop = if place.number + 1 == of { &stop } else { &never };
            let (trainer, outcome) = fit(place.is_first().then_some(&writer), trainer, &data, &mut (), stop).unwrap();
            (trainer.checkpoint().unwrap().digest(), trainer.state().best, outcome)
        });
        assert!(ended.iter().all(|end| *end == ended[0]), "{ended:?}");
        (ended[0].2, writer.run().newest().unwrap().0)
    };
    let folder = Folder::new("together");
    let (outcome, checkpoint) = run(&folder, 3);
    assert_eq!((outcome, checkpoint.header().step), (Outcome::Interrupted, 1), "all stop when one is asked to");
    let (outcome, checkpoint) = run(&folder, 2);
    assert_eq!((outcome, checkpoint.header().step), (Outcome::Finished, 9));

    let unbroken = crate::support::unbroken(&config, &data);
    for (path, tensor) in unbroken.weights().iter() {
        let numbers = |bytes: &[u8]| bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let [ours, one]: [Vec<f32>; 2] = [checkpoint.weights().get(path).unwrap(), tensor].map(|t| numbers(t.bytes()));
        assert!(ours.iter().zip(&one).all(|(a, b)| (a - b).abs() < 1e-4), "{path}: as one process would have made it");
    }
}

#[test]
fn who_fails_is_heard_by_all_wherever_they_are() {
    let (config, data) = problems().swap_remove(0);
    let heard = processes(3, |cluster| {
        let place = cluster.place();
        let mut trainer = Trainer::new(config.clone(), &data).unwrap().with_cluster(Arc::clone(&cluster)).unwrap();
        for batch in Batches::new(&data.train, 8, 0).of(place).from(0) {
            if place.number == 1 && trainer.state().step == 2 {
                cluster.fail(6, "the disk is full");
                return None;
            }
            match trainer.step(batch.unwrap()) {
                Ok((next, _)) => trainer = next,
                Err(error) => return Some(error.to_string()),
            }
        }
        None
    });
    let sentence = Some("rank 1: the disk is full".to_owned());
    assert_eq!(heard, [sentence.clone(), None, sentence]);
}

#[test]
fn processes_that_have_come_apart_stop() {
    let (config, data) = problems().swap_remove(0);
    let folder = Folder::new("apart");
    let writer = Writer::create(folder.path(), &config).unwrap();
    let ended = processes(2, |cluster| {
        let place = cluster.place();
        // The second begins with other weights: as after a fault of its memory.
        let config = with(&config, if place.is_first() { &[] } else { &[("posterior.init_scale", "0.02")] });
        let trainer = Trainer::new(config, &data).unwrap().with_cluster(cluster).unwrap();
        fit(place.is_first().then_some(&writer), trainer, &data, &mut (), &AtomicBool::new(false)).map(drop)
    });
    for end in ended {
        let error = end.unwrap_err();
        assert!(matches!(error, Error::UnlikeFirst { process: 1, .. }), "{error}");
    }
    assert!(writer.run().newest().is_err(), "nothing of it was saved");
}

#[test]
fn batch_statistics_take_one_process() {
    let (config, data) = problems().pop().unwrap();
    let refused =
        processes(2, |cluster| Trainer::new(config.clone(), &data).unwrap().with_cluster(cluster).unwrap_err());
    assert!(refused[0].to_string().contains("model.norm"), "{}", refused[0]);
}
