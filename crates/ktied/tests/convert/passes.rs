//! One draw a pass, however often a layer reads its weights, and the same on any thread and after any interruption.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn::module::{Module, Param};
use burn::nn::{LinearConfig, LstmConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied::convert::{Bayesian, InitialScale, bayesian};
use ktied::evaluate::{Evaluator, Protocol};
use ktied::nn::{Estimator, Pass};
use ktied::objective::{Likelihood, LikelihoodKind, Observed};
use ktied::train::AdamConfig;

use crate::support::{autodiff, config, converted, host, normals, scalar};

/// A layer that reads its weight again for every step.
#[derive(Debug, Module)]
struct Reads {
    weight: Param<Tensor<2>>,
}

fn reads(device: &Device) -> Reads {
    Reads { weight: Param::from_tensor(normals([4, 3], 2, device)) }
}

fn training(step: u64) -> Pass {
    Pass::sampled(9, step, Estimator::Reparam)
}

#[test]
fn a_weight_is_drawn_once_a_pass_and_anew_in_the_next() {
    let model = converted(reads(&autodiff()), "k-tied:1");
    let two = |step| model.run(&training(step), |m| [m.weight.val(), m.weight.val()]).unwrap().map(host);
    let ([a, b], [c, _]) = (two(0), two(1));
    assert!(a == b && a != c);
    // A clone is drawn the same weights from its own values, which may have changed.
    let moved = model.run(&training(0), |m| {
        let mut clone = m.clone();
        clone.weight = clone.weight.map(|w| w.detach() + 1.0);
        host(clone.weight.val())
    });
    // `map` takes the posterior off: what is left is the mean.
    let mean = host(model.run(&Pass::Means, |m| m.weight.val()).unwrap());
    assert!(moved.unwrap().iter().zip(&mean).all(|(moved, mean)| (moved - mean - 1.0).abs() < 1e-6));
    let clone = model.run(&training(0), |m| host(m.clone().weight.val())).unwrap();
    assert_eq!(clone, a);
    // A gradient comes once for both reads.
    let grads = model.run(&training(0), |m| (m.weight.val() + m.weight.val() * 2.0).sum()).unwrap().backward();
    let of_mean = model.run(&Pass::Means, |m| host(m.weight.base().grad(&grads).unwrap())).unwrap();
    assert_eq!(of_mean, [3.0; 12]);
}

#[test]
fn parameters_of_one_shape_have_noise_of_their_own() {
    let model = converted([reads(&Device::flex()), reads(&Device::flex())], "mean-field");
    let noise = |[a, b]: [Vec<f64>; 2], [c, d]: [Vec<f64>; 2]| {
        let of = |drawn: Vec<f64>, mean: Vec<f64>| -> Vec<bool> {
            drawn.iter().zip(&mean).map(|(drawn, mean)| drawn > mean).collect()
        };
        (of(a, c), of(b, d))
    };
    let weights = |pass: &Pass| model.run(pass, |m| [&m[0], &m[1]].map(|m| host(m.weight.val()))).unwrap();
    let (first, second) = noise(weights(&training(0)), weights(&Pass::Means));
    assert_ne!(first, second);
}

#[test]
fn burns_lstm_has_one_draw_for_all_its_steps() {
    // It reads its weights at every step; folded into a plain LSTM they are read from one draw.
    let config = config("mean-field").with_scale(InitialScale::Absolute(0.5));
    let model = bayesian(LstmConfig::new(2, 3, true).init(&Device::flex()), &config).unwrap();
    let x = || normals([2, 6, 2], 4, &Device::flex());
    let states = |step| host(model.run(&training(step), |lstm| lstm.forward(x(), None).0).unwrap());
    assert_eq!(states(0), host(model.freeze_at(&training(0)).unwrap().forward(x(), None).0));
    assert_ne!(states(0), states(1));
}

#[test]
fn threads_wait_for_each_other_and_draw_the_same() {
    let model = converted(reads(&Device::flex()), "mean-field");
    let expected: Vec<_> = (0..8).map(|step| host(model.run(&training(step), |m| m.weight.val()).unwrap())).collect();
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (step, expected) in (0..8).zip(&expected) {
            let (clone, running, most) = (model.clone(), &running, &most);
            scope.spawn(move || {
                let found = clone.run(&training(step), |m| {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    running.fetch_sub(1, Ordering::SeqCst);
                    host(m.weight.val())
                });
                assert_eq!(&found.unwrap(), expected);
            });
        }
    });
    assert_eq!(most.into_inner(), 1);
}

#[test]
fn a_pass_ends_even_where_its_task_panics() {
    let model = converted(reads(&Device::flex()), "mean-field");
    let mean = host(model.run(&Pass::Means, |m| m.weight.val()).unwrap());
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.run(&training(0), |_| panic!("task"))));
    assert!(panicked.is_err());
    assert_eq!(host(model.run(&Pass::Means, |m| m.weight.val()).unwrap()), mean);
}

/// Some steps of a regression, from one step on.
fn train(model: Bayesian<Reads>, steps: std::ops::Range<u64>) -> Bayesian<Reads> {
    let (mut model, mut adam) = (model, AdamConfig::new().init());
    let x = normals([16, 4], 3, &autodiff());
    for step in steps {
        let y = model.run(&training(step), |m| x.clone().matmul(m.weight.val())).unwrap();
        let loss = (y - 1.0).square().mean() + model.kl().unwrap() / 100.0;
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(1e-2, model, grads);
    }
    model
}

#[test]
fn training_moves_means_and_scales_and_draws_depend_on_the_step_alone() {
    let loss = |model: &Bayesian<Reads>| {
        let x = normals([16, 4], 3, &Device::flex());
        let draws = (0..50).map(|draw| {
            let y = model.valid().run(&Pass::prediction(1, draw), |m| x.clone().matmul(m.weight.val())).unwrap();
            scalar((y - 1.0).square().mean()) / 50.0
        });
        draws.sum::<f64>() + scalar(model.kl().unwrap()) / 100.0
    };
    for posterior in ["mean-field", "k-tied:2"] {
        let begin = converted(reads(&autodiff()), posterior);
        let [before, after] = [begin.clone(), train(begin.clone(), 0..200)].map(|model| {
            let [mean, sd] = model.moments("weight").unwrap().unwrap().map(host);
            (loss(&model), mean, sd)
        });
        assert!(after.0 < 0.8 * before.0, "{posterior}: {} {}", before.0, after.0);
        assert!(after.1 != before.1 && after.2.iter().zip(&before.2).all(|(a, b)| a > b), "{posterior}");
        let of = |steps| host(train(begin.clone(), steps).moments("weight").unwrap().unwrap()[0].clone());
        assert!(of(0..3) == of(0..3) && of(0..3) != of(1..4));
    }
}

#[test]
fn judging_is_that_of_any_network() {
    let model = converted(LinearConfig::new(4, 3).init(&Device::flex()), "k-tied:1");
    let (x, labels) = (normals([6, 4], 5, &Device::flex()), Observed::Classes(vec![0, 1, 2, 0, 1, 2]));
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, 3, 1.0, &Device::flex()).unwrap();
    let mut evaluator = Evaluator::new(&likelihood, &Protocol { samples: 7, ..Protocol::new(100) }).unwrap();
    evaluator.add(&labels, |draw| model.run(&Pass::prediction(0, draw), |linear| linear.forward(x.clone()))).unwrap();
    let judged = evaluator.finish(scalar(model.kl().unwrap())).unwrap();
    assert!(judged.nll.value.is_finite() && judged.nll.sem_draws.is_some_and(|sem| sem > 0.0));
    let stacked: Tensor<3> =
        Pass::stack_predictions(0, 7, |pass| model.run(&pass, |linear| linear.forward(x.clone()))).unwrap();
    assert_eq!(stacked.dims(), [7, 6, 3]);
}
