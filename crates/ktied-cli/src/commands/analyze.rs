//! `ktied analyze`: what a posterior looks like from the inside.

use std::path::{Path, PathBuf};

use ktied::analyze::{LayerReport, Settings, Spectrum, analyze};
use ktied::checkpoint::write_file;
use ktied::linalg::{Matrix, svd};
use ktied::models::Network;
use ktied::train::Run;
use serde::Serialize;

use super::compress::bar;
use super::evaluate::trained;
use crate::args::{Analyze, Args};
use crate::exit::Failure;
use crate::picture::{Axis, Chart, Figure, HeatMap, Panel, Series};
use crate::table::{Table, json, print_json, print_line};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    run: String,
    step: u64,
    posterior: String,
    num_train: usize,
    tolerance: f64,
    /// Where tables and pictures are.
    folder: PathBuf,
    layers: Vec<LayerReport>,
    /// The smallest rank that is recommended for every layer.
    recommended_rank: Option<usize>,
}

pub(crate) fn run(arguments: &Analyze, args: &Args) -> Result<(), Failure> {
    let report = look(arguments, args)?;
    if args.json { print_json(&report) } else { print(&report) }
}

/// Looks inside a run, and writes what there is to see into its folder.
pub(crate) fn look(arguments: &Analyze, args: &Args) -> Result<Report, Failure> {
    let run = Run::open(&arguments.run)?;
    let (trainer, data) = trained(&run, arguments.place.data.as_deref(), arguments.place.best, args)?;
    let folder = arguments.out.clone().unwrap_or_else(|| arguments.run.join("analysis"));
    std::fs::create_dir_all(&folder).map_err(|error| ktied::Error::io("create", &folder, &error))?;
    let (network, config) = (&trainer.model().network, trainer.config());
    let bar = bar(args, network.weights().len());
    // Each layer gets its share of what the whole network may cost.
    let tied = network.weights().iter().filter(|weights| weights.scale().is_some()).count().max(1);
    let settings = Settings {
        num_train: data.train.len(),
        tolerance: arguments.tolerance / tied as f64,
        cap: config.posterior.cap,
    };
    let mut pictures = Ok(());
    let layers = analyze(network, &settings, |layer, scale| {
        bar.set_message(layer.layer.clone());
        bar.inc(1);
        if let (Some(scale), false, true) = (scale, arguments.no_pictures, pictures.is_ok()) {
            pictures = heat_maps(&folder, layer, scale);
        }
    });
    bar.finish_and_clear();
    pictures?;
    let layers = layers?;
    let ranks: Option<Vec<usize>> =
        layers.iter().filter_map(|layer| Some(layer.recommendation.as_ref()?.rank)).collect();
    let report = Report {
        run: arguments.run.display().to_string(),
        step: trainer.state().step,
        posterior: config.posterior.kind.to_string(),
        num_train: data.train.len(),
        tolerance: arguments.tolerance,
        recommended_rank: ranks.and_then(|ranks| ranks.into_iter().max()),
        folder,
        layers,
    };
    write(&report, arguments.no_pictures)?;
    Ok(report)
}

fn write(report: &Report, no_pictures: bool) -> Result<(), Failure> {
    let file = |name: &str, text: String| write_file(&report.folder.join(name), text.as_bytes());
    file("analysis.json", json(report)?)?;
    file("layers.csv", layers_csv(&report.layers))?;
    file("spectra.csv", spectra_csv(&report.layers))?;
    if no_pictures { Ok(()) } else { spectra(report).write(&report.folder.join("spectra")).map(drop) }
}

/// A line for each layer.
fn layers_csv(layers: &[LayerReport]) -> String {
    let mut text = String::from(
        "layer,posterior,rows,cols,effective_rank_means,effective_rank_scales,explained_1,explained_2,explained_3,\
         scale_min,scale_median,scale_mean,scale_max,prior,of_prior,at_cap,at_floor,mean_signal,recommended_rank\n",
    );
    for layer in layers {
        let scales = layer.scales.as_ref().map_or(",,,".into(), |scales| {
            let by = |rank| scales.explained_by(rank);
            format!("{},{},{},{}", scales.effective_rank, by(1), by(2), by(3))
        });
        let scale = layer.scale.map_or(",,,,,,,,".into(), |s| {
            let numbers = [s.min, s.median, s.mean, s.max, s.prior, s.of_prior, s.at_cap, s.at_floor, s.mean_signal];
            numbers.map(|number| number.to_string()).join(",")
        });
        let rank = layer.recommendation.as_ref().and_then(|recommendation| recommendation.rank);
        let rank = rank.map_or(String::new(), |rank| rank.to_string());
        let LayerReport { layer, posterior, rows, cols, means, .. } = layer;
        text.push_str(&format!("{layer},{posterior},{rows},{cols},{},{scales},{scale},{rank}\n", means.effective_rank));
    }
    text
}

/// A line for each singular value.
fn spectra_csv(layers: &[LayerReport]) -> String {
    let mut text = String::from("layer,of,k,singular_value,explained\n");
    for layer in layers {
        let spectra = [("means", Some(&layer.means)), ("scales", layer.scales.as_ref())];
        for (of, spectrum) in spectra.into_iter().filter_map(|(of, spectrum)| Some((of, spectrum?))) {
            for (k, (value, explained)) in (1..).zip(spectrum.values.iter().zip(&spectrum.explained)) {
                text.push_str(&format!("{},{of},{k},{value},{explained}\n", layer.layer));
            }
        }
    }
    text
}

/// Variance explained by each singular value, means against standard deviations: figure 3 of the paper.
fn spectra(report: &Report) -> Figure {
    let panel = |layer: &LayerReport| {
        let line = |name: &str, spectrum: &Spectrum| Series::ranked(name, &spectrum.explained);
        let means = std::iter::once(line("means", &layer.means));
        let series = means.chain(layer.scales.as_ref().map(|scales| line("standard deviations", scales))).collect();
        let (x, y) = (Axis::log("singular value"), Axis::log("variance explained").with_range(1e-8, 1.0));
        Panel::Chart(Chart::new(format!("{} ({}×{})", layer.layer, layer.rows, layer.cols), x, y, series))
    };
    let panels: Vec<Panel> = report.layers.iter().map(panel).collect();
    let title = format!("Variance explained by each singular value: {}", report.run);
    Figure { title, columns: panels.len().clamp(1, 3), panels }
}

/// The standard deviations of a layer and their approximations of rank 1 and 2 on one scale: figure 4 of the paper.
fn heat_maps(folder: &Path, layer: &LayerReport, scale: &Matrix) -> Result<(), Failure> {
    let (shape, decomposition) = ((scale.rows(), scale.cols()), svd(scale, 2)?);
    let approximations = (1..=decomposition.values.len()).map(|rank| {
        let explained = layer.scales.as_ref().map_or(f64::NAN, |scales| scales.explained_by(rank));
        (format!("rank {rank} ({:.2} % explained)", 100.0 * explained), decomposition.product(rank))
    });
    let maps = std::iter::once(("standard deviations".to_owned(), scale.clone())).chain(approximations);
    let labels = [format!("{} outputs", scale.cols()), format!("{} inputs", scale.rows())];
    let map = |(title, matrix): (String, Matrix)| {
        HeatMap::new(title, shape, matrix.values()).with_labels(labels[0].clone(), labels[1].clone(), "σ")
    };
    let mut maps: Vec<HeatMap> = maps.map(map).collect();
    HeatMap::share_scale(&mut maps);
    let columns = maps.len();
    let panels = maps.into_iter().map(Panel::Heat).collect();
    let figure = Figure { title: format!("Standard deviations of {}", layer.layer), panels, columns };
    let name: String = layer.layer.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    figure.write(&folder.join(format!("scales-{name}"))).map(drop)
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&[
        "layer",
        "shape",
        "eff. rank μ",
        "eff. rank σ",
        "explained 1",
        "by rank 2",
        "by rank 3",
        "mean σ",
        "of prior",
        "at cap",
        "at floor",
        "rank",
    ]);
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    for layer in &report.layers {
        let mut cells = vec![
            layer.layer.clone(),
            format!("{}×{}", layer.rows, layer.cols),
            format!("{:.1}", layer.means.effective_rank),
        ];
        match (&layer.scales, &layer.scale, &layer.recommendation) {
            (Some(scales), Some(scale), Some(recommendation)) => cells.extend([
                format!("{:.1}", scales.effective_rank),
                percent(scales.explained_by(1)),
                percent(scales.explained_by(2)),
                percent(scales.explained_by(3)),
                format!("{:.4}", scale.mean),
                format!("{:.3}", scale.of_prior),
                percent(scale.at_cap),
                percent(scale.at_floor),
                recommendation.rank.map_or("–".into(), |rank| rank.to_string()),
            ]),
            _ => cells.extend(std::iter::repeat_n("–".to_owned(), 9)),
        }
        table.row(cells);
    }
    table.print()?;
    print_line("")?;
    for layer in &report.layers {
        if let Some(recommendation) = &layer.recommendation {
            print_line(&format!("{}: {}.", layer.layer, recommendation.why))?;
        }
    }
    print_line("")?;
    print_line(&format!(
        "{} at step {}, posterior {}; tables and pictures are in {}.",
        report.run,
        report.step,
        report.posterior,
        report.folder.display()
    ))?;
    match report.recommended_rank {
        Some(rank) if report.posterior == "mean-field" => {
            print_line(&format!("Next: ktied compress {} --rank {rank} --out RUN2", report.run))
        }
        _ => Ok(()),
    }
}
