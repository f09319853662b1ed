//! A file, how the program gets it, and how that may end.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time for one case; one that takes longer is tried once more, in case the machine was busy with something else.
pub const LIMIT: Duration = Duration::from_secs(2);
/// When a case is stopped.
const PATIENCE: Duration = Duration::from_secs(10);
/// Address space that a case may have, in KiB: with 100 MiB the program predicts, with 60 its threads do not start; and half a
/// gigabyte more.
const ADDRESS_SPACE: u64 = (100 << 10) + (512 << 10);

/// How a case may end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expect {
    /// With this code, and a sentence that names the file and has this in it.
    Refused(i32, &'static str),
    /// With this code and a sentence that names the file, or accepted: a flipped bit may leave a file good.
    Either(i32),
    /// With this code; what is named is another file, which is not what this one says of it.
    RefusedElsewhere(i32),
    /// With this code and a sentence that names at least the key, or accepted.
    EitherByKey(i32),
    Accepted,
}

/// What the program does with the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Use {
    /// `predict --input FILE`
    Predict,
    /// `train --config FILE`, into a folder that is not empty, so that what is accepted ends there.
    Configure,
    /// `train --preset P --data FOLDER`, in the same way.
    Train(&'static str),
    /// `train --set data.set=FILE`, in the same way.
    TrainOn,
    /// `compress FILE`
    Compress,
    /// `inspect` of a run of which the file is a part.
    Inspect,
    /// `report` of such a run, without data.
    Report,
    /// `export` of such a run.
    Export,
}

#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub file: &'static str,
    pub bytes: Vec<u8>,
    /// Length of the file, where it is longer than its bytes: zeros follow.
    pub len: Option<u64>,
    pub expect: Expect,
    pub used: Use,
    /// Files of zeros beside it, and how long each is.
    pub siblings: &'static [&'static str],
    pub siblings_len: u64,
}

impl Case {
    pub fn used(self, used: Use) -> Self {
        Self { used, ..self }
    }

    pub fn with_len(self, len: u64) -> Self {
        Self { len: Some(len), ..self }
    }
}

/// A case for `predict`.
pub fn case(name: impl Into<String>, file: &'static str, bytes: Vec<u8>, expect: Expect) -> Case {
    Case { name: name.into(), file, bytes, len: None, expect, used: Use::Predict, siblings: &[], siblings_len: 0 }
}

/// Every truncation, and every bit of the first bytes flipped.
pub fn damaged(file: &'static str, good: &[u8], header: usize) -> Vec<Case> {
    let mut cases = vec![case(format!("{file} whole"), file, good.to_vec(), Expect::Accepted)];
    cases.extend(truncated(file, good, Expect::Refused(3, "")));
    cases.extend(flipped(file, good, header, Expect::Either(3)));
    cases
}

pub fn truncated(file: &'static str, good: &[u8], expect: Expect) -> Vec<Case> {
    (0..good.len()).map(|len| case(format!("{file} cut to {len}"), file, good[..len].to_vec(), expect)).collect()
}

pub fn flipped(file: &'static str, good: &[u8], header: usize, expect: Expect) -> Vec<Case> {
    let flip = |bit: usize| {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        case(format!("{file} bit {bit}"), file, bytes, expect)
    };
    (0..8 * header.min(good.len())).map(flip).collect()
}

/// How a run of the program ended: its code, what it said, and how long it took.
pub type Ending = (Option<i32>, String, Duration);

/// One run of the program.
pub fn run(args: &[&str]) -> Ending {
    run_as(None, env!("CARGO_BIN_EXE_ktied"), args)
}

/// The same by a user of this number, who may have to be given a copy of the program.
pub fn run_as(user: Option<u32>, program: &str, args: &[&str]) -> Ending {
    let first = run_once(user, program, args);
    if first.2 < LIMIT { first } else { run_once(user, program, args) }
}

fn run_once(user: Option<u32>, program: &str, args: &[&str]) -> Ending {
    // The shell sets the limit and becomes the program.
    let script = format!("ulimit -v {ADDRESS_SPACE}; exec \"$0\" \"$@\"");
    let begin = Instant::now();
    let mut command = Command::new("sh");
    command.args(["-c", &script, program]).args(args).args(["--threads", "2"]);
    user.map(|user| command.uid(user));
    command.env_remove("KTIED_DATA").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().expect("a shell");
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                let _ = child.kill();
                break child.wait().expect("a child");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut message = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut message).expect("text");
    (status.code(), message, begin.elapsed())
}

/// Everything below a folder: names, and the contents of files that are not too long to look at.
fn look(folder: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let short = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() < 1 << 20);
        found.push((path.to_string_lossy().into_owned(), short.then(|| fs::read(&path).expect("a file"))));
        if path.is_dir() {
            found.extend(look(&path));
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => fs::copy(entry.path(), to).map(|_| ()).expect("a copy"),
        }
    }
}

/// What is wrong with how a case ended, if anything; `trained` is a run on the digits.
pub fn verdict(trained: &str, folder: &Path, case: &Case) -> Option<String> {
    fs::create_dir_all(folder).expect("a folder");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let out = match case.used {
        Use::Compress => "out.safetensors",
        Use::Report => "out.html",
        Use::Export => "out",
        _ => "out.csv",
    };
    let (path, out, busy) = (folder.join(case.file), folder.join(out), text(&folder.join("busy")));
    fs::create_dir_all(&busy).and_then(|()| fs::write(folder.join("busy/file"), "")).expect("a folder");
    if matches!(case.used, Use::Inspect | Use::Report | Use::Export) {
        copy(Path::new(trained), &folder.join("run"));
    }
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, &case.bytes).expect("a file");
    if let Some(len) = case.len {
        fs::File::options().write(true).open(&path).and_then(|file| file.set_len(len)).expect("a long file");
    }
    for sibling in case.siblings {
        let file = fs::File::create(path.with_file_name(sibling)).expect("a file");
        file.set_len(case.siblings_len).expect("a long file");
    }
    let (file, out, here, run_folder) = (text(&path), text(&out), text(folder), text(&folder.join("run")));
    let set = format!("data.set={file}");
    let args: Vec<&str> = match case.used {
        Use::Predict => vec!["predict", trained, "--input", &file, "--out", &out, "--samples", "2"],
        Use::Configure => vec!["train", "--config", &file, "--out", &busy, "--quiet"],
        Use::Train(preset) => vec!["train", "--preset", preset, "--data", &here, "--out", &busy, "--force", "--quiet"],
        Use::TrainOn => {
            let sizes = ["--set", "model.sizes=64,4,10", "--set", "train.batch=1", "--set", &set];
            [&["train", "--preset", "mlp-digits", "--out", &busy, "--quiet"][..], &sizes].concat()
        }
        Use::Compress => vec!["compress", &file, "--names", "bayesian-torch", "--rank", "1", "--out", &out],
        Use::Inspect => vec!["inspect", &run_folder],
        Use::Report => vec!["report", &run_folder, "--no-data", "--out", &out],
        Use::Export => vec!["export", &run_folder, "--out", &out],
    };
    let before = look(folder);
    let (code, message, took) = run(&args);
    let accepted = match case.used {
        Use::Configure | Use::Train(_) | Use::TrainOn => code == Some(2) && message.contains("busy is not empty"),
        _ => code == Some(0),
    };
    let name = Path::new(case.file).file_name().expect("a name").to_string_lossy();
    let refused =
        |expected: i32, part: &str| code == Some(expected) && message.contains(&*name) && message.contains(part);
    let fits = match case.expect {
        Expect::Accepted => accepted,
        Expect::Either(expected) => accepted || refused(expected, ""),
        Expect::EitherByKey(expected) => accepted || code == Some(expected),
        Expect::RefusedElsewhere(expected) => code == Some(expected),
        Expect::Refused(expected, part) => !accepted && refused(expected, part),
    };
    let is_wanted = |name: &str| accepted && Path::new(name).starts_with(&out);
    let after: Vec<_> = look(folder).into_iter().filter(|(name, _)| !is_wanted(name)).collect();
    // A file with several faults has a line for each, and one that is no TOML is shown.
    let is_one = case.file.ends_with(".toml") || message.trim_end().lines().count() == 1;
    let spoken = code == Some(0) || (message.starts_with("ktied: ") && is_one);
    let _ = fs::remove_dir_all(folder);
    let good = fits && after == before && spoken && took < LIMIT && !message.contains("panicked");
    (!good).then(|| format!("{}: code {code:?}, {took:?}, as before {}: {message}", case.name, after == before))
}
