//! A mean-field run, and what is left of it at low rank.

use ktied::compress::Method;
use serde_json::Value;

use super::{Rows, origin};
use crate::exit::Failure;
use crate::log::number;
use crate::reproduce::recipe::{Model, RANKS, Recipe};
use crate::reproduce::{Scale, Shelf};

/// Scores of the run and of its cuts, what cutting costs, and what each layer's singular values explain.
pub(super) fn cut(
    rows: &mut Rows,
    model: Model,
    recipe: &Recipe,
    metrics: &[&str],
    scale: Scale,
    shelf: &Shelf,
) -> Result<(), Failure> {
    let (name, best, samples) = (&recipe.name, recipe.checkpoint(), model.draws(scale));
    let after = format!(" && ktied evaluate {name}{best} --samples {samples}");
    let of_run = origin(recipe, &after, shelf)?;
    rows.scores(model, "mean-field", metrics, &shelf.required(name, "evaluation/test.json")?, &of_run);
    for rank in RANKS {
        let (method, cut) = (format!("rank-{rank}"), Shelf::cut(name, Method::Svd, rank));
        let after = format!(
            " && ktied compress {name}{best} --rank {rank} --method svd --out {cut} && ktied evaluate {cut} --samples {samples}"
        );
        let of_cut = origin(recipe, &after, shelf)?;
        rows.scores(model, &method, metrics, &shelf.required(&cut, "evaluation/test.json")?, &of_cut);
        let cost = shelf.required(&cut, "compression.json")?;
        for (metric, field) in [("neg_elbo@floor=1e-4", "neg_elbo_at_soft_floor"), ("clamped", "clamped")] {
            let value = cost.get(field).map_or(f64::NAN, number);
            rows.add([model.name(), &method, metric], (value, None), &of_cut);
        }
    }
    let of_look = origin(recipe, &format!(" && ktied analyze {name}{best}"), shelf)?;
    let analysis = shelf.required(name, "analysis/analysis.json")?;
    for layer in analysis.get("layers").and_then(Value::as_array).into_iter().flatten() {
        let Some(of_layer) = layer.get("layer").and_then(Value::as_str) else { continue };
        for (of, field) in [("scales", "/scales/explained"), ("means", "/means/explained")] {
            let Some(explained) = layer.pointer(field).and_then(Value::as_array) else { continue };
            let by = |rank: usize| explained.iter().take(rank).map(number).sum::<f64>();
            for rank in [1, 2] {
                let metric = format!("explained_{rank}_{of}@{of_layer}");
                rows.add([model.name(), "mean-field", &metric], (by(rank), None), &of_look);
            }
        }
    }
    Ok(())
}
