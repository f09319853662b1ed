//! The negative ELBO per example, and the one place where the divergence is divided by the number of examples.

use burn::tensor::Tensor;

use crate::error::{Error, Result};

/// −ELBO per example = E_q[mean NLL] + temperature · KL(q‖p)/N.
///
/// **Why N.** The bound for a whole data set is Σₙ NLLₙ + KL: the divergence is paid once for all N training examples.
/// Divided by N, the first term becomes the mean NLL, which the mean over a batch estimates without bias whatever the
/// batch's size, and the second becomes KL/N. N is the number of *training examples*: not the batch, not the number of
/// batches, not the number of weights. Each of those is a different posterior under the same name.
///
/// ```
/// use ktied::objective::Elbo;
/// let elbo = Elbo::new(50_000)?;
/// let terms = elbo.terms(0.31, 2_500.0);
/// assert!((terms.neg_elbo() - 0.36).abs() < 1e-12); // 0.31 + 2500/50000
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elbo {
    num_train: usize,
    temperature: f64,
}

/// The parts of −ELBO per example, apart, as they are logged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Mean negative log-likelihood of an example, in nats.
    pub nll: f64,
    /// KL(q‖p) of all weights, in nats.
    pub kl: f64,
    /// KL/N
    pub kl_per_example: f64,
}

impl Terms {
    /// NLL + KL/N with weight 1, whatever annealing or temperature training used.
    pub fn neg_elbo(&self) -> f64 {
        self.nll + self.kl_per_example
    }
}

impl Elbo {
    /// The objective for a training set of `num_train` examples.
    ///
    /// # Errors
    /// If there is no example.
    pub fn new(num_train: usize) -> Result<Self> {
        Error::positive("number of training examples", num_train as f64)?;
        Ok(Self { num_train, temperature: 1.0 })
    }

    /// Another weight on the divergence for ever: below 1 a cold posterior, which is not a bound any more.
    ///
    /// # Errors
    /// If it is not a positive finite number.
    pub fn with_temperature(self, temperature: f64) -> Result<Self> {
        Ok(Self { temperature: Error::positive("temperature", temperature)?, ..self })
    }

    /// N
    pub fn num_train(&self) -> usize {
        self.num_train
    }

    /// The weight on the divergence besides annealing; 1 unless somebody chose otherwise.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// What to minimise: mean NLL of a batch, `[1]`, plus `weight`·temperature·KL/N; `weight` is that of annealing.
    pub fn loss(&self, nll_mean: Tensor<1>, kl: Tensor<1>, weight: f64) -> Tensor<1> {
        nll_mean + kl * self.weight_of_kl(weight)
    }

    /// What KL(q‖p) is multiplied with in the [`loss`](Self::loss), and so are its gradients: `weight`·temperature/N.
    pub fn weight_of_kl(&self, weight: f64) -> f64 {
        weight * self.temperature / self.num_train as f64
    }

    /// The parts, from numbers.
    pub fn terms(&self, nll_mean: f64, kl: f64) -> Terms {
        Terms { nll: nll_mean, kl, kl_per_example: kl / self.num_train as f64 }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn the_divergence_is_divided_by_the_number_of_training_examples() {
        let device = Device::flex();
        let (nll, kl) = (Tensor::<1>::from_floats([0.5], &device), Tensor::<1>::from_floats([3000.0], &device));
        let value =
            |elbo: Elbo, weight| elbo.loss(nll.clone(), kl.clone(), weight).into_data().iter::<f64>().next().unwrap();
        let elbo = Elbo::new(60_000).unwrap();
        assert!((value(elbo, 1.0) - 0.55).abs() < 1e-6);
        assert!((value(elbo, 0.0) - 0.5).abs() < 1e-6);
        assert!((value(elbo.with_temperature(0.1).unwrap(), 1.0) - 0.505).abs() < 1e-6);
        assert!((elbo.terms(0.5, 3000.0).neg_elbo() - 0.55).abs() < 1e-12);
        assert!(Elbo::new(0).is_err() && elbo.with_temperature(-1.0).is_err());
    }
}
