//! Memory of tensors that are gone, kept for those to come.
//!
//! Every step of a training makes tensors of the same sizes as the step before. Asked of the allocator, each costs a pass
//! that clears it and, where the allocator gives large blocks back to the system, page faults: together up to a fifth
//! of a step. So operations take their buffers from here, and give back those that nobody else holds any more.
//!
//! Idle memory is bounded by what was in use before: a buffer that has to be made new makes the longest idle ones of
//! at least its size go.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Fewest elements that are worth keeping.
const MIN_LEN: usize = 1 << 10;

/// Idle buffers, the longest idle first.
static IDLE: Mutex<VecDeque<Vec<f32>>> = Mutex::new(VecDeque::new());

/// A buffer of `len` elements to be overwritten: its values are whatever somebody left. In debug builds they are NaN, so
/// that an element which is not overwritten is found out.
pub fn take(len: usize) -> Vec<f32> {
    let mut buffer = kept(len).unwrap_or_else(|| vec![0.0; len]);
    if cfg!(debug_assertions) {
        buffer.fill(f32::NAN);
    }
    buffer
}

/// A copy of `values` in such a buffer.
pub fn copy_of(values: &[f32]) -> Vec<f32> {
    match kept(values.len()) {
        Some(mut buffer) => {
            buffer.copy_from_slice(values);
            buffer
        }
        None => values.to_vec(),
    }
}

/// Keeps a buffer that is not needed any more.
pub fn give(buffer: Vec<f32>) {
    if buffer.len() >= MIN_LEN {
        idle(|idle| idle.push_back(buffer));
    }
}

/// The buffer of this length that was given last; if there is none, makes room for it.
fn kept(len: usize) -> Option<Vec<f32>> {
    if len < MIN_LEN {
        return None;
    }
    let gone: Vec<Vec<f32>> = idle(|idle| {
        if let Some(found) = idle.iter().rposition(|buffer| buffer.len() == len) {
            return idle.remove(found).into_iter().collect();
        }
        let (mut freed, mut count) = (0, 0);
        while let Some(buffer) = idle.get(count).filter(|_| freed < len) {
            (freed, count) = (freed + buffer.len(), count + 1);
        }
        idle.drain(..count).collect()
    });
    // Whatever else is dropped here, outside the lock.
    gone.into_iter().find(|buffer| buffer.len() == len)
}

fn idle<T>(task: impl FnOnce(&mut VecDeque<Vec<f32>>) -> T) -> T {
    // A panic elsewhere cannot leave the list half-changed.
    task(&mut IDLE.lock().unwrap_or_else(PoisonError::into_inner))
}
