//! Sums over processes: each adds up its own part, in the order of processes, and gives it to the others.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Cluster, Place};

/// Numbers that are worth a thread's while.
const CHUNK: usize = 1 << 14;

/// How numbers go from one process to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// As they are, in four bytes.
    #[default]
    Single,
    /// The upper half of their bits, rounded: eight binary digits, and all of the range (bfloat16).
    Half,
}

impl Wire {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::Single => 4,
            Self::Half => 2,
        }
    }
}

/// Buffers of sums, kept from one step to the next.
#[derive(Debug, Default)]
pub(super) struct Sums {
    sent: Vec<u16>,
    own: Vec<u16>,
    /// Whole numbers of either width, so that it can be read as both.
    received: Vec<u32>,
    sums: Vec<f32>,
}

impl Sums {
    /// Replaces the numbers by their sums over all processes, which have the same bits in each; returns how many bytes this
    /// process has sent.
    pub(super) fn sum(&mut self, cluster: &dyn Cluster, values: &mut [f32], wire: Wire) -> u64 {
        let place = cluster.place();
        if place.is_alone() {
            return 0;
        }
        let ranges: Vec<Range<usize>> =
            (0..place.of).map(|number| Place { number, ..place }.part_of(values.len())).collect();
        let own = ranges[place.number].clone();
        let parts: Vec<Range<usize>> = ranges.iter().map(|r| r.start * wire.bytes()..r.end * wire.bytes()).collect();
        let len = own.len() * (place.of - 1) * wire.bytes();
        self.received.resize(len.div_ceil(4), 0);
        let received: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut self.received)[..len];
        self.sums.resize(own.len(), 0.0);
        match wire {
            Wire::Single => {
                cluster.exchange(bytemuck::cast_slice(values), &parts, received);
                let others = bytemuck::cast_slice(received);
                add_up(&mut self.sums, &values[own.clone()], others, place.number, |x: f32| x);
                cluster.spread(bytemuck::cast_slice(&self.sums), bytemuck::cast_slice_mut(values), &parts);
            }
            Wire::Half => {
                self.sent.resize(values.len(), 0);
                convert(&mut self.sent, values, rounded);
                cluster.exchange(bytemuck::cast_slice(&self.sent), &parts, received);
                let others = bytemuck::cast_slice(received);
                add_up(&mut self.sums, &self.sent[own.clone()], others, place.number, widened);
                self.own.resize(own.len(), 0);
                convert(&mut self.own, &self.sums, rounded);
                cluster.spread(bytemuck::cast_slice(&self.own), bytemuck::cast_slice_mut(&mut self.sent), &parts);
                convert(values, &self.sent, widened);
            }
        }
        ((values.len() - own.len() + (place.of - 1) * own.len()) * wire.bytes()) as u64
    }
}

fn convert<T: Copy + Sync, U: Send>(to: &mut [U], from: &[T], number: impl Fn(T) -> U + Sync) {
    let pairs = to.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK));
    pairs.for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(to, from)| *to = number(*from)));
}

/// sums = Σ over processes, in their order: of what others have sent, one after the other, and this one's own in its place.
fn add_up<T: Copy + Sync>(sums: &mut [f32], own: &[T], others: &[T], place: usize, number: impl Fn(T) -> f32 + Sync) {
    let mut all: Vec<&[T]> = others.chunks_exact(own.len().max(1)).collect();
    all.insert(place.min(all.len()), own);
    sums.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, sums)| {
        let mut parts = all.iter().map(|part| &part[chunk * CHUNK..]);
        parts.by_ref().take(1).for_each(|first| sums.iter_mut().zip(first).for_each(|(sum, x)| *sum = number(*x)));
        parts.for_each(|other| sums.iter_mut().zip(other).for_each(|(sum, x)| *sum += number(*x)));
    });
}

/// The upper half of a number's bits, to the nearest, of two as near the even one.
fn rounded(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        // Rounding could make an infinity of it.
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

fn widened(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_nearest_and_keep_what_is_not_finite() {
        for exact in [0.0, -0.0, 1.0, -2.5, 1e-30, f32::INFINITY, f32::NEG_INFINITY] {
            let half = widened(rounded(exact));
            assert!((half - exact).abs() <= exact.abs() / 256.0 || half == exact, "{exact} became {half}");
        }
        assert!(widened(rounded(f32::NAN)).is_nan() && widened(rounded(f32::from_bits(0x7f80_0001))).is_nan());
        assert_eq!(widened(rounded(1.0 + 1.0 / 256.0)), 1.0, "halfway, to the even one below");
        assert_eq!(widened(rounded(1.0 + 3.0 / 256.0)), 1.0 + 2.0 / 128.0, "halfway, to the even one above");
        assert_eq!(widened(rounded(f32::MAX)), f32::INFINITY);
    }
}
