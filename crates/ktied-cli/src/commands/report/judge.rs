//! What the report finds out itself: an evaluation where there is none, and the examples of which a run is most and least
//! certain.

use burn::tensor::Device;
use ktied::data::{DataSet, InOrder, Split, Targets, Units};
use ktied::evaluate::{BATCHES_AT_ONCE, ClassPrediction, Draws, Ensemble, Predictions, Protocol, ValuePrediction};
use ktied::models::{AnyNetwork, Network};
use ktied::train::{EVALUATION_BATCH, Trainer};
use serde_json::{Value, json};

use super::looks::Looker;
use crate::args::{Args, Report, SplitName};
use crate::commands::evaluate::{batches, progress, split_of};
use crate::exit::Failure;
use crate::report::{Example, Examples, Judged, Said, SaidValue};

/// Mass of the interval around a number.
const LEVEL: f64 = 0.95;

fn ensemble(trainer: &Trainer) -> Result<Ensemble<AnyNetwork>, Failure> {
    Ok(Ensemble::new([(&trainer.model().network, &trainer.model().likelihood)])?)
}

/// As many draws as were asked for, or one if all are the same.
fn samples(trainer: &Trainer, asked: u64) -> u64 {
    if trainer.model().network.is_deterministic() { 1 } else { asked }
}

/// Judges a run as `ktied evaluate` would.
pub(super) fn judge(
    trainer: &Trainer,
    data: &DataSet,
    name: SplitName,
    asked: u64,
    args: &Args,
) -> Result<Judged, Failure> {
    let (split, samples) = (split_of(data, name), samples(trainer, asked));
    let protocol = Protocol { samples, seed: trainer.config().train.seed, num_train: data.train.len() };
    let bar = progress(args, split, samples);
    let judged = ensemble(trainer)?.judge(batches(split), &protocol, |done| bar.set_position(done));
    bar.finish_and_clear();
    let judged = judged?;
    let metrics = judged.evaluation.in_units(&split.target_units());
    let mut document = serde_json::to_value(metrics).unwrap_or_default();
    if let Value::Object(entries) = &mut document {
        entries.insert("step".into(), json!(trainer.state().step));
        if let Some(curves) = judged.curves {
            entries.insert("curves".into(), json!(curves));
        }
    }
    Ok(Judged { split: name.name(), document, is_fresh: true })
}

/// What a run says of one example.
enum Opinion {
    Class(ClassPrediction),
    Values(Vec<ValuePrediction>),
}

impl Opinion {
    /// The larger, the less certain: the entropy, or the mean standard deviation.
    fn uncertainty(&self) -> f64 {
        match self {
            Self::Class(prediction) => prediction.entropy,
            Self::Values(values) => values.iter().map(|value| value.sd).sum::<f64>() / values.len().max(1) as f64,
        }
    }
}

/// The examples of which a run is most and least certain.
pub(super) fn examples(
    trainer: &Trainer,
    data: &DataSet,
    name: SplitName,
    arguments: &Report,
    args: &Args,
) -> Result<Examples, Failure> {
    let (split, samples) = (split_of(data, name), samples(trainer, arguments.samples));
    let mut opinions = opinions(trainer, split, samples, args)?;
    let count = opinions.len();
    // What is not finite is least certain of all; equals stay in the order of their rows.
    opinions.sort_by(|(one, a), (other, b)| a.uncertainty().total_cmp(&b.uncertainty()).then(one.cmp(other)));
    let wanted = (arguments.examples as usize).min(count);
    let looker = Looker::new(data, trainer.config(), name);
    let example = |(row, opinion): &(usize, Opinion)| Example {
        row: *row,
        looks: looker.look(split, *row),
        said: said(opinion, *row, split, &data.class_names),
    };
    Ok(Examples {
        most: opinions.iter().take(wanted).map(example).collect(),
        least: opinions.iter().rev().take(wanted).map(example).collect(),
        samples,
        split: name.name(),
        count,
    })
}

/// What a run says of every example, in the memory of a few batches besides.
fn opinions(trainer: &Trainer, split: &Split, samples: u64, args: &Args) -> Result<Vec<(usize, Opinion)>, Failure> {
    let (ensemble, bar) = (ensemble(trainer)?, progress(args, split, samples));
    let mut found = Vec::new();
    let mut batches = InOrder::new(split, EVALUATION_BATCH).batches();
    loop {
        let inputs = batches.by_ref().take(BATCHES_AT_ONCE).map(|batch| batch.map(|batch| batch.on(&Device::flex()).0));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        if inputs.is_empty() {
            break;
        }
        let draws = Draws { samples, seed: trainer.config().train.seed, first: found.len() as u64 };
        for predictions in ensemble.predict_batches(inputs, &draws, LEVEL)? {
            let opinions: Vec<Opinion> = match predictions {
                Predictions::Classes(all) => all.into_iter().map(Opinion::Class).collect(),
                Predictions::Values(all) => all.into_iter().map(Opinion::Values).collect(),
            };
            let first = found.len();
            found.extend((first..).zip(opinions));
        }
        bar.set_position(found.len() as u64 * samples);
    }
    bar.finish_and_clear();
    Ok(found)
}

fn said(opinion: &Opinion, row: usize, split: &Split, class_names: &[String]) -> Said {
    let class_name = |class: usize| class_names.get(class).cloned().unwrap_or_else(|| class.to_string());
    match opinion {
        Opinion::Class(prediction) => {
            let label = match &split.targets {
                Targets::Classes { labels, .. } => labels.get(row).map(|label| *label as usize),
                Targets::Values { .. } => None,
            };
            let mut probabilities: Vec<(usize, f64)> = prediction.probabilities.iter().copied().enumerate().collect();
            probabilities.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
            Said::Classes {
                label: label.map_or("?".into(), class_name),
                is_right: label == Some(prediction.class),
                probabilities: probabilities.into_iter().map(|(class, share)| (class_name(class), share)).collect(),
                entropy: prediction.entropy,
                mutual_information: prediction.mutual_information,
            }
        }
        Opinion::Values(values) => {
            let units = split.target_units();
            Said::Values(
                values
                    .iter()
                    .enumerate()
                    .map(|(output, value)| said_value(*value, output, row, split, &units))
                    .collect(),
            )
        }
    }
}

/// In the units of the data.
fn said_value(value: ValuePrediction, output: usize, row: usize, split: &Split, units: &Units) -> SaidValue {
    let scale = units.scale.get(output).map_or(1.0, |scale| f64::from(*scale));
    let loc = units.loc.get(output).map_or(0.0, |loc| f64::from(*loc));
    let truth = match &split.targets {
        Targets::Values { data, width, .. } => {
            data.get(row * width + output).map_or(f64::NAN, |truth| f64::from(*truth))
        }
        Targets::Classes { .. } => f64::NAN,
    };
    SaidValue {
        truth: truth * scale + loc,
        mean: value.mean * scale + loc,
        sd: value.sd * scale,
        lower: value.lower * scale + loc,
        upper: value.upper * scale + loc,
    }
}
