//! Broken and hostile files against the real program: whatever they are, it ends soon, with the right code and one sentence that
//! names the file, within a limit of memory, and nothing is written.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};
use support::{Folder, ok};

/// Longest time for one case; one that takes longer is tried once more, in case the machine was busy with something else.
const LIMIT: Duration = Duration::from_secs(2);
/// When a case is stopped.
const PATIENCE: Duration = Duration::from_secs(10);
/// Address space that a case may have, in KiB: with 100 MiB the program predicts, with 60 its threads do not start; and half a
/// gigabyte more.
const ADDRESS_SPACE: u64 = (100 << 10) + (512 << 10);
/// Pixels of a digit.
const PIXELS: usize = 64;

/// How a case may end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expect {
    /// With this code, and a sentence that names the file and has this in it.
    Refused(i32, &'static str),
    /// Refused because of the data, or accepted: a flipped bit may leave a file good.
    Either,
    Accepted,
}

struct Case {
    name: String,
    file: &'static str,
    bytes: Vec<u8>,
    expect: Expect,
}

fn case(name: impl Into<String>, file: &'static str, bytes: Vec<u8>, expect: Expect) -> Case {
    Case { name: name.into(), file, bytes, expect }
}

fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let dict = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let header = format!("{dict:<117}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

fn digits(rows: usize) -> Vec<u8> {
    (0..rows * PIXELS).map(|i| (i % 17) as u8).collect()
}

fn idx(dims: &[u32], data: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| dim.to_be_bytes()).collect();
    [&[0, 0, 8, (dims.len() / 4) as u8][..], &dims, data].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory is enough")
}

/// A zip archive of stored members.
fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (vec![], vec![]);
    for (name, data) in members {
        let mut crc = Crc::new();
        crc.update(data);
        let (len, name_len) = ((data.len() as u32).to_le_bytes(), (name.len() as u16).to_le_bytes());
        let common = [&[20, 0, 0, 0, 0, 0, 0, 0, 33, 0], &crc.sum().to_le_bytes()[..], &len, &len, &name_len, &[0, 0]];
        let at = (out.len() as u32).to_le_bytes();
        out.extend([b"PK\x03\x04", &common.concat()[..], name.as_bytes(), data].concat());
        let rest = [&[0; 10][..], &at, name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\x00", &common.concat()[..], &rest].concat());
    }
    let (count, len) = ((members.len() as u16).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let at = (out.len() as u32).to_le_bytes();
    out.extend(directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &len, &at, &[0, 0]].concat());
    out
}

/// Every truncation, and every bit of the first bytes flipped.
fn damaged(file: &'static str, good: &[u8], header: usize) -> Vec<Case> {
    let mut cases = vec![case(format!("{file} whole"), file, good.to_vec(), Expect::Accepted)];
    for len in 0..good.len() {
        cases.push(case(format!("{file} cut to {len}"), file, good[..len].to_vec(), Expect::Refused(3, "")));
    }
    for bit in 0..8 * header.min(good.len()) {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        cases.push(case(format!("{file} bit {bit}"), file, bytes, Expect::Either));
    }
    cases
}

fn lies() -> Vec<Case> {
    let (good, data) = (npy("'|u1'", "False", "(1, 64)", &digits(1)), digits(1));
    let array = |name: &str, descr: &str, shape: &str, part| {
        case(format!("npy {name}"), "x.npy", npy(descr, "False", shape, &data), Expect::Refused(3, part))
    };
    let packed = gzip(&idx(&[1, 8, 8], &data));
    let two = [&packed[..], &packed].concat();
    let bomb = gzip(&idx(&[1 << 14, 8, 8], &vec![0; 64 << 14]));
    vec![
        array("of objects", "'|O'", "(1, 64)", "|O"),
        array("big-endian", "'>f8'", "(1, 8)", ">f8"),
        array("of texts", "'<U4'", "(1, 4)", "<U4"),
        array("of terabytes", "'<f8'", "(1000000000000, 64)", ""),
        array("whose size overflows", "'<f8'", "(4294967296, 4294967296, 64)", ""),
        array("of more than there is", "'|u1'", "(2, 64)", "expected 128 bytes"),
        array("of a negative size", "'|u1'", "(-1, 64)", ""),
        array("of another width", "'|u1'", "(2, 32)", "64"),
        case("npy in Fortran order", "x.npy", npy("'|u1'", "True", "(1, 64)", &data), Expect::Refused(3, "order")),
        case("npy with more after it", "x.npy", [&good[..], b"!"].concat(), Expect::Refused(3, "found more")),
        case("npy of another magic", "x.npy", [b"NUMPY!", &good[6..]].concat(), Expect::Refused(3, "")),
        case("npy with NaN", "x.npy", npy("'<f4'", "False", "(1, 64)", &[0xff; 256]), Expect::Refused(3, "")),
        case("idx of terabytes", "x-idx3-ubyte", idx(&[u32::MAX, 8, 8], &data), Expect::Refused(3, "")),
        case("idx whose size overflows", "x-idx3-ubyte", idx(&[u32::MAX; 3], &data), Expect::Refused(3, "")),
        case("idx with more after it", "x-idx3-ubyte", idx(&[1, 8, 8], &digits(2)), Expect::Refused(3, "found more")),
        case("idx of pixels that are no digits'", "x-idx3-ubyte", idx(&[1, 8, 8], &[99; 64]), Expect::Refused(3, "")),
        case("gzip of two members", "x-idx3-ubyte.gz", two, Expect::Refused(3, "")),
        case("gzip with more after it", "x-idx3-ubyte.gz", [&packed[..], b"!"].concat(), Expect::Refused(3, "")),
        case("gzip that is none", "x-idx3-ubyte.gz", digits(1), Expect::Refused(3, "")),
        // A thousand times its size when it is unpacked, and then it ends too soon.
        case("bomb of a wrong count", "x-idx3-ubyte.gz", bomb[..bomb.len() / 2].to_vec(), Expect::Refused(3, "")),
        // A name is only a name: nothing is unpacked to a path.
        case("npz with a path", "x.npz", zip(&[("../x.npy", &good)]), Expect::Accepted),
        case("npz with a name twice", "x.npz", zip(&[("x.npy", &good), ("x.npy", &good)]), Expect::Refused(3, "x")),
        case("npz without an array", "x.npz", zip(&[("readme.txt", b"none")]), Expect::Refused(3, "")),
        case("npz of nothing", "x.npz", zip(&[]), Expect::Refused(3, "")),
        case("npz with more after it", "x.npz", [&zip(&[("x.npy", &good)])[..], b"!"].concat(), Expect::Either),
        case("no form that is read", "x.pickle", good, Expect::Refused(3, "")),
    ]
}

fn tables() -> Vec<Case> {
    let row = |cell: &str| vec![cell; PIXELS].join(",");
    let names = (0..PIXELS).map(|i| format!("p{i}")).collect::<Vec<_>>().join(",");
    let table = |name: &str, text: String, expect| case(format!("csv {name}"), "x.csv", text.into_bytes(), expect);
    let refused = |part| Expect::Refused(3, part);
    vec![
        table("whole", format!("{names}\n{}\n", row("3")), Expect::Accepted),
        // No line, no example.
        table("of nothing", String::new(), Expect::Accepted),
        table("of NaN", format!("{names}\n{}\n", row("NaN")), refused("line 2")),
        table("of inf", format!("{names}\n{}\n", row("inf")), refused("line 2")),
        table("of 1e999", format!("{names}\n{}\n", row("1e999")), refused("line 2")),
        table("of words", format!("{names}\n{}\n", row("three")), refused("line 2")),
        table("of empty cells", format!("{names}\n{}\n", row("")), refused("line 2")),
        table("short of a cell", format!("{names}\n{}\n", row("3").trim_end_matches(",3")), refused("line 2")),
        table("with a cell more", format!("{names}\n{},3\n", row("3")), refused("line 2")),
        table("with a bad third line", format!("{names}\n{}\n{}\n", row("3"), row("x")), refused("line 3")),
        table("with an open quote", format!("{names}\n\"{}\n", row("3")), refused("")),
        table("with NUL", format!("{names}\n{}\n", row("\0")), refused("")),
        table("of one endless line", "3,".repeat(1 << 20), refused("")),
        case("csv of no UTF-8", "x.csv", vec![0xff; 300], refused("")),
    ]
}

/// One run of the program: its code, what it says, and how long it takes.
fn run(args: &[&str]) -> (Option<i32>, String, Duration) {
    let first = run_once(args);
    if first.2 < LIMIT { first } else { run_once(args) }
}

fn run_once(args: &[&str]) -> (Option<i32>, String, Duration) {
    // The shell sets the limit and becomes the program.
    let script = format!("ulimit -v {ADDRESS_SPACE}; exec \"$0\" \"$@\"");
    let begin = Instant::now();
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_ktied")]).args(args).args(["--threads", "2"]);
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

/// What is wrong with how a case ended, if anything.
fn verdict(run_folder: &str, folder: &Path, case: &Case) -> Option<String> {
    fs::create_dir_all(folder).expect("a folder");
    let (path, out) = (folder.join(case.file), folder.join("out.csv"));
    fs::write(&path, &case.bytes).expect("a file");
    let [input, output] = [&path, &out].map(|path| path.to_string_lossy().into_owned());
    let (code, message, took) = run(&["predict", run_folder, "--input", &input, "--out", &output, "--samples", "2"]);
    let refused = |code: Option<i32>, part: &str| {
        code.is_some_and(|code| code == 3) && message.contains(case.file) && message.contains(part)
    };
    let fits = match case.expect {
        Expect::Accepted => code == Some(0),
        Expect::Either => code == Some(0) || refused(code, ""),
        Expect::Refused(expected, part) => code == Some(expected) && refused(code, part),
    };
    let unchanged = fs::read(&path).is_ok_and(|bytes| bytes == case.bytes);
    let leftovers = fs::read_dir(folder).expect("a folder").count() - 1;
    let clean = leftovers == usize::from(code == Some(0));
    let spoken = code == Some(0) || (message.starts_with("ktied: ") && message.trim_end().lines().count() == 1);
    let _ = fs::remove_dir_all(folder);
    let good = fits && unchanged && clean && spoken && took < LIMIT && !message.contains("panicked");
    (!good).then(|| format!("{}: code {code:?}, {took:?}, {leftovers} left: {message}", case.name))
}

#[test]
fn every_broken_input_is_refused_by_name_and_nothing_is_written() {
    let folder = Folder::new("hostile");
    let trained = folder.join("run");
    ok(&["train", "--preset", "mlp-digits", "--set", "train.steps=1", "--quiet", "--out", &trained]);
    let array = npy("'|u1'", "False", "(1, 64)", &digits(1));
    let mut cases = damaged("x.npy", &array, 48);
    cases.extend(damaged("x-idx3-ubyte", &idx(&[1, 8, 8], &digits(1)), 16));
    cases.extend(damaged("x-idx3-ubyte.gz", &gzip(&idx(&[1, 8, 8], &digits(1))), 10));
    cases.extend(damaged("x.npz", &zip(&[("x.npy", &array)]), 30));
    cases.extend(lies());
    cases.extend(tables());
    let (next, threads) = (AtomicUsize::new(0), std::thread::available_parallelism().map_or(1, |n| n.get()));
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut wrong = vec![];
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(number) else { return wrong };
                wrong.extend(verdict(&trained, &folder.0.join(number.to_string()), case));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    println!("{} cases", cases.len());
    assert!(cases.len() >= 400 && wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = Folder::new("no-file");
    let trained = folder.join("run");
    ok(&["train", "--preset", "mlp-digits", "--set", "train.steps=1", "--quiet", "--out", &trained]);
    let (out, tensors) = (folder.join("out.csv"), folder.join("out.safetensors"));
    for file in ["x.npy", "x.npz", "x.csv", "x.txt", "x-idx3-ubyte", "x.toml", "x.safetensors"] {
        for kind in ["a folder", "a pipe or a device", "nothing"] {
            let path = folder.join(&format!("{}-{file}", kind.len()));
            match kind {
                "a folder" => fs::create_dir(&path).expect("a folder"),
                "a pipe or a device" => {
                    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
                }
                _ => {}
            }
            let args: Vec<&str> = match file {
                "x.toml" => vec!["train", "--config", &path, "--out", &out],
                "x.safetensors" => vec!["compress", &path, "--out", &tensors, "--names", "tfp", "--rank", "1"],
                _ => vec!["predict", &trained, "--input", &path, "--out", &out],
            };
            let (code, message, took) = run(&args);
            // A folder may be one of PNG images, and this one has none, or a run, and this one is none.
            let is_right = matches!(code, Some(3 | 6)) || (code == Some(2) && kind == "a folder");
            assert!(is_right, "{file}, {kind}: {code:?} {message}");
            assert!(message.contains(&path) && took < LIMIT, "{file}, {kind}: {message}");
            assert!(!Path::new(&out).exists() && !Path::new(&tensors).exists(), "{file}, {kind}");
        }
    }
}
