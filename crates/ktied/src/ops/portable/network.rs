//! Layers and likelihoods, channels last as in the fused path.

use burn::tensor::module::{self};
use burn::tensor::ops::{AvgPoolOptions, ConvOptions, MaxPoolOptions};
use burn::tensor::{Int, Tensor, TensorData, activation};
use ktied_kernels::activation::Activation;
use ktied_kernels::conv::Conv2dShape;

use crate::ops::{BatchMoments, LstmSigns, LstmTensors};

pub(crate) fn activate<const D: usize>(z: Tensor<D>, kind: Activation) -> Tensor<D> {
    match kind {
        Activation::Identity => z,
        Activation::Relu => activation::relu(z),
    }
}

/// See [`dense`](crate::ops::dense).
pub fn dense(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>, kind: Activation) -> Tensor<2> {
    let z = x.matmul(weight);
    let z = match bias {
        Some(bias) => z + bias.unsqueeze(),
        None => z,
    };
    activate(z, kind)
}

/// Channels last → channels first, runs `layer`, and back.
fn channels_first(x: Tensor<4>, layer: impl FnOnce(Tensor<4>) -> Tensor<4>) -> Tensor<4> {
    layer(x.permute([0, 3, 1, 2])).permute([0, 2, 3, 1])
}

/// See [`conv2d`](crate::ops::conv2d).
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shape: Conv2dShape,
    kind: Activation,
) -> Tensor<4> {
    let [rows, cols] = shape.kernel;
    let weight = weight.reshape([rows, cols, shape.channels, shape.outputs]).permute([3, 2, 0, 1]);
    let padding = [(shape.padding.top, shape.padding.bottom), (shape.padding.left, shape.padding.right)];
    let options = ConvOptions { stride: shape.stride, padding, dilation: [1, 1], groups: 1 };
    activate(channels_first(x, |x| module::conv2d(x, weight, bias, options)), kind)
}

/// See [`max_pool2d`](crate::ops::max_pool2d).
pub fn max_pool2d(x: Tensor<4>, kernel: [usize; 2], stride: [usize; 2]) -> Tensor<4> {
    channels_first(x, |x| module::max_pool2d(x, MaxPoolOptions::new(kernel).with_stride(stride)))
}

/// See [`avg_pool2d`](crate::ops::avg_pool2d).
pub fn avg_pool2d(x: Tensor<4>, kernel: [usize; 2], stride: [usize; 2]) -> Tensor<4> {
    channels_first(x, |x| module::avg_pool2d(x, AvgPoolOptions::new(kernel).with_stride(stride)))
}

/// See [`batch_norm`](crate::ops::batch_norm).
pub fn batch_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    kind: Activation,
) -> (Tensor<D>, BatchMoments) {
    let dims = x.dims();
    let channels = gamma.dims()[0];
    let rows = dims.iter().product::<usize>() / channels.max(1);
    let flat: Tensor<2> = x.reshape([rows, channels]);
    let mean: Tensor<2> = flat.clone().mean_dim(0);
    let centred = flat - mean.clone();
    let var = centred.clone().square().mean_dim(0);
    let moments = BatchMoments { mean: host(mean), var: host(var.clone()) };
    let y = centred / (var + epsilon).sqrt() * gamma.unsqueeze() + beta.unsqueeze();
    (activate(y.reshape(dims), kind), moments)
}

fn host(row: Tensor<2>) -> Vec<f32> {
    row.into_data().iter::<f32>().collect()
}

/// See [`frozen_norm`](crate::ops::frozen_norm).
pub fn frozen_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    moments: &BatchMoments,
    epsilon: f64,
    kind: Activation,
) -> Tensor<D> {
    let (device, dtype) = (x.device(), x.dtype());
    let row = |values: &[f32]| {
        Tensor::<1>::from_data(TensorData::new(values.to_vec(), [values.len()]), (&device, dtype)).unsqueeze()
    };
    let scale: Tensor<D> = gamma.unsqueeze() / (row(&moments.var) + epsilon).sqrt();
    activate((x - row(&moments.mean)) * scale + beta.unsqueeze(), kind)
}

/// See [`lstm`](crate::ops::lstm).
pub fn lstm(x: Tensor<3>, weights: LstmTensors) -> Tensor<3> {
    let LstmTensors { kernel, recurrent, bias, flip } = weights;
    let [time, batch, inputs] = x.dims();
    let size = recurrent.dims()[0];
    let zeros = |width| Tensor::<2>::zeros([batch, width], (&x.device(), x.dtype()));
    let signs = flip.as_ref().map(|flip| {
        let LstmSigns { x, hidden, gates } = flip.signs;
        [(x, inputs), (hidden, size), (gates, 4 * size)].map(|(key, width)| super::signs(&zeros(width), key))
    });
    let (mut h, mut c) = (zeros(size), zeros(size));
    let mut all = Vec::with_capacity(time);
    for step in 0..time {
        let x = x.clone().narrow(0, step, 1).reshape([batch, inputs]);
        let mut z = x.clone().matmul(kernel.clone()) + h.clone().matmul(recurrent.clone());
        if let (Some(flip), Some([x_signs, h_signs, z_signs])) = (&flip, &signs) {
            let from_x = (x * x_signs.clone()).matmul(flip.kernel.clone());
            let from_h = (h * h_signs.clone()).matmul(flip.recurrent.clone());
            z = z + (from_x + from_h) * z_signs.clone();
        }
        if let Some(bias) = &bias {
            z = z + bias.clone().unsqueeze();
        }
        let gate = |g: usize| z.clone().narrow(1, g * size, size);
        let [i, f, o] = [0, 1, 3].map(|g| activation::sigmoid(gate(g)));
        c = f * c + i * gate(2).tanh();
        h = o * c.clone().tanh();
        all.push(h.clone());
    }
    Tensor::stack(all, 0)
}

/// See [`embedding`](crate::ops::embedding).
pub fn embedding(table: Tensor<2>, ids: &[u32]) -> Tensor<2> {
    let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    let count = ids.len();
    let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [count]), &table.device());
    table.select(0, ids)
}

/// See [`softmax_cross_entropy`](crate::ops::softmax_cross_entropy).
pub fn softmax_cross_entropy(logits: Tensor<2>, labels: &[u32]) -> Tensor<1> {
    let labels: Vec<i32> = labels.iter().map(|&label| label as i32).collect();
    let count = labels.len();
    let labels = Tensor::<2, Int>::from_data(TensorData::new(labels, [count, 1]), &logits.device());
    -activation::log_softmax(logits, 1).gather(1, labels).reshape([count])
}

/// See [`sigmoid_cross_entropy`](crate::ops::sigmoid_cross_entropy).
pub fn sigmoid_cross_entropy(logits: Tensor<1>, targets: &[f32]) -> Tensor<1> {
    let data = TensorData::new(targets.to_vec(), [targets.len()]);
    let targets = Tensor::<1>::from_data(data, (&logits.device(), logits.dtype()));
    activation::softplus(logits.clone(), 1.0) - targets * logits
}
