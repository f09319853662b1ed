//! The real program: its output, its exit codes, and the same bits on any number of threads.

use std::process::{Command, Output};

use serde_json::Value;

fn ktied(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ktied")).args(args).output().expect("the program starts")
}

fn json(args: &[&str]) -> Value {
    let output = ktied(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn without_time(mut report: Value) -> Value {
    report.as_object_mut().expect("an object").remove("seconds");
    report
}

#[test]
fn the_demo_learns_the_digits() {
    let report = json(&["demo", "--epochs", "20", "--json"]);
    let accuracy = report["test"]["accuracy"].as_f64().expect("a number");
    // 20 epochs gave 0.95 and above for seeds 1 to 5; a network that does not learn stays near 0.1.
    assert!(accuracy > 0.9, "{report}");
    assert_eq!(report["test"]["images"], 397);
    assert_eq!(report["parameters"], 64 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10);
}

#[test]
fn the_demo_has_the_same_bits_on_any_number_of_threads_and_other_bits_with_another_seed() {
    let run = |threads: &str, seed: &str| {
        without_time(json(&["demo", "--epochs", "3", "--json", "--threads", threads, "--seed", seed]))
    };
    let one = run("1", "1");
    assert_eq!(one, run("2", "1"));
    assert_eq!(one, run("4", "1"));
    assert_ne!(one["test"]["nll"], run("1", "2")["test"]["nll"]);
}

#[test]
fn the_demo_speaks_plainly_and_keeps_standard_error_quiet_when_nobody_watches() {
    let output = ktied(&["demo", "--epochs", "1"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("accuracy") && text.contains("8970 parameters"), "{text}");
}

#[test]
fn wrong_arguments_end_with_2_and_one_sentence() {
    for args in [&["demo", "--epochs", "0"][..], &["demo", "--threads", "0"], &["nonsense"], &[]] {
        assert_eq!(ktied(args).status.code(), Some(2), "{args:?}");
    }
    let output = ktied(&["bench", "kernels", "--filter", "no such kernel"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("no kernel's name contains `no such kernel`"), "{message}");
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
fn a_reader_who_leaves_is_not_a_panic() {
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_ktied"))
        .args(["demo", "--epochs", "1"])
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
