//! Every reader of files that come from strangers, fed with broken ones made from good ones: whatever the bytes, it says
//! yes or gives an error; it does not panic, take memory out of proportion or take long.
//!
//! A run of the tests tries the same 2,000 files for each reader. With `KTIED_FUZZ_SECONDS` each is tried for so much time of
//! a processor, `KTIED_FUZZ_THREADS` of them side by side (as many as there are processors), those that `KTIED_FUZZ_ONLY` names
//! if it is set, and `KTIED_FUZZ_SEED` makes other files. The script `guided` builds the program so that it counts its branches:
//! then files that lead further into a reader are changed again, and those are kept in `found/`. A file that a reader stumbles over
//! belongs into `corpus/`. Both are always tried first.

mod corpus;
mod guide;
mod memory;
mod mutate;
mod readers;
mod run;

use std::path::Path;
use std::time::Duration;

use readers::{READERS, Reader};
use run::{Finding, PATIENCE, Read, Run, Tally};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
}

#[test]
fn no_file_makes_a_reader_panic_or_take_more_than_its_share() {
    let (seed, time) = (number("KTIED_FUZZ_SEED").unwrap_or(0), number("KTIED_FUZZ_SECONDS").map(Duration::from_secs));
    // Readers are tried side by side; what they print is in the order of the list.
    let next = std::sync::atomic::AtomicUsize::new(0);
    let only = std::env::var("KTIED_FUZZ_ONLY").ok();
    let is_wanted = |reader: &&Reader| only.as_ref().is_none_or(|only| only.split(',').any(|name| name == reader.name));
    let wanted: Vec<&Reader> = READERS.iter().filter(is_wanted).collect();
    let is_known = only.as_ref().is_none_or(|only| only.split(',').count() == wanted.len());
    assert!(is_known, "KTIED_FUZZ_ONLY names a reader that is not there");
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let threads = number("KTIED_FUZZ_THREADS").unwrap_or(processors);
    assert!(threads == 1 || !guide::is_there(), "branches are counted for the whole program: KTIED_FUZZ_THREADS=1");
    let mut outcomes: Vec<(usize, String, bool)> = std::thread::scope(|scope| {
        let worker = || {
            let mut outcomes = vec![];
            loop {
                let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(reader) = wanted.get(number) else { return outcomes };
                outcomes.push(outcome(number, reader, seed, time));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    outcomes.sort();
    outcomes.iter().for_each(|(_, line, _)| println!("{line}"));
    let failed: Vec<&str> = outcomes.iter().filter(|(_, _, ok)| !ok).map(|(_, line, _)| line.as_str()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn outcome(number: usize, reader: &Reader, seed: u64, time: Option<Duration>) -> (usize, String, bool) {
    let (written, found) = (corpus::written(reader.name), corpus::found(reader.name));
    let num_written = written.len();
    let files = written.into_iter().map(|(_, bytes)| bytes).chain(found).collect();
    let folder = readers::Scratch::new(reader.name);
    let read = |bytes: &[u8]| (reader.read)(&folder, bytes);
    let run = Run::new(&read, files, num_written, seed);
    let tallied = match time {
        Some(time) => run.long(time, |tally| report(reader.name, tally, time)),
        None => run.briefly(),
    };
    match tallied {
        Ok(tally) => (number, line(reader.name, &tally), true),
        Err(Finding { bytes, reason }) => {
            let name = format!("{}-{}.found", reader.name, ktied::data::digest::sha256(&bytes).get(..8).unwrap_or(""));
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            let kept = match std::fs::write(&path, &bytes) {
                Ok(()) => path.display().to_string(),
                Err(error) => format!("not kept: {error}"),
            };
            (number, format!("{}: {reason} ({} bytes, {kept})", reader.name, bytes.len()), false)
        }
    }
}

/// Every minute of a long run and at its end; what it has found is kept, so that it may be broken off.
fn report(reader: &str, tally: &Tally, time: Duration) {
    if tally.time < time {
        eprintln!("{} after {} of {} s", line(reader, tally), tally.time.as_secs(), time.as_secs());
    }
    if guide::is_there() {
        corpus::keep(reader, &tally.found);
    }
}

fn line(reader: &str, tally: &Tally) -> String {
    let (tried, accepted, found) = (tally.tried, tally.accepted, &tally.found);
    let kept = if guide::is_there() { format!(", {} kept", found.len()) } else { String::new() };
    format!("{reader:20} {tried} files, {accepted} accepted{kept}")
}

#[test]
fn good_files_are_accepted_and_bad_ones_refused() {
    let mut wrong: Vec<String> = vec![];
    for reader in READERS {
        let folder = readers::Scratch::new(&format!("{}-corpus", reader.name));
        for (path, bytes) in corpus::written(reader.name) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let accepted = (reader.read)(&folder, &bytes);
            if accepted == reader.refused.contains(&name.as_str()) {
                wrong.push(format!("{}/{name}", reader.name));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "accepted though bad, or refused though good");
}

#[test]
fn a_reader_that_trusts_its_file_is_found_out() {
    let corpus = vec![vec![4, 1, 2, 3, 4]];
    // The first byte is the length of the rest; each of these believes it.
    let panics = |bytes: &[u8]| bytes.first().is_some_and(|&len| bytes[1..1 + len as usize].len() == len as usize);
    let fills = |bytes: &[u8]| {
        let claimed = bytes.iter().take(4).fold(0usize, |n, &b| n << 7 | usize::from(b));
        Vec::<u8>::with_capacity(claimed).capacity() == claimed
    };
    let waits = |bytes: &[u8]| {
        if bytes.len() > 64 {
            std::thread::sleep(PATIENCE + Duration::from_millis(50));
        }
        true
    };
    let readers: [Read; 3] = [&panics, &fills, &waits];
    let found = readers.map(|read| Run::new(read, corpus.clone(), 1, 0).briefly());
    let [panics, fills, waits] = found.map(|found| found.err().unwrap().reason);
    assert!(panics.contains("range end index") || panics.contains("out of range"), "{panics}");
    assert!(fills.contains("bytes held") && waits.contains("took"), "{fills}, {waits}");
}

/// Four bytes have to be right, one after another: by chance that takes four thousand million files.
#[test]
fn what_is_deep_in_a_reader_is_found_where_branches_are_counted() {
    let deep = |bytes: &[u8]| {
        let is = |at: usize, byte: u8| std::hint::black_box(bytes).get(at) == Some(&byte);
        if is(0, b'k') && is(1, b't') && is(2, b'i') && is(3, b'e') {
            panic!("deep");
        }
        true
    };
    let run = Run::new(&deep, vec![vec![0; 8]], 1, 0);
    match guide::is_there() {
        true => assert_eq!(run.long(Duration::from_secs(300), |_| {}).err().unwrap().reason, "deep"),
        false => assert!(run.briefly().is_ok()),
    }
}
