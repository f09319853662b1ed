//! burn's own layers: gradients reach means and scales, and divergences are those of our layers.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttentionConfig};
use burn::nn::conv::Conv2dConfig;
use burn::nn::gru::GruConfig;
use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{EmbeddingConfig, LinearConfig, LstmConfig};
use burn::tensor::{Device, Int, Tensor};
use ktied::convert::{Bayesian, Conversion, ConvertedPrior, InitialScale, bayesian};
use ktied::nn::{Estimator, Pass};
use ktied::posterior::{KTied, MeanField, Posterior, ScaleInit, WeightInit};
use ktied::prior::Prior;

use crate::support::{autodiff, config, converted, gradients, host, normals, scalar};

const POSTERIORS: [&str; 2] = ["mean-field", "k-tied:2"];

/// Converts a model, runs it in a pass of training on a device with the fused kernels and on one without, and looks
/// where the gradient of its squared output and its divergence goes.
fn check<M: Module>(name: &str, chosen: usize, init: impl Fn(&Device) -> M, output: impl Fn(&M, &Device) -> Tensor<1>) {
    for posterior in POSTERIORS {
        for device in [autodiff(), ndarray().autodiff()] {
            let model = bayesian(init(&device), &config(posterior).with_biases()).unwrap();
            let matrices = model.layers().filter(|layer| layer.shape.len() >= 2).count();
            assert_eq!(matrices, chosen, "{name}: {:?}", model.layers().map(|l| &l.path).collect::<Vec<_>>());
            check_gradients(&format!("{name} {posterior}"), &model, &output, &device);
        }
    }
}

fn check_gradients<M: Module>(
    name: &str,
    model: &Bayesian<M>,
    output: impl Fn(&M, &Device) -> Tensor<1>,
    device: &Device,
) {
    let run = |step| model.run(&Pass::sampled(1, step, Estimator::Reparam), |model| output(model, device)).unwrap();
    let means = model.run(&Pass::Means, |model| output(model, device)).unwrap();
    let [first, again, second] = [0, 0, 1].map(|step| host(run(step)));
    assert_eq!(first, again, "{name}");
    assert!(first != second && first != host(means), "{name}");

    let grads = (run(3).square().mean() + model.kl().unwrap() / 1e4).backward();
    let mut scales = 0;
    model
        .run(&Pass::Means, |inner| {
            for (path, largest) in gradients(inner, &grads) {
                let converted = model.layers().any(|layer| path.starts_with(&layer.path));
                scales += usize::from(path.contains(".posterior."));
                if converted {
                    assert!(largest.is_some_and(|g| g > 0.0 && g.is_finite()), "{name}: {path} {largest:?}");
                }
            }
        })
        .unwrap();
    assert!(scales >= model.layers().count(), "{name}: {scales}");
}

/// burn's older CPU backend, which has no fused kernels of ours.
#[allow(deprecated, reason = "it is the second backend that runs everywhere")]
fn ndarray() -> Device {
    Device::ndarray()
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let len = tensor.shape().num_elements();
    tensor.reshape([len])
}

#[test]
fn gradients_reach_every_mean_and_scale_of_burns_layers() {
    check("linear", 1, |d| LinearConfig::new(6, 5).init(d), |m, d| flat(m.forward(normals([3, 6], 1, d))));
    check(
        "conv2d",
        1,
        |d| Conv2dConfig::new([3, 4], [3, 3]).init(d),
        |m, d| flat(m.forward(normals([2, 3, 6, 6], 1, d))),
    );
    check("lstm", 8, |d| LstmConfig::new(3, 4, true).init(d), |m, d| flat(m.forward(normals([2, 5, 3], 1, d), None).0));
    check("gru", 6, |d| GruConfig::new(3, 4, true).init(d), |m, d| flat(m.forward(normals([2, 5, 3], 1, d), None)));
    check(
        "embedding",
        1,
        |d| EmbeddingConfig::new(4, 6).init(d),
        |m, d| flat(m.forward(Tensor::<2, Int>::from_ints([[0, 1], [2, 3]], d))),
    );
    check(
        "attention",
        4,
        |d| MultiHeadAttentionConfig::new(8, 2).with_dropout(0.0).init(d),
        |m, d| flat(m.forward(MhaInput::self_attn(normals([2, 3, 8], 1, d))).context),
    );
    check(
        "transformer",
        12,
        |d| TransformerEncoderConfig::new(8, 12, 2, 2).with_dropout(0.0).init(d),
        |m, d| flat(m.forward(TransformerEncoderInput::new(normals([2, 3, 8], 1, d)))),
    );
}

#[test]
fn divergences_are_those_of_our_posteriors_of_the_same_means_and_scales() {
    let device = autodiff();
    for posterior in POSTERIORS {
        for centred in [false, true] {
            let prior = match centred {
                true => ConvertedPrior::Centred { scale: 0.3 },
                false => ConvertedPrior::Normal { scale: 0.3 },
            };
            let model = Conv2dConfig::new([3, 4], [2, 2]).init(&device);
            let model = bayesian(model, &config(posterior).with_prior(prior)).unwrap();
            let [loc, scale] = model.moments("weight").unwrap().unwrap();
            assert_eq!(loc.dims(), [4, 12]);
            // Any two posteriors of the same means and standard deviations have the same divergence.
            let init = WeightInit::he(12, ScaleInit::default(), ktied::NoiseKey::new(0), &device);
            let mut own = MeanField::new([4, 12], init).unwrap();
            own.loc = burn::module::Param::from_tensor(loc.clone());
            own.raw_scale = burn::module::Param::from_tensor(scale.log());
            let prior = match centred {
                true => Prior::centred(loc, 0.3).unwrap(),
                false => Prior::normal(0.3).unwrap(),
            };
            let expected = scalar(own.kl(&prior).unwrap());
            let found = scalar(model.kl().unwrap());
            assert!((found / expected - 1.0).abs() < 2e-6, "{posterior} {centred}: {found} {expected}");
        }
    }
}

#[test]
fn draws_are_those_of_the_family_around_the_weights_that_the_model_had() {
    // Over many draws the mean and the standard deviation of each weight are what the model says of it.
    const DRAWS: u64 = 4000;
    for posterior in POSTERIORS {
        let linear = LinearConfig::new(3, 4).with_bias(false).init(&Device::flex());
        let had = host(linear.weight.val());
        let model = bayesian(linear, &config(posterior).with_scale(InitialScale::Absolute(0.3))).unwrap();
        let [loc, scale] = model.moments("weight").unwrap().unwrap().map(host);
        assert_eq!(loc, had);
        let (mut sums, mut squares) = (vec![0.0; 12], vec![0.0; 12]);
        for draw in 0..DRAWS {
            let weights = host(model.freeze_at(&Pass::prediction(5, draw)).unwrap().weight.val());
            for (i, weight) in weights.iter().enumerate() {
                sums[i] += weight - loc[i];
                squares[i] += (weight - loc[i]).powi(2);
            }
        }
        for i in 0..12 {
            // Normal and chi-squared limits, one failure in a million for all 24 of them.
            let z = sums[i] / scale[i] / (DRAWS as f64).sqrt();
            let c = (squares[i] / scale[i].powi(2) / DRAWS as f64 - 1.0) * (DRAWS as f64 / 2.0).sqrt();
            assert!(z.abs() < 5.6 && c.abs() < 5.8, "{posterior} {i}: {z} {c}");
        }
    }
}

#[test]
fn a_path_may_have_other_outputs_prior_and_scale() {
    let device = Device::flex();
    let conv = || Conv2dConfig::new([3, 4], [2, 5]).init(&device);
    let tied = |outputs| Conversion { outputs, ..Conversion::new("k-tied:1".parse().unwrap()) };
    for (outputs, matrix) in [(None, [4, 30]), (Some(0), [4, 30]), (Some(1), [3, 40]), (Some(3), [24, 5])] {
        let model = bayesian(conv(), &config("mean-field").rule(|p| p.path == "weight", tied(outputs))).unwrap();
        let layer = model.layers().next().unwrap();
        assert_eq!((layer.matrix(), layer.num_params()), (matrix, 120 + matrix[0] + matrix[1]));
        // All draws are of the parameter's own shape, and its mean is where it was.
        let drawn = model.freeze_at(&Pass::prediction(1, 1)).unwrap();
        assert_eq!(drawn.weight.dims(), [4, 3, 2, 5]);
        let [mean, sd] = [host(model.clone().into_point().unwrap().weight.val()), host(drawn.weight.val())];
        let distance = mean.iter().zip(&sd).map(|(m, d)| (m - d).abs()).fold(0.0, f64::max);
        assert!(distance > 0.0 && distance < 0.08, "{distance}");
    }
    // Fan-in of a convolution: 3·2·5.
    let model = bayesian(conv(), &config("mean-field").with_prior(ConvertedPrior::He).with_biases()).unwrap();
    let scales: Vec<f64> = model.layers().map(|layer| layer.prior_scale).collect();
    assert!((scales[1] - (2.0f64 / 30.0).sqrt()).abs() < 1e-12 && scales[0] == 1.0, "{scales:?}");
}

#[test]
fn scales_may_begin_in_proportion_to_weights() {
    // Rows of very different sizes.
    let linear = || {
        let mut linear = LinearConfig::new(40, 30).init(&Device::flex());
        let sizes = Tensor::<1, Int>::arange(1..41, &Device::flex()).float().reshape([40, 1]);
        linear.weight = linear.weight.map(|weight| weight * sizes);
        linear
    };
    let relative = |posterior| bayesian(linear(), &config(posterior).with_scale(InitialScale::Relative(0.1))).unwrap();
    let [loc, scale] = relative("mean-field").moments("weight").unwrap().unwrap().map(host);
    let mean = |values: &[f64]| values.iter().map(|v| v.abs()).sum::<f64>() / values.len() as f64;
    for (w, s) in loc.iter().zip(&scale) {
        assert!((0.04..0.16).contains(&(s / w.abs().max(0.01 * mean(&loc)))), "{w} {s}");
    }
    // Tied scales follow the rows and columns only.
    let [loc, scale] = relative("k-tied:2").moments("weight").unwrap().unwrap().map(host);
    assert!((mean(&scale) / mean(&loc) / 0.1 - 1.0).abs() < 0.1, "{} {}", mean(&scale), mean(&loc));
    let sd_of = |i: usize| mean(&scale[30 * i..30 * (i + 1)]) / mean(&loc[30 * i..30 * (i + 1)]);
    assert!((0..40).all(|i| (0.07..0.14).contains(&sd_of(i))));
}

#[test]
fn tied_scales_take_the_parameters_that_the_table_says() {
    let model = converted(LinearConfig::new(784, 400).init(&Device::flex()), "k-tied:2");
    let layer = model.layers().next().unwrap();
    assert_eq!((layer.path.as_str(), layer.num_params()), ("weight", 784 * 400 + 2 * (784 + 400)));
    // And the bias, which stayed a point.
    assert_eq!(model.num_params(), 784 * 400 + 2 * (784 + 400) + 400);
    let own = KTied::new(
        "dense",
        [784, 400],
        2,
        WeightInit::he(784, ScaleInit::default(), ktied::NoiseKey::new(0), &Device::flex()),
    );
    assert_eq!(own.unwrap().num_params(), layer.num_params());
}
