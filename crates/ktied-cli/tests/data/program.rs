//! The real program: what it prints, and its exit codes.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::server::{Manners, Server};
use crate::{Folder, gzip, ktied};

const MNIST: [&str; 4] =
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

fn json(args: &[&str], cache: &Folder) -> Value {
    let output = ktied(args, cache);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Exit code and standard error.
fn refusal(args: &[&str], cache: &Folder) -> (Option<i32>, String) {
    let output = ktied(args, cache);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test")
}

#[test]
fn list_says_what_there_is_and_where() {
    let (cache, dir) = (Folder::new(), Folder::new());
    let folder = dir.0.join("mnist");
    std::fs::create_dir(&folder).expect("a folder");
    for file in MNIST {
        std::fs::write(folder.join(file), b"").expect("a file");
    }
    std::fs::create_dir(dir.0.join("cifar10")).expect("a folder");
    let report = json(&["data", "list", "--data", text(&dir.0), "--json"], &cache);
    assert_eq!(report["folders"], serde_json::json!([dir.0, cache.0.join("ktied/data")]));
    let sets = report["sets"].as_array().expect("rows");
    let row = |name: &str| sets.iter().find(|row| row["set"] == name).expect("a row");
    assert_eq!(row("mnist")["found"], text(&folder));
    assert_eq!((&row("mnist")["train"], &row("mnist")["validation"]), (&50_000.into(), &10_000.into()));
    assert_eq!((&row("digits")["embedded"], &row("imdb")["found"]), (&true.into(), &Value::Null));
    assert!(row("cifar10")["problem"].as_str().is_some_and(|text| text.contains("data_batch_1.bin")), "{report}");
    assert_eq!(sets.len(), 15);

    let output = ktied(&["data", "list", "--data", text(&dir.0)], &cache);
    let table = String::from_utf8(output.stdout).expect("text");
    assert!(table.contains("in the program") && table.contains("incomplete") && table.contains("not found"), "{table}");
}

#[test]
fn check_reads_what_is_there_and_ends_with_3_if_something_is_wrong() {
    let cache = Folder::new();
    let report = json(&["data", "check", "digits", "--json"], &cache);
    let row = &report["sets"][0];
    assert_eq!((&row["ok"], &row["examples"]["train"]), (&true.into(), &1400.into()), "{row}");
    let (code, message) = refusal(&["data", "check", "mnist"], &cache);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("data set `mnist` is not in") && message.contains("`ktied data get mnist`"), "{message}");
    let folder = cache.0.join("ktied/data/uci/yacht");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (file, text) in [("data.txt", "1 2\n3 4\n5 6\n"), ("index_features.txt", "0\n"), ("index_target.txt", "1\n")] {
        std::fs::write(folder.join(file), text).expect("a file");
    }
    let (code, message) = refusal(&["data", "check", "digits", "uci/yacht"], &cache);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("uci/yacht: expected the SHA-256 00dfecc0"), "{message}");
}

#[test]
fn check_reads_your_own_files_too() {
    let folder = Folder::new();
    let path = folder.0.join("own.csv");
    std::fs::write(&path, "a,b,label\n1,2,yes\n3,4,no\n5,6,no\n").expect("a file");
    let report = json(&["data", "check", text(&path), "--json"], &folder);
    assert_eq!(report["sets"][0]["examples"]["train"], 3, "{report}");
    std::fs::write(&path, "a,b,label\n1,x,yes\n").expect("a file");
    let (code, message) = refusal(&["data", "check", text(&path)], &folder);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("line 2, column 2: expected a finite number, found `x`"), "{message}");
    let (code, message) = refusal(&["data", "check", text(&folder.0.join("none.csv"))], &folder);
    assert_eq!(code, Some(6), "{message}");
}

#[test]
fn names_that_cannot_be_fetched_end_with_2_and_say_why() {
    let cache = Folder::new();
    for (args, part) in [
        (&["data", "get", "mnits"][..], "did you mean `mnist`?"),
        (&["data", "check", "cifar"], "did you mean `cifar10`?"),
        (&["data", "get", "uci"], "has no single host"),
        (&["data", "get", "mnist", "uci/yacht"], "`uci/yacht` has no single host"),
        (&["data", "get", "mnist", "--from", "ftp://x"], "http:// or https://"),
        (&["data", "get"], "SET"),
    ] {
        let (code, message) = refusal(args, &cache);
        assert_eq!(code, Some(2), "{args:?}: {message}");
        assert!(message.contains(part), "{args:?}: {message}");
    }
    let output = ktied(&["data", "get", "digits"], &cache);
    assert!(output.status.success() && output.stdout == b"digits: embedded\n");
}

#[test]
fn a_wrong_download_ends_with_3_and_no_server_or_no_file_with_6() {
    let (cache, dir) = (Folder::new(), Folder::new());
    let get = |url: &str| refusal(&["data", "get", "mnist", "--from", url, "--data", text(&dir.0)], &cache);
    let file = format!("{}.gz", MNIST[0]);
    let (code, message) = get(&Server::new(&[(&file[..], gzip(b"not digits"))], Manners::default()).url);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("expected the SHA-256 ba891046") && message.contains("has been removed"), "{message}");
    assert!(dir.names().is_empty(), "{:?}", dir.names());

    let (code, message) = get(&Server::new(&[], Manners::default()).url);
    assert_eq!(code, Some(6), "{message}");
    assert!(message.contains("the server answers 404"), "{message}");
    let (code, message) = get("http://127.0.0.1:9");
    assert_eq!(code, Some(6), "{message}");
    assert!(message.contains("cannot fetch http://127.0.0.1:9/train-images"), "{message}");
}

/// The folder with the real data sets, or a loud word, past the test runner, that a test did not run.
fn data_dir(test: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("KTIED_DATA").filter(|value| !value.is_empty()).map(PathBuf::from);
    if dir.is_none() {
        let text = format!("SKIPPED {test}: set KTIED_DATA to a folder with the real data sets to run it");
        writeln!(std::io::stderr(), "{text}").ok();
    }
    dir
}

#[test]
fn the_real_sets_pass_the_check() {
    let Some(dir) = data_dir("the_real_sets_pass_the_check") else { return };
    let names = ["mnist", "fashion-mnist", "cifar10", "cifar100", "imdb", "uci", "digits"];
    let report = json(&[&["data", "check", "--json", "--data", text(&dir)], &names[..]].concat(), &Folder::new());
    let sets = report["sets"].as_array().expect("rows");
    assert_eq!(sets.len(), 15);
    assert!(sets.iter().all(|row| row["ok"] == true), "{report}");
}

#[test]
fn the_real_mnist_is_fetched_found_and_not_fetched_again() {
    let Some(real) = data_dir("the_real_mnist_is_fetched_found_and_not_fetched_again") else { return };
    let (cache, dir) = (Folder::new(), Folder::new());
    let files = MNIST.map(|file| {
        let plain = std::fs::read(real.join("mnist").join(file)).map(|bytes| gzip(&bytes));
        (
            format!("{file}.gz"),
            plain.unwrap_or_else(|_| std::fs::read(real.join("mnist").join(format!("{file}.gz"))).expect("a file")),
        )
    });
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (&name[..], bytes.clone())).collect();
    let server = Server::new(&files, Manners { num_cuts: 1, cut_after: 1_000_000, ..Manners::default() });
    let get = || json(&["data", "get", "mnist", "--from", &server.url, "--data", text(&dir.0), "--json"], &cache);
    assert_eq!(get()["sets"][0]["state"], "fetched");
    assert_eq!((get()["sets"][0]["state"].as_str(), server.requests().len()), (Some("present"), 5));
    assert_eq!(json(&["data", "check", "mnist", "--data", text(&dir.0), "--json"], &cache)["sets"][0]["ok"], true);
}

/// The archive is made of the real texts, under names that keep their order.
#[test]
fn the_real_reviews_are_fetched_as_folders_and_are_the_same_data_set() {
    let Some(real) = data_dir("the_real_reviews_are_fetched_as_folders_and_are_the_same_data_set") else { return };
    let Ok(text_of_reviews) = std::fs::read_to_string(real.join("imdb/reviews.json")) else {
        return writeln!(std::io::stderr(), "SKIPPED the real reviews: there is no reviews.json").expect("stderr");
    };
    let reviews: Vec<Value> = serde_json::from_str(&text_of_reviews).expect("JSON");
    let mut archive = tar::Builder::new(Vec::new());
    for (i, review) in reviews.iter().enumerate() {
        let block = ["test/neg", "train/neg", "test/pos", "train/pos"][i / 12_500];
        let bytes = review["t"].as_str().expect("a text").as_bytes();
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        let path = format!("aclImdb/{block}/{:05}_0.txt", i % 12_500);
        archive.append_data(&mut header, path, bytes).expect("memory");
    }
    let archive = gzip(&archive.into_inner().expect("memory"));
    let server = Server::new(&[("aclImdb_v1.tar.gz", archive)], Manners::default());
    let (cache, dir) = (Folder::new(), Folder::new());
    let get = json(&["data", "get", "imdb", "--from", &server.url, "--data", text(&dir.0), "--json"], &cache);
    assert_eq!(get["sets"][0]["state"], "fetched");
    let digest = |dir: &Path| {
        json(&["data", "check", "imdb", "--data", text(dir), "--json"], &cache)["sets"][0]["digest"].clone()
    };
    assert_eq!(digest(&dir.0), digest(&real));
}
