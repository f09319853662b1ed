//! What an update would make not finite, before anything is changed: where the largest numbers of the last update say that nothing
//! can overflow, which is nearly always, without looking at one of them.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use ktied_kernels::adam::Largest;

use super::{Adam, LearningRates, flat, shortened};
use crate::checkpoint::path::{ModulePath, tracks_path};
use crate::ops;

/// What is not finite among the numbers of a parameter, by its name.
pub(super) fn not_finite(largest: Largest, path: &ModulePath) -> Option<String> {
    let path = path.joined();
    match largest {
        Largest { moment_1, .. } if !moment_1.is_finite() => Some(format!("optimiser's first moment of `{path}`")),
        Largest { moment_2, .. } if !moment_2.is_finite() => Some(format!("optimiser's second moment of `{path}`")),
        Largest { param, .. } if !param.is_finite() => Some(format!("parameter `{path}` after its update")),
        _ => None,
    }
}

impl Adam {
    /// What is not finite already or would not be after [`step`](Self::step), by the name of its tensor: a parameter, or one of
    /// the moments kept of it. Nothing is changed. `norm` is that of all gradients together.
    pub fn foresee<M: Module>(
        &self,
        rates: impl Into<LearningRates>,
        module: &M,
        grads: &GradientsParams,
        norm: f64,
    ) -> Option<String> {
        let factor = self.shortening(norm);
        let norm = norm * factor.unwrap_or(1.0);
        let path = ModulePath::default();
        let mut foresight = Foresight { path, adam: self, rates: rates.into(), grads, norm, factor, found: None };
        module.visit(&mut foresight);
        foresight.found
    }
}

/// Goes through a module until something is found.
struct Foresight<'a> {
    path: ModulePath,
    adam: &'a Adam,
    rates: LearningRates,
    grads: &'a GradientsParams,
    /// Of the gradients that the update gets.
    norm: f64,
    /// What they are multiplied with before.
    factor: Option<f64>,
    found: Option<String>,
}

impl ModuleVisitor for Foresight<'_> {
    tracks_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let shape = param.shape();
        let kept = self.adam.moments(param.id).filter(|kept| kept.shape == *shape);
        let step = self.adam.config.step(self.rates.of(self.path.last()), kept.map_or(1, |kept| kept.time + 1));
        let largest = kept.and_then(|kept| kept.largest);
        if self.found.is_some() || largest.is_some_and(|largest| largest.stays_finite(self.norm, step)) {
            return;
        }
        let Some(grad) = self.grads.get::<D>(param.id) else { return };
        let value = flat(param.val().inner());
        let moments = match kept {
            Some(kept) => kept.flat.clone().map(|moment| moment.to_device(&value.device())),
            None => [value.zeros_like(), value.zeros_like()],
        };
        let after = ops::adam_foresee(value, moments, flat(shortened(grad, self.factor)), step)
            .expect("burn gives a parameter and its gradient in one shape");
        self.found = not_finite(after, &self.path);
    }
}
