//! What the estimators draw: the distribution of activations against the exact one, and what may correlate with what.
//!
//! Bounds are Dvoretzky–Kiefer–Wolfowitz and normal ones with a false alarm of 1e-6; the streams are fixed.

use burn::tensor::{Device, Tensor};
use ktied::nn::{Conv2dConfig, Estimator, LayerConfig, Linear, LinearConfig, Pass};
use ktied::ops::{self, Border, ConvWindow};
use ktied::posterior::{Family, Posterior, ScaleInit};
use ktied::{Activation, NoiseKey};

use crate::support::{assert_close, host, random};

const ESTIMATORS: [Estimator; 3] = [Estimator::Reparam, Estimator::Flipout, Estimator::Local];
const POSTERIORS: [&str; 4] = ["mean-field", "k-tied:1", "k-tied:2", "matrix-normal"];

fn layer_config(posterior: &str, id: u64) -> LayerConfig {
    let scale = ScaleInit { scale: 0.3, ..ScaleInit::default() };
    LayerConfig { scale, ..LayerConfig::new("layer", id, posterior.parse().unwrap()) }
}

fn linear(posterior: &str, id: u64) -> Linear {
    let config =
        LinearConfig { inputs: 6, outputs: 5, activation: Activation::Identity, layer: layer_config(posterior, id) };
    config.init(&Device::flex()).unwrap()
}

fn input(rows: usize) -> Tensor<2> {
    Tensor::<1>::from_floats(&random(rows * 6, 3)[..], &Device::flex()).reshape([rows, 6])
}

fn cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// Largest distance between the empirical and the standard normal distribution function.
fn distance_from_normal(mut z: Vec<f64>) -> f64 {
    z.sort_by(f64::total_cmp);
    let len = z.len() as f64;
    z.iter().enumerate().map(|(i, &z)| (cdf(z) - (i as f64 + 0.5) / len).abs()).fold(0.0, f64::max)
}

fn dkw_bound(len: usize) -> f64 {
    ((2.0f64 / 1e-6).ln() / (2.0 * len as f64)).sqrt()
}

/// Activations of many steps, standardised by their exact mean and standard deviation, one list an activation.
fn standardised(layer: &Linear, estimator: Estimator, x: &Tensor<2>, num_steps: u64) -> Vec<Vec<f64>> {
    let (weights, bias) = (&layer.weights.kernel, layer.weights.bias.as_ref().unwrap());
    let mean = host(x.clone().matmul(weights.loc()) + bias.loc());
    let variance = host(x.clone().square().matmul(weights.scale().unwrap().square()) + bias.scale().unwrap().square());
    let mut z = vec![Vec::new(); mean.len()];
    for step in 0..num_steps {
        let y = host(layer.forward(x.clone(), &Pass::sampled(1, step, estimator)).unwrap());
        for (i, y) in y.into_iter().enumerate() {
            z[i].push((y - mean[i]) / variance[i].sqrt());
        }
    }
    z
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64
}

#[test]
fn activations_follow_their_exact_distribution_under_every_estimator() {
    let num_steps = 4000;
    for posterior in POSTERIORS {
        for estimator in ESTIMATORS {
            let z = standardised(&linear(posterior, 0), estimator, &input(3), num_steps);
            for activation in z {
                let distance = distance_from_normal(activation);
                assert!(distance < dkw_bound(num_steps as usize), "{posterior} {estimator}: {distance}");
            }
        }
    }
}

/// Six inputs of 1 that count the same, no bias.
fn even_layer() -> (Linear, Tensor<2>) {
    let scale = ScaleInit { scale: 0.3, ..ScaleInit::default() };
    let layer = LayerConfig { bias: false, scale, ..LayerConfig::new("layer", 0, "k-tied:2".parse().unwrap()) };
    let config = LinearConfig { inputs: 6, outputs: 5, activation: Activation::Identity, layer };
    (config.init(&Device::flex()).unwrap(), Tensor::ones([2, 6], &Device::flex()))
}

#[test]
fn only_reparameterisation_shares_its_noise_between_examples() {
    // Two equal examples: one draw for the batch gives them the same activation, signs or local noise do not. Their
    // squares still hang together a little under Flipout, through the six |ε| that both see: by 1/6, not by 1.
    let (layer, x) = even_layer();
    let num_steps = 4000;
    let kernel = &layer.weights.kernel;
    let mean = host(x.clone().matmul(kernel.loc()));
    let variance = host(x.clone().square().matmul(kernel.scale().unwrap().square()));
    for estimator in ESTIMATORS {
        let mut z = vec![Vec::new(); 10];
        for step in 0..num_steps {
            let y = host(layer.forward(x.clone(), &Pass::sampled(2, step, estimator)).unwrap());
            (0..10).for_each(|i| z[i].push((y[i] - mean[i]) / variance[i].sqrt()));
        }
        let bound = 4.9 / (num_steps as f64).sqrt();
        for output in 0..5 {
            let (a, b) = (&z[output], &z[5 + output]);
            let squares = |z: &[f64]| z.iter().map(|z| z * z - 1.0).collect::<Vec<_>>();
            let (r, r_squares) = (correlation(a, b), correlation(&squares(a), &squares(b)) / 2.0);
            match estimator {
                Estimator::Reparam => assert!(r > 0.9 && r_squares > 0.8, "{r} {r_squares}"),
                Estimator::Flipout => assert!(r.abs() < bound && r_squares < 0.5, "{r} {r_squares}"),
                Estimator::Local => assert!(r.abs() < bound && r_squares.abs() < 3.0 * bound, "{r} {r_squares}"),
            }
        }
    }
}

#[test]
fn a_layers_divergence_is_that_of_its_kernel_and_its_bias() {
    for posterior in POSTERIORS {
        let weights = linear(posterior, 0).weights;
        let sum = |family: &Family| -> f64 {
            let (loc, scale) = (host(family.loc()), host(family.scale().unwrap()));
            loc.iter().zip(&scale).map(|(m, s)| (0.2 / s).ln() + (s * s + m * m) / 0.08 - 0.5).sum()
        };
        let expected = sum(&weights.kernel) + sum(weights.bias.as_ref().unwrap());
        let found = host(weights.kl().unwrap())[0];
        assert!((found - expected).abs() < 1e-5 * expected.abs(), "{posterior}: {found}, expected {expected}");
    }
}

#[test]
fn empirical_priors_of_a_layer_lower_its_divergence() {
    let weights = linear("k-tied:2", 0).weights;
    let before = host(weights.kl().unwrap())[0];
    let after = host(weights.with_empirical_priors().unwrap().kl().unwrap())[0];
    assert!(after < 0.9 * before, "{before} → {after}");
}

#[test]
fn steps_layers_and_seeds_have_noise_of_their_own() {
    let x = input(40);
    let layers = [linear("mean-field", 0), linear("mean-field", 1)];
    for estimator in ESTIMATORS {
        let noise = |layer: &Linear, seed, step| {
            let y = layer.forward(x.clone(), &Pass::sampled(seed, step, estimator)).unwrap();
            let mean = layer.forward(x.clone(), &Pass::Means).unwrap();
            host(y - mean)
        };
        let base = noise(&layers[0], 1, 1);
        assert_eq!(base, noise(&layers[0], 1, 1), "the same pass gives the same bits");
        let scale = correlation(&base, &base);
        for other in [noise(&layers[0], 1, 2), noise(&layers[0], 2, 1), noise(&layers[1], 1, 1)] {
            // 30 weights for 200 activations: reparameterised ones hang together, hence the wide bound.
            assert!((correlation(&base, &other) / scale).abs() < 0.9, "{estimator}");
            assert_ne!(base, other);
        }
    }
    assert_ne!(NoiseKey::new(1), NoiseKey::new(2));
}

#[test]
fn flipout_convolutions_have_the_variance_of_the_definition_at_every_position() {
    let window = ConvWindow { kernel: [3, 3], stride: [1, 1], border: Border::Same };
    let layer = LayerConfig { bias: false, ..layer_config("k-tied:2", 0) };
    let config = Conv2dConfig { channels: 2, outputs: 3, window, activation: Activation::Identity, layer };
    let conv = config.init(&Device::flex()).unwrap();
    let x = Tensor::<1>::from_floats(&random(2 * 16 * 2, 7)[..], &Device::flex()).reshape([2, 4, 4, 2]);
    let (loc, scale) = (conv.weights.kernel.loc(), conv.weights.kernel.scale().unwrap());
    let product = |x: Tensor<4>, w| host(ops::conv2d(x, w, None, window, Activation::Identity).unwrap());
    let (mean, variance) = (product(x.clone(), loc), product(x.clone().square(), scale.square()));
    let num_steps = 4000;
    for estimator in [Estimator::Reparam, Estimator::Flipout] {
        let mut z = vec![Vec::new(); mean.len()];
        for step in 0..num_steps {
            let y = host(conv.forward(x.clone(), &Pass::sampled(3, step, estimator)).unwrap());
            (0..y.len()).for_each(|i| z[i].push((y[i] - mean[i]) / variance[i].sqrt()));
        }
        for activation in z {
            assert!(distance_from_normal(activation) < dkw_bound(num_steps as usize), "{estimator}");
        }
    }
}

#[test]
fn local_reparameterisation_of_a_convolution_is_refused_with_a_reason_and_a_way_out() {
    let window = ConvWindow { kernel: [3, 3], stride: [1, 1], border: Border::Same };
    let layer = LayerConfig { name: "conv_1".into(), ..layer_config("mean-field", 0) };
    let config = Conv2dConfig { channels: 1, outputs: 1, window, activation: Activation::Identity, layer };
    let conv = config.init(&Device::flex()).unwrap();
    let x = Tensor::<4>::zeros([1, 4, 4, 1], &Device::flex());
    let sentence = conv.forward(x, &Pass::sampled(1, 0, Estimator::Local)).unwrap_err().to_string();
    assert_eq!(
        sentence,
        "layer `conv_1` is a convolution and uses each weight at several positions, which local reparameterisation \
         would treat as independent: use flipout or reparam there"
    );
}

#[test]
fn a_means_only_pass_is_the_ordinary_layer() {
    for posterior in ["point", "mean-field", "k-tied:2"] {
        let layer = linear(posterior, 0);
        let x = input(4);
        let expected = host(x.clone().matmul(layer.weights.kernel.loc()) + layer.weights.bias.as_ref().unwrap().loc());
        assert_close(posterior, &host(layer.forward(x, &Pass::Means).unwrap()), &expected, 1e-6);
    }
}

#[test]
fn estimators_have_names_that_round_trip() {
    for estimator in ESTIMATORS {
        assert_eq!(estimator.to_string().parse::<Estimator>().unwrap(), estimator);
    }
    let sentence = "locl".parse::<Estimator>().unwrap_err().to_string();
    assert_eq!(sentence, "estimator `locl` is unknown: use reparam, flipout or local");
}
