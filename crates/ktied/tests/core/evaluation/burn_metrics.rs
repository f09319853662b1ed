//! Metrics for the training loop of burn, held against those of the library.

use burn::data::dataloader::Progress;
use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use burn::train::ClassificationOutput;
use burn::train::metric::{Adaptor, Metric, MetricAttributes, MetricMetadata, Numeric};
use ktied::evaluate::burn_metrics::{BrierMetric, EceMetric, NllMetric, ProbabilityInput};
use ktied::evaluate::{Classification, Metrics};

use super::{CASES, Case, EXAMPLES, label};

const CASE: Case = CASES[0];

fn metadata() -> MetricMetadata {
    let progress = Progress { items_processed: 1, items_total: 1, unit: None };
    MetricMetadata { progress, iteration: None, lr: None }
}

/// Logits and labels of some examples, as a model gives them to burn.
fn output(examples: &[u32]) -> ClassificationOutput {
    let device = Device::flex();
    let labels: Vec<i32> = examples.iter().map(|&i| label(i, CASE.outputs) as i32).collect();
    let targets = Tensor::<1, Int>::from_data(TensorData::new(labels, [examples.len()]), &device);
    let logits = CASE.tensor(examples, |i, j| CASE.output(0, i, j));
    ClassificationOutput::new(Tensor::zeros([1], &device), logits, targets)
}

fn expected(examples: &[u32]) -> Classification {
    let mut metrics = Metrics::new(5, 0).unwrap();
    let labels: Vec<u32> = examples.iter().map(|&i| label(i, CASE.outputs)).collect();
    metrics.add_logits(output(examples).output, &labels).unwrap();
    metrics.finish().unwrap()
}

/// An epoch in unequal batches; then what the metric says of the epoch and of its last batch.
fn epoch<M: Metric<Input = ProbabilityInput> + Numeric>(metric: &mut M) -> [f64; 2] {
    let examples: Vec<u32> = (0..EXAMPLES).collect();
    for batch in examples.chunks(128) {
        metric.update(&output(batch).adapt(), &metadata()).unwrap();
    }
    assert!(metric.compute().unwrap().formatted.contains("epoch"));
    [metric.final_value().current(), metric.value().unwrap().current()]
}

#[test]
fn an_epoch_of_batches_has_the_metrics_of_all_its_examples() {
    let examples: Vec<u32> = (0..EXAMPLES).collect();
    let (all, last) = (expected(&examples), expected(&examples[256..]));
    let close = |name: &str, found: [f64; 2], expected: [f64; 2]| {
        assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-12), "{name}: {found:?} {expected:?}");
    };
    close("ece", epoch(&mut EceMetric::new()), [all.ece.value, last.ece.value]);
    close("brier", epoch(&mut BrierMetric::new()), [all.brier_usual.value, last.brier_usual.value]);
    close("nll", epoch(&mut NllMetric::new()), [all.nll.value, last.nll.value]);
}

#[test]
fn a_cleared_metric_starts_again_and_lower_is_better() {
    let mut ece = EceMetric::new();
    let first = epoch(&mut ece);
    ece.clear();
    assert!(ece.value().is_none() && ece.compute().unwrap().is_not_available());
    assert_eq!(epoch(&mut ece), first);
    let mut nll = NllMetric::new();
    let first = epoch(&mut nll);
    nll.clear();
    assert_eq!(epoch(&mut nll), first);
    for attributes in [ece.attributes(), nll.attributes(), BrierMetric::new().attributes()] {
        assert!(matches!(attributes, MetricAttributes::Numeric(numeric) if !numeric.higher_is_better));
    }
}

#[test]
fn probabilities_are_taken_as_they_are() {
    let examples: Vec<u32> = (0..EXAMPLES).collect();
    let (all, output) = (expected(&examples), output(&examples));
    let input = || ProbabilityInput::new(activation::softmax(output.output.clone(), 1), output.targets.clone());
    let mut nll = NllMetric::of_probabilities();
    nll.update(&input(), &metadata()).unwrap();
    // Single precision.
    assert!((nll.final_value().current() - all.nll.value).abs() < 1e-6);
    let mut brier = BrierMetric::of_probabilities();
    brier.update(&input(), &metadata()).unwrap();
    assert!((brier.final_value().current() - all.brier_usual.value).abs() < 1e-6);
    let mut ece = EceMetric::of_probabilities();
    ece.update(&input(), &metadata()).unwrap();
    assert!((ece.final_value().current() - all.ece.value).abs() < 1e-6);
}
