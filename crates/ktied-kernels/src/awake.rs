//! Threads that look out for work while a step runs, instead of going to sleep between its kernels.
//!
//! The kernels of a step lie some tens of microseconds apart. A worker of rayon's that finds nothing to do goes to sleep within that
//! time, and waking it costs about as much as a small kernel, a few per cent of a step in all (docs/performance.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::Yield;

/// Keeps the workers of the pool that it is made in from sleeping, until it is dropped.
///
/// It changes no result, only when threads wait. One at a time does so in a process; others do nothing, as do those of a pool with
/// more threads than there are processors. A worker that has had nothing to do for some milliseconds takes naps after all.
///
/// ```
/// let _awake = ktied_kernels::Awake::begin();
/// // One kernel after another.
/// ```
#[derive(Debug)]
#[must_use = "workers go to sleep again when it is dropped"]
pub struct Awake(Option<Arc<Watch>>);

/// Whether workers of any pool are kept awake.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// How long to wait for the workers, which may be asleep. If one does not come in time, it is done without all of them.
const PATIENCE: Duration = Duration::from_micros(200);
/// Fruitless looks after which the operating system is asked whether somebody else needs the processor.
const LOOKS_TO_YIELD: u32 = 64;
/// Fruitless looks, some milliseconds of them, after which naps begin.
const LOOKS_TO_NAP: u32 = 1 << 14;
const NAP: Duration = Duration::from_micros(100);

impl Awake {
    /// Wakes the workers of the pool that is called from, or of the global one.
    pub fn begin() -> Self {
        let (num_threads, own) = (rayon::current_num_threads(), rayon::current_thread_index());
        let others = num_threads - usize::from(own.is_some());
        let has_room = std::thread::available_parallelism().is_ok_and(|cores| num_threads <= cores.get());
        if others == 0 || !has_room || IS_TAKEN.swap(true, Ordering::Acquire) {
            return Self(None);
        }
        let watch = Arc::new(Watch::default());
        let awake = Self(Some(watch.clone()));
        let theirs = watch.clone();
        // To every worker by itself: a task for any of them could be taken up by the one that waits for its end.
        rayon::spawn_broadcast(move |context| {
            if Some(context.index()) != own {
                theirs.look_out();
            }
        });
        // A worker must look out from its idle place and not from within a kernel of this step, which would then not end: so the first
        // kernel begins after all have come.
        let begin = Instant::now();
        while watch.num_awake.load(Ordering::Acquire) < others {
            if begin.elapsed() > PATIENCE {
                return Self(None);
            }
            std::hint::spin_loop();
        }
        awake
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        if let Some(watch) = self.0.take() {
            watch.is_over.store(true, Ordering::Release);
            IS_TAKEN.store(false, Ordering::Release);
        }
    }
}

/// What the workers of one [`Awake`] share.
#[derive(Debug, Default)]
struct Watch {
    is_over: AtomicBool,
    num_awake: AtomicUsize,
}

impl Watch {
    /// Does whatever work there is until the watch is over.
    fn look_out(&self) {
        self.num_awake.fetch_add(1, Ordering::Release);
        let mut fruitless = 0_u32;
        while !self.is_over.load(Ordering::Acquire) {
            if rayon::yield_now() == Some(Yield::Executed) {
                fruitless = 0;
                continue;
            }
            fruitless = fruitless.saturating_add(1);
            if fruitless > LOOKS_TO_NAP {
                std::thread::sleep(NAP);
            } else if fruitless.is_multiple_of(LOOKS_TO_YIELD) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    fn in_pool<T: Send>(threads: usize, task: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(task)
    }

    /// Sums that are divided again and again, so that workers wait for each other within tasks.
    fn sums() -> Vec<u64> {
        let sum = |n: u64| (0..n).into_par_iter().map(|i| (0..i % 7).into_par_iter().sum::<u64>()).sum();
        (0..50).into_par_iter().map(sum).collect()
    }

    // One test, because only one at a time keeps workers awake.
    #[test]
    fn kept_awake_or_not_workers_do_the_same_and_every_watch_ends() {
        let expected = sums();
        for threads in [1, 2, 5] {
            in_pool(threads, || {
                for _ in 0..200 {
                    let awake = Awake::begin();
                    assert_eq!(sums(), expected);
                    let second = Awake::begin();
                    assert!(awake.0.is_none() || second.0.is_none(), "one at a time");
                    drop(awake);
                    assert_eq!(sums(), expected);
                }
            });
        }
        // From outside of any pool, and given up by a panic.
        let awake = Awake::begin();
        assert_eq!(sums(), expected);
        drop(awake);
        let panics = std::panic::catch_unwind(|| {
            let _awake = Awake::begin();
            panic!("on purpose");
        });
        assert!(panics.is_err() && !IS_TAKEN.load(Ordering::Acquire));
        // A worker that is busy elsewhere is not waited for.
        in_pool(2, || {
            let is_done = AtomicBool::new(false);
            rayon::scope(|scope| {
                scope.spawn(|_| {
                    while !is_done.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                });
                std::thread::sleep(Duration::from_millis(20));
                assert!(Awake::begin().0.is_none());
                is_done.store(true, Ordering::Release);
            });
        });
    }
}
