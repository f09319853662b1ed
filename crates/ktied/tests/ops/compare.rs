//! Runs one operation on every path and compares values and gradients.

use burn::tensor::{DType, Device, Tensor, TensorData};
use ktied_kernels::{NoiseKey, Purpose, noise};

/// An operation on flat tensors: reshapes them to its operands and its output back.
pub type Op<'a> = &'a dyn Fn(&[Tensor<1>]) -> Tensor<1>;

pub fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    noise::normals(NoiseKey::new(seed).child(Purpose::Synthetic), 0, &mut values);
    values
}

/// Logarithms of numbers around 0.1.
pub fn log_scales(len: usize, seed: u64) -> Vec<f32> {
    random(len, seed).iter().map(|z| -2.3 + 0.4 * z).collect()
}

/// A device without our kernels.
#[allow(deprecated, reason = "it is the only other backend that runs everywhere, and this version still has it")]
pub fn second_backend() -> Device {
    Device::ndarray()
}

fn leaf(values: &[f32], device: &Device, dtype: DType) -> Tensor<1> {
    let data = TensorData::new(values.to_vec(), [values.len()]);
    Tensor::from_data(data, (device, dtype)).require_grad()
}

pub fn host(tensor: Tensor<1>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The output, and the gradients of Σ outputᵢ·rᵢ for random r.
pub fn value_and_grads(inputs: &[Vec<f32>], op: Op<'_>, device: &Device, dtype: DType) -> Vec<Vec<f64>> {
    let leaves: Vec<_> = inputs.iter().map(|values| leaf(values, device, dtype)).collect();
    let output = op(&leaves);
    let weights = random(output.dims()[0], 999);
    let weights = Tensor::<1>::from_data(TensorData::new(weights, output.dims()), (device, dtype));
    let grads = (output.clone() * weights).sum().backward();
    let found = leaves.iter().map(|leaf| leaf.grad(&grads).map_or(vec![], host));
    std::iter::once(host(output.clone())).chain(found).collect()
}

/// Largest difference relative to the largest expected magnitude.
fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "lengths");
    let largest = expected.iter().fold(1e-30, |m: f64, e| m.max(e.abs()));
    found.iter().zip(expected).map(|(f, e)| (f - e).abs() / largest).fold(0.0, f64::max)
}

fn assert_near(what: &str, found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64) {
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let d = distance(found, expected);
        let part = if i == 0 { "value".into() } else { format!("gradient of operand {}", i - 1) };
        assert!(d <= tolerance, "{what}: {part} is off by {d:.2e} of its largest, allowed {tolerance:.0e}");
    }
}

/// Holds the paths of one operation against each other:
/// kernels in single precision against burn's operations in double precision (to 5e-6 of the largest element),
/// those against central differences (to 1e-6), and the portable path on a second backend (to 2e-5).
pub fn assert_paths_agree(what: &str, inputs: &[Vec<f32>], op: Op<'_>) {
    let flex = Device::flex().autodiff();
    let exact = value_and_grads(inputs, op, &flex, DType::F64);
    assert_near(what, &value_and_grads(inputs, op, &flex, DType::F32), &exact, 5e-6);
    let second = second_backend().autodiff();
    assert_near(&format!("{what}, ndarray"), &value_and_grads(inputs, op, &second, DType::F32), &exact, 2e-5);
    assert_derivatives(what, inputs, op, &exact[1..]);
}

/// Central differences of the portable path at a few elements of every operand.
fn assert_derivatives(what: &str, inputs: &[Vec<f32>], op: Op<'_>, grads: &[Vec<f64>]) {
    let device = Device::flex();
    let loss = |operand: usize, element: usize, shift: f64| {
        let leaves = inputs.iter().enumerate().map(|(i, values)| {
            let mut values: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
            if i == operand {
                values[element] += shift;
            }
            let len = values.len();
            Tensor::<1>::from_data(TensorData::new(values, [len]), (&device, DType::F64))
        });
        let output = host(op(&leaves.collect::<Vec<_>>()));
        output.iter().zip(random(output.len(), 999)).map(|(o, w)| o * f64::from(w)).sum::<f64>()
    };
    for (operand, grad) in grads.iter().enumerate() {
        let largest = grad.iter().fold(1e-3, |m: f64, g| m.max(g.abs()));
        let stride = (inputs[operand].len() / 5).max(1);
        for element in (0..grad.len()).step_by(stride) {
            let h = 1e-5;
            let slope = (loss(operand, element, h) - loss(operand, element, -h)) / (2.0 * h);
            let d = (slope - grad[element]).abs() / largest;
            assert!(d < 1e-6, "{what}: d(operand {operand})[{element}] is {}, measured {slope}", grad[element]);
        }
    }
}
