//! Compressed and pruned networks: what changes, what stays, what is refused.

use burn::tensor::{Device, Tensor};
use ktied::analyze::{Settings, analyze};
use ktied::checkpoint::module_tensors;
use ktied::compress::{LayerFit, Method, compress, target};
use ktied::config::{Config, Preset, Tree};
use ktied::data::{Batches, DataSet, Inputs, Split, Targets, Units, load};
use ktied::models::Network;
use ktied::nn::{Estimator, LayerConfig, LinearConfig, Pass, Weights};
use ktied::posterior::{Family, MeanField, Posterior, ScaleInit, WeightInit};
use ktied::prune::{self, Signals};
use ktied::train::Trainer;
use ktied::{NoiseKey, ScaleForm};

fn config(preset: Preset, settings: &[(&str, &str)]) -> Config {
    let mut tree = Tree::of(&preset.config());
    settings.iter().for_each(|(key, value)| tree.set(key, value).unwrap());
    tree.config().unwrap()
}

fn digits(settings: &[(&str, &str)]) -> (Trainer, DataSet) {
    let config = config(Preset::MlpDigits, settings);
    let data = load(&config.data).unwrap();
    (Trainer::new(config, &data).unwrap(), data)
}

fn steps(mut trainer: Trainer, data: &DataSet, number: usize) -> Trainer {
    let (size, seed) = (trainer.config().train.batch, trainer.config().train.seed);
    for batch in Batches::new(&data.train, size, seed).from(trainer.state().step).take(number) {
        (trainer, _) = trainer.step(batch.unwrap()).unwrap();
    }
    trainer
}

fn shrunk(trainer: &Trainer, data: &DataSet, method: Method, rank: usize) -> (Trainer, Vec<LayerFit>) {
    let target = target(trainer.config(), method, rank, false).unwrap();
    compress(trainer, target, data, |_| {}).unwrap()
}

fn values(tensor: Tensor<2>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

#[test]
fn a_compressed_run_keeps_every_mean_and_bias_saves_loads_and_trains_on() {
    let (trainer, data) = digits(&[("posterior.kind", "mean-field")]);
    let trainer = steps(trainer, &data, 30);
    let before = module_tensors(trainer.model()).unwrap();
    for (method, posterior) in [(Method::Positive, "k-tied:2"), (Method::Svd, "low-rank:2")] {
        let (compressed, fits) = shrunk(&trainer, &data, method, 2);
        assert_eq!(compressed.config().posterior.kind.to_string(), posterior);
        assert_eq!(fits.iter().map(|fit| fit.layer.as_str()).collect::<Vec<_>>(), ["dense_1", "dense_2", "dense_3"]);
        for (path, tensor) in module_tensors(compressed.model()).unwrap().iter() {
            match before.get(path) {
                Some(source) => assert_eq!(source, tensor, "{path}"),
                None => assert!(path.contains("kernel."), "{path}"),
            }
        }
        // The divergence that was minimised is that between the two networks.
        let kl: f64 = fits.iter().map(|fit| fit.kl).sum();
        let pairs = trainer.model().network.weights().into_iter().zip(compressed.model().network.weights());
        let between: f64 = pairs.map(|(trained, small)| divergence(trained, small)).sum();
        assert!((kl - between).abs() < 1e-3 * kl, "{method}: {kl} {between}");

        let checkpoint = compressed.checkpoint().unwrap();
        let again = Trainer::resume(compressed.config().clone(), &data, &checkpoint).unwrap();
        assert_eq!(again.checkpoint().unwrap().digest(), checkpoint.digest());
        let on = steps(again, &data, 3);
        assert_eq!(on.state().step, 3);
        assert_ne!(on.checkpoint().unwrap().digest(), checkpoint.digest());
    }
}

/// KL(small ‖ trained) of the kernels, straight from the closed form.
fn divergence(trained: &Weights, small: &Weights) -> f64 {
    let (p, q) = (values(trained.scale().unwrap()), values(small.scale().unwrap()));
    p.iter().zip(q).map(|(p, q)| (p / q).ln() + q * q / (2.0 * p * p) - 0.5).sum()
}

#[test]
fn each_model_ties_what_its_k_tied_run_ties_and_convolutions_on_request() {
    // Few examples of the right shape: nothing is trained here.
    let images = |width: usize| {
        let split = |rows: usize| Split {
            inputs: Inputs::Floats { data: vec![0.1; rows * width], width, units: Units::default() },
            targets: Targets::Classes { labels: (0..rows as u32).map(|row| row % 10).collect(), num_classes: 10 },
        };
        DataSet {
            train: split(20),
            validation: split(10),
            test: split(10),
            ..load(&Preset::MlpDigits.config().data).unwrap()
        }
    };
    let tied = |preset, settings: &[(&str, &str)], width, convolutions| -> Vec<String> {
        let (mut config, data) = (config(preset, settings), images(width));
        config.train.batch = data.train.len();
        let trainer = Trainer::new(config, &data).unwrap();
        let target = target(trainer.config(), Method::Svd, 1, convolutions).unwrap();
        let (_, fits) = compress(&trainer, target, &data, |_| {}).unwrap();
        fits.into_iter().map(|fit| fit.layer).collect()
    };
    let small =
        [("model.side", "8"), ("model.channels", "1"), ("model.classes", "10"), ("posterior.kind", "mean-field")];
    let lenet = [&small[..], &[("model.filters", "3,4"), ("model.dense", "6")]].concat();
    assert_eq!(tied(Preset::LeNetCifar100, &lenet, 64, false), ["dense_1", "dense_2"]);
    assert_eq!(tied(Preset::LeNetCifar100, &lenet, 64, true).len(), 4);
    let resnet = [&small[..], &[("model.widths", "3,3,4,4"), ("model.side", "32")]].concat();
    assert_eq!(tied(Preset::ResNet18Cifar10, &resnet, 1024, false).len(), 14);
}

#[test]
fn what_cannot_be_compressed_is_refused_by_name() {
    let (mean_field, _) = digits(&[("posterior.kind", "mean-field")]);
    let refuse = |config: &Config, rank| target(config, Method::Svd, rank, false).unwrap_err().to_string();
    assert_eq!(refuse(mean_field.config(), 0), "layer `dense_1.kernel` is 64×64: rank must be 1 to 64, got 0");
    assert_eq!(refuse(mean_field.config(), 11), "layer `dense_3.kernel` is 64×10: rank must be 1 to 10, got 11");
    let (tied, _) = digits(&[("posterior.kind", "k-tied:2")]);
    let expected = "only a mean-field posterior can be compressed, and this one is k-tied:2";
    assert_eq!(refuse(tied.config(), 1), expected);
    let conv = target(mean_field.config(), Method::Svd, 1, true).unwrap_err().to_string();
    assert!(conv.contains("no convolutions"), "{conv}");
}

#[test]
fn a_number_that_is_not_finite_is_named_before_any_decomposition_sees_it() {
    let (trainer, data) = digits(&[("posterior.kind", "mean-field")]);
    for (where_, expected) in [
        ("loc", "the mean of dense_2 at row 3, column 5"),
        ("scale", "the standard deviation of dense_2 at row 3, column 5"),
    ] {
        let mut model = trainer.model().clone();
        model.network = model
            .network
            .map_weights(|weights| {
                if weights.name() != "dense_2" {
                    return Ok::<_, ktied::Error>(weights);
                }
                let Family::MeanField(mut kernel) = weights.kernel.clone() else { unreachable!() };
                let param = if where_ == "loc" { &mut kernel.loc } else { &mut kernel.raw_scale };
                *param = param.clone().map(|tensor| {
                    let bad = Tensor::full([1, 1], f32::NAN, &tensor.device());
                    tensor.slice_assign([3..4, 5..6], bad)
                });
                weights.with_kernel(Family::MeanField(kernel))
            })
            .unwrap();
        let (bad, _) = digits(&[("posterior.kind", "mean-field")]);
        let bad = bad.with_model(&model).unwrap();
        let target = target(bad.config(), Method::Positive, 2, false).unwrap();
        let error = compress(&bad, target, &data, |_| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let settings = Settings { num_train: 1400, tolerance: 0.05, cap: None };
        let error = analyze(&bad.model().network, &settings, |_, _| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(Signals::of(&bad.model().network).unwrap_err().to_string().contains(expected));
    }
}

#[test]
fn pruned_weights_are_zero_in_every_pass_and_stay_so_in_training() {
    for posterior in ["mean-field", "k-tied:2", "low-rank:2", "matrix-normal"] {
        let (trainer, data) = digits(&[("posterior.kind", posterior)]);
        let trainer = steps(trainer, &data, 10);
        let signals = Signals::of(&trainer.model().network).unwrap();
        let (pruned, layers) = prune::prune(&trainer, &signals, signals.threshold(0.25).unwrap(), &data).unwrap();
        let (kept, all) = layers.iter().fold((0, 0), |(kept, all), layer| (kept + layer.kept, all + layer.weights));
        assert_eq!((kept, all), ((64 * 64 * 2 + 640) / 4, 64 * 64 * 2 + 640), "{posterior}");

        let checkpoint = pruned.checkpoint().unwrap();
        let again = Trainer::resume(pruned.config().clone(), &data, &checkpoint).unwrap();
        assert_eq!(again.checkpoint().unwrap().digest(), checkpoint.digest(), "{posterior}");
        let trained_on = steps(again, &data, 5);
        for (weights, before) in trained_on.model().network.weights().into_iter().zip(pruned.model().network.weights())
        {
            let mask = values(weights.mask().unwrap());
            assert_eq!(mask, values(before.mask().unwrap()), "{posterior}");
            let zero = |tensor: Tensor<2>| values(tensor).iter().zip(&mask).all(|(x, kept)| *kept == 1.0 || *x == 0.0);
            assert!(zero(weights.loc()) && zero(weights.scale().unwrap()), "{posterior}");
        }
        let evaluation = trained_on.evaluate(&data.test, 5, |_| {}).unwrap();
        assert!(evaluation.neg_elbo.value.is_finite(), "{posterior}");
        // Pruned once more, nothing comes back.
        let signals = Signals::of(&trained_on.model().network).unwrap();
        let (twice, layers) = prune::prune(&trained_on, &signals, signals.threshold(0.1).unwrap(), &data).unwrap();
        assert!(layers.iter().map(|layer| layer.kept).sum::<usize>() <= all / 10 + 1);
        for (after, before) in twice.model().network.weights().into_iter().zip(pruned.model().network.weights()) {
            let (after, before) = (values(after.mask().unwrap()), values(before.mask().unwrap()));
            assert!(after.iter().zip(&before).all(|(after, before)| after <= before));
        }
    }
}

#[test]
fn the_weights_with_the_largest_signal_are_the_ones_that_stay() {
    let (trainer, data) = digits(&[("posterior.kind", "mean-field")]);
    let trainer = steps(trainer, &data, 10);
    let signals = Signals::of(&trainer.model().network).unwrap();
    let threshold = signals.threshold(0.3).unwrap();
    let (pruned, _) = prune::prune(&trainer, &signals, threshold, &data).unwrap();
    for (before, after) in trainer.model().network.weights().into_iter().zip(pruned.model().network.weights()) {
        let (loc, scale) = (values(before.loc()), values(before.scale().unwrap()));
        let mask = values(after.mask().unwrap());
        let right = loc
            .iter()
            .zip(&scale)
            .zip(&mask)
            .all(|((mu, sigma), kept)| (mu.abs() / sigma >= threshold) == (*kept == 1.0));
        assert!(right);
    }
    let refuse = |keep| signals.threshold(keep).unwrap_err().to_string();
    assert_eq!(refuse(1.5), "the share of weights to keep must be between 0 and 1, got 1.5");
    assert!(signals.threshold(f64::NAN).is_err());
    let (point, _) = digits(&[("posterior.kind", "point")]);
    assert!(Signals::of(&point.model().network).unwrap_err().to_string().contains("no standard deviations"));
}

#[test]
fn a_mask_that_lets_everything_pass_changes_neither_outputs_nor_divergence() {
    let x = Tensor::<2>::from_floats([[0.3, -1.0, 0.5, 2.0], [1.0, 0.0, -0.5, 0.25]], &Device::flex());
    let layer = |pruned: bool, posterior: &str| {
        let layer = LayerConfig { pruned, ..LayerConfig::new("a", 3, posterior.parse().unwrap()) };
        let scale = ScaleInit { scale: 0.3, ..ScaleInit::default() };
        let layer = LayerConfig { scale, ..layer };
        LinearConfig { inputs: 4, outputs: 3, activation: Default::default(), layer }.init(&Device::flex()).unwrap()
    };
    for posterior in ["mean-field", "k-tied:2", "low-rank:2"] {
        let (plain, masked) = (layer(false, posterior), layer(true, posterior));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-5 * a.abs().max(1.0);
        let kl = |weights: &Weights| weights.kl().unwrap().into_data().iter::<f64>().sum::<f64>();
        assert!(close(kl(&plain.weights), kl(&masked.weights)), "{posterior}");
        for estimator in [Estimator::Reparam, Estimator::Flipout, Estimator::Local] {
            let pass = Pass::sampled(7, 1, estimator);
            let (a, b) = (plain.forward(x.clone(), &pass).unwrap(), masked.forward(x.clone(), &pass).unwrap());
            assert!(values(a).into_iter().zip(values(b)).all(|(a, b)| close(a, b)), "{posterior} {estimator}");
        }
    }
}

#[test]
fn a_kernel_without_any_weight_left_sees_nothing_of_its_input() {
    let x = Tensor::<2>::from_floats([[0.3, -1.0, 0.5, 2.0], [1.0, 0.0, -0.5, 0.25]], &Device::flex());
    for posterior in ["mean-field", "k-tied:2", "low-rank:2"] {
        let layer = LayerConfig::new("a", 3, posterior.parse().unwrap());
        let linear = LinearConfig { inputs: 4, outputs: 3, activation: Default::default(), layer };
        let linear = linear.init(&Device::flex()).unwrap();
        let empty =
            linear.clone().map_weights(|weights| weights.with_mask(Tensor::zeros([4, 3], &Device::flex()))).unwrap();
        for estimator in [Estimator::Reparam, Estimator::Flipout, Estimator::Local] {
            let pass = Pass::sampled(7, 1, estimator);
            let of = |x: Tensor<2>| values(empty.forward(x, &pass).unwrap());
            assert_eq!(of(x.clone()), of(x.zeros_like()), "{posterior} {estimator}");
            assert_ne!(of(x.clone()), values(linear.forward(x.clone(), &pass).unwrap()), "{posterior} {estimator}");
        }
    }
}

#[test]
fn priors_that_were_learned_are_kept_when_a_run_is_made_smaller() {
    let (trainer, data) =
        digits(&[("posterior.kind", "mean-field"), ("prior.kind", "empirical"), ("prior.every", "5")]);
    let first = trainer.model().network.weights()[0].prior_scales();
    let trainer = steps(trainer, &data, 12);
    let priors = |trainer: &Trainer| -> Vec<[f64; 2]> {
        trainer.model().network.weights().iter().map(|weights| weights.prior_scales()).collect()
    };
    assert_ne!(priors(&trainer)[0], first);
    let (compressed, _) = shrunk(&trainer, &data, Method::Positive, 2);
    assert_eq!(priors(&compressed), priors(&trainer));
    let again = Trainer::resume(compressed.config().clone(), &data, &compressed.checkpoint().unwrap()).unwrap();
    assert_eq!(priors(&again), priors(&trainer));
}

#[test]
fn the_divergence_of_a_pruned_kernel_is_that_of_the_weights_that_are_left() {
    let (device, scale) = (Device::flex(), ScaleInit { form: ScaleForm::Softplus, scale: 0.1, cap: None });
    let init = WeightInit::he(4, scale, NoiseKey::new(1), &device);
    let kernel = MeanField::new([4, 3], init).unwrap();
    let layer = LayerConfig { bias: None, ..LayerConfig::new("a", 0, "mean-field".parse().unwrap()) };
    let linear = LinearConfig { inputs: 4, outputs: 3, activation: Default::default(), layer };
    let linear = linear.init_with(kernel.clone(), &Device::flex()).unwrap();
    let kept = |i: usize| i % 3 != 1;
    let mask: Vec<f32> = (0..12).map(|i| if kept(i) { 1.0 } else { 0.0 }).collect();
    let weights =
        linear.weights.with_mask(Tensor::<1>::from_floats(&mask[..], &Device::flex()).reshape([4, 3])).unwrap();
    let (loc, scale) = (values(kernel.loc()), values(kernel.scale().unwrap()));
    let terms = loc.iter().zip(&scale).map(|(mu, sigma)| (0.2 / sigma).ln() + (sigma * sigma + mu * mu) / 0.08 - 0.5);
    let expected: f64 = terms.enumerate().filter(|(i, _)| kept(*i)).map(|(_, term)| term).sum();
    let found: f64 = weights.kl().unwrap().into_data().iter::<f64>().sum();
    assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    assert!(weights.with_mask(Tensor::ones([3, 4], &Device::flex())).is_err());
}
