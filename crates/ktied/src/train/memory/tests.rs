//! The estimate against peaks that were measured, and what it is made of.

use super::*;
use crate::config::{Preset, Tree};

fn config(preset: Preset, settings: &[(&str, &str)]) -> Config {
    let mut tree = Tree::of(&preset.config());
    settings.iter().for_each(|(key, value)| tree.set(key, value).unwrap());
    tree.config().unwrap()
}

/// A posterior, and its peaks under the three estimators.
type Peaks = (&'static str, [u64; 3]);

/// `peak_rss_mb` (MiB) of `ktied bench step --steps 2 --threads 2`, an optimised build on x86-64 Linux:
/// for each posterior those of reparam, flipout and local.
const MEASURED: [(Preset, [Peaks; 4]); 4] = [
    (
        Preset::MlpMnist,
        [
            ("point", [39, 40, 42]),
            ("mean-field", [58, 74, 74]),
            ("k-tied:2", [58, 74, 52]),
            ("matrix-normal", [74, 74, 74]),
        ],
    ),
    (
        Preset::LstmImdb,
        [
            ("point", [140, 128, 148]),
            ("mean-field", [148, 176, 174]),
            ("k-tied:2", [154, 176, 178]),
            ("matrix-normal", [158, 196, 174]),
        ],
    ),
    (
        Preset::LeNetCifar100,
        [
            ("point", [514, 528, 513]),
            ("mean-field", [603, 1053, 1067]),
            ("k-tied:2", [563, 1016, 986]),
            ("matrix-normal", [582, 1052, 1072]),
        ],
    ),
    (
        Preset::ResNet18Cifar10,
        [
            ("point", [631, 653, 650]),
            ("mean-field", [767, 1351, 1349]),
            ("k-tied:2", [698, 1264, 1264]),
            ("matrix-normal", [789, 1353, 1358]),
        ],
    ),
];

/// A step on made-up data: no examples, nothing read, nothing gathered ahead, no validation.
fn of_step(config: &Config) -> u64 {
    let memory = Memory::of(config, Task::Train).unwrap();
    let activations = activations::training(config);
    Memory { activations, data: 0, reading: 0, ..memory }.total()
}

#[test]
fn steps_take_what_was_measured_from_a_fifth_less_to_half_more() {
    for (preset, rows) in MEASURED {
        for (posterior, peaks) in rows {
            for (estimator, peak) in ["reparam", "flipout", "local"].into_iter().zip(peaks) {
                let config = config(preset, &[("posterior.kind", posterior), ("estimator.kind", estimator)]);
                let (found, measured) = (of_step(&config) as f64, (peak * MIB) as f64);
                let ratio = found / measured;
                assert!(
                    (0.8..1.5).contains(&ratio),
                    "{preset} {posterior} {estimator}: {:.0} % of {peak} MiB",
                    100.0 * ratio
                );
            }
        }
    }
}

#[test]
fn steps_of_other_batches_take_what_was_measured_from_a_fifth_less_to_half_more() {
    for (preset, posterior, estimator, batch, peak) in [
        (Preset::MlpMnist, "k-tied:2", "local", "4096", 128),
        (Preset::LeNetCifar100, "mean-field", "flipout", "128", 303),
        (Preset::LstmImdb, "k-tied:2", "reparam", "512", 334),
        (Preset::ResNet18Cifar10, "k-tied:2", "flipout", "32", 456),
        (Preset::ResNet18Cifar10, "mean-field", "reparam", "16", 322),
    ] {
        let settings = [("posterior.kind", posterior), ("estimator.kind", estimator), ("train.batch", batch)];
        let ratio = of_step(&config(preset, &settings)) as f64 / (peak * MIB) as f64;
        assert!((0.8..1.5).contains(&ratio), "{preset} {posterior} {batch}: {:.0} % of {peak} MiB", 100.0 * ratio);
    }
}

/// Peaks (MiB) of `ktied train` of two steps on the real sets and of `ktied evaluate --samples 1` after it, as above.
#[test]
fn whole_commands_take_what_was_measured_from_a_fifth_less_to_half_more() {
    for (preset, posterior, estimator, batch, peaks) in [
        (Preset::MlpDigits, "k-tied:2", "local", "256", [28, 24]),
        (Preset::MlpMnist, "mean-field", "reparam", "1024", [159, 165]),
        (Preset::MlpMnist, "point", "reparam", "1024", [146, 147]),
        (Preset::LeNetCifar100, "k-tied:2", "reparam", "1024", [788, 473]),
        (Preset::LeNetCifar100, "mean-field", "flipout", "256", [647, 533]),
        (Preset::LstmImdb, "k-tied:2", "reparam", "128", [474, 480]),
        (Preset::LstmImdb, "mean-field", "flipout", "512", [525, 400]),
        (Preset::ResNet18Cifar10, "mean-field", "flipout", "128", [1554, 1150]),
    ] {
        let settings = [("posterior.kind", posterior), ("estimator.kind", estimator), ("train.batch", batch)];
        let config = config(preset, &settings);
        for (task, peak) in [Task::Train, Task::Evaluate].into_iter().zip(peaks) {
            let ratio = Memory::of(&config, task).unwrap().total() as f64 / (peak * MIB) as f64;
            assert!((0.8..1.5).contains(&ratio), "{preset} {posterior} {task:?}: {:.0} % of {peak} MiB", 100.0 * ratio);
        }
    }
}

#[test]
fn activations_grow_with_batch_and_draws_and_parameters_do_not() {
    for preset in Preset::ALL {
        let of = |settings: &[(&str, &str)]| Memory::of(&config(preset, settings), Task::Train).unwrap();
        let settings = |batch: &'static str, draws: &'static str| {
            [("train.batch", batch), ("estimator.draws", draws), ("train.validate_every", "0")]
        };
        let [one, ten, draws] = [settings("100", "1"), settings("1000", "1"), settings("100", "5")].map(|s| of(&s));
        assert_eq!(ten.activations, 10 * one.activations, "{preset}");
        assert!(draws.activations > 2 * one.activations && draws.activations < 5 * one.activations, "{preset}");
        assert_eq!((ten.parameters, draws.parameters), (one.parameters, one.parameters), "{preset}");
    }
}

#[test]
fn a_validation_between_small_steps_counts_where_there_are_examples_for_it() {
    let of = |settings: &[(&str, &str)]| {
        let config = config(Preset::LeNetCifar100, &[&[("train.batch", "8")], settings].concat());
        Memory::of(&config, Task::Train).unwrap().activations
    };
    let evaluation = activations::evaluating(&Preset::LeNetCifar100.config());
    assert_eq!(of(&[]), evaluation);
    assert!(of(&[("train.validate_every", "0")]) < evaluation / 10);
    assert!(of(&[("data.set", "cifar10")]) < evaluation / 10, "it has none");
}

#[test]
fn sizes_without_end_are_refused_or_saturate_but_never_overflow() {
    let huge = config(Preset::MlpDigits, &[("train.batch", "18446744073709551615")]);
    let memory = Memory::of(&huge, Task::Train).unwrap();
    assert_eq!(memory.total(), u64::MAX);
    assert!(memory.check(Some(1 << 40)).is_err());
    let wide = config(Preset::MlpDigits, &[("model.sizes", "18446744073709551615,2,10")]);
    assert!(Memory::of(&wide, Task::Train).is_err());
}

#[test]
fn a_refusal_says_how_much_is_needed_and_how_much_there_is() {
    let memory = Memory { activations: 3_000_000_000 - PROGRAM, program: PROGRAM, ..Memory::default() };
    let refused = memory.check(Some(1_100_000_000)).unwrap_err();
    assert_eq!(refused.to_string(), "this needs about 3.3 GB and the machine has 1.1 GB free; use --force to try");
    assert!(matches!(refused, Error::NotEnoughMemory { .. }));
    assert_eq!(memory.check(None), Ok(()), "nobody knows");
    assert_eq!(memory.check(Some(memory.total())), Ok(()));
    assert!(memory.check(Some(memory.total() - 1)).is_err());
    let memory = Memory::of(&Preset::MlpDigits.config(), Task::Predict).unwrap();
    assert!(memory.check(machine::available()).is_ok(), "30 MB are there");
}

#[test]
fn a_file_of_ones_own_counts_by_its_length() {
    let path = std::env::temp_dir().join(format!("ktied-memory-{}.csv", std::process::id()));
    std::fs::write(&path, vec![b'0'; 1000]).unwrap();
    let spec = DataSpec::named(path.to_string_lossy());
    assert_eq!(data(&spec), (1000, 3000, true));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(data(&spec), (0, 0, true));
    assert_eq!(data(&DataSpec::named("mnist")), (70_000 * 784, 70_000 * 784, true));
    assert!(!data(&DataSpec::named("cifar10")).2);
}
