//! Which pass a model is in: what a parameter is told when it is read.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use burn::tensor::Tensor;
use ktied_kernels::NoiseKey;

use super::error::ConvertError;
use crate::error::Result;
use crate::nn::{Estimator, LayerNoise, Pass};

/// The pass that is under way, shared by a model, its clones and all its parameters.
///
/// One thread runs a pass at a time; others wait for their turn.
#[derive(Default)]
pub struct Current {
    turn: Mutex<()>,
    pass: Mutex<Option<Running>>,
}

struct Running {
    thread: ThreadId,
    /// Root and number of the draw; none where weights are at their means.
    draw: Option<(NoiseKey, u64)>,
    /// The weights that were drawn so far, each a tensor of some rank.
    drawn: HashMap<u64, Box<dyn Any + Send>>,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Current")
    }
}

impl Current {
    /// Runs `task` in a pass.
    ///
    /// # Errors
    /// If this thread is in a pass already, or the pass wants more than a draw of the weights.
    pub fn run<T>(&self, pass: &Pass, task: impl FnOnce() -> T) -> Result<T> {
        let draw = draw_of(pass)?;
        let thread = thread::current().id();
        if self.pass().as_ref().is_some_and(|running| running.thread == thread) {
            return Err(ConvertError::Nested.into());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        *self.pass() = Some(Running { thread, draw, drawn: HashMap::new() });
        let _end = End(self);
        Ok(task())
    }

    /// The weights that `draw` makes of a stream of noise, once a pass for each `instance` of a parameter; none where
    /// weights are at their means.
    pub fn weights<const D: usize>(
        &self,
        instance: &Instance,
        layer: u64,
        draw: impl FnOnce(NoiseKey) -> Tensor<D>,
    ) -> Option<Tensor<D>> {
        let mut pass = self.pass();
        let running = pass.as_mut()?;
        let (root, step) = running.draw?;
        if let Some(drawn) = running.drawn.get(&instance.0).and_then(|drawn| drawn.downcast_ref::<Tensor<D>>()) {
            return Some(drawn.clone());
        }
        let weights = draw(LayerNoise::new(root, step, layer).weights(0));
        running.drawn.insert(instance.0, Box::new(weights.clone()));
        Some(weights)
    }

    fn pass(&self) -> MutexGuard<'_, Option<Running>> {
        // A panic elsewhere leaves a pass or none.
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the pass, and lets go of what was drawn, however the task ends.
struct End<'a>(&'a Current);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.pass() = None;
    }
}

fn draw_of(pass: &Pass) -> Result<Option<(NoiseKey, u64)>> {
    match pass.drawn() {
        Pass::Sampled { estimator: Estimator::Reparam, root, step, .. } => Ok(Some((root, step))),
        Pass::Sampled { estimator, .. } => Err(ConvertError::Estimator { found: estimator.to_string() }.into()),
        _ => Ok(None),
    }
}

/// Which parameter it is, of all in this process: a clone is another, whose value may change by itself.
#[derive(Debug)]
pub struct Instance(u64);

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Instance {
    pub fn new() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Clone for Instance {
    fn clone(&self) -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use burn::tensor::Device;

    use super::*;

    #[test]
    fn a_parameter_is_drawn_once_a_pass_and_its_clone_by_itself() {
        let (current, instance, draws) = (Current::default(), Instance::new(), Cell::new(0));
        let read = |instance: &Instance| {
            current.weights(instance, 7, |_| {
                draws.set(draws.get() + 1);
                Tensor::<1>::zeros([2], &Device::flex())
            })
        };
        assert!(read(&instance).is_none());
        for pass in 1..4 {
            let both = current.run(&Pass::prediction(1, pass), || (read(&instance), read(&instance))).unwrap();
            assert!(both.0.is_some() && both.1.is_some());
            assert_eq!(draws.get(), pass);
        }
        let clone = instance.clone();
        current.run(&Pass::prediction(1, 0), || [read(&instance), read(&clone), read(&clone)]).unwrap();
        assert_eq!(draws.get(), 5);
        assert!(current.run(&Pass::Means, || read(&instance)).unwrap().is_none());
    }

    #[test]
    fn noise_is_a_function_of_seed_draw_and_parameter() {
        let (current, instance) = (Current::default(), Instance::new());
        let key = |pass: Pass, layer| {
            let found = Cell::new(None);
            let draw = |key| {
                found.set(Some(key));
                Tensor::<1>::zeros([1], &Device::flex())
            };
            current.run(&pass, || current.weights(&instance, layer, draw)).unwrap();
            found.get()
        };
        let first = key(Pass::prediction(1, 2), 3);
        assert_eq!(first, key(Pass::prediction(1, 2), 3));
        for other in [key(Pass::prediction(2, 2), 3), key(Pass::prediction(1, 1), 3), key(Pass::prediction(1, 2), 4)] {
            assert!(other.is_some() && other != first);
        }
    }
}
