//! Cross-entropies of logits: softmax over classes, and sigmoid for two.

use rayon::prelude::*;

use crate::error::{Check, Result, ShapeError};
use crate::par::{CHUNK, LANES, rows_per_chunk, sum_lanes};
use crate::simd::vectorized;
use crate::vmath;

/// Softmax and its cross-entropy with integer labels, in nats:
/// p = exp(z − max z)/Σ exp(z − max z), loss = ln Σ exp(z − max z) − (z_label − max z).
///
/// # Shapes
/// - loss: `[B]`, probabilities: `[B, N]`, logits: `[B, N]`, labels: `[B]`
///
/// # Errors
/// If a length does not fit, or a label is not below `num_classes`; nothing is written then.
///
/// ```
/// use ktied_kernels::softmax::cross_entropy;
/// let (mut loss, mut probabilities) = ([0.0], [0.0; 2]);
/// cross_entropy(&mut loss, &mut probabilities, &[3.0, 3.0], &[1], 2)?;
/// assert_eq!((loss, probabilities), ([2f32.ln()], [0.5, 0.5]));
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn cross_entropy(
    loss: &mut [f32],
    probabilities: &mut [f32],
    logits: &[f32],
    labels: &[u32],
    num_classes: usize,
) -> Result<()> {
    let check = Check("softmax cross_entropy");
    let len = check.product(&[labels.len(), num_classes])?;
    check.len("loss", loss, labels.len())?;
    check.len("probabilities", probabilities, len)?;
    check.len("logits", logits, len)?;
    check_labels(check, labels, num_classes)?;
    if len == 0 {
        return Ok(());
    }
    let rows = rows_per_chunk(COST * num_classes);
    let outputs = loss.par_chunks_mut(rows).zip(probabilities.par_chunks_mut(rows * num_classes));
    let inputs = logits.par_chunks(rows * num_classes).zip(labels.par_chunks(rows));
    outputs.zip(inputs).for_each(|((loss, p), (z, labels))| softmax_rows(loss, p, z, labels, num_classes));
    Ok(())
}

/// Gradient of [`cross_entropy`]: dz = (p − one-hot(label))·g, with g the gradient of each example's loss.
///
/// # Shapes
/// - dlogits: `[B, N]`, probabilities: `[B, N]`, labels: `[B]`, dloss: `[B]`
///
/// # Errors
/// If a length does not fit, or a label is not below `num_classes`; nothing is written then.
pub fn cross_entropy_backward(
    dlogits: &mut [f32],
    probabilities: &[f32],
    labels: &[u32],
    dloss: &[f32],
    num_classes: usize,
) -> Result<()> {
    let check = Check("softmax cross_entropy_backward");
    let len = check.product(&[labels.len(), num_classes])?;
    check.len("dlogits", dlogits, len)?;
    check.len("probabilities", probabilities, len)?;
    check.len("dloss", dloss, labels.len())?;
    check_labels(check, labels, num_classes)?;
    if len == 0 {
        return Ok(());
    }
    let rows = rows_per_chunk(num_classes);
    let chunks = dlogits.par_chunks_mut(rows * num_classes).zip(probabilities.par_chunks(rows * num_classes));
    let examples = labels.par_chunks(rows).zip(dloss.par_chunks(rows));
    chunks.zip(examples).for_each(|((dz, p), (labels, g))| softmax_rows_backward(dz, p, labels, g, num_classes));
    Ok(())
}

/// Of a softmax's element, in those of a sum: a task has so many times fewer of them.
const COST: usize = 8;

fn check_labels(check: Check, labels: &[u32], num_classes: usize) -> Result<()> {
    let largest = labels.iter().copied().max().map_or(0, |label| label as usize);
    if labels.is_empty() || largest < num_classes {
        return Ok(());
    }
    let expected = "below the number of classes";
    Err(ShapeError::Size { kernel: check.0, operand: "labels", expected, found: largest })
}

/// The largest of a row, without regard to NaN, which the exponentials then carry.
#[inline(always)]
fn row_max(blocks: &[[f32; LANES]], rest: &[f32; LANES]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for block in blocks.iter().chain([rest]) {
        for (m, z) in lanes.iter_mut().zip(block) {
            *m = if *z > *m { *z } else { *m };
        }
    }
    lanes.iter().fold(f32::NEG_INFINITY, |m, &z| if z > m { z } else { m })
}

/// x ← e^(x − max), added to the lanes.
#[inline(always)]
fn exp_block(x: &mut [f32; LANES], max: f32, lanes: &mut [f32; LANES]) {
    for (x, lane) in x.iter_mut().zip(lanes) {
        *x = vmath::exp(*x - max);
        *lane += *x;
    }
}

vectorized! {
    fn softmax_rows(loss: &mut [f32], p: &mut [f32], z: &[f32], labels: &[u32], num_classes: usize) {
        let rows = p.chunks_exact_mut(num_classes).zip(z.chunks_exact(num_classes));
        for ((p, z), (loss, label)) in rows.zip(loss.iter_mut().zip(labels)) {
            let (z_blocks, z_rest) = z.as_chunks::<LANES>();
            let (p_blocks, p_rest) = p.as_chunks_mut::<LANES>();
            // Filled up with e^−∞ = 0, so that ten classes are vector code too.
            let mut rest = [f32::NEG_INFINITY; LANES];
            rest[..z_rest.len()].copy_from_slice(z_rest);
            let max = row_max(z_blocks, &rest);
            let mut lanes = [0.0; LANES];
            for (p, z) in p_blocks.iter_mut().zip(z_blocks) {
                *p = *z;
                exp_block(p, max, &mut lanes);
            }
            if !z_rest.is_empty() {
                exp_block(&mut rest, max, &mut lanes);
            }
            let sum = sum_lanes(lanes);
            *loss = vmath::ln(sum) - (z[*label as usize] - max);
            let scale = 1.0 / sum;
            p_blocks.as_flattened_mut().iter_mut().for_each(|p| *p *= scale);
            rest.iter_mut().for_each(|p| *p *= scale);
            p_rest.copy_from_slice(&rest[..p_rest.len()]);
        }
    }

    fn softmax_rows_backward(dz: &mut [f32], p: &[f32], labels: &[u32], dloss: &[f32], num_classes: usize) {
        let rows = dz.chunks_exact_mut(num_classes).zip(p.chunks_exact(num_classes));
        for ((dz, p), (label, g)) in rows.zip(labels.iter().zip(dloss)) {
            for (dz, p) in dz.iter_mut().zip(p) {
                *dz = p * g;
            }
            let label = *label as usize;
            dz[label] = (p[label] - 1.0) * g;
        }
    }

    fn sigmoid_rows(loss: &mut [f32], logits: &[f32], targets: &[f32]) {
        for (loss, (z, t)) in loss.iter_mut().zip(logits.iter().zip(targets)) {
            // For a sure and right logit the bracket is exactly 0 and the small loss keeps all its digits.
            let positive = if *z < 0.0 { 0.0 } else { *z };
            *loss = vmath::softplus(-z.abs()) + (positive - z * t);
        }
    }

    fn sigmoid_rows_backward(dz: &mut [f32], logits: &[f32], targets: &[f32], dloss: &[f32]) {
        for ((dz, g), (z, t)) in dz.iter_mut().zip(dloss).zip(logits.iter().zip(targets)) {
            *dz = (vmath::sigmoid(*z) - t) * g;
        }
    }
}

/// Cross-entropy of a Bernoulli with logit z, in nats: −t ln σ(z) − (1 − t) ln σ(−z) = ln(1 + eᶻ) − t·z.
///
/// # Shapes
/// - loss, logits, targets: `[B]`
///
/// # Errors
/// If the lengths differ.
///
/// ```
/// use ktied_kernels::softmax::sigmoid_cross_entropy;
/// let mut loss = [0.0; 2];
/// sigmoid_cross_entropy(&mut loss, &[0.0, 30.0], &[1.0, 0.0])?;
/// assert_eq!(loss, [2f32.ln(), 30.0]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn sigmoid_cross_entropy(loss: &mut [f32], logits: &[f32], targets: &[f32]) -> Result<()> {
    let check = Check("sigmoid_cross_entropy");
    check.len("loss", loss, logits.len())?;
    check.len("targets", targets, logits.len())?;
    let inputs = logits.par_chunks(CHUNK).zip(targets.par_chunks(CHUNK));
    loss.par_chunks_mut(CHUNK).zip(inputs).for_each(|(loss, (z, t))| sigmoid_rows(loss, z, t));
    Ok(())
}

/// Gradient of [`sigmoid_cross_entropy`]: dz = (σ(z) − t)·g.
///
/// # Shapes
/// - dlogits, logits, targets, dloss: `[B]`
///
/// # Errors
/// If the lengths differ.
pub fn sigmoid_cross_entropy_backward(
    dlogits: &mut [f32],
    logits: &[f32],
    targets: &[f32],
    dloss: &[f32],
) -> Result<()> {
    let check = Check("sigmoid_cross_entropy_backward");
    check.len("dlogits", dlogits, logits.len())?;
    check.len("targets", targets, logits.len())?;
    check.len("dloss", dloss, logits.len())?;
    let inputs = logits.par_chunks(CHUNK).zip(targets.par_chunks(CHUNK)).zip(dloss.par_chunks(CHUNK));
    dlogits.par_chunks_mut(CHUNK).zip(inputs).for_each(|(dz, ((z, t), g))| sigmoid_rows_backward(dz, z, t, g));
    Ok(())
}
