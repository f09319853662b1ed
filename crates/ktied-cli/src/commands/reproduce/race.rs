//! Estimators against the clock: one run after the other, the whole machine to each.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ktied::evaluate::Evaluation;
use ktied::train::{Outcome, StepReport, Trainer, Watch};

use crate::args::Args;
use crate::commands::train::{complete, open};
use crate::exit::Failure;
use crate::reproduce::{RACERS, Race, Recipe, Scale, Shelf, finish_lines};
use crate::table::json;

/// Lets every racer run that has not yet.
pub(super) fn run(
    shelf: &Shelf,
    scale: Scale,
    data: Option<&Path>,
    args: &Args,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let quiet = Args { quiet: true, ..args.clone() };
    for (method, estimator) in RACERS {
        let recipe = Recipe::racer(method, estimator);
        if shelf.document(&recipe.name, "race.json")?.is_some() {
            continue;
        }
        // Seconds cannot be resumed.
        let folder = shelf.run(&recipe.name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|error| ktied::Error::io("remove", &folder, &error))?;
        }
        let [.., last] = finish_lines(scale);
        args.say(&format!("{}: {last} seconds; whatever else runs now makes it slower", recipe.name));
        let opened = open(&recipe.train(shelf.folder(), data), &quiet)?;
        let time_is_up = AtomicBool::new(false);
        let mut clock =
            Clock { begin: Instant::now(), limit: last as f64, points: vec![], stop, time_is_up: &time_is_up };
        let (opened, outcome) = complete(opened, &mut clock, &time_is_up)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted { run: shelf.folder().into() });
        }
        debug_assert_eq!(outcome, Outcome::Interrupted, "the clock stops it");
        let race = Race { points: clock.points };
        if let Some(writer) = opened.writer {
            writer.run().write("race.json", json(&race)?.as_bytes())?;
        }
    }
    Ok(())
}

/// Notes when validations were, and says when time is up.
struct Clock<'a> {
    begin: Instant,
    limit: f64,
    points: Vec<(f64, u64, f64)>,
    stop: &'a AtomicBool,
    time_is_up: &'a AtomicBool,
}

impl Watch for Clock<'_> {
    fn step(&mut self, _: &Trainer, _: &StepReport) {
        if self.begin.elapsed().as_secs_f64() > self.limit || self.stop.load(Ordering::Relaxed) {
            self.time_is_up.store(true, Ordering::Relaxed);
        }
    }

    fn validation(&mut self, trainer: &Trainer, metrics: &Evaluation, _: bool) {
        self.points.push((self.begin.elapsed().as_secs_f64(), trainer.state().step, metrics.neg_elbo.value));
    }

    fn checkpoint(&mut self, _: u64) {}
}
