//! Which tensor holds a number that is not finite. A name is looked for only after a step went wrong, so it may take its time.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::model::Model;
use super::optim::grad_norm;
use crate::checkpoint::path::{ModulePath, tracks_path};
use crate::models::{Features, Network};
use crate::objective::Terms;
use crate::ops;

/// Largest norm whose square single precision holds: Adam keeps squares, and one that is infinite stops its parameter for ever.
const MAX_NORM: f64 = 1.8e19;

/// The norm of the gradients, or what is not finite in them. Gradients that will be shortened may be longer than others.
pub(super) fn norm_of<M: Module>(model: &M, grads: &GradientsParams, shortened: bool) -> Result<f64, String> {
    let norm = grad_norm(model, grads);
    if norm.is_finite() && (shortened || norm < MAX_NORM) {
        return Ok(norm);
    }
    let bad = |squares: f64| !squares.is_finite();
    let long = |squares: f64| squares.sqrt() >= MAX_NORM;
    let first = |bad: fn(f64) -> bool| {
        let mut search = Search { path: ModulePath::default(), grads: Some(grads), bad, found: None };
        model.visit(&mut search);
        search.found
    };
    let named = first(bad).map(|path| format!("gradient of `{path}`"));
    let named = named.or_else(|| first(long).map(|path| format!("square of the gradient of `{path}`")));
    Err(named.unwrap_or_else(|| "gradient".into()))
}

/// What is not finite in a loss that is not: what comes first on the way from parameters and inputs to it.
pub(super) fn in_loss(model: &Model, features: &Features, output: Option<Tensor<2>>, terms: &Terms) -> String {
    let bad = |squares: f64| !squares.is_finite();
    let mut search = Search { path: ModulePath::default(), grads: None, bad, found: None };
    model.visit(&mut search);
    let is_bad = |tensor: Tensor<2>| !is_finite(&tensor);
    match search.found {
        Some(path) => format!("parameter `{path}`"),
        None if matches!(features, Features::Rows(rows) if is_bad(rows.clone())) => "input".into(),
        None if output.is_some_and(is_bad) => "network's output".into(),
        None if !terms.nll.is_finite() => "negative log-likelihood".into(),
        None => divergence(model),
    }
}

/// The layer whose divergence is not finite; none alone may be, if only their sum is not.
fn divergence(model: &Model) -> String {
    let weights = model.network.weights();
    let bad = weights.iter().find(|weights| weights.kl().is_ok_and(|kl| !is_finite(&kl)));
    bad.map_or("divergence".into(), |weights| format!("divergence of the layer `{}`", weights.name()))
}

fn is_finite<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.to_data().iter::<f32>().all(f32::is_finite)
}

/// The path of the first parameter of which Σ x² is bad, x being its gradient or itself.
struct Search<'a> {
    path: ModulePath,
    grads: Option<&'a GradientsParams>,
    bad: fn(f64) -> bool,
    found: Option<String>,
}

impl ModuleVisitor for Search<'_> {
    tracks_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = match self.grads {
            Some(grads) => grads.get::<D>(param.id),
            None => Some(param.val().inner()),
        };
        if self.found.is_none() && tensor.is_some_and(|tensor| (self.bad)(ops::sum_of_squares(tensor))) {
            self.found = Some(self.path.joined());
        }
    }
}
