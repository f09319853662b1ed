//! Metrics of plain probabilities and logits, held against those of outputs.

use burn::tensor::{Device, Tensor, activation};
use ktied::evaluate::{Classification, Evaluator, Judgement, Metrics, Protocol};
use ktied::objective::{Likelihood, LikelihoodKind};

use super::{CASES, Case, EXAMPLES, label};

const CASE: Case = CASES[0];

fn labels() -> Vec<u32> {
    (0..EXAMPLES).map(|i| label(i, CASE.outputs)).collect()
}

fn logits() -> Tensor<2> {
    CASE.tensor(&(0..EXAMPLES).collect::<Vec<_>>(), |i, j| CASE.output(0, i, j))
}

fn judged() -> Judgement {
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, 5, 1.0, &Device::flex()).unwrap();
    let mut evaluator = Evaluator::new(&likelihood, &Protocol { samples: 1, ..Protocol::new(1) }).unwrap();
    let examples: Vec<u32> = (0..EXAMPLES).collect();
    evaluator.add(&CASE.observed(&examples), |_| Ok(logits())).unwrap();
    evaluator.judge(0.0).unwrap()
}

#[test]
fn logits_give_the_same_bits_as_an_evaluation_of_one_draw() {
    let mut metrics = Metrics::new(5, 0).unwrap();
    metrics.add_logits(logits(), &labels()).unwrap();
    let found = metrics.finish().unwrap();
    let Judgement { evaluation, curves, .. } = judged();
    assert_eq!(found.nll, evaluation.nll);
    for (found, expected) in [
        (found.accuracy, evaluation.accuracy),
        (found.brier, evaluation.brier),
        (found.brier_usual, evaluation.brier_usual),
        (found.ece, evaluation.ece),
        (found.adaptive_ece, evaluation.adaptive_ece),
        (found.entropy, evaluation.entropy),
        (found.aurc, evaluation.aurc),
    ] {
        assert_eq!(Some(found), expected);
    }
    assert_eq!((Some(found.curves), found.examples), (curves, 300));
}

#[test]
fn probabilities_in_any_batches_give_the_metrics_of_their_logits() {
    let probabilities: Vec<f64> = activation::softmax(logits(), 1).into_data().iter::<f64>().collect();
    let whole = Metrics::of_probabilities(&probabilities, 5, &labels()).unwrap();
    let mut metrics = Metrics::new(5, 0).unwrap();
    probabilities.chunks(7 * 5).zip(labels().chunks(7)).for_each(|(p, labels)| metrics.add(p, labels).unwrap());
    assert_eq!(metrics.finish().unwrap(), whole);
    let expected = judged().evaluation;
    // The probabilities are of single precision.
    assert!((whole.nll.value - expected.nll.value).abs() < 1e-6);
    assert!((whole.aurc.value - expected.aurc.unwrap().value).abs() < 1e-6);
    let json = serde_json::to_value(&whole).unwrap();
    assert_eq!(serde_json::from_value::<Classification>(json).unwrap(), whole);
}

#[test]
fn diagrams_agree_with_the_metrics() {
    let Judgement { evaluation, curves, .. } = judged();
    let curves = curves.unwrap();
    let bars = curves.reliability.iter();
    assert_eq!((bars.len(), bars.clone().map(|bar| bar.count).sum::<u64>()), (15, 300));
    let gap: f64 = bars.filter_map(|bar| Some(bar.count as f64 * (bar.confidence? - bar.accuracy?).abs())).sum();
    assert!((gap / 300.0 - evaluation.ece.unwrap().value).abs() < 1e-12);
    let last = curves.risk_coverage.last().unwrap();
    assert_eq!(last.coverage, 1.0);
    assert!((last.risk - (1.0 - evaluation.accuracy.unwrap().value)).abs() < 1e-12);
}

#[test]
fn what_is_no_distribution_is_named() {
    let refuse =
        |p: &[f64], classes, labels: &[u32]| Metrics::of_probabilities(p, classes, labels).unwrap_err().to_string();
    assert_eq!(refuse(&[0.5, 0.5], 2, &[2]), "example 0 is of class 2, but there are only classes 0 to 1");
    assert_eq!(refuse(&[1.0, 0.0, 0.5, 0.6], 2, &[0, 0]), "the probabilities of example 1 must sum to 1, got 1.1");
    assert_eq!(refuse(&[2.0, -1.0], 2, &[0]), "probability 0 of example 0 must be between 0 and 1, got 2");
    assert_eq!(refuse(&[f64::NAN, 1.0], 2, &[0]), "probability 0 of example 0 must be between 0 and 1, got NaN");
    assert_eq!(refuse(&[1.0], 2, &[0]), "metrics: `probabilities` must have length 2, got 1");
    assert_eq!(refuse(&[], 2, &[]), "there is no example to evaluate on");
    assert_eq!(refuse(&[], 0, &[]), "num_classes must be at least 1, got 0");
    let mut metrics = Metrics::new(2, 0).unwrap();
    let error = metrics.add_logits(Tensor::zeros([1, 3], &Device::flex()), &[0]).unwrap_err().to_string();
    assert_eq!(error, "metrics: `logits` must have shape [1, 2], got [1, 3]");
    let error = metrics.add_logits(Tensor::full([1, 2], f32::NAN, &Device::flex()), &[0]).unwrap_err().to_string();
    assert_eq!(error, "logit 0 of example 0 must be a finite number, got NaN");
}
