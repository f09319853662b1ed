//! `ktied bench kernels`: every kernel's speed beside the machine's own peak.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ktied_kernels::Awake;
use serde::Serialize;

use crate::args::{Args, BenchKernels};
use crate::bench::{self, Case, Work};
use crate::exit::Failure;
use crate::table::{Table, print_json, print_line};

/// One measured kernel.
#[derive(Debug, Serialize)]
struct Row {
    kernel: String,
    median_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gflop_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_s: Option<f64>,
    share_of_peak: f64,
}

/// All of them.
#[derive(Debug, Serialize)]
struct Report {
    threads: usize,
    simd: String,
    peak_gflop_per_s: f64,
    peak_copy_gb_per_s: f64,
    kernels: Vec<Row>,
}

pub(crate) fn run(kernels: &BenchKernels, args: &Args) -> Result<(), Failure> {
    let wanted = |case: &Case| kernels.filter.as_ref().is_none_or(|text| case.name.contains(text.as_str()));
    let cases: Vec<Case> = bench::cases().into_iter().filter(wanted).collect();
    if cases.is_empty() {
        let text = kernels.filter.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("no kernel's name contains `{text}`; without --filter you see all names")));
    }
    let budget = Duration::from_millis(kernels.millis.into());
    let bar = progress(args, cases.len() as u64 + 2);
    let peak = bench::Peak::measure(|| bar.inc(1))?;
    let rows = cases.into_iter().map(|case| {
        bar.set_message(case.name.clone());
        let row = measure(case, budget, &peak);
        bar.inc(1);
        row
    });
    let kernels = rows.collect::<Result<Vec<_>, _>>()?;
    bar.finish_and_clear();
    let report = Report {
        threads: rayon::current_num_threads(),
        simd: format!("{:?}", ktied_kernels::simd::active()).to_lowercase(),
        peak_gflop_per_s: peak.gflop_per_s,
        peak_copy_gb_per_s: peak.copy_gb_per_s,
        kernels,
    };
    if args.json { print_json(&report) } else { print(&report) }
}

fn progress(args: &Args, len: u64) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(len).with_style(style)
}

/// The median of as many runs as fit into the budget, at least three, with workers awake as they are in a training step.
fn measure(mut case: Case, budget: Duration, peak: &bench::Peak) -> Result<Row, Failure> {
    let _awake = Awake::begin();
    (case.run)()?;
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || start.elapsed() < budget {
        let begin = Instant::now();
        (case.run)()?;
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let seconds = times[times.len() / 2];
    let (rate, top) = match case.work {
        Work::Flops(flops) => (flops / seconds / 1e9, peak.gflop_per_s),
        Work::Bytes(bytes) => (bytes / seconds / 1e9, peak.copy_gb_per_s),
    };
    let flops = matches!(case.work, Work::Flops(_));
    Ok(Row {
        kernel: case.name,
        median_ms: seconds * 1e3,
        gflop_per_s: flops.then_some(rate),
        gb_per_s: (!flops).then_some(rate),
        share_of_peak: rate / top,
    })
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["kernel", "ms", "rate", "of peak"]);
    for row in &report.kernels {
        let rate = match (row.gflop_per_s, row.gb_per_s) {
            (Some(rate), _) => format!("{rate:.1} GFLOP/s"),
            (None, rate) => format!("{:.1} GB/s", rate.unwrap_or_default()),
        };
        let share = format!("{:.0} %", 100.0 * row.share_of_peak);
        table.row(vec![row.kernel.clone(), format!("{:.3}", row.median_ms), rate, share]);
    }
    table.print()?;
    print_line("")?;
    print_line(&format!(
        "Peak of this machine with {} threads: {:.1} GFLOP/s (product of 1536×1536 matrices), {:.1} GB/s (copy: read and write counted). Vector code: {}.",
        report.threads, report.peak_gflop_per_s, report.peak_copy_gb_per_s, report.simd
    ))
}
