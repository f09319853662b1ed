//! What the program `ktied` is made of: arguments, commands, exit codes, downloads, pictures, the
//! report's page, and the cases of `bench kernels`.

pub mod args;
pub mod bench;
mod commands;
mod csv;
pub mod exit;
pub mod fetch;
pub mod inputs;
mod log;
mod picture;
mod report;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::exit::Failure;

/// Reads the arguments, runs the command, and says on standard error why it failed if it did.
pub fn run() -> ExitCode {
    let args = Args::parse();
    match in_pool(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("ktied: {failure}");
            failure.exit_code()
        }
    }
}

/// Runs the command on a thread of the pool, so that no kernel has to be handed over to one.
fn in_pool(args: &Args) -> Result<(), Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.map_or(0, usize::from)).build();
    let pool = pool.map_err(|error| Failure::Usage(format!("cannot start the threads: {error}")))?;
    pool.install(|| match &args.command {
        Command::Demo(demo) => commands::demo::run(demo, args),
        Command::Train(train) => commands::train::run(train, args),
        Command::Evaluate(evaluate) => commands::evaluate::run(evaluate, args),
        Command::Predict(predict) => commands::predict::run(predict, args),
        Command::Inspect(inspect) => commands::inspect::run(inspect, args),
        Command::Analyze(analyze) => commands::analyze::run(analyze, args),
        Command::Compress(compress) => commands::compress::run(compress, args),
        Command::Prune(prune) => commands::prune::run(prune, args),
        Command::Report(report) => commands::report::run(report, args),
        Command::Export(export) => commands::export::run(export, args),
        Command::Sweep(sweep) => commands::sweep::run(sweep, args),
        Command::Params(params) => commands::params::run(params, args),
        Command::Data(data) => commands::data::run(data, args),
        Command::Bench(args::Bench::Kernels(kernels)) => commands::bench_kernels::run(kernels, args),
        Command::Bench(args::Bench::Predict(predict)) => commands::bench_predict::run(predict, args),
        Command::Bench(args::Bench::Step(step)) => commands::bench_step::run(step, args),
        Command::Completions(completions) => commands::completions::run(completions),
    })
}

/// The code of the repository's README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
