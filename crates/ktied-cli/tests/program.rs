//! The real program: its output, its exit codes, and the same bits on any number of threads.

#[path = "program/events.rs"]
mod events;
#[path = "program/odd_reports.rs"]
mod odd_reports;
#[path = "program/report.rs"]
mod report;
#[path = "program/reproduce.rs"]
mod reproduce;
mod support;

use std::process::{Command, Output};

use serde_json::Value;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ktied"))
}

fn ktied(args: &[&str]) -> Output {
    program().args(args).output().expect("the program starts")
}

fn json(args: &[&str]) -> Value {
    let output = ktied(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Runs the demo into a folder that is gone afterwards.
fn demo(name: &str, args: &[&str]) -> Output {
    let folder = std::env::temp_dir().join(format!("ktied-demo-{name}-{}", std::process::id()));
    let path = folder.to_string_lossy().into_owned();
    let output = ktied(&[&["demo", "--out", &path], args].concat());
    let _ = std::fs::remove_dir_all(folder);
    output
}

fn demo_json(name: &str, args: &[&str]) -> Value {
    let output = demo(name, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Takes out what no two runs share.
fn forget(object: &mut Value, keys: &[&str]) {
    let object = object.as_object_mut().expect("an object");
    keys.iter().for_each(|key| drop(object.remove(*key)));
}

fn network<'a>(report: &'a Value, posterior: &str) -> &'a Value {
    let rows = report["networks"].as_array().expect("rows");
    rows.iter().find(|row| row["posterior"] == posterior).expect("the posterior's row")
}

#[test]
fn the_demo_learns_the_digits_under_every_posterior() {
    let report = demo_json("learns", &["--steps", "600"]);
    for posterior in ["point", "mean-field", "low-rank:1", "low-rank:2", "k-tied:1", "k-tied:2", "k-tied:3"] {
        let row = network(&report, posterior);
        // A network that does not learn stays near 0.1.
        assert!(row["accuracy"]["value"].as_f64() > Some(0.9), "{row}");
        assert_eq!(row["kl"] == 0.0, posterior == "point", "{row}");
    }
    assert_eq!(report["test_images"], 397);
    let parameters = |posterior| network(&report, posterior)["parameters"].as_u64();
    // 64·64 + 64·64 + 64·10 kernels and 64 + 64 + 10 biases; tied: K·(128 + 128 + 74) more, and mean-field biases.
    assert_eq!(parameters("point"), Some(8832 + 138));
    assert_eq!(parameters("mean-field"), Some(2 * 8832 + 2 * 138));
    assert_eq!(parameters("k-tied:2"), Some(8832 + 2 * 330 + 2 * 138));
}

#[test]
fn the_demo_has_the_same_bits_on_any_number_of_threads_and_other_bits_with_another_seed() {
    let run = |threads: &str, seed: &str| {
        let name = format!("bits-{threads}-{seed}");
        let mut report = demo_json(&name, &["--steps", "20", "--threads", threads, "--seed", seed]);
        for row in report["networks"].as_array_mut().expect("rows") {
            forget(row, &["seconds", "run"]);
        }
        forget(&mut report, &["seconds", "folder"]);
        report
    };
    let one = run("1", "1");
    assert_eq!(one, run("2", "1"));
    assert_eq!(one, run("4", "1"));
    assert_ne!(network(&one, "k-tied:2")["nll"], network(&run("1", "2"), "k-tied:2")["nll"]);
}

#[test]
fn the_demo_speaks_plainly_and_keeps_standard_error_quiet_when_nobody_watches() {
    let output = demo("plain", &["--steps", "1"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("accuracy") && text.contains("k-tied:2"), "{text}");
}

#[test]
fn wrong_arguments_end_with_2_and_one_sentence() {
    for args in [&["demo", "--steps", "0"][..], &["demo", "--threads", "0"], &["nonsense"], &[]] {
        assert_eq!(ktied(args).status.code(), Some(2), "{args:?}");
    }
    let output = ktied(&["bench", "kernels", "--filter", "no such kernel"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("no kernel's name contains `no such kernel`"), "{message}");
}

#[test]
fn params_counts_as_the_paper_does() {
    let mlp = json(&["params", "--preset", "mlp-mnist", "--posterior", "k-tied:2", "--json"]);
    assert_eq!((&mlp["preset"], &mlp["posterior"]), (&"mlp-mnist".into(), &"k-tied:2".into()));
    assert_eq!((&mlp["total"], &mlp["with_head"]), (&484_008.into(), &484_008.into()));
    let parameters = 784 * 400 + 2 * (784 + 400);
    let kernel = serde_json::json!({
        "name": "dense_1.kernel", "shape": [784, 400], "posterior": "k-tied:2", "parameters": parameters
    });
    assert_eq!(mlp["layers"][0], kernel);
    let keys: Vec<_> = mlp.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys.len(), 5, "{keys:?}");

    let lstm = json(&["params", "--preset", "lstm-imdb", "--json"]);
    assert_eq!((&lstm["posterior"], &lstm["total"]), (&"mean-field".into(), &2_822_656.into()));
    assert_eq!(lstm["with_head"], 2_822_656 + 257);
}

#[test]
fn params_takes_other_sizes_and_another_posterior_for_the_convolutions() {
    let lenet = |set: &[&str]| {
        let args = ["params", "--preset", "lenet-cifar100", "--posterior", "k-tied:2", "--json"];
        json(&[&args[..], set].concat())["total"].as_u64().expect("a number")
    };
    assert_eq!(lenet(&["--set", "model.kernel=3"]), 2_198_800);
    // 5×5 kernels 75×32 and 800×64: tied, each has K(M + N) scales instead of M·N.
    let saved = (75 * 32 - 2 * (75 + 32)) + (800 * 64 - 2 * (800 + 64));
    assert_eq!(lenet(&["--set", "posterior.conv=k-tied:2"]), 2_267_408 - saved);
}

#[test]
fn params_prints_a_table_with_the_head_only_where_it_differs() {
    let text = |preset| String::from_utf8(ktied(&["params", "--preset", preset]).stdout).expect("text");
    let (lstm, mlp) = (text("lstm-imdb"), text("mlp-digits"));
    assert!(lstm.contains("20000×128") && lstm.contains("2,822,656") && lstm.contains("2,822,913"), "{lstm}");
    assert!(lstm.contains("with head") && !mlp.contains("with head"), "{mlp}");
}

#[test]
fn params_refuses_what_makes_no_network_with_2_and_says_what_would() {
    let mnist = ["params", "--preset", "mlp-mnist"];
    let lenet = ["params", "--preset", "lenet-cifar100"];
    for (args, more, parts) in [
        (&mnist[..], &["--posterior", "k-tied:0"][..], &["`dense_1.kernel` is 784×400", "1 to 400, got 0"][..]),
        (&mnist, &["--posterior", "k-tied:11"], &["`dense_3.kernel` is 400×10", "1 to 10, got 11"]),
        (&mnist, &["--posterior", "k-tied"], &["posterior `k-tied` is unknown", "k-tied:2"]),
        (&mnist, &["--set", "posterior.conv=mean-field"], &["posterior.conv", "no convolutions"]),
        (&mnist, &["--set", "model.sizes=9223372036854775807,9"], &["`dense_1.kernel` is too large"]),
        (&["params", "--preset", "mlp-minst"], &[], &["did you mean `mlp-mnist`?", "resnet18-cifar10"]),
        (&lenet, &["--set", "model.kernal=3"], &["there is no key `model.kernal`", "did you mean `model.kernel`?"]),
        (
            &lenet,
            &["--set", "model.kernel=big"],
            &["--set model.kernel=big", "invalid type: string \"big\", expected usize"],
        ),
        (&lenet, &["--set", "model.kernel=0"], &["model.kernel must be at least 1, got 0"]),
        (&lenet, &["--set", "model.filters=1,2,3"], &["model.filters=1,2,3", "2"]),
        (&lenet, &["--set", "posterior.conv=tied"], &["posterior.conv=tied", "posterior `tied` is unknown"]),
    ] {
        let output = ktied(&[args, more].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?} {more:?}: {message}");
        assert!(output.stdout.is_empty() && parts.iter().all(|part| message.contains(part)), "{more:?}: {message}");
    }
}

#[test]
fn bench_kernels_reports_every_kernel_beside_the_peak() {
    let report = json(&["bench", "kernels", "--filter", "784x400", "--millis", "1", "--json"]);
    let rows = report["kernels"].as_array().expect("rows");
    assert!(rows.len() >= 8, "{report}");
    for row in rows {
        let rate = row["gflop_per_s"].as_f64().or(row["gb_per_s"].as_f64()).expect("a rate");
        assert!(rate > 0.0 && row["median_ms"].as_f64() > Some(0.0), "{row}");
    }
    assert!(report["peak_gflop_per_s"].as_f64() > Some(1.0));
}

#[test]
fn bench_step_times_every_model() {
    for (model, posterior, estimator) in [
        ("mlp", "k-tied:2", "local"),
        ("lenet", "mean-field", "reparam"),
        ("lstm", "k-tied:2", "flipout"),
        ("resnet18", "point", "reparam"),
    ] {
        let args = ["bench", "step", "--model", model, "--posterior", posterior, "--estimator", estimator];
        let report = json(&[&args[..], &["--batch", "4", "--steps", "2", "--json"]].concat());
        assert_eq!((report["model"].as_str(), report["batch"].as_u64()), (Some(model), Some(4)), "{report}");
        let (median, least) = (report["median_ms"].as_f64().expect("ms"), report["min_ms"].as_f64().expect("ms"));
        assert!(least > 0.0 && median >= least && report["loss"].as_f64().is_some_and(f64::is_finite), "{report}");
    }
}

#[test]
fn a_reader_who_leaves_is_not_a_panic() {
    use std::process::Stdio;
    let mut child = program()
        .args(["params", "--preset", "mlp-mnist"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{message}");
    assert!(message.contains("cannot write to standard output") && !message.contains("panicked"), "{message}");
}

#[test]
fn bench_io_times_a_checkpoint_and_leaves_nothing_behind() {
    let folder = std::env::temp_dir().join(format!("ktied-bench-io-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.to_str().unwrap();
    let report = json(&["bench", "io", "--model", "mlp", "--steps", "2", "--out", out, "--json"]);
    // Two files of 956,820 parameters: the weights, and two moments of each.
    let size = report["checkpoint_mb"].as_f64().unwrap();
    assert!((11.4..13.0).contains(&size), "{report}");
    assert!(report["save_ms"].as_f64().unwrap() > 0.0 && report["disk_ms"].as_f64().unwrap() > 0.0, "{report}");
    assert!((0.0..=1.0).contains(&report["waiting_frac"].as_f64().unwrap()), "{report}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the checkpoint is gone");
    std::fs::remove_dir(&folder).unwrap();
    let args = ["bench", "io", "--model", "mlp", "--data", "/no/such/folder", "--json"];
    let output = program().args(args).env_remove("KTIED_DATA").output().expect("the program starts");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn bench_predict_prints_its_fields_and_the_same_uncertainties_on_any_number_of_threads() {
    let run = |threads| {
        let args = ["bench", "predict", "--samples", "3", "--examples", "1003", "--repeats", "2", "--threads", threads];
        json(&[&args[..], &["--json"]].concat())
    };
    let [one, two] = ["1", "2"].map(run);
    for (key, value) in [("posterior", "k-tied:2"), ("model", "mlp")] {
        assert_eq!(one[key], value);
    }
    assert_eq!((one["samples"].as_u64(), one["examples"].as_u64()), (Some(3), Some(1003)));
    assert!(one["median_ms"].as_f64() >= one["min_ms"].as_f64() && one["min_ms"].as_f64() > Some(0.0));
    for key in ["entropy", "mutual_information"] {
        assert!(one[key].as_f64() > Some(0.0));
        assert_eq!(one[key], two[key], "{key}");
    }
}

#[test]
fn bench_step_takes_sizes_of_the_mlp_alone() {
    let args = ["bench", "step", "--model", "mlp", "--sizes", "20,30,4", "--batch", "8", "--steps", "1", "--json"];
    assert_eq!(json(&args)["batch"], 8);
    let output = ktied(&["bench", "step", "--model", "lenet", "--sizes", "20,30"]);
    assert_eq!(output.status.code(), Some(2));
    let sentence = "--sizes are those of the model mlp, not of lenet";
    assert!(String::from_utf8_lossy(&output.stderr).contains(sentence), "{output:?}");
}
