//! What a run's folder says of it, and what is found when its checkpoint is opened.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ktied::checkpoint::Checkpoint;
use ktied::files;
use ktied::train::{MAX_CONFIG_BYTES, Run, Trainer};
use serde_json::Value;

use super::shelf::Shelf;
use super::{judge, repeat, weights};
use crate::args::{Args, Report, SplitName};
use crate::commands::evaluate::{checkpoint_of, split_of};
use crate::commands::train::parameters;
use crate::exit::Failure;
use crate::log::{Log, MAX_DOCUMENT_BYTES};
use crate::report::{CheckpointView, Judged, RunView, of_log};

/// Splits in the order in which an evaluation is looked for.
const SPLITS: [SplitName; 2] = [SplitName::Test, SplitName::Validation];

/// Opens the runs, with what can be read without opening a checkpoint.
pub(super) fn open_all(folders: &[PathBuf]) -> Result<Vec<RunView>, Failure> {
    let last = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = |folder: &PathBuf| {
        let whole = folder.display().to_string();
        let own = last(folder).unwrap_or_else(|| whole.clone());
        let is_shared = folders.iter().filter(|other| last(other).as_ref() == Some(&own)).count() > 1;
        if is_shared { whole } else { own }
    };
    folders.iter().enumerate().map(|(index, folder)| open(index, name(folder), folder)).collect()
}

fn open(index: usize, name: String, folder: &Path) -> Result<RunView, Failure> {
    let run = Run::open(folder)?;
    let (config, path) = (run.config()?, folder.join("config.toml"));
    let config_text = files::read_text(&path, MAX_CONFIG_BYTES).map_err(|error| ktied::Error::read(&path, &error))?;
    let mut view = RunView {
        index,
        name,
        folder: folder.display().to_string(),
        parameters: parameters(&config)?,
        log: Log::read(folder)?,
        checkpoint: None,
        layers: Vec::new(),
        judged: None,
        examples: None,
        repeat: repeat::command(folder, &config),
        notes: Vec::new(),
        config,
        config_text,
    };
    view.notes = of_log(&view);
    Ok(view)
}

/// Opens the checkpoint and, unless that is not wanted, the data. What fails is noted; only wrong usage is an error.
pub(super) fn look_inside(
    view: &mut RunView,
    side: usize,
    arguments: &Report,
    shelf: &mut Shelf,
    args: &Args,
) -> Result<(), Failure> {
    let folder = PathBuf::from(&view.folder);
    view.judged = stored(&folder, &mut view.notes);
    let run = Run::open(&folder)?;
    let checkpoint = match checkpoint_of(&run, arguments.place.best, args) {
        Ok(checkpoint) => checkpoint,
        Err(Failure::Usage(sentence)) => return Err(Failure::Usage(sentence)),
        Err(failure) => {
            view.notes.push(format!("Its weights cannot be shown: {failure}."));
            return Ok(());
        }
    };
    view.checkpoint = Some(seen(&checkpoint));
    match weights::layers(&view.config, &checkpoint, side) {
        Ok(layers) => view.layers = layers,
        Err(failure) => view.notes.push(format!("Its weights cannot be analysed: {failure}.")),
    }
    let stale = view.judged.as_ref().and_then(|judged| judged.count("step"));
    if let Some(step) = stale.filter(|step| *step != checkpoint.header().step) {
        let now = checkpoint.header().step;
        view.notes.push(format!("Its evaluation is of step {step}, what is inside the network of step {now}."));
    }
    match arguments.no_data {
        true => view.notes.push("No data were read (--no-data), so no example is shown.".into()),
        false => with_data(view, &checkpoint, arguments, shelf, args),
    }
    Ok(())
}

fn seen(checkpoint: &Checkpoint) -> CheckpointView {
    let header = checkpoint.header();
    CheckpointView {
        step: header.step,
        digest: checkpoint.digest().to_string(),
        data_digest: header.data.clone(),
        ktied: header.ktied.clone(),
        instruction_set: header.instruction_set.clone(),
    }
}

/// The evaluation in the run's folder.
fn stored(folder: &Path, notes: &mut Vec<String>) -> Option<Judged> {
    SPLITS.into_iter().find_map(|split| {
        let path = folder.join(format!("evaluation/{}.json", split.name()));
        let document = match files::read_text(&path, MAX_DOCUMENT_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            text => text
                .map_err(|error| error.to_string())
                .and_then(|text| serde_json::from_str::<Value>(&text).map_err(|error| error.to_string())),
        };
        match document {
            Ok(document) => Some(Judged { split: split.name(), document, is_fresh: false }),
            Err(reason) => {
                notes.push(format!("Its evaluation/{}.json cannot be read: {reason}.", split.name()));
                None
            }
        }
    })
}

/// Judges the run if nobody has, and looks for its most and least certain examples.
fn with_data(view: &mut RunView, checkpoint: &Checkpoint, arguments: &Report, shelf: &mut Shelf, args: &Args) {
    let mut config = view.config.clone();
    if let Some(dir) = &arguments.place.data {
        config.data.dir = Some(dir.clone());
    }
    if let Err(failure) =
        crate::commands::memory::check(&config, ktied::train::memory::Task::Predict, arguments.force, args)
    {
        view.notes.push(format!("Nothing was predicted: {failure}."));
        return;
    }
    let opened = shelf.get(&config.data).and_then(|data| {
        let trainer = Trainer::resume(config, &data, checkpoint).map_err(|error| error.to_string())?;
        Ok((data, trainer))
    });
    let (data, trainer) = match opened {
        Ok(opened) => opened,
        Err(reason) => {
            let reason = reason.trim_end_matches('.');
            view.notes.push(format!("Its data cannot be used, so no example is shown: {reason}."));
            return;
        }
    };
    let Some(split) = SPLITS.into_iter().find(|split| !split_of(&data, *split).is_empty()) else {
        view.notes.push("Its data have neither test nor validation examples.".into());
        return;
    };
    // An evaluation by `demo` has the metrics and no diagrams.
    let has_all =
        view.judged.as_ref().is_some_and(|judged| judged.metric("accuracy").is_none() || judged.curves().is_some());
    if !has_all {
        match judge::judge(&trainer, &data, split, arguments.samples, args) {
            Ok(judged) => view.judged = Some(judged),
            Err(failure) => view.notes.push(format!("It could not be judged: {failure}.")),
        }
    }
    if arguments.examples > 0 {
        match judge::examples(&trainer, &data, split, arguments, args) {
            Ok(examples) => view.examples = Some(examples),
            Err(failure) => view.notes.push(format!("Its examples could not be predicted: {failure}.")),
        }
    }
}
