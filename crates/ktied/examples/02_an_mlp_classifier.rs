//! A 2-tied classifier of handwritten digits, and the images that it is least sure of.
//!
//! `cargo run --release -p ktied --example 02_an_mlp_classifier`

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, activation};
use ktied::data::digits::{Digits, Examples};
use ktied::evaluate::predict_classes;
use ktied::models::{Mlp, MlpSpec, Network, NetworkConfig, PosteriorSpec};
use ktied::nn::{Estimator, Pass};
use ktied::objective::Elbo;
use ktied::ops;
use ktied::train::AdamConfig;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn tensors(examples: &Examples) -> (Tensor<2>, Vec<u32>) {
    let count = examples.labels.len();
    let x = Tensor::<1>::from_floats(&examples.inputs[..], &Device::flex()).reshape([count, 64]);
    (x, examples.labels.iter().map(|&label| label.into()).collect())
}

fn fit(x: &Tensor<2>, labels: &[u32]) -> Outcome<Mlp> {
    let config = NetworkConfig::new(PosteriorSpec::new("k-tied:2".parse()?));
    let mut mlp = MlpSpec { sizes: vec![64, 64, 64, 10] }.init(&config, &Device::flex().autodiff())?;
    let (elbo, mut adam) = (Elbo::new(labels.len())?, AdamConfig::new().init());
    for step in 0..400 {
        let logits = mlp.forward(x.clone(), &Pass::sampled(42, step, Estimator::Local))?;
        let loss = elbo.loss(ops::softmax_cross_entropy(logits, labels)?.mean(), mlp.kl()?, 1.0);
        let grads = GradientsParams::from_grads(loss.backward(), &mlp);
        mlp = adam.step(1e-2, mlp, grads);
    }
    Ok(mlp)
}

/// Entropy of the average prediction of every example, in nats.
fn entropies(mlp: &Mlp, x: &Tensor<2>, num_draws: u64) -> Outcome<Vec<f64>> {
    let draw = |step| mlp.forward(x.clone(), &Pass::sampled(7, step, Estimator::Reparam));
    let mut sum = activation::softmax(draw(0)?, 1);
    for step in 1..num_draws {
        sum = sum + activation::softmax(draw(step)?, 1);
    }
    let p = sum / num_draws as f64;
    let entropy = -(p.clone() * (p + 1e-12).log()).sum_dim(1);
    Ok(entropy.into_data().iter::<f64>().collect())
}

fn main() -> Outcome<()> {
    let (train, test) = Digits::embedded()?.split();
    let ((x, labels), (x_test, labels_test)) = (tensors(&train), tensors(&test));
    let mlp = fit(&x, &labels)?;
    let scores = predict_classes(&labels_test, 50, |step| {
        mlp.forward(x_test.clone(), &Pass::sampled(7, step, Estimator::Reparam))
    })?;
    println!("test: accuracy {:.1} %, NLL {:.3} (50 draws)", 100.0 * scores.accuracy, scores.nll);

    let entropies = entropies(&mlp, &x_test, 50)?;
    let mut order: Vec<usize> = (0..entropies.len()).collect();
    order.sort_by(|&a, &b| entropies[b].total_cmp(&entropies[a]));
    for &image in order.iter().take(2) {
        println!(
            "\na {} of which it is not sure (entropy {:.2} of {:.2} nats):",
            labels_test[image],
            entropies[image],
            10f64.ln()
        );
        for row in test.inputs[image * 64..(image + 1) * 64].chunks(8) {
            println!(
                "  {}",
                row.iter().map(|&v| [' ', '░', '▒', '▓', '█'][(v * 4.0).round() as usize]).collect::<String>()
            );
        }
    }
    Ok(())
}
