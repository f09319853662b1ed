//! A run goes on only as what it is: every difference is listed, and nothing is changed.

use std::fs;
use std::path::Path;

use crate::support::{Folder, code, ok};

fn table(rows: usize) -> String {
    let rows: Vec<String> = (0..rows).map(|i| format!("{},{},{}", i % 7, i % 5, u8::from(i % 7 > 3))).collect();
    format!("a,b,label\n{}\n", rows.join("\n"))
}

#[test]
fn a_run_is_not_resumed_as_another_and_every_difference_is_listed() {
    let folder = Folder::new("differences");
    let (run, file, other) = (folder.join("run"), folder.join("table.csv"), folder.join("other.csv"));
    fs::write(&file, table(60)).expect("a table");
    fs::write(&other, table(60)).expect("a table");
    let set = format!("data.set={file}");
    let base = ["train", "--preset", "mlp-digits", "--quiet", "--out", &run, "--posterior", "k-tied:2", "--set", &set];
    let small = ["--set", "model.sizes=2,4,2", "--set", "train.batch=16", "--set", "train.steps=3"];
    let train = [&base[..], &small].concat();
    ok(&train);
    let checkpoints = || -> Vec<_> {
        let folder = Path::new(&run).join("checkpoints/step-00000003");
        crate::names(&folder).iter().map(|name| fs::read(folder.join(name)).expect("a file")).collect()
    };
    let before = (checkpoints(), fs::read(Path::new(&run).join("config.toml")).expect("a configuration"));
    let other_set = format!("data.set={other}");
    let differences = [
        "model.sizes=2,5,2",
        "posterior.kind=k-tied:1",
        "prior.scale=0.7",
        "train.seed=5",
        "train.batch=8",
        "estimator.kind=flipout",
        "optim.lr=0.5",
        &other_set,
    ];
    let refused = |changes: &[&str], expected: i32, parts: &[&str]| {
        let changes: Vec<&str> = changes.iter().flat_map(|change| ["--set", change]).collect();
        let (found, message) = code(&[&train[..], &["--resume"], &changes].concat());
        assert_eq!(found, Some(expected), "{changes:?}: {message}");
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!((checkpoints(), fs::read(Path::new(&run).join("config.toml")).expect("one")), before, "{changes:?}");
    };
    let keys: Vec<String> = differences
        .iter()
        .map(|change| format!("{}: the run in ", change.split_once('=').expect("a key and a value").0))
        .collect();
    for (change, key) in differences.iter().zip(&keys) {
        refused(&[change], 2, &[key]);
    }
    refused(&differences, 2, &keys.iter().map(String::as_str).collect::<Vec<_>>());
    // Another network altogether.
    let (found, message) = code(&["train", "--preset", "lenet-cifar100", "--out", &run, "--resume"]);
    assert_eq!(found, Some(2), "{message}");
    for key in ["data.set", "model.kind", "model.sizes", "posterior.kind", "prior.scale", "train.batch"] {
        assert!(message.contains(&format!("{key}: the run in ")), "{key}: {message}");
    }
    // Other data under the same name, alone and with the rest.
    fs::write(&file, table(61)).expect("a table");
    refused(&[], 3, &["is not the one that the run was trained on"]);
    refused(&["train.seed=5"], 2, &["train.seed: the run in ", "is not the one that the run was trained on"]);
    // As it was, it goes on.
    fs::write(&file, table(60)).expect("a table");
    ok(&[&train[..], &["--resume", "--set", "train.steps=5"]].concat());
}
