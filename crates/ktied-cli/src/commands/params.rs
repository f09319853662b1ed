//! `ktied params`: the layers of a preset under a posterior, and what they cost.

use ktied::config::{Config, Tree};
use ktied::models::Totals;
use serde::Serialize;

use super::layers::{LayerRow, layers_of, table_of};
use super::train::assign;
use crate::args::{Args, Params};
use crate::exit::Failure;
use crate::table::{grouped, print_json, print_line};

#[derive(Debug, Serialize)]
struct Report {
    preset: &'static str,
    posterior: String,
    total: usize,
    with_head: usize,
    layers: Vec<LayerRow>,
}

pub(crate) fn run(params: &Params, args: &Args) -> Result<(), Failure> {
    let mut tree = Tree::of(&params.preset.config());
    tree.set("posterior.kind", &params.posterior.to_string()).map_err(|error| Failure::Usage(error.to_string()))?;
    params.set.iter().try_for_each(|assignment| assign(&mut tree, assignment))?;
    let config = tree.config().map_err(|error| Failure::Usage(error.to_string()))?;
    let report = report(params.preset.name(), &config)?;
    if args.json { print_json(&report) } else { print(&report) }
}

fn report(preset: &'static str, config: &Config) -> Result<Report, Failure> {
    let Totals { total, with_head } = Totals::of(&config.model.layers(&config.posterior)?)?;
    let posterior = config.posterior.kind.to_string();
    Ok(Report { preset, posterior, total, with_head, layers: layers_of(config)? })
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = table_of(&report.layers);
    let mut sum = |name: &str, sum| table.row(vec![name.into(), String::new(), String::new(), grouped(sum)]);
    sum("total", report.total);
    if report.with_head != report.total {
        sum("with head", report.with_head);
    }
    table.print()?;
    print_line("")?;
    print_line(&format!("The preset {} under the posterior {}.", report.preset, report.posterior))
}
