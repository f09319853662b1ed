//! The rows of a target, from what the runs on the shelf have left there.

pub(super) mod annealing;
mod low_rank;
mod parameters;
mod timed;
pub(super) mod watched;

use ktied::models::Totals;
use ktied::train::Run;
use serde_json::Value;

pub(crate) use self::timed::{TIMED, Timed};
use super::beyond;
use super::document::Row;
use super::paper::{Claim, claims};
use super::recipe::{Model, Recipe, SEED, TRAINED};
use super::shelf::Shelf;
use super::verdict::{Verdict, judge};
use super::{Scale, Target};
use crate::exit::Failure;
use crate::log::number;

/// What the paper's tables are of, as `evaluate --json` calls it.
pub(super) const SCORES: [&str; 3] = ["neg_elbo", "nll", "accuracy"];
pub(super) const CALIBRATION: [&str; 2] = ["brier", "ece"];

/// Where a figure comes from.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) seed: Option<u64>,
    pub(super) command: String,
    pub(super) wall_s: f64,
}

/// Rows in the making.
pub(super) struct Rows {
    claims: Vec<Claim>,
    rows: Vec<Row>,
}

impl Rows {
    pub(super) fn add(&mut self, [model, method, metric]: [&str; 3], (ours, sem): (f64, Option<f64>), origin: &Origin) {
        // What is no number cannot be written down, nor compared.
        if !ours.is_finite() {
            return;
        }
        let is_it = |claim: &&Claim| (claim.model, claim.method, claim.metric) == (model, method, metric);
        let claim = self.claims.iter().find(is_it);
        let Origin { seed, command, wall_s } = origin.clone();
        self.rows.push(Row {
            model: model.into(),
            method: method.into(),
            metric: metric.into(),
            paper: claim.map(|claim| claim.value),
            paper_sem: claim.and_then(|claim| claim.sem),
            ours,
            sem,
            verdict: None,
            why: None,
            seed,
            command,
            wall_s,
        });
    }

    /// The last row's verdict where it is not a matter of errors.
    fn settle(&mut self, paper: f64, verdict: Verdict, why: String) {
        if let Some(row) = self.rows.last_mut() {
            (row.paper, row.verdict, row.why) = (Some(paper), Some(verdict), Some(why));
        }
    }

    /// Scores of an evaluation.
    pub(super) fn scores(&mut self, model: Model, method: &str, metrics: &[&str], evaluation: &Value, origin: &Origin) {
        for metric in metrics {
            if let Some(figure) = figure(evaluation, metric) {
                self.add([model.name(), method, metric], figure, origin);
            }
        }
    }
}

/// A metric of an evaluation, and its standard error over examples.
pub(super) fn figure(evaluation: &Value, metric: &str) -> Option<(f64, Option<f64>)> {
    let of = |field: &str| evaluation.get(metric)?.get(field).map(number);
    Some((of("value")?, of("sem_examples").filter(|sem| sem.is_finite())))
}

/// The mean of some figures, and its standard error if there are several.
pub(super) fn mean_and_error(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt()))
}

/// The rows of some models in a target, with their verdicts.
///
/// # Errors
/// If something is missing on the shelf.
pub(crate) fn rows(target: Target, scale: Scale, shelf: &Shelf, models: &[Model]) -> Result<Vec<Row>, Failure> {
    let mut rows = Rows { claims: claims(target), rows: vec![] };
    let of = |all: &[Model]| all.iter().copied().filter(|model| models.contains(model)).collect::<Vec<Model>>();
    match target {
        Target::Parameters => parameters::parameters(&mut rows)?,
        Target::LowRank => {
            for model in of(&Model::TIED) {
                low_rank::cut(&mut rows, model, &Recipe::converged(model, "mean-field", scale), &SCORES, scale, shelf)?;
            }
        }
        Target::Resnet => {
            let metrics = [&SCORES[..], &CALIBRATION].concat();
            for model in of(&Model::RESIDUAL) {
                low_rank::cut(&mut rows, model, &Recipe::resnet(model, scale), &metrics, scale, shelf)?;
            }
        }
        Target::KTied => trained(&mut rows, &of(&Model::TIED), scale, shelf)?,
        Target::Snr if of(&[Model::Mlp]).is_empty() => {}
        Target::Snr => watched::snr(&mut rows, scale, shelf)?,
        Target::Convergence => watched::convergence(&mut rows, models, scale, shelf)?,
        Target::StepTime => timed::step_time(&mut rows, shelf)?,
        Target::Annealing => annealing::annealing(&mut rows, models, scale, shelf)?,
        Target::BeyondConv => beyond::conv(&mut rows, models, scale, shelf)?,
        Target::BeyondEstimators => beyond::estimators(&mut rows, scale, shelf)?,
        Target::BeyondCompress => beyond::compress(&mut rows, &of(&Model::TIED), scale, shelf)?,
        Target::BeyondRank => beyond::rank(&mut rows, scale, shelf)?,
        Target::BeyondShift => beyond::shift(&mut rows, scale, shelf)?,
    }
    judge(&mut rows.rows);
    Ok(rows.rows)
}

/// The run behind a figure: how it was trained, and what came after.
pub(super) fn origin(recipe: &Recipe, after: &str, shelf: &Shelf) -> Result<Origin, Failure> {
    let wall_s = shelf.log(&recipe.name)?.seconds().unwrap_or(0.0).round();
    Ok(Origin { seed: Some(SEED), command: format!("{}{after}", recipe.command()), wall_s })
}

/// Scores and parameters of a trained run.
pub(super) fn judged(
    rows: &mut Rows,
    (model, method, metrics): (Model, &str, &[&str]),
    recipe: &Recipe,
    scale: Scale,
    shelf: &Shelf,
) -> Result<(), Failure> {
    let after = format!(" && ktied evaluate {}{} --samples {}", recipe.name, recipe.checkpoint(), model.draws(scale));
    let origin = origin(recipe, &after, shelf)?;
    rows.scores(model, method, metrics, &shelf.required(&recipe.name, "evaluation/test.json")?, &origin);
    let config = Run::open(shelf.run(&recipe.name))?.config()?;
    let total = Totals::of(&config.model.layers(&config.posterior)?)?.total;
    rows.add([model.name(), method, "parameters"], (total as f64, None), &origin);
    Ok(())
}

/// Posteriors that were trained as they are, with annealing.
fn trained(rows: &mut Rows, models: &[Model], scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    for &model in models {
        if (scale, model) == (Scale::Quick, Model::LeNet) {
            // It is a smaller one, of which the paper has no parameters to compare.
            rows.claims.retain(|claim| (claim.model, claim.metric) != (model.name(), "parameters"));
        }
        for method in TRAINED {
            judged(rows, (model, method, &SCORES), &Recipe::annealed(model, method, scale), scale, shelf)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shelf with logs and documents that were never trained.
    pub(super) struct Made(pub(super) Shelf);

    impl Made {
        pub(super) fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ktied-rows-{name}-{}", std::process::id()));
            Self(Shelf::new(folder))
        }

        pub(super) fn put(&self, name: &str, file: &str, text: &str) {
            let path = self.0.run(name).join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, text).expect("written");
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.folder());
        }
    }

    #[test]
    fn several_figures_give_a_mean_and_its_error() {
        assert_eq!(mean_and_error(&[1.0, 2.0, 3.0]), (2.0, Some((1.0f64 / 3.0).sqrt())));
        assert_eq!(mean_and_error(&[4.0]), (4.0, None));
    }

    #[test]
    fn what_is_no_number_is_no_row() {
        let mut rows = Rows { claims: vec![], rows: vec![] };
        let origin = Origin { seed: None, command: String::new(), wall_s: 0.0 };
        rows.add(["mlp", "point", "nll"], (f64::NAN, None), &origin);
        rows.add(["mlp", "point", "nll"], (1.0, None), &origin);
        assert_eq!(rows.rows.len(), 1);
    }
}
