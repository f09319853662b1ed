//! Shapes of operands, checked before anything runs on them.

use ktied_kernels::ShapeError;

/// Two operands must have the same shape.
pub fn same(
    kernel: &'static str,
    operand: &'static str,
    found: &[usize],
    expected: &[usize],
) -> Result<(), ShapeError> {
    if found == expected {
        return Ok(());
    }
    Err(ShapeError::Shape { kernel, operand, expected: expected.to_vec(), found: found.to_vec() })
}

/// An operand that may be missing must have the expected shape if it is there.
pub fn same_if(
    kernel: &'static str,
    operand: &'static str,
    found: Option<&[usize]>,
    expected: &[usize],
) -> Result<(), ShapeError> {
    found.map_or(Ok(()), |found| same(kernel, operand, found, expected))
}

/// A size must lie within what the operation can do.
pub fn size(
    kernel: &'static str,
    operand: &'static str,
    found: usize,
    ok: bool,
    expected: &'static str,
) -> Result<(), ShapeError> {
    if ok { Ok(()) } else { Err(ShapeError::Size { kernel, operand, expected, found }) }
}

/// `[M, N]` of the scale that factors `[M, K]` and `[N, K]` make.
pub fn factors(kernel: &'static str, log_u: &[usize], log_v: &[usize]) -> Result<[usize; 2], ShapeError> {
    let [m, k] = dims(kernel, "log_u", log_u)?;
    let [n, _] = dims(kernel, "log_v", log_v)?;
    size(kernel, "rank", k, k >= 1, "at least 1")?;
    same(kernel, "log_v", log_v, &[n, k])?;
    Ok([m, n])
}

/// The sizes of an operand that must have `D` dimensions.
pub fn dims<const D: usize>(
    kernel: &'static str,
    operand: &'static str,
    shape: &[usize],
) -> Result<[usize; D], ShapeError> {
    let expected = "of the right number of dimensions";
    shape.try_into().map_err(|_| ShapeError::Size { kernel, operand, expected, found: shape.len() })
}
