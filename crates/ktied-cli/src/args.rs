//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use ktied::compress::Method;
use ktied::config::Preset;
use ktied::foreign::OutputDim;
use ktied::nn::Estimator;
use ktied::posterior::PosteriorKind;

/// Bayesian neural networks with the k-tied Normal posterior.
#[derive(Debug, Parser)]
#[command(
    name = "ktied",
    version,
    after_help = "Examples:\n  ktied demo\n  ktied train --preset mlp-mnist --posterior k-tied:2 --epochs 10 --out runs/mnist\n  ktied evaluate runs/mnist"
)]
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

    /// One line on standard error, unless silence was asked for.
    pub(crate) fn say(&self, line: &str) {
        if !self.quiet {
            eprintln!("{line}");
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
    /// Train a run for every cell of a grid, and choose on validation −ELBO.
    Sweep(Sweep),
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

/// `ktied train`
#[derive(Debug, Default, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied train --preset mlp-mnist --posterior k-tied:2 --estimator local --epochs 10 --out runs/mnist\n  ktied train --config my.toml --set optim.lr=3e-4 --out runs/mine\n  ktied train --out runs/mnist --resume\n\n`ktied train --help` lists every key of --set and of configuration files.",
    after_long_help = keys_help()
)]
pub struct Train {
    /// Model and data: mlp-mnist, mlp-fashion, lenet-cifar100, lstm-imdb, resnet18-cifar10 or mlp-digits.
    #[arg(long, value_name = "P")]
    pub preset: Option<Preset>,
    /// Configuration in TOML, over the preset that it or --preset names (mlp-mnist if neither does).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Posterior of the weights: point, mean-field, k-tied:K, matrix-normal or low-rank:K.
    #[arg(long, value_name = "Q")]
    pub posterior: Option<PosteriorKind>,
    /// Estimator of gradients: reparam, flipout or local.
    #[arg(long, value_name = "E")]
    pub estimator: Option<Estimator>,
    /// Passes over the training examples.
    #[arg(long, value_name = "N")]
    pub epochs: Option<u64>,
    /// Seed of everything random; the same seed gives the same bits.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Folder of data sets; then $KTIED_DATA, then the user's cache.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Folder of the run.
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Change one key of the configuration, as in optim.lr=3e-4; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Go on from the newest good checkpoint; begin if there is none.
    #[arg(long)]
    pub resume: bool,
    /// Begin with the weights of another run, as far as both have them: a trained point or mean-field run, say.
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    pub init_from: Option<PathBuf>,
    /// Try even if the machine seems to have too little memory.
    #[arg(long)]
    pub force: bool,
}

/// Every key, for `train --help`.
fn keys_help() -> String {
    let mut text =
        String::from("Keys of --set and of configuration files (docs/configuration.md has the presets' values):\n");
    for key in ktied::config::KEYS {
        text.push_str(&format!("  {:<24} {}\n", key.name, key.meaning));
    }
    text.push_str("\nExamples:\n  ktied train --preset mlp-mnist --posterior k-tied:2 --epochs 10 --out runs/mnist\n  ktied train --out runs/mnist --resume");
    text
}

/// `ktied evaluate`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied evaluate runs/mnist\n  ktied evaluate runs/mnist --ood fashion-mnist --compare runs/point\n  ktied evaluate runs/seed-1 runs/seed-2 runs/seed-3 --json\n\nSeveral runs are judged as the ensemble that they make."
)]
pub struct Evaluate {
    /// Folders of one run, or of the members of an ensemble.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Draws of the weights of each run; one whose draws are all the same needs one.
    #[arg(long, default_value = "100", value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: u64,
    /// Which examples.
    #[arg(long, value_enum, default_value = "test")]
    pub split: SplitName,
    /// A data set of another kind: how well does uncertainty tell its examples from these?
    #[arg(long, value_name = "SET")]
    pub ood: Option<String>,
    /// A run to compare with, paired over examples.
    #[arg(long, value_name = "RUN2")]
    pub compare: Option<PathBuf>,
    /// Monte Carlo error for which the number of draws is said.
    #[arg(long, default_value_t = 0.001, value_name = "T")]
    pub tolerance: f64,
    /// Folder for the report and its pictures; the run's own, evaluation, if not given (of several runs: none).
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The checkpoint with the best validation instead of the newest.
    #[arg(long)]
    pub best: bool,
    /// Try even if the machine seems to have too little memory.
    #[arg(long)]
    pub force: bool,
    /// Folder of data sets, where it is not the one that the run remembers.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `ktied predict`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied predict runs/mnist --input digits/ --out predictions.csv\n  ktied predict runs/imdb --input reviews.txt --out predictions.jsonl\n  ktied predict runs/table --input new.csv --level 0.9 --skip-bad --out predictions.csv\n\nInputs: .npy, .npz (--array NAME), .csv, idx files, all of these also as .gz but for .npz; PNG images or a folder of\nthem; .txt with one text a line. Numbers are as in the training files: pixels from 0 to 255, columns in their own units."
)]
pub struct Predict {
    /// Folders of one run, or of the members of an ensemble.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// What to predict for.
    #[arg(long, value_name = "FILE|DIR")]
    pub input: PathBuf,
    /// Which array of an .npz archive.
    #[arg(long, value_name = "NAME")]
    pub array: Option<String>,
    /// File to write: .csv, or .jsonl for one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Draws of the weights of each run.
    #[arg(long, default_value = "100", value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: u64,
    /// Mass of the central interval around a predicted number.
    #[arg(long, default_value_t = 0.95, value_name = "L")]
    pub level: f64,
    /// Leave out rows that are not as they should be, and count them, instead of stopping at the first.
    #[arg(long)]
    pub skip_bad: bool,
    /// The checkpoint with the best validation instead of the newest.
    #[arg(long)]
    pub best: bool,
    /// Try even if the machine seems to have too little memory.
    #[arg(long)]
    pub force: bool,
    /// Folder of data sets, where it is not the one that the run remembers.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SplitName {
    /// Examples to train on.
    Train,
    /// Examples to choose by.
    Validation,
    /// Examples to judge by.
    Test,
}

impl SplitName {
    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
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

/// `ktied analyze`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ktied analyze runs/mnist\n  ktied analyze runs/mnist --tolerance 0.01 --json")]
pub struct Analyze {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Folder for tables and pictures; the run's own, analysis, if not given.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Nats an example that compressing the whole network may cost where a rank is recommended.
    #[arg(long, default_value_t = 0.05, value_name = "T")]
    pub tolerance: f64,
    /// No pictures.
    #[arg(long)]
    pub no_pictures: bool,
    /// The checkpoint with the best validation instead of the newest.
    #[arg(long)]
    pub best: bool,
    /// Folder of data sets, where it is not the one that the run remembers.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `ktied compress`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied compress runs/mnist --rank 2 --out runs/mnist-2\n  ktied compress runs/mnist --rank auto --tolerance 0.05 --method svd --out runs/small\n  ktied compress model.safetensors --names bayesian-torch --rank 2 --out small.safetensors"
)]
pub struct Compress {
    /// Folder of a mean-field run, or a .safetensors or .npz file of another library's posterior.
    #[arg(value_name = "RUN|FILE")]
    pub source: PathBuf,
    /// Rank of the factors; auto: the smallest that loses less than the tolerance.
    #[arg(long, value_name = "K|auto")]
    pub rank: RankChoice,
    /// How factors are found: svd as in the paper, or positive, which makes a k-tied posterior that can be trained on.
    #[arg(long, default_value_t = Method::Positive, value_name = "METHOD")]
    pub method: Method,
    /// Folder of the compressed run, or the file to write.
    #[arg(long, value_name = "RUN|FILE")]
    pub out: PathBuf,
    /// Compress convolutions too where the model leaves them mean-field.
    #[arg(long)]
    pub conv: bool,
    /// Epochs to train on after that.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub finetune_epochs: Option<u64>,
    /// Loss of validation −ELBO, in nats an example, that --rank auto accepts.
    #[arg(long, default_value_t = 0.05, value_name = "T")]
    pub tolerance: f64,
    /// Largest rank that --rank auto tries.
    #[arg(long, default_value_t = 8, value_name = "K")]
    pub max_rank: usize,
    /// Draws of the weights for the figures before and after.
    #[arg(long, default_value = "100", value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: u64,
    /// The checkpoint with the best validation instead of the newest.
    #[arg(long)]
    pub best: bool,
    /// Folder of data sets, where it is not the one that the run remembers.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// How a file names its tensors: bayesian-torch, tfp, or patterns such as "{}.mu,{}.rho:softplus" (forms: sigma, log,
    /// softplus); may be given again.
    #[arg(long, value_name = "NAMES")]
    pub names: Vec<String>,
    /// Which dimension of a file's tensors is the output, where --names is a pattern.
    #[arg(long, default_value_t = OutputDim::Last, value_name = "first|last")]
    pub outputs: OutputDim,
    /// What to write into the file: factors, which are small, or scales as they were stored, for programs that know no
    /// factors.
    #[arg(long, value_enum, default_value = "factors")]
    pub write: WriteAs,
}

/// `--rank`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankChoice {
    /// The smallest that loses little enough.
    Auto,
    /// This one.
    Rank(usize),
}

impl std::str::FromStr for RankChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Rank).map_err(|_| "expected a whole number or auto".into()),
        }
    }
}

/// What becomes of another library's scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WriteAs {
    /// Two thin tensors in place of each.
    Factors,
    /// One of the same name, shape and convention.
    Same,
}

/// `ktied prune`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied prune runs/mnist --keep-frac 0.25 --out runs/sparse\n  ktied prune runs/mnist --tolerance 0.02 --out runs/sparse --json"
)]
pub struct Prune {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Share of the weights to keep; the smallest on the curve that loses less than the tolerance if not given.
    #[arg(long, value_name = "F")]
    pub keep_frac: Option<f64>,
    /// Loss of NLL, in nats an example, that is accepted where --keep-frac is not given.
    #[arg(long, default_value_t = 0.01, value_name = "T")]
    pub tolerance: f64,
    /// Folder of the pruned run.
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Draws of the weights for each point of the curve.
    #[arg(long, default_value = "20", value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: u64,
    /// The checkpoint with the best validation instead of the newest.
    #[arg(long)]
    pub best: bool,
    /// Folder of data sets, where it is not the one that the run remembers.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `ktied sweep`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied sweep --preset mlp-mnist --grid optim.lr=1e-4,3e-4,1e-3,3e-3 --grid prior.scale=0.2,0.3 --budget-epochs 20 --out sweeps/mnist\n\nRun it again to go on where it was interrupted."
)]
pub struct Sweep {
    /// Model and data: mlp-mnist, mlp-fashion, lenet-cifar100, lstm-imdb, resnet18-cifar10 or mlp-digits.
    #[arg(long, value_name = "P")]
    pub preset: Option<Preset>,
    /// Configuration in TOML, over the preset that it or --preset names (mlp-mnist if neither does).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Values of one key, as in optim.lr=1e-3,3e-3; may be given again, and all are combined.
    #[arg(long, value_name = "KEY=V1,V2", required = true)]
    pub grid: Vec<String>,
    /// Change one key in every cell; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Epochs of each cell.
    #[arg(long, value_name = "N")]
    pub budget_epochs: Option<u64>,
    /// Folder of data sets; then $KTIED_DATA, then the user's cache.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Folder of the runs and of their table, sweep.json.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

impl Sweep {
    /// What all cells share, as `train` would say it.
    pub(crate) fn train(&self) -> Train {
        let (config, set) = (self.config.clone(), self.set.clone());
        Train { preset: self.preset, config, set, data: self.data.clone(), out: self.out.clone(), ..Train::default() }
    }
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
    /// Time whole training steps of a model on made-up data.
    Step(BenchStep),
}

/// `ktied bench step`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied bench step --model mlp --posterior k-tied:2 --estimator local\n  ktied bench step --model resnet18 --posterior mean-field --estimator flipout --steps 5 --json"
)]
pub struct BenchStep {
    /// The model.
    #[arg(long, value_enum)]
    pub model: BenchModel,
    /// Posterior of the weights: point, mean-field, k-tied:K, matrix-normal or low-rank:K.
    #[arg(long, value_name = "Q", default_value_t = PosteriorKind::MeanField)]
    pub posterior: PosteriorKind,
    /// Estimator of gradients: reparam, flipout or local.
    #[arg(long, value_name = "E", default_value_t = Estimator::Reparam)]
    pub estimator: Estimator,
    /// Examples a step; the paper's if not given.
    #[arg(long, value_name = "B")]
    pub batch: Option<usize>,
    /// Steps to time, after three to warm up.
    #[arg(long, default_value = "20", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: u64,
}

/// The models of `bench step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchModel {
    /// 784-400-400-10, batch 1024.
    Mlp,
    /// 5×5 kernels on 32×32 images, batch 1024.
    Lenet,
    /// 80 words of 20,000, batch 128.
    Lstm,
    /// 32×32 images, batch 128.
    Resnet18,
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
