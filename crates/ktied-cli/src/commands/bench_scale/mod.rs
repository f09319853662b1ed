//! `ktied bench scale`: the time of a step on a cluster, predicted from what the processes of mpirun take here, and held against a
//! step that they make together.

mod cost;

use std::sync::Arc;
use std::time::Instant;

use ktied::cluster::{Alone, Cluster};
use ktied::config::Config;
use ktied::posterior::PosteriorKind;
use serde::Serialize;

use self::cost::Messages;
use super::bench_sum;
use super::rehearsal::{config, median, rehearse};
use crate::args::{Args, BenchScale};
use crate::exit::Failure;
use crate::table::{Table, print_json, print_line};

/// The largest cluster of the table.
const MOST: usize = 256;
/// Numbers of a sum that is next to nothing, and how often sums and notes are repeated.
const FEW: usize = 64;
const REPEATS: usize = 100;

#[derive(Debug, Serialize)]
struct Report {
    engine: &'static str,
    model: &'static str,
    estimator: String,
    batch: usize,
    processes: usize,
    threads: usize,
    posteriors: Vec<Scaled>,
}

/// What was measured of a posterior, and what follows.
#[derive(Debug, Serialize)]
struct Scaled {
    posterior: String,
    gradient_bytes: f64,
    messages: Messages,
    /// A step of the processes that are here, and what the model says of it.
    measured_ms: f64,
    predicted_ms: f64,
    clusters: Vec<Predicted>,
}

/// A cluster's step.
#[derive(Debug, Serialize)]
struct Predicted {
    processes: usize,
    /// Its part of a step, measured here without any message.
    compute_ms: f64,
    networks: Vec<Network>,
}

#[derive(Debug, Serialize)]
struct Network {
    gbit_per_s: f64,
    step_ms: f64,
}

pub(crate) fn run(bench: &BenchScale, args: &Args, cluster: &Arc<dyn Cluster>) -> Result<(), Failure> {
    let place = cluster.place();
    if place.is_alone() {
        return Err(Failure::Usage(
            "a single process has no messages to measure: mpirun -n 2 ktied bench scale".into(),
        ));
    }
    let scaled = bench.posteriors.iter().map(|posterior| scale(bench, *posterior, cluster));
    let posteriors = scaled.collect::<Result<Vec<_>, _>>()?;
    let config = config(&bench.work, PosteriorKind::Point)?;
    let report = Report {
        engine: concat!("ktied ", env!("CARGO_PKG_VERSION")),
        model: config.model.name(),
        estimator: bench.work.estimator.to_string(),
        batch: config.train.batch,
        processes: place.of,
        threads: rayon::current_num_threads(),
        posteriors,
    };
    match place.is_first() {
        true if args.json => print_json(&report),
        true => print(&report),
        false => Ok(()),
    }
}

fn scale(bench: &BenchScale, posterior: PosteriorKind, cluster: &Arc<dyn Cluster>) -> Result<Scaled, Failure> {
    let (config, here) = (config(&bench.work, posterior)?, cluster.place().of);
    let together = rehearse(&config, bench.steps, Arc::clone(cluster))?;
    let gradient_bytes = together.sent_bytes as f64 / cost::sent(here, 1.0);
    let messages = messages(&**cluster, &config, gradient_bytes)?;
    let compute = |processes: usize| part(&config, processes, bench.steps, &**cluster);
    let predicted_ms = compute(here)? + messages.step_ms(here, gradient_bytes, None);
    let sizes = std::iter::successors(Some(1), |processes| Some(2 * processes));
    let clusters = sizes.take_while(|processes| *processes <= MOST.min(config.train.batch)).map(|processes| {
        let compute_ms = compute(processes)?;
        let networks = bench.gbits.iter().map(|speed| {
            let gbit_per_s = f64::from(*speed);
            let step_ms = compute_ms + messages.step_ms(processes, gradient_bytes, Some(gbit_per_s));
            Network { gbit_per_s, step_ms }
        });
        Ok(Predicted { processes, compute_ms, networks: networks.collect() })
    });
    let clusters = clusters.collect::<Result<Vec<_>, Failure>>()?;
    let (posterior, measured_ms) = (posterior.to_string(), together.median_ms());
    Ok(Scaled { posterior, gradient_bytes, messages, measured_ms, predicted_ms, clusters })
}

/// Milliseconds of a step on one process's part of a batch, without messages, while the others do the same.
fn part(config: &Config, processes: usize, steps: u64, cluster: &dyn Cluster) -> Result<f64, Failure> {
    let mut config = config.clone();
    config.train.batch = config.train.batch.div_ceil(processes);
    cluster.notes(&[])?;
    Ok(rehearse(&config, steps, Arc::new(Alone))?.median_ms())
}

fn messages(cluster: &dyn Cluster, config: &Config, gradient_bytes: f64) -> Result<Messages, Failure> {
    let wire = config.cluster.wire;
    let numbers = (gradient_bytes / wire.bytes() as f64).round() as usize;
    let smallest = bench_sum::time(cluster, FEW, wire, REPEATS)?;
    let whole = bench_sum::time(cluster, numbers, wire, REPEATS)?;
    let ms_per_megabyte = (whole.median_ms - smallest.median_ms) / (whole.bytes as f64 / 1e6);
    Ok(Messages {
        processes: cluster.place().of,
        note_ms: note_ms(cluster)?,
        smallest_sum_ms: smallest.median_ms,
        ms_per_megabyte,
    })
}

fn note_ms(cluster: &dyn Cluster) -> Result<f64, Failure> {
    let mut times = vec![];
    for _ in 0..REPEATS {
        let begin = Instant::now();
        cluster.notes(&[0; FEW])?;
        times.push(1e3 * begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(median(&times))
}

fn print(report: &Report) -> Result<(), Failure> {
    let Report { model, estimator, batch, processes, threads, .. } = report;
    print_line(&format!(
        "{model} {estimator}, batch {batch}: measured with {processes} processes of {threads} threads; what follows for others is a model."
    ))?;
    for scaled in &report.posteriors {
        let Messages { note_ms, smallest_sum_ms, ms_per_megabyte, .. } = scaled.messages;
        print_line("")?;
        print_line(&format!(
            "{}: {:.3} MB of gradients; a note {note_ms:.4} ms, the smallest sum {smallest_sum_ms:.4} ms, {ms_per_megabyte:.3} ms a megabyte sent.",
            scaled.posterior,
            scaled.gradient_bytes / 1e6
        ))?;
        print_line(&format!(
            "Their step: {:.2} ms measured, {:.2} ms by the model.",
            scaled.measured_ms, scaled.predicted_ms
        ))?;
        table(scaled).print()?;
    }
    Ok(())
}

fn table(scaled: &Scaled) -> Table {
    let networks = scaled.clusters.first().map_or(&[][..], |one| &one.networks);
    let speeds: Vec<String> = networks.iter().map(|network| format!("{} Gbit/s, ms", network.gbit_per_s)).collect();
    let heading = ["processes", "compute, ms"].into_iter().chain(speeds.iter().map(String::as_str));
    let mut table = Table::new(&heading.collect::<Vec<_>>());
    for cluster in &scaled.clusters {
        let mut cells = vec![cluster.processes.to_string(), format!("{:.2}", cluster.compute_ms)];
        cells.extend(cluster.networks.iter().map(|network| format!("{:.2}", network.step_ms)));
        table.row(cells);
    }
    table
}
