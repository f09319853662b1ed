//! `ktied inspect`: what a run or a checkpoint holds.

use std::fs;
use std::path::Path;

use ktied::config::Config;
use ktied::train::Run;
use serde::Serialize;

use super::evaluate::checkpoint_of;
use super::layers::{LayerRow, layers_of, table_of};
use super::train::parameters;
use crate::args::{Args, Inspect};
use crate::exit::Failure;
use crate::table::{grouped, print_json, print_line};

#[derive(Debug, Serialize)]
struct TensorRow {
    path: String,
    shape: Vec<usize>,
    dtype: String,
    sha256: String,
}

#[derive(Debug, Serialize)]
struct Report {
    run: String,
    model: String,
    posterior: String,
    data: String,
    step: u64,
    best: Option<u64>,
    parameters: usize,
    bytes: u64,
    checkpoints: Vec<u64>,
    written_by: String,
    instruction_set: String,
    digest: String,
    layers: Vec<LayerRow>,
    tensors: Vec<TensorRow>,
}

pub(crate) fn run(inspect: &Inspect, args: &Args) -> Result<(), Failure> {
    let (folder, step) = named(&inspect.run);
    let run = Run::open(folder)?;
    let config: Config = run.config()?;
    let checkpoint = match step {
        Some(step) => run.store()?.load(step)?,
        None => checkpoint_of(&run, inspect.best, args)?,
    };
    let tensors = checkpoint.tensors().map(|(path, tensor)| TensorRow {
        path: path.into(),
        shape: tensor.shape().to_vec(),
        dtype: tensor.dtype().to_string(),
        sha256: tensor.sha256().to_string(),
    });
    let store = run.store()?;
    let header = checkpoint.header();
    let report = Report {
        run: run.folder().display().to_string(),
        model: config.model.name().into(),
        posterior: config.posterior.kind.to_string(),
        data: config.data.set.clone(),
        step: header.step,
        best: run.best(),
        parameters: parameters(&config)?,
        bytes: bytes_of(&store.step_folder(header.step)),
        checkpoints: store.steps().map_err(ktied::Error::from)?,
        written_by: header.ktied.clone(),
        instruction_set: header.instruction_set.clone(),
        digest: checkpoint.digest().to_string(),
        layers: layers_of(&config)?,
        tensors: tensors.collect(),
    };
    if args.json { print_json(&report) } else { print(&report) }
}

/// The run's folder, and the step if a checkpoint of it, or a file in one, was named.
fn named(path: &Path) -> (&Path, Option<u64>) {
    let is_run = |path: &&Path| path.join("config.toml").is_file();
    let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok();
    let folder = path.ancestors().take(4).find(is_run).unwrap_or(path);
    (folder, path.ancestors().take(2).find_map(step).filter(|_| folder != path))
}

fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn print(report: &Report) -> Result<(), Failure> {
    table_of(&report.layers).print()?;
    print_line("")?;
    let best = report.best.map_or(String::new(), |step| format!(", best at step {step}"));
    print_line(&format!("{}: {} on {}, posterior {}.", report.run, report.model, report.data, report.posterior))?;
    print_line(&format!(
        "Step {}{best}; {} parameters, {} bytes on disk (weights and optimiser).",
        grouped(report.step as usize),
        grouped(report.parameters),
        grouped(report.bytes as usize)
    ))?;
    print_line(&format!(
        "Checkpoints: {:?}. Written by ktied {} on {}.",
        report.checkpoints, report.written_by, report.instruction_set
    ))?;
    print_line(&format!("Digest of all tensors: {}", report.digest))
}
