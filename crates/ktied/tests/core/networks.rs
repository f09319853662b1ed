//! Networks built from their descriptions: as many parameters as counted, gradients everywhere, the right layers local.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int, Tensor};
use ktied::models::{
    LeNetSpec, LstmSpec, MlpSpec, ModelSpec, Network, NetworkConfig, Norm, PosteriorSpec, ResNet18Spec, Totals,
};
use ktied::nn::{Estimator, Pass};
use ktied::ops;
use ktied::posterior::Posterior;

use crate::support::{host, random};

const POSTERIORS: [&str; 5] = ["point", "mean-field", "k-tied:1", "k-tied:2", "matrix-normal"];

fn config(posterior: &str) -> NetworkConfig {
    NetworkConfig::new(PosteriorSpec::new(posterior.parse().unwrap()))
}

fn small_lenet() -> LeNetSpec {
    LeNetSpec { side: 8, channels: 2, kernel: 3, filters: [3, 4], dense: 6, classes: 5, dropout: 0.0 }
}

fn images(batch: usize) -> Tensor<4> {
    Tensor::<1>::from_floats(&random(batch * 8 * 8 * 2, 1)[..], &Device::flex()).reshape([batch, 8, 8, 2])
}

fn small_lstm() -> LstmSpec {
    LstmSpec { vocabulary: 9, embedding: 4, hidden: 3, dropout: 0.0 }
}

fn small_resnet(norm: Norm) -> ResNet18Spec {
    ResNet18Spec { side: 8, channels: 2, widths: [3, 4, 5, 6], classes: 5, norm, dropout: 0.0 }
}

fn words(batch: usize) -> Tensor<2, Int> {
    let ids: Vec<i32> = (0..batch as i32 * 6).map(|i| (i * i + 1) % 9).collect();
    Tensor::<1, Int>::from_data(&ids[..], &Device::flex()).reshape([batch, 6])
}

#[test]
fn networks_have_the_parameters_that_their_descriptions_count() {
    let device = Device::flex().autodiff();
    for posterior in POSTERIORS {
        let config = config(posterior);
        let counted = |model: ModelSpec| Totals::of(&model.layers(&config.posterior).unwrap()).unwrap().with_head;
        let mlp = MlpSpec::new([20, 15, 7]);
        let (lenet, lstm, resnet) = (small_lenet(), small_lstm(), small_resnet(Norm::Batch));
        assert_eq!(mlp.init(&config, &device).unwrap().num_params(), counted(ModelSpec::Mlp(mlp)), "{posterior}");
        assert_eq!(lenet.init(&config, &device).unwrap().num_params(), counted(ModelSpec::LeNet(lenet)), "{posterior}");
        assert_eq!(lstm.init(&config, &device).unwrap().num_params(), counted(ModelSpec::Lstm(lstm)), "{posterior}");
        let network = resnet.init(&config, &device).unwrap();
        assert_eq!(network.num_params(), counted(ModelSpec::ResNet18(resnet)), "{posterior}");
    }
    let config = config("k-tied:2");
    assert_eq!(LeNetSpec::default().init(&config, &device).unwrap().num_params(), 2_267_408);
    assert_eq!(LstmSpec::default().init(&config, &device).unwrap().num_params(), 2_694_144 + 257);
    assert_eq!(ResNet18Spec::default().init(&config, &device).unwrap().num_params(), 4_946_964);
}

#[test]
fn weights_have_the_names_of_the_description_and_noise_of_their_own() {
    let (device, config) = (Device::flex(), config("mean-field"));
    let resnet = small_resnet(Norm::Batch);
    let described = ModelSpec::ResNet18(resnet.clone()).layers(&config.posterior).unwrap();
    let described = described.iter().filter_map(|layer| layer.name.strip_suffix(".kernel"));
    let network = resnet.init(&config, &device).unwrap();
    let names: Vec<&str> = network.weights().iter().map(|weights| weights.name()).collect();
    assert_eq!(names, described.collect::<Vec<_>>());
    // Layers of one shape would begin with the same weights if they shared a number.
    let begins: Vec<Vec<f64>> = network.weights().iter().map(|w| host(w.kernel.loc())[..6].to_vec()).collect();
    let distinct: std::collections::HashSet<String> = begins.iter().map(|begin| format!("{begin:?}")).collect();
    assert_eq!(distinct.len(), names.len());
    let lstm = small_lstm().init(&config, &device).unwrap();
    let names: Vec<&str> = lstm.weights().iter().map(|weights| weights.name()).collect();
    assert_eq!(names, ["embedding", "lstm", "lstm.recurrent", "head"]);
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

/// How many parameters get no gradient from one step.
fn num_idle<N: Network>(network: &N, x: N::Input, estimator: Estimator) -> usize {
    let logits = network.forward(x, &Pass::sampled(1, 0, estimator)).unwrap();
    let nll = match logits.dims() {
        [3, 1] => ops::sigmoid_cross_entropy(logits.reshape([3]), &[0.0, 1.0, 1.0]).unwrap().mean(),
        dims => {
            assert_eq!(dims, [3, 5]);
            ops::softmax_cross_entropy(logits, &[0, 4, 2]).unwrap().mean()
        }
    };
    let grads = (nll + network.kl().unwrap() / 1000.0).backward();
    let mut idle = Idle { grads: &grads, count: 0 };
    network.visit(&mut idle);
    idle.count
}

#[test]
fn every_parameter_of_a_network_gets_a_gradient() {
    let device = Device::flex().autodiff();
    for posterior in POSTERIORS {
        for estimator in [Estimator::Reparam, Estimator::Flipout, Estimator::Local] {
            let (config, what) = (config(posterior), format!("{posterior} {estimator}"));
            let lenet = small_lenet().init(&config, &device).unwrap();
            assert_eq!(num_idle(&lenet, images(3), estimator), 0, "lenet {what}");
            let lstm = small_lstm().init(&config, &device).unwrap();
            assert_eq!(num_idle(&lstm, words(3), estimator), 0, "lstm {what}");
            for norm in [Norm::Batch, Norm::Frozen] {
                let resnet = small_resnet(norm).init(&config, &device).unwrap();
                // All but the running averages: two a norm, nine norms.
                assert_eq!(num_idle(&resnet, images(3), estimator), 18, "resnet {norm:?} {what}");
            }
        }
    }
}

#[test]
fn empirical_priors_and_caps_reach_every_layer_of_every_network() {
    let device = Device::flex().autodiff();
    let mut config = config("k-tied:2");
    (config.posterior.init_scale, config.posterior.cap) = (0.3, Some(0.1));
    fn check<N: Network>(network: N) {
        let divergences = |network: &N| network.weights().iter().map(|w| host(w.kl().unwrap())[0]).collect::<Vec<_>>();
        let before = divergences(&network);
        let (clipped, empirical) = (network.clone().clipped(), network.with_empirical_priors().unwrap());
        for (other, what) in [(divergences(&clipped), "clipped"), (divergences(&empirical), "empirical")] {
            for (i, (before, after)) in before.iter().zip(other).enumerate() {
                // Points have no divergence and stay.
                assert!(*before == 0.0 || *before != after, "{what}: layer {i} {before} {after}");
            }
        }
    }
    check(small_lenet().init(&config, &device).unwrap());
    check(small_lstm().init(&config, &device).unwrap());
    check(small_resnet(Norm::Batch).init(&config, &device).unwrap());
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
    let mut config = config("k-tied:2");
    (config.posterior.init_scale, config.posterior.cap) = (0.3, Some(0.1));
    let lenet = small_lenet().init(&config, &Device::flex().autodiff()).unwrap();
    let before = host(lenet.kl().unwrap())[0];
    let after = host(lenet.clone().clipped().kl().unwrap())[0];
    // σ from about 0.3 to 0.1, prior 0.2: the divergence changes by a known amount a weight, far above rounding.
    assert!((before - after).abs() > 1.0, "{before} {after}");
    assert_eq!(host(lenet.clone().clipped().clipped().kl().unwrap())[0], after);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let mlp = MlpSpec::new([4, 3]).init(&config("k-tied:2"), &device).unwrap();
    let error = mlp.forward(Tensor::zeros([2, 5], &device), &Pass::Means).unwrap_err().to_string();
    assert_eq!(error, "dense: `x` must have shape [2, 4], got [2, 5]");
    let lenet = small_lenet().init(&config("mean-field"), &device).unwrap();
    assert!(lenet.forward(Tensor::zeros([2, 8, 8, 3], &device), &Pass::Means).is_err());
}
