//! Files given to a reader, one after another, and what it may not do with them.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use crate::guide::Guide;
use crate::memory;
use crate::mutate::Mutator;

/// Files that a run without more time makes.
const RUNS: u64 = 2000;
/// Bytes that a reader may hold at most: some, and a multiple of the file.
const MEMORY: usize = 48 << 20;
const MEMORY_PER_BYTE: usize = 64;
/// Longest time for one file,
pub const PATIENCE: Duration = Duration::from_secs(2);
/// and how often it must take longer: a machine that is busy with other things takes its time now and then, a file every time.
const TRIES: usize = 3;
/// Files between two looks at the clock,
const GLANCE: u64 = 64;
/// and time between two reports of a long run.
const REPORT: Duration = Duration::from_secs(60);

/// A file with a reader that did what no reader may do.
#[derive(Debug)]
pub struct Finding {
    pub bytes: Vec<u8>,
    pub reason: String,
}

/// A run so far.
#[derive(Default)]
pub struct Tally {
    pub tried: u64,
    pub accepted: u64,
    /// Processor time.
    pub time: Duration,
    /// Files besides the given ones that lead further into the reader than all others, where the program counts that.
    pub found: Vec<Vec<u8>>,
}

/// Whether a reader accepts these bytes.
pub type Read<'a> = &'a dyn Fn(&[u8]) -> bool;

/// A reader under fire.
pub struct Run<'a> {
    read: Read<'a>,
    mutator: Mutator,
    guide: Option<Guide>,
    /// Those written by hand, those that earlier runs found, and those of this one.
    files: Vec<Vec<u8>>,
    num_written: usize,
    num_given: u64,
    tally: Tally,
}

impl<'a> Run<'a> {
    /// A run from these files, of which the first ones were written by hand.
    pub fn new(read: Read<'a>, files: Vec<Vec<u8>>, num_written: usize, seed: u64) -> Self {
        let (mutator, guide, num_given) = (Mutator::new(seed), Guide::new(), files.len() as u64);
        Self { read, mutator, guide, files, num_written, num_given, tally: Tally::default() }
    }

    /// Tries the files given, and as many made from them as a run without more time makes.
    pub fn briefly(mut self) -> Result<Tally, Finding> {
        (0..self.num_given + RUNS).try_for_each(|_| self.step())?;
        Ok(self.tally)
    }

    /// Tries the files given, and files made from them until the time is up; `report` is told every minute how far it is.
    pub fn long(mut self, time: Duration, report: impl Fn(&Tally)) -> Result<Tally, Finding> {
        let clock = Instant::now();
        let (begin, mut next) = (busy(clock), REPORT);
        while self.tally.time < time {
            (0..GLANCE).try_for_each(|_| self.step())?;
            self.tally.time = busy(clock).saturating_sub(begin);
            if self.tally.time >= next.min(time) {
                next += REPORT;
                self.tally.found = self.found();
                report(&self.tally);
            }
        }
        Ok(self.tally)
    }

    fn step(&mut self) -> Result<(), Finding> {
        let is_given = self.tally.tried < self.num_given;
        let bytes = match self.files.get(self.tally.tried as usize) {
            Some(bytes) if is_given => bytes.clone(),
            _ => self.mutator.next(&self.files),
        };
        let accepted = try_file(self.read, &bytes, self.guide.as_ref())?;
        self.tally.tried += 1;
        self.tally.accepted += u64::from(accepted);
        if self.guide.as_mut().is_some_and(Guide::learn) && !is_given {
            self.files.push(bytes);
        }
        Ok(())
    }

    /// As few of the files that were not written by hand as lead as far as all of them, short ones first.
    fn found(&self) -> Vec<Vec<u8>> {
        let Some(mut guide) = Guide::new() else { return vec![] };
        let mut leads_on = |bytes: &Vec<u8>| {
            // What it may not do has been found out already.
            try_once(self.read, bytes, Some(&guide)).ok();
            guide.learn()
        };
        let (written, found) = self.files.split_at(self.num_written);
        written.iter().for_each(|bytes| _ = leads_on(bytes));
        let mut found = found.to_vec();
        found.sort_by_key(Vec::len);
        found.retain(leads_on);
        found
    }
}

/// Gives one file to a reader; whether it was accepted.
fn try_file(read: Read, bytes: &[u8], guide: Option<&Guide>) -> Result<bool, Finding> {
    let mut took = Duration::ZERO;
    for _ in 0..TRIES {
        let accepted;
        (accepted, took) = try_once(read, bytes, guide)?;
        if took <= PATIENCE {
            return Ok(accepted);
        }
    }
    Err(Finding { bytes: bytes.to_vec(), reason: format!("took {took:?}") })
}

/// The same once, and how long it took.
fn try_once(read: Read, bytes: &[u8], guide: Option<&Guide>) -> Result<(bool, Duration), Finding> {
    let finding = |reason: String| Finding { bytes: bytes.to_vec(), reason };
    memory::begin();
    guide.into_iter().for_each(Guide::begin);
    let begin = Instant::now();
    let accepted = panic::catch_unwind(AssertUnwindSafe(|| read(bytes)));
    let (peak, took) = (memory::peak(), begin.elapsed());
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
