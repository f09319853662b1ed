//! A posterior family of your own, in one struct: one standard deviation for each input.
//!
//! It trains a logistic regression on the digits and draws σ as a picture: pixels that the data say nothing about keep the
//! prior's scale.
//!
//! `cargo run --release -p ktied --example 04_a_posterior_of_your_own`

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied::data::digits::Digits;
use ktied::nn::{Estimator, LayerConfig, LinearConfig, Pass};
use ktied::objective::Elbo;
use ktied::posterior::Posterior;
use ktied::train::AdamConfig;
use ktied::{Activation, ops};

/// Wᵢⱼ ~ N(μᵢⱼ, sᵢ²): M·N + M parameters.
#[derive(Debug, Module)]
struct RowScaled {
    /// `[M, N]`
    loc: Param<Tensor<2>>,
    /// ln s, `[M, 1]`
    log_scale: Param<Tensor<2>>,
}

impl RowScaled {
    fn new([rows, cols]: [usize; 2], device: &Device) -> Self {
        let log_scale = Tensor::full([rows, 1], 0.05f32.ln(), device);
        Self { loc: Param::from_tensor(Tensor::zeros([rows, cols], device)), log_scale: Param::from_tensor(log_scale) }
    }
}

// Means and standard deviations are all that a family must have. Draws, Flipout, local reparameterisation and the
// divergence follow.
impl Posterior for RowScaled {
    fn loc(&self) -> Tensor<2> {
        self.loc.val()
    }

    fn scale(&self) -> Option<Tensor<2>> {
        Some(self.log_scale.val().exp().expand(self.loc.dims()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let (train, _) = Digits::embedded()?.split();
    let x = Tensor::<1>::from_floats(&train.inputs[..], &Device::flex()).reshape([1400, 64]);
    let labels: Vec<u32> = train.labels.iter().map(|&label| label.into()).collect();

    let layer = LayerConfig::new("logistic", 0, "mean-field".parse()?);
    let config = LinearConfig { inputs: 64, outputs: 10, activation: Activation::Identity, layer };
    let mut model = config.init_with(RowScaled::new([64, 10], &device), &device)?;
    println!("{} parameters", model.num_params());

    let (elbo, mut adam) = (Elbo::new(1400)?, AdamConfig::new().init());
    for step in 0..1500 {
        let logits = model.forward(x.clone(), &Pass::sampled(42, step, Estimator::Local))?;
        let nll = ops::softmax_cross_entropy(logits, &labels)?.mean();
        let loss = elbo.loss(nll, model.weights.kl()?, 1.0);
        if step % 500 == 0 {
            println!("step {step}: −ELBO {:.3}", loss.to_data().iter::<f32>().next().unwrap_or(f32::NAN));
        }
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(1e-2, model, grads);
    }

    println!("σ of the 8×8 pixels' weights; the prior's is 0.2:");
    let scales: Vec<f32> = model.weights.kernel.log_scale.val().exp().into_data().iter().collect();
    for row in scales.chunks(8) {
        println!("  {}", row.iter().map(|s| format!("{s:.2} ")).collect::<String>());
    }
    Ok(())
}
