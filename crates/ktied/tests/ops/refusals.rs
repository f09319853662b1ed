//! Operands that do not fit are refused with a sentence, on every path, and never panic.

use burn::tensor::{DType, Device, Tensor};
use ktied::ops::{self, BatchMoments, Border, ConvWindow, LocalInput, LstmTensors};
use ktied_kernels::activation::Activation;
use ktied_kernels::adam::AdamStep;
use ktied_kernels::{NoiseKey, ScaleForm, ShapeError};

fn zeros<const D: usize>(shape: [usize; D], dtype: DType) -> Tensor<D> {
    Tensor::zeros(shape, (&Device::flex(), dtype))
}

fn sentence<T>(result: Result<T, ShapeError>) -> String {
    match result {
        Ok(_) => "accepted".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn both_paths_refuse_the_same_operands_with_the_same_sentence() {
    for dtype in [DType::F32, DType::F64] {
        let (key, log, relu) = (NoiseKey::new(1), ScaleForm::Log, Activation::Relu);
        let z1 = |n| zeros([n], dtype);
        let z2 = |m, n| zeros([m, n], dtype);
        let local = |x| LocalInput { x, bias: None, bias_scale: None, activation: relu, key, first: 0 };
        let z4 = |shape| zeros::<4>(shape, dtype);
        let window = |kernel, border| ConvWindow { kernel, stride: [1, 1], border };
        let lstm = LstmTensors { kernel: z2(3, 8), recurrent: z2(2, 7), bias: None, flip: None };
        let step = AdamStep { lr: 0.1, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8, step: 0 };
        let moments = BatchMoments { mean: vec![0.0], var: vec![0.0; 2] };
        let cases = [
            (
                sentence(ops::draw_mean_field(Some(z2(2, 3)), z2(3, 2), log, key)),
                "draw_mean_field: `loc` must have shape [3, 2], got [2, 3]",
            ),
            (
                sentence(ops::draw_k_tied(None, z2(4, 2), z2(5, 3), key)),
                "draw_k_tied: `log_v` must have shape [5, 2], got [5, 3]",
            ),
            (
                sentence(ops::draw_k_tied(None, z2(4, 0), z2(5, 0), key)),
                "draw_k_tied: `rank` must be at least 1, got 0",
            ),
            (
                sentence(ops::kl_mean_field(z1(3), z1(4), log, None, 1.0)),
                "kl_mean_field: `raw_scale` must have shape [3], got [4]",
            ),
            (
                sentence(ops::kl_k_tied(z2(4, 5), z2(4, 2), z2(5, 2), Some(z2(5, 4)), 1.0)),
                "kl_k_tied: `prior_loc` must have shape [4, 5], got [5, 4]",
            ),
            (
                sentence(ops::local_k_tied(local(z2(3, 3)), z2(4, 5), z2(4, 1), z2(5, 1))),
                "local_k_tied: `x` must have shape [3, 4], got [3, 3]",
            ),
            (
                sentence(ops::local_mean_field(local(z2(2, 4)), z2(5, 4), z2(4, 5), log)),
                "local_mean_field: `loc` must have shape [4, 5], got [5, 4]",
            ),
            (
                sentence(ops::local_mean_field(local(z2(0, 4)), z2(4, 5), z2(4, 5), log)),
                "local_mean_field: `batch` must be at least 1, got 0",
            ),
            (sentence(ops::apply_signs(z1(3), key)), "apply_signs: `number of dimensions` must be at least 2, got 1"),
            (sentence(ops::add_signed(z2(2, 3), z2(2, 4), key)), "add_signed: `z` must have shape [2, 3], got [2, 4]"),
            (sentence(ops::sum(z2(2, 3), z2(3, 2))), "sum: `b` must have shape [2, 3], got [3, 2]"),
            (sentence(ops::dense(z2(2, 3), z2(4, 5), None, relu)), "dense: `x` must have shape [2, 4], got [2, 3]"),
            (sentence(ops::dense(z2(2, 3), z2(3, 5), Some(z1(4)), relu)), "dense: `bias` must have shape [5], got [4]"),
            (
                sentence(ops::conv2d(z4([1, 4, 4, 2]), z2(17, 3), None, window([3, 3], Border::Same), relu, None)),
                "conv2d: `weight` must have shape [18, 3], got [17, 3]",
            ),
            (
                sentence(ops::softmax_cross_entropy(z2(2, 3), &[1, 3])),
                "softmax_cross_entropy: `label` must be below the number of classes, got 3",
            ),
            (
                sentence(ops::softmax_cross_entropy(z2(2, 3), &[1])),
                "softmax_cross_entropy: `labels` must have shape [2], got [1]",
            ),
            (
                sentence(ops::sigmoid_cross_entropy(z1(3), &[1.0])),
                "sigmoid_cross_entropy: `targets` must have shape [3], got [1]",
            ),
            (
                sentence(ops::lstm(zeros([2, 1, 3], dtype), lstm.clone())),
                "lstm: `recurrent` must have shape [2, 8], got [2, 7]",
            ),
            (
                sentence(ops::batch_norm(z2(2, 3), z1(3), z1(2), 1e-3, relu).map(|_| ())),
                "batch_norm: `beta` must have shape [3], got [2]",
            ),
            (
                sentence(ops::batch_norm(z2(0, 3), z1(3), z1(3), 1e-3, relu)),
                "batch_norm: `rows` must be at least 1, got 0",
            ),
            (
                sentence(ops::frozen_norm(z2(4, 2), z1(2), z1(2), moments, 1e-3, relu)),
                "frozen_norm: `moments.mean` must have shape [2], got [1]",
            ),
            (
                sentence(ops::adam_update(z1(2), [z1(2), z1(2)], z1(2), step)),
                "adam_update: `step` must be at least 1, got 0",
            ),
            (
                sentence(ops::adam_update(z1(2), [z1(2), z1(3)], z1(2), step)),
                "adam_update: `moment_2` must have shape [2], got [3]",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected, "{dtype:?}");
        }
        for result in [
            ops::conv2d(z4([1, 2, 2, 1]), z2(9, 1), None, window([3, 3], Border::Valid), relu, None),
            ops::max_pool2d(z4([1, 2, 2, 1]), [3, 3], [1, 1]),
            ops::avg_pool2d(z4([1, 2, 2, 1]), [2, 2], [0, 1]),
        ] {
            assert!(result.is_err(), "{dtype:?}");
        }
    }
}
