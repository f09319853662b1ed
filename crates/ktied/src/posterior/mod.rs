//! Variational posteriors of weight matrices: a small trait, and one file a family.
//!
//! Every family is a diagonal Gaussian over an M×N matrix: a mean and a standard deviation for each weight. Families
//! differ in how the standard deviations are stored. [`Posterior`] asks for those two; all the rest follows from
//! them, and a family overrides what it can do faster.

mod family;
mod init;
mod k_tied;
mod kind;
mod low_rank;
mod matrix_normal;
mod mean_field;
mod point;

pub use family::Family;
pub use init::{LocInit, ScaleInit, WeightInit};
pub use k_tied::KTied;
pub use kind::{PosteriorKind, Table1};
pub use low_rank::LowRank;
pub use matrix_normal::MatrixNormal;
pub use mean_field::MeanField;
pub use point::Point;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use ktied_kernels::{NoiseKey, ScaleForm};

use crate::error::Result;
use crate::ops::portable;
use crate::prior::Prior;

/// The scale of a mean-field bias, as local reparameterisation takes it.
#[derive(Clone, Debug)]
pub struct BiasScale {
    /// Stored scale, `[N]`.
    pub raw: Tensor<1>,
    /// How it is stored.
    pub form: ScaleForm,
}

/// A diagonal Gaussian over the weights of an M×N matrix.
///
/// A family implements [`loc`](Self::loc) and [`scale`](Self::scale). The provided methods form the matrix of standard
/// deviations; a family that can avoid that overrides them, and the tests hold its own against the provided ones.
pub trait Posterior: Module {
    /// Means μ, `[M, N]`.
    fn loc(&self) -> Tensor<2>;

    /// Standard deviations σ, `[M, N]`; none for a point.
    fn scale(&self) -> Option<Tensor<2>>;

    /// One draw W = μ + σ∘ε, `[M, N]`, differentiable in the parameters.
    ///
    /// # Errors
    /// If parameters do not fit each other.
    fn draw(&self, key: NoiseKey) -> Result<Tensor<2>> {
        Ok(match self.perturbation(key)? {
            Some(perturbation) => self.loc() + perturbation,
            None => self.loc(),
        })
    }

    /// σ∘ε of one draw, `[M, N]`: Flipout's ΔW; none for a point.
    ///
    /// # Errors
    /// If parameters do not fit each other.
    fn perturbation(&self, key: NoiseKey) -> Result<Option<Tensor<2>>> {
        Ok(self.scale().map(|scale| {
            let eps = portable::normals(&scale, key);
            scale * eps
        }))
    }

    /// mean + √(x²σ² + σ_b² + 1e-12) ∘ ε, `[B, N]`: local reparameterisation of a dense layer with input x, `[B, M]`,
    /// whose mean activations, bias included, are `mean`. Without any uncertainty, `mean` itself.
    ///
    /// # Errors
    /// If shapes do not fit.
    fn add_local_noise(
        &self,
        mean: Tensor<2>,
        x: Tensor<2>,
        bias: Option<BiasScale>,
        key: NoiseKey,
    ) -> Result<Tensor<2>> {
        Ok(match self.scale() {
            Some(scale) => {
                let form = bias.as_ref().map_or(ScaleForm::Log, |bias| bias.form);
                portable::add_local_noise(mean, x, scale.square(), bias.map(|bias| bias.raw), form, key)
            }
            None => mean,
        })
    }

    /// KL(q‖p) over all weights, `[1]`, in nats; zero for a point, which has no density.
    ///
    /// # Errors
    /// If the prior's means have another shape.
    fn kl(&self, prior: &Prior) -> Result<Tensor<1>> {
        let loc = self.loc();
        Ok(match self.scale() {
            Some(scale) => {
                prior.check_shape(&loc)?;
                portable::kl_mean_field(loc, scale.log(), ScaleForm::Log, prior.loc(), prior.scale())
            }
            None => Tensor::zeros([1], (&loc.device(), loc.dtype())),
        })
    }

    /// The same posterior with every scale brought back under its cap; what a training loop does after each update.
    fn clipped(self) -> Self {
        self
    }
}

/// A parameter with every element at most `limit`.
fn clip(param: Param<Tensor<2>>, limit: f64) -> Param<Tensor<2>> {
    param.map(|tensor| {
        let tracked = tensor.is_require_grad();
        let clipped = Tensor::from_inner(tensor.inner().clamp_max(limit));
        if tracked { clipped.require_grad() } else { clipped }
    })
}
