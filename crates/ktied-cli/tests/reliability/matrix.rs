//! Every network, interrupted anywhere in any way, resumed on any number of threads: the end is the unbroken run's, byte for byte.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use serde_json::Value;

use crate::strace::{self, Call, Fault};
use crate::support::{Folder, json, ktied, ok};
use crate::{ensure, for_all, is_long, names, stderr, story};

/// Examples, of which 32 are trained on: four steps of 8 are an epoch.
const EXAMPLES: usize = 40;
/// Three epochs.
const STEPS: u64 = 12;
/// Where a run is interrupted: after its first step, within an epoch, at the end of one, and while the weight on the divergence
/// grows (it does over the first two epochs).
const STOPS: [u64; 4] = [1, 10, 8, 5];

fn npy(descr: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let shape = shape.iter().map(|len| format!("{len}, ")).collect::<String>();
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let header = format!("{dict:<117}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A network, its settings, and small data for it.
struct Model {
    name: &'static str,
    preset: &'static str,
    settings: &'static [&'static str],
    classes: u8,
    inputs: fn() -> Vec<u8>,
}

fn images() -> Vec<u8> {
    let pixels: Vec<u8> = (0..EXAMPLES * 128).map(|i| (i * i % 251) as u8).collect();
    npy("|u1", &[EXAMPLES, 8, 8, 2], &pixels)
}

fn rows() -> Vec<u8> {
    let numbers = (0..EXAMPLES * 6).flat_map(|i| (((i * 37) % 101) as f32 / 50.0 - 1.0).to_le_bytes());
    npy("<f4", &[EXAMPLES, 6], &numbers.collect::<Vec<u8>>())
}

fn words() -> Vec<u8> {
    let words = (0..EXAMPLES * 5).flat_map(|i| ((i * i % 9) as i32).to_le_bytes());
    npy("<i4", &[EXAMPLES, 5], &words.collect::<Vec<u8>>())
}

const MODELS: [Model; 4] = [
    Model { name: "mlp", preset: "mlp-mnist", settings: &["model.sizes=6,5,3"], classes: 3, inputs: rows },
    Model {
        name: "lenet",
        preset: "lenet-cifar100",
        settings: &[
            "model.side=8",
            "model.channels=2",
            "model.filters=3,4",
            "model.dense=6",
            "model.classes=3",
            "model.kernel=3",
        ],
        classes: 3,
        inputs: images,
    },
    Model {
        name: "lstm",
        preset: "lstm-imdb",
        settings: &["model.vocabulary=9", "data.vocabulary=9", "model.embedding=4", "model.hidden=3"],
        classes: 2,
        inputs: words,
    },
    Model {
        name: "resnet18",
        preset: "resnet18-cifar10",
        settings: &["model.side=8", "model.channels=2", "model.widths=3,4,4,5", "model.classes=3"],
        classes: 3,
        inputs: images,
    },
];

impl Model {
    /// Writes its data and says how it is trained.
    fn args(&self, folder: &Folder, posterior: &str) -> Vec<String> {
        let data = folder.join(self.name);
        fs::create_dir_all(&data).expect("a folder");
        fs::write(Path::new(&data).join("x.npy"), (self.inputs)()).expect("inputs");
        let labels: Vec<u8> = (0..EXAMPLES).map(|i| (i * 7) as u8 % self.classes).collect();
        fs::write(Path::new(&data).join("y.npy"), npy("|u1", &[EXAMPLES], &labels)).expect("labels");
        let common = [
            "train.batch=8",
            "train.epochs=3",
            "train.log_every=1",
            "train.validate_every=1",
            "train.validate_draws=2",
            "train.checkpoint_steps=3",
            "train.keep=3",
            "anneal.per_batch=none",
            "anneal.epochs=2",
            "optim.lr=0.01",
        ];
        let set = format!("data.set={data}");
        let settings = [&set as &str].into_iter().chain(common).chain(self.settings.iter().copied());
        let settings = settings.flat_map(|setting| ["--set".to_string(), setting.to_string()]);
        ["train", "--preset", self.preset, "--posterior", posterior]
            .map(String::from)
            .into_iter()
            .chain(settings)
            .collect()
    }
}

fn with<'a>(args: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    args.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// The call before which the run must hear of a signal to stop after `step`, or at which it dies in that step.
fn call_at(calls: &[Call], step: u64, signal: &str) -> Fault {
    let line = |step: u64| format!("\\\"event\\\":\\\"train\\\",\\\"step\\\":{step},");
    let is_wanted = |call: &Call| match (signal, step) {
        ("SIGKILL", step) => call.name == "write" && call.line.contains(&line(step)),
        (_, 1) => call.name == "mkdir" && call.line.contains("/checkpoints\""),
        (_, step) => call.name == "write" && call.line.contains(&line(step - 1)),
    };
    let at = calls.iter().position(is_wanted).unwrap_or_else(|| panic!("no call for step {step}"));
    let kind = ["SIGKILL", "SIGINT", "SIGTERM"].into_iter().find(|kind| *kind == signal).expect("a signal");
    Fault { call: calls[at].clone(), at, kind }
}

/// The files of the last checkpoint: weights, optimiser, and the loop's own numbers.
fn last_files(run: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(run).join(format!("checkpoints/step-{STEPS:08}"));
    names(&folder).iter().map(|name| fs::read(folder.join(name)).expect("a file")).collect()
}

/// A network under a posterior, unbroken.
struct Whole {
    name: String,
    args: Vec<String>,
    calls: Vec<Call>,
    files: Vec<Vec<u8>>,
    story: Vec<String>,
    metrics: Value,
}

impl Whole {
    fn new(folder: &Folder, model: &Model, posterior: &str) -> Self {
        let (name, args) = (format!("{}-{}", model.name, posterior.replace(':', "")), model.args(folder, posterior));
        let run = folder.join(&format!("whole-{name}"));
        let calls = strace::calls(&with(&args, &["--threads", "1", "--quiet", "--out", &run]), &run);
        let (files, story, metrics) = (last_files(&run), story(&run), metrics(&run));
        assert_eq!(files.len(), 3, "{name}");
        Self { name, args, calls, files, story, metrics }
    }
}

fn metrics(run: &str) -> Value {
    let mut metrics = json(&["evaluate", run, "--samples", "3", "--threads", "1"]);
    if let Some(object) = metrics.as_object_mut() {
        object.retain(|_, value| value.get("value").is_some());
    }
    assert!(metrics["neg_elbo"]["value"].is_f64(), "{metrics}");
    metrics
}

struct Case<'a> {
    whole: &'a Whole,
    stop: u64,
    signal: &'static str,
    threads: &'static str,
}

fn verdict(folder: &Folder, number: usize, case: &Case<'_>) -> Result<(), String> {
    let Case { whole, stop, signal, threads } = case;
    let what = format!("{} stopped by {signal} at {stop} on {threads} threads", whole.name);
    let run = folder.join(&format!("run-{number}"));
    let args = with(&whole.args, &["--threads", threads, "--quiet", "--out", &run]);
    let fault = call_at(&whole.calls, *stop, signal);
    let output = strace::with_fault(&fault, &folder.0.join(format!("trace-{number}")), &args);
    let (status, said) = (output.status, stderr(&output));
    match *signal {
        "SIGKILL" => ensure(status.signal() == Some(9), || format!("{what}: {status} {said}"))?,
        _ => {
            ensure(status.code() == Some(130), || format!("{what}: {status} {said}"))?;
            let step = json(&["inspect", &run])["step"].clone();
            ensure(step == *stop, || format!("{what}: it was saved at {step}"))?;
        }
    }
    let resumed = ktied(&[&args[..], &["--resume"]].concat());
    ensure(resumed.status.success(), || format!("{what}: {}", stderr(&resumed)))?;
    ensure(last_files(&run) == whole.files, || format!("{what}: another checkpoint"))?;
    ensure(story(&run) == whole.story, || format!("{what}: another log"))?;
    ensure(metrics(&run) == whole.metrics, || format!("{what}: other metrics"))?;
    let _ = fs::remove_dir_all(&run);
    Ok(())
}

#[test]
fn a_run_stopped_anywhere_and_resumed_ends_as_the_unbroken_one_byte_for_byte() {
    if !strace::is_there("a_run_stopped_anywhere_and_resumed_ends_as_the_unbroken_one_byte_for_byte") {
        return;
    }
    let folder = Folder::new("matrix");
    let kinds = MODELS.iter().flat_map(|model| ["mean-field", "k-tied:2"].map(|posterior| (model, posterior)));
    let wholes: Vec<Whole> = kinds.map(|(model, posterior)| Whole::new(&folder, model, posterior)).collect();
    let mut cases = vec![];
    for (w, whole) in wholes.iter().enumerate() {
        for (s, stop) in STOPS.into_iter().enumerate() {
            for (g, signal) in ["SIGKILL", "SIGINT", "SIGTERM"].into_iter().enumerate() {
                for (t, threads) in ["1", "2", "4"].into_iter().enumerate() {
                    // Every pair of values of two of the four is among the short ones.
                    let is_short = (w + s) % 3 == g && (w / 2 + s + g) % 3 == t;
                    if is_long() || is_short {
                        cases.push(Case { whole, stop, signal, threads });
                    }
                }
            }
        }
    }
    let note = if is_long() { "all" } else { "ONLY A COVERING PART; KTIED_LONG=1 tries all 288" };
    println!("interruptions: {}, {note}", cases.len());
    for_all("interruptions", &cases, |number, case| verdict(&folder, number, case));
    ok(&["inspect", &folder.join("whole-mlp-mean-field")]);
}
