//! `ktied params`: the layers of a preset under a posterior, and what they cost.

use ktied::config::{Config, Tree};
use ktied::models::{LayerSpec, Totals};
use serde::Serialize;

use super::train::assign;
use crate::args::{Args, Params};
use crate::exit::Failure;
use crate::table::{Table, grouped, print_json, print_line};

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    shape: Vec<usize>,
    posterior: String,
    parameters: usize,
}

#[derive(Debug, Serialize)]
struct Report {
    preset: &'static str,
    posterior: String,
    total: usize,
    with_head: usize,
    layers: Vec<Row>,
}

pub(crate) fn run(params: &Params, args: &Args) -> Result<(), Failure> {
    let mut tree = Tree::of(&params.preset.config());
    tree.set("posterior.kind", &params.posterior.to_string()).map_err(|error| Failure::Usage(error.to_string()))?;
    params.set.iter().try_for_each(|assignment| assign(&mut tree, assignment))?;
    let config = tree.config().map_err(|error| Failure::Usage(error.to_string()))?;
    let report = report(params.preset.name(), &config).map_err(|error| Failure::Usage(error.to_string()))?;
    if args.json { print_json(&report) } else { print(&report) }
}

fn report(preset: &'static str, config: &Config) -> ktied::Result<Report> {
    let layers = config.model.layers(&config.posterior)?;
    let Totals { total, with_head } = Totals::of(&layers)?;
    let posterior = config.posterior.kind.to_string();
    Ok(Report { preset, posterior, total, with_head, layers: layers.into_iter().map(row).collect() })
}

fn row(layer: LayerSpec) -> Row {
    let LayerSpec { name, shape, posterior, parameters, .. } = layer;
    Row { name, shape, posterior: posterior.to_string(), parameters }
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["layer", "shape", "posterior", "parameters"]);
    for Row { name, shape, posterior, parameters } in &report.layers {
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        table.row(vec![name.clone(), shape.join("×"), posterior.clone(), grouped(*parameters)]);
    }
    let mut sum = |name: &str, sum| table.row(vec![name.into(), String::new(), String::new(), grouped(sum)]);
    sum("total", report.total);
    if report.with_head != report.total {
        sum("with head", report.with_head);
    }
    table.print()?;
    print_line("")?;
    print_line(&format!("The preset {} under the posterior {}.", report.preset, report.posterior))
}
