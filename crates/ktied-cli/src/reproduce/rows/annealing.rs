//! Standard deviations over training.

use serde_json::Value;

use super::{Rows, origin};
use crate::exit::Failure;
use crate::log::{Log, number, step};
use crate::reproduce::recipe::{Model, Recipe};
use crate::reproduce::verdict::Verdict;
use crate::reproduce::{Scale, Shelf};

/// Share of the prior's standard deviation that the paper finds every converged layer above.
const LEAST_OF_PRIOR: f64 = 0.5;

/// Standard deviations after annealing, beside the prior's; and whether those of ResNet-18 go on growing.
pub(super) fn annealing(rows: &mut Rows, models: &[Model], scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    for model in Model::TIED.into_iter().filter(|model| models.contains(model)) {
        let recipe = Recipe::annealed(model, "mean-field", scale);
        let log = shelf.log(&recipe.name)?;
        let origin = origin(&recipe, "; the last line on scales in events.jsonl", shelf)?;
        for (layer, shares) in layers(&log, "of_prior") {
            let Some(&(_, share)) = shares.last() else { continue };
            rows.add([model.name(), "mean-field", &format!("of_prior@{layer}")], (share, None), &origin);
            let verdict = if share > LEAST_OF_PRIOR { Verdict::Agrees } else { Verdict::Differs };
            rows.settle(LEAST_OF_PRIOR, verdict, "the paper: above half of the prior's".into());
        }
    }
    for model in Model::RESIDUAL.into_iter().filter(|model| models.contains(model)) {
        growth(rows, model, &Recipe::resnet(model, scale), shelf)?;
    }
    Ok(())
}

/// How far standard deviations grow when annealing is over, and how much they still change at the end.
fn growth(rows: &mut Rows, model: Model, recipe: &Recipe, shelf: &Shelf) -> Result<(), Failure> {
    let log = shelf.log(&recipe.name)?;
    let origin = origin(recipe, "; the lines on scales in events.jsonl", shelf)?;
    let end = annealed_at(&log);
    for (layer, means) in layers(&log, "mean") {
        let after = means.iter().find(|(step, _)| *step >= end);
        let (Some(&(_, before)), Some(&(_, last))) = (after, means.last()) else { continue };
        let metric = format!("growth_after_annealing@{layer}");
        rows.add([model.name(), "mean-field", &metric], (last / before, None), &origin);
        if model == Model::ResNet18 {
            let verdict = if last > before { Verdict::Agrees } else { Verdict::Differs };
            rows.settle(1.0, verdict, "the paper: still growing when annealing is over".into());
        }
        // The last tenth, or the last two points where that is less.
        let tenth = (means.len() / 10).max(1);
        let tenth = means.len().checked_sub(1 + tenth).map_or(f64::NAN, |first| means[first].1);
        let change = (last / tenth - 1.0).abs();
        rows.add([model.name(), "mean-field", &format!("change_in_last_tenth@{layer}")], (change, None), &origin);
    }
    Ok(())
}

/// The first logged step at which the divergence counts in full.
pub(in crate::reproduce) fn annealed_at(log: &Log) -> f64 {
    let full = log.series("train", "/weight").into_iter().find(|(_, weight)| *weight >= 1.0);
    full.map_or(f64::INFINITY, |(step, _)| step)
}

/// A figure of each layer's standard deviations over steps.
pub(in crate::reproduce) fn layers(log: &Log, field: &str) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut all: Vec<(String, Vec<(f64, f64)>)> = vec![];
    for event in log.of("scales") {
        for layer in event.get("layers").and_then(Value::as_array).into_iter().flatten() {
            let (Some(name), Some(value)) = (layer.get("layer").and_then(Value::as_str), layer.get(field)) else {
                continue;
            };
            let point = (step(event) as f64, number(value));
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, points)) => points.push(point),
                None => all.push((name.into(), vec![point])),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::Made;
    use super::*;
    use crate::reproduce::{Target, rows};

    #[test]
    fn layers_of_a_converged_network_are_above_half_of_the_prior_or_differ() {
        let made = Made::new("annealing");
        let scales = |step: u64, share: f64| {
            let layer =
                |layer: &str, of_prior: f64| json!({"layer": layer, "mean": of_prior / 5.0, "of_prior": of_prior});
            json!({"event": "scales", "step": step, "layers": [layer("dense_1", share), layer("dense_2", 0.4)]})
                .to_string()
        };
        let text = [scales(10, 0.1), scales(20, 0.6)].join("\n");
        made.put(&Recipe::annealed(Model::Mlp, "mean-field", Scale::Full).name, "events.jsonl", &text);
        let rows = rows(Target::Annealing, Scale::Full, &made.0, &[Model::Mlp]).expect("a log");
        let found: Vec<_> = rows.iter().map(|row| (row.metric.as_str(), row.ours, row.verdict)).collect();
        let expected =
            [("of_prior@dense_1", 0.6, Some(Verdict::Agrees)), ("of_prior@dense_2", 0.4, Some(Verdict::Differs))];
        assert_eq!(found, expected);
    }

    #[test]
    fn growth_and_change_of_scales_are_those_of_the_log() {
        let made = Made::new("growth");
        let weight = |step: u64, weight: f64| json!({"event": "train", "step": step, "weight": weight}).to_string();
        let scales = |step: u64, mean: f64| {
            json!({"event": "scales", "step": step, "layers": [{"layer": "stem", "mean": mean}]}).to_string()
        };
        let means = [(10, 0.01), (20, 0.1), (30, 0.19), (40, 0.2)];
        let lines = [weight(10, 0.5), weight(20, 1.0)].into_iter().chain(means.map(|(step, mean)| scales(step, mean)));
        let text = lines.collect::<Vec<_>>().join("\n");
        made.put(&Recipe::resnet(Model::ResNet18, Scale::Quick).name, "events.jsonl", &text);
        let rows = rows(Target::Annealing, Scale::Quick, &made.0, &[Model::ResNet18]).expect("a log");
        let [growth, change] = &rows[..] else { panic!("{rows:?}") };
        assert!((growth.ours - 2.0).abs() < 1e-12 && growth.verdict == Some(Verdict::Agrees), "{growth:?}");
        assert!((change.ours - (0.2 / 0.19 - 1.0)).abs() < 1e-12, "{change:?}");
    }
}
