//! Networks built from their descriptions: as many parameters as counted, gradients everywhere, the right layers local.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};
use ktied::models::{LeNetSpec, MlpSpec, ModelSpec, Network, NetworkConfig, PosteriorSpec, Totals};
use ktied::nn::{Estimator, Pass};
use ktied::ops;
use ktied::posterior::ScaleInit;

use crate::support::{host, random};

const POSTERIORS: [&str; 5] = ["point", "mean-field", "k-tied:1", "k-tied:2", "matrix-normal"];

fn config(posterior: &str) -> NetworkConfig {
    NetworkConfig::new(PosteriorSpec::new(posterior.parse().unwrap()))
}

fn small_lenet() -> LeNetSpec {
    LeNetSpec { side: 8, channels: 2, kernel: 3, filters: [3, 4], dense: 6, classes: 5 }
}

fn images(batch: usize) -> Tensor<4> {
    Tensor::<1>::from_floats(&random(batch * 8 * 8 * 2, 1)[..], &Device::flex()).reshape([batch, 8, 8, 2])
}

#[test]
fn networks_have_the_parameters_that_their_descriptions_count() {
    let device = Device::flex().autodiff();
    for posterior in POSTERIORS {
        let config = config(posterior);
        let counted = |model: ModelSpec| Totals::of(&model.layers(&config.posterior).unwrap()).unwrap().total;
        let mlp = MlpSpec { sizes: vec![20, 15, 7] };
        let lenet = small_lenet();
        assert_eq!(mlp.init(&config, &device).unwrap().num_params(), counted(ModelSpec::Mlp(mlp)), "{posterior}");
        assert_eq!(lenet.init(&config, &device).unwrap().num_params(), counted(ModelSpec::LeNet(lenet)), "{posterior}");
    }
    let full = LeNetSpec::default().init(&config("k-tied:2"), &device).unwrap();
    assert_eq!(full.num_params(), 2_267_408);
}

/// Names how many parameters have no gradient, or one that is zero everywhere or not finite.
struct Idle<'a> {
    grads: &'a Gradients,
    count: usize,
}

impl ModuleVisitor for Idle<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let grad = param.val().grad(self.grads).map_or(vec![], host);
        let alive = grad.iter().any(|g| *g != 0.0) && grad.iter().all(|g| g.is_finite());
        self.count += usize::from(!alive);
    }
}

#[test]
fn every_parameter_of_a_network_gets_a_gradient() {
    for posterior in POSTERIORS {
        for estimator in [Estimator::Reparam, Estimator::Flipout, Estimator::Local] {
            let lenet = small_lenet().init(&config(posterior), &Device::flex().autodiff()).unwrap();
            let logits = lenet.forward(images(3), &Pass::sampled(1, 0, estimator)).unwrap();
            assert_eq!(logits.dims(), [3, 5]);
            let nll = ops::softmax_cross_entropy(logits, &[0, 4, 2]).unwrap().mean();
            let grads = (nll + lenet.kl().unwrap() / 1000.0).backward();
            let mut idle = Idle { grads: &grads, count: 0 };
            lenet.visit(&mut idle);
            assert_eq!(idle.count, 0, "{posterior} {estimator}");
        }
    }
}

#[test]
fn a_local_pass_draws_convolutions_by_flipout_and_dense_layers_locally() {
    // Two equal images: under reparameterisation of any layer they would stay equal.
    let lenet = small_lenet().init(&config("mean-field"), &Device::flex()).unwrap();
    let pair = images(1).repeat_dim(0, 2);
    let differs = |estimator| {
        let y = host(lenet.forward(pair.clone(), &Pass::sampled(1, 0, estimator)).unwrap());
        y[..5] != y[5..]
    };
    assert!(!differs(Estimator::Reparam) && differs(Estimator::Flipout) && differs(Estimator::Local));
    let local = Pass::sampled(1, 0, Estimator::Local);
    assert_eq!(local.where_weights_are_shared(), Pass::sampled(1, 0, Estimator::Flipout));
    assert_eq!(Pass::Means.where_weights_are_shared(), Pass::Means);
}

#[test]
fn clipping_a_network_clips_every_layer() {
    let scale = ScaleInit { scale: 0.3, cap: Some(0.1), ..ScaleInit::default() };
    let lenet = small_lenet().init(&NetworkConfig { scale, ..config("k-tied:2") }, &Device::flex().autodiff()).unwrap();
    let before = host(lenet.kl().unwrap())[0];
    let after = host(lenet.clone().clipped().kl().unwrap())[0];
    // σ from about 0.3 to 0.1, prior 0.2: the divergence changes by a known amount a weight, far above rounding.
    assert!((before - after).abs() > 1.0, "{before} {after}");
    assert_eq!(host(lenet.clone().clipped().clipped().kl().unwrap())[0], after);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let mlp = MlpSpec { sizes: vec![4, 3] }.init(&config("k-tied:2"), &device).unwrap();
    let error = mlp.forward(Tensor::zeros([2, 5], &device), &Pass::Means).unwrap_err().to_string();
    assert_eq!(error, "dense: `x` must have shape [2, 4], got [2, 5]");
    let lenet = small_lenet().init(&config("mean-field"), &device).unwrap();
    assert!(lenet.forward(Tensor::zeros([2, 8, 8, 3], &device), &Pass::Means).is_err());
}
