//! One dense layer under three posteriors: what it stores, what it draws, what it pays.
//!
//! `cargo run --release -p ktied --example 01_a_bayesian_layer`

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use ktied::nn::{Estimator, LayerConfig, LinearConfig, Pass};
use ktied::posterior::Posterior;
use ktied::{Activation, Error};

fn main() -> Result<(), Error> {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::ones([1, 784], &Device::flex()) * 0.1;
    for posterior in ["point", "mean-field", "k-tied:2"] {
        let layer = LayerConfig::new("dense_1", 0, posterior.parse()?);
        let config = LinearConfig { inputs: 784, outputs: 400, activation: Activation::Identity, layer };
        let linear = config.init(&device)?;
        println!("{posterior}: {} parameters", linear.num_params());

        // The first activation: at the means, and in three draws. Draw s is a function of (seed, s), nothing else.
        let first = |pass: &Pass| linear.forward(x.clone(), pass).map(|y| y.into_data().iter::<f32>().next());
        println!("  at the means   {:?}", first(&Pass::Means)?);
        for step in 0..3 {
            println!("  draw {step}         {:?}", first(&Pass::sampled(42, step, Estimator::Reparam))?);
        }

        // The price of knowing: nats from the prior N(0, 0.2²).
        println!("  KL(q‖p)        {:?}", linear.weights.kl()?.into_data().iter::<f32>().next());
        if let Some(scale) = linear.weights.kernel.scale() {
            println!("  mean σ         {:?}", scale.mean().into_data().iter::<f32>().next());
        }
    }
    Ok(())
}
