//! A fault at every system call by which a run is written: what was saved stays, and `--resume` ends as if nothing had happened.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use serde_json::Value;

use crate::strace::{self, Call, Fault};
use crate::support::{Folder, json, ktied, ok};
use crate::{ensure, for_all, is_long, names, selected, stderr, story};

/// Six steps, a checkpoint after every second one, of which two are kept.
fn train(out: &str) -> Vec<&str> {
    let short = ["train", "--preset", "mlp-digits", "--set", "model.sizes=64,4,10", "--threads", "1"];
    let often = ["--set", "train.steps=6", "--set", "train.checkpoint_steps=2", "--set", "train.log_every=2"];
    [&short[..], &often, &["--out", out]].concat()
}

/// The unbroken run: what it leaves, and the digest of each of its checkpoints.
struct Whole {
    digests: BTreeMap<u64, Value>,
    story: Vec<String>,
    names: Vec<String>,
    calls: Vec<Call>,
}

impl Whole {
    fn new(folder: &Folder) -> Self {
        let all = folder.join("all");
        ok(&[&train(&all)[..], &["--set", "train.keep=9"]].concat());
        let digest = |step| json(&["inspect", &format!("{all}/checkpoints/step-{step:08}")])["digest"].clone();
        let run = folder.join("traced");
        let calls = strace::calls(&train(&run), &run);
        Self {
            digests: [2, 4, 6].map(|step| (step, digest(step))).into(),
            story: story(&run),
            names: tree(&run),
            calls,
        }
    }

    /// The newest checkpoint when the call at `at` begins; none at first.
    fn newest_before(&self, at: usize) -> Option<u64> {
        let renamed = self.calls[..at].iter().filter(|call| call.name == "rename");
        let steps = renamed.filter_map(|call| call.line.split_once("/checkpoints/step-0000000").map(|(_, rest)| rest));
        // What is renamed away from such a name is being removed, and is never the newest.
        let steps = steps.filter_map(|rest| rest.split('"').next()?.parse().ok());
        steps.max()
    }
}

/// All names of a run's folder, and those of its checkpoints.
fn tree(run: &str) -> Vec<String> {
    let inner = names(Path::new(run).join("checkpoints")).into_iter().map(|name| format!("checkpoints/{name}"));
    names(run).into_iter().chain(inner).collect()
}

fn verdict(whole: &Whole, run: &str, trace: &Path, fault: &Fault) -> Result<(), String> {
    let output = strace::with_fault(fault, trace, &train(run));
    let said = stderr(&output);
    let what = || format!("{} at {}: {said}", fault.kind, fault.call.line);
    // An old checkpoint that cannot be read while it is decided what to remove is left alone, and that is all.
    let may_end_well = fault.call.name == "openat" && !fault.call.line.contains("O_CREAT");
    let ended_well = output.status.success();
    let ended = match fault.is_kill() {
        true => output.status.signal() == Some(9),
        false => output.status.code() == Some(6) || (ended_well && may_end_well),
    };
    ensure(ended, || format!("ended with {}: {}", output.status, what()))?;
    // One sentence that says what the system said, unless writing failed for that too: strace counts in each thread.
    let sentences: Vec<&str> = said.lines().filter(|line| line.starts_with("ktied: ")).collect();
    let is_said = sentences.len() == 1 && sentences[0].contains("(os error ");
    let is_mute = fault.is_kill() || ended_well || (fault.call.name == "write" && fault.call.number == 1);
    ensure(is_said || is_mute, || format!("said: {}", what()))?;
    ensure(!said.contains("panicked"), what)?;

    // What was saved before is the newest still, or the one that was being saved when only its report failed.
    let expected = if ended_well { Some(6) } else { whole.newest_before(fault.at) };
    let inspected = ktied(&["inspect", run, "--json"]);
    let found: Value = serde_json::from_slice(&inspected.stdout).unwrap_or_default();
    match (expected, found["step"].as_u64()) {
        (None, None) => {}
        (expected, Some(step)) if expected == Some(step) => {
            ensure(found["digest"] == whole.digests[&step], || format!("another digest at {step}: {}", what()))?;
        }
        (expected, step) => return Err(format!("expected {expected:?}, found {step:?}: {}", what())),
    }

    let leftovers: Vec<String> = tree(run).into_iter().filter(|name| name.contains(".tmp-")).collect();
    let resumed = ktied(&[&train(run)[..], &["--resume", "--json"]].concat());
    let report: Value = serde_json::from_slice(&resumed.stdout).unwrap_or_default();
    let says = stderr(&resumed);
    ensure(resumed.status.success() && report["digest"] == whole.digests[&6], || format!("resumed: {says}{}", what()))?;
    for name in &leftovers {
        ensure(says.contains(name.as_str()), || format!("`{name}` was cleared in silence: {says}{}", what()))?;
    }
    ensure(tree(run) == whole.names, || format!("left {:?}: {}", tree(run), what()))?;
    ensure(story(run) == whole.story, || format!("another log: {}", what()))
}

/// The first death and the first error of each call on each kind of file.
fn one_of_each(all: Vec<Fault>) -> Vec<Fault> {
    let count = all.len();
    let kind = |fault: &Fault| {
        let name: String =
            path_of(&fault.call).rsplit('/').next().unwrap_or("").chars().filter(|c| !c.is_ascii_digit()).collect();
        (fault.is_kill(), fault.call.name, name)
    };
    let mut seen = std::collections::HashSet::new();
    let chosen: Vec<Fault> =
        all.into_iter().filter(|fault| fault.call.name != "statx" && seen.insert(kind(fault))).collect();
    println!("faults: ONLY {} OF {count}, ONE OF EACH KIND; KTIED_LONG=1 tries all", chosen.len());
    chosen
}

#[test]
fn a_fault_at_any_system_call_of_a_run_loses_nothing() {
    if !strace::is_there("a_fault_at_any_system_call_of_a_run_loses_nothing") {
        return;
    }
    let folder = Folder::new("faults");
    let whole = Whole::new(&folder);
    let faults = strace::faults(&whole.calls);
    let faults = if is_long() { selected("faults", faults, 0) } else { one_of_each(faults) };
    for_all("faults", &faults, |number, fault| {
        let run = folder.join(&format!("run-{number}"));
        let outcome = verdict(&whole, &run, &folder.0.join(format!("trace-{number}")), fault);
        let _ = std::fs::remove_dir_all(&run);
        outcome
    });
}

/// The path that a call is about: that of its descriptor, or the one it names.
fn path_of(call: &Call) -> &str {
    match call.line.contains("AT_FDCWD<") {
        true => call.line.split('"').nth(1).unwrap_or(""),
        false => call.line.split(['<', '>', '"']).nth(1).unwrap_or(""),
    }
}

#[test]
fn everything_is_on_the_disk_before_it_has_its_name_and_the_name_is_after_it() {
    if !strace::is_there("everything_is_on_the_disk_before_it_has_its_name_and_the_name_is_after_it") {
        return;
    }
    let folder = Folder::new("flushed");
    let run = folder.join("run");
    let calls = strace::calls(&train(&run), &run);
    let mut named = 0;
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.name == "rename") {
        let mut paths = call.line.split('"').skip(1).step_by(2);
        let [Some(from), Some(to)] = [paths.next(), paths.next()] else { panic!("{call:?}") };
        let parent = Path::new(to).parent().expect("a parent").to_string_lossy();
        // The folder's flush comes before anything else is written.
        let next = calls[at..].iter().find(|call| ["fsync", "write", "mkdir", "unlinkat"].contains(&call.name));
        let next = next.expect("a call after a rename");
        assert!(next.name == "fsync" && path_of(next) == parent, "after {}: {}", call.line, next.line);
        if !from.contains("/.tmp-") {
            continue;
        }
        named += 1;
        let aside: Vec<&Call> = calls[..at].iter().filter(|call| path_of(call).starts_with(from)).collect();
        let written: Vec<usize> = (0..aside.len()).filter(|&i| aside[i].name == "write").collect();
        assert!(!written.is_empty(), "{call:?}");
        for write in written {
            let path = path_of(aside[write]);
            let flushed = aside[write..].iter().any(|call| call.name == "fsync" && path_of(call) == path);
            assert!(flushed, "{path} has its name before it is on the disk");
        }
        if to.contains("/step-") {
            let own = aside.iter().any(|call| call.name == "fsync" && path_of(call) == from);
            assert!(own, "the names in {from} are not on the disk");
            let log = calls[..at].iter().rev().find(|call| path_of(call).ends_with("/events.jsonl"));
            assert!(log.is_some_and(|call| call.name == "fdatasync"), "the log is not on the disk: {log:?}");
        }
    }
    assert_eq!(named, 4, "a configuration and three checkpoints");
}
