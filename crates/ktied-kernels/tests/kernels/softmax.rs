//! Cross-entropies.

use ktied_kernels::ShapeError;
use ktied_kernels::softmax::{
    cross_entropy, cross_entropy_backward, sigmoid_cross_entropy, sigmoid_cross_entropy_backward,
};

use crate::reference::{
    assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, central_difference, dot, random,
    to_f64,
};

const TOLERANCE: f64 = 1e-6;

fn labels(batch: usize, num_classes: usize) -> Vec<u32> {
    (0..batch).map(|i| ((i * 7 + 3) % num_classes) as u32).collect()
}

fn reference(logits: &[f64], labels: &[u32], num_classes: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut losses, mut probabilities) = (Vec::new(), Vec::new());
    for (z, label) in logits.chunks(num_classes).zip(labels) {
        let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = z.iter().map(|z| (z - max).exp()).sum();
        losses.push(sum.ln() + max - z[*label as usize]);
        probabilities.extend(z.iter().map(|z| (z - max).exp() / sum));
    }
    (losses, probabilities)
}

#[test]
fn softmax_equals_the_formula() {
    for (batch, num_classes) in [(0, 3), (1, 1), (1, 2), (5, 10), (3, 16), (4, 17), (2, 1000), (700, 33)] {
        let logits: Vec<f32> = random(batch * num_classes, 1).iter().map(|z| 5.0 * z).collect();
        let labels = labels(batch, num_classes);
        let (mut loss, mut p) = (vec![f32::NAN; batch], vec![f32::NAN; logits.len()]);
        cross_entropy(&mut loss, &mut p, &logits, &labels, num_classes).unwrap();
        let (expected_loss, expected_p) = reference(&to_f64(&logits), &labels, num_classes);
        assert_close(&loss, &expected_loss, TOLERANCE, 0.0, &format!("loss of {batch}×{num_classes}"));
        assert_close(&p, &expected_p, TOLERANCE, 0.0, &format!("probabilities of {batch}×{num_classes}"));
    }
}

#[test]
fn softmax_backward_equals_central_differences() {
    let (batch, num_classes) = (5, 19);
    let (logits, labels, dloss) = (random(95, 1), labels(batch, num_classes), random(batch, 2));
    let (mut loss, mut p, mut dz) = (vec![0.0; batch], vec![0.0; 95], vec![f32::NAN; 95]);
    cross_entropy(&mut loss, &mut p, &logits, &labels, num_classes).unwrap();
    cross_entropy_backward(&mut dz, &p, &labels, &dloss, num_classes).unwrap();
    let dloss = to_f64(&dloss);
    let mut total = |z: &[f64]| dot(&reference(z, &labels, num_classes).0, &dloss);
    assert_close(&dz, &central_difference(&mut total, &to_f64(&logits), 1e-5), TOLERANCE, 1e-9, "dlogits");
}

#[test]
fn huge_logits_give_finite_losses() {
    let (mut loss, mut p) = ([0.0; 2], [0.0; 4]);
    cross_entropy(&mut loss, &mut p, &[3e38, -3e38, -1e30, -1e30], &[0, 1], 2).unwrap();
    assert_eq!((loss, p), ([0.0, 2f32.ln()], [1.0, 0.0, 0.5, 0.5]));
}

#[test]
fn a_nan_logit_makes_its_loss_nan_and_no_other() {
    let (mut loss, mut p) = ([0.0; 2], [0.0; 4]);
    cross_entropy(&mut loss, &mut p, &[0.0, f32::NAN, 1.0, 1.0], &[0, 0], 2).unwrap();
    assert!(loss[0].is_nan() && loss[1] == 2f32.ln());
}

#[test]
fn a_label_outside_the_classes_is_refused_before_anything_is_written() {
    let (mut loss, mut p) = ([7.0; 2], [7.0; 6]);
    let error = cross_entropy(&mut loss, &mut p, &[0.0; 6], &[0, 3], 3).unwrap_err();
    let refusal = |kernel| {
        let expected = "below the number of classes";
        ShapeError::Size { kernel, operand: "labels", expected, found: 3 }
    };
    assert_eq!(error, refusal("softmax cross_entropy"));
    assert_eq!((loss, p), ([7.0; 2], [7.0; 6]));
    let error = cross_entropy_backward(&mut p, &[0.0; 6], &[3, 0], &[0.0; 2], 3).unwrap_err();
    assert_eq!(error, refusal("softmax cross_entropy_backward"));
    assert!(cross_entropy(&mut [0.0], &mut [], &[], &[0], 0).is_err(), "no class at all");
}

#[test]
fn bad_lengths_are_refused() {
    let error = cross_entropy(&mut [0.0; 2], &mut [0.0; 6], &[0.0; 5], &[0, 1], 3).unwrap_err();
    assert_eq!(error.to_string(), "softmax cross_entropy: `logits` must have length 6, got 5");
    let error = cross_entropy_backward(&mut [0.0; 6], &[0.0; 6], &[0, 1], &[0.0], 3).unwrap_err();
    assert_eq!(error.to_string(), "softmax cross_entropy_backward: `dloss` must have length 2, got 1");
    assert!(cross_entropy(&mut [0.0; 2], &mut [], &[], &[0, 0], usize::MAX).is_err());
    let error = sigmoid_cross_entropy(&mut [0.0; 2], &[0.0; 2], &[0.0; 3]).unwrap_err();
    assert_eq!(error.to_string(), "sigmoid_cross_entropy: `targets` must have length 2, got 3");
    let error = sigmoid_cross_entropy_backward(&mut [0.0; 2], &[0.0; 2], &[0.0; 2], &[]).unwrap_err();
    assert_eq!(error.to_string(), "sigmoid_cross_entropy_backward: `dloss` must have length 2, got 0");
}

fn sigmoid_reference(logits: &[f64], targets: &[f64]) -> Vec<f64> {
    logits.iter().zip(targets).map(|(z, t)| (-z.abs()).exp().ln_1p() + z.max(0.0) - z * t).collect()
}

#[test]
fn sigmoid_cross_entropy_equals_the_formula_and_its_central_differences() {
    for len in [0, 1, 7, 100] {
        let logits: Vec<f32> = random(len, 1).iter().map(|z| 4.0 * z).collect();
        let targets: Vec<f32> = (0..len).map(|i| [0.0, 1.0, 0.25][i % 3]).collect();
        let dloss = random(len, 2);
        let (mut loss, mut dz) = (vec![f32::NAN; len], vec![f32::NAN; len]);
        sigmoid_cross_entropy(&mut loss, &logits, &targets).unwrap();
        sigmoid_cross_entropy_backward(&mut dz, &logits, &targets, &dloss).unwrap();
        let (logits, targets, dloss) = (to_f64(&logits), to_f64(&targets), to_f64(&dloss));
        assert_close(&loss, &sigmoid_reference(&logits, &targets), TOLERANCE, 0.0, "loss");
        let slope = central_difference(&mut |z| dot(&sigmoid_reference(z, &targets), &dloss), &logits, 1e-5);
        assert_close(&dz, &slope, TOLERANCE, 1e-9, "dlogits");
    }
}

#[test]
fn a_sure_and_right_logit_keeps_the_digits_of_its_small_loss() {
    let mut loss = [0.0; 2];
    sigmoid_cross_entropy(&mut loss, &[20.0, -20.0], &[1.0, 0.0]).unwrap();
    for loss in loss {
        assert_close(&[loss], &[2.061_153_620_314_381e-9], 1e-6, 0.0, "loss");
    }
}

fn everything() -> Vec<f32> {
    let (batch, num_classes) = (3000, 37);
    let (logits, dloss, labels) = (random(batch * num_classes, 1), random(batch, 2), labels(batch, num_classes));
    let (mut loss, mut p, mut dz) = (vec![0.0; batch], vec![0.0; logits.len()], vec![0.0; logits.len()]);
    cross_entropy(&mut loss, &mut p, &logits, &labels, num_classes).unwrap();
    cross_entropy_backward(&mut dz, &p, &labels, &dloss, num_classes).unwrap();
    let (mut binary, mut dbinary) = (vec![0.0; logits.len()], vec![0.0; logits.len()]);
    sigmoid_cross_entropy(&mut binary, &logits, &p).unwrap();
    sigmoid_cross_entropy_backward(&mut dbinary, &logits, &p, &dz).unwrap();
    [loss, p, dz, binary, dbinary].concat()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    assert_same_bits_on_any_threads("cross-entropies", everything);
}

#[test]
fn any_instruction_set_gives_the_same_bits() {
    assert_same_bits_on_any_level("cross-entropies", everything);
}
