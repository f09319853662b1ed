//! Ensembles, comparisons and predictions, held against golden values of numpy and scipy and against single networks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use ktied::Result;
use ktied::evaluate::{Difference, Draws, Ensemble, Evaluation, Predictions, Protocol, compare, evaluate};
use ktied::models::{
    AnyNetwork, Features, LeNetSpec, LstmSpec, Mlp, MlpSpec, ModelSpec, Network, NetworkConfig, PosteriorSpec,
};
use ktied::nn::{Pass, Weights};
use ktied::objective::{Likelihood, LikelihoodKind, Observed};
use serde_json::Value;

use super::{Case, EXAMPLES, config, label, number};
use crate::golden::read;
use crate::support::random;

const CLASSES: Case = Case { kind: LikelihoodKind::Softmax, samples: 0, outputs: 4 };
const VALUES: Case = Case { kind: LikelihoodKind::Gaussian, samples: 0, outputs: 2 };
const KLS: [f32; 3] = [100.0, 250.0, 700.0];
const NOISES: [f64; 3] = [0.75, 0.5, 1.25];

/// A member of `golden/ensembles.py`, whose inputs are numbers of examples.
#[derive(Debug, Module)]
struct Formula {
    #[module(skip)]
    member: u32,
    #[module(skip)]
    outputs: u32,
}

impl Network for Formula {
    type Input = Vec<u32>;

    fn forward(&self, examples: Vec<u32>, pass: &Pass) -> Result<Tensor<2>> {
        let Pass::Marginal { draw, .. } = pass else { panic!("a draw") };
        let draw = 1000 * self.member + *draw as u32;
        Ok(match self.outputs {
            4 => CLASSES.tensor(&examples, |i, j| CLASSES.output(draw, i, j)),
            _ => VALUES.tensor(&examples, |i, j| number(99_999, i, j) / 2.0 + number(draw, i, j) / 4.0),
        })
    }

    fn weights(&self) -> Vec<&Weights> {
        vec![]
    }

    fn map_weights<E>(self, _: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        Ok(self)
    }

    fn kl(&self) -> Result<Tensor<1>> {
        Ok(Tensor::from_floats([KLS[self.member as usize]], &Device::flex()))
    }
}

fn ensemble(case: Case, members: &[u32]) -> Ensemble<Formula> {
    let members = members.iter().map(|&member| {
        let noise = NOISES[member as usize];
        let likelihood = Likelihood::new(case.kind, case.outputs as usize, noise, &Device::flex()).unwrap();
        (Formula { member, outputs: case.outputs }, likelihood)
    });
    let members: Vec<_> = members.collect();
    Ensemble::new(members.iter().map(|(network, likelihood)| (network, likelihood))).unwrap()
}

fn batches(case: Case) -> Vec<Result<(Vec<u32>, Observed)>> {
    let examples: Vec<u32> = (0..EXAMPLES).collect();
    examples.chunks(64).map(|examples| Ok((examples.to_vec(), case.observed(examples)))).collect()
}

fn protocol(samples: u64) -> Protocol {
    Protocol { samples, seed: 1, num_train: 1000 }
}

/// Every number of `expected` that is not null, within rounding of sums in double precision in another order.
fn assert_golden(place: &str, found: &Value, expected: &Value) {
    match expected {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, expected)| assert_golden(&format!("{place}.{key}"), &found[key], expected));
        }
        Value::Array(rows) => {
            let rows = rows.iter().enumerate();
            rows.for_each(|(i, expected)| assert_golden(&format!("{place}[{i}]"), &found[i], expected));
        }
        Value::Number(number) => {
            let (found, expected) = (found.as_f64().unwrap(), number.as_f64().unwrap());
            assert!((found - expected).abs() < 1e-10, "{place} is {found}, expected {expected}");
        }
        _ => {}
    }
}

#[test]
fn metrics_of_ensembles_are_those_of_numpy() {
    let golden = read("ensembles.json");
    for (case, name, members, samples) in [
        (CLASSES, "classes, 3 members, 12 draws", &[0, 1, 2][..], 12),
        (CLASSES, "classes, 3 members, 1 draws", &[0, 1, 2], 1),
        (CLASSES, "classes, 1 members, 12 draws", &[0], 12),
        (VALUES, "values, 3 members, 12 draws", &[0, 1, 2], 12),
    ] {
        let found = ensemble(case, members).judge(batches(case), &protocol(samples), |_| ()).unwrap().evaluation;
        assert_golden(name, &serde_json::to_value(found).unwrap(), &golden[name]);
        assert_eq!((found.members, found.samples), (members.len() as u64, samples));
    }
}

#[test]
fn comparisons_are_paired_as_in_numpy() {
    let (first, second) = (ensemble(CLASSES, &[0, 1, 2]), ensemble(CLASSES, &[1]));
    let found = compare(&first, &second, batches(CLASSES), &protocol(12), |_| ()).unwrap();
    assert_golden("comparison", &serde_json::to_value(found).unwrap(), &read("ensembles.json")["comparison"]);
    assert_eq!((found.examples, found.squared_error), (300, None));
    // The difference of means is the mean of differences.
    let [a, b] = [&first, &second]
        .map(|model| model.judge(batches(CLASSES), &protocol(12), |_| ()).unwrap().evaluation.neg_elbo.value);
    assert!((found.neg_elbo.mean - (a - b)).abs() < 1e-12);
}

#[test]
fn a_model_does_not_differ_from_itself_and_numbers_have_squared_errors() {
    let model = ensemble(VALUES, &[0, 1]);
    let found = compare(&model, &model, batches(VALUES), &protocol(3), |_| ()).unwrap();
    let nothing = Difference { mean: 0.0, sem: Some(0.0), z: None, p_value: None };
    assert_eq!((found.nll, found.neg_elbo, found.squared_error), (nothing, nothing, Some(nothing)));
    assert_eq!((found.accuracy, found.brier), (None, None));
    let other = ensemble(VALUES, &[2]);
    let found = compare(&model, &other, batches(VALUES), &protocol(3), |_| ()).unwrap();
    let rmse = |model: &Ensemble<Formula>| {
        let judged = model.judge(batches(VALUES), &protocol(3), |_| ()).unwrap();
        judged.evaluation.rmse.unwrap().value
    };
    let expected = rmse(&model).powi(2) - rmse(&other).powi(2);
    assert!((found.squared_error.unwrap().mean - expected).abs() < 1e-12);
    let nobody = compare(&model, &other, [], &protocol(3), |_| ()).unwrap_err();
    assert_eq!(nobody.to_string(), "there is no example to evaluate on");
}

#[test]
fn predictions_are_those_of_numpy_and_scipy() {
    let golden = read("ensembles.json");
    let first = || (0..6).collect::<Vec<u32>>();
    let Predictions::Classes(rows) =
        ensemble(CLASSES, &[0, 1, 2]).predict(first(), &Draws { samples: 12, seed: 1, first: 0 }, 0.9).unwrap()
    else {
        panic!("classes")
    };
    assert_eq!(rows.len(), 6);
    assert_golden("classes", &serde_json::to_value(rows).unwrap(), &golden["class predictions"]);
    let Predictions::Values(rows) =
        ensemble(VALUES, &[0, 1, 2]).predict(first(), &Draws { samples: 12, seed: 1, first: 0 }, 0.9).unwrap()
    else {
        panic!("numbers")
    };
    assert_eq!(rows.len(), 6);
    assert_golden("values", &serde_json::to_value(rows).unwrap(), &golden["value predictions"]);
    for level in [0.0, 1.0, f64::NAN] {
        let error = ensemble(VALUES, &[0])
            .predict(first(), &Draws { samples: 12, seed: 1, first: 0 }, level)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("level must be between 0 and 1"), "{error}");
    }
    let error =
        ensemble(VALUES, &[0]).predict(first(), &Draws { samples: 0, seed: 1, first: 0 }, 0.5).unwrap_err().to_string();
    assert_eq!(error, "samples must be at least 1, got 0");
}

/// Networks of every kind whose weights are drawn for all examples, or not.
fn networks() -> impl Iterator<Item = (String, AnyNetwork, Features)> {
    let rows =
        |width: usize| Tensor::<1>::from_floats(&random(7 * width, 5)[..], &Device::flex()).reshape([7usize, width]);
    let words = Tensor::<2, Int>::from_ints(
        [[1, 2, 3], [4, 5, 6], [1, 1, 1], [0, 2, 8], [3, 3, 7], [5, 1, 4], [2, 6, 0]],
        &Device::flex(),
    );
    let lenet = LeNetSpec { side: 8, channels: 1, filters: [3, 4], dense: 6, classes: 4, ..LeNetSpec::default() };
    let lstm = LstmSpec { vocabulary: 9, embedding: 4, hidden: 5, ..LstmSpec::default() };
    let models = [
        (ModelSpec::Mlp(MlpSpec { dropout: 0.5, ..MlpSpec::new([6, 8, 5, 4]) }), Features::Rows(rows(6))),
        (ModelSpec::LeNet(lenet), Features::Rows(rows(64))),
        (ModelSpec::Lstm(lstm), Features::Words(words)),
    ];
    models.into_iter().flat_map(|(model, x)| {
        ["mean-field", "k-tied:1", "point"].map(|posterior| {
            let mut spec = PosteriorSpec::new(posterior.parse().unwrap());
            spec.init_scale = 0.2;
            let network = model.init(&NetworkConfig::new(spec), &Device::flex()).unwrap();
            (format!("{} {posterior}", model.name()), network, x.clone())
        })
    })
}

fn part(x: &Features, first: usize, rows: usize) -> Features {
    match x {
        Features::Rows(x) => Features::Rows(x.clone().narrow(0, first, rows)),
        Features::Words(x) => Features::Words(x.clone().narrow(0, first, rows)),
    }
}

fn numbers(output: Tensor<2>) -> Vec<f32> {
    output.into_data().try_to_vec().unwrap()
}

#[test]
fn a_network_whose_weights_are_drawn_says_what_it_says_under_that_draw() {
    for (name, network, x) in networks() {
        let passes = network.passes(x.clone()).unwrap();
        for pass in [Pass::marginal(3, 2, 0), Pass::marginal(3, 4, 7), Pass::prediction(3, 2), Pass::Means] {
            let (drawn, expected) = (network.drawn(&pass).unwrap(), numbers(passes(&network, &pass).unwrap()));
            assert_eq!(numbers(passes(&drawn, &pass).unwrap()), expected, "{name} {pass:?}");
            let directly = [&drawn, &network].map(|network| numbers(network.forward(x.clone(), &pass).unwrap()));
            assert_eq!(directly[0], directly[1], "{name} {pass:?}");
        }
        // Nothing is left to draw but where noise is on sums: in the dense layers of a k-tied network, and in the first
        // of any MLP.
        let drawn = network.drawn(&Pass::marginal(3, 2, 0)).unwrap();
        let left: Vec<&str> = drawn.weights().iter().filter(|weights| !weights.is_point()).map(|w| w.name()).collect();
        let expected: &[&str] = match name.as_str() {
            "mlp mean-field" => &["dense_1"],
            "mlp k-tied:1" => &["dense_1", "dense_2", "dense_3"],
            "lenet k-tied:1" => &["dense_1", "dense_2"],
            _ => &[],
        };
        assert_eq!(left, expected, "{name}");
    }
}

#[test]
fn batches_that_share_draws_get_the_predictions_that_they_get_alone() {
    let likelihood = |outputs, kind| Likelihood::new(kind, outputs, 1.0, &Device::flex()).unwrap();
    for (name, network, x) in networks() {
        let likelihood = match name.starts_with("lstm") {
            true => likelihood(1, LikelihoodKind::Bernoulli),
            false => likelihood(4, LikelihoodKind::Softmax),
        };
        let ensemble = Ensemble::new([(&network, &likelihood), (&network, &likelihood)]).unwrap();
        let cuts = [(0, 2), (2, 1), (3, 4)];
        let draws = Draws { samples: 3, seed: 8, first: 11 };
        let together = cuts.map(|(first, rows)| part(&x, first, rows)).to_vec();
        let together = ensemble.predict_batches(together, &draws, 0.9).unwrap();
        for ((first, rows), found) in cuts.into_iter().zip(together) {
            let draws = Draws { first: draws.first + first as u64, ..draws };
            assert_eq!(ensemble.predict(part(&x, first, rows), &draws, 0.9).unwrap(), found, "{name} {first}");
        }
    }
}

#[test]
fn predictions_of_no_example_are_none() {
    assert_eq!(
        ensemble(CLASSES, &[0, 1]).predict(vec![], &Draws { samples: 2, seed: 1, first: 0 }, 0.5).unwrap(),
        Predictions::Classes(vec![])
    );
    assert_eq!(
        ensemble(VALUES, &[0, 1]).predict(vec![], &Draws { samples: 2, seed: 1, first: 0 }, 0.5).unwrap(),
        Predictions::Values(vec![])
    );
}

fn mlp(kind: &str, seed: u64) -> Mlp {
    MlpSpec::new([6, 8, 3]).init(&NetworkConfig { seed, ..config(kind) }, &Device::flex()).unwrap()
}

fn softmax(classes: usize) -> Likelihood {
    Likelihood::new(LikelihoodKind::Softmax, classes, 1.0, &Device::flex()).unwrap()
}

fn batch() -> Result<(Tensor<2>, Observed)> {
    let x = Tensor::<1>::from_floats(&random(30 * 6, 1)[..], &Device::flex()).reshape([30, 6]);
    Ok((x, Observed::Classes((0..30).map(|i| label(i, 3)).collect())))
}

fn judge(networks: &[&Mlp], samples: u64) -> Evaluation {
    let likelihood = softmax(3);
    let ensemble = Ensemble::new(networks.iter().map(|network| (*network, &likelihood))).unwrap();
    ensemble.judge([batch()], &protocol(samples), |_| ()).unwrap().evaluation
}

#[test]
fn one_member_is_the_network_alone_bit_for_bit() {
    for kind in ["point", "mean-field", "k-tied:2"] {
        let mlp = mlp(kind, 1);
        let alone = evaluate(&mlp, &softmax(3), [batch()], &protocol(5), |_| ()).unwrap();
        assert_eq!(judge(&[&mlp], 5), alone, "{kind}");
        assert_eq!(alone.samples, 5);
    }
}

#[test]
fn equal_networks_draw_independently_of_each_other() {
    let mlp = mlp("mean-field", 1);
    let (alone, twice) = (judge(&[&mlp], 8), judge(&[&mlp, &mlp], 8));
    // The same posterior, of which two members make sixteen different draws.
    assert_ne!(alone.nll.value, twice.nll.value);
    assert!(twice.nll_of_draws.sem_draws.unwrap() < alone.nll_of_draws.sem_draws.unwrap());
    assert_eq!(alone.kl, twice.kl);
    // Its draws are those of sixteen, as far as chance goes: five standard errors.
    let difference = (alone.nll_of_draws.value - twice.nll_of_draws.value).abs();
    assert!(difference < 5.0 * alone.nll_of_draws.sem_draws.unwrap(), "{difference}");
}

#[test]
fn members_weigh_the_same_and_their_divergences_are_averaged() {
    let (point, other, bayesian) = (mlp("point", 1), mlp("point", 2), mlp("mean-field", 3));
    // Two points: one draw each, the error is over members.
    let points = judge(&[&point, &other], 100);
    assert_eq!((points.samples, points.members, points.kl), (1, 2, 0.0));
    assert!(points.nll.sem_draws.is_some_and(|error| error > 0.0));
    let of_draws = (judge(&[&point], 1).nll.value + judge(&[&other], 1).nll.value) / 2.0;
    assert!((points.nll_of_draws.value - of_draws).abs() < 1e-12);
    // A point beside a posterior of nine draws is half of the mixture.
    let mixed = judge(&[&point, &bayesian], 9);
    let alone = [judge(&[&point], 1), judge(&[&bayesian], 9)];
    assert_eq!((mixed.samples, mixed.kl), (9, alone[1].kl / 2.0));
    let nll = (alone[0].nll_of_draws.value + mixed_second(&bayesian, 9)) / 2.0;
    assert!((mixed.nll_of_draws.value - nll).abs() < 1e-12);
}

/// The mean NLL over the draws that a network makes as the second of two members.
fn mixed_second(network: &Mlp, samples: u64) -> f64 {
    let both = judge(&[network, network], samples).nll_of_draws.value;
    2.0 * both - judge(&[network], samples).nll_of_draws.value
}

/// A network that counts how often it is run.
#[derive(Debug, Module)]
struct Counted {
    network: Mlp,
    #[module(skip)]
    runs: Arc<AtomicU64>,
}

impl Network for Counted {
    type Input = Tensor<2>;

    fn forward(&self, x: Tensor<2>, pass: &Pass) -> Result<Tensor<2>> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.network.forward(x, pass)
    }

    fn weights(&self) -> Vec<&Weights> {
        self.network.weights()
    }

    fn map_weights<E>(self, map: impl FnMut(Weights) -> Result<Weights, E>) -> Result<Self, E> {
        Ok(Self { network: self.network.map_weights(map)?, ..self })
    }
}

#[test]
fn a_point_among_others_is_run_once_a_batch() {
    let likelihood = softmax(3);
    let counted = |kind| Counted { network: mlp(kind, 1), runs: Arc::default() };
    let networks = [counted("point"), counted("mean-field")];
    let ensemble = Ensemble::new(networks.iter().map(|network| (network, &likelihood))).unwrap();
    let mut done = 0;
    ensemble.judge([batch(), batch()], &protocol(7), |predictions| done = predictions).unwrap();
    assert_eq!(networks.map(|network| network.runs.load(Ordering::Relaxed)), [2, 14]);
    assert_eq!(done, 2 * 7 * 2 * 30);
}

#[test]
fn members_that_have_no_average_are_refused() {
    let gaussian = Likelihood::new(LikelihoodKind::Gaussian, 3, 1.0, &Device::flex()).unwrap();
    let (network, likelihood) = (mlp("point", 1), softmax(3));
    let mixed = Ensemble::new([(&network, &likelihood), (&network, &gaussian)]).unwrap_err();
    let sentence = "the likelihood `gaussian` does not fit a data set whose targets are classes";
    assert_eq!(mixed.to_string(), sentence);
    let none = Ensemble::<Mlp>::new([]).unwrap_err();
    assert_eq!(none.to_string(), "members must be at least 1, got 0");
    let wider = MlpSpec::new([6, 4]).init(&config("point"), &Device::flex()).unwrap();
    let ensemble = Ensemble::new([(&network, &likelihood), (&wider, &likelihood)]).unwrap();
    let error = ensemble.judge([batch()], &protocol(2), |_| ()).unwrap_err().to_string();
    assert_eq!(error, "evaluate: `prediction` must have shape [30, 3], got [30, 4]");
}

#[test]
fn a_member_is_named_where_its_output_is_not_finite() {
    let likelihood = softmax(3);
    let networks = [mlp("point", 1), mlp("mean-field", 2)];
    let ensemble = Ensemble::new(networks.iter().map(|network| (network, &likelihood))).unwrap();
    let x = Tensor::<2>::full([2, 6], f32::INFINITY, &Device::flex());
    let error = ensemble.uncertainties([Ok(x)], &protocol(2), |_| ()).unwrap_err().to_string();
    assert!(error.contains("of example 0 in draw 0 of member 0"), "{error}");
}
