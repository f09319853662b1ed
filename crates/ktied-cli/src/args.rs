//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use ktied::models::Preset;
use ktied::posterior::PosteriorKind;

/// Bayesian neural networks with the k-tied Normal posterior.
#[derive(Debug, Parser)]
#[command(name = "ktied", version, after_help = "Example:\n  ktied demo")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
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
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train one small network under five posteriors on the embedded digits, and compare them.
    Demo(Demo),
    /// Count the parameters of a model, layer by layer.
    Params(Params),
    /// Find, check and download data sets.
    #[command(subcommand)]
    Data(Data),
    /// Measure speed.
    #[command(subcommand)]
    Bench(Bench),
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
    /// Posterior of the weights: point, mean-field, k-tied:K or matrix-normal.
    #[arg(long, value_name = "Q", default_value_t = PosteriorKind::MeanField)]
    pub posterior: PosteriorKind,
    /// Change one key of the configuration, as in model.kernel=3; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// `ktied data …`
#[derive(Debug, Subcommand)]
pub enum Data {
    /// List the data sets with names, and where they are.
    List(DataList),
    /// Read data sets whole and compare their contents with the known digests.
    Check(DataCheck),
    /// Download data sets from their hosts, checked.
    Get(DataGet),
}

/// `ktied data list`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ktied data list\n  ktied data list --data ~/data --json")]
pub struct DataList {
    /// Folder to look in first; then $KTIED_DATA, then the user's cache.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `ktied data check`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ktied data check mnist imdb\n  ktied data check uci my-data.npz --json")]
pub struct DataCheck {
    /// Names of data sets (uci: all tables), or paths of your own data.
    #[arg(required = true, value_name = "SET")]
    pub sets: Vec<String>,
    /// Folder to look in first; then $KTIED_DATA, then the user's cache.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `ktied data get`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ktied data get mnist fashion-mnist\n  ktied data get imdb --data ~/data")]
pub struct DataGet {
    /// Names of data sets: mnist, fashion-mnist, cifar10, cifar100, imdb.
    #[arg(required = true, value_name = "SET")]
    pub sets: Vec<String>,
    /// Folder to put them into, one sub-folder each; $KTIED_DATA or the user's cache if not given.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Another server with the same files, instead of each set's own.
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
}

/// `ktied bench …`
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Time every kernel, beside the machine's own peak.
    Kernels(BenchKernels),
}

/// `ktied bench kernels`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ktied bench kernels\n  ktied bench kernels --filter conv --millis 500 --json")]
pub struct BenchKernels {
    /// Only kernels whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Time to spend on each kernel, in milliseconds.
    #[arg(long, default_value = "200", value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub millis: u32,
}
