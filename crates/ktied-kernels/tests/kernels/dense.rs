//! The dense layer.

use ktied_kernels::ShapeError;
use ktied_kernels::activation::{self, Activation};
use ktied_kernels::dense::{DenseGrads, DenseShape, DenseTape, backward, forward};

use crate::reference::{
    assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, central_difference, dot, matmul,
    random, to_f64,
};

/// A product of 1000 terms in single precision errs by about √1000·6e-8 of its size.
const TOLERANCE: f64 = 3e-6;

fn reference(x: &[f64], w: &[f64], b: Option<&[f64]>, shape: DenseShape, activation: Activation) -> Vec<f64> {
    let mut y = matmul(x, w, shape.batch, shape.inputs, shape.outputs);
    for (i, y) in y.iter_mut().enumerate() {
        *y += b.map_or(0.0, |b| b[i % shape.outputs]);
        if activation == Activation::Relu {
            *y = y.max(0.0);
        }
    }
    y
}

const SHAPES: [[usize; 3]; 9] =
    [[0, 3, 2], [3, 0, 2], [3, 2, 0], [1, 1, 1], [1, 7, 5], [5, 1, 3], [4, 3, 1], [9, 17, 33], [70, 65, 19]];

fn shapes() -> impl Iterator<Item = DenseShape> {
    SHAPES.into_iter().map(|[batch, inputs, outputs]| DenseShape { batch, inputs, outputs })
}

#[test]
fn forward_equals_the_plain_sum() {
    for shape in shapes() {
        let DenseShape { batch, inputs, outputs } = shape;
        let (x, w, b) = (random(batch * inputs, 1), random(inputs * outputs, 2), random(outputs, 3));
        for activation in [Activation::Identity, Activation::Relu] {
            for bias in [None, Some(&b[..])] {
                let mut y = vec![f32::NAN; batch * outputs];
                forward(&mut y, &x, &w, bias, shape, activation).unwrap();
                let bias = bias.map(to_f64);
                let expected = reference(&to_f64(&x), &to_f64(&w), bias.as_deref(), shape, activation);
                assert_close(&y, &expected, TOLERANCE, 0.0, &format!("{shape:?} {activation:?}"));
            }
        }
    }
}

#[test]
fn backward_equals_central_differences() {
    for shape in shapes().filter(|s| s.batch * s.inputs * s.outputs < 1000) {
        let DenseShape { batch, inputs, outputs } = shape;
        let (x, w, b) = (random(batch * inputs, 1), random(inputs * outputs, 2), random(outputs, 3));
        let dy = random(batch * outputs, 4);
        for activation in [Activation::Identity, Activation::Relu] {
            let (mut y, mut dz) = (vec![0.0; batch * outputs], dy.clone());
            forward(&mut y, &x, &w, Some(&b), shape, activation).unwrap();
            let (mut dx, mut dw, mut db) = (vec![f32::NAN; x.len()], vec![f32::NAN; w.len()], vec![f32::NAN; outputs]);
            let grads = DenseGrads { x: Some(&mut dx), weight: Some(&mut dw), bias: Some(&mut db) };
            backward(grads, &mut dz, DenseTape { x: &x, weight: &w, y: &y }, shape, activation).unwrap();

            let (x, w, b, dy) = (to_f64(&x), to_f64(&w), to_f64(&b), to_f64(&dy));
            let loss = |x: &[f64], w: &[f64], b: &[f64]| dot(&reference(x, w, Some(b), shape, activation), &dy);
            assert_close(&dx, &central_difference(&mut |x| loss(x, &w, &b), &x, 1e-6), TOLERANCE, 1e-7, "dx");
            assert_close(&dw, &central_difference(&mut |w| loss(&x, w, &b), &w, 1e-6), TOLERANCE, 1e-7, "dw");
            assert_close(&db, &central_difference(&mut |b| loss(&x, &w, b), &b, 1e-6), TOLERANCE, 1e-7, "db");
        }
    }
}

#[test]
fn gradients_that_are_not_asked_for_do_not_change_the_others() {
    let shape = DenseShape { batch: 6, inputs: 5, outputs: 4 };
    let (x, w, y, dy) = (random(30, 1), random(20, 2), random(24, 3), random(24, 4));
    let tape = DenseTape { x: &x, weight: &w, y: &y };
    let (mut dx, mut dw) = ([0.0; 30], [0.0; 20]);
    let both = DenseGrads { x: Some(&mut dx), weight: Some(&mut dw), bias: None };
    backward(both, &mut dy.clone(), tape, shape, Activation::Relu).unwrap();
    let mut dw_alone = [0.0; 20];
    let alone = DenseGrads { weight: Some(&mut dw_alone), ..Default::default() };
    backward(alone, &mut dy.clone(), tape, shape, Activation::Relu).unwrap();
    assert_eq!(dw, dw_alone);
}

#[test]
fn relu_keeps_nan_and_passes_its_gradient() {
    let shape = DenseShape { batch: 1, inputs: 1, outputs: 3 };
    let mut y = [0.0; 3];
    forward(&mut y, &[1.0], &[f32::NAN, -1.0, 2.0], None, shape, Activation::Relu).unwrap();
    assert!(y[0].is_nan() && y[1..] == [0.0, 2.0]);
    let mut dz = [1.0; 3];
    activation::backward(&mut dz, &y, Activation::Relu).unwrap();
    assert_eq!(dz, [1.0, 0.0, 1.0]);
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let shape = DenseShape { batch: 300, inputs: 257, outputs: 130 };
    let (x, w, b, dy) = (random(300 * 257, 1), random(257 * 130, 2), random(130, 3), random(300 * 130, 4));
    assert_same_bits_on_any_threads("dense", || {
        let (mut y, mut dz) = (vec![0.0; dy.len()], dy.clone());
        forward(&mut y, &x, &w, Some(&b), shape, Activation::Relu).unwrap();
        let (mut dx, mut dw, mut db) = (vec![0.0; x.len()], vec![0.0; w.len()], vec![0.0; b.len()]);
        let grads = DenseGrads { x: Some(&mut dx), weight: Some(&mut dw), bias: Some(&mut db) };
        backward(grads, &mut dz, DenseTape { x: &x, weight: &w, y: &y }, shape, Activation::Relu).unwrap();
        [y, dz, dx, dw, db].concat()
    });
}

#[test]
fn any_instruction_set_gives_the_same_bits_apart_from_the_products() {
    let shape = DenseShape { batch: 300, inputs: 0, outputs: 130 };
    let (b, y, dy) = (random(130, 3), random(300 * 130, 4), random(300 * 130, 5));
    assert_same_bits_on_any_level("bias, activation and its gradient", || {
        let (mut out, mut dz, mut db) = (vec![0.0; y.len()], dy.clone(), vec![0.0; 130]);
        forward(&mut out, &[], &[], Some(&b), shape, Activation::Relu).unwrap();
        let grads = DenseGrads { bias: Some(&mut db), ..Default::default() };
        backward(grads, &mut dz, DenseTape { x: &[], weight: &[], y: &y }, shape, Activation::Relu).unwrap();
        [out, dz, db].concat()
    });
}

#[test]
fn bad_shapes_are_refused() {
    let shape = DenseShape { batch: 2, inputs: 3, outputs: 4 };
    let mut y = [7.0; 8];
    let error = forward(&mut y, &[0.0; 5], &[0.0; 12], None, shape, Activation::Relu).unwrap_err();
    assert_eq!(error.to_string(), "dense: `x` must have length 6, got 5");
    let error = forward(&mut y, &[0.0; 6], &[0.0; 12], Some(&[0.0; 3]), shape, Activation::Relu).unwrap_err();
    assert_eq!(error.to_string(), "dense: `bias` must have length 4, got 3");
    let huge = DenseShape { batch: usize::MAX, ..shape };
    let error = forward(&mut y, &[0.0; 6], &[0.0; 12], None, huge, Activation::Relu).unwrap_err();
    assert_eq!(error, ShapeError::Overflow { kernel: "dense" });
    let tape = DenseTape { x: &[0.0; 6], weight: &[0.0; 12], y: &[0.0; 7] };
    let error = backward(DenseGrads::default(), &mut y, tape, shape, Activation::Relu).unwrap_err();
    assert_eq!(error.to_string(), "activation backward: `y` must have length 8, got 7");
    assert_eq!(y, [7.0; 8], "nothing is written before everything is checked");
}
