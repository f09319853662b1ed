//! What the page says about runs that are not as others are.

use super::RunView;
use super::html::Html;
use crate::log::number;
use crate::table::grouped;

/// What a reader should know of a run's log before looking at its curves.
pub(crate) fn of_log(run: &RunView) -> Vec<String> {
    let log = &run.log;
    let mut notes = Vec::new();
    if log.is_missing {
        notes.push("It has no log (events.jsonl), so there are no curves of its training.".into());
    } else if log.events().is_empty() {
        notes.push("Its log (events.jsonl) is empty, so there are no curves of its training.".into());
    }
    if let Some(first) = log.unreadable.first() {
        let count = grouped(log.unreadable.len());
        notes.push(format!("{count} lines of its log could not be read and are left out, the first is line {first}."));
    }
    let lost =
        |kind: &str, pointer: &str| log.series(kind, pointer).iter().filter(|point| !point.1.is_finite()).count();
    let not_finite: usize = [("train", "/nll"), ("train", "/neg_elbo"), ("validation", "/metrics/neg_elbo/value")]
        .into_iter()
        .map(|(kind, pointer)| lost(kind, pointer))
        .sum();
    if not_finite > 0 {
        notes.push(format!("{} logged values are not finite; curves are broken there.", grouped(not_finite)));
    }
    let skipped = log.of("train").filter_map(|event| event.get("skipped")).map(number).fold(0.0, f64::max);
    if skipped > 0.0 {
        notes.push(format!("{skipped} steps were left out of training: a loss or a gradient was not finite."));
    }
    if log.events().len() > 1 && log.of("finished").next().is_none() {
        notes.push("Its log has no end: it was interrupted, or is still being trained.".into());
    }
    let weight = log.of("finished").filter_map(|event| event.get("weight")).map(number).last();
    if let Some(weight) = weight.filter(|weight| *weight < 1.0) {
        notes.push(format!("The weight on the divergence had only reached {weight:.3} when training ended."));
    }
    notes
}

/// The list, if there is anything to say.
pub(super) fn write(html: &mut Html, runs: &[RunView]) {
    if runs.iter().all(|run| run.notes.is_empty()) {
        return;
    }
    html.around("aside", &[("class", "notes"), ("aria-label", "What to know before reading on")], |html| {
        html.words("h3", &[], "Before you read on");
        for run in runs.iter().filter(|run| !run.notes.is_empty()) {
            html.around("p", &[], |html| {
                super::page::swatch(html, run.index);
                html.name(&run.name);
            });
            html.around("ul", &[], |html| {
                for note in &run.notes {
                    html.around("li", &[], |html| html.words("bdi", &[], note));
                }
            });
        }
    });
}
