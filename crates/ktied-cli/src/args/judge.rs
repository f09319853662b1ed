//! Arguments of the commands that judge and use a run.

use std::path::PathBuf;

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
    /// Turn the images of these examples by so many degrees first.
    #[arg(long, value_name = "DEGREES", allow_negative_numbers = true)]
    pub rotate: Option<f64>,
    /// A run to compare with, paired over examples.
    #[arg(long, value_name = "RUN2")]
    pub compare: Option<PathBuf>,
    /// Monte Carlo error for which the number of draws is said.
    #[arg(long, default_value_t = 0.001, value_name = "T")]
    pub tolerance: f64,
    /// Folder for the report and its pictures; the run's own, evaluation, if not given (of several runs: none).
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Try even if the machine seems to have too little memory.
    #[arg(long)]
    pub force: bool,
    /// Which checkpoint, and where the data are.
    #[command(flatten)]
    pub place: Place,
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
    /// Try even if the machine seems to have too little memory.
    #[arg(long)]
    pub force: bool,
    /// Which checkpoint, and where the data are.
    #[command(flatten)]
    pub place: Place,
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

/// Which checkpoint of a run, and where its data are.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// The checkpoint with the best validation instead of the newest.
    #[arg(long)]
    pub best: bool,
    /// Folder of data sets, where it is not the one that the run remembers.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}
