//! A long short-term memory with posteriors over its kernels.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, s};
use ktied_kernels::{Purpose, ShapeError};

use super::embedding::Embedding;
use super::layer::{LayerConfig, Weights};
use super::pass::{Estimator, Pass};
use crate::error::{Error, Result};
use crate::ops::{self, LstmPerturbation, LstmSigns, LstmTensors};

/// Input, forget, candidate and output.
const GATES: usize = 4;

/// Sets the streams of the recurrent kernel apart from those of every layer's own number.
const RECURRENT: u64 = 1 << 63;

/// Configuration of an [`Lstm`].
#[derive(Clone, Debug, PartialEq)]
pub struct LstmConfig {
    /// M
    pub inputs: usize,
    /// H
    pub hidden: usize,
    /// Posterior, prior and place; both kernels have its posterior.
    pub layer: LayerConfig,
}

impl LstmConfig {
    /// First values on a device. Both kernels count as matrices of 4H columns, so they can be k-tied.
    ///
    /// # Errors
    /// If a rank does not fit a kernel, a scale is not a positive number, or the sizes overflow.
    pub fn init(&self, device: &Device) -> Result<Lstm> {
        let width = self.hidden.checked_mul(GATES).ok_or(ShapeError::Overflow { kernel: "lstm" })?;
        let (name, id) = (format!("{}.recurrent", self.layer.name), self.layer.id | RECURRENT);
        let recurrent = LayerConfig { name, id, bias: None, ..self.layer.clone() };
        Ok(Lstm {
            kernel: self.layer.init([self.inputs, width], device)?,
            recurrent: recurrent.init([self.hidden, width], device)?,
        })
    }
}

/// i, f, o = σ(z), g = tanh(z), c = f·c₋₁ + i·g, h = o·tanh(c) with z = x·W + h₋₁·R + b + (0, 1, 0, 0), where W, R and b
/// have posteriors.
///
/// The forget gate's 1 (Jozefowicz et al., 2015) stands outside b, so that a prior of b is centred on it. Weights are
/// drawn once a pass and are the same at every step, as are Flipout's signs.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::nn::{Estimator, LayerConfig, LstmConfig, Pass};
///
/// let layer = LayerConfig::new("lstm", 0, "k-tied:2".parse()?);
/// let lstm = LstmConfig { inputs: 3, hidden: 5, layer }.init(&Device::flex())?;
/// let x = Tensor::<3>::ones([7, 2, 3], &Device::flex()); // 7 steps of 2 examples
/// assert_eq!(lstm.forward(x.clone(), &Pass::sampled(42, 0, Estimator::Flipout))?.dims(), [7, 2, 5]);
/// assert_eq!(lstm.forward_last(x, &Pass::Means)?.dims(), [2, 5]);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct Lstm {
    /// W, `[M, 4H]`, and b; the columns are the gates i, f, g, o.
    pub kernel: Weights,
    /// R, `[H, 4H]`
    pub recurrent: Weights,
}

impl Lstm {
    /// The hidden states of all steps, from a zero state.
    ///
    /// # Shapes
    /// - x: `[T, B, M]`, time first; output: `[T, B, H]`
    ///
    /// # Errors
    /// If the shapes do not fit, and [`Error::LocalIsBiased`] for a local pass: every step uses the same weights.
    pub fn forward(&self, x: Tensor<3>, pass: &Pass) -> Result<Tensor<3>> {
        Ok(ops::lstm(x, self.tensors(pass)?)?)
    }

    /// The hidden state after the last step.
    ///
    /// # Shapes
    /// - x: `[T, B, M]`, time first; output: `[B, H]`
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_last(&self, x: Tensor<3>, pass: &Pass) -> Result<Tensor<2>> {
        Ok(ops::lstm_last(x, self.tensors(pass)?)?)
    }

    /// The hidden state after the last word of a text, whose vectors are an embedding's: the two as one where every example sees the same
    /// vectors, which takes a product for each word of a batch, not for each place.
    ///
    /// # Shapes
    /// - ids: `[B, T]`, each a row of the table; output: `[B, H]`
    ///
    /// # Errors
    /// As [`forward`](Self::forward), or if a word is not in the table.
    pub fn forward_last_of_words(&self, words: &Embedding, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<2>> {
        let [_, time] = ids.dims();
        match words.shared_table(&ids, pass)? {
            Some((table, numbers)) => Ok(ops::lstm_last_of_words(table, &numbers, time, self.tensors(pass)?)?),
            None => self.forward_last(words.forward_time_first(ids, pass)?, pass),
        }
    }

    /// The weights of one pass.
    fn tensors(&self, pass: &Pass) -> Result<LstmTensors> {
        let (kernel, recurrent) = (&self.kernel, &self.recurrent);
        let means = |bias| LstmTensors { kernel: kernel.loc(), recurrent: recurrent.loc(), bias, flip: None };
        let Pass::Sampled { estimator, .. } = pass.drawn() else {
            return Ok(means(self.forget_bias(self.kernel.bias_loc())));
        };
        let (noise, recurrent_noise) = (self.kernel.noise(pass), self.recurrent.noise(pass));
        let bias = self.forget_bias(self.kernel.draw_bias(pass)?);
        match estimator {
            Estimator::Reparam => Ok(LstmTensors {
                kernel: kernel.draw(noise.weights(0))?,
                recurrent: recurrent.draw(recurrent_noise.weights(0))?,
                ..means(bias)
            }),
            Estimator::Flipout => {
                let deviations =
                    (kernel.perturbation(noise.weights(0))?, recurrent.perturbation(recurrent_noise.weights(0))?);
                let (Some(delta), Some(recurrent_delta)) = deviations else { return Ok(means(bias)) };
                let signs = LstmSigns {
                    x: noise.signs(Purpose::InputSigns),
                    hidden: recurrent_noise.signs(Purpose::InputSigns),
                    gates: noise.signs(Purpose::OutputSigns),
                };
                let flip = LstmPerturbation { kernel: delta, recurrent: recurrent_delta, signs };
                Ok(LstmTensors { flip: Some(flip), ..means(bias) })
            }
            Estimator::Local => {
                Err(Error::LocalIsBiased { layer: self.kernel.name().into(), kind: "a recurrent layer" })
            }
        }
    }

    /// b + (0, 1, 0, 0)
    fn forget_bias(&self, bias: Option<Tensor<1>>) -> Option<Tensor<1>> {
        let recurrent = self.recurrent.loc();
        let [hidden, width] = recurrent.dims();
        let ones = Tensor::<1>::ones([hidden], (&recurrent.device(), recurrent.dtype()));
        let zeros = Tensor::<1>::zeros([width], (&recurrent.device(), recurrent.dtype()));
        let forget = zeros.slice_assign(s![hidden..2 * hidden], ones);
        Some(match bias {
            Some(bias) => bias + forget,
            None => forget,
        })
    }
}
