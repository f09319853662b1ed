//! What happens to a run when the machine fails it: faults at every system call, damaged checkpoints, places that cannot be
//! written, interruptions, numbers that cannot be.
//!
//! By default a part of each matrix is tried; `KTIED_LONG=1` tries all of it.
#![cfg(target_os = "linux")]

mod damage;
mod differences;
mod extremes;
mod faults;
mod full;
mod matrix;
mod places;
mod strace;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// Whether everything is tried.
fn is_long() -> bool {
    std::env::var_os("KTIED_LONG").is_some_and(|value| value == "1")
}

/// All of a matrix, or every so manieth of it, which is said.
fn selected<T>(what: &str, all: Vec<T>, about: usize) -> Vec<T> {
    let count = all.len();
    if is_long() || count <= about {
        println!("{what}: all {count}");
        return all;
    }
    println!("{what}: ONLY {about} OF {count}; KTIED_LONG=1 tries all");
    // Evenly spread, the first and the last included.
    let wanted: Vec<usize> = (0..about).map(|i| i * (count - 1) / (about - 1).max(1)).collect();
    all.into_iter().enumerate().filter(|(i, _)| wanted.binary_search(i).is_ok()).map(|(_, item)| item).collect()
}

/// Tries every case on as many threads as there are cores; what is wrong with any of them fails the test.
fn for_all<T: Sync>(what: &str, cases: &[T], verdict: impl Fn(usize, &T) -> Result<(), String> + Sync) {
    let (next, threads) = (AtomicUsize::new(0), std::thread::available_parallelism().map_or(1, |n| n.get()));
    let work = || {
        let mut wrong = vec![];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(number) else { return wrong };
            wrong.extend(verdict(number, case).err());
        }
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{what}: {} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// An error with the words of `message`, if `good` is not.
fn ensure(good: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if good { Ok(()) } else { Err(message()) }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Names of everything in a folder, hidden or not.
fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What a run's log tells, but for its speed and for checkpoints, which depend on where it was interrupted.
fn story(run: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(run).join("events.jsonl")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a whole line"));
    let told = events.filter(|event| event["event"] != "checkpoint").map(|mut event| {
        event.as_object_mut().expect("an object").remove("steps_per_second");
        event.to_string()
    });
    told.collect()
}
