//! Long short-term memory.

use ktied_kernels::lstm::{
    HiddenGradient, LstmFlip, LstmFlipGrads, LstmGrads, LstmInput, LstmShape, LstmTape, LstmTapeMut, LstmWeights,
    Words, backward, forward, forward_last,
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
        forward(tape, self.x[..].into(), weights, self.shape).unwrap();
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
        backward(grads, dhidden, self.x[..].into(), tape, self.weights(), self.shape).unwrap();
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
    // The last has more rows than are multiplied at once, the two before it more gates than one task takes, and the one before
    // them more cells than are worked on side by side.
    let small = [[1, 1, 1, 1], [4, 3, 2, 5], [3, 11, 1, 2], [3, 1, 0, 2], [0, 2, 3, 2], [2, 0, 3, 2]];
    let sizes = [&small[..], &[[3, 2, 2, 18], [2, 3, 2, 9], [0, 2, 3, 9], [70, 16, 1, 2]]].concat();
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
        forward(tape, x.into(), weights, shape).unwrap_err().to_string()
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
    let error = backward(grads, HiddenGradient::Last(&hidden), x.into(), tape, weights, shape).unwrap_err();
    assert_eq!(error.to_string(), "lstm backward: `dhidden` must have length 15, got 30");
    assert_eq!(dgates, gates, "nothing is written before everything is checked");
}

/// A problem whose inputs are the rows `ids` of a table of `num_rows`.
fn of_words(sizes: [usize; 4], num_rows: usize) -> (Problem, Vec<f32>, Vec<u32>) {
    let [time, batch, inputs, _] = sizes;
    let table = random(num_rows * inputs, 12);
    let ids: Vec<u32> = (0..time * batch).map(|i| ((i * i + 3 * i) % num_rows.min(211)) as u32).collect();
    let x = ids.iter().flat_map(|&id| &table[id as usize * inputs..][..inputs]).copied().collect();
    (Problem { x, ..Problem::new(sizes) }, table, ids)
}

/// The last has more words than are multiplied at once, in every part of them.
const OF_WORDS: [([usize; 4], usize); 6] = [
    ([1, 1, 1, 1], 1),
    ([4, 3, 2, 5], 7),
    ([3, 1, 0, 2], 4),
    ([0, 2, 3, 2], 5),
    ([5, 9, 4, 17], 300),
    ([40, 40, 3, 4], 5000),
];

#[test]
fn words_give_what_their_vectors_give() {
    for (sizes, num_rows) in OF_WORDS {
        let (mut problem, table, mut ids) = of_words(sizes, num_rows);
        if num_rows == 5000 {
            // Every word but a few at one place alone.
            ids = (0..ids.len()).map(|i| (i * 3 % 4799) as u32).collect();
            problem.x = ids.iter().flat_map(|&id| &table[id as usize * 3..][..3]).copied().collect();
        }
        let words = Words::new(&ids, num_rows).unwrap();
        let input = LstmInput::Words { table: &table, words: &words };
        let (len, num_last) = (problem.num_states(), problem.shape.batch * problem.shape.hidden);
        let new = |len| vec![f32::NAN; len];
        let (mut hidden, mut cells, mut gates) = (new(len), new(len), new(4 * len));
        let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
        forward(tape, input, problem.weights(), problem.shape).unwrap();
        let expected = problem.forward(problem.weights());
        for (found, expected) in [&hidden, &cells, &gates].into_iter().zip(&expected) {
            assert_close(found, &to_f64(expected), TOLERANCE, 0.0, &format!("{sizes:?}"));
        }

        let dlast = random(num_last, 6);
        let [mut dtable, mut dkernel, mut drecurrent, mut dbias] =
            [table.len(), problem.kernel.len(), problem.recurrent.len(), problem.bias.len()].map(new);
        let grads = LstmGrads {
            gates: &mut gates,
            x: Some(&mut dtable),
            kernel: Some(&mut dkernel),
            recurrent: Some(&mut drecurrent),
            bias: Some(&mut dbias),
            flip: LstmFlipGrads::default(),
        };
        let tape = LstmTape { hidden: &hidden, cells: &cells };
        backward(grads, HiddenGradient::Last(&dlast), input, tape, problem.weights(), problem.shape).unwrap();
        let [dx, expected_kernel, expected_recurrent, expected_bias, ..] =
            problem.backward(HiddenGradient::Last(&dlast));
        let mut expected_table = vec![0.0; table.len()];
        let inputs = problem.shape.inputs;
        for (place, id) in ids.iter().enumerate() {
            for m in 0..inputs {
                expected_table[*id as usize * inputs + m] += f64::from(dx[place * inputs + m]);
            }
        }
        assert_close(&dtable, &expected_table, TOLERANCE, 1e-6, &format!("table of {sizes:?}"));
        let others = [(dkernel, expected_kernel), (drecurrent, expected_recurrent), (dbias, expected_bias)];
        for (index, (found, expected)) in others.into_iter().enumerate() {
            assert_close(&found, &to_f64(&expected), TOLERANCE, 1e-5, &format!("operand {index} of {sizes:?}"));
        }
    }
}

#[test]
fn words_have_the_same_bits_on_any_number_of_threads() {
    let (problem, table, ids) = of_words([30, 67, 20, 33], 1000);
    let words = Words::new(&ids, 1000).unwrap();
    let input = LstmInput::Words { table: &table, words: &words };
    let dlast = random(67 * 33, 6);
    assert_same_bits_on_any_threads("lstm of words", || {
        let len = problem.num_states();
        let (mut hidden, mut cells, mut gates) = (vec![0.0; len], vec![0.0; len], vec![0.0; 4 * len]);
        let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
        forward(tape, input, problem.weights(), problem.shape).unwrap();
        let (mut dtable, mut dkernel) = (vec![0.0; table.len()], vec![0.0; problem.kernel.len()]);
        let grads = LstmGrads {
            gates: &mut gates,
            x: Some(&mut dtable),
            kernel: Some(&mut dkernel),
            recurrent: None,
            bias: None,
            flip: LstmFlipGrads::default(),
        };
        let tape = LstmTape { hidden: &hidden, cells: &cells };
        backward(grads, HiddenGradient::Last(&dlast), input, tape, problem.weights(), problem.shape).unwrap();
        [hidden, dtable, dkernel].concat()
    });
}

#[test]
fn the_last_state_alone_has_the_bits_of_the_whole_way() {
    for sizes in [[1, 1, 1, 1], [4, 3, 2, 5], [2, 70, 3, 9], [5, 9, 4, 17], [0, 2, 3, 4], [2, 0, 3, 4]] {
        let (of_words, table, ids) = of_words(sizes, 50);
        let words = Words::new(&ids, 50).unwrap();
        let by_words = LstmInput::Words { table: &table, words: &words };
        let (plain, flipped) = (Problem::new(sizes), Problem::with_flip(sizes));
        for (problem, input) in [(&plain, plain.x[..].into()), (&flipped, flipped.x[..].into()), (&of_words, by_words)]
        {
            let (len, num_last) = (problem.num_states(), problem.shape.batch * problem.shape.hidden);
            let (mut hidden, mut cells, mut gates) = (vec![0.0; len], vec![0.0; len], vec![0.0; 4 * len]);
            let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
            forward(tape, input, problem.weights(), problem.shape).unwrap();
            let mut last = vec![f32::NAN; num_last];
            forward_last(&mut last, input, problem.weights(), problem.shape).unwrap();
            let expected = if len == 0 { vec![0.0; num_last] } else { hidden[len - num_last..].to_vec() };
            assert_eq!(last, expected, "{sizes:?}");
        }
    }
}

#[test]
fn words_that_do_not_fit_are_refused() {
    let error = Words::new(&[0, 5], 5).unwrap_err().to_string();
    assert_eq!(error, "words: `id` must be below the number of rows, got 5");
    let (problem, flipped) = (Problem::new([2, 3, 4, 5]), Problem::with_flip([2, 3, 4, 5]));
    let run = |ids: &[u32], table: &[f32], problem: &Problem| {
        let words = Words::new(ids, 10).unwrap();
        let input = LstmInput::Words { table, words: &words };
        forward_last(&mut [0.0; 15], input, problem.weights(), problem.shape).unwrap_err().to_string()
    };
    assert_eq!(run(&[1; 6], &[0.0; 39], &problem), "lstm: `table` must have length 40, got 39");
    let error = run(&[1; 5], &[0.0; 40], &problem);
    assert_eq!(error, "lstm: `places` must be the number of examples at all steps, got 5");
    let error = run(&[1; 6], &[0.0; 40], &flipped);
    assert_eq!(error, "lstm: `flip` must be none where the input is words, got 1");
}
