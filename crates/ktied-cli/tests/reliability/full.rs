//! A disk that is full when something else than a run is written: exit code 6, a sentence, and what was there before is still there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::strace::is_there;
use crate::support::{Folder, command, ok};
use crate::{names, stderr};

/// What writes files: the arguments, the file, and how its parts come to the disk.
fn commands<'a>(run: &'a str, out: &'a str, input: &'a str) -> Vec<(&'a str, Vec<&'a str>)> {
    vec![
        ("evaluation/test.json", vec!["evaluate", run, "--samples", "2"]),
        ("page.html", vec!["report", run, "--out", out]),
        ("predictions", vec!["predict", run, "--input", input, "--samples", "2", "--out", out]),
        ("a pruned run", vec!["prune", run, "--keep-frac", "0.5", "--samples", "2", "--out", out]),
        ("a compressed run", vec!["compress", run, "--rank", "1", "--samples", "2", "--out", out]),
        ("tables", vec!["export", run, "--format", "csv", "--out", out]),
    ]
}

#[test]
fn a_full_disk_in_a_report_is_one_sentence_and_leaves_no_half_of_it() {
    if !is_there("a_full_disk_in_a_report_is_one_sentence_and_leaves_no_half_of_it") {
        return;
    }
    let folder = Folder::new("full");
    let (run, input) = (folder.join("run"), folder.join("x.csv"));
    let table =
        format!("{}\n{}\n", (0..64).map(|i| format!("p{i}")).collect::<Vec<_>>().join(","), ["3"; 64].join(","));
    fs::write(&input, table).expect("a table");
    ok(&["train", "--preset", "mlp-digits", "--set", "model.sizes=64,4,10", "--set", "train.steps=4", "--out", &run]);
    for (number, extension) in ["json", "html", "csv", "run", "run2", "folder"].into_iter().enumerate() {
        let out = folder.join(&format!("out-{number}.{extension}"));
        let (what, args) = commands(&run, &out, &input).remove(number);
        for fault in ["write:error=ENOSPC:when=1", "fsync:error=ENOSPC:when=1", "rename:error=EDQUOT:when=1"] {
            let before = names(&run);
            let mut traced = Command::new("strace");
            traced.args(["-f", "-qq", "-o", &folder.join("trace"), "-e", "trace=write,fsync,rename"]);
            traced.args(["-e", &format!("inject={fault}")]).arg(env!("CARGO_BIN_EXE_ktied"));
            let output = traced
                .args(&args)
                .args(["--threads", "1", "--quiet"])
                .env_remove("KTIED_DATA")
                .output()
                .expect("strace");
            let trace = fs::read_to_string(folder.join("trace")).expect("a trace");
            let (code, said) = (output.status.code(), stderr(&output));
            // Not every command flushes or renames.
            let was_hit = trace.contains("(INJECTED)");
            assert!(!said.contains("panicked"), "{what}, {fault}: {said}");
            assert_eq!(code, Some(if was_hit { 6 } else { 0 }), "{what}, {fault}: {said}\n{trace}");
            if was_hit && !fault.starts_with("write") {
                assert!(said.contains("(os error "), "{what}, {fault}: {said}");
            }
            assert!(names(&run).len() >= before.len(), "{what}: nothing of the run is gone");
            let half = Path::new(&out).is_file() && was_hit;
            assert!(!half, "{what}, {fault}: half a file is left");
            let _ = fs::remove_dir_all(&out).or_else(|_| fs::remove_file(&out));
        }
    }
    ok(&["inspect", &run]);
}

#[test]
fn a_full_disk_behind_standard_output_and_standard_error_is_no_panic() {
    let folder = Folder::new("devfull");
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").expect("/dev/full"));
    let run = folder.join("run");
    let args = ["train", "--preset", "mlp-digits", "--set", "model.sizes=64,4,10", "--set", "train.steps=4"];
    // What is told on the way does not matter: the run does.
    let status = command(&[&args[..], &["--out", &run]].concat()).stderr(full()).status().expect("the program");
    assert_eq!(status.code(), Some(0));
    for args in [&["inspect", &run][..], &["inspect", &run, "--json"], &["params", "--preset", "mlp-mnist"]] {
        let output = command(args).stdout(full()).stderr(Stdio::piped()).output().expect("the program");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(6), "{args:?}: {said}");
        assert!(said.contains("cannot write to standard output: No space left on device"), "{said}");
        let status = command(args).stdout(full()).stderr(full()).status().expect("the program");
        assert_eq!(status.code(), Some(6), "{args:?}");
    }
}
