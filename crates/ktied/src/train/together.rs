//! What several processes share of a step: each has its part of the batch and of the divergence, and all make the same update.

use std::sync::Arc;

use burn::module::Module;
use burn::optim::GradientsParams;

use super::model::Model;
use crate::cluster::{self, Alone, Cluster, Layout, Place, Wire};
use crate::config::ClusterNoise;
use crate::error::{Error, Result};
use crate::models::{AnyNetwork, Network};
use crate::nn::{Pass, Weights};

/// The processes of a run, as one of them sees them.
#[derive(Debug)]
pub(super) struct Together {
    cluster: Arc<dyn Cluster>,
    noise: ClusterNoise,
    wire: Wire,
    layout: Layout,
    /// Bytes sent since the last line of the log.
    sent: u64,
}

/// What a process has found of its part of a batch.
#[derive(Debug)]
pub(super) struct Part {
    /// Its share of the batch's mean NLL, and of the divergence.
    pub(super) nll: f64,
    pub(super) kl: f64,
    /// Examples classified rightly, if the targets are classes and it has any.
    pub(super) correct: Option<usize>,
    /// Gradients of its share of the loss, or what was not finite.
    pub(super) grads: std::result::Result<GradientsParams, String>,
}

impl Together {
    pub(super) fn new(cluster: Arc<dyn Cluster>, noise: ClusterNoise, wire: Wire) -> Self {
        Self { cluster, noise, wire, layout: Layout::default(), sent: 0 }
    }

    pub(super) fn alone() -> Self {
        Self::new(Arc::new(Alone), ClusterNoise::Shared, Wire::Single)
    }

    pub(super) fn cluster(&self) -> &dyn Cluster {
        &*self.cluster
    }

    pub(super) fn place(&self) -> Place {
        self.cluster.place()
    }

    /// The pass over this process's part of a batch, which begins with its example number `first`.
    pub(super) fn pass(&self, pass: Pass, first: usize) -> Pass {
        let place = self.place();
        match self.noise {
            _ if place.is_alone() => pass,
            ClusterNoise::Shared => pass.beginning_with(first as u64),
            ClusterNoise::PerRank => pass.of_process(place.number as u64),
        }
    }

    /// This process's share of KL(q‖p), that of some layers, so that all of them together are computed once, and `by` times its
    /// gradients added to `grads`.
    pub(super) fn add_kl_gradients(&self, network: &AnyNetwork, by: f64, grads: &mut GradientsParams) -> Result<f64> {
        let layers = network.weights();
        let owners = owners(&layers, self.place().of);
        let own = layers.iter().zip(owners).filter(|(_, owner)| *owner == self.place().number);
        own.map(|(weights, _)| weights.add_kl_gradients(by, grads)).sum()
    }

    /// The same part of every process put together: sums of what they found, and of their gradients. What is not finite in one is
    /// so in all of them.
    pub(super) fn whole(&mut self, model: &Model, part: Part) -> Result<Part> {
        if self.place().is_alone() {
            return Ok(part);
        }
        let Part { nll, kl, correct, grads } = part;
        let present = grads.as_ref().map_or_else(|_| Vec::new(), |grads| cluster::present(model, grads));
        let note = Note { nll: nll.to_bits(), kl: kl.to_bits(), correct, present, bad: grads.as_ref().err().cloned() };
        let (mut nll, mut kl, mut correct, mut wanted, mut bad) = (0.0, 0.0, None, Vec::new(), None);
        for note in self.cluster.notes(&serde_json::to_vec(&note).unwrap_or_default())? {
            let note: Note = serde_json::from_slice(&note).map_err(|error| Error::UnlikeFirst {
                process: self.place().number,
                differences: format!("a note of a step cannot be read: {error}"),
            })?;
            nll += f64::from_bits(note.nll);
            kl += f64::from_bits(note.kl);
            correct = note.correct.map(|more| more + correct.unwrap_or(0)).or(correct);
            bad = bad.or(note.bad);
            wanted.resize(wanted.len().max(note.present.len()), false);
            wanted.iter_mut().zip(note.present).for_each(|(wanted, there)| *wanted |= there);
        }
        let grads = match (bad, grads) {
            (None, Ok(grads)) => {
                let (grads, sent) =
                    cluster::sum_gradients(&*self.cluster, model, grads, &wanted, self.wire, &mut self.layout);
                self.sent += sent;
                Ok(grads)
            }
            (bad, grads) => Err(bad.or(grads.err()).unwrap_or_default()),
        };
        Ok(Part { nll, kl, correct, grads })
    }

    /// Bytes that this process has sent since the last call; none if it is alone.
    pub(super) fn take_sent(&mut self) -> Option<u64> {
        let sent = std::mem::take(&mut self.sent);
        (!self.place().is_alone()).then_some(sent)
    }
}

/// A [`Part`] as it is sent; numbers by their bits, because text would round them.
#[derive(serde::Serialize, serde::Deserialize)]
struct Note {
    nll: u64,
    kl: u64,
    correct: Option<usize>,
    present: Vec<bool>,
    bad: Option<String>,
}

/// Which process computes the divergence of each layer: the largest first, each by whoever has least to do so far.
fn owners(layers: &[&Weights], processes: usize) -> Vec<usize> {
    let sizes: Vec<usize> = layers.iter().map(|weights| weights.num_params()).collect();
    let mut order: Vec<usize> = (0..layers.len()).collect();
    order.sort_by_key(|layer| std::cmp::Reverse(sizes[*layer]));
    let (mut work, mut owners) = (vec![0; processes.max(1)], vec![0; layers.len()]);
    for layer in order {
        let least = (0..work.len()).min_by_key(|process| work[*process]).unwrap_or(0);
        owners[layer] = least;
        work[least] += sizes[layer];
    }
    owners
}
