//! Long short-term memory.

use ktied_kernels::lstm::{
    HiddenGradient, LstmFlip, LstmFlipGrads, LstmGrads, LstmShape, LstmTape, LstmTapeMut, LstmWeights, backward,
    forward,
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
    flip: Option<Flip>,
}

/// Perturbations, and signs of x, of the hidden state and of the gates.
struct Flip {
    kernel: Vec<f32>,
    recurrent: Vec<f32>,
    signs: [Vec<f32>; 3],
}

impl Problem {
    fn new(sizes: [usize; 4]) -> Self {
        Self { flip: None, ..Self::with_flip(sizes) }
    }

    fn with_flip([time, batch, inputs, hidden]: [usize; 4]) -> Self {
        let shape = LstmShape { time, batch, inputs, hidden };
        let scaled = |len, seed| random(len, seed).iter().map(|w| 0.5 * w).collect::<Vec<f32>>();
        let mut bias = scaled(4 * hidden, 4);
        bias[hidden..2 * hidden].iter_mut().for_each(|b| *b += 1.0);
        let (kernel, recurrent) = (scaled(inputs * 4 * hidden, 2), scaled(hidden * 4 * hidden, 3));
        let sign = |width: usize, seed| random(batch * width, seed).iter().map(|z| z.signum()).collect::<Vec<f32>>();
        let flip = Flip {
            kernel: scaled(inputs * 4 * hidden, 7),
            recurrent: scaled(hidden * 4 * hidden, 8),
            signs: [sign(inputs, 9), sign(hidden, 10), sign(4 * hidden, 11)],
        };
        Self { shape, x: random(time * batch * inputs, 1), kernel, recurrent, bias, flip: Some(flip) }
    }

    fn weights(&self) -> LstmWeights<'_> {
        let flip = self.flip.as_ref().map(|Flip { kernel, recurrent, signs: [x_signs, hidden_signs, gate_signs] }| {
            LstmFlip { kernel, recurrent, x_signs, hidden_signs, gate_signs }
        });
        LstmWeights { kernel: &self.kernel, recurrent: &self.recurrent, bias: Some(&self.bias), flip }
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

    /// dx, dkernel, drecurrent, dbias, and with Flipout those of its two perturbations.
    fn backward(&self, dhidden: HiddenGradient<'_>) -> [Vec<f32>; 6] {
        let [hidden, cells, mut gates] = self.forward(self.weights());
        let new = |len| vec![f32::NAN; len];
        let (mut dx, mut dbias) = (new(self.x.len()), new(self.bias.len()));
        let (mut dkernel, mut drecurrent) = (new(self.kernel.len()), new(self.recurrent.len()));
        let len = |values: &[f32]| self.flip.as_ref().map_or(0, |_| values.len());
        let (mut dflip_kernel, mut dflip_recurrent) = (new(len(&self.kernel)), new(len(&self.recurrent)));
        let grads = LstmGrads {
            gates: &mut gates,
            x: Some(&mut dx),
            kernel: Some(&mut dkernel),
            recurrent: Some(&mut drecurrent),
            bias: Some(&mut dbias),
            flip: LstmFlipGrads { kernel: Some(&mut dflip_kernel), recurrent: Some(&mut dflip_recurrent) },
        };
        let tape = LstmTape { hidden: &hidden, cells: &cells };
        backward(grads, dhidden, &self.x, tape, self.weights(), self.shape).unwrap();
        [dx, dkernel, drecurrent, dbias, dflip_kernel, dflip_recurrent]
    }

    /// x, kernel, recurrent, bias, and with Flipout its two perturbations: the operands of [`reference`].
    fn operands(&self) -> Vec<Vec<f64>> {
        let flip = self.flip.iter().flat_map(|flip| [&flip.kernel, &flip.recurrent]);
        [&self.x, &self.kernel, &self.recurrent, &self.bias].into_iter().chain(flip).map(|v| to_f64(v)).collect()
    }
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// Hidden states of all steps; example b sees the weights W + ΔW∘(s_b r_bᵀ).
fn reference(operands: &[Vec<f64>], signs: Option<&[Vec<f32>; 3]>, shape: LstmShape) -> Vec<f64> {
    let LstmShape { time, batch, inputs, hidden } = shape;
    let [x, kernel, recurrent, bias, perturbations @ ..] = operands else { panic!("at least four operands") };
    let seen = |kernel: &[f64], part: usize, rows: usize, b: usize, row: usize, column: usize| {
        let at = row * 4 * hidden + column;
        let deviation = signs.map_or(0.0, |signs| {
            let sign = signs[part][b * rows + row] * signs[2][b * 4 * hidden + column];
            perturbations[part][at] * f64::from(sign)
        });
        kernel[at] + deviation
    };
    let (mut h, mut c, mut all) = (vec![0.0; batch * hidden], vec![0.0; batch * hidden], Vec::new());
    for t in 0..time {
        let before = h.clone();
        for b in 0..batch {
            for j in 0..hidden {
                let sum = |gate: usize| {
                    let column = gate * hidden + j;
                    let from_x =
                        (0..inputs).map(|m| x[(t * batch + b) * inputs + m] * seen(kernel, 0, inputs, b, m, column));
                    let from_h = (0..hidden).map(|k| before[b * hidden + k] * seen(recurrent, 1, hidden, b, k, column));
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
        for problem in [Problem::new(sizes), Problem::with_flip(sizes)] {
            let signs = problem.flip.as_ref().map(|flip| &flip.signs);
            let mut operands = problem.operands();
            let [hidden, ..] = problem.forward(problem.weights());
            let expected = reference(&operands, signs, problem.shape);
            assert_close(&hidden, &expected, TOLERANCE, 0.0, &format!("{sizes:?}"));
            operands[3].fill(0.0);
            let expected = reference(&operands, signs, problem.shape);
            let [hidden, ..] = problem.forward(LstmWeights { bias: None, ..problem.weights() });
            assert_close(&hidden, &expected, TOLERANCE, 0.0, &format!("{sizes:?} without bias"));
        }
    }
}

#[test]
fn backward_equals_central_differences() {
    // The last has more rows than are multiplied at once, the two before it more gates than one task takes.
    let small = [[1, 1, 1, 1], [4, 3, 2, 5], [3, 11, 1, 2], [3, 1, 0, 2], [0, 2, 3, 2], [2, 0, 3, 2]];
    let sizes = [&small[..], &[[2, 3, 2, 9], [0, 2, 3, 9], [70, 16, 1, 2]]].concat();
    for sizes in sizes {
        for problem in [Problem::new(sizes), Problem::with_flip(sizes)] {
            let (num_states, num_last) = (problem.num_states(), problem.shape.batch * problem.shape.hidden);
            let (every, last) = (random(num_states, 5), random(num_last, 6));
            let mut only_last = vec![0.0; num_states];
            only_last[num_states.saturating_sub(num_last)..].copy_from_slice(&last[..num_last.min(num_states)]);
            let (operands, signs) = (problem.operands(), problem.flip.as_ref().map(|flip| &flip.signs));

            for (dhidden, weights) in [(HiddenGradient::All(&every), &every), (HiddenGradient::Last(&last), &only_last)]
            {
                let (found, weights) = (problem.backward(dhidden), to_f64(weights));
                // Central differences of as many inputs would take long, and they are no sums over rows.
                for (index, operand) in operands.iter().enumerate().filter(|(_, operand)| operand.len() < 1000) {
                    let mut loss = |values: &[f64]| {
                        let mut operands = operands.clone();
                        operands[index] = values.to_vec();
                        dot(&reference(&operands, signs, problem.shape), &weights)
                    };
                    let expected = central_difference(&mut loss, operand, 1e-5);
                    assert_close(&found[index], &expected, TOLERANCE, 1e-7, &format!("operand {index} of {sizes:?}"));
                }
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let problem = Problem::with_flip([7, 67, 20, 33]);
    let dhidden = random(problem.num_states(), 5);
    assert_same_bits_on_any_threads("lstm", || {
        let tape = problem.forward(problem.weights()).concat();
        [tape, problem.backward(HiddenGradient::All(&dhidden)).concat()].concat()
    });
}

#[test]
fn any_instruction_set_gives_the_same_bits_apart_from_the_products() {
    // One step without input: the gates are made of the bias alone, and no product has a term.
    let problem = Problem::with_flip([1, 20, 0, 33]);
    let dhidden = random(problem.num_states(), 5);
    assert_same_bits_on_any_level("lstm", || {
        let [_, _, _, dbias, ..] = problem.backward(HiddenGradient::All(&dhidden));
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
    let flipped = Problem::with_flip([2, 3, 4, 5]);
    let flip = LstmFlip { gate_signs: &[1.0; 59], ..flipped.weights().flip.unwrap() };
    let error = run(LstmWeights { flip: Some(flip), ..weights }, x, shape, [30, 30, 120]);
    assert_eq!(error, "lstm: `flip.gate_signs` must have length 60, got 59");
    let endless = LstmShape { hidden: usize::MAX, ..shape };
    assert_eq!(run(weights, x, endless, [30, 30, 120]), "lstm: the product of the sizes is too large");

    let [hidden, cells, gates] = problem.forward(weights);
    let mut dgates = gates.clone();
    let tape = LstmTape { hidden: &hidden, cells: &cells };
    let grads =
        LstmGrads { gates: &mut dgates, x: None, kernel: None, recurrent: None, bias: None, flip: Default::default() };
    let error = backward(grads, HiddenGradient::Last(&hidden), x, tape, weights, shape).unwrap_err();
    assert_eq!(error.to_string(), "lstm backward: `dhidden` must have length 15, got 30");
    assert_eq!(dgates, gates, "nothing is written before everything is checked");
}
