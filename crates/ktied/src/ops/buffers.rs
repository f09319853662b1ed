//! Memory of tensors that are gone, kept for those to come.
//!
//! Every step of a training makes tensors of the same sizes as the step before. Asked of the allocator, each costs a pass
//! that clears it and, where the allocator gives large blocks back to the system, page faults: together up to a fifth
//! of a step. So operations take their buffers from here, and give back those that nobody else holds any more.
//!
//! Idle memory is bounded by what was in use before: a buffer that has to be made new makes others go, the longest idle
//! first, until they make up for it; but none that is longer, which would be missed sooner than it helps.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use burn::tensor::TensorData;

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

/// The buffer if it is `wanted`, and an empty one in its place if not.
pub fn keep_if(wanted: bool, buffer: Vec<f32>) -> Vec<f32> {
    if wanted {
        return buffer;
    }
    give(buffer);
    Vec::new()
}

/// Keeps the memory of a tensor's numbers, which nobody else holds.
pub fn give_data(data: TensorData) {
    let (bytes, _, _) = data.into_parts();
    // Memory of burn's own operations may be aligned otherwise than a vector's; that goes back to the allocator.
    if let Ok(buffer) = bytes.try_into_vec::<f32>() {
        give(buffer);
    }
}

/// The buffer of this length that was given last; if there is none, makes room for it.
fn kept(len: usize) -> Option<Vec<f32>> {
    if len < MIN_LEN {
        return None;
    }
    let gone: Vec<Vec<f32>> = idle(|idle| match idle.iter().rposition(|buffer| buffer.len() == len) {
        Some(found) => idle.remove(found).into_iter().collect(),
        None => make_room(idle, len),
    });
    // Whatever else is dropped here, outside the lock.
    gone.into_iter().find(|buffer| buffer.len() == len)
}

/// Takes out the longest idle buffers shorter than `len` that together have as many elements, or all such.
fn make_room(idle: &mut VecDeque<Vec<f32>>, len: usize) -> Vec<Vec<f32>> {
    let (mut gone, mut freed) = (Vec::new(), 0);
    let mut stays = VecDeque::with_capacity(idle.len());
    for buffer in idle.drain(..) {
        if freed < len && buffer.len() < len {
            freed += buffer.len();
            gone.push(buffer);
        } else {
            stays.push_back(buffer);
        }
    }
    *idle = stays;
    gone
}

fn idle<T>(task: impl FnOnce(&mut VecDeque<Vec<f32>>) -> T) -> T {
    // A panic elsewhere cannot leave the list half-changed.
    task(&mut IDLE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buffers of a length that nothing else in this process uses.
    const LEN: usize = 1_234_577;

    #[test]
    fn a_buffer_that_was_given_back_is_handed_out_again() {
        let mut buffer = take(LEN);
        assert_eq!(buffer.len(), LEN);
        assert!(buffer.iter().all(|x| x.is_nan()) || !cfg!(debug_assertions));
        buffer.fill(1.0);
        let place = buffer.as_ptr();
        give(buffer);
        let copy = copy_of(&vec![2.0; LEN]);
        assert_eq!((copy.as_ptr(), copy[7]), (place, 2.0));
        let other = take(LEN);
        assert_ne!(other.as_ptr(), place);
    }

    #[test]
    fn what_is_made_new_makes_shorter_ones_go_the_longest_idle_first() {
        let lens = |idle: &VecDeque<Vec<f32>>| idle.iter().map(Vec::len).collect::<Vec<_>>();
        let mut idle: VecDeque<Vec<f32>> = [5, 3, 9, 2, 4].map(|len| vec![0.0; len]).into();
        let gone = make_room(&mut idle, 6);
        assert_eq!((gone.len(), lens(&idle)), (2, vec![9, 2, 4]));
        assert_eq!((make_room(&mut idle, 2).len(), lens(&idle)), (0, vec![9, 2, 4]));
    }
}
