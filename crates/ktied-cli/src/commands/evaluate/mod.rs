//! `ktied evaluate`: how a trained run, or an ensemble of runs, does on examples that it has not seen.

mod members;
mod picture;
mod report;

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressStyle};
use ktied::checkpoint::write_file;
use ktied::cluster::Cluster;
use ktied::data::{Batch, DataSet, DataSpec, InOrder, Inputs, Split, load, rotated};
use ktied::evaluate::{Comparison, Ensemble, OutOfDistribution, Protocol, Uncertainties, compare};
use ktied::models::{AnyNetwork, Features};
use ktied::objective::Observed;
use ktied::train::memory::Task;
use ktied::train::{EVALUATION_BATCH, Trainer};

pub(crate) use self::members::{Members, checkpoint_of, trained};
use self::report::Report;
use crate::args::{Args, Evaluate, SplitName};
use crate::exit::Failure;
use crate::table::{json, print_json};

pub(crate) fn run(arguments: &Evaluate, args: &Args, cluster: &dyn Cluster) -> Result<(), Failure> {
    match judge(arguments, args, cluster)? {
        Some(report) if args.json => print_json(&report),
        Some(report) => report.print(),
        None => Ok(()),
    }
}

/// Judges the runs, and keeps what was found where there is a place for it. Of several processes, each of which judges some of the
/// examples, the first reports.
pub(crate) fn judge(arguments: &Evaluate, args: &Args, cluster: &dyn Cluster) -> Result<Option<Report>, Failure> {
    let task = (Task::Evaluate, arguments.force);
    let members = Members::open(&arguments.runs, arguments.place.data.as_deref(), arguments.place.best, task, args)?;
    let how = [
        ("--samples", arguments.samples.to_string()),
        ("--split", arguments.split.name().to_string()),
        ("--rotate", arguments.rotate.unwrap_or_default().to_string()),
    ];
    members.check_same(cluster, &how)?;
    let other = match &arguments.compare {
        Some(run) => Some(members.open_beside(run, arguments.place.best, args)?),
        None => None,
    };
    let (data, name) = (&members.data, arguments.split.name());
    let split = &turned(split_of(data, arguments.split), data, arguments.rotate)?;
    if split.is_empty() {
        return Err(Failure::Usage(format!("--split {name}: the data set `{}` has no {name} examples", data.name)));
    }
    let ood = arguments.ood.as_deref().map(|set| outside(set, &members)).transpose()?;
    let (ensemble, protocol) = (members.ensemble()?, members.protocol(arguments.samples));
    let bar = progress(args, split, protocol.samples * ensemble.num_members() as u64);
    let examples = InOrder::new(split, EVALUATION_BATCH);
    let judged = ensemble.judge_together(cluster, &examples, &protocol, |done| bar.set_position(done));
    bar.finish_and_clear();
    let judged = judged?;
    if !cluster.place().is_first() {
        return Ok(None);
    }
    let ood = match (ood, judged.uncertainties) {
        (Some((set, split)), Some(known)) => Some((set, detect(&ensemble, &known, &split, &protocol, args)?)),
        (Some(_), None) => return Err(Failure::Usage("--ood: only a network for classes has an entropy".into())),
        (None, _) => None,
    };
    let comparison = match &other {
        Some(other) => Some(differences(&ensemble, other, split, &protocol, args)?),
        None => None,
    };
    let metrics = judged.evaluation.in_units(&split.target_units());
    let report = Report::new(arguments, &members, metrics, judged.curves, ood, comparison)?;
    keep(arguments, &report)?;
    Ok(Some(report))
}

/// Writes the report and its picture, where there is a place for them.
fn keep(arguments: &Evaluate, report: &Report) -> Result<(), Failure> {
    let folder = match (&arguments.out, &arguments.runs[..]) {
        (Some(folder), _) => folder.clone(),
        (None, [run]) => run.join("evaluation"),
        (None, _) => return Ok(()),
    };
    std::fs::create_dir_all(&folder).map_err(|error| ktied::Error::io("create", &folder, &error))?;
    let name = match arguments.rotate {
        Some(degrees) => format!("{}-rotated-{degrees}", arguments.split.name()),
        None => arguments.split.name().into(),
    };
    write_file(&folder.join(format!("{name}.json")), json(report)?.as_bytes())?;
    picture::write(report, &folder.join(&name))
}

/// The examples as they are, or with their images turned.
fn turned<'a>(split: &'a Split, data: &DataSet, degrees: Option<f64>) -> Result<Cow<'a, Split>, Failure> {
    let Some(degrees) = degrees.filter(|degrees| *degrees != 0.0) else { return Ok(Cow::Borrowed(split)) };
    let no_images =
        || Failure::Usage(format!("--rotate: the examples of `{}` are no images of a known shape", data.name));
    if !degrees.is_finite() {
        return Err(Failure::Usage(format!("--rotate expected a number of degrees, found {degrees}")));
    }
    let image = data.preprocessing.image().ok_or_else(no_images)?;
    rotated(split, image, degrees).map(Cow::Owned).map_err(|_| no_images())
}

/// Inputs and what was observed of them, in the order of the file.
pub(crate) fn batches(split: &Split) -> impl Iterator<Item = ktied::Result<(Features, Observed)>> {
    let batches = InOrder::new(split, EVALUATION_BATCH).batches();
    batches.map(|batch| batch.map(|batch: Batch| batch.on(&burn::tensor::Device::flex())))
}

/// The test examples of a set of another kind, as this network would see them.
fn outside(set: &str, members: &Members) -> Result<(String, Split), Failure> {
    let config = members.config();
    let spec = DataSpec { set: set.into(), ..config.data.clone() };
    let mut data = load(&spec)?;
    let mut split = if data.test.is_empty() { data.train } else { std::mem::replace(&mut data.test, data.validation) };
    let (found, expected) = (split.inputs.width(), members.data.train.inputs.width());
    if found != expected {
        let sentence = format!("--ood {set}: the network takes {expected} numbers an example, and these have {found}");
        return Err(Failure::Usage(sentence));
    }
    // Its pixels become numbers as those of the training set did.
    if let (Inputs::Bytes { scaling: of_set, .. }, Inputs::Bytes { scaling, .. }) =
        (&mut split.inputs, &members.data.train.inputs)
    {
        of_set.clone_from(scaling);
    }
    Ok((set.into(), split))
}

fn detect(
    ensemble: &Ensemble<AnyNetwork>,
    known: &Uncertainties,
    outside: &Split,
    protocol: &Protocol,
    args: &Args,
) -> Result<OutOfDistribution, Failure> {
    let bar = progress(args, outside, protocol.samples * ensemble.num_members() as u64);
    let inputs = batches(outside).map(|batch| batch.map(|(features, _)| features));
    let found = ensemble.uncertainties(inputs, protocol, |done| bar.set_position(done));
    bar.finish_and_clear();
    known.detect(&found?).ok_or_else(|| ktied::Error::NoExamples.into())
}

fn differences(
    ensemble: &Ensemble<AnyNetwork>,
    other: &Trainer,
    split: &Split,
    protocol: &Protocol,
    args: &Args,
) -> Result<Comparison, Failure> {
    let second = Ensemble::new([(&other.model().network, &other.model().likelihood)])?;
    let bar = progress(args, split, protocol.samples * (ensemble.num_members() as u64 + 1));
    let found = compare(ensemble, &second, batches(split), protocol, |done| bar.set_position(done));
    bar.finish_and_clear();
    Ok(found?)
}

pub(crate) fn split_of(data: &DataSet, name: SplitName) -> &Split {
    match name {
        SplitName::Train => &data.train,
        SplitName::Validation => &data.validation,
        SplitName::Test => &data.test,
    }
}

pub(crate) fn progress(args: &Args, split: &Split, samples: u64) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30.cyan/dim} {percent} %  {eta} left");
    ProgressBar::new(split.len() as u64 * samples).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}
