//! Pooling of images, channels last: the largest or the mean of each window.

use burn::module::Module;
use burn::tensor::Tensor;
use ktied_kernels::ShapeError;

use crate::error::Result;
use crate::ops;

/// What a window becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Its largest value.
    Max,
    /// Its mean.
    Avg,
}

/// Configuration of a [`Pool2d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool2dConfig {
    /// What a window becomes.
    pub kind: PoolKind,
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
}

impl Pool2dConfig {
    /// Windows that lie side by side.
    pub fn new(kind: PoolKind, kernel: [usize; 2]) -> Self {
        Self { kind, kernel, stride: kernel }
    }

    /// The layer, which has no parameters.
    ///
    /// # Errors
    /// If a size is 0.
    pub fn init(&self) -> Result<Pool2d> {
        let sizes = [("kernel", self.kernel), ("stride", self.stride)];
        for (operand, [height, width]) in sizes {
            if height == 0 || width == 0 {
                return Err(ShapeError::Size { kernel: "pool", operand, expected: "at least 1", found: 0 }.into());
            }
        }
        Ok(Pool2d { config: *self })
    }
}

/// The largest value or the mean of each window and channel.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::nn::{Pool2dConfig, PoolKind};
/// let pool = Pool2dConfig::new(PoolKind::Max, [2, 2]).init()?;
/// let y = pool.forward(Tensor::zeros([5, 8, 8, 3], &Device::flex()))?;
/// assert_eq!(y.dims(), [5, 4, 4, 3]);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct Pool2d {
    #[module(skip)]
    config: Pool2dConfig,
}

impl Pool2d {
    /// # Shapes
    /// - x: `[B, H, W, C]`; output: `[B, H', W', C]`
    ///
    /// # Errors
    /// If a window does not fit into the image.
    pub fn forward(&self, x: Tensor<4>) -> Result<Tensor<4>> {
        let Pool2dConfig { kind, kernel, stride } = self.config;
        Ok(match kind {
            PoolKind::Max => ops::max_pool2d(x, kernel, stride)?,
            PoolKind::Avg => ops::avg_pool2d(x, kernel, stride)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn windows_become_their_largest_or_their_mean_and_bad_ones_are_refused() {
        let x = Tensor::<4>::from_floats([[[[1.0], [2.0]], [[3.0], [6.0]]]], &Device::flex());
        let value = |kind| {
            let pool = Pool2dConfig::new(kind, [2, 2]).init().unwrap();
            pool.forward(x.clone()).unwrap().into_data().iter::<f32>().next().unwrap()
        };
        assert_eq!((value(PoolKind::Max), value(PoolKind::Avg)), (6.0, 3.0));
        let error = Pool2dConfig::new(PoolKind::Max, [0, 2]).init().unwrap_err().to_string();
        assert_eq!(error, "pool: `kernel` must be at least 1, got 0");
        assert!(Pool2dConfig::new(PoolKind::Max, [3, 3]).init().unwrap().forward(x).is_err());
    }
}
