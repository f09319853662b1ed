//! One buffer a thread, kept between tasks, because a fresh one is page faults.

use std::cell::Cell;

thread_local! {
    static BUFFER: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Runs `task` on `len` elements of this thread's buffer, whose values are whatever the task before left.
pub(crate) fn with_scratch<T>(len: usize, task: impl FnOnce(&mut [f32]) -> T) -> T {
    // Taken out, not borrowed: a task that rayon starts inside this one finds an empty buffer and makes its own.
    let mut buffer = BUFFER.take();
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    let result = task(&mut buffer[..len]);
    BUFFER.set(buffer);
    result
}
