//! Batch normalisation.

use ktied_kernels::activation::Activation;
use ktied_kernels::batch_norm::{
    BatchNorm, BatchNormGrads, Moments, MomentsMut, backward_frozen, backward_train, forward_frozen, forward_train,
};

use crate::reference::{
    assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, central_difference, dot, random,
    to_f64,
};

const EPSILON: f32 = 1e-3;
const TOLERANCE: f64 = 3e-6;

fn moments_reference(x: &[f64], channels: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = (x.len() / channels) as f64;
    let column = |c: usize| x.iter().skip(c).step_by(channels);
    let mean: Vec<f64> = (0..channels).map(|c| column(c).sum::<f64>() / rows).collect();
    let var = (0..channels).map(|c| column(c).map(|x| (x - mean[c]).powi(2)).sum::<f64>() / rows).collect();
    (mean, var)
}

/// `frozen` are the mean and variance to use in place of those of x.
fn reference(
    x: &[f64],
    gamma: &[f64],
    beta: &[f64],
    activation: Activation,
    frozen: Option<(&[f64], &[f64])>,
) -> Vec<f64> {
    let own = moments_reference(x, gamma.len());
    let (mean, var) = frozen.unwrap_or((&own.0, &own.1));
    let value = |(i, x): (usize, &f64)| {
        let c = i % gamma.len();
        let z = gamma[c] * (x - mean[c]) / (var[c] + f64::from(EPSILON)).sqrt() + beta[c];
        if activation == Activation::Relu { z.max(0.0) } else { z }
    };
    x.iter().enumerate().map(value).collect()
}

fn norm<'a>(gamma: &'a [f32], beta: &'a [f32], activation: Activation) -> BatchNorm<'a> {
    BatchNorm { gamma, beta, epsilon: EPSILON, activation }
}

#[test]
fn forward_equals_the_formula() {
    for (rows, channels) in [(1, 1), (2, 3), (7, 17), (3, 64), (1300, 5), (600, 70)] {
        let (x, gamma, beta) = (random(rows * channels, 1), random(channels, 2), random(channels, 3));
        let (x64, gamma64, beta64) = (to_f64(&x), to_f64(&gamma), to_f64(&beta));
        for activation in [Activation::Identity, Activation::Relu] {
            let (mut y, mut mean, mut var) =
                (vec![f32::NAN; x.len()], vec![f32::NAN; channels], vec![f32::NAN; channels]);
            let moments = MomentsMut { mean: &mut mean, var: &mut var };
            forward_train(&mut y, moments, &x, norm(&gamma, &beta, activation)).unwrap();
            let what = format!("{rows}×{channels} {activation:?}");
            let (mean64, var64) = moments_reference(&x64, channels);
            assert_close(&mean, &mean64, TOLERANCE, 1e-7, &format!("mean of {what}"));
            assert_close(&var, &var64, TOLERANCE, 1e-7, &format!("variance of {what}"));
            let expected = reference(&x64, &gamma64, &beta64, activation, None);
            assert_close(&y, &expected, TOLERANCE, 0.0, &what);

            let (mean, var) = (random(channels, 4), random(channels, 5).iter().map(|v| v * v).collect::<Vec<_>>());
            let moments = Moments { mean: &mean, var: &var };
            forward_frozen(&mut y, &x, norm(&gamma, &beta, activation), moments).unwrap();
            let frozen = (&to_f64(&mean)[..], &to_f64(&var)[..]);
            let expected = reference(&x64, &gamma64, &beta64, activation, Some(frozen));
            assert_close(&y, &expected, TOLERANCE, 0.0, &format!("frozen {what}"));
        }
    }
}

#[test]
fn backward_equals_central_differences() {
    for (rows, channels) in [(1, 1), (2, 3), (13, 17)] {
        let (x, gamma, beta) = (random(rows * channels, 1), random(channels, 2), random(channels, 3));
        let dy = random(x.len(), 6);
        let (x64, gamma64, beta64, dy64) = (to_f64(&x), to_f64(&gamma), to_f64(&beta), to_f64(&dy));
        for activation in [Activation::Identity, Activation::Relu] {
            for is_frozen in [false, true] {
                let norm = norm(&gamma, &beta, activation);
                let mut y = vec![0.0; x.len()];
                let (mut mean, mut var) = (random(channels, 4), vec![0.7; channels]);
                if !is_frozen {
                    forward_train(&mut y, MomentsMut { mean: &mut mean, var: &mut var }, &x, norm).unwrap();
                }
                let (mut dx, mut dgamma, mut dbeta) =
                    (vec![f32::NAN; x.len()], vec![f32::NAN; channels], vec![f32::NAN; channels]);
                let grads = BatchNormGrads { x: Some(&mut dx), gamma: Some(&mut dgamma), beta: Some(&mut dbeta) };
                let backward = if is_frozen { backward_frozen } else { backward_train };
                backward(grads, &dy, &x, norm, Moments { mean: &mean, var: &var }).unwrap();

                let given = (to_f64(&mean), to_f64(&var));
                let frozen = is_frozen.then_some((&given.0[..], &given.1[..]));
                let loss = |x: &[f64], g: &[f64], b: &[f64]| dot(&reference(x, g, b, activation, frozen), &dy64);
                let what = format!("{rows}×{channels} {activation:?} frozen: {is_frozen}");
                // 1e-5 of the largest: a difference of grads is left where the batch's own moments are used.
                let expected = central_difference(&mut |x| loss(x, &gamma64, &beta64), &x64, 1e-6);
                assert_close(&dx, &expected, 1e-5, 1e-7, &format!("dx of {what}"));
                let expected = central_difference(&mut |g| loss(&x64, g, &beta64), &gamma64, 1e-6);
                assert_close(&dgamma, &expected, 1e-5, 1e-7, &format!("dgamma of {what}"));
                let expected = central_difference(&mut |b| loss(&x64, &gamma64, b), &beta64, 1e-6);
                assert_close(&dbeta, &expected, 1e-5, 1e-7, &format!("dbeta of {what}"));
            }
        }
    }
}

#[test]
fn a_mean_far_from_zero_costs_the_variance_no_digits() {
    let channels = 3;
    let x: Vec<f32> = random(3 * 5000, 1).iter().map(|x| 10_000.0 + x).collect();
    let (mut y, mut mean, mut var) = (vec![0.0; x.len()], [0.0; 3], [0.0; 3]);
    let moments = MomentsMut { mean: &mut mean, var: &mut var };
    forward_train(&mut y, moments, &x, norm(&[1.0; 3], &[0.0; 3], Activation::Identity)).unwrap();
    let (mean64, var64) = moments_reference(&to_f64(&x), channels);
    assert_close(&mean, &mean64, 1e-7, 0.0, "mean");
    assert_close(&var, &var64, TOLERANCE, 0.0, "variance");
}

#[test]
fn no_rows_and_no_channels_are_no_trouble() {
    let (mut mean, mut var) = ([7.0; 2], [7.0; 2]);
    let moments = MomentsMut { mean: &mut mean, var: &mut var };
    forward_train(&mut [], moments, &[], norm(&[1.0; 2], &[0.0; 2], Activation::Relu)).unwrap();
    assert_eq!((mean, var), ([0.0; 2], [0.0; 2]));
    let (mut dgamma, mut dbeta) = ([7.0; 2], [7.0; 2]);
    let grads = BatchNormGrads { x: Some(&mut []), gamma: Some(&mut dgamma), beta: Some(&mut dbeta) };
    let moments = Moments { mean: &mean, var: &var };
    backward_train(grads, &[], &[], norm(&[1.0; 2], &[0.0; 2], Activation::Relu), moments).unwrap();
    assert_eq!((dgamma, dbeta), ([0.0; 2], [0.0; 2]));
    let nothing = norm(&[], &[], Activation::Identity);
    forward_train(&mut [], MomentsMut { mean: &mut [], var: &mut [] }, &[], nothing).unwrap();
    let grads = BatchNormGrads { x: Some(&mut []), gamma: Some(&mut []), beta: Some(&mut []) };
    backward_frozen(grads, &[], &[], nothing, Moments { mean: &[], var: &[] }).unwrap();
}

fn everything() -> Vec<f32> {
    let (rows, channels) = (2000, 37);
    let (x, dy, gamma, beta) = (random(rows * 37, 1), random(rows * 37, 2), random(37, 3), random(37, 4));
    let norm = norm(&gamma, &beta, Activation::Relu);
    let (mut y, mut mean, mut var) = (vec![0.0; x.len()], vec![0.0; channels], vec![0.0; channels]);
    forward_train(&mut y, MomentsMut { mean: &mut mean, var: &mut var }, &x, norm).unwrap();
    let (mut dx, mut dgamma, mut dbeta) = (vec![0.0; x.len()], vec![0.0; channels], vec![0.0; channels]);
    let grads = BatchNormGrads { x: Some(&mut dx), gamma: Some(&mut dgamma), beta: Some(&mut dbeta) };
    backward_train(grads, &dy, &x, norm, Moments { mean: &mean, var: &var }).unwrap();
    [y, mean, var, dx, dgamma, dbeta].concat()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    assert_same_bits_on_any_threads("batch normalisation", everything);
}

#[test]
fn any_instruction_set_gives_the_same_bits() {
    assert_same_bits_on_any_level("batch normalisation", everything);
}

#[test]
fn bad_shapes_are_refused() {
    let norm = norm(&[1.0; 2], &[0.0; 2], Activation::Identity);
    let moments = Moments { mean: &[0.0; 2], var: &[1.0; 2] };
    let error = forward_frozen(&mut [0.0; 3], &[0.0; 3], norm, moments).unwrap_err();
    assert_eq!(error.to_string(), "batch_norm frozen: `x` must be a whole number of rows of channels, got 3");
    let error = forward_frozen(&mut [0.0; 2], &[0.0; 4], norm, moments).unwrap_err();
    assert_eq!(error.to_string(), "batch_norm frozen: `y` must have length 4, got 2");
    let short = Moments { mean: &[0.0; 1], ..moments };
    let error = forward_frozen(&mut [0.0; 4], &[0.0; 4], norm, short).unwrap_err();
    assert_eq!(error.to_string(), "batch_norm frozen: `mean` must have length 2, got 1");
    let none = BatchNorm { gamma: &[], beta: &[], ..norm };
    let nothing = Moments { mean: &[], var: &[] };
    assert!(forward_frozen(&mut [0.0; 4], &[0.0; 4], none, nothing).is_err(), "elements without a channel");
    let mut dgamma = [0.0; 3];
    let grads = BatchNormGrads { gamma: Some(&mut dgamma), ..Default::default() };
    let error = backward_train(grads, &[0.0; 4], &[0.0; 4], norm, moments).unwrap_err();
    assert_eq!(error.to_string(), "batch_norm backward: `dgamma` must have length 2, got 3");
}
