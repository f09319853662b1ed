//! The fused Adam against burn's own, step by step, and its state through a record.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig as BurnAdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use ktied::train::{Adam, AdamConfig};

use crate::compare::{random, second_backend};

fn model(device: &Device) -> Linear {
    LinearConfig::new(40, 30).init(device)
}

/// Ours and burn's.
trait Optimizes {
    fn update(&mut self, lr: f64, model: Linear, grads: GradientsParams) -> Linear;
}

impl Optimizes for Adam {
    fn update(&mut self, lr: f64, model: Linear, grads: GradientsParams) -> Linear {
        self.step(lr, model, grads)
    }
}

impl Optimizes for ModuleOptimizer {
    fn update(&mut self, lr: f64, model: Linear, grads: GradientsParams) -> Linear {
        self.step(lr, model, grads)
    }
}

/// One step on a quadratic whose gradient changes with the step.
fn step(optimizer: &mut impl Optimizes, model: Linear, number: u64) -> Linear {
    let device = model.weight.val().device();
    let x = Tensor::<1>::from_floats(&random(8 * 40, number)[..], &device).reshape([8, 40]);
    let loss = model.forward(x).square().mean();
    let grads = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.update(1e-2, model, grads)
}

fn weights(model: &Linear) -> Vec<f32> {
    let bias = model.bias.as_ref().map(|b| b.val().to_data().try_to_vec::<f32>().unwrap()).unwrap_or_default();
    [model.weight.val().to_data().try_to_vec().unwrap(), bias].concat()
}

#[test]
fn the_fused_adam_walks_with_burns_own() {
    for device in [Device::flex().autodiff(), second_backend().autodiff()] {
        let mut ours = (AdamConfig::new().init(), model(&device));
        let mut theirs = (BurnAdamConfig::new().with_epsilon(1e-8).init(), ours.1.clone());
        for number in 1..=20 {
            ours.1 = step(&mut ours.0, ours.1.clone(), number);
            theirs.1 = step(&mut theirs.0, theirs.1, number);
        }
        let (ours, theirs) = (weights(&ours.1), weights(&theirs.1));
        let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // 20 steps of 1e-2: a wrong correction or epsilon is felt at 1e-3 and above.
        assert!(worst < 2e-6, "{worst}");
    }
}

#[test]
fn a_clone_of_the_model_does_not_feel_the_step() {
    let device = Device::flex().autodiff();
    let before = model(&device);
    let kept = before.clone();
    let expected = weights(&kept);
    let after = step(&mut AdamConfig::new().init(), before, 1);
    assert_eq!(weights(&kept), expected);
    assert_ne!(weights(&after), expected);
}

#[test]
fn the_state_of_the_rule_survives_burns_record_bit_for_bit() {
    let device = Device::flex().autodiff();
    let fresh = || ModuleOptimizer::from(AdamConfig::new().build());
    let (mut optimizer, mut model) = (fresh(), model(&device));
    for number in 1..=3 {
        model = step(&mut optimizer, model, number);
    }
    let bytes = optimizer.clone().into_bytes().unwrap();
    let mut restored = fresh().from_bytes(bytes).unwrap();
    let unbroken = step(&mut optimizer, model.clone(), 4);
    let resumed = step(&mut restored, model.clone(), 4);
    assert_eq!(weights(&unbroken), weights(&resumed));
    let forgetful = step(&mut fresh(), model.clone(), 4);
    assert_ne!(weights(&unbroken), weights(&forgetful));
    assert_eq!(model.num_params(), 40 * 30 + 30);
}
