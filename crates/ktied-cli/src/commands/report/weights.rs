//! The kernels of a checkpoint, without its data: spectra, and standard deviations as maps.

use burn::tensor::Device;
use ktied::analyze::Spectrum;
use ktied::checkpoint::{Checkpoint, NamedTensors, load_module};
use ktied::config::Config;
use ktied::linalg::{Matrix, svd};
use ktied::models::Network;
use ktied::nn::Weights;
use ktied::posterior::Posterior;

use crate::exit::Failure;
use crate::picture::{Cells, HeatMap};
use crate::report::LayerView;
use crate::table::grouped;

/// Where a checkpoint keeps the network; the rest of a model is its likelihood.
const NETWORK: &str = "network.";

/// Each kernel of a checkpoint, its maps at most `side` cells long and wide.
///
/// # Errors
/// If the checkpoint is of another network, or a kernel holds a number that is not finite (named).
pub(super) fn layers(config: &Config, checkpoint: &Checkpoint, side: usize) -> Result<Vec<LayerView>, Failure> {
    let mut tensors = NamedTensors::default();
    for (path, tensor) in checkpoint.weights().iter() {
        if let Some(path) = path.strip_prefix(NETWORK) {
            tensors.insert(path, tensor.clone())?;
        }
    }
    let network = load_module(config.model.init(&config.network(), &Device::flex())?, &tensors)?;
    network.weights().into_iter().map(|weights| layer(weights, side)).collect()
}

fn layer(weights: &Weights, side: usize) -> Result<LayerView, Failure> {
    let name = weights.name();
    let loc = Matrix::from_tensor(&format!("the mean of {name}"), weights.kernel.loc())?;
    let scale =
        weights.kernel.scale().map(|scale| Matrix::from_tensor(&format!("the standard deviation of {name}"), scale));
    let scale = scale.transpose()?;
    let scales = scale.as_ref().map(Spectrum::of).transpose()?;
    let maps = match (&scale, &scales) {
        (Some(scale), Some(spectrum)) => maps(scale, spectrum, side)?,
        _ => Vec::new(),
    };
    Ok(LayerView { name: name.into(), rows: loc.rows(), cols: loc.cols(), means: Spectrum::of(&loc)?, scales, maps })
}

/// The matrix, and what rank 1 and rank 2 make of it.
fn maps(scale: &Matrix, spectrum: &Spectrum, side: usize) -> Result<Vec<(String, Cells, HeatMap)>, Failure> {
    let (shape, decomposition) = ((scale.rows(), scale.cols()), svd(scale, 2)?);
    let labels = [format!("{} outputs", grouped(scale.cols())), format!("{} inputs", grouped(scale.rows()))];
    let map = |title: String, values: &[f64]| {
        let heat = HeatMap::new(title.clone(), shape, values).with_labels(labels[0].clone(), labels[1].clone(), "σ");
        (title, Cells::new(shape, values, side), heat)
    };
    let mut maps = vec![map("A".into(), scale.values())];
    for rank in 1..=decomposition.values.len() {
        let explained = 100.0 * spectrum.explained_by(rank);
        maps.push(map(format!("rank {rank} ({explained:.2} % explained)"), decomposition.product(rank).values()));
    }
    Ok(maps)
}
