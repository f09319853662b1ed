//! Draws, divergences, local noise and signs.

use burn::tensor::{DType, Device, Tensor};
use ktied::ops::{BiasScale, LocalInput};
use ktied::{DropoutRate, ops};
use ktied_kernels::activation::Activation;
use ktied_kernels::{NoiseKey, Purpose, ScaleForm};

use crate::compare::{assert_paths_agree, host, log_scales, random, value_and_grads};

const FORMS: [ScaleForm; 2] = [ScaleForm::Log, ScaleForm::Softplus];
/// (M, N, K)
const SHAPES: [(usize, usize, usize); 5] = [(1, 1, 1), (3, 5, 3), (17, 33, 2), (2, 300, 1), (40, 10, 4)];

fn key() -> NoiseKey {
    NoiseKey::new(3).child(Purpose::Weights).at(10, 2)
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    tensor.flatten(0, D - 1)
}

#[test]
fn mean_field_draws_agree_on_every_path() {
    for form in FORMS {
        let inputs = [random(6 * 70, 1), log_scales(6 * 70, 2)];
        assert_paths_agree("draw", &inputs, &|t| {
            let [loc, raw] = [0, 1].map(|i| t[i].clone().reshape([6, 70]));
            flat(ops::draw_mean_field(Some(loc), raw, form, key()).unwrap())
        });
        assert_paths_agree("perturbation", &inputs[1..], &|t| {
            ops::draw_mean_field(None, t[0].clone(), form, key()).unwrap()
        });
    }
}

#[test]
fn k_tied_draws_agree_on_every_path() {
    for (m, n, k) in SHAPES {
        let inputs = [random(m * n, 1), log_scales(m * k, 2), log_scales(n * k, 3)];
        let factors = |t: &[Tensor<1>]| (t[0].clone().reshape([m, k]), t[1].clone().reshape([n, k]));
        assert_paths_agree(&format!("draw {m}×{n}:{k}"), &inputs, &|t| {
            let (u, v) = factors(&t[1..]);
            flat(ops::draw_k_tied(Some(t[0].clone().reshape([m, n])), u, v, key()).unwrap())
        });
        assert_paths_agree(&format!("perturbation {m}×{n}:{k}"), &inputs[1..], &|t| {
            let (u, v) = factors(t);
            flat(ops::draw_k_tied(None, u, v, key()).unwrap())
        });
    }
}

#[test]
fn divergences_agree_on_every_path() {
    for form in FORMS {
        let inputs = [random(6 * 70, 1), log_scales(6 * 70, 2), random(6 * 70, 3)];
        assert_paths_agree("mean-field", &inputs, &|t| {
            let [loc, raw, center] = [0, 1, 2].map(|i| t[i].clone().reshape([6, 70]));
            ops::kl_mean_field(loc, raw, form, Some(center), 0.3).unwrap()
        });
    }
    for (m, n, k) in SHAPES {
        let inputs = [random(m * n, 1), log_scales(m * k, 2), log_scales(n * k, 3)];
        assert_paths_agree(&format!("k-tied {m}×{n}:{k}"), &inputs, &|t| {
            let (u, v) = (t[1].clone().reshape([m, k]), t[2].clone().reshape([n, k]));
            ops::kl_k_tied(t[0].clone().reshape([m, n]), u, v, None, 0.2).unwrap()
        });
    }
}

#[test]
fn local_layers_agree_on_every_path() {
    let biases = [
        (None, Activation::Identity),
        (Some(ScaleForm::Log), Activation::Relu),
        (Some(ScaleForm::Softplus), Activation::Identity),
    ];
    for (b, m, n, k) in [(3, 2, 4, 1), (4, 5, 3, 3), (7, 30, 12, 2)] {
        for (bias, activation) in biases {
            // x and, last, what there is of a bias
            let input = |t: &[Tensor<1>]| {
                let [loc, raw] = [2, 1].map(|back| t[t.len() - back].clone());
                let bias_scale = bias.map(|form| BiasScale { raw, form });
                let x = t[0].clone().reshape([b, m]);
                LocalInput { x, bias: bias.map(|_| loc), bias_scale, activation, key: key(), first: 3 }
            };
            let of_bias = if bias.is_some() { vec![random(n, 6), log_scales(n, 4)] } else { vec![] };
            let (x, loc) = (random(b * m, 2), random(m * n, 1));
            let mean_field = [vec![x.clone(), loc.clone(), log_scales(m * n, 3)], of_bias.clone()].concat();
            assert_paths_agree("mean-field", &mean_field, &|t| {
                let [loc, raw] = [1, 2].map(|i| t[i].clone().reshape([m, n]));
                flat(ops::local_mean_field(input(t), loc, raw, ScaleForm::Softplus).unwrap())
            });
            let k_tied = [vec![x, loc, log_scales(m * k, 3), log_scales(n * k, 4)], of_bias].concat();
            assert_paths_agree("k-tied", &k_tied, &|t| {
                let (u, v) = (t[2].clone().reshape([m, k]), t[3].clone().reshape([n, k]));
                flat(ops::local_k_tied(input(t), t[1].clone().reshape([m, n]), u, v).unwrap())
            });
        }
    }
}

#[test]
fn noise_on_known_moments_agrees_on_every_path() {
    let inputs = [random(6 * 50, 1), log_scales(6 * 50, 2)];
    for activation in [Activation::Identity, Activation::Relu] {
        assert_paths_agree("add_noise", &inputs, &|t| {
            let [mean, sd] = [0, 1].map(|i| t[i].clone().reshape([6, 50]));
            flat(ops::add_noise(mean, sd, (key(), 7), activation).unwrap())
        });
    }
}

#[test]
fn signs_agree_on_every_path() {
    let inputs = [random(3 * 4 * 5, 1), random(3 * 4 * 5, 2)];
    assert_paths_agree("apply", &inputs[..1], &|t| {
        flat(ops::apply_signs(t[0].clone().reshape([3, 4, 5]), key()).unwrap())
    });
    assert_paths_agree("add", &inputs, &|t| {
        let [y, z] = [0, 1].map(|i| t[i].clone().reshape([3, 2, 2, 5]));
        flat(ops::add_signed(y, z, key()).unwrap())
    });
}

#[test]
fn dropout_agrees_on_every_path() {
    for p in [0.0, 0.3, 0.9] {
        assert_paths_agree(&format!("dropout {p}"), &[random(3 * 4 * 50, 1)], &|t| {
            let rate = DropoutRate::new(p).unwrap();
            flat(ops::dropout(t[0].clone().reshape([3, 4, 50]), rate, (key(), 5)).unwrap())
        });
    }
}

#[test]
fn a_transposed_view_is_drawn_from_like_its_copy_and_gets_its_gradient() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        let raw = Tensor::<1>::from_floats(&log_scales(12, 1)[..], &device).reshape([3, 4]);
        let view = raw.clone().transpose();
        let copy = Tensor::<2>::from_data(view.to_data(), &device);
        let draw = |raw| ops::draw_mean_field(None, raw, ScaleForm::Log, key()).unwrap();
        assert_eq!(host(flat(draw(view))), host(flat(draw(copy))));
    }
    let transposed: Vec<f32> = (0..12).map(|i| log_scales(12, 1)[i % 3 * 4 + i / 3]).collect();
    let device = Device::flex().autodiff();
    let through_view = value_and_grads(
        &[log_scales(12, 1)],
        &|t| {
            let view = t[0].clone().reshape([3, 4]).transpose();
            flat(ops::draw_mean_field(None, view, ScaleForm::Log, key()).unwrap())
        },
        &device,
        DType::F32,
    );
    let direct = value_and_grads(
        &[transposed],
        &|t| ops::draw_mean_field(None, t[0].clone(), ScaleForm::Log, key()).unwrap(),
        &device,
        DType::F32,
    );
    assert_eq!(through_view[0], direct[0]);
    (0..12).for_each(|i| assert_eq!(through_view[1][i % 3 * 4 + i / 3], direct[1][i]));
}

#[test]
fn an_input_without_gradients_mixes_with_tracked_weights() {
    let device = Device::flex();
    let (x, w) = (random(6, 1), random(6, 2));
    let found = value_and_grads(
        &[w],
        &|t| {
            let x = Tensor::<1>::from_floats(&x[..], &device).reshape([2, 3]);
            flat(ops::dense(x, t[0].clone().reshape([3, 2]), None, Default::default()).unwrap())
        },
        &device.clone().autodiff(),
        DType::F32,
    );
    assert_eq!((found[0].len(), found[1].len()), (4, 6));
    assert!(found[1].iter().any(|g| *g != 0.0));
}
