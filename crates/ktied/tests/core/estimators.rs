//! What the estimators draw: the distribution of activations against the exact one, and what may correlate with what.
//!
//! Bounds are Dvoretzky–Kiefer–Wolfowitz and normal ones with a false alarm of 1e-6; the streams are fixed.

use burn::tensor::{Device, Int, Tensor};
use ktied::nn::{
    BatchNormConfig, Conv2dConfig, EmbeddingConfig, Estimator, LayerConfig, Linear, LinearConfig, LstmConfig, Pass,
};
use ktied::ops::{self, Border, ConvWindow};
use ktied::posterior::{Family, Posterior, ScaleInit};
use ktied::{Activation, NoiseKey};

use crate::support::{assert_close, distance_from_normal, dkw_bound, host, random};

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
    let layer = LayerConfig { bias: None, scale, ..LayerConfig::new("layer", 0, "k-tied:2".parse().unwrap()) };
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
    let layer = LayerConfig { bias: None, ..layer_config("k-tied:2", 0) };
    let config = Conv2dConfig { channels: 2, outputs: 3, window, activation: Activation::Identity, layer };
    let conv = config.init(&Device::flex()).unwrap();
    let x = Tensor::<1>::from_floats(&random(2 * 16 * 2, 7)[..], &Device::flex()).reshape([2, 4, 4, 2]);
    let (loc, scale) = (conv.weights.kernel.loc(), conv.weights.kernel.scale().unwrap());
    let product = |x: Tensor<4>, w| host(ops::conv2d(x, w, None, window, Activation::Identity, None).unwrap());
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
fn flipout_of_an_lstm_is_a_draw_of_its_weights_for_every_example() {
    // Two steps of one input: the second sees both kernels. A draw by Flipout and one by reparameterisation must give
    // hidden states of the same distribution, example by example (two-sample bound, false alarm 1e-6).
    let layer = LayerConfig { bias: None, ..layer_config("k-tied:2", 0) };
    let lstm = LstmConfig { inputs: 2, hidden: 2, layer }.init(&Device::flex()).unwrap();
    let x = Tensor::<1>::from_floats(&random(2 * 2, 7)[..], &Device::flex()).reshape([2, 1, 2]).repeat_dim(1, 3);
    let num_steps = 6000;
    let draws = |estimator| {
        let mut states = vec![Vec::new(); 6];
        for step in 0..num_steps {
            let h = host(lstm.forward_last(x.clone(), &Pass::sampled(4, step, estimator)).unwrap());
            (0..6).for_each(|i| states[i].push(h[i]));
        }
        states
    };
    let (reparam, flipout) = (draws(Estimator::Reparam), draws(Estimator::Flipout));
    let bound = 2.0 * dkw_bound(num_steps as usize);
    for (a, b) in reparam.iter().zip(&flipout) {
        let distance = distance_between(a.clone(), b.clone());
        assert!(distance < bound, "{distance}, allowed {bound}");
    }
    // Equal examples: reparameterisation moves them together; Flipout leaves what their |ΔW| have in common.
    let centred = |z: &[f64]| {
        let mean = z.iter().sum::<f64>() / z.len() as f64;
        z.iter().map(|z| z - mean).collect::<Vec<_>>()
    };
    let r = |z: &[Vec<f64>]| {
        let (a, b) = (centred(&z[0]), centred(&z[2]));
        correlation(&a, &b) / (correlation(&a, &a) * correlation(&b, &b)).sqrt()
    };
    assert!(r(&flipout).abs() < 0.1 && r(&reparam) > 0.999, "{} {}", r(&flipout), r(&reparam));
}

/// Largest distance between two empirical distribution functions.
fn distance_between(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let share = |sorted: &[f64], z: f64| sorted.partition_point(|&s| s <= z) as f64 / sorted.len() as f64;
    a.iter().chain(&b).map(|&z| (share(&a, z) - share(&b, z)).abs()).fold(0.0, f64::max)
}

#[test]
fn embeddings_draw_their_rows_under_both_estimators() {
    let layer = LayerConfig { scale: ScaleInit { scale: 0.3, ..ScaleInit::default() }, ..layer_config("k-tied:2", 0) };
    let embedding = EmbeddingConfig { words: 4, width: 3, layer }.init(&Device::flex()).unwrap();
    let ids = Tensor::<2, Int>::from_data([[1, 3, 1]], &Device::flex());
    let (loc, scale) = (host(embedding.weights.kernel.loc()), host(embedding.weights.kernel.scale().unwrap()));
    for estimator in [Estimator::Reparam, Estimator::Flipout] {
        let mut z = vec![Vec::new(); 3];
        for step in 0..4000 {
            let y = host(embedding.forward(ids.clone(), &Pass::sampled(1, step, estimator)).unwrap());
            assert_eq!(y[..3], y[6..], "one word has one vector in one example");
            (0..3).for_each(|j| z[j].push((y[j] - loc[3 + j]) / scale[3 + j]));
        }
        for activation in z {
            assert!(distance_from_normal(activation) < dkw_bound(4000), "{estimator}");
        }
    }
}

#[test]
fn time_first_embeddings_are_the_others_with_time_first() {
    let ids = Tensor::<2, Int>::from_data([[1, 3, 1, 0], [2, 2, 0, 3]], &Device::flex());
    for posterior in ["point", "mean-field", "k-tied:2"] {
        let layer = layer_config(posterior, 0);
        let embedding = EmbeddingConfig { words: 4, width: 3, layer }.init(&Device::flex()).unwrap();
        for pass in [Pass::Means, Pass::sampled(1, 2, Estimator::Reparam), Pass::sampled(1, 2, Estimator::Flipout)] {
            let expected = host(embedding.forward(ids.clone(), &pass).unwrap().swap_dims(0, 1));
            assert_eq!(
                host(embedding.forward_time_first(ids.clone(), &pass).unwrap()),
                expected,
                "{posterior} {pass:?}"
            );
        }
    }
}

#[test]
fn the_draws_of_one_step_are_independent_and_the_first_is_the_step_s_own() {
    let (layer, x) = even_layer();
    let passes: Vec<Pass> = Pass::several(3, 7, Estimator::Reparam, 3).collect();
    assert_eq!((passes.len(), passes[0]), (3, Pass::sampled(3, 7, Estimator::Reparam)));
    assert_eq!(Pass::several(3, 7, Estimator::Local, 0).count(), 1, "no draw is one draw");
    let noise =
        |pass: &Pass| host(layer.forward(x.clone(), pass).unwrap() - layer.forward(x.clone(), &Pass::Means).unwrap());
    let mut products = Vec::new();
    for step in 0..2000 {
        let draws: Vec<_> = Pass::several(3, step, Estimator::Reparam, 2).map(|pass| noise(&pass)[0]).collect();
        let prediction = noise(&Pass::prediction(3, step))[0];
        products.push([draws[0] * draws[1], draws[0] * prediction, draws[0] * draws[0]]);
    }
    let mean = |i: usize| products.iter().map(|p| p[i]).sum::<f64>() / 2000.0;
    let bound = 4.9 / 2000f64.sqrt();
    assert!((mean(0) / mean(2)).abs() < bound && (mean(1) / mean(2)).abs() < bound);
}

#[test]
fn stacked_predictions_are_the_single_ones() {
    let (layer, x) = even_layer();
    let stack: Tensor<3> = Pass::stack_predictions(5, 4, |pass| layer.forward(x.clone(), &pass)).unwrap();
    assert_eq!(stack.dims(), [4, 2, 5]);
    let single = (0..4).flat_map(|draw| host(layer.forward(x.clone(), &Pass::prediction(5, draw)).unwrap()));
    assert_eq!(host(stack), single.collect::<Vec<_>>());
}

#[test]
fn local_reparameterisation_is_refused_where_weights_are_shared_with_a_reason_and_a_way_out() {
    let (device, local) = (Device::flex(), Pass::sampled(1, 0, Estimator::Local));
    let layer = |name: &str| LayerConfig { name: name.into(), ..layer_config("mean-field", 0) };
    let window = ConvWindow { kernel: [3, 3], stride: [1, 1], border: Border::Same };
    let conv =
        Conv2dConfig { channels: 1, outputs: 1, window, activation: Activation::Identity, layer: layer("conv_1") };
    let conv = conv.init(&device).unwrap().forward(Tensor::zeros([1, 4, 4, 1], &device), &local).map(drop);
    let lstm = LstmConfig { inputs: 2, hidden: 3, layer: layer("lstm") };
    let lstm = lstm.init(&device).unwrap().forward(Tensor::zeros([2, 1, 2], &device), &local).map(drop);
    let embedding = EmbeddingConfig { words: 4, width: 2, layer: layer("words") };
    let embedding = embedding.init(&device).unwrap().forward(Tensor::zeros([1, 2], &device), &local).map(drop);
    let dense = LinearConfig { inputs: 2, outputs: 2, activation: Activation::Identity, layer: layer("dense") };
    let dense = dense.init(&device).unwrap();
    let several = dense.forward(Tensor::<3>::zeros([2, 5, 2], &device), &local).map(drop);
    for (refused, subject) in [
        (conv, "layer `conv_1` is a convolution"),
        (lstm, "layer `lstm` is a recurrent layer"),
        (embedding, "layer `words` is an embedding"),
        (several, "layer `dense` is a dense layer applied at several positions"),
    ] {
        let expected = format!(
            "{subject} and uses each weight at several positions, which local reparameterisation would treat as \
             independent: use flipout or reparam there"
        );
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
    assert!(dense.forward(Tensor::<3>::ones([2, 1, 2], &device), &local).is_ok(), "one position is no sharing");
}

#[test]
fn bad_words_and_bad_ranks_are_refused() {
    let device = Device::flex();
    let embedding = EmbeddingConfig { words: 4, width: 2, layer: layer_config("mean-field", 0) }.init(&device).unwrap();
    for (id, found) in [(4, "got 4"), (-1, "got -1")] {
        let ids = Tensor::<2, Int>::from_data([[0, id]], &device);
        let sentence = embedding.forward(ids, &Pass::Means).unwrap_err().to_string();
        assert_eq!(sentence, format!("the embedding has words 0 to 3, {found}"));
    }
    let lstm = LstmConfig { inputs: 2, hidden: 3, layer: layer_config("k-tied:3", 0) };
    let sentence = lstm.init(&device).unwrap_err().to_string();
    assert_eq!(sentence, "layer `layer` is 2×12: rank must be 1 to 2, got 3");
    let dense = linear("mean-field", 0).forward(Tensor::<1>::zeros([6], &device), &Pass::Means);
    assert_eq!(dense.unwrap_err().to_string(), "dense: `dimensions of x` must be at least 2, got 1");
}

#[test]
fn running_averages_take_in_training_batches_and_nothing_else() {
    let device = Device::flex();
    let norm = BatchNormConfig::new(1).init(&device).unwrap();
    let x = Tensor::<2>::from_floats([[1.0], [3.0]], &device); // mean 2, variance 1
    let averages = || [host(norm.running_mean.value()), host(norm.running_var.value())].concat();
    norm.forward(x.clone(), &Pass::Means).unwrap();
    norm.forward(x.clone(), &Pass::prediction(1, 0)).unwrap();
    assert_eq!(averages(), [0.0, 1.0]);
    let train = Pass::sampled(1, 0, Estimator::Reparam);
    let y = host(norm.forward(x.clone(), &train).unwrap());
    assert_close("batch", &y, &[-1.0 / 1.001f64.sqrt(), 1.0 / 1.001f64.sqrt()], 1e-6);
    assert_close("after one", &averages(), &[0.02, 1.0], 1e-6);
    norm.forward(x.clone(), &train).unwrap();
    assert_close("after two", &averages(), &[0.02 * 0.99 + 0.02, 1.0], 1e-6);
    let y = host(norm.forward(x.clone(), &Pass::Means).unwrap());
    assert_close("running", &y, &[(1.0 - 0.0398) / 1.001f64.sqrt(), (3.0 - 0.0398) / 1.001f64.sqrt()], 1e-6);
    let frozen = BatchNormConfig { frozen: true, ..BatchNormConfig::new(1) }.init(&device).unwrap();
    let y = host(frozen.forward(x, &train).unwrap());
    assert_close("frozen", &y, &[1.0 / 1.001f64.sqrt(), 3.0 / 1.001f64.sqrt()], 1e-6);
    assert_eq!(host(frozen.running_mean.value()), [0.0]);
    for bad in [-0.1, 1.5, f64::NAN] {
        let error = BatchNormConfig { momentum: bad, ..BatchNormConfig::new(1) }.init(&device).unwrap_err();
        assert_eq!(error.to_string(), format!("the momentum of batch norm must be between 0 and 1, got {bad}"));
    }
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
