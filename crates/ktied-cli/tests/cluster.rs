//! The real program under `mpirun`: the same run as one process, the same digits, and nothing lost when one of them dies.
//!
//! Built only with the feature `mpi`: `cargo test --workspace --features ktied-cli/mpi --test cluster`. With `KTIED_HOSTS`, a list for
//! `mpirun --host`, the processes are on those hosts.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Folder, ktied, ok};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ktied");

/// So many processes on this machine, however many cores it has.
fn mpirun(ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
    if let Ok(hosts) = std::env::var("KTIED_HOSTS") {
        command.args(["--host", &hosts]);
    }
    // In a container one is root; more ranks than cores must not wait by spinning.
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ] {
        command.env(name, value);
    }
    command.env_remove("KTIED_DATA");
    command
}

fn together(ranks: usize, args: &[&str]) -> Output {
    mpirun(ranks).arg(PROGRAM).args(args).args(["--threads", "1"]).output().expect("mpirun starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ok_together(ranks: usize, args: &[&str]) -> String {
    let output = together(ranks, args);
    assert!(output.status.success(), "{ranks} × {args:?}: {}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// A small run on the embedded digits. A batch of 250 divides by neither 3 nor the 1,400 examples.
fn training<'a>(out: &'a str, settings: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--preset", "mlp-digits", "--posterior", "k-tied:2", "--out", out];
    let common = ["model.sizes=64,24,10", "train.steps=100", "train.batch=250", "train.log_every=1"];
    common.iter().chain(settings).for_each(|setting| args.extend(["--set", *setting]));
    args
}

fn events(run: &str, kind: &str) -> Vec<Value> {
    let log = fs::read_to_string(Path::new(run).join("events.jsonl")).expect("a log");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|event| event["event"] == kind).collect()
}

fn losses(run: &str) -> Vec<f64> {
    events(run, "train").iter().map(|event| event["neg_elbo"].as_f64().expect("a number")).collect()
}

fn assert_same_losses(run: &str, one: &str, what: &str) {
    let (ours, one) = (losses(run), losses(one));
    assert_eq!(ours.len(), one.len(), "{what}");
    for (step, (ours, one)) in ours.iter().zip(&one).enumerate() {
        assert!((ours - one).abs() <= 1e-5 * one.abs(), "{what}, step {}: {ours} against {one}", step + 1);
    }
}

#[test]
fn a_hundred_steps_of_two_and_three_ranks_are_those_of_one_process() {
    let folder = Folder::new("ranks");
    for estimator in ["estimator.kind=reparam", "estimator.kind=local", "estimator.kind=flipout"] {
        let one = folder.join(&format!("{estimator}-1"));
        ok(&training(&one, &[estimator, "train.validate_every=5"]));
        for ranks in [2, 3] {
            let run = folder.join(&format!("{estimator}-{ranks}"));
            ok_together(ranks, &training(&run, &[estimator, "train.validate_every=5"]));
            assert_same_losses(&run, &one, &format!("{estimator}, {ranks} ranks"));
            assert_eq!(events(&run, "validation").len(), events(&one, "validation").len());
            let sent = events(&run, "train")[0]["sent_bytes"].as_u64().expect("bytes of a step");
            let numbers = (64 * 24 + 24 * 10) + 2 * (64 + 24 + 24 + 10) + 2 * (24 + 10);
            let expected = 2 * 4 * numbers as u64 * (ranks as u64 - 1) / ranks as u64;
            assert!(sent.abs_diff(expected) <= 8 * ranks as u64, "{sent} bytes, about {expected} expected");
        }
        assert!(events(&one, "train")[0].get("sent_bytes").is_none(), "one process sends nothing");
    }
}

#[test]
fn evaluations_and_predictions_are_those_of_one_process_digit_for_digit() {
    let folder = Folder::new("judge");
    let (run, inputs) = (folder.join("run"), folder.join("x.csv"));
    ok(&training(&run, &[]));
    // More than one batch for each rank, and of another number than there are ranks.
    let heading = (0..64).map(|pixel| format!("p{pixel}")).collect::<Vec<_>>().join(",");
    let rows = (0..7100).map(|row| (0..64).map(|i| ((row * 7 + i * 3) % 17).to_string()).collect::<Vec<_>>().join(","));
    fs::write(&inputs, format!("{heading}\n{}\n", rows.collect::<Vec<_>>().join("\n"))).expect("a table");
    let evaluate = ["evaluate", &run, "--split", "train", "--samples", "7", "--json"];
    let one = ok(&evaluate);
    let predict = |ranks: usize, form: &str| {
        let out = folder.join(&format!("{ranks}.{form}"));
        let args = ["predict", &run, "--input", &inputs, "--samples", "3", "--out", &out];
        if ranks == 1 {
            ok(&args)
        } else {
            ok_together(ranks, &args)
        };
        fs::read(out).expect("predictions")
    };
    let (table, lines) = (predict(1, "csv"), predict(1, "jsonl"));
    assert_eq!(String::from_utf8_lossy(&table).lines().count(), 7101);
    for ranks in [2, 3] {
        assert_eq!(ok_together(ranks, &evaluate), one, "{ranks} ranks");
        assert!(predict(ranks, "csv") == table && predict(ranks, "jsonl") == lines, "{ranks} ranks");
    }
}

#[test]
fn steps_are_timed_and_weighed_and_a_larger_cluster_is_predicted() {
    let read = |text: String| serde_json::from_str::<Value>(&text).expect("one JSON document");
    let number = |value: &Value| value.as_f64().expect("a number");
    let work = ["--model", "mlp", "--batch", "16", "--steps", "2", "--json"];
    let (mean_field, tied) = (956_820.0, 484_008.0);
    for (ranks, posterior, numbers) in [(2, "mean-field", mean_field), (3, "k-tied:2", tied)] {
        let args = [&["bench", "ranks", "--posterior", posterior][..], &work].concat();
        let (one, all) = (read(ok(&args)), read(ok_together(ranks, &args)));
        let of = ranks as f64;
        assert_eq!((one["processes"].as_u64(), one["sent_bytes"].as_u64()), (Some(1), Some(0)));
        assert_eq!(all["processes"].as_u64(), Some(ranks as u64));
        let expected = 2.0 * (of - 1.0) / of * 4.0 * numbers;
        assert!((number(&all["sent_bytes"]) - expected).abs() <= 8.0 * of, "{all}: about {expected}");
        assert!(number(&all["messages_ms"]) > 0.0 && number(&all["messages_ms"]) < number(&all["median_ms"]), "{all}");
    }
    let report = read(ok_together(2, &[&["bench", "scale"][..], &work].concat()));
    for (scaled, numbers) in report["posteriors"].as_array().expect("posteriors").iter().zip([mean_field, tied]) {
        assert_eq!(number(&scaled["gradient_bytes"]), 4.0 * numbers);
        assert!(number(&scaled["measured_ms"]) > 0.0 && number(&scaled["predicted_ms"]) > 0.0, "{scaled}");
        let clusters = scaled["clusters"].as_array().expect("clusters");
        let processes: Vec<u64> = clusters.iter().filter_map(|cluster| cluster["processes"].as_u64()).collect();
        assert_eq!(processes, [1, 2, 4, 8, 16], "no more than there are examples");
        for cluster in clusters {
            let step = |network: usize| number(&cluster["networks"][network]["step_ms"]);
            assert!(number(&cluster["compute_ms"]) <= step(1) && step(1) <= step(0), "{cluster}");
        }
    }
    let (code, said) = support::code(&["bench", "scale", "--model", "mlp"]);
    assert!(code == Some(2) && said.contains("mpirun -n 2 ktied bench scale"), "{said}");
}

#[test]
fn a_run_goes_on_with_any_number_of_ranks() {
    let folder = Folder::new("any");
    let (one, run) = (folder.join("one"), folder.join("run"));
    ok(&training(&one, &[]));
    ok_together(2, &training(&run, &["train.steps=30"]));
    let resumed = |steps: &'static str| [training(&run, &[]), vec!["--set", steps, "--resume"]].concat();
    ok_together(3, &resumed("train.steps=70"));
    ok(&resumed("train.steps=100"));
    assert_same_losses(&run, &one, "two ranks, three, one");
}

/// The processes of a run, by its folder, which no other test has: rank and number of process.
fn ranks_of(folder: &str) -> Vec<(usize, u32)> {
    let mut found = vec![];
    for entry in fs::read_dir("/proc").expect("processes").flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).into_owned();
        if !line.starts_with(PROGRAM) || !line.contains(folder) {
            continue;
        }
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        let rank = environment.split('\0').find_map(|pair| pair.strip_prefix("OMPI_COMM_WORLD_RANK=")?.parse().ok());
        found.extend(rank.map(|rank| (rank, process)));
    }
    found.sort_unstable();
    found
}

/// Starts a long run and waits until it has a checkpoint.
fn begun(ranks: usize, run: &str) -> std::process::Child {
    let mut command = mpirun(ranks);
    command.arg(PROGRAM).args(training(run, &["train.steps=1000000", "train.checkpoint_steps=20"]));
    let child = command.args(["--threads", "1"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("mpirun");
    let begin = Instant::now();
    while !Path::new(run).join("checkpoints/step-00000020").is_dir() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no checkpoint within a minute");
        sleep(Duration::from_millis(20));
    }
    child
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn a_killed_rank_stops_the_others_and_the_run_goes_on_afterwards() {
    let folder = Folder::new("killed");
    for victim in [1, 0] {
        let run = folder.join(&format!("victim-{victim}"));
        let child = begun(3, &run);
        let ranks = ranks_of(&run);
        assert_eq!(ranks.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 1, 2]);
        signal(ranks[victim].1, "KILL");
        let begin = Instant::now();
        let output = child.wait_with_output().expect("mpirun ends");
        assert!(begin.elapsed() < Duration::from_secs(10), "took {:?}", begin.elapsed());
        assert!(!output.status.success());
        // Open MPI's own sentence.
        let said = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&format!("process rank {victim}")), "{said}");
        let begin = Instant::now();
        while !ranks_of(&run).is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(10), "others are still there");
            sleep(Duration::from_millis(20));
        }
        let step = ok(&["inspect", &run, "--json"]);
        let step = serde_json::from_str::<Value>(&step).expect("JSON")["step"].as_u64().expect("a step") + 5;
        let steps = format!("train.steps={step}");
        ok_together(2, &[training(&run, &["train.checkpoint_steps=20"]), vec!["--set", &steps, "--resume"]].concat());
    }
}

#[test]
fn a_signal_to_the_launcher_saves_the_run() {
    let folder = Folder::new("signal");
    let run = folder.join("run");
    let child = begun(2, &run);
    signal(child.id(), "USR1");
    let output = child.wait_with_output().expect("mpirun ends");
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert_eq!(said(&output).matches("interrupted; everything up to now is in").count(), 1, "{}", said(&output));
    let last = events(&run, "train").last().expect("steps")["step"].clone();
    let saved = events(&run, "checkpoint").last().expect("a checkpoint")["step"].clone();
    assert_eq!(saved, last, "saved at the step at which it stopped");
}

#[test]
fn ranks_that_are_not_the_same_are_refused_with_all_differences() {
    let folder = Folder::new("differences");
    let (one, other) = (folder.join("run"), folder.join("run"));
    let (first, second) = (training(&one, &[]), training(&other, &["train.seed=3", "optim.lr=0.02"]));
    let output = mpirun(1)
        .arg(PROGRAM)
        .args(&first)
        .args([":", "-n", "1", "--oversubscribe", PROGRAM])
        .args(&second)
        .output()
        .expect("mpirun starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for line in ["rank 1 does not have what rank 0 has:", "train.seed: rank 0 has 0, got 3", "optim.lr: rank 0 has"] {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
    assert!(!Path::new(&one).exists(), "nothing was begun");
}

#[test]
fn ranks_that_would_judge_something_else_are_refused() {
    let folder = Folder::new("judges");
    let runs = [folder.join("one"), folder.join("other")];
    ok(&training(&runs[0], &["train.steps=3"]));
    ok(&training(&runs[1], &["train.steps=4"]));
    let output = mpirun(1)
        .args([PROGRAM, "evaluate", &runs[0], "--samples", "7"])
        .args([":", "-n", "1", "--oversubscribe", PROGRAM, "evaluate", &runs[1], "--samples", "8"])
        .output()
        .expect("mpirun starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for line in
        ["rank 1 does not have what rank 0 has:", "--samples: rank 0 has 7, got 8", "weights of run 1: rank 0 has"]
    {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
}

#[test]
fn what_is_wrong_is_said_once() {
    let folder = Folder::new("wrong");
    let run = folder.join("run");
    let refused = |args: &[&str], code: i32, sentence: &str| {
        let output = together(3, args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert_eq!(said(&output).matches(sentence).count(), 1, "{args:?}: {}", said(&output));
        assert!(!said(&output).contains("panicked"));
    };
    refused(&["demo"], 2, "only train, evaluate and predict run in several processes, found 3");
    refused(&training(&run, &["optim.lr=-1"]), 2, "optim.lr");
    let nowhere = folder.join("nowhere");
    refused(&["evaluate", &nowhere], 2, "nowhere");
    ok(&training(&run, &["train.steps=3"]));
    refused(&training(&run, &[]), 2, "is not empty");
    // Training diverges in all of them at the same step.
    let diverged = folder.join("diverged");
    refused(&training(&diverged, &["optim.lr=1e30", "optim.scale_lr=1e30"]), 5, "is not a finite number in step 2");
    let resnet = ["train", "--preset", "resnet18-cifar10", "--out", &diverged];
    assert_eq!(together(2, &resnet).status.code(), Some(3), "data are missing, which rank 0 alone sees first");
}

#[test]
fn a_full_disk_stops_all_ranks_with_a_sentence() {
    let folder = Folder::new("disk");
    let (disk, run) = (folder.join("disk"), folder.join("disk/run"));
    fs::create_dir(&disk).expect("a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "tmpfs", &disk]).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: a full disk of rank 0 needs the right to mount one");
        return;
    }
    let settings = ["train.checkpoint_steps=1", "train.keep=1000", "train.steps=100000"];
    let output = together(3, &training(&run, &settings));
    let steps = fs::read_dir(Path::new(&run).join("checkpoints")).map_or(0, |entries| entries.flatten().count());
    let inspected = ktied(&["inspect", &run, "--json"]);
    let _ = Command::new("umount").arg(&disk).status();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert_eq!(said(&output).matches("No space left on device").count(), 1, "{}", said(&output));
    assert!(steps > 1 && inspected.status.success(), "the last checkpoint is good: {}", said(&inspected));
}
