//! The times of training steps, taken when nothing else runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::args::{Args, BenchModel, BenchStep};
use crate::commands::bench_step;
use crate::exit::Failure;
use crate::reproduce::{Scale, Shelf, TIMED, Timed};
use crate::table::json;

/// Every case in turn, so often.
const ROUNDS: usize = 15;
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
            times.push(quantile(&bench_step::times(&step(case, scale)?)?, 0.5));
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

/// The one of sorted times that a share of them is below.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted.get((share * sorted.len() as f64) as usize).copied().unwrap_or(f64::NAN)
}

/// The median over rounds, and its error by their quartiles: a round that had something beside it counts as one, no more.
fn summary(
    &(metric, method, estimator, sizes, batch): &(&str, &str, &str, &str, usize),
    times: &[f64],
    wall_s: f64,
) -> Timed {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, median_ms, high] = [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share));
    // As of normal numbers: their quartiles are 1.349 deviations apart, and a median's error is 1.253 times a mean's.
    let error = 1.253 * (high - low) / 1.349 / (sorted.len() as f64).sqrt();
    let kind = method.split(',').next().unwrap_or(method);
    Timed {
        metric: metric.into(),
        method: method.into(),
        median_ms,
        sem_ms: error.hypot(SWING * median_ms),
        wall_s,
        command: format!(
            "ktied bench step --model mlp --sizes {sizes} --batch {batch} --posterior {kind} --estimator {estimator}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_was_disturbed_changes_nothing() {
        let of = |times: &[f64]| summary(&TIMED[0], times, 1.0);
        let calm: Vec<f64> = (1..=15).map(f64::from).collect();
        let timed = of(&calm);
        // Quartiles 4 and 12 about the eighth.
        let error = 1.253 * 8.0 / 1.349 / 15f64.sqrt();
        assert!(timed.median_ms == 8.0 && (timed.sem_ms - error.hypot(0.24)).abs() < 1e-12, "{timed:?}");
        let mut disturbed = calm;
        disturbed[14] = 1e4;
        disturbed.rotate_left(3);
        let found = of(&disturbed);
        assert_eq!((found.median_ms, found.sem_ms), (timed.median_ms, timed.sem_ms));
    }
}
