//! Local reparameterisation against its definition, brute-force weight sampling, and central differences.

use ktied_kernels::activation::Activation;
use ktied_kernels::local::{self, KTiedLocalGrads, LocalLayer, MeanFieldLocalGrads, RawScale};
use ktied_kernels::{NoiseKey, Purpose, ScaleForm, sample};

use crate::reference::{
    assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, central_difference, dot, matmul,
    random, to_f64,
};
use crate::sample::{eps, factors, k_tied_scale, key, log_factor, scale_of};

/// (B, M, N, K)
const SHAPES: [(usize, usize, usize, usize); 8] = [
    (0, 3, 2, 1),
    (1, 1, 1, 1),
    (3, 0, 4, 1),
    (2, 3, 0, 2),
    (4, 5, 3, 3),
    (3, 300, 7, 2),
    (2, 4, 301, 2),
    (9, 6, 5, 4),
];

/// √(x²σ² + σ_b² + 1e-12) ∘ ε
fn definition(x: &[f64], scale: &[f64], bias: &[f64], (b, m, n): (usize, usize, usize)) -> Vec<f64> {
    let squares = |x: &[f64]| x.iter().map(|x| x * x).collect::<Vec<_>>();
    let variance = matmul(&squares(x), &squares(scale), b, m, n);
    let noisy = variance.iter().enumerate().zip(eps(b * n));
    noisy.map(|((i, v), e)| (v + bias[i % n].powi(2) + 1e-12).sqrt() * e).collect()
}

fn bias_scale(raw: &[f64]) -> Vec<f64> {
    raw.iter().map(|&r| scale_of(ScaleForm::Softplus, r)).collect()
}

fn layer<'a>(x: &'a [f32], batch: usize, bias: Option<&'a [f32]>) -> LocalLayer<'a> {
    let bias = bias.map(|raw| RawScale { raw, form: ScaleForm::Softplus });
    LocalLayer { x, batch, bias, key: key(), first: 0, activation: Activation::Identity }
}

#[test]
fn k_tied_noise_has_the_standard_deviation_of_the_definition() {
    for (b, m, n, k) in SHAPES.into_iter().chain([(70, 400, 100, 3)]) {
        let shape = (m, n, k);
        let (x, log_u, log_v, raw) = (random(b * m, 1), log_factor(m * k, 2), log_factor(n * k, 3), log_factor(n, 4));
        let mut y = vec![0.0; b * n];
        let mut tape = vec![0.0; b * (k * (k + 1) / 2 + n)];
        local::k_tied(&mut y, &mut tape, layer(&x, b, Some(&raw)), factors(&log_u, &log_v, shape)).unwrap();
        let scale = k_tied_scale(&to_f64(&log_u), &to_f64(&log_v), shape);
        let expected = definition(&to_f64(&x), &scale, &bias_scale(&to_f64(&raw)), (b, m, n));
        assert_close(&y, &expected, 5e-7, 0.0, &format!("{b} {shape:?}"));
    }
}

#[test]
fn the_gradients_of_k_tied_noise_match_central_differences() {
    for (b, m, n, k) in SHAPES {
        let shape = (m, n, k);
        let (x, log_u, log_v, raw) = (random(b * m, 1), log_factor(m * k, 2), log_factor(n * k, 3), log_factor(n, 4));
        let (d_y, mut y) = (random(b * n, 5), vec![0.0; b * n]);
        let mut tape = vec![0.0; b * (k * (k + 1) / 2 + n)];
        let f = factors(&log_u, &log_v, shape);
        local::k_tied(&mut y, &mut tape, layer(&x, b, Some(&raw)), f).unwrap();
        let (mut d_x, mut d_u, mut d_v, mut d_raw) =
            (vec![0.0; b * m], vec![0.0; m * k], vec![0.0; n * k], vec![0.0; n]);
        let grads = KTiedLocalGrads { x: Some(&mut d_x), log_u: &mut d_u, log_v: &mut d_v, bias_raw: Some(&mut d_raw) };
        local::k_tied_backward(grads, &d_y, &tape, layer(&x, b, Some(&raw)), f).unwrap();
        let (x, u, v, raw, d_y) = (to_f64(&x), to_f64(&log_u), to_f64(&log_v), to_f64(&raw), to_f64(&d_y));
        let loss = |x: &[f64], u: &[f64], v: &[f64], raw: &[f64]| {
            dot(&definition(x, &k_tied_scale(u, v, shape), &bias_scale(raw), (b, m, n)), &d_y)
        };
        let what = format!("{b} {shape:?}");
        assert_close(&d_x, &central_difference(&mut |x| loss(x, &u, &v, &raw), &x, 1e-5), 3e-6, 1e-8, &what);
        assert_close(&d_u, &central_difference(&mut |u| loss(&x, u, &v, &raw), &u, 1e-5), 3e-6, 1e-8, &what);
        assert_close(&d_v, &central_difference(&mut |v| loss(&x, &u, v, &raw), &v, 1e-5), 3e-6, 1e-8, &what);
        assert_close(&d_raw, &central_difference(&mut |r| loss(&x, &u, &v, r), &raw, 1e-5), 3e-6, 1e-8, &what);
    }
}

#[test]
fn mean_field_noise_and_its_gradients_match_the_definition() {
    for (b, m, n) in [(1, 1, 1), (4, 5, 3), (3, 0, 2), (2, 3, 0), (5, 40, 9), (3, 6, 100)] {
        let (x, raw_scale, raw, d_y) = (random(b * m, 1), log_factor(m * n, 2), log_factor(n, 3), random(b * n, 4));
        let (mut y, mut tape) = (vec![0.0; b * n], vec![0.0; b * n]);
        for form in [ScaleForm::Log, ScaleForm::Softplus] {
            y.fill(0.0);
            local::mean_field(&mut y, &mut tape, layer(&x, b, Some(&raw)), RawScale { raw: &raw_scale, form }).unwrap();
            let (mut d_x, mut d_scale, mut d_raw) = (vec![0.0; b * m], vec![0.0; m * n], vec![0.0; n]);
            let grads = MeanFieldLocalGrads { x: Some(&mut d_x), raw_scale: &mut d_scale, bias_raw: Some(&mut d_raw) };
            local::mean_field_backward(
                grads,
                &d_y,
                &tape,
                layer(&x, b, Some(&raw)),
                RawScale { raw: &raw_scale, form },
            )
            .unwrap();
            let (x, s, r) = (to_f64(&x), to_f64(&raw_scale), to_f64(&raw));
            let noise = |x: &[f64], s: &[f64], r: &[f64]| {
                let scale: Vec<f64> = s.iter().map(|&s| scale_of(form, s)).collect();
                definition(x, &scale, &bias_scale(r), (b, m, n))
            };
            let d_y = to_f64(&d_y);
            assert_close(&y, &noise(&x, &s, &r), 1e-6, 0.0, "y");
            let loss = |x: &[f64], s: &[f64], r: &[f64]| dot(&noise(x, s, r), &d_y);
            assert_close(&d_x, &central_difference(&mut |x| loss(x, &s, &r), &x, 1e-5), 3e-6, 1e-8, "d_x");
            assert_close(&d_scale, &central_difference(&mut |s| loss(&x, s, &r), &s, 1e-5), 3e-6, 1e-8, "d_scale");
            assert_close(&d_raw, &central_difference(&mut |r| loss(&x, &s, r), &r, 1e-5), 3e-6, 1e-8, "d_bias");
        }
    }
}

/// Gradients with respect to inputs join what is there, those that are not wanted change nothing else, and the
/// activation is that of the noisy sums.
#[test]
fn gradients_join_those_of_the_means_and_the_activation_comes_last() {
    let (b, m, n, k) = (5, 300, 7, 2);
    let (x, log_u, log_v, raw_scale) =
        (random(b * m, 1), log_factor(m * k, 2), log_factor(n * k, 3), log_factor(m * n, 6));
    let (f, scale) = (factors(&log_u, &log_v, (m, n, k)), RawScale { raw: &raw_scale, form: ScaleForm::Log });
    let (layer, dz) = (layer(&x, b, None), random(b * n, 5));
    let rectified = LocalLayer { activation: Activation::Relu, ..layer };
    let (mut tape, mut tape_m) = (vec![0.0; b * (3 + n)], vec![0.0; b * n]);
    for tied in [true, false] {
        let mut forward = |layer| {
            let mut y = random(b * n, 7);
            match tied {
                true => local::k_tied(&mut y, &mut tape, layer, f).unwrap(),
                false => local::mean_field(&mut y, &mut tape_m, layer, scale).unwrap(),
            }
            y
        };
        let relu: Vec<f32> = forward(layer).into_iter().map(|y| y.max(0.0)).collect();
        assert_eq!(forward(rectified), relu);
        assert!(relu.contains(&0.0) && relu.iter().any(|&y| y > 0.0));
        let backward = |x: Option<&mut [f32]>| {
            let (mut d_u, mut d_v, mut d_scale) = (vec![9.0; m * k], vec![9.0; n * k], vec![9.0; m * n]);
            if tied {
                let grads = KTiedLocalGrads { x, log_u: &mut d_u, log_v: &mut d_v, bias_raw: None };
                local::k_tied_backward(grads, &dz, &tape, layer, f).unwrap();
            } else {
                let grads = MeanFieldLocalGrads { x, raw_scale: &mut d_scale, bias_raw: None };
                local::mean_field_backward(grads, &dz, &tape_m, layer, scale).unwrap();
            }
            [d_u, d_v, d_scale].concat()
        };
        let (mut alone, mut joined) = (vec![0.0; b * m], random(b * m, 8));
        let before = joined.clone();
        let others = backward(Some(&mut alone));
        assert_eq!(backward(Some(&mut joined)), others);
        assert_eq!(backward(None), others);
        let sums: Vec<f32> = before.iter().zip(&alone).map(|(b, a)| b + a).collect();
        assert_eq!(joined, sums);
    }
}

/// The second half of a batch, by itself, gets the noise that it gets in the whole.
#[test]
fn a_part_of_a_batch_has_the_noise_of_the_whole() {
    let (b, m, n, k) = (6, 20, 101, 2);
    let (x, log_u, log_v, raw_scale) =
        (random(b * m, 1), log_factor(m * k, 2), log_factor(n * k, 3), log_factor(m * n, 6));
    let (f, scale) = (factors(&log_u, &log_v, (m, n, k)), RawScale { raw: &raw_scale, form: ScaleForm::Log });
    let dz = random(b * n, 5);
    let run = |rows: std::ops::Range<usize>, tied: bool| {
        let (batch, x, dz) = (rows.len(), &x[rows.start * m..rows.end * m], &dz[rows.start * n..rows.end * n]);
        let layer = LocalLayer { first: rows.start * n, ..layer(x, batch, None) };
        let (mut y, mut d_x) = (vec![0.0; batch * n], vec![0.0; batch * m]);
        if tied {
            let (mut tape, mut d_u, mut d_v) = (vec![0.0; batch * (3 + n)], vec![0.0; m * k], vec![0.0; n * k]);
            local::k_tied(&mut y, &mut tape, layer, f).unwrap();
            let grads = KTiedLocalGrads { x: Some(&mut d_x), log_u: &mut d_u, log_v: &mut d_v, bias_raw: None };
            local::k_tied_backward(grads, dz, &tape, layer, f).unwrap();
        } else {
            let (mut tape, mut d_scale) = (vec![0.0; batch * n], vec![0.0; m * n]);
            local::mean_field(&mut y, &mut tape, layer, scale).unwrap();
            let grads = MeanFieldLocalGrads { x: Some(&mut d_x), raw_scale: &mut d_scale, bias_raw: None };
            local::mean_field_backward(grads, dz, &tape, layer, scale).unwrap();
        }
        (y, d_x)
    };
    for tied in [true, false] {
        let (whole, parts) = (run(0..b, tied), [run(0..2, tied), run(2..b, tied)]);
        let [a, b] = parts;
        assert_close(&[a.0, b.0].concat(), &to_f64(&whole.0), 1e-6, 0.0, "y");
        assert_close(&[a.1, b.1].concat(), &to_f64(&whole.1), 1e-5, 1e-6, "dx");
    }
}

#[test]
fn noise_on_known_moments_is_mean_plus_scaled_normals() {
    let (first, len) = (700, 40_000);
    let (mean, sd, dz) = (random(len, 1), random(len, 2), random(len, 3));
    let all = eps(first + len);
    let expected: Vec<f64> =
        mean.iter().zip(&sd).zip(&all[first..]).map(|((m, s), e)| f64::from(*m) + f64::from(*s) * e).collect();
    let (mut y, mut d_sd) = (vec![0.0; len], vec![0.0; len]);
    local::noisy(&mut y, &mean, &sd, (key(), first), Activation::Identity).unwrap();
    assert_close(&y, &expected, 1e-6, 1e-6, "y");
    let relu: Vec<f32> = y.iter().map(|y| y.max(0.0)).collect();
    local::noisy(&mut y, &mean, &sd, (key(), first), Activation::Relu).unwrap();
    assert_eq!(y, relu);
    local::noisy_backward(&mut d_sd, &dz, (key(), first)).unwrap();
    let expected: Vec<f64> = dz.iter().zip(&all[first..]).map(|(d, e)| f64::from(*d) * e).collect();
    assert_close(&d_sd, &expected, 1e-6, 1e-6, "d_sd");
    let error = local::noisy(&mut [0.0; 2], &[0.0; 2], &[0.0], (key(), 0), Activation::Relu).unwrap_err();
    assert_eq!(error.to_string(), "noisy: `sd` must have length 2, got 1");
}

#[test]
fn an_all_zero_row_has_zero_gradients_not_nan() {
    let (m, n, k) = (4, 3, 2);
    let (x, log_u, log_v, d_y) = (vec![0.0; m], log_factor(m * k, 2), log_factor(n * k, 3), random(n, 4));
    let (mut y, mut tape) = (vec![0.0; n], vec![0.0; 3 + n]);
    let f = factors(&log_u, &log_v, (m, n, k));
    local::k_tied(&mut y, &mut tape, layer(&x, 1, None), f).unwrap();
    let (mut d_x, mut d_u, mut d_v) = (vec![0.0; m], vec![1.0; m * k], vec![1.0; n * k]);
    let grads = KTiedLocalGrads { x: Some(&mut d_x), log_u: &mut d_u, log_v: &mut d_v, bias_raw: None };
    local::k_tied_backward(grads, &d_y, &tape, layer(&x, 1, None), f).unwrap();
    assert!([d_x, d_u, d_v].concat().iter().all(|&d| d == 0.0));
    let floor: Vec<f64> = eps(n).iter().map(|e| 1e-6 * e).collect();
    assert_close(&y, &floor, 1e-6, 0.0, "what the floor of the variance leaves");
}

#[test]
fn local_activations_have_the_distribution_of_activations_of_drawn_weights() {
    // One example through drawn weights and through local noise, 20,000 times each: the two-sample
    // Kolmogorov–Smirnov distance stays under its bound for a false alarm of 1e-6.
    let shape @ (m, n, k) = (6, 2, 2);
    let (x, log_u, log_v) = (random(m, 1), log_factor(m * k, 2), log_factor(n * k, 3));
    let f = factors(&log_u, &log_v, shape);
    let num_draws = 20_000;
    let (mut global, mut local_) = (Vec::new(), Vec::new());
    let (mut w, mut y, mut tape) = (vec![0.0; m * n], vec![0.0; n], vec![0.0; 3 + n]);
    for step in 0..num_draws {
        let root = NoiseKey::new(4);
        sample::k_tied(&mut w, None, f, root.child(Purpose::Weights).at(step, 0)).unwrap();
        global.push((0..m).map(|i| x[i] * w[i * n]).sum::<f32>());
        y.fill(0.0);
        let key = root.child(Purpose::Activations).at(step, 0);
        local::k_tied(&mut y, &mut tape, LocalLayer { key, ..layer(&x, 1, None) }, f).unwrap();
        local_.push(y[0]);
    }
    global.sort_by(f32::total_cmp);
    local_.sort_by(f32::total_cmp);
    let below = |sorted: &[f32], at: f32| sorted.partition_point(|&v| v <= at) as f64 / sorted.len() as f64;
    let distance = global.iter().map(|&at| (below(&global, at) - below(&local_, at)).abs()).fold(0.0, f64::max);
    let bound = ((2.0f64 / 1e-6).ln() / num_draws as f64).sqrt();
    assert!(distance < bound, "{distance} ≥ {bound}");
}

fn all_outputs(with_products: bool) -> Vec<f32> {
    let (b, m, n, k) = (200, 150, 130, 2);
    let (x, log_u, log_v, raw) = (random(b * m, 1), log_factor(m * k, 2), log_factor(n * k, 3), log_factor(n, 4));
    let (d_y, mut y, mut tape) = (random(b * n, 5), vec![0.0; b * n], vec![0.0; b * (3 + n)]);
    let f = factors(&log_u, &log_v, (m, n, k));
    local::k_tied(&mut y, &mut tape, layer(&x, b, Some(&raw)), f).unwrap();
    let (mut d_x, mut d_u, mut d_v, mut d_raw) = (vec![0.0; b * m], vec![0.0; m * k], vec![0.0; n * k], vec![0.0; n]);
    let grads = KTiedLocalGrads { x: Some(&mut d_x), log_u: &mut d_u, log_v: &mut d_v, bias_raw: Some(&mut d_raw) };
    local::k_tied_backward(grads, &d_y, &tape, layer(&x, b, Some(&raw)), f).unwrap();
    let mut out = [y.clone(), tape, d_x.clone(), d_u, d_v, d_raw.clone()].concat();
    if with_products {
        let (raw_scale, mut tape, mut d_scale) = (log_factor(m * n, 6), vec![0.0; b * n], vec![0.0; m * n]);
        local::mean_field(
            &mut y,
            &mut tape,
            layer(&x, b, Some(&raw)),
            RawScale { raw: &raw_scale, form: ScaleForm::Log },
        )
        .unwrap();
        let grads = MeanFieldLocalGrads { x: Some(&mut d_x), raw_scale: &mut d_scale, bias_raw: Some(&mut d_raw) };
        local::mean_field_backward(
            grads,
            &d_y,
            &tape,
            layer(&x, b, Some(&raw)),
            RawScale { raw: &raw_scale, form: ScaleForm::Log },
        )
        .unwrap();
        out.extend([y, tape, d_x, d_scale, d_raw].concat());
    }
    out
}

#[test]
fn local_noise_has_the_same_bits_on_any_number_of_threads_and_instruction_set() {
    assert_same_bits_on_any_threads("local", || all_outputs(true));
    assert_same_bits_on_any_level("local", || all_outputs(false));
}

#[test]
fn local_noise_refuses_operands_that_do_not_fit() {
    let (log_u, log_v) = (vec![0.0; 6], vec![0.0; 8]);
    let f = factors(&log_u, &log_v, (3, 4, 2));
    let run = |y: usize, tape: usize, x: usize, batch: usize| {
        local::k_tied(&mut vec![0.0; y], &mut vec![0.0; tape], layer(&vec![0.0; x], batch, None), f)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(run(7, 14, 6, 2), "local_k_tied: `y` must have length 8, got 7");
    assert_eq!(run(8, 14, 5, 2), "local_k_tied: `x` must have length 6, got 5");
    assert_eq!(run(8, 6, 6, 2), "local_k_tied: `tape` must have length 14, got 6");
    assert_eq!(run(8, 14, 6, usize::MAX), "local_k_tied: the product of the sizes is too large");
    let form = ScaleForm::Log;
    let error =
        local::mean_field(&mut [0.0; 4], &mut [0.0; 4], layer(&[0.0; 5], 2, None), RawScale { raw: &[0.0; 6], form })
            .unwrap_err();
    assert_eq!(error.to_string(), "local_mean_field: `length of x` must be a multiple of the batch, got 5");
}
