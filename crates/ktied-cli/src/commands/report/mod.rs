//! `ktied report`: one page that explains what runs have learned.

mod judge;
mod looks;
mod repeat;
mod shelf;
mod source;
mod weights;

use std::path::PathBuf;

use ktied::checkpoint::write_file;
use serde::Serialize;

use self::shelf::Shelf;
use crate::args::{Args, Report};
use crate::exit::Failure;
use crate::report::{RunView, page, write_assets};
use crate::table::{grouped, print_json, print_line};

/// Bytes that heat maps may take on the page, all together.
const MAPS: usize = 550_000;
/// The least and the most cells along a side of a map.
const SIDES: (usize, usize) = (24, 128);

/// What is printed at the end.
#[derive(Debug, Serialize)]
struct Summary {
    runs: Vec<String>,
    out: PathBuf,
    bytes: usize,
    plots: usize,
    assets: Option<PathBuf>,
    asset_files: usize,
    /// What could not be shown, run by run.
    notes: Vec<Vec<String>>,
}

pub(crate) fn run(arguments: &Report, args: &Args) -> Result<(), Failure> {
    let mut runs = source::open_all(&arguments.runs)?;
    let side = side(&runs);
    let mut shelf = Shelf::default();
    for run in &mut runs {
        args.say(&format!("{} …", crate::report::short(&run.name)));
        source::look_inside(run, side, arguments, &mut shelf, args)?;
    }
    let page = page(&runs);
    write_file(&arguments.out, page.html.as_bytes())?;
    let asset_files = match &arguments.assets {
        Some(folder) => write_assets(folder, &runs, &page.plots)?,
        None => 0,
    };
    let summary = Summary {
        runs: runs.iter().map(|run| run.folder.clone()).collect(),
        out: arguments.out.clone(),
        bytes: page.html.len(),
        plots: page.plots.iter().filter(|plot| !plot.lines.is_empty()).count(),
        assets: arguments.assets.clone(),
        asset_files,
        notes: runs.into_iter().map(|run| run.notes).collect(),
    };
    if args.json { print_json(&summary) } else { print(&summary) }
}

/// Cells along a side of a map, so that all maps of the page fit: a cell is about a byte, and four characters hold three.
fn side(runs: &[RunView]) -> usize {
    let kernels =
        |run: &RunView| run.config.model.layers(&run.config.posterior).map_or(1, |layers| layers.len().div_ceil(2));
    let maps: usize = 3 * runs.iter().map(kernels).sum::<usize>().max(1);
    ((MAPS / maps) as f64 * 0.75).sqrt().clamp(SIDES.0 as f64, SIDES.1 as f64) as usize
}

fn print(summary: &Summary) -> Result<(), Failure> {
    for (run, notes) in summary.runs.iter().zip(&summary.notes) {
        notes.iter().try_for_each(|note| print_line(&format!("{run}: {note}")))?;
    }
    if let Some(folder) = &summary.assets {
        print_line(&format!("{} files in {}.", grouped(summary.asset_files), folder.display()))?;
    }
    let (plots, kb) = (summary.plots, grouped(summary.bytes.div_ceil(1000)));
    print_line(&format!("{}: {} runs, {plots} plots, {kb} kB.", summary.out.display(), summary.runs.len()))
}
