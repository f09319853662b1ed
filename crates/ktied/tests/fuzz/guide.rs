//! Which branches of the program a file made it take, where the program was built to count them (the script `guided`): a
//! file that leads further than all before it is worth changing again. An ordinary build counts nothing.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The counters of all branches, a byte each, which compiled code advances by itself.
static COUNTERS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static NUM_COUNTERS: AtomicUsize = AtomicUsize::new(0);

/// What a build that counts calls before `main`.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(begin: *mut u8, end: *mut u8) {
    COUNTERS.store(begin, Ordering::Relaxed);
    NUM_COUNTERS.store(end.addr() - begin.addr(), Ordering::Relaxed);
}

/// Whether this program counts its branches.
pub fn is_there() -> bool {
    NUM_COUNTERS.load(Ordering::Relaxed) > 0
}

/// The branches taken so far, and about how often in one file.
pub struct Guide {
    counts: Vec<u8>,
    /// A bit for each magnitude of a count.
    seen: Vec<u8>,
}

impl Guide {
    /// Nothing where nothing is counted.
    pub fn new() -> Option<Self> {
        let len = NUM_COUNTERS.load(Ordering::Relaxed);
        is_there().then(|| Self { counts: vec![0; len], seen: vec![0; len] })
    }

    /// Before a file is read.
    pub fn begin(&self) {
        // SAFETY: the counters live as long as the program, and there are as many as `counts` has places. They are plain memory
        // that compiled code advances, and a build that has them tries one file at a time.
        unsafe { COUNTERS.load(Ordering::Relaxed).write_bytes(0, self.counts.len()) }
    }

    /// Whether the file that was read since `begin` took a branch that none before it took, or took one far more often.
    pub fn learn(&mut self) -> bool {
        // The counters go on counting while they are looked at, so a copy is.
        // SAFETY: as above; the copy is memory of our own.
        unsafe { COUNTERS.load(Ordering::Relaxed).copy_to_nonoverlapping(self.counts.as_mut_ptr(), self.counts.len()) }
        let mut is_new = false;
        for (counts, seen) in self.counts.chunks(64).zip(self.seen.chunks_mut(64)) {
            // Nearly all branches of the program are none of the reader's.
            if counts.iter().fold(0, |any, count| any | count) == 0 {
                continue;
            }
            for (count, seen) in counts.iter().zip(seen) {
                let bit = magnitude(*count);
                is_new |= bit & !*seen != 0;
                *seen |= bit;
            }
        }
        is_new
    }
}

/// A bit for 1, 2, 3, and then for each next power of two or so.
fn magnitude(count: u8) -> u8 {
    match count {
        0 => 0,
        1..=3 => 1 << (count - 1),
        4..=7 => 1 << 3,
        8..=15 => 1 << 4,
        16..=31 => 1 << 5,
        32..=127 => 1 << 6,
        128.. => 1 << 7,
    }
}
