//! Regression of a curve that was seen in the middle only: the error bars open on both sides.
//!
//! They open outside of the data. Between two clouds of data a single hidden layer under a diagonal Gaussian stays too
//! sure of itself, whatever its scales are (Foong et al., *On the expressiveness of approximate inference in Bayesian
//! neural networks*, 2020).
//!
//! `cargo run --release -p ktied --example 03_regression_with_error_bars`

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied::models::{Mlp, MlpSpec, Network, NetworkConfig, PosteriorSpec};
use ktied::nn::{Estimator, Pass};
use ktied::objective::{Elbo, Gaussian};
use ktied::prior::PriorRule;
use ktied::train::AdamConfig;
use ktied::{Error, NoiseKey, Purpose, noise};

const NOISE: f64 = 0.1;

fn column(values: &[f32]) -> Tensor<2> {
    Tensor::<1>::from_floats(values, &Device::flex()).reshape([values.len(), 1])
}

/// sin 3x with noise, for x in [−0.8, 0.8].
fn data() -> (Vec<f32>, Vec<f32>) {
    let x: Vec<f32> = (0..=100).map(|i| 0.016 * i as f32 - 0.8).collect();
    let mut z = vec![0.0; x.len()];
    noise::normals(NoiseKey::new(1).child(Purpose::Synthetic), 0, &mut z);
    let y = x.iter().zip(z).map(|(x, z)| (3.0 * x).sin() + NOISE as f32 * z).collect();
    (x, y)
}

fn fit(x: &Tensor<2>, y: &Tensor<2>, num_train: usize) -> Result<Mlp, Error> {
    let prior = PriorRule::Normal { scale: 1.0 };
    let config = NetworkConfig { prior, ..NetworkConfig::new(PosteriorSpec::new("mean-field".parse()?)) };
    let mut mlp = MlpSpec::new([1, 50, 1]).init(&config, &Device::flex().autodiff())?;
    let (elbo, mut adam) = (Elbo::new(num_train)?, AdamConfig::new().init());
    let likelihood = Gaussian::fixed(1, NOISE, &Device::flex())?;
    for step in 0..5000 {
        let mean = mlp.forward(x.clone(), &Pass::sampled(42, step, Estimator::Local))?;
        let nll = likelihood.nll(mean, y.clone())?.mean();
        let grads = GradientsParams::from_grads(elbo.loss(nll, mlp.kl()?, 1.0).backward(), &mlp);
        mlp = adam.step(1e-2 / (1.0 + step as f64 / 1000.0), mlp, grads);
    }
    Ok(mlp)
}

fn main() -> Result<(), Error> {
    let (x, y) = data();
    let mlp = fit(&column(&x), &column(&y), x.len())?;
    let grid: Vec<f32> = (-15..=15).map(|i| i as f32 / 10.0).collect();
    let mut draws = vec![Vec::new(); grid.len()];
    for step in 0..200 {
        let y = mlp.forward(column(&grid), &Pass::sampled(7, step, Estimator::Reparam))?;
        draws.iter_mut().zip(y.into_data().iter::<f64>()).for_each(|(draws, y)| draws.push(y));
    }
    println!("    x   sin 3x    mean ± 2 sd");
    for (x, draws) in grid.iter().zip(&draws) {
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        let bar = (variance + NOISE * NOISE).sqrt() * 2.0;
        let seen = if x.abs() < 0.81 { '·' } else { ' ' };
        println!(
            "{x:5.1}{seen}  {:6.2}  {mean:6.2} ± {bar:.2}  {}",
            (3.0 * x).sin(),
            "━".repeat((bar * 20.0) as usize)
        );
    }
    println!("(· where there were data)");
    Ok(())
}
