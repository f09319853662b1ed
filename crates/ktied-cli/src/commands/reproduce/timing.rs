//! The times of training steps, taken when nothing else runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::args::{Args, BenchModel, BenchStep};
use crate::commands::bench_step;
use crate::exit::Failure;
use crate::reproduce::{Scale, Shelf, TIMED, Timed, mean_and_error};
use crate::table::json;

/// Every case in turn, so often.
const ROUNDS: usize = 5;
/// By how much of itself a time differs from one hour, or one machine, to the next, beside what differs between rounds: as a
/// standard error. Without it the order of two cases within a few per cent would be another with every run.
const SWING: f64 = 0.03;

/// Times every case, round by round, unless that was done.
pub(super) fn measure(shelf: &Shelf, scale: Scale, args: &Args, stop: &AtomicBool) -> Result<(), Failure> {
    if shelf.document("", "step-time.json")?.is_some() {
        return Ok(());
    }
    args.say("Timing training steps; whatever else runs now makes them slower.");
    let begin = Instant::now();
    let mut times: Vec<Vec<f64>> = vec![vec![]; TIMED.len()];
    for _ in 0..ROUNDS {
        for (case, times) in TIMED.iter().zip(&mut times) {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted { run: shelf.folder().into() });
            }
            times.push(median(&bench_step::times(&step(case, scale)?)?));
        }
    }
    let wall_s = begin.elapsed().as_secs_f64().round();
    let timed: Vec<Timed> = TIMED.iter().zip(times).map(|(case, times)| summary(case, &times, wall_s)).collect();
    let path = shelf.run("").join("step-time.json");
    std::fs::create_dir_all(shelf.folder()).map_err(|error| ktied::Error::io("create", shelf.folder(), &error))?;
    Ok(ktied::checkpoint::write_file(&path, json(&timed)?.as_bytes())?)
}

/// The case as the program's own command takes it.
fn step(
    &(_, method, estimator, sizes, batch): &(&str, &str, &str, &str, usize),
    scale: Scale,
) -> Result<BenchStep, Failure> {
    let kind = method.split(',').next().unwrap_or(method);
    let wrong = |error: ktied::Error| Failure::Usage(error.to_string());
    let steps = match (scale, batch) {
        (Scale::Full | Scale::Reduced, 32) => 1000,
        (Scale::Full | Scale::Reduced, _) => 40,
        (Scale::Quick, 32) => 200,
        (Scale::Quick, _) => 15,
    };
    Ok(BenchStep {
        model: BenchModel::Mlp,
        posterior: kind.parse().map_err(wrong)?,
        estimator: estimator.parse().map_err(wrong)?,
        batch: Some(batch),
        sizes: sizes.split(',').filter_map(|size| size.parse().ok()).collect(),
        steps,
    })
}

/// The middle one of sorted times.
fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The mean over rounds, and its error.
fn summary(
    &(metric, method, estimator, sizes, batch): &(&str, &str, &str, &str, usize),
    times: &[f64],
    wall_s: f64,
) -> Timed {
    let (mean_ms, error) = mean_and_error(times);
    let kind = method.split(',').next().unwrap_or(method);
    Timed {
        metric: metric.into(),
        method: method.into(),
        mean_ms,
        sem_ms: error.unwrap_or(0.0).hypot(SWING * mean_ms),
        wall_s,
        command: format!(
            "ktied bench step --model mlp --sizes {sizes} --batch {batch} --posterior {kind} --estimator {estimator}"
        ),
    }
}
