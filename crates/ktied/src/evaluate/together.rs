//! An evaluation divided over processes: each judges its batches, and all of them add up all scores in the order of examples.

use burn::tensor::Device;

use super::classes::Opinion;
use super::ensemble::{BATCHES_AT_ONCE, Ensemble, Progress};
use super::evaluator::{Evaluator, Protocol};
use super::tally::{ClassScores, Scores, ValueScores};
use super::whole::Judgement;
use crate::cluster::Cluster;
use crate::data::InOrder;
use crate::error::Result;
use crate::models::AnyNetwork;

impl Ensemble<AnyNetwork> {
    /// As [`judge`](Self::judge), by several processes that each judge some of the batches. Every process gets the result, which
    /// is that of one process, digit for digit: batches are the same ones, and scores are added up in the order of examples.
    ///
    /// # Errors
    /// As [`judge`](Self::judge), and if another process fails.
    pub fn judge_together(
        &self,
        cluster: &dyn Cluster,
        examples: &InOrder<'_>,
        protocol: &Protocol,
        mut on_progress: impl FnMut(u64),
    ) -> Result<Judgement> {
        let (place, protocol) = (cluster.place(), Protocol { samples: self.samples(protocol.samples), ..*protocol });
        let mut evaluator = Evaluator::of_predictives(self.predictives().to_vec(), &protocol)?;
        let mut progress = Progress::new(|done| on_progress(done * place.of as u64));
        for begin in (0..examples.len()).step_by(BATCHES_AT_ONCE * place.of) {
            let window = examples.len().min(begin + BATCHES_AT_ONCE * place.of) - begin;
            let own = place.part_of(window);
            let batches = own.clone().map(|number| Ok(examples.batch(begin + number)?.on(&Device::flex())));
            let (inputs, observed): (Vec<_>, Vec<_>) = batches.collect::<Result<Vec<_>>>()?.into_iter().unzip();
            let first = examples.first(begin + own.start) as u64;
            let mut output = self.outputs(inputs, protocol.seed);
            let scores = evaluator.scores(first, &observed, |wanted| progress.note(output(wanted)?))?;
            if place.is_alone() {
                evaluator.add_scores(&scores);
                continue;
            }
            for note in cluster.notes(&scores.iter().flat_map(bytes).collect::<Vec<u8>>())? {
                let scores: Vec<Scores> = note.chunks_exact(8 * NUMBERS).map(read).collect();
                evaluator.add_scores(&scores);
            }
        }
        evaluator.judge(self.kl()?)
    }
}

/// Numbers of an example's scores: two of all, what was observed, and as many as a class has.
const NUMBERS: usize = 11;
/// What was observed.
const NOTHING: f64 = 0.0;
const A_CLASS: f64 = 1.0;
const VALUES: f64 = 2.0;

fn bytes(scores: &Scores) -> [u8; 8 * NUMBERS] {
    let Scores { nll_of_draws, nll, class, values } = *scores;
    let mut numbers = [nll_of_draws, nll, NOTHING, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    if let Some(ClassScores { opinion, correct, brier }) = class {
        let Opinion { class, confidence, uncertainty, entropy, expected_entropy, mutual_information } = opinion;
        let of_class = [class as f64, confidence, uncertainty, entropy, expected_entropy, mutual_information];
        numbers[2] = A_CLASS;
        numbers[3..9].copy_from_slice(&of_class);
        numbers[9..].copy_from_slice(&[correct, brier]);
    }
    if let Some(ValueScores { squared_error, covered: [half, nine_tenths, most], sharpness }) = values {
        numbers[2] = VALUES;
        numbers[3..8].copy_from_slice(&[squared_error, half, nine_tenths, most, sharpness]);
    }
    let mut bytes = [0; 8 * NUMBERS];
    bytes.chunks_exact_mut(8).zip(numbers).for_each(|(bytes, number)| bytes.copy_from_slice(&number.to_le_bytes()));
    bytes
}

fn read(bytes: &[u8]) -> Scores {
    let mut numbers = [0.0; NUMBERS];
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = f64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    let [nll_of_draws, nll, observed, a, b, c, d, e, f, g, h] = numbers;
    let opinion = Opinion {
        class: a as usize,
        confidence: b,
        uncertainty: c,
        entropy: d,
        expected_entropy: e,
        mutual_information: f,
    };
    let class = (observed == A_CLASS).then_some(ClassScores { opinion, correct: g, brier: h });
    let values = ValueScores { squared_error: a, covered: [b, c, d], sharpness: e };
    Scores { nll_of_draws, nll, class, values: (observed == VALUES).then_some(values) }
}
