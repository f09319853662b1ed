//! Variational posteriors of weight matrices: a small trait, and one file a family.
//!
//! Every family is a diagonal Gaussian over an M×N matrix: a mean and a standard deviation for each weight. Families
//! differ in how the standard deviations are stored. [`Posterior`] asks for those two; all the rest follows from
//! them, and a family overrides what it can do faster.

pub(crate) mod divergence;
mod family;
mod init;
mod k_tied;
mod kind;
mod low_rank;
mod matrix_normal;
mod mean_field;
mod point;

pub(crate) use divergence::add_by_graph;
pub use family::Family;
pub use init::{LocInit, ScaleInit, WeightInit};
pub use k_tied::KTied;
pub use kind::{PosteriorKind, Table1};
pub use low_rank::LowRank;
pub use matrix_normal::MatrixNormal;
pub use mean_field::MeanField;
pub use point::Point;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use ktied_kernels::{NoiseKey, ScaleForm};

use crate::error::Result;
use crate::ops::{self, LocalInput, portable};
use crate::prior::Prior;

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

    /// A dense layer with this kernel by local reparameterisation, act(x·μ + b + √(x²σ² + σ_b² + 1e-12) ∘ ε), `[B, N]`.
    ///
    /// # Errors
    /// If shapes do not fit.
    fn local(&self, input: LocalInput) -> Result<Tensor<2>> {
        Ok(portable::local_dense(input, self.loc(), self.scale().map(|scale| scale.square())))
    }

    /// Whether noise on the activations of a dense layer costs less than a draw of the kernel: so if the variances x²σ²
    /// come without a second product.
    fn prefers_local(&self) -> bool {
        false
    }

    /// x²σ², the variances of the sums x·W, `[B, N]`; none for a point.
    fn sum_variance(&self, x: Tensor<2>) -> Option<Tensor<2>> {
        self.scale().map(|scale| x.square().matmul(scale.square()))
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

    /// KL(q‖p) over all weights, in nats, and `by` times its gradients added to `grads`, where those of the likelihood are already:
    /// what [`kl`](Self::kl) and a backward pass through it would give, for a family that can do it in one pass.
    ///
    /// # Errors
    /// As [`kl`](Self::kl).
    fn add_kl_gradients(&self, prior: &Prior, by: f64, grads: &mut GradientsParams) -> Result<f64> {
        Ok(add_by_graph(self, self.kl(prior)?, by, grads))
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
        let clipped = Tensor::from_inner(ops::at_most(tensor.inner(), limit as f32));
        if tracked { clipped.require_grad() } else { clipped }
    })
}
