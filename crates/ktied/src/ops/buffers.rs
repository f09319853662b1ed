//! Memory of tensors that are gone, kept for those to come.
//!
//! Every step of a training makes tensors of the same sizes as the step before. Asked of the allocator, each costs a pass
//! that clears it and, where the allocator gives large blocks back to the system, page faults: together up to a fifth
//! of a step. So operations take their buffers from here, and give back those that nobody else holds any more.
//!
//! A large buffer serves for fewer elements than it has too: without that, the small images of a network's end and the large ones of its
//! beginning, which are never there at the same time, would each keep memory of their own. Idle memory is bounded by what was in use
//! before: a buffer that has to be made new makes others go, the longest idle first, until they make up for it; but none that is
//! longer, which would be missed sooner than it helps.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use burn::tensor::TensorData;

/// Fewest elements that are worth keeping.
const MIN_LEN: usize = 1 << 10;
/// Elements for which a longer buffer serves too: for fewer, one of their own costs next to nothing.
const LARGE: usize = 1 << 20;
/// A buffer has at most so many times the elements that it is handed out for.
const MAX_ROOM: usize = 4;

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

/// The smallest idle buffer that has room for `len` elements, of several the one that was given last, unless most of it would lie
/// idle; if there is none, makes room for it.
fn kept(len: usize) -> Option<Vec<f32>> {
    if len < MIN_LEN {
        return None;
    }
    let (found, gone) = idle(|idle| match fitting(idle, len) {
        Some(place) => (idle.remove(place), Vec::new()),
        None => (None, make_room(idle, len)),
    });
    // Outside the lock.
    drop(gone);
    found.map(|mut buffer| {
        // Only what was cut off before is cleared.
        buffer.resize(len, 0.0);
        buffer
    })
}

fn fitting(idle: &VecDeque<Vec<f32>>, len: usize) -> Option<usize> {
    let room = len..=if len < LARGE { len } else { len.saturating_mul(MAX_ROOM) };
    let fits = idle.iter().enumerate().rev().filter(|(_, buffer)| room.contains(&buffer.capacity()));
    fits.min_by_key(|(_, buffer)| buffer.capacity()).map(|(place, _)| place)
}

/// Takes out the longest idle buffers shorter than `len` that together have as many elements, or all such.
fn make_room(idle: &mut VecDeque<Vec<f32>>, len: usize) -> Vec<Vec<f32>> {
    let (mut gone, mut freed) = (Vec::new(), 0);
    let mut stays = VecDeque::with_capacity(idle.len());
    for buffer in idle.drain(..) {
        if freed < len && buffer.capacity() < len {
            freed += buffer.capacity();
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
    fn the_smallest_buffer_with_room_is_handed_out_and_the_last_of_several() {
        let of = |millions: usize| millions * LARGE;
        let idle: VecDeque<Vec<f32>> = [90, 20, 12, 12, 3].map(|len| Vec::with_capacity(of(len))).into();
        let cases = [(12, Some(3)), (10, Some(3)), (13, Some(1)), (21, None), (23, Some(0)), (2, Some(4)), (91, None)];
        for (len, place) in cases {
            assert_eq!(fitting(&idle, of(len)), place, "{len}");
        }
        let small: VecDeque<Vec<f32>> = [Vec::with_capacity(2000), Vec::with_capacity(3000)].into();
        assert_eq!([2000, 2999].map(|len| fitting(&small, len)), [Some(0), None]);
    }

    #[test]
    fn a_longer_buffer_serves_and_is_whole_again_afterwards() {
        const LONG: usize = 7_654_327; // that nothing else in this process uses, nor half of it
        let long = take(LONG);
        let place = long.as_ptr();
        give(long);
        let mut short = take(LONG / 2);
        assert_eq!((short.as_ptr(), short.len()), (place, LONG / 2));
        short.fill(1.0);
        give(short);
        let long = take(LONG);
        assert_eq!((long.as_ptr(), long.len()), (place, LONG));
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
