//! Metrics and their standard errors, held against golden values of numpy and scikit-learn and against each other.

mod burn_metrics;
mod detection;
mod ensembles;
mod probabilities;

use burn::module::{Module, ModuleDisplay, Param};
use burn::tensor::{Device, Tensor, TensorData};
use ktied::Result;
use ktied::data::Units;
use ktied::evaluate::{Estimate, Evaluation, Evaluator, Protocol, evaluate};
use ktied::models::{MlpSpec, Network, NetworkConfig, Norm, PosteriorSpec, ResNet18Spec};
use ktied::nn::{Estimator, Pass, Weights};
use ktied::objective::{Likelihood, LikelihoodKind, Observed};
use serde_json::Value;

use crate::support::random;

const EXAMPLES: u32 = 300;
const KL: f64 = 1234.5;
const NOISE: f64 = 0.75;

/// A case of `golden/metrics.py`, whose formulas these are.
#[derive(Clone, Copy)]
struct Case {
    kind: LikelihoodKind,
    samples: u64,
    outputs: u32,
}

/// A hash of 32 bits (Wellons' lowbias32).
fn mix(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// A number of [−4, 4) that single precision has exactly.
fn number(a: u32, b: u32, c: u32) -> f32 {
    ((mix(a.wrapping_mul(1_000_003).wrapping_add(b * 1009 + c + 1)) % 2048) as f32 - 1024.0) / 256.0
}

fn label(example: u32, classes: u32) -> u32 {
    mix(777 + example) % classes
}

fn ease(example: u32) -> f32 {
    1.5 + number(55_555, example, 0)
}

impl Case {
    fn output(self, draw: u32, example: u32, j: u32) -> f32 {
        let noise = number(draw, example, j);
        match self.kind {
            LikelihoodKind::Softmax if label(example, self.outputs) == j => noise + ease(example),
            LikelihoodKind::Softmax => noise,
            LikelihoodKind::Bernoulli => noise + ease(example) * (label(example, 2) as f32 - 0.5),
            _ => number(99_999, example, j) + noise / 4.0,
        }
    }

    fn tensor(self, examples: &[u32], value: impl Fn(u32, u32) -> f32) -> Tensor<2> {
        let values = examples.iter().flat_map(|&i| (0..self.outputs).map(move |j| (i, j)));
        let values: Vec<f32> = values.map(|(i, j)| value(i, j)).collect();
        Tensor::from_data(TensorData::new(values, [examples.len(), self.outputs as usize]), &Device::flex())
    }

    fn observed(self, examples: &[u32]) -> Observed {
        let classes = if self.kind == LikelihoodKind::Bernoulli { 2 } else { self.outputs };
        match self.kind {
            LikelihoodKind::Softmax | LikelihoodKind::Bernoulli => {
                Observed::Classes(examples.iter().map(|&i| label(i, classes)).collect())
            }
            _ => Observed::Values(self.tensor(examples, |i, j| number(99_999, i, j))),
        }
    }

    fn evaluate(self, batch: usize) -> Evaluation {
        let likelihood = Likelihood::new(self.kind, self.outputs as usize, NOISE, &Device::flex()).unwrap();
        let protocol = Protocol { samples: self.samples, seed: 1, num_train: 1000 };
        let mut evaluator = Evaluator::new(&likelihood, &protocol).unwrap();
        for examples in (0..EXAMPLES).collect::<Vec<_>>().chunks(batch) {
            let output = |draw| Ok(self.tensor(examples, |i, j| self.output(draw as u32, i, j)));
            evaluator.add(&self.observed(examples), output).unwrap();
        }
        evaluator.finish(KL).unwrap()
    }
}

const CASES: [Case; 6] = [
    Case { kind: LikelihoodKind::Softmax, samples: 20, outputs: 5 },
    Case { kind: LikelihoodKind::Softmax, samples: 23, outputs: 5 },
    Case { kind: LikelihoodKind::Softmax, samples: 4, outputs: 3 },
    Case { kind: LikelihoodKind::Bernoulli, samples: 20, outputs: 1 },
    Case { kind: LikelihoodKind::Gaussian, samples: 20, outputs: 1 },
    Case { kind: LikelihoodKind::Gaussian, samples: 23, outputs: 2 },
];

#[test]
fn metrics_and_their_standard_errors_are_those_of_numpy_and_scikit_learn() {
    let golden: Value = serde_json::from_str(include_str!("../golden/metrics.json")).unwrap();
    for case in CASES {
        let name = format!("{}, {} draws, {} outputs", case.kind, case.samples, case.outputs);
        let found = serde_json::to_value(case.evaluate(64)).unwrap();
        for (metric, expected) in golden[&name].as_object().unwrap() {
            for field in ["value", "sem_examples", "sem_draws"] {
                let number = |value: &Value| value[field].as_f64().unwrap();
                let (f, e) = (number(&found[metric]), number(expected));
                let tolerance = match (metric.as_str(), field) {
                    // Two bootstraps, of 200 and of 20,000 replicates; a standard deviation of R normals is known to
                    // 1/√(2(R − 1)) of itself. Four of those.
                    ("ece" | "adaptive_ece" | "aurc", "sem_examples") => {
                        4.0 * e * (1.0 / 398.0 + 1.0 / 39_998.0f64).sqrt()
                    }
                    // Rounding of sums in double precision, in another order.
                    _ => 1e-11,
                };
                assert!((f - e).abs() <= tolerance, "{name}: {field} of {metric} is {f}, expected {e}");
            }
        }
    }
}

#[test]
fn json_has_the_metrics_of_the_likelihood_and_nothing_else() {
    let names = |case: Case| -> Vec<String> {
        let Value::Object(fields) = serde_json::to_value(case.evaluate(64)).unwrap() else { unreachable!() };
        fields.into_iter().map(|(name, _)| name).collect()
    };
    let sorted = |names: &str| {
        let mut names: Vec<String> = names.split(' ').map(String::from).collect();
        names.sort();
        names
    };
    let classes = "accuracy brier brier_usual ece adaptive_ece entropy expected_entropy mutual_information aurc";
    let numbers = "rmse coverage_50 coverage_90 coverage_95 sharpness";
    let rest = "neg_elbo nll nll_of_draws kl kl_per_example samples members examples";
    assert_eq!(sorted(&names(CASES[0]).join(" ")), sorted(&format!("{classes} {rest}")));
    assert_eq!(sorted(&names(CASES[4]).join(" ")), sorted(&format!("{numbers} {rest}")));
    let evaluation = CASES[0].evaluate(64);
    assert_eq!((evaluation.kl, evaluation.kl_per_example), (KL, KL / 1000.0));
    assert_eq!((evaluation.samples, evaluation.members, evaluation.examples), (20, 1, 300));
    for case in [CASES[0], CASES[4]] {
        let evaluation = case.evaluate(64);
        let json = serde_json::to_value(evaluation).unwrap();
        assert_eq!(serde_json::from_value::<Evaluation>(json).unwrap(), evaluation);
    }
}

#[test]
fn any_division_into_batches_gives_the_same_bits() {
    for case in CASES {
        let whole = case.evaluate(EXAMPLES as usize);
        for batch in [1, 7, 64] {
            assert_eq!(case.evaluate(batch), whole, "{}, batches of {batch}", case.kind);
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let on = |threads, case: Case| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| case.evaluate(100))
    };
    for case in [CASES[1], CASES[5]] {
        let one = on(1, case);
        for threads in [2, 4] {
            assert_eq!(on(threads, case), one, "{}, {threads} threads", case.kind);
        }
    }
}

#[test]
fn metrics_in_the_units_of_the_data_are_those_of_data_that_were_not_standardised() {
    let device = Device::flex();
    let judge = |scale: f64| {
        let likelihood = Likelihood::new(LikelihoodKind::Gaussian, 1, 0.5 * scale, &device).unwrap();
        let mut evaluator = Evaluator::new(&likelihood, &Protocol { samples: 3, ..Protocol::new(10) }).unwrap();
        let tensor = |rows: [[f32; 1]; 3]| Tensor::<2>::from_floats(rows, &device) * scale;
        let observed = Observed::Values(tensor([[0.5], [-1.0], [0.25]]));
        evaluator.add(&observed, |draw| Ok(tensor([[0.1 * draw as f32], [-0.5], [0.3]]))).unwrap();
        evaluator.finish(5.0).unwrap()
    };
    let expected = judge(8.0);
    let found = judge(1.0).in_units(&Units { loc: vec![3.0], scale: vec![8.0] });
    let pairs = [found, expected].map(|evaluation| {
        let Evaluation { neg_elbo, nll, nll_of_draws, .. } = evaluation;
        let rest = [evaluation.rmse, evaluation.sharpness, evaluation.coverage_90].map(Option::unwrap);
        [[neg_elbo, nll, nll_of_draws], rest].concat()
    });
    for (found, expected) in pairs[0].iter().zip(&pairs[1]) {
        // ln s is stored in single precision.
        let close = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() < 1e-5;
        assert!(close(Some(found.value), Some(expected.value)), "{found:?} {expected:?}");
        assert!(close(found.sem_examples, expected.sem_examples), "{found:?} {expected:?}");
        assert!(close(found.sem_draws, expected.sem_draws), "{found:?} {expected:?}");
    }
    let unequal = judge(1.0).in_units(&Units { loc: vec![0.0; 2], scale: vec![2.0, 4.0] });
    assert_eq!((unequal.rmse, unequal.sharpness), (None, None));
    assert!((unequal.nll.value - judge(1.0).nll.value - 8f64.ln()).abs() < 1e-12);
    assert_eq!(judge(1.0).in_units(&Units::default()), judge(1.0));
}

#[test]
fn one_draw_has_no_error_over_draws_and_its_neg_elbo_is_its_nll() {
    let evaluation = Case { samples: 1, ..CASES[0] }.evaluate(64);
    assert_eq!((evaluation.nll.sem_draws, evaluation.ece.unwrap().sem_draws), (None, None));
    let nll = evaluation.neg_elbo.value - evaluation.kl_per_example;
    assert!((nll - evaluation.nll.value).abs() < 1e-12);
    assert!(serde_json::to_string(&evaluation).unwrap().contains(r#""sem_draws":null"#));
}

/// Softmax outputs of two draws for one batch.
fn two_draws<const B: usize>(draws: [[[f32; 2]; B]; 2], labels: &[u32]) -> Result<Evaluation> {
    let device = Device::flex();
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, 2, 1.0, &device)?;
    let mut evaluator = Evaluator::new(&likelihood, &Protocol { samples: 2, ..Protocol::new(10) })?;
    evaluator.add(&Observed::Classes(labels.into()), |draw| Ok(Tensor::from_floats(draws[draw as usize], &device)))?;
    evaluator.finish(0.0)
}

#[test]
fn two_examples_by_hand() {
    let logits = [[[0.5f32, 0.5], [0.2, 0.8]], [[0.75, 0.25], [0.6, 0.4]]].map(|draw| draw.map(|p| p.map(f32::ln)));
    let found = two_draws(logits, &[0, 1]).unwrap();
    let close = |what: &str, found: f64, expected: f64| {
        // Logits are in single precision.
        assert!((found - expected).abs() < 1e-6, "{what}: {found} {expected}");
    };
    // Averages ⅝, ⅜ and ⅖, ⅗: both right.
    let nlls = [-(0.625f64.ln()), -(0.6f64.ln())];
    close("nll", found.nll.value, (nlls[0] + nlls[1]) / 2.0);
    close("sem of nll", found.nll.sem_examples.unwrap(), (nlls[0] - nlls[1]).abs() / 2.0);
    let of_draw = [-(0.5f64 * 0.8).ln() / 2.0, -(0.75f64 * 0.4).ln() / 2.0];
    close("neg_elbo", found.neg_elbo.value, (of_draw[0] + of_draw[1]) / 2.0);
    // Two groups of one draw: without the first only the second is left, and the error is half their distance.
    close("sem over draws", found.neg_elbo.sem_draws.unwrap(), (of_draw[0] - of_draw[1]).abs() / 2.0);
    assert_eq!(found.accuracy.unwrap().value, 1.0);
    let brier = (0.625f64.powi(2) + 0.375f64.powi(2) - 1.25 + 0.16 + 0.36 - 1.2) / 2.0;
    close("brier", found.brier.unwrap().value, brier);
    close("ece", found.ece.unwrap().value, (0.375 + 0.4) / 2.0);
    assert!(found.nll.value < found.neg_elbo.value, "Jensen");
}

#[test]
fn probabilities_that_underflow_give_finite_scores() {
    let found = two_draws([[[3000.0, 0.0]], [[2000.0, 0.0]]], &[1]).unwrap();
    assert_eq!(found.nll.value, 2000.0 - 0.5f64.ln());
    assert_eq!(found.neg_elbo.value, 2500.0);
    assert_eq!((found.nll.sem_examples, found.brier.unwrap().value), (None, 1.0));
}

#[test]
fn what_cannot_be_judged_is_named() {
    let refuse = |draws: [[[f32; 2]; 2]; 2], labels: &[u32]| two_draws(draws, labels).unwrap_err().to_string();
    let fine = [[[0.0; 2]; 2]; 2];
    assert_eq!(refuse(fine, &[0, 2]), "example 1 is of class 2, but there are only classes 0 to 1");
    assert_eq!(refuse(fine, &[0]), "evaluate: `output` must have shape [1, 2], got [2, 2]");
    let mut bad = fine;
    bad[1][1][0] = f32::NAN;
    assert_eq!(refuse(bad, &[0, 1]), "output 0 of example 1 in draw 1 must be a finite number, got NaN");
    bad[1][1][0] = f32::NEG_INFINITY;
    assert_eq!(refuse(bad, &[0, 1]), "output 0 of example 1 in draw 1 must be a finite number, got -inf");
    assert_eq!(two_draws([[], []], &[]).unwrap_err().to_string(), "there is no example to evaluate on");
}

#[test]
fn an_example_is_named_by_its_number_in_the_whole_test_set() {
    let device = Device::flex();
    let refuse = |kind, good: Observed, bad: Observed, value: f32| {
        let likelihood = Likelihood::new(kind, 1, 1.0, &device).unwrap();
        let mut evaluator = Evaluator::new(&likelihood, &Protocol::new(10)).unwrap();
        evaluator.add(&good, |_| Ok(Tensor::zeros([3, 1], &device))).unwrap();
        evaluator.add(&bad, |_| Ok(Tensor::full([1, 1], value, &device))).unwrap_err().to_string()
    };
    let classes = |label| refuse(LikelihoodKind::Bernoulli, Observed::Classes(vec![0; 3]), label, f32::NAN);
    assert!(classes(Observed::Classes(vec![2])).starts_with("example 3 is of class 2"));
    assert!(classes(Observed::Classes(vec![1])).starts_with("output 0 of example 3 in draw 0"));
    let zeros = Observed::Values(Tensor::zeros([3, 1], &device));
    let bad = Observed::Values(Tensor::full([1, 1], f32::NAN, &device));
    assert!(refuse(LikelihoodKind::Gaussian, zeros, bad, 0.0).starts_with("observed value 0 of example 3"));
}

#[test]
fn numbers_and_protocols_that_cannot_be_judged_are_named() {
    let device = Device::flex();
    let likelihood = |kind, noise| Likelihood::new(kind, 1, noise, &device).unwrap();
    let gaussian = likelihood(LikelihoodKind::Gaussian, 1.0);
    let refuse = |likelihood: &Likelihood, observed: Observed, outputs: usize| {
        let mut evaluator = Evaluator::new(likelihood, &Protocol::new(10)).unwrap();
        let error = evaluator.add(&observed, |_| Ok(Tensor::zeros([2, outputs], &device)));
        error.unwrap_err().to_string()
    };
    let values = |y: [[f32; 1]; 2]| Observed::Values(Tensor::from_floats(y, &device));
    assert_eq!(
        refuse(&gaussian, values([[0.0], [f32::INFINITY]]), 1),
        "observed value 0 of example 1 must be a finite number, got inf"
    );
    assert_eq!(
        refuse(&gaussian, Observed::Classes(vec![0, 1]), 1),
        "the likelihood `gaussian` does not fit a data set whose targets are classes"
    );
    assert_eq!(
        refuse(&gaussian, Observed::Values(Tensor::zeros([2, 3], &device)), 1),
        "evaluate: `observed values` must have shape [2, 1], got [2, 3]"
    );
    let bernoulli = likelihood(LikelihoodKind::Bernoulli, 1.0);
    let shape = "evaluate: `output` must have shape [2, 1], got [2, 2]";
    assert_eq!(refuse(&bernoulli, Observed::Classes(vec![0, 1]), 2), shape);
    assert_eq!(refuse(&gaussian, values([[0.0]; 2]), 2), shape);
    assert_eq!(
        refuse(&bernoulli, Observed::Classes(vec![0, 2]), 1),
        "example 1 is of class 2, but there are only classes 0 to 1"
    );
    assert_eq!(
        refuse(&bernoulli, values([[0.0]; 2]), 1),
        "the likelihood `bernoulli` does not fit a data set whose targets are numbers"
    );
    // s = e⁻⁴⁰⁰ is a number, but 1/s² is not.
    let mut narrow = likelihood(LikelihoodKind::Gaussian, 1.0);
    narrow.gaussian.as_mut().unwrap().log_noise = Param::from_tensor(Tensor::full([1, 1], -400, &device));
    let sentence = refuse(&narrow, values([[1.0]; 2]), 1);
    assert_eq!(sentence, "the log-likelihood of example 0 in draw 0 must be a finite number, got -inf");

    let protocol = |samples, num_train| Protocol { samples, seed: 0, num_train };
    let refuse = |protocol: Protocol| Evaluator::new(&gaussian, &protocol).unwrap_err().to_string();
    assert_eq!(refuse(protocol(0, 10)), "samples must be at least 1, got 0");
    assert_eq!(refuse(protocol(1, 0)), "number of training examples must be a positive finite number, got 0");
    let mut evaluator = Evaluator::new(&gaussian, &protocol(1, 10)).unwrap();
    evaluator.add(&values([[0.0]; 2]), |_| Ok(Tensor::zeros([2, 1], &device))).unwrap();
    let sentence = evaluator.finish(f64::INFINITY).unwrap_err().to_string();
    assert_eq!(sentence, "KL(q‖p) must be a finite number, got inf");
}

/// A network that refuses to be run with gradients.
#[derive(Debug, Module)]
struct Untracked<N> {
    network: N,
}

impl<N: Network + ModuleDisplay> Network for Untracked<N> {
    type Input = N::Input;

    fn forward(&self, x: N::Input, pass: &Pass) -> Result<Tensor<2>> {
        let output = self.network.forward(x, pass)?;
        assert!(!output.is_autodiff(), "the output has a graph");
        Ok(output)
    }

    fn weights(&self) -> Vec<&Weights> {
        self.network.weights()
    }

    fn map_weights<E>(self, map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        Ok(Self { network: self.network.map_weights(map)? })
    }
}

/// The evaluation of a network by [`evaluate`], and by hand with graphs.
fn both_ways<N: Network + ModuleDisplay>(network: N, x: N::Input, labels: Vec<u32>, outputs: usize) -> [Evaluation; 2] {
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, outputs, 1.0, &Device::flex()).unwrap();
    let protocol = Protocol { samples: 5, seed: 3, num_train: 100 };
    let observed = Observed::Classes(labels);
    let mut by_hand = Evaluator::new(&likelihood, &protocol).unwrap();
    by_hand.add(&observed, |draw| network.forward(x.clone(), &Pass::marginal(3, draw, 0))).unwrap();
    let kl = network.kl().unwrap().into_data().iter::<f64>().sum();
    let batches = [Ok((x, observed))];
    let found = evaluate(&Untracked { network }, &likelihood, batches, &protocol, |_| ()).unwrap();
    [found, by_hand.finish(kl).unwrap()]
}

fn config(posterior: &str) -> NetworkConfig {
    NetworkConfig::new(PosteriorSpec::new(posterior.parse().unwrap()))
}

#[test]
fn networks_are_judged_without_graphs_and_by_the_same_bits_as_with_them() {
    let device = Device::flex().autodiff();
    let x = Tensor::<1>::from_floats(&random(12 * 20, 1)[..], &Device::flex()).reshape([12, 20]);
    let labels: Vec<u32> = (0..12).map(|i| i % 4).collect();
    for posterior in ["point", "mean-field", "k-tied:2"] {
        let mlp = MlpSpec::new([20, 15, 4]).init(&config(posterior), &device).unwrap();
        let [found, by_hand] = both_ways(mlp, x.clone(), labels.clone(), 4);
        assert_eq!(found, by_hand, "{posterior}");
        assert_eq!(found.kl > 0.0, posterior != "point");
        assert_eq!(found.nll.sem_draws.is_some_and(|error| error > 1e-6), posterior != "point");
    }
    // Batch norm's running averages come along.
    let spec = ResNet18Spec { side: 8, channels: 2, widths: [3, 4, 5, 6], classes: 4, norm: Norm::Batch, dropout: 0.0 };
    let resnet = spec.init(&config("mean-field"), &device).unwrap();
    let images = Tensor::<1>::from_floats(&random(12 * 128, 1)[..], &Device::flex()).reshape([12, 8, 8, 2]);
    resnet.forward(images.clone() + 1.0, &Pass::sampled(1, 0, Estimator::Flipout)).unwrap();
    let [found, by_hand] = both_ways(resnet, images, labels, 4);
    assert_eq!(found, by_hand);
}

#[test]
fn batches_of_a_network_change_its_metrics_by_rounding_of_its_outputs_at_most() {
    const WIDTH: usize = 784;
    let mlp = MlpSpec::new([WIDTH, 300, 10]).init(&config("k-tied:2"), &Device::flex()).unwrap();
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, 10, 1.0, &Device::flex()).unwrap();
    let inputs = random(100 * WIDTH, 1);
    let mut calls = vec![];
    let mut judge = |batch: usize| {
        let batches = inputs.chunks(batch * WIDTH).map(|rows| {
            let count = rows.len() / WIDTH;
            let x = Tensor::<1>::from_floats(rows, &Device::flex()).reshape([count, WIDTH]);
            Ok((x, Observed::Classes(vec![3; count])))
        });
        calls.clear();
        let protocol = Protocol { samples: 12, ..Protocol::new(1000) };
        let evaluation = evaluate(&mlp, &likelihood, batches, &protocol, |done| calls.push(done)).unwrap();
        assert_eq!((calls.last(), calls.len()), (Some(&1200), 12 * 100usize.div_ceil(batch)));
        evaluation
    };
    let whole = judge(100);
    for batch in [1, 7, 100] {
        let found = judge(batch);
        // Outputs of order 1 in single precision, through a few hundred additions.
        let close = |a: Estimate, b: Estimate| (a.value - b.value).abs() < 1e-5;
        assert!(close(found.nll, whole.nll) && close(found.neg_elbo, whole.neg_elbo), "{found:?} {whole:?}");
    }
    assert_eq!(judge(100), whole);
}

#[test]
fn an_error_of_a_batch_is_that_of_the_evaluation() {
    let mlp = MlpSpec::new([2, 2]).init(&config("point"), &Device::flex()).unwrap();
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, 2, 1.0, &Device::flex()).unwrap();
    let batches = [Err(ktied::Error::NotABit { found: 7 })];
    assert_eq!(
        evaluate(&mlp, &likelihood, batches, &Protocol::new(1), |_| ()).unwrap_err(),
        ktied::Error::NotABit { found: 7 }
    );
}
