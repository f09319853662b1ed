//! Marginal passes: every example's output has the distribution that it has under one draw of the weights, and its noise
//! does not depend on the batch it comes in.

use burn::tensor::{Device, Tensor};
use ktied::Activation;
use ktied::models::{Mlp, MlpSpec, Network, NetworkConfig, PosteriorSpec};
use ktied::nn::{LayerConfig, Linear, LinearConfig, Pass};
use ktied::posterior::{Posterior, ScaleInit};

use crate::support::{assert_close, distance_from_normal, dkw_bound, host, random};

const POSTERIORS: [&str; 4] = ["mean-field", "k-tied:1", "k-tied:2", "matrix-normal"];
const DRAWS: u64 = 4000;

fn linear(posterior: &str, activation: Activation) -> Linear {
    let scale = ScaleInit { scale: 0.3, ..ScaleInit::default() };
    let layer = LayerConfig { scale, ..LayerConfig::new("layer", 3, posterior.parse().unwrap()) };
    LinearConfig { inputs: 6, outputs: 5, activation, layer }.init(&Device::flex()).unwrap()
}

fn input(rows: usize, columns: usize) -> Tensor<2> {
    Tensor::<1>::from_floats(&random(rows * columns, 3)[..], &Device::flex()).reshape([rows, columns])
}

fn mlp(posterior: &str, dropout: f64) -> Mlp {
    let mut spec = PosteriorSpec::new(posterior.parse().unwrap());
    spec.init_scale = 0.2;
    let sizes = MlpSpec { dropout, ..MlpSpec::new([6, 9, 8, 3]) };
    sizes.init(&NetworkConfig::new(spec), &Device::flex()).unwrap()
}

#[test]
fn activations_follow_their_exact_distribution_with_and_without_shared_moments() {
    let x = input(3, 6);
    for posterior in POSTERIORS {
        let layer = linear(posterior, Activation::Identity);
        let (kernel, bias) = (&layer.weights.kernel, layer.weights.bias.as_ref().unwrap());
        let mean = host(x.clone().matmul(kernel.loc()) + bias.loc());
        let variance =
            host(x.clone().square().matmul(kernel.scale().unwrap().square()) + bias.scale().unwrap().square());
        let moments = layer.moments(x.clone()).unwrap().unwrap();
        for shared in [false, true] {
            let mut z = vec![Vec::new(); mean.len()];
            for draw in 0..DRAWS {
                let pass = Pass::marginal(1, draw, 0);
                let y = if shared { layer.forward_from(&moments, &pass) } else { layer.forward(x.clone(), &pass) };
                let y = host(y.unwrap()).into_iter().zip(mean.iter().zip(&variance));
                y.enumerate().for_each(|(i, (y, (mean, variance)))| z[i].push((y - mean) / variance.sqrt()));
            }
            for activation in z {
                let distance = distance_from_normal(activation);
                assert!(distance < dkw_bound(DRAWS as usize), "{posterior}, shared {shared}: {distance}");
            }
        }
    }
}

#[test]
fn an_example_has_its_noise_in_whatever_batch_it_comes() {
    let x = input(7, 6);
    for (posterior, dropout) in [("k-tied:2", 0.0), ("mean-field", 0.0), ("point", 0.5), ("k-tied:2", 0.5)] {
        let network = mlp(posterior, dropout);
        let outputs = |first: usize, rows: usize| {
            let passes = network.passes(x.clone().narrow(0, first, rows)).unwrap();
            host(passes(&network, &Pass::marginal(4, 9, first as u64)).unwrap())
        };
        let parts = [outputs(0, 2), outputs(2, 4), outputs(6, 1)].concat();
        assert_close(posterior, &parts, &outputs(0, 7), 1e-6);
        // And another example has other noise.
        let [again, moved] = [0, 1].map(|first| {
            let passes = network.passes(x.clone().narrow(0, 0, 1)).unwrap();
            host(passes(&network, &Pass::marginal(4, 9, first)).unwrap())
        });
        assert_ne!(again, moved, "{posterior} {dropout}");
    }
}

#[test]
fn what_draws_share_changes_nothing() {
    let x = input(5, 6);
    for posterior in ["k-tied:1", "k-tied:3"] {
        let network = mlp(posterior, 0.0);
        let passes = network.passes(x.clone()).unwrap();
        for pass in [Pass::marginal(2, 0, 0), Pass::marginal(2, 1, 5), Pass::prediction(2, 1), Pass::Means] {
            let expected = host(network.forward(x.clone(), &pass).unwrap());
            assert_close(posterior, &host(passes(&network, &pass).unwrap()), &expected, 2e-6);
        }
    }
    // A point has nothing to share, and all its draws are one.
    let point = mlp("point", 0.0);
    let passes = point.passes(x.clone()).unwrap();
    assert_eq!(host(passes(&point, &Pass::marginal(2, 0, 0)).unwrap()), host(point.forward(x, &Pass::Means).unwrap()));
}

#[test]
fn averages_over_draws_are_those_of_drawn_weights() {
    // Two samples of the same mean: their difference, over its standard error, is a standard normal; 4.9 of them once
    // in a million times, and there are 15 outputs of 4 posteriors, for means and for squares.
    let x = input(5, 6);
    for posterior in POSTERIORS {
        let network = mlp(posterior, 0.0);
        let passes = network.passes(x.clone()).unwrap();
        let drawn =
            |pass: &dyn Fn(u64) -> Pass| (0..DRAWS).map(|d| host(passes(&network, &pass(d)).unwrap())).collect();
        let marginal: Vec<Vec<f64>> = drawn(&|draw| Pass::marginal(6, draw, 0));
        let joint: Vec<Vec<f64>> = drawn(&|draw| Pass::prediction(7, draw));
        for output in 0..15 {
            for power in [1, 2] {
                let [a, b] = [&marginal, &joint].map(|draws| {
                    let values: Vec<f64> = draws.iter().map(|draw| draw[output].powi(power)).collect();
                    let mean = values.iter().sum::<f64>() / DRAWS as f64;
                    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (DRAWS * DRAWS) as f64)
                });
                let z = (a.0 - b.0) / (a.1 + b.1).sqrt();
                assert!(z.abs() < 5.7, "{posterior}, output {output}, power {power}: {z}");
            }
        }
    }
}
