//! Faults in system calls, by `strace -e inject`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The calls by which a run is written, and how each is made to fail.
const CALLS: [(&str, &[&str]); 10] = [
    ("write", &["ENOSPC", "EIO", "EDQUOT", "SIGKILL"]),
    ("fsync", &["EIO", "ENOSPC", "EDQUOT", "SIGKILL"]),
    ("fdatasync", &["EIO", "ENOSPC", "EDQUOT", "SIGKILL"]),
    ("rename", &["ENOSPC", "EIO", "EDQUOT", "SIGKILL"]),
    ("mkdir", &["ENOSPC", "EDQUOT", "EIO", "SIGKILL"]),
    ("unlinkat", &["EIO", "SIGKILL"]),
    ("openat", &["EIO", "ENOSPC", "SIGKILL"]),
    ("ftruncate", &["EIO", "ENOSPC"]),
    ("flock", &["EIO", "SIGKILL"]),
    ("statx", &["SIGKILL"]),
];

/// A system call of a run, in the order of the run.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: &'static str,
    /// It is the so manieth of that name in its thread.
    pub number: usize,
    /// How strace writes it down.
    pub line: String,
}

/// A call and how it fails.
#[derive(Clone, Debug)]
pub struct Fault {
    pub call: Call,
    /// Place of the call in the trace.
    pub at: usize,
    pub kind: &'static str,
}

impl Fault {
    pub fn is_kill(&self) -> bool {
        self.kind == "SIGKILL"
    }

    /// For `strace -e`.
    fn inject(&self) -> String {
        let what = if self.kind.starts_with("SIG") { "signal" } else { "error" };
        format!("inject={}:{what}={}:when={}", self.call.name, self.kind, self.call.number)
    }
}

/// Whether processes can be traced here; if not, says so.
pub fn is_there(test: &str) -> bool {
    let traced = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    let there = traced.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("SKIPPED: {test}: strace is not installed, or tracing is forbidden here");
    }
    there
}

/// Runs the program under strace, which writes down the calls that matter.
fn traced(file: &Path, more: &[&str], args: &[&str]) -> Output {
    let calls = CALLS.map(|(name, _)| name).join(",");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "4096", "-o"]).arg(file).args(["-e", &format!("trace={calls}")]).args(more);
    command.arg(env!("CARGO_BIN_EXE_ktied")).args(args).env_remove("KTIED_DATA");
    command.output().expect("strace starts")
}

/// The calls of a run of the program that have to do with `folder`, beside which the trace is written.
pub fn calls(args: &[&str], folder: &str) -> Vec<Call> {
    let file = Path::new(folder).with_extension("trace");
    let output = traced(&file, &[], args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = fs::read_to_string(&file).expect("a trace");
    let mut counts = std::collections::HashMap::new();
    let mut calls = vec![];
    for line in trace.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let Some(&(name, _)) = CALLS.iter().find(|(name, _)| rest.starts_with(&format!("{name}("))) else { continue };
        let number = counts.entry((thread.to_string(), name)).or_insert(0usize);
        *number += 1;
        if rest.contains(folder) {
            calls.push(Call { name, number: *number, line: rest.into() });
        }
    }
    calls
}

/// Every way in which every call can fail.
pub fn faults(calls: &[Call]) -> Vec<Fault> {
    let ways = |call: &Call| CALLS.iter().find(|(name, _)| *name == call.name).map_or(&[][..], |(_, ways)| ways);
    let all = calls.iter().enumerate();
    all.flat_map(|(at, call)| ways(call).iter().map(move |&kind| Fault { call: call.clone(), at, kind })).collect()
}

/// The program with a fault.
pub fn with_fault(fault: &Fault, place: &Path, args: &[&str]) -> Output {
    traced(place, &["-e", &fault.inject()], args)
}
