//! The layers of a network as rows, for people and for machines.

use ktied::config::Config;
use ktied::models::LayerSpec;
use serde::Serialize;

use crate::exit::Failure;
use crate::table::{Table, grouped};

/// One tensor of a network.
#[derive(Debug, Serialize)]
pub(crate) struct LayerRow {
    name: String,
    shape: Vec<usize>,
    posterior: String,
    parameters: usize,
}

impl From<LayerSpec> for LayerRow {
    fn from(layer: LayerSpec) -> Self {
        let LayerSpec { name, shape, posterior, parameters, .. } = layer;
        Self { name, shape, posterior: posterior.to_string(), parameters }
    }
}

/// The rows of a configuration's network.
pub(crate) fn layers_of(config: &Config) -> Result<Vec<LayerRow>, Failure> {
    Ok(config.model.layers(&config.posterior)?.into_iter().map(LayerRow::from).collect())
}

/// The rows as a table.
pub(crate) fn table_of(layers: &[LayerRow]) -> Table {
    let mut table = Table::new(&["layer", "shape", "posterior", "parameters"]);
    for LayerRow { name, shape, posterior, parameters } in layers {
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        table.row(vec![name.clone(), shape.join("×"), posterior.clone(), grouped(*parameters)]);
    }
    table
}
