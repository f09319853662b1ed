//! Places that a run cannot be written to: one clear sentence, and nothing is left behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::names;
use crate::strace::is_there;
use crate::support::{Folder, code, command, ok};

fn train<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let short = ["train", "--preset", "mlp-digits", "--set", "model.sizes=64,4,10", "--threads", "1", "--quiet"];
    [&short[..], &["--set", "train.steps=4", "--out", out], more].concat()
}

#[test]
fn a_file_or_a_name_that_is_too_long_in_the_folder_s_place_is_one_sentence() {
    let folder = Folder::new("places");
    let file = folder.join("file");
    fs::write(&file, "in the way").expect("a file");
    let long = folder.join(&"n".repeat(300));
    for (out, part) in [
        (file.clone(), "Not a directory"),
        (format!("{file}/run"), "File exists"),
        (long.clone(), "File name too long"),
        (format!("{long}/run"), "File name too long"),
        ("/proc/run".into(), "/proc/run"),
    ] {
        for more in [&[][..], &["--resume"]] {
            let (found, message) = code(&train(&out, more));
            assert_eq!(found, Some(6), "{out} {more:?}: {message}");
            assert!(message.contains(part) && message.trim_end().lines().count() == 1, "{out}: {message}");
        }
    }
    assert_eq!(names(&folder.0), ["file"]);
    assert_eq!(fs::read(&file).expect("a file"), b"in the way");
}

/// Whether permissions do not hold for whoever runs this.
fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id");
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

#[test]
fn a_folder_that_cannot_be_written_is_one_sentence_and_stays_as_it_was() {
    let folder = Folder::new("read-only");
    let run = folder.join("sealed/run");
    fs::create_dir(folder.0.join("sealed")).expect("a folder");
    let output = if is_root() {
        if !is_there("a_folder_that_cannot_be_written_is_one_sentence_and_stays_as_it_was") {
            return;
        }
        // Nothing is forbidden to root, so the system says it of a read-only file system.
        let mut traced = Command::new("strace");
        traced.args(["-f", "-o", "/dev/null", "-e", "inject=mkdir:error=EROFS"]);
        traced.arg(env!("CARGO_BIN_EXE_ktied")).args(train(&run, &[])).output().expect("strace")
    } else {
        fs::set_permissions(folder.0.join("sealed"), std::os::unix::fs::PermissionsExt::from_mode(0o555))
            .expect("permissions");
        command(&train(&run, &[])).output().expect("the program")
    };
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{message}");
    assert!(message.starts_with(&format!("ktied: cannot create the folder `{run}`: ")), "{message}");
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    assert!(names(folder.0.join("sealed")).is_empty());
}

/// A run that goes on until it is told to stop, and has begun to save.
fn endless(run: &str) -> Child {
    let args = train(run, &["--resume", "--set", "train.steps=1000000000", "--set", "train.checkpoint_steps=5"]);
    let child = command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    let begin = Instant::now();
    // What is being written has another name until it is whole.
    while !names(Path::new(run).join("checkpoints")).iter().any(|name| name.starts_with("step-")) {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not get on");
        sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn two_runs_in_one_folder_are_refused_and_a_dead_process_holds_no_lock() {
    let folder = Folder::new("locked");
    let run = folder.join("run");
    let mut first = endless(&run);
    let (found, message) = code(&train(&run, &["--resume", "--set", "train.steps=1000000000"]));
    assert_eq!(found, Some(4), "{message}");
    assert!(message.contains(&format!("the run `{run}` is in use by another process")), "{message}");
    // Whoever only reads is not kept out.
    ok(&["inspect", &run]);
    assert!(first.try_wait().expect("a child").is_none(), "the first is not disturbed");
    first.kill().and_then(|()| first.wait()).expect("it is gone");
    assert!(Path::new(&run).join("lock").is_file(), "its lock file is still there");
    let mut second = endless(&run);
    second.kill().and_then(|()| second.wait()).expect("it is gone");
}
