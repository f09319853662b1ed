//! `ktied bench sum`: milliseconds of adding up gradients over all processes, for messages of every size.

use std::time::Instant;

use ktied::cluster::{Cluster, Wire};
use serde::Serialize;

use crate::args::{Args, BenchSum};
use crate::exit::Failure;
use crate::table::{Table, grouped, print_json, print_line};

/// Sums that are not counted.
const WARM_UP: usize = 3;

#[derive(Debug, Serialize)]
struct Report {
    processes: usize,
    threads: usize,
    sums: Vec<Timed>,
}

/// One size.
#[derive(Debug, Serialize)]
pub(super) struct Timed {
    numbers: usize,
    wire: Wire,
    /// That each process sends.
    pub(super) bytes: u64,
    pub(super) median_ms: f64,
    min_ms: f64,
}

pub(crate) fn run(bench: &BenchSum, args: &Args, cluster: &dyn Cluster) -> Result<(), Failure> {
    let mut sums = vec![];
    for numbers in &bench.numbers {
        for wire in [Wire::Single, Wire::Half] {
            sums.push(time(cluster, *numbers, wire, bench.repeats)?);
        }
    }
    let report = Report { processes: cluster.place().of, threads: rayon::current_num_threads(), sums };
    match cluster.place().is_first() {
        true if args.json => print_json(&report),
        true => print(&report),
        false => Ok(()),
    }
}

/// How long the sum of so many numbers takes.
pub(super) fn time(cluster: &dyn Cluster, numbers: usize, wire: Wire, repeats: usize) -> Result<Timed, Failure> {
    let (mut values, mut times, mut bytes) = (vec![1e-3f32; numbers], vec![], 0);
    for repeat in 0..WARM_UP + repeats {
        values.fill(1e-3);
        // All begin together, as they do when their parts of a step are equal.
        cluster.notes(&[])?;
        let begin = Instant::now();
        bytes = cluster.sum(&mut values, wire);
        if repeat >= WARM_UP {
            times.push(1e3 * begin.elapsed().as_secs_f64());
        }
    }
    times.sort_by(f64::total_cmp);
    let [median_ms, min_ms] = [times.len() / 2, 0].map(|at| times.get(at).copied().unwrap_or(f64::NAN));
    Ok(Timed { numbers, wire, bytes, median_ms, min_ms })
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["numbers", "wire", "bytes sent", "median ms", "least ms"]);
    for Timed { numbers, wire, bytes, median_ms, min_ms } in &report.sums {
        let wire = if *wire == Wire::Half { "half" } else { "single" };
        table.row(vec![
            grouped(*numbers),
            wire.into(),
            grouped(*bytes as usize),
            format!("{median_ms:.3}"),
            format!("{min_ms:.3}"),
        ]);
    }
    print_line(&format!("{} processes of {} threads", report.processes, report.threads))?;
    table.print()
}
