//! `ktied bench ranks`: milliseconds of a training step by the processes of mpirun, and how many of them go into messages.

use std::sync::Arc;

use ktied::cluster::Cluster;
use serde::Serialize;

use super::bench_step::rounded;
use super::rehearsal::{config, rehearse};
use crate::args::{Args, BenchRanks};
use crate::exit::Failure;
use crate::table::{grouped, print_json, print_line};

#[derive(Debug, Serialize)]
struct Report {
    engine: &'static str,
    model: &'static str,
    posterior: String,
    estimator: String,
    batch: usize,
    processes: usize,
    threads: usize,
    steps: u64,
    median_ms: f64,
    min_ms: f64,
    /// Of the first process: in messages, the wait for others included.
    messages_ms: f64,
    /// That it sends in a step.
    sent_bytes: u64,
}

pub(crate) fn run(bench: &BenchRanks, args: &Args, cluster: &Arc<dyn Cluster>) -> Result<(), Failure> {
    let config = config(&bench.work, bench.posterior)?;
    let pace = rehearse(&config, bench.steps, Arc::clone(cluster))?;
    let report = Report {
        engine: concat!("ktied ", env!("CARGO_PKG_VERSION")),
        model: config.model.name(),
        posterior: bench.posterior.to_string(),
        estimator: bench.work.estimator.to_string(),
        batch: config.train.batch,
        processes: cluster.place().of,
        threads: rayon::current_num_threads(),
        steps: bench.steps,
        median_ms: rounded(pace.median_ms()),
        min_ms: rounded(pace.steps.first().copied().unwrap_or(f64::NAN)),
        messages_ms: rounded(pace.messages_ms),
        sent_bytes: pace.sent_bytes,
    };
    match cluster.place().is_first() {
        true if args.json => print_json(&report),
        true => print(&report),
        false => Ok(()),
    }
}

fn print(report: &Report) -> Result<(), Failure> {
    print_line(&format!(
        "{} {} {}, batch {}, {} processes of {} threads: median {} ms, least {} ms over {} steps; {} ms in messages, {} bytes sent",
        report.model,
        report.posterior,
        report.estimator,
        report.batch,
        report.processes,
        report.threads,
        report.median_ms,
        report.min_ms,
        report.steps,
        report.messages_ms,
        grouped(report.sent_bytes as usize)
    ))
}
