//! Convolution whose sums are pooled at once.

use ktied_kernels::activation::{self, Activation};
use ktied_kernels::conv::pooled::{backward_input, backward_weight, forward};
use ktied_kernels::conv::{self, Conv2dShape};
use ktied_kernels::pool::{self, PoolShape};

use crate::conv::{TOLERANCE, num_inputs, num_outputs, num_weights, padded, reference, shape};
use crate::reference::{
    assert_close, assert_same_bits_on_any_threads, central_difference, dot, random, random_f64, to_f64,
};

/// Small shapes, each awkward in its own way.
fn small_shapes() -> Vec<Conv2dShape> {
    vec![
        shape(1, [2, 2], [1, 1], [1, 1], [1, 1]),
        shape(2, [4, 6], [3, 5], [1, 1], [1, 1]),
        shape(2, [7, 5], [2, 3], [1, 1], [2, 3]), // 4×2 sums
        shape(2, [4, 6], [3, 17], [3, 3], [1, 1]),
        shape(1, [9, 9], [2, 3], [3, 2], [2, 1]),
        padded(shape(2, [4, 5], [1, 2], [2, 3], [1, 2]), [1, 0, 1, 3]),
        padded(shape(1, [1, 2], [3, 1], [2, 2], [1, 1]), [3, 1, 4, 1]), // windows wholly in the padding
        Conv2dShape::same(3, [4, 6], 2, 16, [3, 3], [1, 1]),
        Conv2dShape::same(2, [8, 7], 3, 9, [3, 3], [2, 2]),
        Conv2dShape::same(1, [6, 6], 3, 35, [5, 5], [1, 1]),
        Conv2dShape::same(2, [4, 4], 17, 3, [3, 3], [1, 1]), // dx by a convolution
        shape(1, [2, 4], [16, 2], [1, 1], [1, 1]),
        padded(shape(1, [3, 3], [16, 3], [2, 3], [1, 1]), [1, 1, 3, 0]), // not, the left padding being too wide
        shape(0, [3, 3], [2, 2], [2, 2], [1, 1]),
        shape(2, [3, 3], [0, 2], [2, 2], [1, 1]),
        shape(2, [3, 3], [2, 0], [2, 2], [1, 1]),
    ]
}

/// Shapes of several tiles, groups and blocks each.
fn large_shapes() -> Vec<Conv2dShape> {
    vec![
        Conv2dShape::same(5, [32, 32], 3, 8, [5, 5], [1, 1]), // tiles of dW that cut bands, and a short last one
        Conv2dShape::same(2, [2, 500], 3, 4, [5, 5], [1, 1]), // a band of more than one tile
        Conv2dShape::same(40, [8, 12], 5, 7, [3, 3], [2, 2]), // dx by way of windows, several images a task
        Conv2dShape::same(40, [4, 4], 16, 7, [3, 3], [1, 1]), // dx by a convolution, several images a task
        Conv2dShape::same(3, [24, 24], 16, 12, [5, 5], [1, 1]), // the same, several tiles an image
        padded(shape(2, [3, 4], [170, 180], [3, 3], [1, 1]), [1, 0, 1, 1]), // dW in blocks
        shape(5, [20, 20], [5, 3], [1, 1], [1, 1]),
    ]
}

/// Shapes whose sums are made of fewer products, which are not exact even for whole numbers.
fn wide_shapes() -> Vec<Conv2dShape> {
    vec![
        Conv2dShape::same(9, [16, 16], 32, 64, [5, 5], [1, 1]), // LeNet's second layer
        padded(shape(11, [18, 14], [48, 32], [5, 5], [1, 1]), [0, 2, 4, 0]),
        Conv2dShape::same(9, [16, 16], 32, 48, [3, 3], [1, 1]),
    ]
}

/// Small whole numbers: every sum of their products is exact in any order, and many are equal.
fn whole_numbers(len: usize, seed: u64) -> Vec<f32> {
    random(len, seed).iter().map(|x| (1.2 * x).round()).collect()
}

fn pooling(s: &Conv2dShape) -> PoolShape {
    let (height, width) = (s.out_height().unwrap(), s.out_width().unwrap());
    PoolShape { batch: s.batch, height, width, channels: s.outputs, kernel: [2, 2], stride: [2, 2] }
}

/// y and argmax of the separate kernels.
fn separate(x: &[f32], w: &[f32], bias: Option<&[f32]>, s: &Conv2dShape, act: Activation) -> (Vec<f32>, Vec<u8>) {
    let mut z = vec![f32::NAN; num_outputs(s)];
    conv::forward(&mut z, x, w, bias, s, Activation::Identity).unwrap();
    let (mut y, mut argmax) = (vec![f32::NAN; z.len() / 4], vec![255; z.len() / 4]);
    pool::max_forward(&mut y, &mut argmax, &z, &pooling(s)).unwrap();
    if act == Activation::Relu {
        y.iter_mut().for_each(|y| *y = if *y < 0.0 { 0.0 } else { *y });
    }
    (y, argmax)
}

fn pooled(x: &[f32], w: &[f32], bias: Option<&[f32]>, s: &Conv2dShape, act: Activation) -> (Vec<f32>, Vec<u8>) {
    let (mut y, mut argmax) = (vec![f32::NAN; num_outputs(s) / 4], vec![255; num_outputs(s) / 4]);
    forward(&mut y, &mut argmax, x, w, bias, s, act).unwrap();
    (y, argmax)
}

/// dx, dW and db of the separate kernels.
fn separate_gradients(dz: &[f32], argmax: &[u8], x: &[f32], w: &[f32], s: &Conv2dShape) -> [Vec<f32>; 3] {
    let mut expanded = vec![f32::NAN; num_outputs(s)];
    pool::max_backward(&mut expanded, dz, argmax, &pooling(s)).unwrap();
    let (mut dx, mut dw, mut db) = (vec![f32::NAN; x.len()], vec![f32::NAN; w.len()], vec![f32::NAN; s.outputs]);
    conv::backward_weight(&mut dw, Some(&mut db), &expanded, x, s).unwrap();
    conv::backward_input(&mut dx, &expanded, w, s).unwrap();
    [dx, dw, db]
}

fn gradients(dz: &[f32], argmax: &[u8], x: &[f32], w: &[f32], s: &Conv2dShape) -> [Vec<f32>; 3] {
    let (mut dx, mut dw, mut db) = (vec![f32::NAN; x.len()], vec![f32::NAN; w.len()], vec![f32::NAN; s.outputs]);
    backward_weight(&mut dw, Some(&mut db), dz, argmax, x, s).unwrap();
    backward_input(&mut dx, dz, argmax, w, s).unwrap();
    [dx, dw, db]
}

#[test]
fn forward_equals_convolution_then_pooling_ties_and_all() {
    for s in [small_shapes(), large_shapes()].concat() {
        let (x, w) = (whole_numbers(num_inputs(&s), 1), whole_numbers(num_weights(&s), 2));
        let b = whole_numbers(s.outputs, 3);
        for (bias, activation) in
            [(None, Activation::Identity), (Some(&b[..]), Activation::Identity), (Some(&b[..]), Activation::Relu)]
        {
            let (expected, found) = (separate(&x, &w, bias, &s, activation), pooled(&x, &w, bias, &s, activation));
            assert!(found == expected, "{s:?} {activation:?}: {found:?}\n{expected:?}");
        }
    }
}

#[test]
fn forward_of_any_numbers_is_that_of_convolution_then_pooling() {
    for s in [small_shapes(), large_shapes(), wide_shapes()].concat() {
        let (x, w, b) = (random(num_inputs(&s), 1), random(num_weights(&s), 2), random(s.outputs, 3));
        let (expected, _) = separate(&x, &w, Some(&b), &s, Activation::Relu);
        let (found, _) = pooled(&x, &w, Some(&b), &s, Activation::Relu);
        assert_close(&found, &to_f64(&expected), TOLERANCE, 0.0, &format!("{s:?}"));
    }
}

#[test]
fn of_equal_sums_the_first_wins_and_a_nan_before_all() {
    for outputs in [1, 16, 19] {
        let s = shape(1, [2, 4], [1, outputs], [1, 1], [1, 1]);
        let (nan, w) = (f32::NAN, vec![1.0; outputs]);
        let (y, argmax) = pooled(&[0.0, 1.0, 7.0, 8.0, 1.0, -1.0, nan, nan], &w, None, &s, Activation::Relu);
        assert_eq!(y[..outputs], vec![1.0; outputs]);
        assert!(y[outputs..].iter().all(|y| y.is_nan()));
        assert_eq!(argmax, [vec![1; outputs], vec![2; outputs]].concat());
    }
}

#[test]
fn a_nan_in_the_image_reaches_the_outputs_that_pooling_gives_it() {
    for s in small_shapes().into_iter().filter(|s| num_inputs(s) > 0 && s.outputs > 0) {
        let (mut x, w) = (whole_numbers(num_inputs(&s), 1), whole_numbers(num_weights(&s), 2));
        x[num_inputs(&s) / 2] = f32::NAN;
        let (expected, expected_at) = separate(&x, &w, None, &s, Activation::Relu);
        let (found, at) = pooled(&x, &w, None, &s, Activation::Relu);
        assert!(expected.iter().zip(&found).all(|(e, f)| e == f || (e.is_nan() && f.is_nan())), "{s:?}");
        assert_eq!(at, expected_at, "{s:?}");
    }
}

#[test]
fn gradients_equal_those_of_pooling_then_convolution() {
    for s in [small_shapes(), large_shapes()].concat() {
        let (x, w) = (whole_numbers(num_inputs(&s), 1), whole_numbers(num_weights(&s), 2));
        let dz = whole_numbers(num_outputs(&s) / 4, 4);
        let (_, argmax) = pooled(&x, &w, None, &s, Activation::Identity);
        let found = gradients(&dz, &argmax, &x, &w, &s);
        assert!(found == separate_gradients(&dz, &argmax, &x, &w, &s), "whole numbers, {s:?}");
    }
    for s in [small_shapes(), large_shapes(), wide_shapes()].concat() {
        let (x, w) = (random(num_inputs(&s), 5), random(num_weights(&s), 6));
        let (dz, (_, argmax)) = (random(num_outputs(&s) / 4, 7), pooled(&x, &w, None, &s, Activation::Identity));
        let found = gradients(&dz, &argmax, &x, &w, &s);
        for (found, expected) in found.iter().zip(separate_gradients(&dz, &argmax, &x, &w, &s)) {
            assert_close(found, &to_f64(&expected), TOLERANCE, 0.0, &format!("{s:?}"));
        }
    }
}

/// act(max(x ⋆ w) + b) in double precision.
fn pooled_reference(x: &[f64], w: &[f64], b: &[f64], s: &Conv2dShape) -> Vec<f64> {
    let (z, width) = (reference(x, w, None, s), s.out_width().unwrap());
    let largest = |i: usize| {
        let (o, position) = (i % s.outputs, i / s.outputs);
        let first = position / (width / 2) * 2 * width + position % (width / 2) * 2;
        let cells = [first, first + 1, first + width, first + width + 1].map(|row| z[row * s.outputs + o]);
        (cells.into_iter().fold(f64::NEG_INFINITY, f64::max) + b[o]).max(0.0)
    };
    (0..z.len() / 4).map(largest).collect()
}

#[test]
fn fewer_products_give_the_largest_of_the_plain_sums() {
    for s in wide_shapes() {
        let (x, w, b) = (random(num_inputs(&s), 1), random(num_weights(&s), 2), random(s.outputs, 3));
        let expected = pooled_reference(&to_f64(&x), &to_f64(&w), &to_f64(&b), &s);
        let (found, _) = pooled(&x, &w, Some(&b), &s, Activation::Relu);
        assert_close(&found, &expected, TOLERANCE, 0.0, &format!("{s:?}"));
    }
}

#[test]
fn backward_equals_central_differences() {
    for s in small_shapes() {
        let (x, w, b) = (random(num_inputs(&s), 1), random(num_weights(&s), 2), random(s.outputs, 3));
        let dy = random_f64(num_outputs(&s) / 4, 4);
        let (y, argmax) = pooled(&x, &w, Some(&b), &s, Activation::Relu);
        let mut dz: Vec<f32> = dy.iter().map(|dy| *dy as f32).collect();
        activation::backward(&mut dz, &y, Activation::Relu).unwrap();
        let [dx, dw, db] = gradients(&dz, &argmax, &x, &w, &s);

        let (x, w, b) = (to_f64(&x), to_f64(&w), to_f64(&b));
        let loss = |x: &[f64], w: &[f64], b: &[f64]| dot(&pooled_reference(x, w, b, &s), &dy);
        let name = format!("{s:?}");
        // A step so small that it changes no winner; its rounding is about 1e-9.
        assert_close(&db, &central_difference(&mut |b| loss(&x, &w, b), &b, 1e-6), TOLERANCE, 1e-7, &name);
        assert_close(&dx, &central_difference(&mut |x| loss(x, &w, &b), &x, 1e-6), TOLERANCE, 1e-7, &name);
        assert_close(&dw, &central_difference(&mut |w| loss(&x, w, &b), &w, 1e-6), TOLERANCE, 1e-7, &name);
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for s in [large_shapes(), wide_shapes()].concat() {
        let (x, w, b) = (random(num_inputs(&s), 1), random(num_weights(&s), 2), random(s.outputs, 3));
        assert_same_bits_on_any_threads("pooled conv2d", || {
            let (y, argmax) = pooled(&x, &w, Some(&b), &s, Activation::Relu);
            let gradients = gradients(&y, &argmax, &x, &w, &s).concat();
            [y, argmax.iter().map(|&a| f32::from(a)).collect(), gradients].concat()
        });
    }
}

#[test]
fn bad_shapes_are_refused() {
    let good = shape(1, [3, 3], [1, 1], [2, 2], [1, 1]);
    let run = |s: &Conv2dShape, [y, argmax, x, w]: [usize; 4]| {
        let (mut y, mut argmax, x, w) = (vec![0.0; y], vec![0; argmax], vec![0.0; x], vec![0.0; w]);
        backward_weight(&mut w.clone(), None, &y, &argmax, &x, s).unwrap_err();
        backward_input(&mut x.clone(), &y, &argmax, &w, s).unwrap_err();
        forward(&mut y, &mut argmax, &x, &w, None, s, Activation::Identity).unwrap_err().to_string()
    };
    assert_eq!(
        run(&shape(1, [4, 3], [1, 1], [2, 2], [1, 1]), [1, 1, 12, 4]),
        "conv2d pooled: `out_height` must be even, got 3"
    );
    assert_eq!(
        run(&shape(1, [3, 4], [1, 1], [2, 2], [1, 1]), [1, 1, 12, 4]),
        "conv2d pooled: `out_width` must be even, got 3"
    );
    assert_eq!(run(&good, [4, 4, 9, 4]), "conv2d pooled: `y` must have length 1, got 4");
    assert_eq!(run(&good, [1, 2, 9, 4]), "conv2d pooled: `argmax` must have length 1, got 2");
    assert_eq!(run(&good, [1, 1, 8, 5]), "conv2d pooled: `x` must have length 9, got 8");
    assert_eq!(run(&good, [1, 1, 9, 3]), "conv2d pooled: `weight` must have length 4, got 3");
    let stuck = Conv2dShape { stride: [1, 0], ..good };
    assert_eq!(run(&stuck, [1, 1, 9, 4]), "conv2d pooled: `stride` must be at least 1, got 0");
    let huge = Conv2dShape { batch: usize::MAX, ..good };
    assert_eq!(run(&huge, [1, 1, 9, 4]), "conv2d pooled: the product of the sizes is too large");
    let (mut y, x, w) = ([0.0], [0.0; 9], [0.0; 4]);
    let error = forward(&mut y, &mut [0], &x, &w, Some(&[]), &good, Activation::Identity).unwrap_err();
    assert_eq!(error.to_string(), "conv2d pooled: `bias` must have length 1, got 0");
}

#[test]
fn bad_gradients_are_refused() {
    let (s, x, w) = (shape(1, [3, 3], [1, 1], [2, 2], [1, 1]), [0.0; 9], [0.0; 4]);
    let weight = |dw: &mut [f32], db: &mut [f32], dz: &[f32], argmax: &[u8]| {
        backward_weight(dw, Some(db), dz, argmax, &x, &s).unwrap_err().to_string()
    };
    let input =
        |dx: &mut [f32], dz: &[f32], argmax: &[u8]| backward_input(dx, dz, argmax, &w, &s).unwrap_err().to_string();
    let outside = "`argmax` must be below the number of pixels of the window, got 4";
    let refusal = weight(&mut [0.0; 4], &mut [0.0], &[0.0], &[4]);
    assert_eq!(refusal, format!("conv2d pooled backward_weight: {outside}"));
    assert_eq!(input(&mut [0.0; 9], &[0.0], &[4]), format!("conv2d pooled backward_input: {outside}"));
    assert!(weight(&mut [0.0; 3], &mut [0.0], &[0.0], &[0]).ends_with("`dweight` must have length 4, got 3"));
    assert!(weight(&mut [0.0; 4], &mut [0.0; 2], &[0.0], &[0]).ends_with("`dbias` must have length 1, got 2"));
    assert!(weight(&mut [0.0; 4], &mut [0.0], &[0.0; 4], &[0]).ends_with("`dz` must have length 1, got 4"));
    assert!(input(&mut [0.0; 8], &[0.0], &[0]).ends_with("`dx` must have length 9, got 8"));
    assert!(input(&mut [0.0; 9], &[0.0], &[0; 2]).ends_with("`argmax` must have length 1, got 2"));
}

#[test]
fn sizes_that_only_emptiness_makes_possible_do_no_harm() {
    let endless = Conv2dShape { batch: 0, ..padded(shape(1, [3, 3], [1, 1], [2, 2], [1, 1]), [1 << 61, 0, 0, 0]) };
    forward(&mut [], &mut [], &[], &[0.0; 4], None, &endless, Activation::Identity).unwrap();
    let (mut dw, mut db) = ([1.0; 4], [1.0]);
    backward_weight(&mut dw, Some(&mut db), &[], &[], &[], &endless).unwrap();
    assert_eq!((dw, db), ([0.0; 4], [0.0]));
    backward_input(&mut [], &[], &[], &[0.0; 4], &endless).unwrap();
}
