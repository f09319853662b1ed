//! What the program `ktied` is made of: arguments, commands, exit codes, downloads, pictures, the
//! report's page, the paper's figures, and the cases of `bench kernels`.

pub mod args;
pub mod bench;
mod cluster;
mod commands;
mod csv;
pub mod exit;
pub mod fetch;
pub mod inputs;
mod log;
mod picture;
mod report;
mod reproduce;
mod table;
mod workers;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use ktied::cluster::{Alone, Cluster};

use crate::args::{Args, Cli, Command};
use crate::exit::Failure;

/// Reads the arguments, runs the command, and says on standard error why it failed if it did.
pub fn run() -> ExitCode {
    let Cli { command, args } = Cli::parse();
    match cluster::join() {
        Ok(cluster) => {
            let args = cluster::voice(&args, &*cluster);
            let outcome = cluster::check(&command, &*cluster).and_then(|()| in_pool(&command, &args, &cluster));
            cluster::leave(outcome, &*cluster)
        }
        Err(failure) => cluster::leave(Err(failure), &Alone),
    }
}

/// Runs the command on a thread of the pool, so that no kernel has to be handed over to one.
fn in_pool(command: &Command, args: &Args, cluster: &Arc<dyn Cluster>) -> Result<(), Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.map_or(0, usize::from)).build();
    let pool = pool.map_err(|error| Failure::Usage(format!("cannot start the threads: {error}")))?;
    pool.install(|| match command {
        Command::Demo(demo) => commands::demo::run(demo, args),
        Command::Train(train) => commands::train::run(train, args, cluster),
        Command::Evaluate(evaluate) => commands::evaluate::run(evaluate, args, &**cluster),
        Command::Predict(predict) => commands::predict::run(predict, args, &**cluster),
        Command::Inspect(inspect) => commands::inspect::run(inspect, args),
        Command::Analyze(analyze) => commands::analyze::run(analyze, args),
        Command::Compress(compress) => commands::compress::run(compress, args),
        Command::Prune(prune) => commands::prune::run(prune, args),
        Command::Report(report) => commands::report::run(report, args),
        Command::Export(export) => commands::export::run(export, args),
        Command::Sweep(sweep) => commands::sweep::run(sweep, args),
        Command::Reproduce(reproduce) => commands::reproduce::run(reproduce, args),
        Command::Params(params) => commands::params::run(params, args),
        Command::Data(data) => commands::data::run(data, args),
        Command::Bench(args::Bench::Io(io)) => commands::bench_io::run(io, args),
        Command::Bench(args::Bench::Kernels(kernels)) => commands::bench_kernels::run(kernels, args),
        Command::Bench(args::Bench::Predict(predict)) => commands::bench_predict::run(predict, args),
        Command::Bench(args::Bench::Ranks(ranks)) => commands::bench_ranks::run(ranks, args, cluster),
        Command::Bench(args::Bench::Scale(scale)) => commands::bench_scale::run(scale, args, cluster),
        Command::Bench(args::Bench::Step(step)) => commands::bench_step::run(step, args),
        Command::Bench(args::Bench::Sum(sum)) => commands::bench_sum::run(sum, args, &**cluster),
        Command::Completions(completions) => commands::completions::run(completions),
    })
}

/// The code of the repository's README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
