//! Every plot of the page as files: pictures, and the data behind them.

use std::path::Path;

use ktied::checkpoint::write_file;
use serde_json::json;

use super::plot::Plot;
use super::{LayerView, Looks, RunView, examples, table};
use crate::csv::Csv;
use crate::exit::Failure;
use crate::picture::{Figure, HeatMap, Panel};

/// Writes the files into a folder, which is made if it is not there, and says how many.
///
/// # Errors
/// If the file system refuses.
pub(crate) fn write(folder: &Path, runs: &[RunView], plots: &[Plot]) -> Result<usize, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| ktied::Error::io("create", folder, &error))?;
    let mut files = Files { folder, count: 0 };
    files.write("comparison.csv", table::csv(runs).as_bytes())?;
    for plot in plots.iter().filter(|plot| !plot.lines.is_empty()) {
        for (stem, figure) in plot.figures() {
            files.figure(&stem, &figure)?;
        }
        files.write(&format!("{}.csv", plot.id), plot.csv().as_bytes())?;
    }
    for run in runs {
        for (index, layer) in run.layers.iter().enumerate().filter(|(_, layer)| !layer.maps.is_empty()) {
            let stem = format!("{}-maps-{}", run.stem(), index + 1);
            files.figure(&stem, &maps(layer))?;
            files.write(&format!("{stem}.csv"), maps_csv(layer).as_bytes())?;
        }
        if let Some(found) = &run.examples {
            files.write(&format!("{}-examples.csv", run.stem()), examples::csv(found).as_bytes())?;
            for example in found.most.iter().chain(&found.least) {
                if let Looks::Photo { png, .. } = &example.looks {
                    files.write(&format!("{}-example-{}.png", run.stem(), example.row), png)?;
                }
            }
        }
    }
    Ok(files.count)
}

/// A folder, and how many files were written into it.
struct Files<'a> {
    folder: &'a Path,
    count: usize,
}

impl Files<'_> {
    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.count += 1;
        Ok(write_file(&self.folder.join(name), bytes)?)
    }

    fn figure(&mut self, stem: &str, figure: &Figure) -> Result<(), Failure> {
        self.count += 2;
        figure.write(&self.folder.join(stem)).map(drop)
    }
}

fn maps(layer: &LayerView) -> Figure {
    let mut maps: Vec<HeatMap> = layer.maps.iter().map(|(_, _, map)| map.clone()).collect();
    HeatMap::share_scale(&mut maps);
    let columns = maps.len();
    let panels = maps.into_iter().map(Panel::Heat).collect();
    Figure { title: format!("Standard deviations of {}", super::short(&layer.name)), panels, columns }
}

/// The cells of the maps as they are on the page.
fn maps_csv(layer: &LayerView) -> String {
    let mut csv = Csv::new(&["map", "cell_row", "cell_column", "mean_sigma"]);
    for (title, cells, _) in &layer.maps {
        let ((_, columns), values) = cells.cells();
        for (index, value) in values.iter().enumerate() {
            csv.row(&[json!(title), json!(index / columns.max(1)), json!(index % columns.max(1)), json!(value)]);
        }
    }
    csv.finish()
}
