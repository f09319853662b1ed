//! The Gaussian likelihood of regression, with noise that is given or learned.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use ktied_kernels::ShapeError;

use crate::error::{Error, Result};

const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8; // ½ ln 2π

/// y ~ N(mean, s²) for every output, s one number an output. (Classes have
/// [`softmax_cross_entropy`](crate::ops::softmax_cross_entropy), yes or no has
/// [`sigmoid_cross_entropy`](crate::ops::sigmoid_cross_entropy).)
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::objective::Gaussian;
/// let device = Device::flex();
/// let likelihood = Gaussian::fixed(1, 0.5, &device)?;
/// let (mean, y) = (Tensor::<2>::zeros([1, 1], &device), Tensor::<2>::ones([1, 1], &device));
/// let nll = likelihood.nll(mean, y)?.into_data().iter::<f32>().next().unwrap_or_default();
/// assert!((nll - (2.0 + 0.5f32.ln() + 0.918_938_5)).abs() < 1e-6); // ½(1/½)² + ln ½ + ½ ln 2π
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct Gaussian {
    /// ln s, `[1, N]`; without a gradient if the noise is given.
    pub log_noise: Param<Tensor<2>>,
}

impl Gaussian {
    /// Noise of a given standard deviation, which training leaves alone.
    ///
    /// # Errors
    /// If it is not a positive finite number.
    pub fn fixed(outputs: usize, noise: f64, device: &Device) -> Result<Self> {
        let learned = Self::learned(outputs, noise, device)?;
        Ok(Self { log_noise: learned.log_noise.set_require_grad(false) })
    }

    /// Noise that is trained along, from a first standard deviation.
    ///
    /// # Errors
    /// If that is not a positive finite number.
    pub fn learned(outputs: usize, noise: f64, device: &Device) -> Result<Self> {
        let noise = Error::positive("likelihood.noise", noise)?;
        Ok(Self { log_noise: Param::from_tensor(Tensor::full([1, outputs], noise.ln(), device)) })
    }

    /// −ln N(y; mean, s²) of every example, summed over its outputs, in nats.
    ///
    /// # Shapes
    /// - mean, y: `[B, N]`; output: `[B]`
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn nll(&self, mean: Tensor<2>, y: Tensor<2>) -> Result<Tensor<1>> {
        let ([batch, _], [_, expected]) = (mean.dims(), self.log_noise.dims());
        for (operand, found) in [("mean", mean.dims()), ("y", y.dims())] {
            if found != [batch, expected] {
                let (expected, found) = (vec![batch, expected], found.to_vec());
                return Err(ShapeError::Shape { kernel: "gaussian_nll", operand, expected, found }.into());
            }
        }
        let log_noise = self.log_noise.val();
        let residual = (y - mean) * (-log_noise.clone()).exp();
        let terms = residual.square() * 0.5 + log_noise + HALF_LN_TAU;
        Ok(terms.sum_dim(1).reshape([batch]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
        tensor.into_data().iter::<f64>().collect()
    }

    #[test]
    fn the_likelihood_is_the_density_of_the_normal() {
        let device = Device::flex();
        let likelihood = Gaussian::fixed(2, 0.3, &device).unwrap();
        let (mean, y) = ([[0.1f32, -0.2], [1.0, 2.0]], [[0.4f32, 0.1], [0.5, 2.0]]);
        let found = likelihood.nll(Tensor::from_floats(mean, &device), Tensor::from_floats(y, &device)).unwrap();
        let term = |m: f32, y: f32| {
            let z = f64::from(y - m) / 0.3;
            0.5 * z * z + 0.3f64.ln() + 0.5 * std::f64::consts::TAU.ln()
        };
        for (found, (mean, y)) in values(found).into_iter().zip(mean.iter().zip(y)) {
            let expected = term(mean[0], y[0]) + term(mean[1], y[1]);
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn learned_noise_rests_at_the_root_mean_square_of_the_residuals() {
        let device = Device::flex().autodiff();
        let residuals = [[0.3f32], [-0.5], [0.1], [0.2]];
        let mean_square = residuals.iter().map(|r| f64::from(r[0] * r[0])).sum::<f64>() / 4.0;
        let slope = |noise: f64| {
            let likelihood = Gaussian::learned(1, noise, &device).unwrap();
            let nll = likelihood.nll(Tensor::zeros([4, 1], &device), Tensor::from_floats(residuals, &device)).unwrap();
            values(likelihood.log_noise.val().grad(&nll.sum().backward()).unwrap())[0]
        };
        let best = mean_square.sqrt();
        assert!(slope(best).abs() < 1e-5 && slope(0.9 * best) < -0.1 && slope(1.1 * best) > 0.1);
    }

    #[test]
    fn given_noise_gets_no_gradient_and_bad_noise_or_shapes_are_refused() {
        let device = Device::flex().autodiff();
        let likelihood = Gaussian::fixed(1, 0.3, &device).unwrap();
        let mean = Tensor::<2>::ones([2, 1], &device).require_grad();
        let grads = likelihood.nll(mean, Tensor::zeros([2, 1], &device)).unwrap().sum().backward();
        assert!(likelihood.log_noise.val().grad(&grads).is_none());
        assert!(Gaussian::fixed(1, 0.0, &device).is_err() && Gaussian::learned(1, f64::NAN, &device).is_err());
        let error = likelihood.nll(Tensor::zeros([2, 1], &device), Tensor::zeros([3, 1], &device)).unwrap_err();
        assert_eq!(error.to_string(), "gaussian_nll: `y` must have shape [2, 1], got [3, 1]");
        assert!(likelihood.nll(Tensor::zeros([2, 2], &device), Tensor::zeros([2, 2], &device)).is_err());
    }
}
