//! The one way a kernel refuses its operands.

use std::fmt;

/// An operand whose length or size does not fit the others.
///
/// Every public kernel checks its operands before it touches one element, so a caller's mistake ends here and
/// never in a read out of bounds or a half-written result.
///
/// ```
/// use ktied_kernels::{NoiseKey, sample};
/// let mut out = [0.0; 4];
/// let error = sample::mean_field(&mut out, None, &[0.0; 3], Default::default(), NoiseKey::new(1)).unwrap_err();
/// assert_eq!(error.to_string(), "mean_field: `raw_scale` must have length 4, got 3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// A slice has the wrong length.
    Length {
        /// Name of the kernel.
        kernel: &'static str,
        /// Name of the operand.
        operand: &'static str,
        /// Length that the other operands ask for.
        expected: usize,
        /// Length that was given.
        found: usize,
    },
    /// A size lies outside what the kernel can do.
    Size {
        /// Name of the kernel.
        kernel: &'static str,
        /// Name of the size.
        operand: &'static str,
        /// What is allowed, in words.
        expected: &'static str,
        /// Value that was given.
        found: usize,
    },
    /// A tensor has the wrong shape.
    Shape {
        /// Name of the operation.
        kernel: &'static str,
        /// Name of the operand.
        operand: &'static str,
        /// Shape that the other operands ask for.
        expected: Vec<usize>,
        /// Shape that was given.
        found: Vec<usize>,
    },
    /// The product of the sizes exceeds the address space.
    Overflow {
        /// Name of the kernel.
        kernel: &'static str,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { kernel, operand, expected, found } => {
                write!(f, "{kernel}: `{operand}` must have length {expected}, got {found}")
            }
            Self::Size { kernel, operand, expected, found } => {
                write!(f, "{kernel}: `{operand}` must be {expected}, got {found}")
            }
            Self::Shape { kernel, operand, expected, found } => {
                write!(f, "{kernel}: `{operand}` must have shape {expected:?}, got {found:?}")
            }
            Self::Overflow { kernel } => write!(f, "{kernel}: the product of the sizes is too large"),
        }
    }
}

impl std::error::Error for ShapeError {}

/// What every kernel returns.
pub type Result<T, E = ShapeError> = std::result::Result<T, E>;

/// Checks operands on behalf of one kernel.
#[derive(Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str);

impl Check {
    pub(crate) fn len<T>(self, operand: &'static str, slice: &[T], expected: usize) -> Result<()> {
        let found = slice.len();
        if found == expected {
            return Ok(());
        }
        Err(ShapeError::Length { kernel: self.0, operand, expected, found })
    }

    pub(crate) fn size(self, operand: &'static str, found: usize, ok: bool, expected: &'static str) -> Result<()> {
        if ok { Ok(()) } else { Err(ShapeError::Size { kernel: self.0, operand, expected, found }) }
    }

    pub(crate) fn product(self, sizes: &[usize]) -> Result<usize> {
        let product = sizes.iter().try_fold(1usize, |p, &s| p.checked_mul(s));
        product.ok_or(ShapeError::Overflow { kernel: self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_names_kernel_operand_and_both_values() {
        let short = Check("draw").len("loc", &[0.0; 2], 3).unwrap_err();
        assert_eq!(short.to_string(), "draw: `loc` must have length 3, got 2");
        let zero = Check("conv2d").size("stride", 0, false, "at least 1").unwrap_err();
        assert_eq!(zero.to_string(), "conv2d: `stride` must be at least 1, got 0");
        let shape = ShapeError::Shape { kernel: "kl", operand: "loc", expected: vec![2, 3], found: vec![3] };
        assert_eq!(shape.to_string(), "kl: `loc` must have shape [2, 3], got [3]");
        let huge = Check("dense").product(&[usize::MAX, 2]).unwrap_err();
        assert_eq!(huge.to_string(), "dense: the product of the sizes is too large");
    }
}
