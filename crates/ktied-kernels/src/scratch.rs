//! Buffers of a thread, kept between tasks, because a fresh one is page faults.

use std::cell::RefCell;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `task` on `len` elements of a buffer of this thread, whose values are whatever the task before left.
pub(crate) fn with_scratch<T>(len: usize, task: impl FnOnce(&mut [f32]) -> T) -> T {
    // Taken out, not borrowed: a task inside this one, its own or one that rayon starts, takes the next.
    let mut buffer = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < len {
        // What it held is of no use to anyone: it goes before the new one comes.
        drop(buffer);
        buffer = vec![0.0; len];
    }
    let result = task(&mut buffer[..len]);
    BUFFERS.with_borrow_mut(|buffers| buffers.push(buffer));
    result
}
