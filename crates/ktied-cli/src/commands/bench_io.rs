//! `ktied bench io`: how long data sets take to read and checkpoints to save, and how long training waits for its batches.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ktied::checkpoint::{Checkpoint, Store};
use ktied::config::Config;
use ktied::data::{DataSet, load};
use ktied::evaluate::Evaluation;
use ktied::train::{StepReport, Trainer, Watch, fit};
use serde::Serialize;

use super::bench_step::{preset, rounded};
use super::made_up;
use crate::args::{Args, BenchIo};
use crate::exit::Failure;
use crate::table::{print_json, print_line};

#[derive(Debug, Serialize)]
struct Report {
    engine: &'static str,
    model: &'static str,
    threads: usize,
    /// The data set, and the time to read, check and split it; none if it is not there and data were made up.
    set: Option<String>,
    load_ms: Option<f64>,
    checkpoint_mb: f64,
    /// Written, flushed, renamed, read again and compared.
    save_ms: f64,
    /// The same bytes written and flushed, and nothing else.
    disk_ms: f64,
    /// Read and compared with its digests.
    read_ms: f64,
    steps: u64,
    step_ms: f64,
    /// Share of the time of training that was spent waiting for a batch.
    waiting_frac: f64,
}

pub(crate) fn run(bench: &BenchIo, args: &Args) -> Result<(), Failure> {
    let mut config = preset(bench.model).config();
    if bench.data.is_some() {
        config.data.dir = bench.data.clone();
    }
    let begin = Instant::now();
    let loaded = match load(&config.data) {
        Ok(data) => Some((data, begin.elapsed())),
        // A folder that was named is meant.
        Err(error) if bench.data.is_some() => return Err(error.into()),
        Err(_) => None,
    };
    let made_up = || made_up::data_set(&config.model, 4 * config.train.batch);
    let (set, load_time) = loaded.as_ref().map(|(data, time)| (data.name.clone(), *time)).unzip();
    let data = loaded.map_or_else(made_up, |(data, _)| data);
    let (checkpoint, waits) = train(&config, &data, bench.steps)?;
    let out = bench.out.clone().unwrap_or_else(std::env::temp_dir);
    let disk = time_disk(&out, &checkpoint)?;
    let report = Report {
        engine: concat!("ktied ", env!("CARGO_PKG_VERSION")),
        model: config.model.name(),
        threads: rayon::current_num_threads(),
        set,
        load_ms: load_time.map(milliseconds),
        checkpoint_mb: (disk.bytes as f64 / 1e4).round() / 100.0,
        save_ms: milliseconds(disk.save),
        disk_ms: milliseconds(disk.raw),
        read_ms: milliseconds(disk.read),
        steps: bench.steps,
        step_ms: rounded(1e3 * waits.whole.as_secs_f64() / bench.steps as f64),
        waiting_frac: waits.waiting.as_secs_f64() / waits.whole.as_secs_f64().max(1e-9),
    };
    if args.json {
        return print_json(&report);
    }
    let loading = match (&report.set, report.load_ms) {
        (Some(set), Some(ms)) => format!("{set} read in {ms} ms"),
        _ => "its data set is not here, so data are made up".into(),
    };
    print_line(&format!(
        "{}: {loading}; a checkpoint of {} MB saved and verified in {} ms, of which the disk alone takes {}, and read in {} ms; \
         {:.2} % of training is waiting for data ({} steps of {} ms, {} threads)",
        report.model,
        report.checkpoint_mb,
        report.save_ms,
        report.disk_ms,
        report.read_ms,
        100.0 * report.waiting_frac,
        report.steps,
        report.step_ms,
        report.threads
    ))
}

fn milliseconds(time: Duration) -> f64 {
    rounded(1e3 * time.as_secs_f64())
}

/// Steps that are not counted: the first batch is waited for by everyone.
const WARM_UP: u64 = 2;

/// Time between the end of the steps that warm up and the last, and how much of it was a wait.
#[derive(Debug, Default)]
struct Waits {
    step: u64,
    begin: Option<Instant>,
    whole: Duration,
    waiting: Duration,
}

impl Watch for Waits {
    fn step(&mut self, _: &Trainer, _: &StepReport) {
        self.step += 1;
        match self.begin {
            Some(begin) => self.whole = begin.elapsed(),
            None if self.step >= WARM_UP => self.begin = Some(Instant::now()),
            None => {}
        }
    }

    fn waited(&mut self, time: Duration) {
        if self.begin.is_some() {
            self.waiting += time;
        }
    }

    fn validation(&mut self, _: &Trainer, _: &Evaluation, _: bool) {}
    fn checkpoint(&mut self, _: u64) {}
}

/// The loop of `train` without its files, and what it would save at the end.
fn train(config: &Config, data: &DataSet, steps: u64) -> Result<(Checkpoint, Waits), Failure> {
    let mut config = config.clone();
    let train = &mut config.train;
    (train.steps, train.log_every) = (Some(WARM_UP + steps), u64::MAX);
    (train.validate_every, train.checkpoint_every, train.checkpoint_steps) = (0, 0, None);
    let mut waits = Waits::default();
    let (trainer, _) = fit(None, Trainer::new(config, data)?, data, &mut waits, &AtomicBool::new(false))?;
    Ok((trainer.checkpoint()?, waits))
}

/// What a checkpoint and a disk take.
struct Disk {
    bytes: u64,
    save: Duration,
    raw: Duration,
    read: Duration,
}

/// Saves a checkpoint in a folder of its own, which is gone afterwards.
fn time_disk(out: &Path, checkpoint: &Checkpoint) -> Result<Disk, Failure> {
    let folder = out.join(format!("ktied-bench-io-{}", std::process::id()));
    let measured = time_in(&folder, checkpoint);
    let removed = fs::remove_dir_all(&folder).map_err(|error| ktied::Error::io("remove", &folder, &error));
    measured.and_then(|disk| Ok(removed.map(|()| disk)?))
}

fn time_in(folder: &Path, checkpoint: &Checkpoint) -> Result<Disk, Failure> {
    fs::create_dir_all(folder).map_err(|error| ktied::Error::io("create", folder, &error))?;
    let store = Store::open(folder.join("checkpoints")).map_err(ktied::Error::from)?;
    let begin = Instant::now();
    let saved = store.save(checkpoint).map_err(ktied::Error::from)?;
    let save = begin.elapsed();
    let begin = Instant::now();
    store.load(checkpoint.header().step).map_err(ktied::Error::from)?;
    let read = begin.elapsed();
    let files = files_in(&saved).map_err(|error| ktied::Error::io("read", &saved, &error))?;
    let begin = Instant::now();
    let path = folder.join("raw");
    write_flushed(&path, &files).map_err(|error| ktied::Error::io("write", &path, &error))?;
    Ok(Disk { bytes: files.iter().map(|file| file.len() as u64).sum(), save, raw: begin.elapsed(), read })
}

fn files_in(folder: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    fs::read_dir(folder)?.map(|entry| fs::read(entry?.path())).collect()
}

/// As few calls as the bytes can get to the disk with.
fn write_flushed(path: &Path, files: &[Vec<u8>]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    files.iter().try_for_each(|bytes| file.write_all(bytes))?;
    file.sync_all()
}
