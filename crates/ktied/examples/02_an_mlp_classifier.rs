//! A 2-tied classifier of handwritten digits, and the images that it is least sure of.
//!
//! `cargo run --release -p ktied --example 02_an_mlp_classifier`

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, activation};
use ktied::data::digits::{Digits, Examples};
use ktied::evaluate::{Estimate, Protocol, evaluate};
use ktied::models::{Mlp, MlpSpec, Network, NetworkConfig, PosteriorSpec};
use ktied::nn::{Estimator, Pass};
use ktied::objective::{Elbo, Likelihood, LikelihoodKind, Observed};
use ktied::ops;
use ktied::train::AdamConfig;

const NUM_DRAWS: u64 = 50;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn tensors(examples: &Examples) -> (Tensor<2>, Vec<u32>) {
    let count = examples.labels.len();
    let x = Tensor::<1>::from_floats(&examples.inputs[..], &Device::flex()).reshape([count, 64]);
    (x, examples.labels.iter().map(|&label| label.into()).collect())
}

fn fit(x: &Tensor<2>, labels: &[u32]) -> Outcome<Mlp> {
    let config = NetworkConfig::new(PosteriorSpec::new("k-tied:2".parse()?));
    let mut mlp = MlpSpec::new([64, 64, 64, 10]).init(&config, &Device::flex().autodiff())?;
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
fn entropies(mlp: &Mlp, x: &Tensor<2>) -> Outcome<Vec<f64>> {
    let logits: Tensor<3> = Pass::stack_predictions(7, NUM_DRAWS, |pass| mlp.forward(x.clone(), &pass))?;
    let p: Tensor<2> = activation::softmax(logits, 2).mean_dim(0).squeeze_dim(0);
    let entropy = -(p.clone() * (p + 1e-12).log()).sum_dim(1);
    Ok(entropy.into_data().iter::<f64>().collect())
}

fn main() -> Outcome<()> {
    let (train, test) = Digits::embedded()?.split();
    let ((x, labels), (x_test, labels_test)) = (tensors(&train), tensors(&test));
    let mlp = fit(&x, &labels)?;
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, 10, 1.0, &Device::flex())?;
    let batch = (x_test.clone(), Observed::Classes(labels_test.clone()));
    let protocol = Protocol { samples: NUM_DRAWS, seed: 7, num_train: labels.len() };
    let evaluation = evaluate(&mlp, &likelihood, [Ok(batch)], &protocol, |_| ())?;
    println!("test, by the average prediction of {NUM_DRAWS} draws:");
    let metrics = [("accuracy", evaluation.accuracy), ("NLL", Some(evaluation.nll)), ("ECE", evaluation.ece)];
    for (name, metric) in metrics {
        let Some(Estimate { value, sem_examples: Some(error), .. }) = metric else { continue };
        println!("  {name:<8} {value:.3} ± {error:.3}");
    }

    let entropies = entropies(&mlp, &x_test)?;
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
