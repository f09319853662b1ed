//! Layers and likelihoods, at the sizes of the four models.

use ktied_kernels::activation::Activation;
use ktied_kernels::batch_norm::{self, BatchNorm, BatchNormGrads, Moments, MomentsMut};
use ktied_kernels::conv::{self, Conv2dShape};
use ktied_kernels::dense::{self, DenseGrads, DenseShape, DenseTape};
use ktied_kernels::lstm::{self, HiddenGradient, LstmGrads, LstmShape, LstmTape, LstmTapeMut, LstmWeights};
use ktied_kernels::pool::{self, PoolShape};
use ktied_kernels::softmax;

use super::{Case, Work, floats, random};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = dense_cases([1024, 784, 400]);
    cases.extend(dense_cases([1024, 4096, 512]));
    // [batch, side, channels, outputs, kernel, stride]: LeNet's two, then ResNet-18's kinds.
    let convs = [
        [1024, 32, 3, 32, 5, 1],
        [1024, 16, 32, 64, 5, 1],
        [128, 32, 3, 64, 3, 1],
        [128, 32, 64, 64, 3, 1],
        [128, 32, 64, 128, 3, 2],
        [128, 16, 128, 128, 3, 1],
        [128, 8, 256, 256, 3, 1],
        [128, 4, 512, 512, 3, 1],
    ];
    cases.extend(convs.into_iter().flat_map(conv_cases));
    cases.extend(pool_cases());
    cases.extend(norm_cases());
    cases.extend(lstm_cases());
    cases.extend(loss_cases());
    cases
}

fn dense_cases([batch, inputs, outputs]: [usize; 3]) -> Vec<Case> {
    let shape = DenseShape { batch, inputs, outputs };
    let (x, weight, bias) = (random(batch * inputs, 1), random(inputs * outputs, 2), random(outputs, 3));
    let (mut y, mut dz) = (vec![0.0; batch * outputs], random(batch * outputs, 4));
    let (x_b, weight_b, y_b) = (x.clone(), weight.clone(), vec![1.0; batch * outputs]);
    let (mut dx, mut dweight, mut dbias) = (vec![0.0; x.len()], vec![0.0; weight.len()], vec![0.0; outputs]);
    let flops = 2.0 * (batch * inputs * outputs) as f64;
    vec![
        Case::new(format!("dense {batch}x{inputs}x{outputs}"), Work::Flops(flops), move || {
            dense::forward(&mut y, &x, &weight, Some(&bias), shape, Activation::Relu)
        }),
        Case::new(format!("dense backward {batch}x{inputs}x{outputs}"), Work::Flops(2.0 * flops), move || {
            let grads = DenseGrads { x: Some(&mut dx), weight: Some(&mut dweight), bias: Some(&mut dbias) };
            let tape = DenseTape { x: &x_b, weight: &weight_b, y: &y_b };
            dense::backward(grads, &mut dz, tape, shape, Activation::Relu)
        }),
    ]
}

fn conv_cases([batch, side, channels, outputs, kernel, stride]: [usize; 6]) -> Vec<Case> {
    let shape = Conv2dShape::same(batch, [side, side], channels, outputs, [kernel; 2], [stride; 2]);
    let out = side.div_ceil(stride);
    let (x, weight) = (random(batch * side * side * channels, 1), random(kernel * kernel * channels * outputs, 2));
    let dz = random(batch * out * out * outputs, 3);
    let mut y = vec![0.0; dz.len()];
    let (x_b, weight_b, dz_b) = (x.clone(), weight.clone(), dz.clone());
    let (mut dweight, mut dx) = (vec![0.0; weight.len()], vec![0.0; x.len()]);
    let flops = Work::Flops(2.0 * (batch * out * out * outputs) as f64 * (kernel * kernel * channels) as f64);
    let size = format!("{batch}x{side}x{side}x{channels}->{outputs} k{kernel} s{stride}");
    vec![
        Case::new(format!("conv {size}"), flops, move || {
            conv::forward(&mut y, &x, &weight, None, &shape, Activation::Identity)
        }),
        Case::new(format!("conv dW {size}"), flops, move || {
            conv::backward_weight(&mut dweight, None, &dz, &x_b, &shape)
        }),
        Case::new(format!("conv dX {size}"), flops, move || conv::backward_input(&mut dx, &dz_b, &weight_b, &shape)),
    ]
}

fn pool_cases() -> Vec<Case> {
    let max = PoolShape { batch: 1024, height: 32, width: 32, channels: 32, kernel: [2, 2], stride: [2, 2] };
    let avg = PoolShape { batch: 128, height: 4, width: 4, channels: 512, kernel: [4, 4], stride: [4, 4] };
    let (x, mut y, mut argmax) =
        (random(1024 * 32 * 32 * 32, 1), vec![0.0; 1024 * 16 * 16 * 32], vec![0; 1024 * 16 * 16 * 32]);
    let (mut dx, dy, argmax_b) = (vec![0.0; x.len()], random(y.len(), 2), vec![1; y.len()]);
    let (max_len, y_len) = (x.len(), y.len());
    let (x_avg, mut y_avg) = (random(128 * 16 * 512, 3), vec![0.0; 128 * 512]);
    let (mut dx_avg, dy_avg) = (vec![0.0; x_avg.len()], random(y_avg.len(), 4));
    let avg_work = floats(x_avg.len() + y_avg.len());
    vec![
        Case::new("max pool 1024x32x32x32", floats(max_len + y_len + y_len / 4), move || {
            pool::max_forward(&mut y, &mut argmax, &x, &max)
        }),
        Case::new("max pool backward 1024x32x32x32", floats(max_len + y_len + y_len / 4), move || {
            pool::max_backward(&mut dx, &dy, &argmax_b, &max)
        }),
        Case::new("average pool 128x4x4x512", avg_work, move || pool::avg_forward(&mut y_avg, &x_avg, &avg)),
        Case::new("average pool backward 128x4x4x512", avg_work, move || {
            pool::avg_backward(&mut dx_avg, &dy_avg, &avg)
        }),
    ]
}

fn norm_cases() -> Vec<Case> {
    const CHANNELS: usize = 64;
    const LEN: usize = 128 * 32 * 32 * CHANNELS;
    let (x, dy, mut y, mut dx) = (random(LEN, 1), random(LEN, 2), vec![0.0; LEN], vec![0.0; LEN]);
    let (x_b, [gamma, beta]) = (x.clone(), [1.0, 0.0].map(|v| vec![v; CHANNELS]));
    let [mut mean, mut var, mut dgamma, mut dbeta] = [0.0, 1.0, 0.0, 0.0].map(|v| vec![v; CHANNELS]);
    let (gamma_b, beta_b, mean_b, var_b) = (gamma.clone(), beta.clone(), mean.clone(), var.clone());
    let activation = Activation::Relu;
    vec![
        Case::new("batch norm 128x32x32x64", floats(3 * LEN), move || {
            let norm = BatchNorm { gamma: &gamma, beta: &beta, epsilon: 1e-3, activation };
            batch_norm::forward_train(&mut y, MomentsMut { mean: &mut mean, var: &mut var }, &x, norm)
        }),
        Case::new("batch norm backward 128x32x32x64", floats(5 * LEN), move || {
            let norm = BatchNorm { gamma: &gamma_b, beta: &beta_b, epsilon: 1e-3, activation };
            let grads = BatchNormGrads { x: Some(&mut dx), gamma: Some(&mut dgamma), beta: Some(&mut dbeta) };
            batch_norm::backward_train(grads, &dy, &x_b, norm, Moments { mean: &mean_b, var: &var_b })
        }),
    ]
}

fn lstm_cases() -> Vec<Case> {
    let shape = LstmShape { time: 80, batch: 128, inputs: 128, hidden: 128 };
    let (states, width) = (80 * 128 * 128, 512);
    let scaled = |len, seed| random(len, seed).iter().map(|z| 0.1 * z).collect::<Vec<_>>();
    let (x, kernel, recurrent) = (random(states, 1), scaled(128 * width, 2), scaled(128 * width, 3));
    let (mut hidden, mut cells, mut gates) = (vec![0.0; states], vec![0.0; states], vec![0.0; 4 * states]);
    let (x_b, kernel_b, recurrent_b) = (x.clone(), kernel.clone(), recurrent.clone());
    let (hidden_b, cells_b, mut gates_b) = (scaled(states, 4), scaled(states, 5), vec![0.0; 4 * states]);
    let (dh, mut dx) = (random(128 * 128, 6), vec![0.0; states]);
    let (mut dkernel, mut drecurrent) = (vec![0.0; 128 * width], vec![0.0; 128 * width]);
    let flops = 2.0 * (80 * 128 * 256 * width) as f64;
    vec![
        Case::new("lstm 80x128x128->128", Work::Flops(flops), move || {
            let tape = LstmTapeMut { hidden: &mut hidden, cells: &mut cells, gates: &mut gates };
            lstm::forward(
                tape,
                x[..].into(),
                LstmWeights { kernel: &kernel, recurrent: &recurrent, bias: None, flip: None },
                shape,
            )
        }),
        Case::new("lstm backward 80x128x128->128", Work::Flops(2.0 * flops), move || {
            let (x, kernel, recurrent) = (Some(&mut dx[..]), Some(&mut dkernel[..]), Some(&mut drecurrent[..]));
            // Gradients replace the gates, so there must be new ones every time.
            gates_b.fill(0.5);
            let grads = LstmGrads { gates: &mut gates_b, x, kernel, recurrent, bias: None, flip: Default::default() };
            let weights = LstmWeights { kernel: &kernel_b, recurrent: &recurrent_b, bias: None, flip: None };
            let tape = LstmTape { hidden: &hidden_b, cells: &cells_b };
            lstm::backward(grads, HiddenGradient::Last(&dh), x_b[..].into(), tape, weights, shape)
        }),
    ]
}

fn loss_cases() -> Vec<Case> {
    const B: usize = 1024;
    const N: usize = 100;
    let (logits, labels) = (random(B * N, 1), (0..B as u32).map(|i| i % N as u32).collect::<Vec<_>>());
    let (mut loss, mut p, mut dlogits) = (vec![0.0; B], vec![0.0; B * N], vec![0.0; B * N]);
    let (labels_b, p_b, dloss) = (labels.clone(), vec![0.01; B * N], vec![1.0; B]);
    let (z, targets, mut loss_s) = (random(B, 2), vec![1.0; B], vec![0.0; B]);
    let (z_b, targets_b, dloss_s, mut dz) = (z.clone(), targets.clone(), vec![1.0; B], vec![0.0; B]);
    vec![
        Case::new("softmax cross-entropy 1024x100", floats(2 * B * N), move || {
            softmax::cross_entropy(&mut loss, &mut p, &logits, &labels, N)
        }),
        Case::new("softmax cross-entropy backward 1024x100", floats(2 * B * N), move || {
            softmax::cross_entropy_backward(&mut dlogits, &p_b, &labels_b, &dloss, N)
        }),
        Case::new("sigmoid cross-entropy 1024", floats(3 * B), move || {
            softmax::sigmoid_cross_entropy(&mut loss_s, &z, &targets)
        }),
        Case::new("sigmoid cross-entropy backward 1024", floats(4 * B), move || {
            softmax::sigmoid_cross_entropy_backward(&mut dz, &z_b, &targets_b, &dloss_s)
        }),
    ]
}
