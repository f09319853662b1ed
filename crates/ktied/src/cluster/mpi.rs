//! Processes that an MPI launcher has started.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi::Threading;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use super::{Cluster, Place};

/// All processes of one `mpirun`. Dropping it waits for the others and takes leave of MPI, so it should be dropped where it was made.
pub struct Mpi {
    place: Place,
    /// Calls come from any thread, but one at a time.
    turn: Mutex<()>,
    _universe: Universe,
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Mpi {
    /// Joins the others; none if this process has done so before, or the library does not allow calls from several threads.
    pub fn join() -> Option<Self> {
        let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized)?;
        let world = universe.world();
        let place = Place { number: world.rank() as usize, of: world.size() as usize };
        (threading >= Threading::Serialized).then_some(Self { place, turn: Mutex::new(()), _universe: universe })
    }

    fn world(&self) -> (SimpleCommunicator, MutexGuard<'_, ()>) {
        (SimpleCommunicator::world(), self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// MPI counts by `int`; what is longer is cut by whoever sends it.
fn counts(lens: impl Iterator<Item = usize>) -> Vec<i32> {
    lens.map(|len| len as i32).collect()
}

/// Where each of several things begins that lie one after the other.
fn begins(counts: &[i32]) -> Vec<i32> {
    let begins = counts.iter().scan(0, |end, count| {
        let begin = *end;
        *end += count;
        Some(begin)
    });
    begins.collect()
}

impl Cluster for Mpi {
    fn place(&self) -> Place {
        self.place
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let (world, _turn) = self.world();
        let mut lens = vec![0u64; self.place.of];
        world.all_gather_into(&(bytes.len() as u64), &mut lens[..]);
        let counts = counts(lens.iter().map(|len| *len as usize));
        let begins = begins(&counts);
        let mut all = vec![0u8; lens.iter().sum::<u64>() as usize];
        world.all_gather_varcount_into(bytes, &mut PartitionMut::new(&mut all[..], &counts[..], &begins[..]));
        let mut rest = &all[..];
        let mut next = |len: u64| {
            let (note, after) = rest.split_at(len as usize);
            rest = after;
            note.to_vec()
        };
        lens.iter().map(|len| next(*len)).collect()
    }

    fn exchange(&self, bytes: &[u8], parts: &[Range<usize>], received: &mut [u8]) {
        let (world, _turn) = self.world();
        let others = |number: usize, len: usize| if number == self.place.number { 0 } else { len };
        let own = parts.get(self.place.number).map_or(0, Range::len);
        let sent_counts = counts(parts.iter().enumerate().map(|(number, part)| others(number, part.len())));
        let sent_begins = counts(parts.iter().map(|part| part.start));
        let own_counts = counts((0..self.place.of).map(|number| others(number, own)));
        let own_begins = begins(&own_counts);
        let sent = Partition::new(bytes, &sent_counts[..], &sent_begins[..]);
        world.all_to_all_varcount_into(&sent, &mut PartitionMut::new(received, &own_counts[..], &own_begins[..]));
    }

    fn spread(&self, own: &[u8], bytes: &mut [u8], parts: &[Range<usize>]) {
        let (world, _turn) = self.world();
        let counts = counts(parts.iter().map(Range::len));
        let begins = begins(&counts);
        world.all_gather_varcount_into(own, &mut PartitionMut::new(bytes, &counts[..], &begins[..]));
    }
}
