//! Arguments of the commands that look inside a posterior and make it smaller.

use std::path::PathBuf;

use ktied::compress::Method;
use ktied::foreign::OutputDim;

use super::Place;

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
    /// Which checkpoint, and where the data are.
    #[command(flatten)]
    pub place: Place,
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
    /// Which checkpoint, and where the data are.
    #[command(flatten)]
    pub place: Place,
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
    /// Which checkpoint, and where the data are.
    #[command(flatten)]
    pub place: Place,
}
