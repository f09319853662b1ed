//! Arguments of the commands that show runs and take them elsewhere.

use std::path::PathBuf;

use super::Place;

/// `ktied report`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied report runs/mean-field runs/k-tied-2 --out report.html\n  ktied report ktied-demo/* --out demo.html --assets pictures\n  ktied report runs/mnist --no-data --out report.html\n\nThe page is one file that asks nothing of the network. Evaluations are those that `ktied evaluate` left in the runs;\nwhere there is none, the run is judged for the page, and nothing is written into it. What cannot be shown, because a\nrun has no log, say, or its data are not there, is said on the page."
)]
pub struct Report {
    /// Folders of the runs, in the order in which they are shown.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The page.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Folder for every plot as SVG and PNG, and its data as CSV: all points of a curve, the cells of a map as drawn.
    #[arg(long, value_name = "DIR")]
    pub assets: Option<PathBuf>,
    /// Draws of the weights where the report predicts or judges itself.
    #[arg(long, default_value = "100", value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: u64,
    /// How many of the most and of the least certain test examples each run shows.
    #[arg(long, default_value = "6", value_name = "N", value_parser = clap::value_parser!(u64).range(0..=50))]
    pub examples: u64,
    /// Look at the runs' files alone: no data set is read, and nothing is predicted.
    #[arg(long)]
    pub no_data: bool,
    /// Try even if the machine seems to have too little memory.
    #[arg(long)]
    pub force: bool,
    /// Which checkpoint, and where the data are.
    #[command(flatten)]
    pub place: Place,
}

/// `ktied export`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied export runs/mnist --format csv\n  ktied export runs/mnist --format csv --out tables\n\nOne table for each kind of event of the run's log (train.csv, validation.csv, …), snr.csv and scales.csv with a line for\neach tensor or layer, evaluation.csv with every metric, config.csv with every key. docs/events.md says what each\ncolumn means. A number that was not finite is an empty cell."
)]
pub struct Export {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Form of the files.
    #[arg(long, value_enum, default_value = "csv")]
    pub format: ExportFormat,
    /// Folder for them; the run's own, export, if not given.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `--format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// Comma-separated values with a heading.
    Csv,
}
