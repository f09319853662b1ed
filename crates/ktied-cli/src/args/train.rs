//! Arguments of the commands that train.

use std::path::PathBuf;

use ktied::config::Preset;
use ktied::nn::Estimator;
use ktied::posterior::PosteriorKind;

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
