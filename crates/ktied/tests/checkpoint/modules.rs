//! Modules as tensors by path and back.

use burn::module::{Module, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor};
use ktied::checkpoint::{Dtype, NamedTensor, NamedTensors, load_module, module_tensors};

use crate::support::{POSTERIORS, device, grads, mlp};

/// A network with running averages, a count, and a parameter that is not trained.
#[derive(Debug, Module)]
struct Mixed {
    linear: Linear,
    norm: BatchNorm,
    count: Param<Tensor<1, Int>>,
    fixed: Param<Tensor<1>>,
    blocks: Vec<(Linear, Option<Linear>)>,
}

fn mixed(seed: f32) -> Mixed {
    let device = device();
    let linear = || LinearConfig::new(4, 3).init(&device);
    Mixed {
        linear: linear(),
        norm: BatchNormConfig::new(3).init(&device),
        count: Param::initialized(burn::module::ParamId::new(), Tensor::from_ints([1, 2, 3], &device)),
        fixed: Param::from_tensor(Tensor::from_floats([seed, 2.0], &device)).set_require_grad(false),
        blocks: vec![(linear(), None), (linear(), Some(linear()))],
    }
}

impl Mixed {
    fn forward(&self, shift: f32) -> Tensor<2> {
        let x = Tensor::<2>::from_floats([[1.0, 2.0, 3.0, 4.0], [0.0, -1.0, shift, 2.0]], &device());
        self.norm.forward(self.linear.forward(x))
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// The tensors with one changed.
fn with(tensors: &NamedTensors, path: &str, replacement: Option<NamedTensor>) -> NamedTensors {
    let mut changed = NamedTensors::default();
    for (other, tensor) in tensors.iter().filter(|(other, _)| *other != path) {
        changed.insert(other, tensor.clone()).unwrap();
    }
    replacement.into_iter().for_each(|tensor| changed.insert(path, tensor).unwrap());
    changed
}

#[test]
fn paths_are_those_of_the_fields() {
    let paths = |posterior| -> Vec<String> {
        module_tensors(&mlp(posterior, 0)).unwrap().iter().map(|(path, _)| path.into()).collect()
    };
    let layer = |names: &[&str]| -> Vec<String> {
        (0..2).flat_map(|layer| names.iter().map(move |name| format!("layers.{layer}.weights.{name}"))).collect()
    };
    assert_eq!(paths("point"), layer(&["bias.loc", "kernel.loc"]));
    assert_eq!(paths("k-tied:2"), layer(&["bias.loc", "bias.raw_scale", "kernel.loc", "kernel.log_u", "kernel.log_v"]));
}

#[test]
fn every_family_comes_back_bit_for_bit() {
    for posterior in POSTERIORS {
        let saved = module_tensors(&mlp(posterior, 1)).unwrap();
        let other = mlp(posterior, 2);
        assert_ne!(module_tensors(&other).unwrap(), saved);
        assert_eq!(module_tensors(&load_module(other, &saved).unwrap()).unwrap(), saved);
    }
}

#[test]
fn what_is_trained_and_what_is_not_stays_so() {
    let loaded = load_module(mixed(1.0), &module_tensors(&mixed(5.0)).unwrap()).unwrap();
    assert_eq!(values(loaded.fixed.val()), [5.0, 2.0]);
    assert!(!loaded.fixed.val().is_require_grad() && loaded.linear.weight.val().is_require_grad());
    assert!(loaded.linear.weight.val().device().is_autodiff());
    let grads = GradientsParams::from_grads(loaded.forward(0.5).square().sum().backward(), &loaded);
    assert!(grads.get::<2>(loaded.linear.weight.id).is_some());
    // A network without autodiff stays without.
    let plain = load_module(mixed(1.0).valid(), &module_tensors(&mixed(5.0)).unwrap()).unwrap();
    assert!(!plain.linear.weight.val().device().is_autodiff());
    let loaded = load_module(mlp("k-tied:2", 1), &module_tensors(&mlp("k-tied:2", 2)).unwrap()).unwrap();
    assert_eq!(crate::support::grads(&loaded, 0).len(), grads_of_fresh());
}

fn grads_of_fresh() -> usize {
    grads(&mlp("k-tied:2", 3), 0).len()
}

#[test]
fn running_averages_are_saved_with_the_last_update_and_go_on_from_there() {
    let (trained, fresh) = (mixed(1.0), mixed(1.0));
    (0..3).for_each(|i| drop(trained.forward(i as f32)));
    let before = module_tensors(&mixed(1.0)).unwrap();
    let saved = module_tensors(&trained).unwrap();
    assert_ne!(saved.get("norm.running_mean"), before.get("norm.running_mean"));
    // burn's visitor alone sees the value before the last update; one more forward pass shows which it was.
    (0..2).for_each(|i| drop(fresh.forward(10.0 * i as f32)));
    let loaded = load_module(fresh, &saved).unwrap();
    assert_eq!(module_tensors(&loaded).unwrap(), saved);
    assert_eq!(values(loaded.valid().forward(0.5)), values(trained.valid().forward(0.5)));
    assert_eq!(values(loaded.forward(0.7)), values(trained.forward(0.7)));
    assert_eq!(module_tensors(&loaded).unwrap(), module_tensors(&trained).unwrap());
}

#[test]
fn what_does_not_fit_is_called_by_its_path_and_changes_nothing() {
    let saved = module_tensors(&mixed(5.0)).unwrap();
    let single = |shape: &[usize]| {
        NamedTensor::new(Dtype::F32, shape.into(), vec![0; 4 * shape.iter().product::<usize>()]).unwrap()
    };
    let cases = [
        (with(&saved, "norm.running_var", None), "the checkpoint has no tensor `norm.running_var`"),
        (with(&saved, "zzz", Some(single(&[1]))), "the checkpoint has a tensor `zzz`, which the network does not have"),
        (
            with(&saved, "linear.weight", Some(single(&[3, 4]))),
            "the tensor `linear.weight` of the checkpoint is [3, 4], that of the network [4, 3]",
        ),
        (
            with(&saved, "linear.weight", Some(single(&[12]))),
            "the tensor `linear.weight` of the checkpoint is [12], that of the network [4, 3]",
        ),
        (
            with(&saved, "count", Some(single(&[3]))),
            "the tensor `count` of the checkpoint holds F32, that of the network I",
        ),
    ];
    for (tensors, sentence) in cases {
        let target = mixed(1.0);
        let before = module_tensors(&target).unwrap();
        let kept = target.clone();
        let error = load_module(target, &tensors).unwrap_err().to_string();
        assert!(error.starts_with(sentence), "{error}");
        assert_eq!(module_tensors(&kept).unwrap(), before);
    }
    let other_family = load_module(mlp("mean-field", 0), &module_tensors(&mlp("k-tied:2", 0)).unwrap()).unwrap_err();
    assert_eq!(other_family.to_string(), "the checkpoint has no tensor `layers.0.weights.kernel.raw_scale`");
}
