//! Sizes of a two-dimensional convolution, and the checks that every convolution kernel begins with.

use crate::error::{Check, Result};

/// Zeros around an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// Rows above.
    pub top: usize,
    /// Rows below.
    pub bottom: usize,
    /// Columns before.
    pub left: usize,
    /// Columns after.
    pub right: usize,
}

/// Sizes of a convolution of images `[B, H, W, C]` with weights `[KH, KW, C, O]`.
///
/// ```
/// use ktied_kernels::conv::Conv2dShape;
/// let shape = Conv2dShape::same(1, [7, 7], 3, 16, [3, 3], [2, 2]);
/// assert_eq!([shape.out_height()?, shape.out_width()?], [4, 4]);
/// # Ok::<(), ktied_kernels::ShapeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dShape {
    /// Images, B.
    pub batch: usize,
    /// Rows of an image, H.
    pub height: usize,
    /// Columns of an image, W.
    pub width: usize,
    /// Channels of an image, C.
    pub channels: usize,
    /// Channels of the output, O.
    pub outputs: usize,
    /// Rows and columns of the window, \[KH, KW\].
    pub kernel: [usize; 2],
    /// Steps of the window, down and across.
    pub stride: [usize; 2],
    /// Zeros around each image.
    pub padding: Padding,
}

impl Conv2dShape {
    /// No padding: the window stays inside the image (TensorFlow's `valid`).
    pub fn valid(
        batch: usize,
        [height, width]: [usize; 2],
        channels: usize,
        outputs: usize,
        kernel: [usize; 2],
        stride: [usize; 2],
    ) -> Self {
        Self { batch, height, width, channels, outputs, kernel, stride, padding: Padding::default() }
    }

    /// As much padding as makes the output ⌈H/stride⌉ × ⌈W/stride⌉, the odd row and column at the end
    /// (TensorFlow's `same`).
    pub fn same(
        batch: usize,
        size: [usize; 2],
        channels: usize,
        outputs: usize,
        kernel: [usize; 2],
        stride: [usize; 2],
    ) -> Self {
        let [top, bottom] = same_padding(size[0], kernel[0], stride[0]);
        let [left, right] = same_padding(size[1], kernel[1], stride[1]);
        let padding = Padding { top, bottom, left, right };
        Self { padding, ..Self::valid(batch, size, channels, outputs, kernel, stride) }
    }

    /// Rows of an output image.
    ///
    /// # Errors
    /// If a size is impossible.
    pub fn out_height(&self) -> Result<usize> {
        Ok(self.plan(Check("conv2d"))?.out_height)
    }

    /// Columns of an output image.
    ///
    /// # Errors
    /// If a size is impossible.
    pub fn out_width(&self) -> Result<usize> {
        Ok(self.plan(Check("conv2d"))?.out_width)
    }

    pub(crate) fn plan(&self, check: Check) -> Result<Plan> {
        let Self { batch, height, width, channels, outputs, kernel: [kh, kw], padding, .. } = *self;
        let Padding { top, bottom, left, right } = padding;
        let out_height = out_size(check, "height", height, [top, bottom], kh, self.stride[0])?;
        let out_width = out_size(check, "width", width, [left, right], kw, self.stride[1])?;
        let patch = check.product(&[kh, kw, channels])?;
        Ok(Plan {
            shape: *self,
            out_height,
            out_width,
            patch,
            x_len: check.product(&[batch, height, width, channels])?,
            y_len: check.product(&[batch, out_height, out_width, outputs])?,
            weight_len: check.product(&[patch, outputs])?,
        })
    }
}

fn same_padding(size: usize, kernel: usize, stride: usize) -> [usize; 2] {
    // A stride of 0 is refused when the shape is used; until then it only must not divide.
    let steps = size.div_ceil(stride.max(1)).saturating_sub(1);
    let total = steps.saturating_mul(stride).saturating_add(kernel).saturating_sub(size);
    [total / 2, total - total / 2]
}

/// Places of a window of `kernel` elements on `size` elements with `padding` at both ends.
pub(crate) fn out_size(
    check: Check,
    operand: &'static str,
    size: usize,
    padding: [usize; 2],
    kernel: usize,
    stride: usize,
) -> Result<usize> {
    check.size("kernel", kernel, kernel >= 1, "at least 1")?;
    check.size("stride", stride, stride >= 1, "at least 1")?;
    check.size(operand, size, size >= 1, "at least 1")?;
    let padded = size.saturating_add(padding[0]).saturating_add(padding[1]);
    // The bound keeps every sum of positions inside the address space.
    check.size(operand, size, padded <= isize::MAX as usize, "small enough to add its padding")?;
    check.size(operand, size, padded >= kernel, "with its padding at least the size of the window")?;
    Ok((padded - kernel) / stride + 1)
}

/// A shape that was checked: no product of these sizes overflows.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) shape: Conv2dShape,
    pub(crate) out_height: usize,
    pub(crate) out_width: usize,
    /// Elements under one window, KH·KW·C.
    pub(crate) patch: usize,
    pub(crate) x_len: usize,
    pub(crate) y_len: usize,
    pub(crate) weight_len: usize,
}

impl Plan {
    /// Places of the window on one image.
    pub(crate) fn rows_per_image(&self) -> usize {
        self.out_height * self.out_width
    }

    /// Rows of places of the window on all images.
    pub(crate) fn num_lines(&self) -> usize {
        self.shape.batch * self.out_height
    }

    /// Places of the window on all images.
    pub(crate) fn num_rows(&self) -> usize {
        self.shape.batch * self.rows_per_image()
    }
}
