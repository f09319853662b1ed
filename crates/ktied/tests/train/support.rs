//! Small data and small networks of every kind, and folders that vanish.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ktied::checkpoint::Checkpoint;
use ktied::config::{Config, Preset, Tree};
use ktied::data::{Batches, DataSet, Inputs, Preprocessing, Scaling, Split, Targets, Units};
use ktied::noise;
use ktied::train::{Outcome, Trainer, Writer, fit};
use ktied::{NoiseKey, Purpose};

/// A folder of this test's own, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ktied-train-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn normals(len: usize, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    noise::normals(NoiseKey::new(seed).child(Purpose::Synthetic), 0, &mut values);
    values
}

fn split(
    inputs: impl Fn(usize, u64) -> Inputs,
    targets: impl Fn(usize, u64) -> Targets,
    len: usize,
    seed: u64,
) -> Split {
    Split { inputs: inputs(len, seed), targets: targets(len, seed) }
}

fn data_set(name: &str, inputs: impl Fn(usize, u64) -> Inputs, targets: impl Fn(usize, u64) -> Targets) -> DataSet {
    let [train, validation, test] = [(22, 1), (7, 2), (5, 3)].map(|(len, seed)| split(&inputs, &targets, len, seed));
    let (class_names, digest) = (Vec::new(), format!("digest of {name}"));
    let preprocessing = Preprocessing::plain(train.inputs.width());
    DataSet { name: name.into(), train, validation, test, class_names, digest, preprocessing }
}

fn classes(count: usize) -> impl Fn(usize, u64) -> Targets {
    move |len, seed| Targets::Classes {
        labels: (0..len).map(|i| ((i * 7 + seed as usize) % count) as u32).collect(),
        num_classes: count,
    }
}

fn images(len: usize, seed: u64) -> Inputs {
    let data = normals(len * 8 * 8 * 2, seed).iter().map(|z| (128.0 + 40.0 * z) as u8).collect();
    Inputs::Bytes { data, width: 128, scaling: Scaling::Uniform { divisor: 127.5, offset: 1.0 } }
}

/// A configuration and data for each kind of network, and one for regression with learned noise and learned priors.
pub fn problems() -> Vec<(Config, DataSet)> {
    let rows =
        |len: usize, seed: u64| Inputs::Floats { data: normals(len * 6, seed), width: 6, units: Units::default() };
    let words = |len: usize, seed: u64| {
        let data = (0..len * 5).map(|i| ((i * i + seed as usize) % 9) as u32).collect();
        Inputs::Tokens { data, width: 5 }
    };
    let values =
        |len: usize, seed: u64| Targets::Values { data: normals(len, 10 + seed), width: 1, units: Units::default() };
    vec![
        (
            config(Preset::MlpMnist, &[("model.sizes", "6,5,3"), ("estimator.kind", "local")]),
            data_set("mlp", rows, classes(3)),
        ),
        (
            config(
                Preset::MlpMnist,
                &[
                    ("model.sizes", "6,5,1"),
                    ("posterior.kind", "k-tied:1"),
                    ("prior.kind", "empirical"),
                    ("prior.every", "3"),
                    ("estimator.draws", "2"),
                ],
            ),
            data_set("regression", rows, values),
        ),
        (
            config(
                Preset::LeNetCifar100,
                &[
                    ("model.side", "8"),
                    ("model.channels", "2"),
                    ("model.filters", "3,4"),
                    ("model.dense", "6"),
                    ("model.classes", "3"),
                    ("model.kernel", "3"),
                    ("posterior.conv", "k-tied:2"),
                    ("estimator.kind", "local"),
                ],
            ),
            data_set("lenet", images, classes(3)),
        ),
        (
            config(
                Preset::LstmImdb,
                &[
                    ("model.vocabulary", "9"),
                    ("data.vocabulary", "9"),
                    ("model.embedding", "4"),
                    ("model.hidden", "3"),
                    ("estimator.kind", "flipout"),
                ],
            ),
            data_set("lstm", words, classes(2)),
        ),
        (
            config(
                Preset::ResNet18Cifar10,
                &[("model.side", "8"), ("model.channels", "2"), ("model.widths", "3,4,4,5"), ("model.classes", "3")],
            ),
            data_set("resnet18", images, classes(3)),
        ),
    ]
}

/// A preset under the 2-tied posterior, three epochs of three steps, with changes.
pub fn config(preset: Preset, settings: &[(&str, &str)]) -> Config {
    let mut tree = Tree::of(&preset.config());
    let common = [
        ("posterior.kind", "k-tied:2"),
        ("train.batch", "8"),
        ("train.epochs", "3"),
        ("train.log_every", "2"),
        ("train.validate_draws", "2"),
        ("optim.lr", "0.01"),
        ("optim.scale_lr", "0.02"),
        ("optim.clip", "5"),
    ];
    common.iter().chain(settings).for_each(|(key, value)| tree.set(key, value).unwrap());
    tree.config().unwrap()
}

/// The run after all its steps, in memory only.
pub fn unbroken(config: &Config, data: &DataSet) -> Checkpoint {
    let mut trainer = Trainer::new(config.clone(), data).unwrap();
    for batch in Batches::new(&data.train, config.train.batch, config.train.seed).from(0) {
        if trainer.state().step == trainer.num_steps() {
            break;
        }
        (trainer, _) = trainer.step(batch.unwrap()).unwrap();
    }
    trainer.checkpoint().unwrap()
}

/// Trains in a folder to the end.
pub fn train(folder: &Path, config: &Config, data: &DataSet) -> (Trainer, Outcome) {
    let writer = Writer::create(folder, config).unwrap();
    let trainer = Trainer::new(config.clone(), data).unwrap();
    fit(&writer, trainer, data, &mut (), &AtomicBool::new(false)).unwrap()
}
