//! Estimators against the clock: a thread to each run.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::ProgressBar;
use ktied::evaluate::Evaluation;
use ktied::train::{Outcome, StepReport, Trainer, Watch};

use super::Floor;
use crate::args::Args;
use crate::commands::train::{complete, open};
use crate::exit::Failure;
use crate::reproduce::{Race, Recipe, Scale, Shelf, finish_lines, racers};
use crate::table::json;

/// Lets every racer run that has not yet.
pub(super) fn run(
    shelf: &Shelf,
    scale: Scale,
    data: Option<&Path>,
    args: &Args,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let [.., last] = finish_lines(scale);
    let racers = racers(scale);
    let floor = Floor::new(racers.len(), shelf, data, args, stop);
    floor.view.say(&format!("A race of {last} seconds, a thread to each run; whatever else runs now makes it slower."));
    floor.each(racers, |racer| race(racer, last, &floor))
}

/// Trains one racer until time is up, unless that was done.
fn race(&(method, estimator): &(&str, &str), seconds: u64, floor: &Floor<'_>) -> Result<(), Failure> {
    let &Floor { shelf, data, ref args, ref view, stop } = floor;
    let recipe = Recipe::racer(method, estimator);
    if shelf.document(&recipe.name, "race.json")?.is_some() {
        return Ok(());
    }
    // Seconds cannot be resumed.
    let folder = shelf.run(&recipe.name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| ktied::Error::io("remove", &folder, &error))?;
    }
    let opened = open(&recipe.train(shelf.folder(), data), args)?;
    view.say(&format!("{}: off", recipe.name));
    let (time_is_up, bar) = (AtomicBool::new(false), view.bar(&recipe.name, seconds));
    let (begin, limit) = (Instant::now(), seconds as f64);
    let mut clock = Clock { begin, limit, points: vec![], bar: &bar, stop, time_is_up: &time_is_up };
    let ended = complete(opened, &mut clock, &time_is_up);
    view.trained(&bar);
    let (opened, outcome) = ended?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted { run: shelf.folder().into() });
    }
    debug_assert_eq!(outcome, Outcome::Interrupted, "the clock stops it");
    let race = Race { points: clock.points };
    if let Some(writer) = opened.writer {
        writer.run().write("race.json", json(&race)?.as_bytes())?;
    }
    Ok(())
}

/// Notes when validations were, and says when time is up.
struct Clock<'a> {
    begin: Instant,
    limit: f64,
    points: Vec<(f64, u64, f64)>,
    bar: &'a ProgressBar,
    stop: &'a AtomicBool,
    time_is_up: &'a AtomicBool,
}

impl Watch for Clock<'_> {
    fn step(&mut self, _: &Trainer, report: &StepReport) {
        let seconds = self.begin.elapsed().as_secs_f64();
        if report.step.is_multiple_of(10) {
            self.bar.set_position(seconds as u64);
        }
        if seconds > self.limit || self.stop.load(Ordering::Relaxed) {
            self.time_is_up.store(true, Ordering::Relaxed);
        }
    }

    fn validation(&mut self, trainer: &Trainer, metrics: &Evaluation, _: bool) {
        let neg_elbo = metrics.neg_elbo.value;
        self.points.push((self.begin.elapsed().as_secs_f64(), trainer.state().step, neg_elbo));
        self.bar.set_message(format!("validation −ELBO {neg_elbo:.3}"));
    }

    fn checkpoint(&mut self, _: u64) {}
}
