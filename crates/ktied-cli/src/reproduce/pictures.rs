//! The figures of a target, drawn from what the runs on the shelf have left there.

use std::path::{Path, PathBuf};

use ktied::checkpoint::write_file;
use serde_json::Value;

use super::beyond;
use super::recipe::{Model, Recipe, SEED, SEEDS, TRAINED};
use super::rows::annealing::{annealed_at, layers};
use super::rows::watched::{Average, curve, dense_2};
use super::shelf::Shelf;
use super::{Document, Scale, Target};
use crate::exit::Failure;
use crate::log::{number, step};
use crate::picture::{Axis, Chart, Figure, Mark, Panel, Series};

/// The layer of each model whose heat map is kept: the paper shows LeNet's first dense layer and late convolutions.
const SHOWN: [(Model, &str); 5] = [
    (Model::Mlp, "dense_2"),
    (Model::LeNet, "dense_1"),
    (Model::Lstm, "lstm.recurrent"),
    (Model::ResNet18, "block_4.conv_2"),
    (Model::ResNet18He, "block_4.conv_2"),
];
/// Layers of ResNet-18 in a figure.
const MAX_PANELS: usize = 9;
/// Layers in a chart of standard deviations over training.
const MAX_LINES: usize = 7;

/// The folder of pictures of a scale.
pub(crate) fn folder(results: &Path, scale: Scale) -> PathBuf {
    let beside = Document::path(results, Target::Parameters, scale);
    beside.parent().unwrap_or(results).join("pictures")
}

/// Draws the figures of a target.
///
/// # Errors
/// If something is missing on the shelf, or the file system refuses.
pub(crate) fn draw(
    target: Target,
    scale: Scale,
    shelf: &Shelf,
    models: &[Model],
    results: &Path,
) -> Result<(), Failure> {
    let of = |all: &[Model]| all.iter().copied().filter(|model| models.contains(model)).collect::<Vec<Model>>();
    let folder = folder(results, scale);
    std::fs::create_dir_all(&folder).map_err(|error| ktied::Error::io("create", &folder, &error))?;
    let write = |name: &str, figure: &Figure| {
        let path = folder.join(format!("{}-{name}.svg", target.name()));
        Ok::<_, Failure>(write_file(&path, figure.to_svg().as_bytes())?)
    };
    match target {
        Target::BeyondEstimators => write("mlp", &beyond::race_figure(scale, shelf)?),
        Target::BeyondShift => write("mlp", &beyond::shift_figure(scale, shelf)?),
        Target::Parameters | Target::StepTime | Target::KTied => Ok(()),
        Target::BeyondConv | Target::BeyondCompress | Target::BeyondRank => Ok(()),
        Target::LowRank => of(&Model::TIED).into_iter().try_for_each(|model| {
            let recipe = Recipe::converged(model, "mean-field", scale);
            write(&format!("{}-spectra", model.name()), &spectra(&recipe, shelf)?)?;
            heat_map(target, model, &recipe, shelf, &folder)
        }),
        Target::Resnet => of(&Model::RESIDUAL).into_iter().try_for_each(|model| {
            let recipe = Recipe::resnet(model, scale);
            write(&format!("{}-spectra", model.name()), &spectra(&recipe, shelf)?)?;
            heat_map(target, model, &recipe, shelf, &folder)
        }),
        Target::Snr if of(&[Model::Mlp]).is_empty() => Ok(()),
        Target::Snr => write("mlp", &ratios(scale, shelf)?),
        Target::Convergence => {
            of(&Model::TIED).into_iter().try_for_each(|model| write(model.name(), &curves(model, scale, shelf)?))
        }
        Target::Annealing => {
            let recipe = |model| match model {
                Model::ResNet18 | Model::ResNet18He => Recipe::resnet(model, scale),
                _ => Recipe::annealed(model, "mean-field", scale),
            };
            let all = [&Model::TIED[..], &Model::RESIDUAL].concat();
            of(&all).into_iter().try_for_each(|model| write(model.name(), &scales(model, &recipe(model), shelf)?))
        }
    }
}

/// Variance explained by each singular value of a run's layers: figure 3 of the paper.
fn spectra(recipe: &Recipe, shelf: &Shelf) -> Result<Figure, Failure> {
    let analysis = shelf.required(&recipe.name, "analysis/analysis.json")?;
    let panel = |layer: &Value| {
        let line = |name: &str, of: &str| {
            let explained = layer.pointer(&format!("/{of}/explained"))?.as_array()?;
            Some(Series::ranked(name, &explained.iter().map(number).collect::<Vec<f64>>()))
        };
        let series: Vec<Series> = [("means", "means"), ("standard deviations", "scales")]
            .into_iter()
            .filter_map(|(name, of)| line(name, of))
            .collect();
        let of = |field: &str| layer.get(field).map_or("?".into(), |value| value.to_string().replace('"', ""));
        let title = format!("{} ({}×{})", of("layer"), of("rows"), of("cols"));
        let (x, y) = (Axis::log("singular value"), Axis::log("variance explained").with_range(1e-8, 1.0));
        Panel::Chart(Chart::new(title, x, y, series))
    };
    let layers = analysis.get("layers").and_then(Value::as_array).cloned().unwrap_or_default();
    // The last layers are the ones with most parameters.
    let panels: Vec<Panel> = layers.iter().skip(layers.len().saturating_sub(MAX_PANELS)).map(panel).collect();
    Ok(Figure { title: format!("Variance explained: {}", recipe.name), columns: panels.len().clamp(1, 3), panels })
}

/// Keeps the heat map that the analysis drew of one layer.
fn heat_map(target: Target, model: Model, recipe: &Recipe, shelf: &Shelf, folder: &Path) -> Result<(), Failure> {
    let Some((_, layer)) = SHOWN.into_iter().find(|(of, _)| *of == model) else { return Ok(()) };
    let name: String = layer.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let source = shelf.run(&recipe.name).join("analysis").join(format!("scales-{name}.png"));
    let bytes = std::fs::read(&source).map_err(|error| ktied::Error::io("read", &source, &error))?;
    Ok(write_file(&folder.join(format!("{}-{}-{name}.png", target.name(), model.name())), &bytes)?)
}

/// The signal in the gradients of the second dense layer's scales over steps.
fn ratios(scale: Scale, shelf: &Shelf) -> Result<Figure, Failure> {
    let mut series = vec![];
    for method in TRAINED {
        let log = shelf.log(&Recipe::watched(method, SEED, scale).name)?;
        let points: Vec<(f64, f64)> = log
            .of("train")
            .filter_map(|event| Some((step(event) as f64, dense_2(&log, step(event), Average::Median)?)))
            .collect();
        series.push(Series::new(method, Mark::Line, points));
    }
    let chart = Chart::new("dense 2, seed 1", Axis::linear("step"), Axis::log("median E[g²]/Var[g]"), series);
    let title = "Signal-to-noise ratio of the gradients of log σ, log u, log v (MLP, MNIST)".into();
    Ok(Figure { title, panels: vec![Panel::Chart(chart.with_size(520.0, 300.0))], columns: 1 })
}

/// −ELBO on validation examples over steps; of the MLP the mean of its seeds.
fn curves(model: Model, scale: Scale, shelf: &Shelf) -> Result<Figure, Failure> {
    let of_mlp = |method: &str| {
        let curves: Result<Vec<_>, Failure> =
            SEEDS.iter().map(|&seed| curve(shelf, &Recipe::watched(method, seed, scale).name)).collect();
        let curves = curves?;
        let points = curves.first().into_iter().flatten().enumerate().map(|(index, &(step, _))| {
            let at = curves.iter().filter_map(|curve| curve.get(index)).map(|(_, value)| *value);
            (step as f64, at.clone().sum::<f64>() / at.count() as f64)
        });
        Ok::<_, Failure>(points.collect::<Vec<(f64, f64)>>())
    };
    let of_other = |method: &str| {
        let log = shelf.log(&Recipe::converged(model, method, scale).name)?;
        Ok::<_, Failure>(log.series("validation", "/metrics/neg_elbo/value"))
    };
    let mut series = vec![];
    for (colour, method) in TRAINED.into_iter().enumerate() {
        let points = match model {
            Model::Mlp => of_mlp(method)?,
            _ if ["mean-field", "k-tied:2"].contains(&method) => of_other(method)?,
            _ => continue,
        };
        series.push(Series::new(method, Mark::LineMarkers, points).with_colour(colour));
    }
    let title = if model == Model::Mlp { "mlp, mean of three seeds" } else { model.name() };
    let chart = Chart::new(title, Axis::linear("step"), Axis::log("validation −ELBO"), series);
    let panels = vec![Panel::Chart(chart.with_size(520.0, 300.0))];
    Ok(Figure { title: "Convergence without annealing".into(), columns: 1, panels })
}

/// Mean standard deviation of each layer over training, annealing shaded: figure 9 of the paper.
fn scales(model: Model, recipe: &Recipe, shelf: &Shelf) -> Result<Figure, Failure> {
    let log = shelf.log(&recipe.name)?;
    let last = log.last_step().unwrap_or(0) as f64;
    let panel = |lines: &[(String, Vec<(f64, f64)>)]| {
        let lines = lines.iter().map(|(layer, points)| Series::new(layer.clone(), Mark::Line, points.clone()));
        let phase = Series::phase("annealing", 0.0, annealed_at(&log).min(last));
        let series = std::iter::once(phase).chain(lines).collect();
        let chart = Chart::new(recipe.name.clone(), Axis::linear("step"), Axis::log("mean σ"), series);
        Panel::Chart(chart.with_size(520.0, 300.0))
    };
    let panels: Vec<Panel> = layers(&log, "mean").chunks(MAX_LINES).map(panel).collect();
    let title = format!("Standard deviations over training: {}", model.name());
    Ok(Figure { title, columns: panels.len().clamp(1, 2), panels })
}
