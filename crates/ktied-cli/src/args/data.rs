//! Arguments of `ktied data`.

use std::path::PathBuf;

use clap::Subcommand;

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
