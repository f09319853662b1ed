//! `ktied reproduce`: the paper's experiments, table by table.

mod race;
mod stages;
mod timing;
mod view;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ktied::checkpoint::write_file;
use ktied::train::{Outcome, Run};
use serde::Serialize;

use self::view::View;
use super::train::{Opened, complete, config_of, interruptible, open};
use crate::args::{Args, Reproduce};
use crate::exit::Failure;
use crate::reproduce::{Document, Job, Model, Scale, Shelf, Target, jobs, page, pictures, rows};
use crate::table::{Table, print_json, print_line};
use crate::workers::side_by_side;

/// What is printed at the end.
#[derive(Debug, Serialize)]
struct Report {
    results: Vec<PathBuf>,
    pages: PathBuf,
    documents: Vec<Document>,
}

pub(crate) fn run(arguments: &Reproduce, args: &Args) -> Result<(), Failure> {
    let stop = interruptible()?;
    let scale = arguments.scale;
    let targets = match &arguments.targets[..] {
        [] => scale.targets(),
        some => some,
    };
    let shelf = Shelf::new(arguments.out.join(scale.name()));
    let models = match &arguments.only[..] {
        [] => scale.models(),
        some => some,
    };
    check(scale, targets, models)?;
    let jobs = jobs(targets, scale, models);
    work(&jobs, &shelf, arguments.data.as_deref(), args, &stop)?;
    if targets.contains(&Target::BeyondEstimators) {
        race::run(&shelf, scale, arguments.data.as_deref(), args, &stop)?;
    }
    if targets.contains(&Target::StepTime) {
        timing::measure(&shelf, scale, args, &stop)?;
    }
    let (mut results, mut documents) = (vec![], vec![]);
    for &target in targets {
        let known = Document::read(&arguments.results, target, scale)?;
        let found = Document { target, scale, rows: rows(target, scale, &shelf, models)? };
        let document = found.beside(known, models);
        pictures::draw(target, scale, &shelf, models, &arguments.results)?;
        results.push(document.write(&arguments.results)?);
        documents.push(document);
    }
    std::fs::create_dir_all(&arguments.pages).map_err(|error| ktied::Error::io("create", &arguments.pages, &error))?;
    let link = page::link(&arguments.pages, &arguments.results);
    for (name, make) in page::PAGES {
        write_file(&arguments.pages.join(name), make(&arguments.results, &link)?.as_bytes())?;
    }
    let report = Report { results, pages: arguments.pages.clone(), documents };
    if args.json { print_json(&report) } else { print(&report, scale) }
}

/// Whether all that is wanted has runs of a scale.
fn check(scale: Scale, targets: &[Target], models: &[Model]) -> Result<(), Failure> {
    let target = targets.iter().find(|&&target| !scale.has(target)).map(|target| target.name());
    let model = models.iter().find(|model| !scale.models().contains(model)).map(|model| model.name());
    let Some(other) = target.or(model) else { return Ok(()) };
    let scale = scale.name();
    Err(Failure::Usage(format!(
        "--scale {scale}: {other} has no runs of this scale, which is resnet, k-tied, annealing and beyond-conv of lenet, \
         resnet18 and resnet18-he: give --scale quick or full"
    )))
}

/// What all runs share: where they are kept, what they read, who shows them, and whether to stop.
struct Floor<'a> {
    shelf: &'a Shelf,
    data: Option<&'a Path>,
    /// Quiet, because the view speaks for all.
    args: Args,
    view: View,
    stop: &'a AtomicBool,
}

impl<'a> Floor<'a> {
    fn new(num_runs: usize, shelf: &'a Shelf, data: Option<&'a Path>, args: &Args, stop: &'a AtomicBool) -> Self {
        Self { shelf, data, args: Args { quiet: true, ..args.clone() }, view: View::new(num_runs, args), stop }
    }

    /// Does something for each item, side by side.
    fn each<T: Sync>(&self, items: &[T], work: impl Fn(&T) -> Result<(), Failure> + Sync) -> Result<(), Failure> {
        let ended = side_by_side(items, |item| {
            let ended = work(item);
            if ended.is_err() {
                // The others save what they have.
                self.stop.store(true, Ordering::Relaxed);
            }
            ended
        });
        self.view.finish();
        ended.map(drop)
    }
}

/// Does all jobs, side by side.
fn work(jobs: &[Job], shelf: &Shelf, data: Option<&Path>, args: &Args, stop: &AtomicBool) -> Result<(), Failure> {
    let floor = Floor::new(jobs.len(), shelf, data, args, stop);
    floor.each(jobs, |job| carry_out(job, &floor))
}

/// Trains a run, or goes on with it, and does with it what is to be done; nothing that is there already.
fn carry_out(job: &Job, floor: &Floor<'_>) -> Result<(), Failure> {
    let &Floor { shelf, data, ref args, ref view, stop } = floor;
    let interrupted = || Failure::Interrupted { run: shelf.folder().into() };
    if !is_trained(job, shelf, data)? {
        let opened = open(&job.recipe.train(shelf.folder(), data), args)?;
        let mut watch = view.training(&job.recipe.name, &opened.trainer);
        let ended = complete(opened, &mut watch, stop);
        watch.finish();
        let (Opened { .. }, outcome) = ended?;
        if outcome == Outcome::Interrupted {
            return Err(interrupted());
        }
    }
    for &stage in &job.stages {
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        stages::carry_out(stage, &job.recipe, shelf, data, args, view)?;
    }
    Ok(())
}

/// Whether a run is there with these very settings, and over.
fn is_trained(job: &Job, shelf: &Shelf, data: Option<&Path>) -> Result<bool, Failure> {
    let Ok(run) = Run::open(shelf.run(&job.recipe.name)) else { return Ok(false) };
    let (mut stored, wanted) = (run.config()?, config_of(&job.recipe.train(shelf.folder(), data))?);
    // Where the data are may change.
    stored.data.dir.clone_from(&wanted.data.dir);
    Ok(stored == wanted && shelf.log(&job.recipe.name)?.of("finished").next().is_some())
}

fn print(report: &Report, scale: Scale) -> Result<(), Failure> {
    let mut table = Table::new(&["target", "agrees", "same conclusion", "differs", "beside"]);
    for document in &report.documents {
        let of = |name: Option<&str>| document.rows.iter().filter(|row| row.verdict.map(|v| v.name()) == name).count();
        let counts = ["agrees", "same conclusion", "differs"].map(|name| of(Some(name)).to_string());
        let cells = [document.target.name().to_owned()].into_iter().chain(counts).chain([of(None).to_string()]);
        table.row(cells.collect());
    }
    table.print()?;
    print_line("")?;
    let scale = scale.name();
    print_line(&format!(
        "Figures at the scale {scale}, held against the paper's; the pages are in {}.",
        report.pages.display()
    ))
}
