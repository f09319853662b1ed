//! The wrapper around a converted model.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param, Reparameterization, Reparameterizer};
use burn::tensor::{Device, Tensor};

use super::config::BayesianConfig;
use super::draws::Current;
use super::error::ConvertError;
use super::plan::{Planned, plan};
use super::variational::{Scales, Variational, to_matrix};
use crate::error::Result;
use crate::nn::Pass;

/// A model of burn whose weights have posteriors; its own code knows nothing of it.
///
/// It is a [`Module`] like any other: optimisers train means and scales, records and stores save them, devices take them.
/// The model is run in a [`Pass`], which says what its weights are: their means, or a draw that is a function of
/// (seed, step, path of the parameter), the same wherever and however often a layer reads it in that pass.
///
/// See the [guide](super) for how to train, judge and save one.
#[derive(Debug, Module)]
pub struct Bayesian<M> {
    model: M,
    #[module(skip)]
    planned: Arc<BTreeMap<String, Planned>>,
    #[module(skip)]
    current: Arc<Current>,
}

/// Makes a model Bayesian: the weights that it has become the means of posteriors.
///
/// # Errors
/// If no parameter is chosen; if one that is chosen holds no floating-point numbers, has a reparameterization already, or
/// does not allow the rank; each by its path. The model is checked as a whole before anything is changed.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
/// use ktied::convert::{BayesianConfig, bayesian};
/// use ktied::nn::{Estimator, Pass};
///
/// let device = Device::flex().autodiff();
/// let model = bayesian(LinearConfig::new(8, 4).init(&device), &BayesianConfig::new("k-tied:2".parse()?))?;
/// let x = Tensor::<2>::ones([3, 8], &device);
/// let y = model.run(&Pass::sampled(42, 0, Estimator::Reparam), |linear| linear.forward(x))?;
/// assert_eq!(y.dims(), [3, 4]);
/// assert_eq!(model.layers().map(|layer| layer.num_params()).sum::<usize>(), 8 * 4 + 2 * (8 + 4));
/// # Ok::<(), ktied::Error>(())
/// ```
pub fn bayesian<M: Module>(model: M, config: &BayesianConfig) -> Result<Bayesian<M>> {
    let planned = Arc::new(plan(&model, config)?);
    let current = Arc::new(Current::default());
    let model = model.apply_reparameterization(Attach { planned: &planned, seed: config.seed(), current: &current });
    Ok(Bayesian { model, planned, current })
}

impl<M: Module> Bayesian<M> {
    /// What `task` makes of the model in a pass.
    ///
    /// Passes of one model wait for each other, those of its clones too.
    ///
    /// # Errors
    /// If this thread is in a pass of this model already, or the pass is by Flipout or local, which need a layer's code.
    pub fn run<T>(&self, pass: &Pass, task: impl FnOnce(&M) -> T) -> Result<T> {
        self.current.run(pass, || task(&self.model))
    }

    /// KL(q‖p) over all converted parameters, `[1]`, in nats.
    ///
    /// # Errors
    /// If a posterior was taken off, or parameters of another shape were loaded.
    pub fn kl(&self) -> Result<Tensor<1>> {
        let mut sum: Option<Tensor<1>> = None;
        for Posterior { planned, loc, scales, prior_loc } in self.posteriors()? {
            let kl = scales.kl(loc, prior_loc, planned.prior_scale)?;
            sum = Some(match sum {
                Some(sum) => sum + kl,
                None => kl,
            });
        }
        Ok(sum.unwrap_or_else(|| Tensor::zeros([1], &Device::flex())))
    }

    /// The converted parameters, by path.
    pub fn layers(&self) -> impl Iterator<Item = &Planned> {
        self.planned.values()
    }

    /// Means and standard deviations of a converted parameter, both as a [matrix](Planned::matrix); none if there is no
    /// such path.
    ///
    /// # Errors
    /// If a posterior was taken off.
    pub fn moments(&self, path: &str) -> Result<Option<[Tensor<2>; 2]>> {
        let found = self.posteriors()?.into_iter().find(|posterior| posterior.planned.path == path);
        Ok(found.map(|posterior| [posterior.loc, posterior.scales.matrix()].map(Tensor::detach)))
    }

    /// The plain model with the weights of a pass folded in: one draw, or with [`Pass::Means`] the point model.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn freeze_at(&self, pass: &Pass) -> Result<M> {
        self.current.run(pass, || self.model.clone().materialize())
    }

    /// The plain model at the means.
    ///
    /// # Errors
    /// If this thread is in a pass of this model.
    pub fn into_point(self) -> Result<M> {
        let Self { model, current, .. } = self;
        current.run(&Pass::Means, || model.materialize())
    }

    fn posteriors(&self) -> Result<Vec<Posterior<'_>>> {
        let mut gather = Gather { planned: &self.planned, path: vec![], base: None, parts: None, found: vec![] };
        self.model.visit(&mut gather);
        let found = gather.found;
        let lost = self.planned.keys().find(|path| !found.iter().any(|posterior| posterior.planned.path == **path));
        match lost {
            Some(path) => Err(ConvertError::Lost { path: path.clone() }.into()),
            None => Ok(found),
        }
    }
}

/// Attaches what was planned.
struct Attach<'a> {
    planned: &'a BTreeMap<String, Planned>,
    seed: u64,
    current: &'a Arc<Current>,
}

impl Reparameterizer for Attach<'_> {
    type Reparam = Variational;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<Variational>) {
        let Some(planned) = self.planned.get(path) else { return (param, None) };
        let variational = Variational::new(param.base(), planned, self.seed, self.current.clone());
        (param, Some(variational))
    }
}

/// One posterior of a model.
struct Posterior<'a> {
    planned: &'a Planned,
    loc: Tensor<2>,
    scales: Scales,
    prior_loc: Option<Tensor<2>>,
}

/// Visitors do not see what is attached to a parameter, but they see its parts, one after the other.
struct Gather<'a> {
    planned: &'a BTreeMap<String, Planned>,
    path: Vec<String>,
    /// The parameter that was seen last, if it is one of ours.
    base: Option<(&'a Planned, Tensor<2>)>,
    /// What is attached to it, by name, while its parts are seen.
    parts: Option<BTreeMap<String, Tensor<2>>>,
    found: Vec<Posterior<'a>>,
}

impl Gather<'_> {
    fn finish(&mut self) {
        let (Some((planned, loc)), Some(mut parts)) = (self.base.take(), self.parts.take()) else { return };
        let [log_scale, log_u, log_v] = ["log_scale", "log_u", "log_v"].map(|name| parts.remove(name));
        let Some(scales) = Scales::of(log_scale, log_u, log_v) else { return };
        self.found.push(Posterior { planned, loc, scales, prior_loc: parts.remove("prior_loc") });
    }
}

impl ModuleVisitor for Gather<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        if container == "Reparameterization" && name == Variational::NAME {
            self.parts = Some(BTreeMap::new());
        }
        self.path.push(name.into());
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.path.pop();
        if container == "Reparameterization" && name == Variational::NAME {
            self.finish();
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(parts) = &mut self.parts {
            let name = self.path.last().cloned().unwrap_or_default();
            parts.insert(name, to_matrix(param.val(), D.saturating_sub(1)));
            return;
        }
        let planned = self.planned.get(&self.path.join("."));
        self.base = planned.map(|planned| (planned, to_matrix(param.val(), planned.outputs)));
    }
}
