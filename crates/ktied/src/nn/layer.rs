//! What every Bayesian layer is made of: a kernel and a bias with their posteriors and priors, and three ways to use them.

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied_kernels::activation::Activation;
use ktied_kernels::signs::SignKey;
use ktied_kernels::{NoiseKey, Purpose, ShapeError};

use super::pass::{Estimator, LayerNoise, Pass};
use crate::error::{Error, Result};
use crate::ops::{self, BiasScale, portable};
use crate::posterior::{Family, LocInit, Posterior, PosteriorKind, ScaleInit, WeightInit, add_by_graph};
use crate::prior::{Prior, PriorRule};

/// Posterior, prior and place of a layer, besides its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Name, for messages.
    pub name: String,
    /// Number of the layer in its network: its noise is a function of it.
    pub id: u64,
    /// Family of the kernel.
    pub posterior: PosteriorKind,
    /// Family of the bias, where there is one.
    pub bias: Option<PosteriorKind>,
    /// How means begin.
    pub loc: LocInit,
    /// How scales begin, and their cap.
    pub scale: ScaleInit,
    /// Rule of the priors.
    pub prior: PriorRule,
    /// Seed of the first values.
    pub seed: u64,
    /// Whether weights of the kernel may have been pruned: then it has a mask, which lets all of them pass at first.
    pub pruned: bool,
}

impl LayerConfig {
    /// The paper's initial values, prior N(0, 0.2²), and a bias that is mean-field unless the kernel is a point.
    pub fn new(name: impl Into<String>, id: u64, posterior: PosteriorKind) -> Self {
        let (scale, prior) = (ScaleInit::default(), PriorRule::Normal { scale: 0.2 });
        let (loc, bias) = (LocInit::He, Some(posterior.of_vectors()));
        Self { name: name.into(), id, posterior, bias, loc, scale, prior, seed: 0, pruned: false }
    }

    /// First values of a kernel, `[M, N]`, and a bias.
    pub(super) fn init(&self, shape: [usize; 2], device: &Device) -> Result<Weights> {
        let loc_scale = self.loc.scale(shape[0]);
        let init = WeightInit { loc_scale, scale: self.scale, key: self.key(0), device };
        self.around(Family::new(self.posterior, &self.name, shape, init)?, device)
    }

    /// A kernel of any family, with a bias of this configuration beside it.
    pub(super) fn around<P: Posterior>(&self, kernel: P, device: &Device) -> Result<Weights<P>> {
        let shape = kernel.loc().dims();
        let init = WeightInit { loc_scale: 0.0, scale: self.scale, key: self.key(1), device };
        let bias = self.bias.map(|kind| Family::new(kind, &self.name, [1, shape[1]], init));
        let (kernel_prior, bias_prior) = (self.prior.of_kernel(shape[0])?, self.prior.of_bias()?);
        let (name, bias, ones) = (self.name.clone(), bias.transpose()?, self.pruned.then(|| kernel.loc().ones_like()));
        let id = self.id;
        let weights = Weights { kernel, mask: None, bias, kernel_prior, bias_prior, name, id, once: false };
        match ones {
            Some(mask) => weights.with_mask(mask),
            None => Ok(weights),
        }
    }

    fn key(&self, tensor: u64) -> NoiseKey {
        NoiseKey::new(self.seed).child(Purpose::Init).at(0, self.id).fold(tensor)
    }
}

/// What a layer does with a kernel and a bias.
pub(super) trait Affine<const D: usize> {
    /// What messages call it.
    fn kind(&self) -> &'static str;

    /// act(x·W + b)
    fn product(
        &self,
        x: Tensor<D>,
        kernel: Tensor<2>,
        bias: Option<Tensor<1>>,
        activation: Activation,
    ) -> Result<Tensor<D>, ShapeError>;

    /// act(x·μ + b + r∘((x∘s)·ΔW)), the signs per example and channel, the same at every position.
    fn flipout(
        &self,
        x: Tensor<D>,
        [loc, deviation]: [Tensor<2>; 2],
        bias: Option<Tensor<1>>,
        [input_signs, output_signs]: [SignKey; 2],
        activation: Activation,
    ) -> Result<Tensor<D>, ShapeError> {
        let mean = self.product(x.clone(), loc, bias, Activation::Identity)?;
        let deviation = self.product(ops::apply_signs(x, input_signs)?, deviation, None, Activation::Identity)?;
        Ok(portable::activate(ops::add_signed(mean, deviation, output_signs)?, activation))
    }
}

/// A kernel and a bias with their posteriors and priors; the kernel's family may be the user's own.
#[derive(Debug, Module)]
pub struct Weights<P = Family> {
    /// Posterior of the kernel as a matrix, `[M, N]`.
    pub kernel: P,
    /// Which weights of the kernel were not pruned, if some may have been.
    pub(super) mask: Option<Param<Tensor<2>>>,
    /// Posterior of the bias, `[1, N]`.
    pub bias: Option<Family>,
    #[module(skip)]
    kernel_prior: Prior,
    #[module(skip)]
    bias_prior: Prior,
    #[module(skip)]
    name: String,
    #[module(skip)]
    id: u64,
    /// Whether an example uses each weight once, as in a dense layer: then noise may enter on the sums.
    #[module(skip)]
    once: bool,
}

impl Weights {
    /// Whether kernel and bias are without uncertainty.
    pub fn is_point(&self) -> bool {
        matches!(self.kernel, Family::Point(_)) && matches!(self.bias, None | Some(Family::Point(_)))
    }

    /// The same with the draw of a pass in the place of posteriors, where the pass draws weights for all examples at once.
    pub(crate) fn drawn(self, pass: &Pass) -> Result<Self> {
        let on_sums = matches!(pass, Pass::Marginal { .. }) && self.once && self.kernel.prefers_local();
        if on_sums || matches!(pass, Pass::Means) {
            return Ok(self);
        }
        let noise = self.noise(pass);
        let kernel = Family::at(self.draw(noise.weights(0))?);
        let bias = self.bias.map(|bias| bias.draw(noise.weights(1)).map(Family::at)).transpose()?;
        Ok(Self { kernel, bias, mask: None, ..self })
    }
}

impl<P: Posterior> Weights<P> {
    /// The layer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn used_once(self) -> Self {
        Self { once: true, ..self }
    }

    pub(super) fn masked_by(self, mask: Param<Tensor<2>>) -> Self {
        Self { mask: Some(mask), ..self }
    }

    pub(super) fn kernel_prior(&self) -> &Prior {
        &self.kernel_prior
    }

    /// σₚ of kernel and bias.
    pub fn prior_scales(&self) -> [f64; 2] {
        [self.kernel_prior.scale(), self.bias_prior.scale()]
    }

    /// The same with other σₚ for kernel and bias; the priors' means stay.
    ///
    /// # Errors
    /// If one is not a positive finite number.
    pub fn with_prior_scales(self, [kernel, bias]: [f64; 2]) -> Result<Self> {
        let (kernel_prior, bias_prior) = (self.kernel_prior.with_scale(kernel)?, self.bias_prior.with_scale(bias)?);
        Ok(Self { kernel_prior, bias_prior, ..self })
    }

    /// The same with another posterior of the kernel.
    ///
    /// # Errors
    /// If it is of another shape.
    pub fn with_kernel(self, kernel: P) -> Result<Self> {
        let (expected, found) = (self.kernel.loc().dims().to_vec(), kernel.loc().dims().to_vec());
        if expected != found {
            return Err(ShapeError::Shape { kernel: "layer", operand: "kernel", expected, found }.into());
        }
        Ok(Self { kernel, ..self })
    }

    /// KL(q‖p) of kernel and bias, `[1]`, in nats.
    ///
    /// # Errors
    /// If a prior's means do not have the posterior's shape.
    pub fn kl(&self) -> Result<Tensor<1>> {
        let kernel = self.kernel_kl()?;
        match &self.bias {
            Some(Family::Point(_)) | None => Ok(kernel),
            Some(bias) => Ok(kernel + bias.kl(&self.bias_prior)?),
        }
    }

    /// KL(q‖p) of kernel and bias, in nats, and `by` times its gradients added to `grads` (see
    /// [`Posterior::add_kl_gradients`]).
    ///
    /// # Errors
    /// As [`kl`](Self::kl).
    pub fn add_kl_gradients(&self, by: f64, grads: &mut GradientsParams) -> Result<f64> {
        let kernel = match self.mask() {
            Some(_) => add_by_graph(&self.kernel, self.kernel_kl()?, by, grads),
            None => self.kernel.add_kl_gradients(&self.kernel_prior, by, grads)?,
        };
        let bias = self.bias.as_ref().map(|bias| bias.add_kl_gradients(&self.bias_prior, by, grads)).transpose()?;
        Ok(kernel + bias.unwrap_or(0.0))
    }

    /// The same with every scale brought back under its cap.
    pub fn clipped(self) -> Self {
        Self { kernel: self.kernel.clipped(), bias: self.bias.map(Posterior::clipped), ..self }
    }

    /// The same with σₚ of each tensor found again from its posterior (see [`Prior::empirical`]); points, which no
    /// prior speaks to, and pruned kernels keep theirs.
    ///
    /// # Errors
    /// If every weight of a tensor is exactly its prior's mean.
    pub fn with_empirical_priors(self) -> Result<Self> {
        let kernel_prior = match (self.kernel.scale(), &self.mask) {
            (Some(_), None) => self.kernel_prior.empirical(&self.kernel)?,
            _ => self.kernel_prior,
        };
        let bias_prior = match &self.bias {
            Some(Family::Point(_)) | None => self.bias_prior,
            Some(bias) => self.bias_prior.empirical(bias)?,
        };
        Ok(Self { kernel_prior, bias_prior, ..self })
    }

    /// The layer's output by means, reparameterisation or Flipout; a local pass is an error.
    pub(super) fn forward<const D: usize>(
        &self,
        x: Tensor<D>,
        pass: &Pass,
        activation: Activation,
        layer: &impl Affine<D>,
    ) -> Result<Tensor<D>> {
        let Pass::Sampled { estimator, .. } = pass.drawn() else {
            return Ok(layer.product(x, self.loc(), self.bias_loc(), activation)?);
        };
        let noise = self.noise(pass);
        let bias = self.draw_bias(pass)?;
        match estimator {
            Estimator::Reparam => Ok(layer.product(x, self.draw(noise.weights(0))?, bias, activation)?),
            Estimator::Local => Err(Error::LocalIsBiased { layer: self.name.clone(), kind: layer.kind() }),
            Estimator::Flipout => {
                let Some(perturbation) = self.perturbation(noise.weights(0))? else {
                    return Ok(layer.product(x, self.loc(), bias, activation)?);
                };
                let signs = [Purpose::InputSigns, Purpose::OutputSigns].map(|purpose| noise.signs(purpose));
                Ok(layer.flipout(x, [self.loc(), perturbation], bias, signs, activation)?)
            }
        }
    }

    /// The streams of this layer in a pass.
    pub(super) fn noise(&self, pass: &Pass) -> LayerNoise {
        let (root, step, first) = pass.noise().unwrap_or((NoiseKey::new(0), 0, 0));
        LayerNoise::new(root, step, self.id).beginning_with(first)
    }

    /// One draw of the bias, `[N]`.
    pub(super) fn draw_bias(&self, pass: &Pass) -> Result<Option<Tensor<1>>> {
        let key = self.noise(pass).weights(1);
        Ok(self.bias.as_ref().map(|bias| bias.draw(key)).transpose()?.map(row))
    }

    /// Means of the bias, `[N]`.
    pub(super) fn bias_loc(&self) -> Option<Tensor<1>> {
        self.bias.as_ref().map(|bias| row(bias.loc()))
    }

    /// The stored scale of the bias, if it has one.
    pub(super) fn bias_scale(&self) -> Option<BiasScale> {
        match self.bias.as_ref()? {
            Family::MeanField(bias) => Some(BiasScale { raw: row(bias.raw_scale.val()), form: bias.form() }),
            other => other.scale().map(|scale| BiasScale { raw: row(scale.log()), form: Default::default() }),
        }
    }
}

/// `[1, N]` → `[N]`
fn row(bias: Tensor<2>) -> Tensor<1> {
    let outputs = bias.dims()[1];
    bias.reshape([outputs])
}
