//! Layers and likelihoods.

use burn::tensor::{Device, Tensor};
use ktied::NoiseKey;
use ktied::ops::{self, BatchMoments, Border, ConvWindow, LstmPerturbation, LstmSigns, LstmTensors, NormRecipe};
use ktied_kernels::activation::Activation::{Identity, Relu};

use crate::compare::{assert_paths_agree, random, second_backend};

fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    tensor.flatten(0, D - 1)
}

#[test]
fn dense_layers_agree_on_every_path() {
    for (b, m, n) in [(1, 1, 1), (5, 7, 3), (33, 20, 17)] {
        for activation in [Identity, Relu] {
            let inputs = [random(b * m, 1), random(m * n, 2), random(n, 3)];
            assert_paths_agree(&format!("{b}×{m}×{n} {activation:?}"), &inputs, &|t| {
                let (x, w) = (t[0].clone().reshape([b, m]), t[1].clone().reshape([m, n]));
                flat(ops::dense(x, w, Some(t[2].clone()), activation).unwrap())
            });
        }
    }
}

#[test]
fn convolutions_agree_on_every_path() {
    // (H, W, C, O, kernel, stride): odd sizes, stride 2 with uneven padding, 1×1, kernel as large as the image.
    let cases = [
        (5, 6, 2, 3, [3, 3], [1, 1]),
        (8, 8, 3, 4, [3, 3], [2, 2]),
        (7, 5, 2, 2, [5, 5], [1, 1]),
        (6, 6, 4, 5, [1, 1], [2, 2]),
        (4, 4, 1, 2, [4, 4], [1, 1]),
    ];
    for (h, w, c, o, kernel, stride) in cases {
        for (border, activation) in [(Border::Same, Identity), (Border::Valid, Relu)] {
            let (batch, fan_in) = (2, kernel[0] * kernel[1] * c);
            let inputs = [random(batch * h * w * c, 1), random(fan_in * o, 2), random(o, 3)];
            let window = ConvWindow { kernel, stride, border };
            assert_paths_agree(&format!("{h}×{w}×{c}→{o} {window:?}"), &inputs, &|t| {
                let (x, weight) = (t[0].clone().reshape([batch, h, w, c]), t[1].clone().reshape([fan_in, o]));
                flat(ops::conv2d(x, weight, Some(t[2].clone()), window, activation, None).unwrap())
            });
        }
    }
}

#[test]
fn pooled_and_flipped_convolutions_agree_on_every_path() {
    // The second shape is odd, the third has places enough for weights of an image's own.
    for ([b, side, c, o], stride, border) in [
        ([2, 4, 3, 5], 1, Border::Same),
        ([1, 5, 2, 3], 1, Border::Same),
        ([2, 10, 2, 3], 1, Border::Valid),
        ([3, 8, 17, 4], 2, Border::Same),
    ] {
        let window = ConvWindow { kernel: [3, 3], stride: [stride, stride], border };
        let (x, weight, bias) = (random(b * side * side * c, 1), random(9 * c * o, 2), random(o, 3));
        for activation in [Identity, Relu] {
            assert_paths_agree("pooled", &[x.clone(), weight.clone(), bias.clone()], &|t| {
                let (x, weight) = (t[0].clone().reshape([b, side, side, c]), t[1].clone().reshape([9 * c, o]));
                flat(ops::conv2d_pooled(x, weight, Some(t[2].clone()), window, activation).unwrap())
            });
            let inputs = [x.clone(), weight.clone(), random(9 * c * o, 4), bias.clone()];
            assert_paths_agree("flipout", &inputs, &|t| {
                let weights = [1, 2].map(|i| t[i].clone().reshape([9 * c, o]));
                let (x, keys) = (t[0].clone().reshape([b, side, side, c]), [NoiseKey::new(8), NoiseKey::new(9)]);
                flat(
                    ops::conv2d_flipout(x, weights, Some(t[3].clone()), window, keys.map(Into::into), activation, None)
                        .unwrap(),
                )
            });
        }
    }
}

#[test]
fn convolutions_of_inputs_that_are_made_again_agree_on_every_path() {
    let [b, side, c, o] = [2, 6, 3, 4];
    let window = ConvWindow { kernel: [3, 3], stride: [1, 1], border: Border::Same };
    let (x, norm, weights) =
        (random(b * side * side * c, 1), [random(c, 2), random(c, 3)], [4, 5].map(|s| random(9 * c * o, s)));
    let inputs = [vec![x], norm.to_vec(), weights.to_vec(), vec![random(o, 6)]].concat();
    for is_frozen in [false, true] {
        // The input of a convolution with its recipe, and one that goes without, as the oracle on the same path.
        let normed = |t: &[Tensor<1>]| {
            let (x, gamma, beta) = (t[0].clone().reshape([b, side, side, c]), t[1].clone(), t[2].clone());
            let given = BatchMoments { mean: vec![0.1; c], var: vec![0.7; c] };
            let (h, moments) = match is_frozen {
                true => {
                    let h =
                        ops::frozen_norm(x.clone(), gamma.clone(), beta.clone(), given.clone(), 1e-3, Relu).unwrap();
                    (h, given)
                }
                false => ops::batch_norm(x.clone(), gamma.clone(), beta.clone(), 1e-3, Relu).unwrap(),
            };
            (h, NormRecipe::new(x, [gamma, beta], moments, 1e-3, Relu))
        };
        let weight = |t: &[Tensor<1>], i: usize| t[i].clone().reshape([9 * c, o]);
        assert_paths_agree("normalised", &inputs, &|t| {
            let (h, recipe) = normed(t);
            flat(ops::conv2d(h, weight(t, 3), Some(t[5].clone()), window, Identity, recipe).unwrap())
        });
        assert_paths_agree("normalised, flipout", &inputs, &|t| {
            let ((h, recipe), keys) = (normed(t), [NoiseKey::new(8), NoiseKey::new(9)].map(Into::into));
            let weights = [weight(t, 3), weight(t, 4)];
            flat(ops::conv2d_flipout(h, weights, Some(t[5].clone()), window, keys, Identity, recipe).unwrap())
        });
    }
}

#[test]
fn pooling_agrees_on_every_path() {
    for (kernel, stride) in [([2, 2], [2, 2]), ([3, 2], [1, 2]), ([4, 4], [4, 4])] {
        let inputs = [random(2 * 8 * 8 * 3, 1)];
        let image = |t: &[Tensor<1>]| t[0].clone().reshape([2, 8, 8, 3]);
        assert_paths_agree("max", &inputs, &|t| flat(ops::max_pool2d(image(t), kernel, stride).unwrap()));
        assert_paths_agree("average", &inputs, &|t| flat(ops::avg_pool2d(image(t), kernel, stride).unwrap()));
    }
}

#[test]
fn batch_norm_agrees_on_every_path() {
    let inputs = [random(3 * 4 * 4 * 5, 1), random(5, 2), random(5, 3)];
    for activation in [Identity, Relu] {
        let operands = |t: &[Tensor<1>]| (t[0].clone().reshape([3, 4, 4, 5]), t[1].clone(), t[2].clone());
        assert_paths_agree("batch", &inputs, &|t| {
            let (x, gamma, beta) = operands(t);
            flat(ops::batch_norm(x, gamma, beta, 1e-3, activation).unwrap().0)
        });
        let moments = BatchMoments { mean: random(5, 4), var: vec![0.5, 1.0, 2.0, 0.1, 3.0] };
        assert_paths_agree("frozen", &inputs, &|t| {
            let (x, gamma, beta) = operands(t);
            flat(ops::frozen_norm(x, gamma, beta, moments.clone(), 1e-3, activation).unwrap())
        });
    }
}

#[test]
fn batch_norm_returns_the_moments_of_the_batch() {
    for device in [Device::flex(), second_backend()] {
        let x = Tensor::<2>::from_floats([[1.0, 10.0], [3.0, 30.0]], &device);
        let (gamma, beta) = (Tensor::ones([2], &device), Tensor::zeros([2], &device));
        let (_, moments) = ops::batch_norm(x, gamma, beta, 1e-3, Identity).unwrap();
        assert_eq!(moments, BatchMoments { mean: vec![2.0, 20.0], var: vec![1.0, 100.0] });
    }
}

#[test]
fn lstms_agree_on_every_path() {
    for (t, b, m, h) in [(1, 1, 1, 1), (4, 3, 5, 2), (7, 9, 3, 8)] {
        let (kernel_len, recurrent_len) = (m * 4 * h, h * 4 * h);
        let mut inputs = vec![random(t * b * m, 1), random(kernel_len, 2), random(recurrent_len, 3), random(4 * h, 4)];
        for flipout in [false, true] {
            if flipout {
                inputs.extend([random(kernel_len, 5), random(recurrent_len, 6)]);
            }
            let kernels = |x: &[Tensor<1>]| (x[0].clone().reshape([m, 4 * h]), x[1].clone().reshape([h, 4 * h]));
            let operands = |x: &[Tensor<1>]| {
                let [x_key, hidden, gates] = [1, 2, 3].map(|seed| NoiseKey::new(seed).into());
                let flip = x.get(4..).filter(|flip| !flip.is_empty()).map(|flip| {
                    let (kernel, recurrent) = kernels(flip);
                    LstmPerturbation { kernel, recurrent, signs: LstmSigns { x: x_key, hidden, gates } }
                });
                let (kernel, recurrent) = kernels(&x[1..]);
                (x[0].clone().reshape([t, b, m]), LstmTensors { kernel, recurrent, bias: Some(x[3].clone()), flip })
            };
            assert_paths_agree(&format!("all {t}×{b}×{m}→{h}, flipout {flipout}"), &inputs, &|x| {
                let (x, weights) = operands(x);
                flat(ops::lstm(x, weights).unwrap())
            });
            assert_paths_agree(&format!("last {t}×{b}×{m}→{h}, flipout {flipout}"), &inputs, &|x| {
                let (x, weights) = operands(x);
                flat(ops::lstm_last(x, weights).unwrap())
            });
        }
    }
}

#[test]
fn lstms_of_words_agree_on_every_path_and_with_looking_up_first() {
    let (t, b, m, h, v) = (7, 9, 3, 8, 12);
    let ids: Vec<u32> = (0..63).map(|i| (i * i + 3) % 11).collect();
    let inputs = [random(v * m, 1), random(m * 4 * h, 2), random(h * 4 * h, 3), random(4 * h, 4)];
    let operands = |x: &[Tensor<1>]| {
        let (kernel, recurrent) = (x[1].clone().reshape([m, 4 * h]), x[2].clone().reshape([h, 4 * h]));
        (x[0].clone().reshape([v, m]), LstmTensors { kernel, recurrent, bias: Some(x[3].clone()), flip: None })
    };
    assert_paths_agree("words", &inputs, &|x| {
        let (table, weights) = operands(x);
        flat(ops::lstm_last_of_words(table, &ids, t, weights).unwrap())
    });
    let tensors: Vec<Tensor<1>> =
        inputs.iter().map(|values| Tensor::from_floats(values.as_slice(), &Device::flex())).collect();
    let (table, weights) = operands(&tensors);
    let vectors = ops::embedding(table.clone(), &ids).unwrap().reshape([t, b, m]);
    let apart = ops::lstm_last(vectors, weights.clone()).unwrap();
    let together = ops::lstm_last_of_words(table, &ids, t, weights).unwrap();
    let largest: f32 = (apart - together).abs().max().into_scalar();
    assert!(largest < 1e-5, "{largest}");
}

#[test]
fn embeddings_agree_on_every_path() {
    let ids: Vec<u32> = (0..40).map(|i| (i * i + 3) % 11).collect();
    assert_paths_agree("embedding", &[random(12 * 5, 1)], &|t| {
        flat(ops::embedding(t[0].clone().reshape([12, 5]), &ids).unwrap())
    });
}

#[test]
fn likelihoods_agree_on_every_path() {
    let labels: Vec<u32> = (0..9).map(|i| (i * 7 + 2) % 5).collect();
    assert_paths_agree("softmax", &[random(9 * 5, 1)], &|t| {
        ops::softmax_cross_entropy(t[0].clone().reshape([9, 5]), &labels).unwrap()
    });
    let targets: Vec<f32> = (0..9).map(|i| (i % 2) as f32).collect();
    assert_paths_agree("sigmoid", &[random(9, 1)], &|t| ops::sigmoid_cross_entropy(t[0].clone(), &targets).unwrap());
}

#[test]
fn sums_agree_on_every_path_and_leave_their_operands_alone() {
    let inputs = [random(40_000, 1), random(40_000, 2)];
    assert_paths_agree("sum", &inputs, &|t| {
        let sum = ops::sum(t[0].clone(), t[1].clone()).unwrap();
        // Both operands are read again: a sum in the memory of one that somebody holds would show.
        ops::sum(sum * t[0].clone(), t[1].clone() * t[1].clone()).unwrap()
    });
}
