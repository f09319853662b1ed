//! Networks side by side, each on one thread.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::exit::Failure;

/// Does `work` with every item, as many at a time as there are threads, each on one of its own; the results are in the order of
/// the items. No bit depends on the number of threads, and several networks side by side are done sooner than one after the
/// other on all threads. After a failure nothing new is begun; the first that is no interruption is returned.
///
/// # Errors
/// If `work` fails, or a thread cannot be started.
pub(crate) fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let (next, failed, done) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(vec![]));
    let worker = || -> Result<(), Failure> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|error| Failure::Usage(format!("cannot start a thread: {error}")))?;
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else { break };
            match pool.install(|| work(item)) {
                Ok(result) => done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result)),
                Err(failure) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(failure);
                }
            }
        }
        Ok(())
    };
    let ended: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..rayon::current_num_threads()).map(|_| scope.spawn(worker)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<(), Failure>>| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect()
    });
    // A fault says more than the interruptions that follow from it.
    let mut failures: Vec<Failure> = ended.into_iter().filter_map(Result::err).collect();
    failures.sort_by_key(|failure| matches!(failure, Failure::Interrupted { .. }));
    if let Some(failure) = failures.into_iter().next() {
        return Err(failure);
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_and_each_has_one_thread() {
        let items: Vec<u64> = (0..20).collect();
        let done = side_by_side(&items, |&item| {
            std::thread::sleep(std::time::Duration::from_millis((20 - item) % 3));
            Ok((item, rayon::current_num_threads()))
        });
        assert_eq!(done.expect("no failure"), items.iter().map(|&item| (item, 1)).collect::<Vec<_>>());
    }

    #[test]
    fn a_fault_is_said_rather_than_the_interruptions_it_brings_and_nothing_new_is_begun() {
        let (pool, begun) =
            (rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads"), AtomicUsize::new(0));
        let items: Vec<usize> = (0..100).collect();
        let ended = pool.install(|| {
            side_by_side(&items, |&item| {
                begun.fetch_add(1, Ordering::Relaxed);
                match item {
                    0 => {
                        std::thread::sleep(std::time::Duration::from_millis(30));
                        Err(Failure::Usage("the fault".into()))
                    }
                    1 => Err(Failure::Interrupted { run: "run".into() }),
                    _ => Ok(()),
                }
            })
        });
        assert_eq!(ended.expect_err("a fault").to_string(), "the fault");
        assert!(begun.load(Ordering::Relaxed) <= 3, "{begun:?}");
    }
}
