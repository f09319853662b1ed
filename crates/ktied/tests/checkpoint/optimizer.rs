//! Adam's state by path, its rates by kind, its clipping.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use ktied::checkpoint::{NamedTensor, NamedTensors, load_module, module_tensors};
use ktied::models::Mlp;
use ktied::train::{Adam, AdamConfig, LearningRates, grad_norm};

use crate::support::{digest, grads, mlp, train};

fn values(tensors: &NamedTensors, path: &str) -> Vec<f32> {
    let bytes = tensors.get(path).unwrap_or_else(|| panic!("{path}")).bytes();
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn trained(steps: u64) -> (Mlp, Adam) {
    let mut adam = AdamConfig::new().init();
    (train(mlp("k-tied:2", 0), &mut adam, 0, steps), adam)
}

#[test]
fn moments_are_saved_under_their_parameters_path() {
    let start = mlp("k-tied:2", 0);
    let grad = grads(&start, 0);
    let expected: Vec<f32> = grad
        .get::<2>(start.layers()[0].weights.bias.as_ref().map(loc_id).unwrap())
        .unwrap()
        .into_data()
        .try_to_vec()
        .unwrap();
    let mut adam = AdamConfig::new().init();
    let after = adam.step(1e-2, start, grad);
    let state = adam.to_tensors(&after).unwrap();
    assert_eq!(state.len(), 3 * 10);
    let path = "adam.layers.0.weights.bias.loc";
    // After one step m = 0.1·g and v = 0.001·g².
    for ((g, m), v) in expected
        .iter()
        .zip(values(&state, &format!("{path}.moment_1")))
        .zip(values(&state, &format!("{path}.moment_2")))
    {
        assert!((m - 0.1 * g).abs() <= 1e-6 * g.abs() && (v - 1e-3 * g * g).abs() <= 1e-6 * g * g, "{g} {m} {v}");
    }
    assert!(expected.iter().any(|&g| g != 0.0));
    assert_eq!(state.get(&format!("{path}.time")).and_then(NamedTensor::as_scalar_i64), Some(1));
    assert_eq!(state.get(&format!("{path}.moment_1")).unwrap().shape(), [1, 8]);
}

fn loc_id(family: &ktied::posterior::Family) -> burn::module::ParamId {
    struct First(Option<burn::module::ParamId>);
    impl ModuleVisitor for First {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.get_or_insert(param.id);
        }
    }
    let mut first = First(None);
    family.visit(&mut first);
    first.0.unwrap()
}

#[test]
fn a_state_that_does_not_fit_is_refused_by_path_and_changes_nothing() {
    let (mlp, adam) = trained(2);
    let good = adam.to_tensors(&mlp).unwrap();
    let path = "adam.layers.1.weights.kernel.log_u";
    let change = |path: &str, replacement: Option<NamedTensor>| {
        let mut changed = NamedTensors::default();
        good.iter().filter(|(other, _)| *other != path).for_each(|(path, t)| changed.insert(path, t.clone()).unwrap());
        replacement.into_iter().for_each(|tensor| changed.insert(path, tensor).unwrap());
        changed
    };
    let one = NamedTensor::scalar_i64;
    let [first, moment] = ["moment_1", "moment_2"].map(|name| format!("{path}.{name}"));
    // All numbers are good but the last.
    let filled = |last: f32| {
        let good = good.get(&moment).unwrap();
        let bytes = [&good.bytes()[..good.bytes().len() - 4], &last.to_le_bytes()].concat();
        NamedTensor::new(good.dtype(), good.shape().to_vec(), bytes).unwrap()
    };
    let cases = [
        (change(&moment, None), format!("the checkpoint has no tensor `{moment}`")),
        (change(&format!("{path}.time"), None), format!("the checkpoint has no tensor `{path}.time`")),
        (change(&format!("{path}.time"), Some(one(-1))), format!("the tensor `{path}.time` must be a number of steps")),
        (change(&moment, Some(one(1))), format!("the tensor `{moment}` of the checkpoint holds I64")),
        (
            change(&moment, good.get("adam.layers.1.weights.kernel.log_v.moment_2").cloned()),
            format!("the tensor `{moment}` of the checkpoint is [3, 2], that of the network [8, 2]"),
        ),
        (change(&moment, Some(filled(f32::NAN))), format!("a number of the tensor `{moment}` is not finite")),
        (change(&first, Some(filled(f32::INFINITY))), format!("a number of the tensor `{first}` is not finite")),
        (
            change(&moment, Some(filled(-0.5))),
            format!("the tensor `{moment}` must hold means of squares, 0 or more, got -0.5"),
        ),
        (
            change("adam.layers.7.loc.time", Some(one(1))),
            "the checkpoint has a tensor `adam.layers.7.loc.time`, which the network does not have".into(),
        ),
        (NamedTensors::default(), "the checkpoint has no tensor `adam.layers.0.weights.bias.loc.moment_1`".into()),
    ];
    for (tensors, sentence) in cases {
        let mut target = adam.clone();
        let error = target.load_tensors(&mlp, &tensors).unwrap_err().to_string();
        assert!(error.starts_with(&sentence), "{error}");
        assert_eq!(digest(&mlp, &target), digest(&mlp, &adam));
    }
    // What a loop keeps beside it is not Adam's business.
    assert_eq!(adam.clone().load_tensors(&mlp, &change("snr.batches", Some(one(3)))), Ok(()));
}

#[test]
fn a_parameter_without_updates_is_saved_as_fresh_and_goes_on_as_fresh() {
    let start = mlp("mean-field", 0);
    let adam = AdamConfig::new().init();
    let state = adam.to_tensors(&start).unwrap();
    assert_eq!(state.get("adam.layers.0.weights.kernel.loc.time").and_then(NamedTensor::as_scalar_i64), Some(0));
    let mut loaded = AdamConfig::new().init();
    loaded.load_tensors(&start, &state).unwrap();
    let twin = load_module(mlp("mean-field", 5), &module_tensors(&start).unwrap()).unwrap();
    let (mut fresh, mut twin_adam) = (adam, AdamConfig::new().init());
    twin_adam.load_tensors(&twin, &state).unwrap();
    let (one, two) = (train(start, &mut fresh, 0, 3), train(twin, &mut twin_adam, 0, 3));
    assert_eq!(digest(&one, &fresh), digest(&two, &twin_adam));
}

#[test]
fn means_and_scales_have_rates_of_their_own() {
    for posterior in ["mean-field", "k-tied:2", "matrix-normal"] {
        for (rates, moving) in [((1e-2, 0.0), "loc"), ((0.0, 1e-2), "scale")] {
            let start = mlp(posterior, 0);
            let before = module_tensors(&start).unwrap();
            let grads = grads(&start, 0);
            let after = AdamConfig::new().init().step(LearningRates { loc: rates.0, scale: rates.1 }, start, grads);
            let after = module_tensors(&after).unwrap();
            for (path, _) in before.iter() {
                let kind = if path.ends_with(".loc") { "loc" } else { "scale" };
                assert_eq!(values(&after, path) != values(&before, path), kind == moving, "{path} {moving}");
            }
        }
    }
}

#[test]
fn clipping_shortens_the_whole_gradient_and_leaves_its_direction() {
    let start = mlp("k-tied:2", 0);
    let norm = grad_norm(&start, &grads(&start, 0));
    let by_hand: f64 = squares(&start, &grads(&start, 0)).sqrt();
    assert!((norm - by_hand).abs() < 1e-6 * by_hand && norm > 0.1, "{norm} {by_hand}");
    let moment = |clip: Option<f64>| {
        let mut adam = AdamConfig::new().with_clip(clip).init();
        let after = adam.step(1e-2, start.clone(), grads(&start, 0));
        adam.to_tensors(&after).unwrap()
    };
    let plain = moment(None);
    assert_eq!(moment(Some(2.0 * norm)), plain);
    let clipped = moment(Some(0.25 * norm));
    for (path, _) in plain.iter().filter(|(path, _)| path.ends_with("moment_1")) {
        for (long, short) in values(&plain, path).iter().zip(values(&clipped, path)) {
            assert!((0.25 * long - short).abs() <= 1e-6 * long.abs(), "{path} {long} {short}");
        }
    }
}

/// Σ g² in burn's own operations.
fn squares(mlp: &Mlp, grads: &GradientsParams) -> f64 {
    struct Sum<'a>(&'a GradientsParams, f64);
    impl ModuleVisitor for Sum<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let grad = self.0.get::<D>(param.id).unwrap();
            self.1 += f64::from(grad.square().sum().into_scalar::<f32>());
        }
    }
    let mut sum = Sum(grads, 0.0);
    mlp.visit(&mut sum);
    sum.1
}

#[test]
fn one_optimiser_of_two_modules_keeps_their_states_apart() {
    let (mut shared, mut own) = (AdamConfig::new().init(), AdamConfig::new().init());
    let (mut one, mut two, mut alone) = (mlp("point", 0), mlp("point", 1), mlp("point", 0));
    for step in 0..3 {
        one = train(one, &mut shared, step, step + 1);
        two = train(two, &mut shared, step, step + 1);
        alone = train(alone, &mut own, step, step + 1);
    }
    assert_eq!(digest(&one, &shared), digest(&alone, &own));
    assert_ne!(digest(&two, &shared), digest(&one, &shared));
}
