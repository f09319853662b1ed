//! `ktied sweep`: a run for every cell of a grid, chosen on validation −ELBO.

use std::path::{Path, PathBuf};

use ktied::config::{Config, Tree};
use ktied::data::{DataSet, load};
use ktied::train::{Outcome, Run, Trainer, Writer, fit};
use serde::Serialize;

use super::train::{Progress, assign, config_of, go_on, interruptible};
use crate::args::{Args, Sweep};
use crate::exit::Failure;
use crate::table::{Table, json, print_json, print_line};

/// More cells than this is a mistake.
const MAX_CELLS: usize = 10_000;

/// One axis of the grid.
#[derive(Debug, PartialEq)]
struct Axis {
    key: String,
    values: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Cell {
    run: PathBuf,
    settings: Vec<String>,
    step: u64,
    /// Best −ELBO on the validation examples.
    neg_elbo: Option<f64>,
    outcome: String,
}

#[derive(Debug, Serialize)]
struct Report {
    best: Option<PathBuf>,
    cells: Vec<Cell>,
}

pub(crate) fn run(sweep: &Sweep, args: &Args) -> Result<(), Failure> {
    let stop = interruptible()?;
    let axes = sweep.grid.iter().map(|text| axis(text)).collect::<Result<Vec<_>, _>>()?;
    let cells = cells(&axes)?;
    let configs = cells.iter().map(|cell| config(sweep, cell)).collect::<Result<Vec<_>, _>>()?;
    let mut data: Option<(ktied::data::DataSpec, DataSet)> = None;
    let mut done: Vec<Cell> = Vec::new();
    for (number, (settings, config)) in (1..).zip(cells.iter().zip(configs)) {
        args.say(&format!("cell {number} of {}: {}", cells.len(), settings.join(" ")));
        let run = sweep.out.join(name(settings));
        let set = match data.take_if(|(spec, _)| *spec == config.data) {
            Some(known) => data.insert(known),
            None => data.insert((config.data.clone(), load(&config.data)?)),
        };
        let cell = train(&run, settings, config, &set.1, args, &stop)?;
        let interrupted = cell.outcome == "interrupted";
        done.push(cell);
        write(&sweep.out, &report(&done))?;
        if interrupted {
            return Err(Failure::Interrupted { run: sweep.out.clone() });
        }
    }
    let report = report(&done);
    if args.json { print_json(&report) } else { print(&report) }
}

/// `key=v1,v2,…`; a list of lists is written `key=784,10;784,400,10`.
fn axis(text: &str) -> Result<Axis, Failure> {
    let wrong = || Failure::Usage(format!("--grid expected key=value,value…, found `{text}`"));
    let (key, values) = text.split_once('=').ok_or_else(wrong)?;
    let separator = if values.contains(';') { ';' } else { ',' };
    let values: Vec<String> = values.split(separator).map(|value| value.trim().to_owned()).collect();
    if key.is_empty() || values.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok(Axis { key: key.trim().into(), values })
}

/// Every combination, the last axis fastest.
fn cells(axes: &[Axis]) -> Result<Vec<Vec<String>>, Failure> {
    let count = axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.values.len()));
    match count {
        Some(count) if count <= MAX_CELLS => {}
        _ => return Err(Failure::Usage(format!("--grid: expected at most {MAX_CELLS} cells, found more"))),
    }
    Ok(axes.iter().fold(vec![Vec::new()], |cells, axis| {
        let with = |cell: &Vec<String>, value: &String| [cell.clone(), vec![format!("{}={value}", axis.key)]].concat();
        cells.iter().flat_map(|cell| axis.values.iter().map(move |value| with(cell, value))).collect()
    }))
}

fn config(sweep: &Sweep, cell: &[String]) -> Result<Config, Failure> {
    let mut tree = Tree::of(&config_of(&sweep.train())?);
    cell.iter().try_for_each(|assignment| assign(&mut tree, assignment))?;
    if let Some(epochs) = sweep.budget_epochs {
        tree.set("train.epochs", &epochs.to_string()).map_err(|error| Failure::Usage(error.to_string()))?;
        tree.set("train.steps", "none").map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let config = tree.config().map_err(|error| Failure::Usage(error.to_string()))?;
    config.check()?;
    if config.train.validate_every == 0 {
        let sentence = "a sweep chooses on validation: set train.validate_every to at least 1";
        return Err(Failure::Usage(sentence.into()));
    }
    Ok(config)
}

/// A folder's name for a cell.
fn name(settings: &[String]) -> String {
    let name: Vec<String> = settings.iter().map(|text| text.replace([':', ',', ';', '/', ' '], "-")).collect();
    if name.is_empty() { "cell".into() } else { name.join("_") }
}

/// Trains a cell, or goes on with it, or finds it finished.
fn train(
    folder: &Path,
    settings: &[String],
    config: Config,
    data: &DataSet,
    args: &Args,
    stop: &std::sync::atomic::AtomicBool,
) -> Result<Cell, Failure> {
    if data.validation.is_empty() {
        let set = &data.name;
        return Err(Failure::Usage(format!("a sweep chooses on validation, and `{set}` has no validation examples")));
    }
    let (writer, trainer) = match Run::open(folder) {
        Ok(run) => {
            let stored = run.config()?;
            if stored != config {
                let folder = folder.display();
                return Err(Failure::Usage(format!("{folder} is a run with other settings: choose another --out")));
            }
            let writer = Writer::reopen(folder)?;
            let trainer = go_on(&writer, config, data, args)?;
            (writer, trainer)
        }
        Err(_) => {
            // What cannot be trained makes no folder.
            let trainer = Trainer::new(config.clone(), data)?;
            (Writer::create(folder, &config)?, trainer)
        }
    };
    let mut progress = Progress::new(args, &trainer);
    let step_before = trainer.state().step;
    let outcome = fit(&writer, trainer, data, &mut progress, stop);
    progress.finish();
    let cell = |step, neg_elbo, outcome: &str| Cell {
        run: folder.into(),
        settings: settings.to_vec(),
        step,
        neg_elbo,
        outcome: outcome.into(),
    };
    match outcome {
        Ok((trainer, outcome)) => {
            let neg_elbo = trainer.state().best.map(|best| best.neg_elbo);
            let outcome = match outcome {
                Outcome::Interrupted => "interrupted",
                Outcome::OutOfPatience => "out of patience",
                Outcome::Finished => "finished",
            };
            Ok(cell(trainer.state().step, neg_elbo, outcome))
        }
        // A cell whose rate is too large is a result, not a failure of the sweep.
        Err(ktied::Error::NonFinite { step, .. }) => Ok(cell(step.max(step_before), None, "diverged")),
        Err(error) => Err(error.into()),
    }
}

fn report(cells: &[Cell]) -> Report {
    let mut cells = cells.to_vec();
    cells.sort_by(|a, b| a.neg_elbo.unwrap_or(f64::INFINITY).total_cmp(&b.neg_elbo.unwrap_or(f64::INFINITY)));
    let best = cells.first().filter(|cell| cell.neg_elbo.is_some()).map(|cell| cell.run.clone());
    Report { best, cells }
}

fn write(folder: &Path, report: &Report) -> Result<(), Failure> {
    Ok(ktied::checkpoint::write_file(&folder.join("sweep.json"), json(report)?.as_bytes())?)
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["settings", "validation −ELBO", "steps", "outcome"]).with_text_from(3);
    for cell in &report.cells {
        let neg_elbo = cell.neg_elbo.map_or("–".into(), |value| format!("{value:.4}"));
        table.row(vec![cell.settings.join(" "), neg_elbo, cell.step.to_string(), cell.outcome.clone()]);
    }
    table.print()?;
    match &report.best {
        Some(best) => print_line(&format!("\nBest: {}", best.display())),
        None => print_line("\nNo cell has a validation."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_every_combination() {
        let axes = [axis("optim.lr=1e-3,3e-3").unwrap(), axis("posterior.kind=mean-field,k-tied:2").unwrap()];
        let cells = cells(&axes).unwrap();
        assert_eq!(cells.len(), 4);
        assert_eq!(cells[1], ["optim.lr=1e-3", "posterior.kind=k-tied:2"]);
        assert_eq!(name(&cells[1]), "optim.lr=1e-3_posterior.kind=k-tied-2");
        assert_eq!(axis("model.sizes=784,10;784,400,10").unwrap().values, ["784,10", "784,400,10"]);
        assert!(axis("optim.lr").is_err() && axis("optim.lr=1,,2").is_err());
    }
}
