//! Long short-term memory.

use ktied_kernels::lstm::{
    HiddenGradient, LstmGrads, LstmShape, LstmTape, LstmTapeMut, LstmWeights, backward, forward,
};

use crate::reference::{
    assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, central_difference, dot, random,
    to_f64,
};

/// Errors of the activations, a few ulp each, through the steps of a sequence.
const TOLERANCE: f64 = 1e-5;

struct Problem {
    shape: LstmShape,
    x: Vec<f32>,
    kernel: Vec<f32>,
    recurrent: Vec<f32>,
    bias: Vec<f32>,
}

impl Problem {
    fn new([time, batch, inputs, hidden]: [usize; 4]) -> Self {
        let shape = LstmShape { time, batch, inputs, hidden };
        let scaled = |len, seed| random(len, seed).iter().map(|w| 0.5 * w).collect::<Vec<f32>>();
        let mut bias = scaled(4 * hidden, 4);
        bias[hidden..2 * hidden].iter_mut().for_each(|b| *b += 1.0);
        let (kernel, recurrent) = (scaled(inputs * 4 * hidden, 2), scaled(hidden * 4 * hidden, 3));
        Self { shape, x: random(time * batch * inputs, 1), kernel, recurrent, bias }
    }

    fn weights(&self) -> LstmWeights<'_> {
        LstmWeights { kernel: &self.kernel, recurrent: &self.recurrent, bias: Some(&self.bias) }
    }

    fn num_states(&self) -> usize {
        self.shape.time * self.shape.batch * self.shape.hidden
    }

    /// Hidden states, cells, gates.
    fn forward(&self, weights: LstmWeights<'_>) -> [Vec<f32>; 3] {
        let len = self.num_states();
        let (mut hidden, mut cells, mut gates) = (vec![f32::NAN; len], vec![f32::NAN; len], vec![f32::NAN; 4 * len]);
        let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
        forward(tape, &self.x, weights, self.shape).unwrap();
        [hidden, cells, gates]
    }

    /// dx, dkernel, drecurrent, dbias.
    fn backward(&self, dhidden: HiddenGradient<'_>) -> [Vec<f32>; 4] {
        let [hidden, cells, gates] = self.forward(self.weights());
        let new = |len| vec![f32::NAN; len];
        let (mut dgates, mut dx, mut dbias) = (new(gates.len()), new(self.x.len()), new(self.bias.len()));
        let (mut dkernel, mut drecurrent) = (new(self.kernel.len()), new(self.recurrent.len()));
        let grads = LstmGrads {
            gates: &mut dgates,
            x: Some(&mut dx),
            kernel: Some(&mut dkernel),
            recurrent: Some(&mut drecurrent),
            bias: Some(&mut dbias),
        };
        let tape = LstmTape { hidden: &hidden, cells: &cells, gates: &gates };
        backward(grads, dhidden, &self.x, tape, self.weights(), self.shape).unwrap();
        [dx, dkernel, drecurrent, dbias]
    }
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// Hidden states of all steps.
fn reference(x: &[f64], kernel: &[f64], recurrent: &[f64], bias: &[f64], shape: LstmShape) -> Vec<f64> {
    let LstmShape { time, batch, inputs, hidden } = shape;
    let (mut h, mut c, mut all) = (vec![0.0; batch * hidden], vec![0.0; batch * hidden], Vec::new());
    for t in 0..time {
        let before = h.clone();
        for b in 0..batch {
            for j in 0..hidden {
                let sum = |gate: usize| {
                    let column = gate * hidden + j;
                    let from_x = (0..inputs).map(|m| x[(t * batch + b) * inputs + m] * kernel[m * 4 * hidden + column]);
                    let from_h = (0..hidden).map(|k| before[b * hidden + k] * recurrent[k * 4 * hidden + column]);
                    from_x.sum::<f64>() + from_h.sum::<f64>() + bias[column]
                };
                let at = b * hidden + j;
                c[at] = sigmoid(sum(1)) * c[at] + sigmoid(sum(0)) * sum(2).tanh();
                h[at] = sigmoid(sum(3)) * c[at].tanh();
            }
        }
        all.extend_from_slice(&h);
    }
    all
}

#[test]
fn forward_equals_the_plain_recurrence() {
    for sizes in [
        [1, 1, 1, 1],
        [4, 3, 2, 5],
        [3, 1, 0, 2],
        [2, 70, 3, 9],
        [5, 9, 4, 17],
        [0, 2, 3, 4],
        [2, 0, 3, 4],
        [2, 3, 4, 0],
    ] {
        let problem = Problem::new(sizes);
        let (x, kernel, recurrent) = (to_f64(&problem.x), to_f64(&problem.kernel), to_f64(&problem.recurrent));
        let expected = reference(&x, &kernel, &recurrent, &to_f64(&problem.bias), problem.shape);
        let [hidden, ..] = problem.forward(problem.weights());
        assert_close(&hidden, &expected, TOLERANCE, 0.0, &format!("{sizes:?}"));
        let expected = reference(&x, &kernel, &recurrent, &vec![0.0; problem.bias.len()], problem.shape);
        let [hidden, ..] = problem.forward(LstmWeights { bias: None, ..problem.weights() });
        assert_close(&hidden, &expected, TOLERANCE, 0.0, &format!("{sizes:?} without bias"));
    }
}

#[test]
fn backward_equals_central_differences() {
    for sizes in [[1, 1, 1, 1], [4, 3, 2, 5], [3, 11, 1, 2], [3, 1, 0, 2], [0, 2, 3, 2], [2, 0, 3, 2]] {
        let problem = Problem::new(sizes);
        let (num_states, num_last) = (problem.num_states(), problem.shape.batch * problem.shape.hidden);
        let every = random(num_states, 5);
        let last = random(num_last, 6);
        let mut only_last = vec![0.0; num_states];
        only_last[num_states.saturating_sub(num_last)..].copy_from_slice(&last[..num_last.min(num_states)]);

        for (dhidden, weights) in [(HiddenGradient::All(&every), &every), (HiddenGradient::Last(&last), &only_last)] {
            let [dx, dkernel, drecurrent, dbias] = problem.backward(dhidden);
            let weights = to_f64(weights);
            let (x, kernel) = (to_f64(&problem.x), to_f64(&problem.kernel));
            let (recurrent, bias) = (to_f64(&problem.recurrent), to_f64(&problem.bias));
            let loss =
                |x: &[f64], k: &[f64], r: &[f64], b: &[f64]| dot(&reference(x, k, r, b, problem.shape), &weights);
            let close = |found: &[f32], expected: Vec<f64>, what: &str| {
                assert_close(found, &expected, TOLERANCE, 1e-7, &format!("{what} of {sizes:?}"));
            };
            close(&dx, central_difference(&mut |x| loss(x, &kernel, &recurrent, &bias), &x, 1e-5), "dx");
            close(&dkernel, central_difference(&mut |k| loss(&x, k, &recurrent, &bias), &kernel, 1e-5), "dkernel");
            close(
                &drecurrent,
                central_difference(&mut |r| loss(&x, &kernel, r, &bias), &recurrent, 1e-5),
                "drecurrent",
            );
            close(&dbias, central_difference(&mut |b| loss(&x, &kernel, &recurrent, b), &bias, 1e-5), "dbias");
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let problem = Problem::new([7, 67, 20, 33]);
    let dhidden = random(problem.num_states(), 5);
    assert_same_bits_on_any_threads("lstm", || {
        let tape = problem.forward(problem.weights()).concat();
        [tape, problem.backward(HiddenGradient::All(&dhidden)).concat()].concat()
    });
}

#[test]
fn any_instruction_set_gives_the_same_bits_apart_from_the_products() {
    // One step without input: the gates are made of the bias alone, and no product has a term.
    let problem = Problem::new([1, 20, 0, 33]);
    let dhidden = random(problem.num_states(), 5);
    assert_same_bits_on_any_level("lstm", || {
        let [_, _, _, dbias] = problem.backward(HiddenGradient::All(&dhidden));
        [problem.forward(problem.weights()).concat(), dbias].concat()
    });
}

#[test]
fn bad_shapes_are_refused() {
    let problem = Problem::new([2, 3, 4, 5]);
    let run = |weights: LstmWeights<'_>, x: &[f32], shape: LstmShape, lens: [usize; 3]| {
        let (mut hidden, mut cells, mut gates) = (vec![0.0; lens[0]], vec![0.0; lens[1]], vec![0.0; lens[2]]);
        let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
        forward(tape, x, weights, shape).unwrap_err().to_string()
    };
    let (weights, x, shape) = (problem.weights(), &problem.x[..], problem.shape);
    assert_eq!(run(weights, &x[1..], shape, [30, 30, 120]), "lstm: `x` must have length 24, got 23");
    assert_eq!(run(weights, x, shape, [30, 29, 120]), "lstm: `cells` must have length 30, got 29");
    assert_eq!(run(weights, x, shape, [30, 30, 30]), "lstm: `gates` must have length 120, got 30");
    let short = LstmWeights { recurrent: &problem.recurrent[1..], ..weights };
    assert_eq!(run(short, x, shape, [30, 30, 120]), "lstm: `recurrent` must have length 100, got 99");
    let endless = LstmShape { hidden: usize::MAX, ..shape };
    assert_eq!(run(weights, x, endless, [30, 30, 120]), "lstm: the product of the sizes is too large");

    let [hidden, cells, gates] = problem.forward(weights);
    let tape = LstmTape { hidden: &hidden, cells: &cells, gates: &gates };
    let mut dgates = vec![7.0; gates.len()];
    let grads = LstmGrads { gates: &mut dgates, x: None, kernel: None, recurrent: None, bias: None };
    let error = backward(grads, HiddenGradient::Last(&hidden), x, tape, weights, shape).unwrap_err();
    assert_eq!(error.to_string(), "lstm backward: `dhidden` must have length 15, got 30");
    assert!(dgates.iter().all(|d| *d == 7.0), "nothing is written before everything is checked");
}
