//! Broken and hostile files against the real program: whatever they are, it ends soon, with the right code and one sentence that
//! names the file, within a limit of memory, and nothing is written.
#![cfg(unix)]

mod case;
mod inputs;
mod others;
mod pictures;
mod runs;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::{Case, LIMIT, run, run_as, verdict};
use support::{Folder, ok};

/// The user who may do nothing, where root has to be somebody else.
const NOBODY: u32 = 65534;

/// A small run on the digits, with one checkpoint.
fn trained(folder: &Folder) -> String {
    let run = folder.join("run");
    ok(&["train", "--preset", "mlp-digits", "--set", "train.steps=1", "--quiet", "--out", &run]);
    run
}

/// Tries all cases on all cores; prints how many there are of each kind.
fn try_all(folder: &Folder, trained: &str, kinds: &[(&str, Vec<Case>)]) {
    kinds.iter().for_each(|(kind, cases)| println!("{kind}: {} cases", cases.len()));
    let cases: Vec<&Case> = kinds.iter().flat_map(|(_, cases)| cases).collect();
    let (next, threads) = (AtomicUsize::new(0), std::thread::available_parallelism().map_or(1, |n| n.get()));
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut wrong = vec![];
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(number) else { return wrong };
                wrong.extend(verdict(trained, &folder.0.join(number.to_string()), case));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    println!("{} cases", cases.len());
    assert!(cases.len() >= 400 && wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// One of so many of the cuts, flipped bits and changed places, unless `KTIED_LONG=1` asks for all; what is named otherwise stays.
fn thinned(cases: Vec<Case>, so_many: usize) -> Vec<Case> {
    if std::env::var_os("KTIED_LONG").is_some_and(|value| value == "1") {
        return cases;
    }
    println!("ONLY ONE OF {so_many} CUTS, BITS AND CHANGES OF {} CASES; KTIED_LONG=1 tries all", cases.len());
    let is_one_of_many = |case: &Case| [" cut to ", " bit ", " := "].iter().any(|part| case.name.contains(part));
    let numbered = cases.into_iter().enumerate();
    numbered
        .filter(|(number, case)| number.is_multiple_of(so_many) || !is_one_of_many(case))
        .map(|(_, case)| case)
        .collect()
}

#[test]
fn every_broken_input_is_refused_by_name_and_nothing_is_written() {
    let folder = Folder::new("hostile");
    let trained = trained(&folder);
    try_all(&folder, &trained, &[("inputs", thinned(inputs::cases(), 2)), ("images", thinned(pictures::cases(), 4))]);
}

#[test]
fn every_broken_data_set_configuration_posterior_and_manifest_is_refused_by_name_and_nothing_is_written() {
    let folder = Folder::new("hostile-others");
    let trained = trained(&folder);
    let kinds = [
        ("own sets", inputs::own_sets()),
        ("CIFAR", others::images()),
        ("reviews.json", thinned(others::reviews(), 4)),
        ("configurations", thinned(others::configurations(), 4)),
        ("safetensors", thinned(others::posteriors(), 4)),
        ("manifests", thinned(others::manifests(&trained), 4)),
    ];
    try_all(&folder, &trained, &kinds);
}

#[test]
fn whatever_is_in_the_log_and_the_evaluations_of_a_run_it_is_shown_without_it_or_refused_by_name() {
    let folder = Folder::new("hostile-runs");
    let (trained, validated) = (trained(&folder), folder.join("validated"));
    let sets =
        ["train.steps=12", "train.log_every=10", "train.snr=true", "data.validation=0.1", "train.validate_every=1"];
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    ok(&["train", "--preset", "mlp-digits", "--quiet", "--out", &validated]
        .into_iter()
        .chain(sets)
        .collect::<Vec<_>>());
    ok(&["evaluate", &validated, "--samples", "3", "--quiet"]);
    let kinds = [
        ("logs", thinned(runs::logs(&validated), 16)),
        ("evaluations", thinned(runs::evaluations(&validated), 16)),
        ("configurations of runs", thinned(runs::configurations(&trained), 16)),
    ];
    try_all(&folder, &trained, &kinds);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = Folder::new("no-file");
    let trained = trained(&folder);
    let (out, tensors) = (folder.join("out.csv"), folder.join("out.safetensors"));
    let copied = folder.join("program");
    fs::copy(env!("CARGO_BIN_EXE_ktied"), &copied).expect("a copy");
    fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o777)).expect("permissions");
    for file in ["x.npy", "x.npz", "x.csv", "x.txt", "x-idx3-ubyte", "x.toml", "x.safetensors"] {
        for kind in ["a folder", "a pipe or a device", "nothing", "a file that may not be read"] {
            let path = folder.join(&format!("{}-{file}", kind.len()));
            match kind {
                "a folder" => fs::create_dir(&path).expect("a folder"),
                "a pipe or a device" => {
                    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
                }
                "nothing" => {}
                _ => {
                    fs::write(&path, "secret").expect("a file");
                    fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).expect("permissions");
                }
            }
            // Root reads everything.
            let is_root = kind == "a file that may not be read" && fs::read(&path).is_ok();
            let args: Vec<&str> = match file {
                "x.toml" => vec!["train", "--config", &path, "--out", &out],
                "x.safetensors" => vec!["compress", &path, "--out", &tensors, "--names", "tfp", "--rank", "1"],
                _ => vec!["predict", &trained, "--input", &path, "--out", &out],
            };
            let (code, message, took) = if is_root { run_as(Some(NOBODY), &copied, &args) } else { run(&args) };
            // A folder may be one of PNG images, and this one has none, or a run, and this one is none.
            let is_right = matches!(code, Some(3 | 6)) || (code == Some(2) && kind == "a folder");
            assert!(is_right, "{file}, {kind}: {code:?} {message}");
            assert!(message.contains(&path) && took < LIMIT, "{file}, {kind}: {message}");
            // A text is no digit, whatever it says.
            let is_opened = kind == "a file that may not be read" && file != "x.txt";
            assert!(!is_opened || message.contains("Permission denied"), "{file}: {message}");
            assert!(!Path::new(&out).exists() && !Path::new(&tensors).exists(), "{file}, {kind}");
        }
    }
}
