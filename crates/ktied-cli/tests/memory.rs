//! The estimate of memory against the peak of the program itself, where the system says it.
#![cfg(target_os = "linux")]

use std::process::Command;

use ktied::config::{Preset, Tree};
use ktied::train::memory::{Memory, Task, activations};

/// `peak_rss_mb` of two steps, and the estimate for them, in MiB.
fn measured_and_estimated(preset: Preset, posterior: &str, estimator: &str, batch: &str) -> [f64; 2] {
    let mut tree = Tree::of(&preset.config());
    let settings = [("posterior.kind", posterior), ("estimator.kind", estimator), ("train.batch", batch)];
    settings.iter().for_each(|(key, value)| tree.set(key, value).unwrap());
    let config = tree.config().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_ktied"));
    bench.args(["bench", "step", "--json", "--steps", "2", "--threads", "2", "--model", config.model.name()]);
    bench.args(["--posterior", posterior, "--estimator", estimator, "--batch", batch]);
    let report: serde_json::Value = serde_json::from_slice(&bench.output().unwrap().stdout).unwrap();
    // Made-up data: no examples, nothing read.
    let memory = Memory::of(&config, Task::Train).unwrap();
    let memory = Memory { activations: activations::training(&config), data: 0, reading: 0, ..memory };
    [report["peak_rss_mb"].as_f64().unwrap(), memory.total() as f64 / f64::from(1 << 20)]
}

/// A fifth less to half more. A debug build of the program is larger by some MiB, which small networks feel.
#[test]
fn the_estimate_is_near_the_peak_of_the_program_itself() {
    for (preset, posterior, estimator, batch) in [
        (Preset::MlpMnist, "k-tied:2", "local", "2048"),
        (Preset::LeNetCifar100, "mean-field", "flipout", "128"),
        (Preset::LstmImdb, "mean-field", "reparam", "128"),
    ] {
        let [measured, estimated] = measured_and_estimated(preset, posterior, estimator, batch);
        let ratio = estimated / measured;
        assert!((0.8..1.5).contains(&ratio), "{preset} {posterior} {estimator}: {estimated:.0} of {measured} MiB");
    }
}
