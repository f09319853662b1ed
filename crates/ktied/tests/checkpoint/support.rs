//! Small networks, their training, and folders that go away again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied::checkpoint::{Checkpoint, Digest, Dtype, Header, NamedTensor, NamedTensors, Store, module_tensors};
use ktied::models::{Mlp, MlpSpec, Network, NetworkConfig, PosteriorSpec};
use ktied::nn::{Estimator, Pass};
use ktied::objective::Elbo;
use ktied::train::{Adam, LearningRates};
use ktied::{NoiseKey, noise, ops};

pub const POSTERIORS: [&str; 4] = ["point", "mean-field", "k-tied:2", "matrix-normal"];

/// A folder of its own for each test, removed when it ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ktied-checkpoint-test-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn store(&self) -> Store {
        Store::open(self.0.join("checkpoints")).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn device() -> Device {
    Device::flex().autodiff()
}

/// A 12-8-3 network.
pub fn mlp(posterior: &str, seed: u64) -> Mlp {
    wide_mlp(posterior, 8, seed)
}

/// A 12-`width`-3 network.
pub fn wide_mlp(posterior: &str, width: usize, seed: u64) -> Mlp {
    let config = NetworkConfig::new(PosteriorSpec::new(posterior.parse().unwrap()));
    MlpSpec::new([12, width, 3]).init(&NetworkConfig { seed, ..config }, &device()).unwrap()
}

/// The gradients of a step, whose batch and noise are functions of its number.
pub fn grads(mlp: &Mlp, step: u64) -> GradientsParams {
    let mut values = vec![0.0; 16 * 12];
    noise::normals(NoiseKey::new(1).at(step, 0), 0, &mut values);
    let x = Tensor::<1>::from_floats(&values[..], &Device::flex()).reshape([16, 12]);
    let labels: Vec<u32> = (0..16).map(|i| (i + step as u32) % 3).collect();
    let logits = mlp.forward(x, &Pass::sampled(3, step, Estimator::Flipout)).unwrap();
    let nll = ops::softmax_cross_entropy(logits, &labels).unwrap().mean();
    let loss = Elbo::new(100).unwrap().loss(nll, mlp.kl().unwrap(), 1.0);
    GradientsParams::from_grads(loss.backward(), mlp)
}

/// Steps `from` to `to`, the latter not included.
pub fn train(mut mlp: Mlp, adam: &mut Adam, from: u64, to: u64) -> Mlp {
    for step in from..to {
        let grads = grads(&mlp, step);
        mlp = adam.step(LearningRates { loc: 1e-2, scale: 3e-2 }, mlp, grads);
    }
    mlp
}

pub fn checkpoint(step: u64, mlp: &Mlp, adam: &Adam) -> Checkpoint {
    Checkpoint::new(Header::new(step, 42), module_tensors(mlp).unwrap(), adam.to_tensors(mlp).unwrap()).unwrap()
}

/// The digest of weights and optimiser.
pub fn digest(mlp: &Mlp, adam: &Adam) -> Digest {
    checkpoint(0, mlp, adam).digest()
}

/// A checkpoint of two small tensors, which say the step.
pub fn small(step: u64) -> Checkpoint {
    let tensors = |path: &str, len: usize| {
        let mut tensors = NamedTensors::default();
        let bytes = (0..4 * len).map(|i| (i as u64 * 7 + step) as u8).collect();
        tensors.insert(path, NamedTensor::new(Dtype::F32, vec![len], bytes).unwrap()).unwrap();
        tensors
    };
    let mut header = Header::new(step, 42);
    header.config = serde_json::json!({ "optim": { "lr": 0.001 } });
    header.state = serde_json::json!({ "best": step });
    Checkpoint::new(header, tensors("layers.0.loc", 40), tensors("adam.layers.0.loc.moment_1", 40)).unwrap()
}

/// All names in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
