//! Made-up data of a model's shape, for benchmarks: standard normal inputs or random words, and random classes.

use burn::tensor::Device;
use ktied::data::{DataSet, InOrder, Inputs, Preprocessing, Split, Targets, Units};
use ktied::models::{Features, ModelSpec};
use ktied::objective::Observed;
use ktied_kernels::{NoiseKey, Purpose, noise};

/// Words of a sequence.
const LENGTH: usize = 80;

/// So many examples as one batch of tensors.
pub(super) fn batch(model: &ModelSpec, rows: usize) -> ktied::Result<(Features, Observed)> {
    Ok(InOrder::new(&split(model, rows), rows).batch(0)?.on(&Device::flex()))
}

/// So many examples to train on, and no others.
pub(super) fn data_set(model: &ModelSpec, rows: usize) -> DataSet {
    let [train, validation, test] = [rows, 0, 0].map(|rows| split(model, rows));
    let (class_names, digest) = (Vec::new(), "made up".into());
    let preprocessing = Preprocessing::plain(train.inputs.width());
    DataSet { name: "made up".into(), train, validation, test, class_names, digest, preprocessing }
}

fn split(model: &ModelSpec, rows: usize) -> Split {
    let key = NoiseKey::new(0).child(Purpose::Synthetic);
    let below = |count: usize, bound: usize, stream: u64| {
        let mut words = vec![0; count];
        noise::random_words(key.fold(stream), 0, &mut words);
        words.into_iter().map(|word| ((u64::from(word) * bound as u64) >> 32) as u32).collect::<Vec<u32>>()
    };
    let (width, num_classes) = match model {
        ModelSpec::Mlp(spec) => (spec.sizes.first().copied().unwrap_or(0), model.outputs()),
        ModelSpec::LeNet(spec) => (spec.side * spec.side * spec.channels, spec.classes),
        ModelSpec::ResNet18(spec) => (spec.side * spec.side * spec.channels, spec.classes),
        ModelSpec::Lstm(_) => (LENGTH, 2),
    };
    let inputs = match model {
        ModelSpec::Lstm(spec) => Inputs::Tokens { data: below(rows * width, spec.vocabulary, 1), width },
        _ => {
            let mut data = vec![0.0; rows * width];
            noise::normals(key.fold(2), 0, &mut data);
            Inputs::Floats { data, width, units: Units::default() }
        }
    };
    Split { inputs, targets: Targets::Classes { labels: below(rows, num_classes, 3), num_classes } }
}
