//! What the layers of a network hold of one example, in numbers, model by model.
//!
//! A layer of I inputs and O outputs keeps for its backward pass
//!
//! | drawn | numbers an example | which |
//! |---|---|---|
//! | once a batch, or a point | O | the output |
//! | by Flipout | 3 O + I | mean, deviation and their sum, and the signed input |
//! | locally | 4 O + I | mean, standard deviation, their sum, the rectified sum, and the squared input |
//!
//! and the gradients of the largest layer pass through once more. Convolutions unfold a few images at a time for each
//! thread, which is little beside all this.
//!
//! - **MLP**: all layers; two of the widest pass through.
//! - **LeNet**, with C₁ = side²·filters₁ and C₂ = (side/2)²·filters₂: both convolutions, each followed by a pooling and a rectifier
//!   of a quarter each; C₁ and a quarter pass through.
//! - **LSTM**, T words of E numbers, H cells: T·E embeddings, T·(4 + 2)·H gates and states, by Flipout T·(E + 5 H) more;
//!   T·(E + 4 H) pass through.
//! - **ResNet-18**: of each block the rectified input, shortcut, both convolutions, the norm between them and the sum; two (by
//!   Flipout four) of the stem's outputs pass through.
//!
//! Without gradients only what the next operation reads is alive: input and output of the widest layer, of LeNet the first
//! convolution and its pooling, of an LSTM all gates, of ResNet-18 three outputs of the first block.

use crate::config::Config;
use crate::evaluate::BATCHES_AT_ONCE;
use crate::models::{LeNetSpec, LstmSpec, MlpSpec, ModelSpec, ResNet18Spec};
use crate::nn::Estimator;
use crate::posterior::PosteriorKind;
use crate::train::EVALUATION_BATCH;

const BYTES: u64 = 4;
/// Batches on the host beside the one of the step: two that wait and one that is made.
const AHEAD: u64 = 3;
/// Groups of draws, each with sums of predictions in double precision.
const GROUP_BYTES: u64 = 10 * 8;
const GATES: u64 = 4;

/// How a layer's weights enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Once,
    Flipout,
    Local,
}

impl Way {
    fn of(kind: PosteriorKind, estimator: Estimator, is_shared: bool) -> Self {
        match (kind, estimator, is_shared) {
            (PosteriorKind::Point, ..) | (_, Estimator::Reparam, _) => Self::Once,
            (_, Estimator::Flipout, _) | (_, Estimator::Local, true) => Self::Flipout,
            (_, Estimator::Local, false) => Self::Local,
        }
    }

    /// Numbers that a layer keeps of an example.
    fn kept(self, inputs: u64, outputs: u64) -> u64 {
        match self {
            Self::Once => outputs,
            Self::Flipout => sum([times(3, outputs), inputs]),
            Self::Local => sum([times(4, outputs), inputs]),
        }
    }
}

fn sum<const N: usize>(parts: [u64; N]) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

fn times(a: u64, b: u64) -> u64 {
    a.saturating_mul(b)
}

fn squared(side: usize, channels: usize) -> u64 {
    times(times(side as u64, side as u64), channels as u64)
}

/// Bytes that a training step holds of its batch.
pub fn training(config: &Config) -> u64 {
    let (kept, passing) = match &config.model {
        ModelSpec::Mlp(spec) => mlp(spec, config),
        ModelSpec::LeNet(spec) => lenet(spec, config),
        ModelSpec::Lstm(spec) => lstm(spec, config),
        ModelSpec::ResNet18(spec) => resnet18(spec, config),
    };
    // The graphs of all draws of a step stand until its backward pass.
    let numbers = sum([times(kept, config.estimator.draws), inputs(config), passing]);
    times(BYTES, times(config.train.batch as u64, numbers))
}

/// Bytes that an evaluation, or a validation, holds of its batches.
pub fn evaluating(config: &Config) -> u64 {
    let alive = match &config.model {
        ModelSpec::Mlp(spec) => spec.sizes.windows(2).map(|size| size.iter().sum::<usize>() as u64).max().unwrap_or(0),
        ModelSpec::LeNet(spec) => times(5, squared(spec.side, spec.filters[0])) / 4,
        ModelSpec::Lstm(spec) => {
            let [words, embedding, hidden] = [config.data.length, spec.embedding, spec.hidden].map(|size| size as u64);
            times(words, sum([embedding, times(GATES + 2, hidden)]))
        }
        ModelSpec::ResNet18(spec) => times(3, squared(spec.side, spec.widths[0])),
    };
    // Means and standard deviations of the first layer's sums, which all draws share.
    let shared = match &config.model {
        ModelSpec::Mlp(spec) => times(2, spec.sizes.get(1).map_or(0, |&size| size as u64)),
        _ => 0,
    };
    let numbers = sum([inputs(config), alive]);
    let sums = times(GROUP_BYTES, config.model.outputs() as u64);
    let of_each = sum([times(BYTES, sum([inputs(config), shared])), sums]);
    times(EVALUATION_BATCH as u64, sum([times(BYTES, numbers), times(BATCHES_AT_ONCE as u64, of_each)]))
}

/// Bytes of the batches that are gathered ahead of training.
pub fn ahead(config: &Config) -> u64 {
    times(AHEAD * BYTES, times(config.train.batch as u64, inputs(config)))
}

/// Numbers of one example's input.
fn inputs(config: &Config) -> u64 {
    match &config.model {
        ModelSpec::Mlp(spec) => spec.sizes.first().copied().unwrap_or(0) as u64,
        ModelSpec::LeNet(spec) => squared(spec.side, spec.channels),
        ModelSpec::ResNet18(spec) => squared(spec.side, spec.channels),
        ModelSpec::Lstm(_) => config.data.length as u64,
    }
}

/// What is kept, and what passes through.
fn mlp(spec: &MlpSpec, config: &Config) -> (u64, u64) {
    let way = Way::of(config.posterior.kind, config.estimator.kind, false);
    let layers = spec.sizes.windows(2).map(|size| {
        let [inputs, outputs] = [0, 1].map(|i| size.get(i).copied().unwrap_or(0) as u64);
        // A sum of two products is rectified apart.
        let rectified = if way == Way::Flipout { outputs } else { 0 };
        sum([way.kept(inputs, outputs), rectified])
    });
    let widest = spec.sizes.iter().copied().max().unwrap_or(0) as u64;
    (layers.fold(0, u64::saturating_add), times(2, widest))
}

fn lenet(spec: &LeNetSpec, config: &Config) -> (u64, u64) {
    let estimator = config.estimator.kind;
    let conv = config.posterior.conv.unwrap_or(config.posterior.kind.of_vectors());
    let (conv, dense) = (Way::of(conv, estimator, true), Way::of(config.posterior.kind, estimator, false));
    let [first, second] = [squared(spec.side, spec.filters[0]), squared(spec.side / 2, spec.filters[1])];
    let pooled = |size: u64| size / 2; // a quarter for the pooling, a quarter for the rectifier
    let dense = sum([dense.kept(second / 4, spec.dense as u64), dense.kept(spec.dense as u64, spec.classes as u64)]);
    let convs = sum([conv.kept(squared(spec.side, spec.channels), first), conv.kept(first / 4, second)]);
    let passing = if conv == Way::Flipout { times(9, first) / 4 } else { times(5, first) / 4 };
    (sum([convs, pooled(first), pooled(second), dense]), passing)
}

fn lstm(spec: &LstmSpec, config: &Config) -> (u64, u64) {
    let way = Way::of(config.posterior.kind, config.estimator.kind, true);
    let [words, embedding, hidden] = [config.data.length, spec.embedding, spec.hidden].map(|size| size as u64);
    let signed = if way == Way::Flipout { sum([embedding, times(GATES + 1, hidden)]) } else { 0 };
    let kept = sum([embedding, times(GATES + 2, hidden), signed]);
    (times(words, kept), times(words, sum([embedding, times(GATES, hidden)])))
}

fn resnet18(spec: &ResNet18Spec, config: &Config) -> (u64, u64) {
    let kind = config.posterior.conv.unwrap_or(config.posterior.kind);
    let way = Way::of(kind, config.estimator.kind, true);
    let stem = squared(spec.side, spec.widths[0]);
    let mut kept = way.kept(squared(spec.side, spec.channels), stem);
    let (mut inputs, mut side) = (stem, spec.side);
    for (block, width) in spec.widths.into_iter().enumerate() {
        side = if block == 0 { side } else { side.div_ceil(2) };
        let outputs = squared(side, width);
        let convs = sum([times(2, way.kept(inputs, outputs)), way.kept(outputs, outputs)]);
        kept = sum([kept, inputs, convs, times(2, outputs)]);
        inputs = outputs;
    }
    (sum([kept, inputs]), times(if way == Way::Flipout { 4 } else { 2 }, stem))
}
