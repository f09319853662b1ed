//! Two-dimensional convolution.

use ktied_kernels::activation::Activation;
use ktied_kernels::conv::{Conv2dShape, Padding, backward_input, backward_weight, forward};

use crate::reference::{assert_close, assert_same_bits_on_any_threads, central_difference, dot, random, to_f64};

/// A sum of a few thousand products in single precision errs by about √4000·6e-8 of its size.
pub const TOLERANCE: f64 = 4e-6;

pub fn num_weights(s: &Conv2dShape) -> usize {
    s.kernel[0] * s.kernel[1] * s.channels * s.outputs
}

pub fn num_inputs(s: &Conv2dShape) -> usize {
    s.batch * s.height * s.width * s.channels
}

pub fn num_outputs(s: &Conv2dShape) -> usize {
    s.batch * s.out_height().unwrap() * s.out_width().unwrap() * s.outputs
}

/// Calls `visit(index in x, index in w, index in y)` for every product that the convolution sums.
fn for_each_term(s: &Conv2dShape, mut visit: impl FnMut(usize, usize, usize)) {
    let (out_height, out_width) = (s.out_height().unwrap(), s.out_width().unwrap());
    for position in 0..s.batch * out_height * out_width {
        let (b, oy, ox) =
            (position / (out_height * out_width), position / out_width % out_height, position % out_width);
        for tap in 0..s.kernel[0] * s.kernel[1] {
            let y = (oy * s.stride[0] + tap / s.kernel[1]) as isize - s.padding.top as isize;
            let x = (ox * s.stride[1] + tap % s.kernel[1]) as isize - s.padding.left as isize;
            if y < 0 || x < 0 || y >= s.height as isize || x >= s.width as isize {
                continue;
            }
            let pixel = (b * s.height + y as usize) * s.width + x as usize;
            for c in 0..s.channels {
                for o in 0..s.outputs {
                    visit(pixel * s.channels + c, (tap * s.channels + c) * s.outputs + o, position * s.outputs + o);
                }
            }
        }
    }
}

pub fn reference(x: &[f64], w: &[f64], b: Option<&[f64]>, s: &Conv2dShape) -> Vec<f64> {
    let mut y: Vec<f64> = (0..num_outputs(s)).map(|i| b.map_or(0.0, |b| b[i % s.outputs])).collect();
    for_each_term(s, |xi, wi, yi| y[yi] += x[xi] * w[wi]);
    y
}

pub fn shape(
    batch: usize,
    size: [usize; 2],
    channels: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
) -> Conv2dShape {
    Conv2dShape::valid(batch, size, channels[0], channels[1], kernel, stride)
}

pub fn padded(shape: Conv2dShape, [top, bottom, left, right]: [usize; 4]) -> Conv2dShape {
    Conv2dShape { padding: Padding { top, bottom, left, right }, ..shape }
}

/// Small shapes, each awkward in its own way.
fn small_shapes() -> Vec<Conv2dShape> {
    vec![
        shape(1, [1, 1], [1, 1], [1, 1], [1, 1]),
        shape(2, [3, 4], [3, 5], [1, 1], [1, 1]),
        shape(2, [5, 4], [2, 3], [1, 1], [2, 3]),
        shape(2, [5, 6], [3, 2], [3, 2], [1, 1]),
        shape(1, [7, 5], [2, 3], [2, 3], [3, 2]),
        padded(shape(2, [4, 5], [3, 2], [3, 3], [1, 1]), [1, 1, 1, 1]),
        padded(shape(2, [4, 5], [1, 2], [2, 3], [1, 2]), [2, 0, 1, 3]),
        padded(shape(1, [2, 2], [2, 3], [5, 4], [1, 1]), [2, 3, 3, 1]), // a window larger than the image
        padded(shape(1, [1, 2], [3, 1], [2, 2], [1, 1]), [3, 2, 4, 2]), // windows wholly in the padding
        padded(shape(1, [2, 3], [2, 2], [1, 1], [1, 1]), [1, 0, 0, 2]), // 1×1, but with padding
        Conv2dShape::same(2, [5, 7], 3, 9, [3, 3], [2, 2]),
        Conv2dShape::same(1, [6, 6], 9, 3, [5, 5], [1, 1]), // runs longer than one vector
        padded(shape(2, [4, 5], [17, 2], [3, 2], [1, 1]), [2, 0, 0, 1]), // dx by a convolution
        padded(shape(1, [3, 3], [16, 3], [2, 3], [1, 1]), [1, 1, 3, 0]), // not, the left padding being too wide
        shape(1, [2, 3], [16, 2], [1, 1], [1, 1]),
        shape(0, [3, 3], [2, 2], [2, 2], [1, 1]),
        shape(2, [3, 3], [0, 2], [2, 2], [1, 1]),
        shape(2, [3, 3], [2, 0], [2, 2], [1, 1]),
    ]
}

#[test]
fn forward_equals_the_plain_sum() {
    for s in small_shapes() {
        let (x, w, b) = (random(num_inputs(&s), 1), random(num_weights(&s), 2), random(s.outputs, 3));
        for (bias, activation) in
            [(None, Activation::Identity), (Some(&b[..]), Activation::Identity), (Some(&b[..]), Activation::Relu)]
        {
            let mut y = vec![f32::NAN; num_outputs(&s)];
            forward(&mut y, &x, &w, bias, &s, activation).unwrap();
            let mut expected = reference(&to_f64(&x), &to_f64(&w), bias.map(to_f64).as_deref(), &s);
            if activation == Activation::Relu {
                expected.iter_mut().for_each(|y| *y = y.max(0.0));
            }
            assert_close(&y, &expected, TOLERANCE, 0.0, &format!("{s:?} {activation:?}"));
        }
    }
}

#[test]
fn backward_equals_central_differences() {
    for s in small_shapes() {
        let (x, w, dz) = (random(num_inputs(&s), 1), random(num_weights(&s), 2), random(num_outputs(&s), 4));
        let (mut dx, mut dw, mut db) = (vec![f32::NAN; x.len()], vec![f32::NAN; w.len()], vec![f32::NAN; s.outputs]);
        backward_weight(&mut dw, Some(&mut db), &dz, &x, &s).unwrap();
        backward_input(&mut dx, &dz, &w, &s).unwrap();

        let (x, w, b, dz) = (to_f64(&x), to_f64(&w), vec![0.1; s.outputs], to_f64(&dz));
        let loss = |x: &[f64], w: &[f64], b: &[f64]| dot(&reference(x, w, Some(b), &s), &dz);
        // The loss is linear in each argument, so a large step costs nothing and cancels little.
        let name = format!("{s:?}");
        assert_close(&dx, &central_difference(&mut |x| loss(x, &w, &b), &x, 0.5), TOLERANCE, 1e-9, &name);
        assert_close(&dw, &central_difference(&mut |w| loss(&x, w, &b), &w, 0.5), TOLERANCE, 1e-9, &name);
        assert_close(&db, &central_difference(&mut |b| loss(&x, &w, b), &b, 0.5), TOLERANCE, 1e-9, &name);
    }
}

/// Shapes of several tiles, groups and blocks each.
fn large_shapes() -> Vec<Conv2dShape> {
    vec![
        Conv2dShape::same(3, [33, 31], 3, 4, [5, 5], [1, 1]), // a short last tile
        Conv2dShape::same(9, [16, 16], 5, 7, [3, 3], [2, 2]), // dx by way of windows, several images a task
        shape(1, [40, 41], [2, 3], [2, 3], [2, 1]),           // dx by way of windows, several tiles an image
        shape(5, [20, 20], [5, 3], [1, 1], [1, 1]),
        padded(shape(2, [3, 3], [170, 180], [3, 3], [1, 1]), [1, 0, 1, 1]), // dW in blocks
        shape(2, [2, 2], [700, 400], [1, 1], [1, 1]),                       // the same without windows
        Conv2dShape::same(9, [16, 16], 32, 48, [3, 3], [1, 1]),             // fewer products, a short last task
        padded(shape(8, [18, 16], [48, 32], [3, 3], [1, 1]), [0, 2, 2, 0]), // and a border on two sides
        padded(shape(33, [6, 10], [32, 32], [3, 3], [1, 1]), [1, 1, 0, 0]), // and lines of four tiles
        Conv2dShape::same(9, [16, 16], 32, 48, [5, 5], [1, 1]),             // the same for 5×5
        padded(shape(13, [18, 14], [48, 32], [5, 5], [1, 1]), [0, 2, 4, 0]), // and a border on two sides
        Conv2dShape::same(9, [16, 16], 64, 80, [5, 5], [1, 1]),             // and dW a place after another
        Conv2dShape::same(9, [16, 16], 96, 96, [3, 3], [1, 1]),             // which 3×3 has too
    ]
}

#[test]
fn all_three_kernels_equal_the_plain_sums_over_many_tiles() {
    for s in large_shapes() {
        let (x, w, dz) = (random(num_inputs(&s), 1), random(num_weights(&s), 2), random(num_outputs(&s), 3));
        let (mut y, mut dx, mut dw) = (vec![f32::NAN; dz.len()], vec![f32::NAN; x.len()], vec![f32::NAN; w.len()]);
        let mut db = vec![f32::NAN; s.outputs];
        forward(&mut y, &x, &w, None, &s, Activation::Identity).unwrap();
        backward_weight(&mut dw, Some(&mut db), &dz, &x, &s).unwrap();
        backward_input(&mut dx, &dz, &w, &s).unwrap();

        let (x, w, dz) = (to_f64(&x), to_f64(&w), to_f64(&dz));
        let (mut y_expected, mut dx_expected) = (vec![0.0; dz.len()], vec![0.0; x.len()]);
        let (mut dw_expected, mut db_expected) = (vec![0.0; w.len()], vec![0.0; s.outputs]);
        for_each_term(&s, |xi, wi, yi| {
            y_expected[yi] += x[xi] * w[wi];
            dx_expected[xi] += dz[yi] * w[wi];
            dw_expected[wi] += dz[yi] * x[xi];
        });
        dz.iter().enumerate().for_each(|(i, dz)| db_expected[i % s.outputs] += dz);
        assert_close(&y, &y_expected, TOLERANCE, 0.0, &format!("y of {s:?}"));
        assert_close(&dx, &dx_expected, TOLERANCE, 0.0, &format!("dx of {s:?}"));
        assert_close(&dw, &dw_expected, TOLERANCE, 0.0, &format!("dw of {s:?}"));
        assert_close(&db, &db_expected, TOLERANCE, 0.0, &format!("db of {s:?}"));
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for s in large_shapes().into_iter().chain([Conv2dShape::same(40, [16, 16], 20, 30, [3, 3], [1, 1])]) {
        let (x, w, b) = (random(num_inputs(&s), 1), random(num_weights(&s), 2), random(s.outputs, 3));
        assert_same_bits_on_any_threads("conv2d", || {
            let (mut y, mut dx, mut dw) = (vec![0.0; num_outputs(&s)], vec![0.0; x.len()], vec![0.0; w.len()]);
            let mut db = vec![0.0; s.outputs];
            forward(&mut y, &x, &w, Some(&b), &s, Activation::Relu).unwrap();
            backward_weight(&mut dw, Some(&mut db), &y, &x, &s).unwrap();
            backward_input(&mut dx, &y, &w, &s).unwrap();
            [y, dx, dw, db].concat()
        });
    }
}

#[test]
fn same_padding_is_that_of_tensorflow() {
    // size, kernel, stride → before, after, output; from tf.nn.conv2d's documentation and its odd cases.
    for (size, kernel, stride, before, after, out) in [
        (5, 3, 1, 1, 1, 5),
        (32, 5, 1, 2, 2, 32),
        (32, 3, 2, 0, 1, 16),
        (7, 3, 2, 1, 1, 4),
        (4, 2, 1, 0, 1, 4),
        (5, 1, 2, 0, 0, 3),
    ] {
        let s = Conv2dShape::same(1, [size, 9], 1, 1, [kernel, 1], [stride, 1]);
        assert_eq!(
            [s.padding.top, s.padding.bottom, s.out_height().unwrap()],
            [before, after, out],
            "{size} {kernel} {stride}"
        );
    }
}

#[test]
fn bad_shapes_are_refused() {
    let good = shape(1, [3, 3], [1, 1], [2, 2], [1, 1]);
    let run = |s: &Conv2dShape, lens: [usize; 3]| {
        let (mut y, x, w) = (vec![0.0; lens[0]], vec![0.0; lens[1]], vec![0.0; lens[2]]);
        let refusals = [
            forward(&mut y, &x, &w, None, s, Activation::Identity).unwrap_err().to_string(),
            backward_weight(&mut w.clone(), None, &y, &x, s).unwrap_err().to_string(),
            backward_input(&mut x.clone(), &y, &w, s).unwrap_err().to_string(),
        ];
        refusals[0].clone()
    };
    assert_eq!(run(&good, [4, 8, 4]), "conv2d: `x` must have length 9, got 8");
    assert_eq!(run(&good, [5, 9, 4]), "conv2d: `y` must have length 4, got 5");
    assert_eq!(run(&good, [4, 9, 5]), "conv2d: `weight` must have length 4, got 5");
    let stuck = Conv2dShape { stride: [1, 0], ..good };
    assert_eq!(run(&stuck, [4, 9, 4]), "conv2d: `stride` must be at least 1, got 0");
    let empty = Conv2dShape { kernel: [0, 2], ..good };
    assert_eq!(run(&empty, [4, 9, 4]), "conv2d: `kernel` must be at least 1, got 0");
    let wide = Conv2dShape { kernel: [2, 4], ..good };
    assert_eq!(
        run(&wide, [4, 9, 4]),
        "conv2d: `width` must be with its padding at least the size of the window, got 3"
    );
    let far = padded(good, [usize::MAX, 1, 0, 0]);
    assert_eq!(run(&far, [4, 9, 4]), "conv2d: `height` must be small enough to add its padding, got 3");
    let huge = Conv2dShape { batch: usize::MAX, ..good };
    assert_eq!(run(&huge, [4, 9, 4]), "conv2d: the product of the sizes is too large");
    let mut y = [0.0; 4];
    let error = forward(&mut y, &[0.0; 9], &[0.0; 4], Some(&[]), &good, Activation::Identity).unwrap_err();
    assert_eq!(error.to_string(), "conv2d: `bias` must have length 1, got 0");
}

#[test]
fn sizes_that_only_emptiness_makes_possible_do_no_harm() {
    let endless = Conv2dShape { batch: 0, ..padded(shape(1, [3, 3], [1, 1], [2, 2], [1, 1]), [1 << 61, 0, 0, 0]) };
    forward(&mut [], &[], &[0.0; 4], None, &endless, Activation::Identity).unwrap();
    let mut dw = [1.0; 4];
    backward_weight(&mut dw, None, &[], &[], &endless).unwrap();
    assert_eq!(dw, [0.0; 4]);
    backward_input(&mut [], &[], &[0.0; 4], &endless).unwrap();
}

#[test]
fn padding_and_strides_near_the_largest_number_do_no_overflow() {
    let far = 1usize << 61;
    let s = padded(shape(1, [1, 1], [3, 1], [1, 1], [far, far]), [0, far, far, far]);
    assert_eq!([s.out_height().unwrap(), s.out_width().unwrap()], [2, 3]);
    let mut y = [f32::NAN; 6];
    forward(&mut y, &[1.0, 2.0, 3.0], &[1.0; 3], None, &s, Activation::Identity).unwrap();
    assert_eq!(y, [0.0, 6.0, 0.0, 0.0, 0.0, 0.0]);
    let mut dx = [f32::NAN; 3];
    backward_input(&mut dx, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0; 3], &s).unwrap();
    assert_eq!(dx, [2.0; 3]);
}
