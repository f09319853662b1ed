//! Arguments of the command that repeats the paper.

use std::path::PathBuf;

use crate::reproduce::{Model, Scale, Target};

/// `ktied reproduce`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ktied reproduce --data DIR\n  ktied reproduce low-rank k-tied --scale full --only mlp,lstm --data DIR\n  ktied reproduce --scale reduced --data DIR\n  ktied reproduce parameters --json\n\nRun it again to go on where it was interrupted: what is finished in --out is not done again."
)]
pub struct Reproduce {
    /// What to repeat; everything that the paper shows if not given.
    #[arg(value_enum, value_name = "TARGET")]
    pub targets: Vec<Target>,
    /// The paper's setting; a reduction that takes two cores half an hour; or one that converges there, of LeNet and ResNet-18.
    #[arg(long, value_enum, default_value = "quick")]
    pub scale: Scale,
    /// Only these models; what is known of the others stays as it is.
    #[arg(long, value_enum, value_name = "MODEL,…", value_delimiter = ',')]
    pub only: Vec<Model>,
    /// Folder of data sets; then $KTIED_DATA, then the user's cache.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Folder of the runs behind the results.
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    pub out: PathBuf,
    /// Folder of the results, a JSON document each; those of the quick and reduced scale go into folders of that name.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
    /// Folder of the pages that are made of all results, REPRODUCTION.md and BEYOND.md.
    #[arg(long, value_name = "DIR", default_value = "docs")]
    pub pages: PathBuf,
}
