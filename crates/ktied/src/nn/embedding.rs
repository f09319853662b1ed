//! A vector for each word, with a posterior over the table.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use ktied_kernels::Purpose;

use super::layer::{LayerConfig, Weights};
use super::pass::{Estimator, Pass};
use crate::error::{Error, Result};
use crate::ops;
use crate::posterior::{Family, LocInit};

/// Configuration of an [`Embedding`].
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingConfig {
    /// V, how many words there are.
    pub words: usize,
    /// N, the length of a word's vector.
    pub width: usize,
    /// Posterior, prior and place. There is no bias, whatever it says of one.
    pub layer: LayerConfig,
}

impl EmbeddingConfig {
    /// Standard deviation of the first means: a word is one input, for which He's rule would be far too wide.
    const LOC_SCALE: f64 = 0.05;

    /// First values on a device.
    ///
    /// # Errors
    /// If a rank does not fit the table, or a scale is not a positive number.
    pub fn init(&self, device: &Device) -> Result<Embedding> {
        let loc = match self.layer.loc {
            LocInit::He => LocInit::Normal { scale: Self::LOC_SCALE },
            given => given,
        };
        let layer = LayerConfig { bias: None, loc, ..self.layer.clone() };
        Ok(Embedding { weights: layer.init([self.words, self.width], device)? })
    }
}

/// The rows of a table, where the table has a posterior.
#[derive(Debug, Module)]
pub struct Embedding {
    /// The table, `[V, N]`.
    pub weights: Weights,
}

impl Embedding {
    /// # Shapes
    /// - ids: `[B, T]`, each below V; output: `[B, T, N]`
    ///
    /// # Errors
    /// If a word is not in the table, and [`Error::LocalIsBiased`] for a local pass: a word may stand at several
    /// positions.
    pub fn forward(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>> {
        let kernel = &self.weights;
        let Pass::Sampled { estimator, .. } = pass.drawn() else {
            return look_up(kernel.loc(), ids);
        };
        let noise = self.weights.noise(pass);
        match estimator {
            Estimator::Reparam => look_up(kernel.draw(noise.weights(0))?, ids),
            Estimator::Flipout => match kernel.perturbation(noise.weights(0))? {
                // A word is an input of 1, so its own sign and that of the output are one.
                Some(perturbation) => {
                    let (mean, deviation) = (look_up(kernel.loc(), ids.clone())?, look_up(perturbation, ids)?);
                    Ok(ops::add_signed(mean, deviation, noise.signs(Purpose::OutputSigns))?)
                }
                None => look_up(kernel.loc(), ids),
            },
            Estimator::Local => {
                let layer = self.weights.name().into();
                Err(Error::LocalIsBiased { layer, kind: "an embedding" })
            }
        }
    }

    /// The table as every example of a pass sees it, and the numbers of its rows in the order of a recurrent layer, time first; nothing where
    /// an example has noise of its own.
    ///
    /// # Shapes
    /// - ids: `[B, T]`, each below V; table: `[V, N]`; numbers: `[T, B]`
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub(super) fn shared_table(&self, ids: &Tensor<2, Int>, pass: &Pass) -> Result<Option<(Tensor<2>, Vec<u32>)>> {
        let kernel = &self.weights;
        let table = match pass.drawn() {
            Pass::Sampled { estimator: Estimator::Reparam, .. } => kernel.draw(kernel.noise(pass).weights(0))?,
            Pass::Sampled { .. } if !matches!(kernel.kernel, Family::Point(_)) => return Ok(None),
            _ => kernel.loc(),
        };
        let numbers = numbers(ids.clone().swap_dims(0, 1), table.dims()[0])?;
        Ok(Some((table, numbers)))
    }

    /// The same as [`forward`](Self::forward) for a recurrent layer, which wants time first: without noise of an example's own, the words are put in
    /// that order before they are looked up, not the vectors after.
    ///
    /// # Shapes
    /// - ids: `[B, T]`, each below V; output: `[T, B, N]`
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_time_first(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>> {
        let flipped = matches!(pass, Pass::Sampled { estimator: Estimator::Flipout, .. });
        if flipped && !matches!(self.weights.kernel, Family::Point(_)) {
            return Ok(self.forward(ids, pass)?.swap_dims(0, 1));
        }
        self.forward(ids.swap_dims(0, 1), pass)
    }
}

fn look_up(table: Tensor<2>, ids: Tensor<2, Int>) -> Result<Tensor<3>> {
    let ([rows, columns], [words, width]) = (ids.dims(), table.dims());
    Ok(ops::embedding(table, &numbers(ids, words)?)?.reshape([rows, columns, width]))
}

/// The numbers of words in a table of so many.
fn numbers(ids: Tensor<2, Int>, words: usize) -> Result<Vec<u32>> {
    let number = |id: i64| match u32::try_from(id) {
        Ok(id) if (id as usize) < words => Ok(id),
        _ => Err(Error::UnknownWord { found: id, words }),
    };
    ids.into_data().iter::<i64>().map(number).collect()
}
