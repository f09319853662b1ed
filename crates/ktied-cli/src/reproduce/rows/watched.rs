//! The runs that are looked at on their way: the signal in gradients, and −ELBO.

use serde_json::Value;

use super::{Rows, mean_and_error, origin};
use crate::exit::Failure;
use crate::log::{Log, number};
use crate::reproduce::plan::step_for;
use crate::reproduce::recipe::{MARKS, Model, Recipe, SEEDS, TRAINED};
use crate::reproduce::shelf::Point;
use crate::reproduce::{Scale, Shelf};

/// A curve has arrived when it is this near to its end, as a share of −ELBO.
const ARRIVED: f64 = 0.1;

/// A figure of each seed's run of the watched MLP, at one of the paper's steps.
fn watched(
    rows: &mut Rows,
    (name, after): (&str, &str),
    scale: Scale,
    shelf: &Shelf,
    of: impl Fn(&str, u64) -> Result<f64, Failure>,
) -> Result<(), Failure> {
    for method in TRAINED {
        for mark in MARKS {
            let recipes = SEEDS.map(|seed| Recipe::watched(method, seed, scale));
            let values: Result<Vec<f64>, Failure> =
                recipes.iter().map(|recipe| of(&recipe.name, step_for(mark, scale))).collect();
            let mut origin = origin(&recipes[0], after, shelf)?;
            (origin.seed, origin.command) = (None, format!("{} (and seeds 2 and 3)", origin.command));
            rows.add(["mlp", method, &format!("{name}@{mark}")], mean_and_error(&values?), &origin);
        }
    }
    Ok(())
}

pub(super) fn snr(rows: &mut Rows, scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    for (metric, of) in [("snr", Average::Mean), ("snr_median", Average::Median)] {
        watched(rows, (metric, "; the line of that step in events.jsonl"), scale, shelf, |name, step| {
            let log = shelf.log(name)?;
            let missing = || Failure::Usage(format!("{}: no ratio at step {step}", shelf.run(name).display()));
            dense_2(&log, step, of).ok_or_else(missing)
        })?;
    }
    Ok(())
}

/// What stands for all parameters of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reproduce) enum Average {
    /// The paper's. One parameter that the data say nothing about has a ratio without bounds, and is all that it shows then.
    Mean,
    /// Of which half of the parameters have more.
    Median,
}

/// The average ratio of the scale parameters of the second dense layer's kernel: of σ, or the mean of those of u and v, of which
/// there are equally many in a square matrix.
pub(in crate::reproduce) fn dense_2(log: &Log, step: u64, average: Average) -> Option<f64> {
    let event = log.of("train").find(|event| crate::log::step(event) == step)?;
    let ratios = event.get("snr")?.as_array()?.iter();
    let is_it = |ratio: &&Value| {
        let tensor = ratio.get("tensor").and_then(Value::as_str).unwrap_or_default();
        tensor.starts_with("network.layers.1.weights.kernel.")
    };
    let field = if average == Average::Mean { "mean" } else { "median" };
    let found: Vec<f64> = ratios.filter(is_it).filter_map(|ratio| Some(number(ratio.get(field)?))).collect();
    (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
}

pub(super) fn convergence(rows: &mut Rows, models: &[Model], scale: Scale, shelf: &Shelf) -> Result<(), Failure> {
    if models.contains(&Model::Mlp) {
        let after = "; each checkpoint judged on the validation examples";
        watched(rows, ("neg_elbo", after), scale, shelf, |name, step| {
            let missing = || Failure::Usage(format!("{}: no checkpoint of step {step}", shelf.run(name).display()));
            curve(shelf, name)?.into_iter().find(|(at, _)| *at == step).map(|(_, value)| value).ok_or_else(missing)
        })?;
    }
    for model in [Model::LeNet, Model::Lstm].into_iter().filter(|model| models.contains(model)) {
        for method in ["mean-field", "k-tied:2"] {
            let recipe = Recipe::converged(model, method, scale);
            let curve = shelf.log(&recipe.name)?.series("validation", "/metrics/neg_elbo/value");
            let Some(&(_, end)) = curve.last() else { continue };
            let arrived = curve.iter().find(|(_, value)| *value <= end * (1.0 + ARRIVED));
            let origin = origin(&recipe, "; its validations in events.jsonl", shelf)?;
            rows.add([model.name(), method, "neg_elbo@end"], (end, None), &origin);
            let steps = arrived.map_or(f64::NAN, |(step, _)| *step);
            rows.add([model.name(), method, "steps@10%"], (steps, None), &origin);
        }
    }
    Ok(())
}

/// The curve of a watched run.
pub(in crate::reproduce) fn curve(shelf: &Shelf, name: &str) -> Result<Vec<Point>, Failure> {
    let value = shelf.required(name, "curve.json")?;
    serde_json::from_value(value).map_err(|error| Failure::Usage(format!("{name}/curve.json: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::Made;
    use super::*;
    use crate::reproduce::{Target, rows};

    #[test]
    fn ratios_are_read_at_the_paper_s_steps_and_averaged_over_u_and_v_and_over_seeds() {
        let made = Made::new("snr");
        for method in TRAINED {
            for seed in SEEDS {
                let line = |step: u64| {
                    let ratio = |part: &str, mean: f64| json!({"tensor": format!("network.layers.{part}"), "mean": mean, "median": 2.0 * mean});
                    let base = (step + seed) as f64;
                    let snr = match method {
                        "mean-field" => vec![ratio("1.weights.kernel.raw_scale", base)],
                        _ => vec![
                            ratio("1.weights.kernel.log_u", base - 10.0),
                            ratio("1.weights.kernel.log_v", base + 10.0),
                        ],
                    };
                    // Neither another layer's nor the bias's.
                    let others = [ratio("0.weights.kernel.raw_scale", 9e9), ratio("1.weights.bias.raw_scale", 9e9)];
                    let all = [snr, others.into()].concat();
                    json!({"event": "train", "step": step, "snr": all}).to_string()
                };
                let text = [200, 1000, 1800].map(line).join("\n");
                made.put(&Recipe::watched(method, seed, Scale::Quick).name, "events.jsonl", &text);
            }
        }
        let rows = rows(Target::Snr, Scale::Quick, &made.0, &[Model::Mlp]).expect("all is there");
        assert_eq!(rows.len(), 24);
        let of = |method: &str, metric: &str| {
            let row = rows.iter().find(|row| row.method == method && row.metric == metric).expect("a row");
            (row.ours, row.sem, row.paper)
        };
        let sem = Some((1.0f64 / 3.0).sqrt());
        assert_eq!(of("mean-field", "snr@1000"), (202.0, sem, Some(4.13)));
        assert_eq!(of("k-tied:2", "snr@9000"), (1802.0, sem, Some(4.3)));
        assert_eq!(of("k-tied:2", "snr_median@9000"), (3604.0, sem.map(|sem| 2.0 * sem), Some(4.3)));
    }

    #[test]
    fn a_run_without_its_ratio_is_named() {
        let made = Made::new("none");
        made.put(
            &Recipe::watched("mean-field", 1, Scale::Full).name,
            "events.jsonl",
            "{\"event\":\"train\",\"step\":50}",
        );
        let error = rows(Target::Snr, Scale::Full, &made.0, &[Model::Mlp]).expect_err("no ratio").to_string();
        assert!(error.contains("mlp-watched-mean-field-seed-1: no ratio at step 1000"), "{error}");
    }
}
