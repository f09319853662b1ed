//! Processes that are threads: what the rules of `cluster` are tested on where there is no MPI.

use std::ops::Range;
use std::sync::{Arc, Barrier, Mutex};

use ktied::cluster::{Cluster, Place};

#[derive(Debug)]
pub struct Threads {
    place: Place,
    table: Arc<Table>,
}

/// Where each puts what it has to say, until all have read it.
#[derive(Debug)]
struct Table {
    said: Mutex<Vec<Vec<u8>>>,
    barrier: Barrier,
}

impl Threads {
    fn all(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.table.said.lock().unwrap()[self.place.number] = bytes.to_vec();
        self.table.barrier.wait();
        let all = self.table.said.lock().unwrap().clone();
        self.table.barrier.wait();
        all
    }
}

impl Cluster for Threads {
    fn place(&self) -> Place {
        self.place
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.all(bytes)
    }

    fn exchange(&self, bytes: &[u8], parts: &[Range<usize>], received: &mut [u8]) {
        let own = parts[self.place.number].clone();
        let mut all = self.all(bytes);
        all.remove(self.place.number);
        received.copy_from_slice(&all.iter().flat_map(|other| other[own.clone()].to_vec()).collect::<Vec<u8>>());
    }

    fn spread(&self, own: &[u8], bytes: &mut [u8], parts: &[Range<usize>]) {
        let all = self.all(own);
        parts.iter().zip(all).for_each(|(part, own)| bytes[part.clone()].copy_from_slice(&own));
    }
}

/// Runs a function once for each of `of` processes, side by side, and gives what each returned.
pub fn processes<T: Send>(of: usize, run: impl Fn(Arc<dyn Cluster>) -> T + Sync) -> Vec<T> {
    let table = Arc::new(Table { said: Mutex::new(vec![vec![]; of]), barrier: Barrier::new(of) });
    std::thread::scope(|scope| {
        let start = |number| {
            let cluster = Threads { place: Place { number, of }, table: Arc::clone(&table) };
            let run = &run;
            scope.spawn(move || run(Arc::new(cluster)))
        };
        let threads: Vec<_> = (0..of).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
