//! Convolution with Flipout's perturbation of its weights, and its gradients, in one pass over the windows.
//!
//! Signs are the same at every place of an image, so an image has weights of its own, μ + Δ∘(s rᵀ). Where an image has
//! many places, making these costs less than a second product; where it has few, images share both products and signs
//! are flipped around them.
//!
//! Flipout: Wen, Vicol, Ba, Tran, Grosse, *Flipout: efficient pseudo-independent weight perturbations on
//! mini-batches*, ICLR 2018.

use std::ops::Range;

use rayon::prelude::*;

use crate::activation::Activation;
use crate::conv::im2col::im2col;
use crate::conv::shape::{Conv2dShape, Plan};
use crate::conv::{
    Weights, accumulate_weight, mirrored, rows_of, scatter, sum_weights, tile_lines, tile_rows, windows,
};
use crate::error::{Check, Result};
use crate::gemm::{Mat, Right, Threads, Update, product};
use crate::rows::{column_sums, finish};
use crate::scratch::with_scratch;
use crate::signs::{SignKey, flip_in_place, sign_bits};
use crate::simd::vectorized;

/// Weights of a pass under Flipout.
#[derive(Clone, Copy, Debug)]
pub struct FlipoutWeights<'a> {
    /// Means μ, `[KH, KW, C, O]`.
    pub loc: &'a [f32],
    /// One draw's deviation Δ from them, `[KH, KW, C, O]`.
    pub deviation: &'a [f32],
    /// Stream of s, the signs per image and channel of x; as [`crate::signs::apply`] draws them.
    pub input_signs: SignKey,
    /// Stream of r, the signs per image and channel of y.
    pub output_signs: SignKey,
}

impl<'a> FlipoutWeights<'a> {
    fn check(&self, check: Check, plan: &Plan) -> Result<()> {
        check.len("loc", self.loc, plan.weight_len)?;
        check.len("deviation", self.deviation, plan.weight_len)
    }

    fn pass(&self, plan: Plan) -> Pass<'a> {
        let Conv2dShape { batch, channels, outputs, .. } = plan.shape;
        let input = Signs { bits: sign_bits(0..batch, channels, self.input_signs), channels };
        let output = Signs { bits: sign_bits(0..batch, outputs, self.output_signs), channels: outputs };
        Pass { plan, loc: self.loc, deviation: self.deviation, input, output }
    }
}

/// y = act(x ⋆ μ + b + r∘((x∘s) ⋆ Δ)), where ⋆ is that of [`crate::conv::forward`] and the signs are the same at every
/// place of an image.
///
/// # Shapes
/// - y: `[B, OH, OW, O]`, x: `[B, H, W, C]`, bias: `[O]`; the others as in [`FlipoutWeights`]
///
/// # Errors
/// If a length does not fit `shape`, or the window does not fit the padded image.
///
/// ```
/// use ktied_kernels::NoiseKey;
/// use ktied_kernels::activation::Activation;
/// use ktied_kernels::conv::{Conv2dShape, flipout};
/// let shape = Conv2dShape::valid(1, [2, 2], 1, 1, [2, 2], [1, 1]);
/// let (loc, deviation) = ([1., 0., 0., 1.], [0., 0.25, 0., 0.]);
/// let [input_signs, output_signs] = [NoiseKey::new(1), NoiseKey::new(2)].map(Into::into);
/// let weights = flipout::FlipoutWeights { loc: &loc, deviation: &deviation, input_signs, output_signs };
/// let mut y = [0.0];
/// flipout::forward(&mut y, &[1., 2., 3., 4.], weights, None, &shape, Activation::Identity)?;
/// assert!(y == [4.5] || y == [5.5]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
pub fn forward(
    y: &mut [f32],
    x: &[f32],
    weights: FlipoutWeights<'_>,
    bias: Option<&[f32]>,
    shape: &Conv2dShape,
    activation: Activation,
) -> Result<()> {
    let check = Check("conv2d flipout");
    let plan = shape.plan(check)?;
    check.len("y", y, plan.y_len)?;
    check.len("x", x, plan.x_len)?;
    weights.check(check, &plan)?;
    bias.map_or(Ok(()), |bias| check.len("bias", bias, shape.outputs))?;
    if y.is_empty() {
        return Ok(());
    }
    weights.pass(plan).convolve(y, x, bias, activation)
}

/// Where [`backward`] writes; what is `None` is not computed.
#[derive(Debug, Default)]
pub struct FlipoutGrads<'a> {
    /// Gradient of x, `[B, H, W, C]`.
    pub x: Option<&'a mut [f32]>,
    /// Gradient of μ, `[KH, KW, C, O]`.
    pub loc: Option<&'a mut [f32]>,
    /// Gradient of Δ, `[KH, KW, C, O]`.
    pub deviation: Option<&'a mut [f32]>,
    /// Gradient of b, `[O]`.
    pub bias: Option<&'a mut [f32]>,
}

impl FlipoutGrads<'_> {
    fn check(&self, check: Check, plan: &Plan) -> Result<()> {
        let operands = [
            ("dx", &self.x, plan.x_len),
            ("dloc", &self.loc, plan.weight_len),
            ("ddeviation", &self.deviation, plan.weight_len),
            ("dbias", &self.bias, plan.shape.outputs),
        ];
        operands.into_iter().try_for_each(|(name, grad, len)| grad.as_ref().map_or(Ok(()), |g| check.len(name, g, len)))
    }
}

/// dμ = Σ windowᵀ·dz, dΔ = Σ (window∘s)ᵀ·(dz∘r), db = Σ dz, and dx, which is the sum over the windows that hold a pixel
/// of dz·μᵀ + s∘((dz∘r)·Δᵀ) at that pixel.
///
/// dz is the gradient of the sums before the activation: [`crate::activation::backward`] makes it from that of y.
///
/// # Shapes
/// - dz: `[B, OH, OW, O]`, x: `[B, H, W, C]`; the others as in [`FlipoutGrads`] and [`FlipoutWeights`]
///
/// # Errors
/// If a length does not fit `shape`, or the window does not fit the padded image; nothing is written then.
pub fn backward(
    grads: FlipoutGrads<'_>,
    dz: &[f32],
    x: &[f32],
    weights: FlipoutWeights<'_>,
    shape: &Conv2dShape,
) -> Result<()> {
    let check = Check("conv2d flipout backward");
    let plan = shape.plan(check)?;
    check.len("dz", dz, plan.y_len)?;
    check.len("x", x, plan.x_len)?;
    weights.check(check, &plan)?;
    grads.check(check, &plan)?;

    let FlipoutGrads { x: dx, loc, deviation, bias } = grads;
    if let Some(dbias) = bias {
        column_sums(dbias, dz);
    }
    if dz.is_empty() || x.is_empty() {
        [dx, loc, deviation].into_iter().flatten().for_each(|grad| grad.fill(0.0));
        return Ok(());
    }
    let pass = weights.pass(plan);
    if loc.is_some() || deviation.is_some() {
        let dweights = [loc.unwrap_or_default(), deviation.unwrap_or_default()];
        sum_weights(dweights, &plan, |dweights, lines, columns| pass.accumulate(dweights, dz, x, lines, columns))?;
    }
    match (dx, mirrored(shape)) {
        (None, _) => Ok(()),
        (Some(dx), None) => scatter(dx, &plan, |col, rows| pass.windows_gradient(col, dz, rows)),
        (Some(dx), Some(mirror)) => {
            let mirror = mirror.plan(check)?;
            Weights::Mirrored(pass.loc).with_plain(&mirror, |loc| {
                Weights::Mirrored(pass.deviation).with_plain(&mirror, |deviation| {
                    let mirror = Pass { plan: mirror, loc, deviation, input: pass.output, output: pass.input };
                    mirror.convolve(dx, dz, None, Activation::Identity)
                })
            })
        }
    }
}

/// Sign bits per image and channel, `[B, channels]`.
struct Signs {
    bits: Vec<u32>,
    channels: usize,
}

impl Signs {
    fn of(&self, image: usize) -> &[u32] {
        &self.bits[image * self.channels..][..self.channels]
    }

    /// Flips a matrix whose rows belong to the windows `rows` and have the elements `columns`, in which the channels
    /// come again and again.
    fn flip(&self, matrix: &mut [f32], plan: &Plan, rows: Range<usize>, columns: Range<usize>) {
        let (first, width) = (rows.start, columns.len());
        let mut signs = Vec::with_capacity(width);
        for (image, rows) in images(plan, rows).filter(|_| width > 0) {
            signs.clear();
            signs.extend(self.of(image).iter().cycle().skip(columns.start % self.channels).take(width));
            flip_in_place(&mut matrix[(rows.start - first) * width..(rows.end - first) * width], &signs);
        }
    }
}

/// The images that the windows `rows` lie on, with the windows on each.
fn images(plan: &Plan, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let len = plan.rows_per_image();
    let images = rows.start / len..rows.end.div_ceil(len);
    images.map(move |image| (image, rows.start.max(image * len)..rows.end.min((image + 1) * len)))
}

/// Fewest places of a window on an image for which making the image's own weights costs less than a second product.
const MIN_OWN_WEIGHTS: usize = 64;

vectorized! {
    /// weight = loc + deviation∘(s rᵀ), where s comes again for every place in the window.
    fn perturb(weight: &mut [f32], loc: &[f32], deviation: &[f32], input: &[u32], output: &[u32]) {
        let width = output.len();
        let rows = weight.chunks_exact_mut(width).zip(loc.chunks_exact(width).zip(deviation.chunks_exact(width)));
        for ((weight, (loc, deviation)), s) in rows.zip(input.iter().cycle()) {
            for ((w, l), (d, r)) in weight.iter_mut().zip(loc).zip(deviation.iter().zip(output)) {
                *w = l + f32::from_bits(d.to_bits() ^ s ^ r);
            }
        }
    }

    /// sums += part∘(s rᵀ), for the rows of weights from `first` on.
    fn add_signed(sums: &mut [f32], part: &[f32], first: usize, input: &[u32], output: &[u32]) {
        let rows = sums.chunks_exact_mut(output.len()).zip(part.chunks_exact(output.len()));
        for ((sums, part), s) in rows.zip(input.iter().cycle().skip(first % input.len())) {
            for (sum, (p, r)) in sums.iter_mut().zip(part.iter().zip(output)) {
                *sum += f32::from_bits(p.to_bits() ^ s ^ r);
            }
        }
    }

    fn add(sums: &mut [f32], part: &[f32]) {
        for (sum, p) in sums.iter_mut().zip(part) {
            *sum += p;
        }
    }
}

/// A checked convolution with its weights and all its signs.
struct Pass<'a> {
    plan: Plan,
    loc: &'a [f32],
    deviation: &'a [f32],
    input: Signs,
    output: Signs,
}

impl Pass<'_> {
    fn has_own_weights(&self) -> bool {
        self.plan.rows_per_image() >= MIN_OWN_WEIGHTS
    }

    /// y = act(x ⋆ μ + b + r∘((x∘s) ⋆ Δ)), tile by tile.
    fn convolve(&self, y: &mut [f32], x: &[f32], bias: Option<&[f32]>, activation: Activation) -> Result<()> {
        let (outputs, tile_rows) = (self.plan.shape.outputs, tile_lines(&self.plan) * self.plan.out_width);
        y.par_chunks_mut(tile_rows * outputs).enumerate().try_for_each(|(tile, y)| {
            let rows = tile * tile_rows..tile * tile_rows + y.len() / outputs;
            if self.has_own_weights() {
                self.multiply_by_image(y, x, rows)?;
            } else {
                self.multiply_twice(y, x, rows)?;
            }
            finish(y, bias, activation);
            Ok(())
        })
    }

    /// y = windows·(μ + Δ∘(s rᵀ)).
    fn multiply_by_image(&self, y: &mut [f32], x: &[f32], rows: Range<usize>) -> Result<()> {
        let (first, outputs) = (rows.start, self.plan.shape.outputs);
        images(&self.plan, rows).try_for_each(|(image, rows)| {
            let y = &mut y[(rows.start - first) * outputs..(rows.end - first) * outputs];
            let lines = rows.start / self.plan.out_width..rows.end / self.plan.out_width;
            self.with_weight_of(image, |weight| {
                Right::with(weight, false, |weight| windows::multiply(y, x, weight, &self.plan, lines));
                Ok(())
            })
        })
    }

    /// y = windows·μ + r∘((windows∘s)·Δ). Signs are flipped back and forth, so that one place holds both sums.
    fn multiply_twice(&self, y: &mut [f32], x: &[f32], rows: Range<usize>) -> Result<()> {
        let Self { plan, input, output, .. } = self;
        let (patch, outputs) = (plan.patch, plan.shape.outputs);
        let (loc, deviation) = self.matrices()?;
        with_scratch(rows.len() * patch, |col| {
            im2col(col, x, plan, rows.clone(), 0..patch);
            product(y, Mat::new(col, rows.len(), patch)?, loc, Update::Overwrite, Threads::One)?;
            output.flip(y, plan, rows.clone(), 0..outputs);
            input.flip(col, plan, rows.clone(), 0..patch);
            product(y, Mat::new(col, rows.len(), patch)?, deviation, Update::Accumulate, Threads::One)?;
            output.flip(y, plan, rows, 0..outputs);
            Ok(())
        })
    }

    /// dμ += windowsᵀ·dz and dΔ += (windows∘s)ᵀ·(dz∘r), over the given lines, for the given columns of the windows.
    fn accumulate(
        &self,
        [dloc, ddeviation]: [&mut [f32]; 2],
        dz: &[f32],
        x: &[f32],
        lines: Range<usize>,
        columns: Range<usize>,
    ) -> Result<()> {
        let width = self.plan.out_width;
        let rows = lines.start * width..lines.end * width;
        if self.has_own_weights() {
            return images(&self.plan, rows).try_for_each(|(image, rows)| {
                with_scratch(columns.len() * self.plan.shape.outputs, |part| {
                    part.fill(0.0);
                    let lines = rows.start / width..rows.end / width;
                    accumulate_weight(part, &dz, x, &self.plan, lines, columns.clone())?;
                    add(dloc, part);
                    add_signed(ddeviation, part, columns.start, self.input.of(image), self.output.of(image));
                    Ok(())
                })
            });
        }
        let tile_rows = tile_rows(columns.len());
        rows.clone().step_by(tile_rows).try_for_each(|start| {
            let tile = start..rows.end.min(start + tile_rows);
            self.accumulate_twice([&mut *dloc, &mut *ddeviation], dz, x, tile, columns.clone())
        })
    }

    /// The same for one tile that images share.
    fn accumulate_twice(
        &self,
        [dloc, ddeviation]: [&mut [f32]; 2],
        dz: &[f32],
        x: &[f32],
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Result<()> {
        let (num_rows, num_columns) = (rows.len(), columns.len());
        with_scratch(num_rows * num_columns, |col| {
            im2col(col, x, &self.plan, rows.clone(), columns.clone());
            if !dloc.is_empty() {
                let (windows, dz) = (Mat::new(col, num_rows, num_columns)?, rows_of(dz, &self.plan, rows.clone())?);
                product(dloc, windows.t(), dz, Update::Accumulate, Threads::One)?;
            }
            if ddeviation.is_empty() {
                return Ok(());
            }
            self.input.flip(col, &self.plan, rows.clone(), columns);
            self.with_signed(dz, rows, |dz| {
                let windows = Mat::new(col, num_rows, num_columns)?;
                product(ddeviation, windows.t(), dz, Update::Accumulate, Threads::One)
            })
        })
    }

    /// col = dz·μᵀ + s∘((dz∘r)·Δᵀ), the gradients of the windows `rows`.
    fn windows_gradient(&self, col: &mut [f32], dz: &[f32], rows: Range<usize>) -> Result<()> {
        let (first, patch) = (rows.start, self.plan.patch);
        if self.has_own_weights() {
            return images(&self.plan, rows).try_for_each(|(image, rows)| {
                let col = &mut col[(rows.start - first) * patch..(rows.end - first) * patch];
                let dz = rows_of(dz, &self.plan, rows)?;
                self.with_weight_of(image, |weight| product(col, dz, weight.t(), Update::Overwrite, Threads::One))
            });
        }
        let (loc, deviation) = self.matrices()?;
        self.with_signed(dz, rows.clone(), |dz| product(col, dz, deviation.t(), Update::Overwrite, Threads::One))?;
        self.input.flip(col, &self.plan, rows.clone(), 0..patch);
        product(col, rows_of(dz, &self.plan, rows)?, loc.t(), Update::Accumulate, Threads::One)
    }

    fn matrices(&self) -> Result<(Mat<'_>, Mat<'_>)> {
        let (patch, outputs) = (self.plan.patch, self.plan.shape.outputs);
        Ok((Mat::new(self.loc, patch, outputs)?, Mat::new(self.deviation, patch, outputs)?))
    }

    /// Runs `task` on the weights of one image.
    fn with_weight_of<T>(&self, image: usize, task: impl FnOnce(Mat<'_>) -> Result<T>) -> Result<T> {
        with_scratch(self.plan.weight_len, |weight| {
            perturb(weight, self.loc, self.deviation, self.input.of(image), self.output.of(image));
            task(Mat::new(weight, self.plan.patch, self.plan.shape.outputs)?)
        })
    }

    /// Runs `task` on the given rows of dz∘r.
    fn with_signed<T>(&self, dz: &[f32], rows: Range<usize>, task: impl FnOnce(Mat<'_>) -> Result<T>) -> Result<T> {
        let outputs = self.plan.shape.outputs;
        let dz = &dz[rows.start * outputs..rows.end * outputs];
        with_scratch(dz.len(), |signed| {
            signed.copy_from_slice(dz);
            self.output.flip(signed, &self.plan, rows.clone(), 0..outputs);
            task(Mat::new(signed, rows.len(), outputs)?)
        })
    }
}
