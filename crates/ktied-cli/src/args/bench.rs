//! Arguments of `ktied bench`.

use std::path::PathBuf;

use clap::Subcommand;
use ktied::nn::Estimator;
use ktied::posterior::PosteriorKind;

/// `ktied bench …`
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Time what is around training: data sets read, checkpoints saved, batches waited for.
    Io(BenchIo),
    /// Time every kernel, beside the machine's own peak.
    Kernels(BenchKernels),
    /// Time predictions of many draws by the MLP on made-up data.
    Predict(BenchPredict),
    /// Time whole training steps by the processes of mpirun, on made-up data.
    Ranks(BenchRanks),
    /// Predict the time of a step on a cluster from what a few processes take here.
    Scale(BenchScale),
    /// Time whole training steps of a model on made-up data.
    Step(BenchStep),
    /// Time sums of gradients over the processes of mpirun.
    Sum(BenchSum),
}

/// `ktied bench io`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied bench io\n  ktied bench io --model mlp --data ~/data --out /var/tmp\n  ktied bench io --model resnet18 --data ~/data --steps 10 --json"
)]
pub struct BenchIo {
    /// The model that is saved, and trained on its own data set if that is there, on made-up data if not.
    #[arg(long, value_enum, default_value_t = BenchModel::Resnet18)]
    pub model: BenchModel,
    /// Where the data sets are, in a folder each.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Where the checkpoint is written, and removed again; the system's folder for such files if not given.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Steps of which the wait for data is measured.
    #[arg(long, default_value = "10", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: u64,
}

/// `ktied bench sum`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  mpirun -n 2 ktied bench sum --threads 1\n  mpirun -n 4 ktied bench sum --numbers 478410,956820 --json"
)]
pub struct BenchSum {
    /// Numbers to add up; one measurement each.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_value = "1000,10000,100000,1000000,4000000")]
    pub numbers: Vec<usize>,
    /// How often, after three times to warm up.
    #[arg(long, default_value = "30", value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub repeats: usize,
}

/// `ktied bench ranks`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied bench ranks --model mlp --threads 2\n  mpirun -n 2 ktied bench ranks --model mlp --posterior k-tied:2 --threads 1 --json"
)]
pub struct BenchRanks {
    /// Of what.
    #[command(flatten)]
    pub work: Work,
    /// Posterior of the weights: point, mean-field, k-tied:K, matrix-normal or low-rank:K.
    #[arg(long, value_name = "Q", default_value_t = PosteriorKind::MeanField)]
    pub posterior: PosteriorKind,
    /// Steps to time, after three to warm up.
    #[arg(long, default_value = "20", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: u64,
}

/// `ktied bench scale`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  mpirun -n 2 ktied bench scale --model mlp --threads 1\n  mpirun -n 2 ktied bench scale --model lenet --steps 3 --gbits 10,25,100 --threads 1 --json"
)]
pub struct BenchScale {
    /// Of what.
    #[command(flatten)]
    pub work: Work,
    /// Posteriors to compare.
    #[arg(long, value_name = "Q,Q,…", value_delimiter = ',', default_value = "mean-field,k-tied:2")]
    pub posteriors: Vec<PosteriorKind>,
    /// Speeds of networks, in Gbit/s.
    #[arg(long, value_name = "G,G,…", value_delimiter = ',', default_value = "10,100", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub gbits: Vec<u32>,
    /// Steps to time for each size of a rank's part, after three to warm up.
    #[arg(long, default_value = "10", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: u64,
}

/// What the processes of mpirun do in a step.
#[derive(Debug, clap::Args)]
pub struct Work {
    /// The model; resnet18 without statistics of batches, which take one process.
    #[arg(long, value_enum)]
    pub model: BenchModel,
    /// Estimator of gradients: reparam, flipout or local.
    #[arg(long, value_name = "E", default_value_t = Estimator::Reparam)]
    pub estimator: Estimator,
    /// Examples a step of all processes together; the paper's if not given.
    #[arg(long, value_name = "B")]
    pub batch: Option<usize>,
    /// Gradients in half precision between processes.
    #[arg(long)]
    pub half: bool,
}

/// `ktied bench predict`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied bench predict --posterior k-tied:2\n  ktied bench predict --posterior mean-field --samples 10 --json"
)]
pub struct BenchPredict {
    /// Posterior of the weights: point, mean-field, k-tied:K, matrix-normal or low-rank:K.
    #[arg(long, value_name = "Q", default_value_t = PosteriorKind::KTied { rank: 2 })]
    pub posterior: PosteriorKind,
    /// Draws of each prediction.
    #[arg(long, default_value = "100", value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: u64,
    /// Examples to predict.
    #[arg(long, default_value = "10000", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub examples: u64,
    /// How often to do it.
    #[arg(long, default_value = "3", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub repeats: u64,
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
    /// Inputs, hidden units and outputs of the MLP, such as 784,1024,1024,10; the paper's if not given.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    pub sizes: Vec<usize>,
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
