//! Convolution under Flipout, fused, against convolutions and signs that are kernels of their own.

use ktied_kernels::activation::Activation;
use ktied_kernels::conv::flipout::{FlipoutGrads, FlipoutWeights, backward, forward};
use ktied_kernels::conv::{self, Conv2dShape, Padding};
use ktied_kernels::signs::{self, SignShape};
use ktied_kernels::{NoiseKey, Purpose};

use crate::reference::{assert_close, assert_same_bits_on_any_threads, random, to_f64};

/// Two sums of a few thousand products in single precision, in another order, differ by about √4000·6e-8 of their size.
const TOLERANCE: f64 = 4e-6;

/// Operands of a pass.
struct Problem {
    shape: Conv2dShape,
    x: Vec<f32>,
    loc: Vec<f32>,
    deviation: Vec<f32>,
    bias: Vec<f32>,
    dz: Vec<f32>,
}

impl Problem {
    fn new(shape: Conv2dShape) -> Self {
        let weight_len = shape.kernel[0] * shape.kernel[1] * shape.channels * shape.outputs;
        let places = shape.out_height().unwrap() * shape.out_width().unwrap();
        let x = random(shape.batch * shape.height * shape.width * shape.channels, 1);
        let (loc, deviation, bias) = (random(weight_len, 2), random(weight_len, 3), random(shape.outputs, 4));
        Self { shape, x, loc, deviation, bias, dz: random(shape.batch * places * shape.outputs, 5) }
    }

    fn weights(&self) -> FlipoutWeights<'_> {
        let key = |purpose| NoiseKey::new(6).child(purpose);
        let (input_signs, output_signs) = (key(Purpose::InputSigns).into(), key(Purpose::OutputSigns).into());
        FlipoutWeights { loc: &self.loc, deviation: &self.deviation, input_signs, output_signs }
    }

    fn input_signs(&self) -> SignShape {
        let Conv2dShape { batch, height, width, channels, .. } = self.shape;
        SignShape { batch, positions: height * width, channels }
    }

    fn output_signs(&self) -> SignShape {
        let (batch, channels) = (self.shape.batch, self.shape.outputs);
        SignShape { batch, positions: self.shape.out_height().unwrap() * self.shape.out_width().unwrap(), channels }
    }

    fn signed_x(&self) -> Vec<f32> {
        let mut signed = vec![f32::NAN; self.x.len()];
        signs::apply(&mut signed, &self.x, self.input_signs(), self.weights().input_signs).unwrap();
        signed
    }

    fn forward(&self, bias: Option<&[f32]>, activation: Activation) -> Vec<f32> {
        let mut y = vec![f32::NAN; self.dz.len()];
        forward(&mut y, &self.x, self.weights(), bias, &self.shape, activation).unwrap();
        y
    }

    fn separate_forward(&self, bias: Option<&[f32]>, activation: Activation) -> Vec<f32> {
        let (mut y, mut deviation) = (vec![f32::NAN; self.dz.len()], vec![f32::NAN; self.dz.len()]);
        let identity = Activation::Identity;
        conv::forward(&mut y, &self.x, &self.loc, bias, &self.shape, identity).unwrap();
        conv::forward(&mut deviation, &self.signed_x(), &self.deviation, None, &self.shape, identity).unwrap();
        signs::add(&mut y, &deviation, self.output_signs(), self.weights().output_signs).unwrap();
        if activation == Activation::Relu {
            y.iter_mut().for_each(|y| *y = y.max(0.0));
        }
        y
    }

    /// dx, dμ, dΔ, db.
    fn backward(&self) -> [Vec<f32>; 4] {
        let mut grads = [&self.x, &self.loc, &self.deviation, &self.bias].map(|values| vec![f32::NAN; values.len()]);
        let [x, loc, deviation, bias] = grads.each_mut().map(|grad| Some(&mut grad[..]));
        let wanted = FlipoutGrads { x, loc, deviation, bias };
        backward(wanted, &self.dz, &self.x, self.weights(), &self.shape).unwrap();
        grads
    }

    fn separate_backward(&self) -> [Vec<f32>; 4] {
        let (shape, weights) = (&self.shape, self.weights());
        let mut grads = [&self.x, &self.loc, &self.deviation, &self.bias].map(|values| vec![f32::NAN; values.len()]);
        let [dx, dloc, ddeviation, dbias] = &mut grads;
        let (mut signed_dz, mut signed_dx) = (self.dz.clone(), self.x.clone());
        signs::apply(&mut signed_dz, &self.dz, self.output_signs(), weights.output_signs).unwrap();
        conv::backward_weight(dloc, Some(dbias), &self.dz, &self.x, shape).unwrap();
        conv::backward_weight(ddeviation, None, &signed_dz, &self.signed_x(), shape).unwrap();
        conv::backward_input(dx, &self.dz, &self.loc, shape).unwrap();
        conv::backward_input(&mut signed_dx, &signed_dz, &self.deviation, shape).unwrap();
        signs::add(dx, &signed_dx, self.input_signs(), weights.input_signs).unwrap();
        grads
    }
}

fn valid(batch: usize, size: [usize; 2], channels: [usize; 2], kernel: usize, stride: usize) -> Conv2dShape {
    Conv2dShape::valid(batch, size, channels[0], channels[1], [kernel; 2], [stride; 2])
}

fn same(batch: usize, size: [usize; 2], channels: [usize; 2], kernel: usize, stride: usize) -> Conv2dShape {
    Conv2dShape::same(batch, size, channels[0], channels[1], [kernel; 2], [stride; 2])
}

/// Images of few places, which share both products, and of many, which have weights of their own; each with dx by way
/// of windows and by a convolution, and with a small dW and one in blocks.
fn shapes() -> Vec<Conv2dShape> {
    let padding = Padding { top: 2, bottom: 0, left: 1, right: 3 };
    vec![
        valid(1, [1, 1], [1, 1], 1, 1),
        valid(3, [3, 4], [3, 5], 1, 1),
        valid(3, [5, 4], [40, 33], 1, 1),
        valid(2, [5, 4], [2, 3], 1, 2),
        same(5, [9, 8], [3, 7], 3, 2),
        same(70, [5, 4], [17, 34], 3, 1), // several images a tile, several tiles
        valid(4, [7, 6], [18, 2], 5, 1),
        Conv2dShape { padding, ..valid(2, [4, 5], [1, 2], 3, 1) },
        valid(2, [2, 2], [700, 400], 1, 1), // dW in blocks
        same(3, [4, 4], [111, 283], 3, 1),  // the same, and blocks begin within the channels
        valid(3, [12, 13], [3, 5], 1, 1),
        valid(2, [20, 21], [33, 40], 1, 1),
        same(5, [25, 24], [3, 7], 3, 2), // several images a task
        same(3, [40, 35], [5, 3], 5, 1), // several tiles an image
        same(7, [13, 12], [16, 9], 3, 1),
        valid(1, [24, 23], [20, 6], 5, 2),
        same(2, [12, 12], [111, 283], 3, 1),
        same(2, [23, 23], [111, 283], 3, 2),
        valid(0, [3, 3], [2, 2], 2, 1),
        valid(2, [3, 3], [0, 2], 2, 1),
        valid(2, [14, 13], [0, 2], 2, 1),
        valid(2, [14, 13], [2, 0], 2, 1),
    ]
}

#[test]
fn forward_equals_separate_convolutions() {
    for problem in shapes().into_iter().map(Problem::new) {
        for (bias, activation) in [
            (None, Activation::Identity),
            (Some(&problem.bias[..]), Activation::Identity),
            (Some(&problem.bias[..]), Activation::Relu),
        ] {
            let expected = problem.separate_forward(bias, activation);
            let name = format!("{:?} {activation:?}", problem.shape);
            assert_close(&problem.forward(bias, activation), &to_f64(&expected), TOLERANCE, 0.0, &name);
        }
    }
}

#[test]
fn backward_equals_that_of_separate_convolutions() {
    for problem in shapes().into_iter().map(Problem::new) {
        let grads = problem.backward().into_iter().zip(problem.separate_backward());
        for ((found, expected), name) in grads.zip(["dx", "dloc", "ddeviation", "dbias"]) {
            let name = format!("{name} of {:?}", problem.shape);
            assert_close(&found, &to_f64(&expected), TOLERANCE, 0.0, &name);
        }
    }
}

#[test]
fn a_gradient_does_not_depend_on_which_others_are_wanted() {
    for problem in shapes().into_iter().map(Problem::new) {
        let all = problem.backward();
        for (index, expected) in all.iter().enumerate() {
            let mut alone = vec![f32::NAN; expected.len()];
            let mut grads = FlipoutGrads::default();
            *[&mut grads.x, &mut grads.loc, &mut grads.deviation, &mut grads.bias][index] = Some(&mut alone[..]);
            backward(grads, &problem.dz, &problem.x, problem.weights(), &problem.shape).unwrap();
            assert_eq!(&alone, expected, "{index} of {:?}", problem.shape);
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let more = [same(40, [16, 16], [20, 30], 3, 1), same(40, [5, 5], [20, 30], 3, 1), same(40, [9, 9], [9, 6], 3, 2)];
    for problem in shapes().into_iter().chain(more).map(Problem::new) {
        assert_same_bits_on_any_threads(&format!("{:?}", problem.shape), || {
            let y = problem.forward(Some(&problem.bias), Activation::Relu);
            [y, problem.backward().concat()].concat()
        });
    }
}

#[test]
fn bad_shapes_are_refused_before_anything_is_written() {
    let problem = Problem::new(valid(1, [3, 3], [1, 1], 2, 1));
    let weights = problem.weights();
    let (short, identity) = ([0.5; 3], Activation::Identity);
    let run = |len: usize, x: &[f32], weights, bias: Option<&[f32]>, shape: &Conv2dShape| {
        let mut y = vec![0.5; len];
        let error = forward(&mut y, x, weights, bias, shape, identity).unwrap_err().to_string();
        assert!(y.iter().all(|y| *y == 0.5), "{error}");
        error
    };
    let (x, shape) = (&problem.x[..], &problem.shape);
    assert_eq!(run(5, x, weights, None, shape), "conv2d flipout: `y` must have length 4, got 5");
    assert_eq!(run(4, &x[1..], weights, None, shape), "conv2d flipout: `x` must have length 9, got 8");
    let bad = FlipoutWeights { loc: &short, ..weights };
    assert_eq!(run(4, x, bad, None, shape), "conv2d flipout: `loc` must have length 4, got 3");
    let bad = FlipoutWeights { deviation: &short, ..weights };
    assert_eq!(run(4, x, bad, None, shape), "conv2d flipout: `deviation` must have length 4, got 3");
    assert_eq!(run(4, x, weights, Some(&[]), shape), "conv2d flipout: `bias` must have length 1, got 0");
    let stuck = Conv2dShape { stride: [0, 1], ..*shape };
    assert_eq!(run(4, x, weights, None, &stuck), "conv2d flipout: `stride` must be at least 1, got 0");

    let refused = |lens: [usize; 4], dz: &[f32], x: &[f32], weights| {
        let mut grads = lens.map(|len| vec![0.5; len]);
        let [dx, loc, deviation, bias] = grads.each_mut().map(|grad| Some(&mut grad[..]));
        let wanted = FlipoutGrads { x: dx, loc, deviation, bias };
        let error = backward(wanted, dz, x, weights, &problem.shape).unwrap_err().to_string();
        assert!(grads.concat().iter().all(|grad| *grad == 0.5), "{error}");
        error
    };
    let (dz, name) = (&problem.dz[..], "conv2d flipout backward");
    assert_eq!(refused([9, 4, 4, 1], &dz[1..], x, weights), format!("{name}: `dz` must have length 4, got 3"));
    assert_eq!(refused([9, 4, 4, 1], dz, &x[1..], weights), format!("{name}: `x` must have length 9, got 8"));
    assert_eq!(refused([9, 4, 4, 1], dz, x, bad), format!("{name}: `deviation` must have length 4, got 3"));
    assert_eq!(refused([8, 4, 4, 1], dz, x, weights), format!("{name}: `dx` must have length 9, got 8"));
    assert_eq!(refused([9, 5, 4, 1], dz, x, weights), format!("{name}: `dloc` must have length 4, got 5"));
    assert_eq!(refused([9, 4, 3, 1], dz, x, weights), format!("{name}: `ddeviation` must have length 4, got 3"));
    assert_eq!(refused([9, 4, 4, 2], dz, x, weights), format!("{name}: `dbias` must have length 1, got 2"));
}
