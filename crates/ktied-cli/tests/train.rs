//! Runs of the real program: interrupted, killed, resumed, refused.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Folder, code, command, json, ok};

/// A run on the digits that saves every few steps.
fn digits<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let base = [
        "train",
        "--preset",
        "mlp-digits",
        "--posterior",
        "k-tied:2",
        "--quiet",
        "--set",
        "train.steps=400",
        "--set",
        "train.checkpoint_steps=7",
        "--set",
        "train.log_every=10",
        "--out",
        out,
    ];
    [&base, more].concat()
}

fn digest(run: &str) -> Value {
    json(&["inspect", run])["digest"].clone()
}

fn spawn(args: &[&str]) -> Child {
    command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
}

#[test]
fn a_run_killed_at_ten_random_moments_and_resumed_equals_the_unbroken_one() {
    let folder = Folder::new("killed");
    let (whole, broken) = (folder.join("whole"), folder.join("broken"));
    ok(&digits(&whole, &[]));
    // Moments from the clock: wherever they fall, the end must be the same.
    let mut random = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos() as u64;
    for _ in 0..10 {
        let mut child = spawn(&digits(&broken, &["--resume"]));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sleep(Duration::from_millis(20 + (random >> 33) % 400));
        child.kill().expect("SIGKILL");
        child.wait().expect("it is gone");
    }
    ok(&digits(&broken, &["--resume"]));
    assert_eq!(digest(&broken), digest(&whole));
    let config = |run: &str| std::fs::read_to_string(Path::new(run).join("config.toml")).expect("config.toml");
    assert_eq!(config(&broken), config(&whole));
    let steps = |run: &str| {
        let text = std::fs::read_to_string(Path::new(run).join("events.jsonl")).expect("events");
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("whole lines"));
        events.filter(|e| e["event"] == "train").map(|e| (e["step"].clone(), e["nll"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(steps(&broken), steps(&whole));
}

/// The newest checkpoint's step, good or not; 0 if there is none.
#[cfg(unix)]
fn newest_step(run: &str) -> u64 {
    let entries = std::fs::read_dir(Path::new(run).join("checkpoints")).into_iter().flatten().flatten();
    let steps = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok());
    steps.max().unwrap_or(0)
}

#[cfg(unix)]
#[test]
fn a_signal_saves_and_exits_130_and_the_run_goes_on() {
    let folder = Folder::new("signal");
    let (whole, broken) = (folder.join("whole"), folder.join("broken"));
    for signal in ["INT", "TERM"] {
        let before = newest_step(&broken);
        let mut child = spawn(&digits(&broken, &["--resume", "--set", "train.steps=10000000"]));
        let begin = Instant::now();
        while newest_step(&broken) < before + 7 {
            assert!(begin.elapsed() < Duration::from_secs(120), "it does not get on");
            sleep(Duration::from_millis(5));
        }
        let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "SIG{signal}");
    }
    let steps = format!("train.steps={}", newest_step(&broken) + 20);
    ok(&digits(&whole, &["--set", &steps]));
    let report = json(&digits(&broken, &["--set", &steps, "--resume"]));
    assert_eq!(report["finished"].as_bool(), Some(true));
    assert_eq!(digest(&broken), digest(&whole));
    // Finished: nothing to do, and no error.
    assert_eq!(json(&digits(&broken, &["--set", &steps, "--resume"])), report);
}

#[test]
fn a_run_that_begins_with_another_s_weights_keeps_them_when_it_is_resumed() {
    let folder = Folder::new("init-from");
    let [point, once, twice] = ["point", "once", "twice"].map(|name| folder.join(name));
    ok(&digits(&point, &["--set", "posterior.kind=point", "--set", "train.steps=30"]));
    let begin = ["--init-from", &point, "--set", "train.checkpoint_steps=none"];
    ok(&digits(&once, &[&begin[..], &["--set", "train.steps=12"]].concat()));
    // Nothing but the beginning, as if it had been killed before its first step; then on.
    ok(&digits(&twice, &[&begin[..], &["--set", "train.steps=0"]].concat()));
    ok(&digits(&twice, &["--set", "train.checkpoint_steps=none", "--set", "train.steps=12", "--resume"]));
    assert_eq!(digest(&once), digest(&twice));
    let fresh = folder.join("fresh");
    ok(&digits(&fresh, &["--set", "train.steps=12"]));
    assert_ne!(digest(&once), digest(&fresh));
}

#[test]
fn training_has_the_same_bits_on_any_number_of_threads() {
    let folder = Folder::new("threads");
    let digests = ["1", "2", "4"].map(|threads| {
        let run = folder.join(threads);
        ok(&digits(&run, &["--set", "train.steps=30", "--threads", threads]));
        digest(&run)
    });
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let folder = Folder::new("several");
    let (run, file) = (folder.join("run"), folder.join("bad.toml"));
    let refused = |args: &[&str], sentences: &[&str]| {
        let (found, message) = code(args);
        assert_eq!(found, Some(2), "{message}");
        for sentence in sentences {
            assert!(message.contains(sentence), "{sentence}: {message}");
        }
    };
    // Names and values of a file and of --set.
    std::fs::write(&file, "[train]\nepoch = 3\nbatch = 'many'\n[optim]\nlr = 1e-3\n").expect("a file");
    let args = ["train", "--preset", "mlp-digits", "--config", &file, "--out", &run];
    let set = ["--set", "modl.kind:3", "--set", "data.length:-1"].map(|text| text.replace(':', "="));
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let (found, message) = code(&[&args[..], &set].concat());
    assert_eq!(found, Some(2), "{message}");
    for part in
        ["bad.toml: there is no key `train.epoch`", "bad.toml: train.batch: ", "no key `modl.kind`", "data.length=-1"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    // Values that no run can have.
    std::fs::write(
        &file,
        "[train]\nbatch = 0\n[optim]\nlr = -1.0\ndrop_after = 1.5\n[posterior]\nkind = 'k-tied:99'\n",
    )
    .expect("a file");
    refused(
        &args,
        &[
            "4 things are wrong:",
            "rank must be 1 to 64, got 99",
            "optim.lr must be a positive finite number, got -1",
            "optim.drop_after must be between 0 and 1, got 1.5",
            "train.batch must be at least 1, got 0",
        ],
    );
    assert!(!Path::new(&run).exists(), "nothing is made before everything is checked");
    // What no network and no data set can have together, with the rest.
    std::fs::write(&file, "[train]\nepochs = 0\nbatch = 5000\n[optim]\nlr = -1.0\n[model]\nsizes = [784, 4, 9]\n")
        .expect("one");
    let file_args = ["train", "--preset", "mlp-digits", "--set", "train.steps=none", "--config", &file, "--out", &run];
    refused(
        &file_args,
        &[
            "5 things are wrong:",
            "optim.lr must be a positive finite number, got -1",
            "train.epochs must be at least 1, got 0",
            "the first of model.sizes must be 64 for the data set `digits`, got 784",
            "the number of the model's outputs must be 10 for the data set `digits`, got 9",
            "train.batch must be at most 1400, all training examples of the data set `digits`, got 5000",
        ],
    );
    // A preset for other data.
    let preset =
        ["train", "--preset", "lstm-imdb", "--set", "data.set=digits", "--set", "train.batch=0", "--out", &run];
    refused(
        &preset,
        &[
            "3 things are wrong:",
            "train.batch must be at least 1, got 0",
            "the model `lstm` does not fit",
            "outputs must be",
        ],
    );
    // Data that are not there are told with the rest.
    let absent =
        ["train", "--preset", "mlp-digits", "--set", "data.set=absent.csv", "--set", "optim.lr=-1", "--out", &run];
    refused(&absent, &["optim.lr must be a positive finite number, got -1", "absent.csv"]);
    assert!(!Path::new(&run).exists(), "nothing is made before everything is checked");
    // What a run cannot change.
    ok(&digits(&run, &["--set", "train.steps=2"]));
    let (found, message) = code(&digits(&run, &["--resume", "--set", "optim.lr=0.5", "--set", "prior.scale=0.7"]));
    assert_eq!(found, Some(2), "{message}");
    assert!(message.contains("optim.lr: the run in ") && message.contains("prior.scale: the run in "), "{message}");
}

#[test]
fn every_way_to_fail_has_its_exit_code_and_its_sentence() {
    let folder = Folder::new("codes");
    let run = folder.join("run");
    let short = ["--set", "train.steps=12"];
    ok(&digits(&run, &short));
    let expect = |args: &[&str], expected: i32, part: &str| {
        let (found, message) = code(args);
        assert_eq!(found, Some(expected), "{args:?}: {message}");
        assert!(message.contains(part), "{args:?}: {message}");
    };
    // 2: usage and configuration.
    expect(&digits(&run, &short), 2, "is not empty: choose another folder, or go on with --resume");
    expect(&["train", "--out", &folder.join("new")], 2, "say what to train: --preset P");
    expect(
        &digits(&folder.join("new"), &["--set", "optim.lr=-1"]),
        2,
        "optim.lr must be a positive finite number, got -1",
    );
    expect(
        &digits(&folder.join("new"), &["--set", "optim.rl=1"]),
        2,
        "there is no key `optim.rl`; did you mean `optim.lr`?",
    );
    expect(
        &digits(&folder.join("new"), &["--set", "model.sizes=64,9"]),
        2,
        "outputs must be 10 for the data set `digits`, got 9",
    );
    expect(&digits(&run, &["--resume", "--set", "optim.lr=0.1"]), 2, "optim.lr: the run in ");
    expect(&["evaluate", &folder.join("nowhere")], 2, "is not a run: it has no config.toml");
    expect(&["evaluate", &run, "--split", "validation"], 2, "has no validation examples");
    let file = folder.join("bad.toml");
    std::fs::write(&file, "[train]\nepoch = 3\n").expect("a file");
    expect(
        &["train", "--config", &file, "--out", &folder.join("new")],
        2,
        "bad.toml: there is no key `train.epoch`; did you mean `train.epochs`?",
    );
    assert!(!Path::new(&folder.join("new")).exists(), "nothing is made before everything is checked");
    // 3: data.
    let no_data = ["train", "--preset", "mlp-mnist", "--data", &folder.join("empty"), "--out", &folder.join("new")];
    let output =
        command(&no_data).env("XDG_CACHE_HOME", folder.join("cache")).env("HOME", folder.join("home")).output();
    let output = output.expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("ktied data get mnist"), "{message}");
    // 4: checkpoints.
    let weights = Path::new(&run).join("checkpoints/step-00000012/weights.safetensors");
    let good = std::fs::read(&weights).expect("weights");
    let mut bad = good.clone();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    std::fs::write(&weights, &bad).expect("a damaged file");
    let report = json(&["inspect", &run]);
    assert_eq!(report["step"], 7, "the one before is used");
    expect(&["inspect", &format!("{run}/checkpoints/step-00000012")], 4, "weights.safetensors");
    let file = format!("{run}/checkpoints/step-00000007/manifest.json");
    assert_eq!(json(&["inspect", &file])["step"], 7);
    std::fs::remove_dir_all(Path::new(&run).join("checkpoints/step-00000007")).expect("gone");
    expect(&["evaluate", &run], 4, "has no good checkpoint");
    std::fs::write(&weights, &good).expect("the file as it was");
    ok(&["evaluate", &run, "--samples", "2"]);
    // 5: diverged.
    let wild = ["--set", "optim.lr=1e30", "--set", "optim.scale_lr=1e30"];
    expect(&digits(&folder.join("wild"), &wild), 5, "training diverged: the ");
    // 6: input and output.
    let blocked = folder.join("file");
    std::fs::write(&blocked, "in the way").expect("a file");
    expect(&digits(&format!("{blocked}/run"), &[]), 6, "file");
}

#[test]
fn a_file_a_preset_and_flags_are_one_configuration() {
    let folder = Folder::new("config");
    let (file, run) = (folder.join("my.toml"), folder.join("run"));
    std::fs::write(&file, "preset = \"mlp-digits\"\n[posterior]\nkind = \"k-tied:3\"\n[train]\nsteps = 5\nseed = 9\n")
        .expect("a file");
    ok(&["train", "--config", &file, "--seed", "4", "--set", "optim.lr=1e-3", "--out", &run]);
    let config = std::fs::read_to_string(Path::new(&run).join("config.toml")).expect("config.toml");
    for line in ["kind = \"k-tied:3\"", "steps = 5", "seed = 4", "lr = 0.001", "set = \"digits\""] {
        assert!(config.lines().any(|found| found == line), "{line} in\n{config}");
    }
    let evaluation = json(&["evaluate", &run, "--samples", "3"]);
    for metric in ["neg_elbo", "nll", "accuracy", "brier", "ece"] {
        assert!(evaluation[metric]["value"].is_f64() && evaluation[metric]["sem_examples"].is_f64(), "{metric}");
    }
    assert_eq!((evaluation["samples"].as_u64(), evaluation["examples"].as_u64()), (Some(3), Some(397)));
    assert!(Path::new(&run).join("evaluation/test.json").is_file());
}

#[test]
fn a_run_finds_its_data_again_from_another_folder() {
    let folder = Folder::new("elsewhere");
    let rows: Vec<String> = (0..40).map(|i| format!("{},{}", i % 7, u8::from(i % 7 > 3))).collect();
    std::fs::write(folder.join("table.csv"), format!("a,label\n{}\n", rows.join("\n"))).expect("a table");
    let args = ["train", "--preset", "mlp-digits", "--set", "data.set=table.csv", "--set", "model.sizes=1,3,2"];
    let args = [&args[..], &["--set", "train.steps=3", "--set", "train.batch=16", "--out", "run"]].concat();
    let trained = command(&args).current_dir(&folder.0).output().expect("the program starts");
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
    let run = folder.join("run");
    assert_eq!(json(&["evaluate", &run, "--samples", "2"])["examples"], 4);
}

#[test]
fn a_sweep_trains_every_cell_chooses_on_validation_and_goes_on_where_it_was() {
    let folder = Folder::new("sweep");
    let table = folder.join("table.csv");
    let rows: Vec<String> = (0..60).map(|i| format!("{},{},{}", i % 7, (i * 3) % 5, u8::from(i % 7 > 3))).collect();
    std::fs::write(&table, format!("a,b,label\n{}\n", rows.join("\n"))).expect("a table");
    let out = folder.join("sweep");
    let set = format!("data.set={table}");
    let args = [
        "sweep",
        "--preset",
        "mlp-digits",
        "--set",
        &set,
        "--set",
        "model.sizes=2,4,2",
        "--set",
        "train.validate_every=1",
        "--set",
        "train.batch=16",
        "--grid",
        "optim.lr=1e-3,1e-2",
        "--grid",
        "posterior.kind=mean-field,k-tied:2",
        "--budget-epochs",
        "2",
        "--quiet",
        "--out",
        &out,
    ];
    let report = json(&args);
    let cells = report["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4);
    let scores: Vec<f64> = cells.iter().map(|cell| cell["neg_elbo"].as_f64().expect("a score")).collect();
    assert!(scores.is_sorted(), "{scores:?}");
    assert_eq!(report["best"], cells[0]["run"]);
    let best = Path::new(report["best"].as_str().expect("a path")).join("events.jsonl");
    let events = std::fs::read(&best).expect("events");
    assert_eq!(json(&args), report, "a finished sweep is found finished");
    assert_eq!(std::fs::read(&best).expect("events"), events, "and left as it was");
    assert!(Path::new(&out).join("sweep.json").is_file());
    let (found, message) = code(&[&args[..], &["--set", "prior.scale=0.7"]].concat());
    assert_eq!(found, Some(2), "{message}");
}

#[test]
fn help_has_every_key_and_completions_know_the_commands() {
    let help = ok(&["train", "--help"]);
    for key in ktied::config::KEYS {
        assert!(help.contains(key.name), "{}", key.name);
    }
    for command in ["demo", "train", "evaluate", "inspect", "sweep", "params", "data", "bench"] {
        let help = ok(&[command, "--help"]);
        assert!(command == "data" || command == "bench" || help.contains("Example"), "{help}");
        for shell in ["bash", "zsh", "fish"] {
            assert!(ok(&["completions", shell]).contains(command));
        }
    }
}
