//! Settings at the edge of what can be: the program ends with a finite result, or says clearly why it stopped.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Folder, code, json, ktied};
use crate::{names, stderr};

/// Rows of two numbers and a class.
fn table(rows: usize, classes: usize) -> String {
    let rows: Vec<String> = (0..rows).map(|i| format!("{},{},{}", i % 7, i % 5, i % classes)).collect();
    format!("a,b,label\n{}\n", rows.join("\n"))
}

/// All numbers of an evaluation are finite; serde_json writes those that are not as null.
fn assert_finite(metrics: &Value, what: &str) {
    for name in ["neg_elbo", "nll", "accuracy", "brier", "ece"] {
        assert!(metrics[name]["value"].is_f64(), "{what}: {name} is {}", metrics[name]["value"]);
    }
}

#[test]
fn extreme_settings_end_in_a_finite_result_or_a_clear_stop() {
    let folder = Folder::new("extremes");
    let (file, one_class, one_example) = (folder.join("t.csv"), folder.join("class.csv"), folder.join("one.csv"));
    fs::write(&file, table(60, 2)).expect("a table");
    fs::write(&one_class, format!("{}\n", table(60, 1))).expect("a table");
    fs::write(&one_example, table(1, 1)).expect("a table");
    let (set, class_set, example_set) =
        (format!("data.set={file}"), format!("data.set={one_class}"), format!("data.set={one_example}"));
    let none = ["data.validation=0", "data.test=0"];
    let cases: Vec<(&str, Vec<&str>)> = vec![
        ("a learning rate of 10", vec![&set, "optim.lr=10"]),
        ("a learning rate of 1e30", vec![&set, "optim.lr=1e30"]),
        ("standard deviations of 1e-30", vec![&set, "posterior.init_scale=1e-30"]),
        ("standard deviations of 1e30", vec![&set, "posterior.init_scale=1e30"]),
        ("a prior of 1e-6", vec![&set, "prior.scale=1e-6"]),
        ("a prior of 1e-30", vec![&set, "prior.scale=1e-30"]),
        ("a prior of 1e30", vec![&set, "prior.scale=1e30"]),
        ("the largest rank", vec![&set, "posterior.kind=k-tied:2"]),
        ("a batch of 1", vec![&set, "train.batch=1"]),
        ("one class", vec![&class_set, "data.task=classes", "model.sizes=2,4,1"]),
        (
            "one example",
            vec![&example_set, "data.task=classes", "model.sizes=2,4,1", "train.batch=1", none[0], none[1]],
        ),
        ("a clip of 1e-30", vec![&set, "optim.clip=1e-30"]),
        ("a temperature of 1e-30", vec![&set, "likelihood.temperature=1e-30"]),
        ("all at once", vec![&set, "optim.lr=10", "posterior.init_scale=1e-30", "prior.scale=1e-6", "train.batch=1"]),
    ];
    for (number, (what, settings)) in cases.iter().enumerate() {
        for policy in ["stop", "skip"] {
            let run = folder.join(&format!("run-{number}-{policy}"));
            let policy = format!("train.non_finite={policy}");
            let common =
                ["model.sizes=2,4,2", "train.batch=16", "train.steps=150", "train.checkpoint_steps=50", &policy];
            let settings = common.iter().chain(settings).flat_map(|setting| ["--set", setting]);
            let args = ["train", "--preset", "mlp-digits", "--quiet", "--threads", "1", "--out", &run, "--json"];
            let output = ktied(&args.into_iter().chain(settings).collect::<Vec<_>>());
            let (code, said) = (output.status.code(), stderr(&output));
            assert!(!said.contains("panicked"), "{what}: {said}");
            let is_stop = code == Some(5) && said.contains("is not a finite number in step ");
            let is_refused = code == Some(3) && said.contains(".csv");
            assert!(code == Some(0) || is_stop || is_refused, "{what}, {policy}: {code:?} {said}");
            println!("{what}, {policy}: {}", if code == Some(0) { "finite" } else { said.trim_end() });
            // Whatever was saved can be read, and what it predicts are numbers.
            if !names(Path::new(&run).join("checkpoints")).is_empty() {
                json(&["inspect", &run]);
                let split = if what.contains("one example") { "train" } else { "test" };
                let output = ktied(&["evaluate", &run, "--samples", "2", "--split", split, "--json"]);
                let is_said = output.status.code() == Some(5) && stderr(&output).contains("must be a finite number");
                if !(is_stop && is_said) {
                    assert!(output.status.success(), "{what}: {}", stderr(&output));
                    assert_finite(&serde_json::from_slice(&output.stdout).expect("JSON"), what);
                }
            }
        }
    }
}

#[test]
fn an_input_that_overflows_names_tensor_and_step_and_the_policy_is_followed() {
    let folder = Folder::new("overflow");
    let file = folder.join("t.csv");
    // Some examples that no network survives.
    fs::write(&file, table(60, 2).replace("\n6,", "\n3e38,")).expect("a table");
    let set = format!("data.set={file}");
    let settings = ["--set", "model.sizes=2,4,2", "--set", "train.batch=8", "--set", "data.standardize=false"];
    let args = ["train", "--preset", "mlp-digits", "--quiet", "--set", &set, "--set", "train.checkpoint_steps=1"];
    let args = [&args[..], &settings, &["--set", "train.steps=24", "--set", "train.keep=99"]].concat();
    let run = folder.join("stop");
    let (found, message) = code(&[&args[..], &["--out", &run]].concat());
    assert_eq!(found, Some(5), "{message}");
    let step: u64 =
        message.split("in step ").nth(1).and_then(|rest| rest.split(';').next()?.parse().ok()).expect(&message);
    assert!(message.contains("network's output") || message.contains("gradient of `"), "{message}");
    let newest = names(Path::new(&run).join("checkpoints")).pop();
    assert_eq!(newest, (step > 1).then(|| format!("step-{:08}", step - 1)), "the last good one is kept");
    for (policy, halved) in [("skip", false), ("halve", true)] {
        let run = folder.join(policy);
        let policy = format!("train.non_finite={policy}");
        let report = json(&[&args[..], &["--out", &run, "--set", &policy]].concat());
        let skipped = report["skipped_steps"].as_u64().expect("a number");
        assert!((1..24).contains(&skipped), "{report}");
        let manifest =
            fs::read_to_string(Path::new(&run).join("checkpoints/step-00000024/manifest.json")).expect("one");
        let expected = format!("\"halvings\": {}", if halved { skipped } else { 0 });
        assert!(manifest.contains(&expected), "{manifest}");
    }
}
