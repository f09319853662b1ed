//! Several processes that train or judge one network together: their places, and what they say to each other.
//!
//! A [`Cluster`] carries bytes, and everything else is made of that here, so a sum has the same bits in every process and under
//! every transport. [`Alone`] is one process; MPI (feature `mpi`) is any number of them.
//!
//! **Who fails says so.** Processes speak in notes, all at the same point of the program. One that cannot go
//! on puts its reason where its next note would have been (`fail`), and the others, wherever they are, find
//! it there as [`Error::Elsewhere`] and stop too: nobody waits for ever.

mod gradients;
#[cfg(feature = "mpi")]
mod mpi;
mod sum;

use std::fmt;
use std::ops::Range;

use crate::error::{Error, Result};

pub(crate) use gradients::{Layout, present, sum_gradients};
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
use sum::Sums;
pub use sum::Wire;

/// A process among those that work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number, from 0; what MPI calls its rank.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

impl Place {
    /// The only one.
    pub const ALONE: Self = Self { number: 0, of: 1 };

    /// Whether there is no other.
    pub fn is_alone(self) -> bool {
        self.of <= 1
    }

    /// Whether this is the process that writes files and speaks to people.
    pub fn is_first(self) -> bool {
        self.number == 0
    }

    /// Its part of `len` things, which are divided as evenly as can be, in order.
    ///
    /// ```
    /// use ktied::cluster::Place;
    /// let parts = [0, 1, 2].map(|number| Place { number, of: 3 }.part_of(10));
    /// assert_eq!(parts, [0..3, 3..6, 6..10]);
    /// ```
    pub fn part_of(self, len: usize) -> Range<usize> {
        let of = self.of.max(1);
        let end = |number: usize| len / of * number + len % of * number / of;
        end(self.number)..end(self.number + 1)
    }
}

/// Processes that run the same program on the same data. Every method is called by all of them, in the same order.
pub trait Cluster: fmt::Debug + Send + Sync {
    /// This process among the others.
    fn place(&self) -> Place;

    /// What every process gives, in the order of their numbers.
    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;

    /// Gives every other process its part of `bytes`: process r the range `parts[r]`. Into `received` goes what each of the others has
    /// sent to this one, one after the other; it has room for as many parts of this process as there are others.
    fn exchange(&self, bytes: &[u8], parts: &[Range<usize>], received: &mut [u8]);

    /// Fills in all parts: `bytes[parts[r]]` is what process r gives as its `own`.
    fn spread(&self, own: &[u8], bytes: &mut [u8], parts: &[Range<usize>]);
}

/// One process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Cluster for Alone {
    fn place(&self) -> Place {
        Place::ALONE
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        vec![bytes.to_vec()]
    }

    fn exchange(&self, _: &[u8], _: &[Range<usize>], _: &mut [u8]) {}

    fn spread(&self, own: &[u8], bytes: &mut [u8], _: &[Range<usize>]) {
        bytes.copy_from_slice(own);
    }
}

/// The first byte of a note: the rest is what its process has to say,
const GOES_ON: u8 = 0;
/// or an exit code, and why it stops.
const FAILED: u8 = 1;

impl dyn Cluster + '_ {
    /// What every process has to say at this point, in the order of their numbers.
    ///
    /// # Errors
    /// [`Error::Elsewhere`] if one of them has failed since the last time.
    pub fn notes(&self, note: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut notes = self.gather(&[&[GOES_ON], note].concat());
        for (process, note) in notes.iter().enumerate() {
            if let [FAILED, code, reason @ ..] = &note[..] {
                let reason = String::from_utf8_lossy(reason).into_owned();
                return Err(Error::Elsewhere { process, code: *code, reason });
            }
        }
        notes.iter_mut().for_each(|note| drop(note.drain(..1)));
        Ok(notes)
    }

    /// Says that this process has failed, in the place of its next note, and how it will end; it says nothing more after that.
    /// Gives the number of the first process that failed just then.
    pub fn fail(&self, code: u8, reason: &str) -> usize {
        let notes = self.gather(&[&[FAILED, code], reason.as_bytes()].concat());
        notes.iter().position(|note| note.first() == Some(&FAILED)).unwrap_or(self.place().number)
    }

    /// Whether it is so in any process.
    ///
    /// # Errors
    /// As `notes`.
    pub fn any(&self, is_so: bool) -> Result<bool> {
        if self.place().is_alone() {
            return Ok(is_so);
        }
        Ok(self.notes(&[u8::from(is_so)])?.iter().any(|note| note.first() == Some(&1)))
    }

    /// Replaces the numbers by their sums over all processes, which have the same bits in each; returns how many bytes this
    /// process has sent.
    pub fn sum(&self, values: &mut [f32], wire: Wire) -> u64 {
        Sums::default().sum(self, values, wire)
    }

    /// What the first process gives; the others' is not looked at.
    ///
    /// # Errors
    /// As `notes`.
    pub fn of_first(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let own = if self.place().is_first() { bytes } else { &[] };
        Ok(self.notes(own)?.into_iter().next().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_everything_once_and_differ_by_one_at_most() {
        for of in 1..9 {
            for len in [0, 1, 2, 7, 8, 100, usize::MAX / 2] {
                let parts: Vec<Range<usize>> = (0..of).map(|number| Place { number, of }.part_of(len)).collect();
                assert_eq!((parts[0].start, parts[of - 1].end), (0, len));
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                let lens = parts.iter().map(|part| part.len());
                assert!(lens.clone().max().unwrap() - lens.min().unwrap() <= 1, "{len} of {of}");
            }
        }
    }

    #[test]
    fn a_process_alone_hears_itself() {
        let alone: &dyn Cluster = &Alone;
        assert_eq!(alone.notes(b"yes").unwrap(), [b"yes"]);
        assert_eq!(alone.of_first(b"yes").unwrap(), b"yes");
        assert!(alone.any(true).unwrap() && !alone.any(false).unwrap());
        assert_eq!(alone.fail(6, "no"), 0);
    }
}
