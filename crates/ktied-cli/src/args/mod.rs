//! The command line.

mod bench;
mod data;
mod judge;
mod report;
mod reproduce;
mod shrink;
mod train;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use ktied::config::Preset;
use ktied::posterior::PosteriorKind;

pub use bench::{
    Bench, BenchIo, BenchKernels, BenchModel, BenchPredict, BenchRanks, BenchScale, BenchStep, BenchSum, Work,
};
pub use data::{Data, DataCheck, DataGet, DataList};
pub use judge::{Evaluate, Place, Predict, SplitName};
pub use report::{Export, ExportFormat, Report};
pub use reproduce::Reproduce;
pub use shrink::{Analyze, Compress, Prune, RankChoice, WriteAs};
pub use train::{Sweep, Train};

/// Bayesian neural networks with the k-tied Normal posterior.
#[derive(Debug, Parser)]
#[command(
    name = "ktied",
    version,
    after_help = "Examples:\n  ktied demo\n  ktied train --preset mlp-mnist --posterior k-tied:2 --epochs 10 --out runs/mnist\n  ktied evaluate runs/mnist\n  ktied report runs/mnist --out report.html"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How.
    #[command(flatten)]
    pub args: Args,
}

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
#[command(about = None)]
pub struct Args {
    /// Print exactly one JSON document on standard output, and nothing else there.
    #[arg(long, global = true)]
    pub json: bool,
    /// Number of threads; all cores if not given. Results do not depend on it.
    #[arg(long, global = true, value_name = "T")]
    pub threads: Option<NonZeroUsize>,
    /// No progress on standard error.
    #[arg(long, global = true)]
    pub quiet: bool,
}

impl Args {
    /// Whether to show progress: only to a person who did not ask for silence.
    pub fn shows_progress(&self) -> bool {
        !self.quiet && std::io::IsTerminal::is_terminal(&std::io::stderr())
    }

    /// One line on standard error, unless silence was asked for.
    pub(crate) fn say(&self, line: &str) {
        if !self.quiet {
            crate::table::say_line(line);
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train one small network under five posteriors on the embedded digits, and compare them.
    Demo(Demo),
    /// Train a network, into a folder that can be interrupted and resumed at any time.
    Train(Train),
    /// Judge a trained run: −ELBO, NLL, accuracy, Brier score and calibration, with standard errors.
    Evaluate(Evaluate),
    /// Predict what a run, or an ensemble of runs, says of new inputs, with how sure it is.
    Predict(Predict),
    /// Say what a run or a checkpoint holds.
    Inspect(Inspect),
    /// Look inside a posterior: spectra, variance explained, heat maps, and the rank that would be enough.
    Analyze(Analyze),
    /// Replace the standard deviations of a mean-field posterior by factors of rank K.
    Compress(Compress),
    /// Set the weights that say least to exactly zero.
    Prune(Prune),
    /// Show runs side by side on one page: curves, spectra, calibration, examples, and how to repeat them.
    Report(Report),
    /// Write a run's log, evaluations and configuration as tables.
    Export(Export),
    /// Train a run for every cell of a grid, and choose on validation −ELBO.
    Sweep(Sweep),
    /// Repeat the paper's experiments on the real data, and say of each figure whether it came out the same.
    Reproduce(Reproduce),
    /// Count the parameters of a model, layer by layer.
    Params(Params),
    /// Find, check and download data sets.
    #[command(subcommand)]
    Data(Data),
    /// Measure speed.
    #[command(subcommand)]
    Bench(Bench),
    /// Print a script with which a shell completes these commands.
    Completions(Completions),
}

/// `ktied inspect`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ktied inspect runs/mnist\n  ktied inspect runs/mnist --json")]
pub struct Inspect {
    /// Folder of the run, or of one of its checkpoints.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The checkpoint with the best validation instead of the newest.
    #[arg(long)]
    pub best: bool,
}

/// `ktied completions`
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ktied completions bash > ~/.local/share/bash-completion/completions/ktied")]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `ktied demo`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ktied demo\n  ktied demo --steps 1000 --seed 7 --json")]
pub struct Demo {
    /// Steps of training for each network; the differences between posteriors show only after thousands.
    #[arg(long, default_value = "15000", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub steps: u64,
    /// Seed of everything random; the same seed gives the same bits.
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub seed: u64,
    /// Folder of the five runs; ktied-demo, or a free name like it, if not given.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `ktied params`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied params --preset mlp-mnist --posterior k-tied:2\n  ktied params --preset lenet-cifar100 --posterior k-tied:2 --set model.kernel=3 --set posterior.conv=k-tied:2 --json"
)]
pub struct Params {
    /// Model and data: mlp-mnist, mlp-fashion, lenet-cifar100, lstm-imdb, resnet18-cifar10 or mlp-digits.
    #[arg(long, value_name = "P")]
    pub preset: Preset,
    /// Posterior of the weights: point, mean-field, k-tied:K, matrix-normal or low-rank:K.
    #[arg(long, value_name = "Q", default_value_t = PosteriorKind::MeanField)]
    pub posterior: PosteriorKind,
    /// Change one key of the configuration, as in model.kernel=3; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}
