//! Every reader of files that come from strangers, fed with broken ones made from good ones: whatever the bytes, it says
//! yes or gives an error; it does not panic, take memory out of proportion or take long.
//!
//! A run of the tests tries the same 2,000 files for each reader. With `KTIED_FUZZ_SECONDS` each is tried for so much time of
//! a processor, `KTIED_FUZZ_THREADS` of them side by side (as many as there are processors), those that `KTIED_FUZZ_ONLY` names
//! if it is set, and `KTIED_FUZZ_SEED` makes other files. What a longer run finds belongs into `corpus/`, whose files are always
//! tried first.

mod mutate;
mod readers;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mutate::Mutator;
use readers::{READERS, Reader};

/// Files that a run without more time tries.
const RUNS: u64 = 2000;
/// Bytes that a reader may hold at most: some, and a multiple of the file.
const MEMORY: usize = 48 << 20;
const MEMORY_PER_BYTE: usize = 64;
/// Longest time for one file,
const PATIENCE: Duration = Duration::from_secs(2);
/// and how often it must take longer: a machine that is busy with other things takes its time now and then, a file every time.
const TRIES: usize = 3;
/// Files between two looks at the clock.
const GLANCE: u64 = 64;

thread_local! {
    /// Bytes that this thread holds more than it held at the beginning of a run, and the most so far.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    // A thread that is being taken down has no counters any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it came; the counters are beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A file with a reader that did what no reader may do.
#[derive(Debug)]
struct Finding {
    bytes: Vec<u8>,
    reason: String,
}

/// Gives one file to a reader; whether it was accepted.
fn try_file(read: &dyn Fn(&[u8]) -> bool, bytes: &[u8]) -> Result<bool, Finding> {
    let mut took = Duration::ZERO;
    for _ in 0..TRIES {
        let accepted;
        (accepted, took) = try_once(read, bytes)?;
        if took <= PATIENCE {
            return Ok(accepted);
        }
    }
    Err(Finding { bytes: bytes.to_vec(), reason: format!("took {took:?}") })
}

/// The same once, and how long it took.
fn try_once(read: &dyn Fn(&[u8]) -> bool, bytes: &[u8]) -> Result<(bool, Duration), Finding> {
    let finding = |reason: String| Finding { bytes: bytes.to_vec(), reason };
    HELD.set(0);
    PEAK.set(0);
    let begin = Instant::now();
    let accepted = panic::catch_unwind(AssertUnwindSafe(|| read(bytes)));
    let (peak, took) = (PEAK.get().max(0) as usize, begin.elapsed());
    let accepted = accepted.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        finding(text.or_else(|| payload.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default())
    })?;
    let allowed = MEMORY + MEMORY_PER_BYTE * bytes.len();
    if peak > allowed {
        return Err(finding(format!("{peak} bytes held, {allowed} allowed")));
    }
    Ok((accepted, took))
}

/// Time that a processor has spent on the calling thread, which waits for others on a busy machine; time of the clock where the
/// system does not tell.
fn busy(begin: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

/// Tries the corpus, and then files made from it; returns how many, and how many of them were accepted.
fn fuzz(
    read: &dyn Fn(&[u8]) -> bool,
    corpus: &[Vec<u8>],
    seed: u64,
    time: Option<Duration>,
) -> Result<[u64; 2], Finding> {
    let (mut mutator, clock, mut counts) = (Mutator::new(seed), Instant::now(), [0, 0]);
    let begin = busy(clock);
    let mut note = |accepted: bool| {
        counts = [counts[0] + 1, counts[1] + u64::from(accepted)];
        counts
    };
    for bytes in corpus {
        note(try_file(read, bytes)?);
    }
    loop {
        let counts = note(try_file(read, &mutator.next(corpus))?);
        let is_over = match time {
            Some(time) => counts[0].is_multiple_of(GLANCE) && busy(clock).saturating_sub(begin) >= time,
            None => counts[0] >= RUNS,
        };
        if is_over {
            return Ok(counts);
        }
    }
}

fn corpus_of(reader: &Reader) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(reader.name);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

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
    let files: Vec<Vec<u8>> = corpus_of(reader).into_iter().map(|(_, bytes)| bytes).collect();
    let folder = readers::Scratch::new(reader.name);
    match fuzz(&|bytes| (reader.read)(&folder, bytes), &files, seed, time) {
        Ok([tried, accepted]) => (number, format!("{:20} {tried} files, {accepted} accepted", reader.name), true),
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

#[test]
fn good_files_are_accepted_and_bad_ones_refused() {
    let mut wrong: Vec<String> = vec![];
    for reader in READERS {
        let folder = readers::Scratch::new(&format!("{}-corpus", reader.name));
        for (path, bytes) in corpus_of(reader) {
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
    let found = [fuzz(&panics, &corpus, 0, None), fuzz(&fills, &corpus, 0, None), fuzz(&waits, &corpus, 0, None)];
    let [panics, fills, waits] = found.map(|found| found.unwrap_err().reason);
    assert!(panics.contains("range end index") || panics.contains("out of range"), "{panics}");
    assert!(fills.contains("bytes held") && waits.contains("took"), "{fills}, {waits}");
}
