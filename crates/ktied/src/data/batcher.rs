//! Batches in an order that is a pure function of (seed, epoch), gathered ahead of the step that wants them.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use burn::tensor::{Device, Int, Tensor, TensorData};
use ktied_kernels::{NoiseKey, Purpose};

use super::set::{Inputs, Split, Targets};
use super::shuffle::permutation;
use crate::cluster::Place;
use crate::error::Result;
use crate::models::Features;
use crate::objective::Observed;

/// Batches that are gathered ahead: one to work on next, and one being made.
const AHEAD: usize = 2;

/// The examples of one step, on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    inputs: HostInputs,
    targets: HostTargets,
    len: usize,
    /// Number of its first example in the batch that it is a part of,
    first: usize,
    /// and how many that has.
    whole: usize,
}

/// Inputs of a batch, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HostInputs {
    Rows(Vec<f32>),
    Words(Vec<i32>),
}

#[derive(Clone, Debug, PartialEq)]
enum HostTargets {
    Classes(Vec<u32>),
    Values(Vec<f32>),
}

impl Batch {
    /// The examples `rows` of a split, in one gather.
    ///
    /// # Errors
    /// If a row does not exist.
    pub fn gather(split: &Split, rows: &[usize]) -> Result<Self> {
        let inputs = match &split.inputs {
            Inputs::Tokens { .. } => {
                let mut words = Vec::new();
                split.inputs.gather_tokens(rows, &mut words)?;
                HostInputs::Words(words)
            }
            inputs => {
                let mut numbers = Vec::new();
                inputs.gather(rows, &mut numbers)?;
                HostInputs::Rows(numbers)
            }
        };
        let targets = match &split.targets {
            Targets::Classes { .. } => {
                let mut labels = Vec::new();
                split.targets.gather_classes(rows, &mut labels)?;
                HostTargets::Classes(labels)
            }
            Targets::Values { .. } => {
                let mut values = Vec::new();
                split.targets.gather_values(rows, &mut values)?;
                HostTargets::Values(values)
            }
        };
        Ok(Self { inputs, targets, len: rows.len(), first: 0, whole: rows.len() })
    }

    /// How many examples.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of its first example in the batch that it is a part of; 0 of a whole one.
    pub fn first(&self) -> usize {
        self.first
    }

    /// How many examples the batch has that it is a part of.
    pub fn len_of_whole(&self) -> usize {
        self.whole
    }

    /// The same as tensors; nothing is copied.
    pub fn on(self, device: &Device) -> (Features, Observed) {
        let rows = self.len;
        let shape = |len: usize| [rows, len / rows.max(1)];
        let features = self.inputs.on(rows, device);
        let observed = match self.targets {
            HostTargets::Classes(labels) => Observed::Classes(labels),
            HostTargets::Values(data) => {
                let shape = shape(data.len());
                Observed::Values(Tensor::from_data(TensorData::new(data, shape), device))
            }
        };
        (features, observed)
    }
}

impl HostInputs {
    /// The same as a tensor of so many rows; nothing is copied.
    pub(super) fn on(self, rows: usize, device: &Device) -> Features {
        let shape = |len: usize| [rows, len / rows.max(1)];
        match self {
            Self::Rows(data) => {
                let shape = shape(data.len());
                Features::Rows(Tensor::from_data(TensorData::new(data, shape), device))
            }
            Self::Words(data) => {
                let shape = shape(data.len());
                Features::Words(Tensor::<2, Int>::from_data(TensorData::new(data, shape), device))
            }
        }
    }
}

/// The batches of training: each epoch visits every example once, in an order of its own.
#[derive(Clone, Copy, Debug)]
pub struct Batches<'a> {
    split: &'a Split,
    size: usize,
    seed: u64,
    place: Place,
}

impl<'a> Batches<'a> {
    /// Batches of `size` examples, the last of an epoch as many as are left.
    pub fn new(split: &'a Split, size: usize, seed: u64) -> Self {
        Self { split, size: size.max(1), seed, place: Place::ALONE }
    }

    /// The parts of the same batches that belong to one of several processes.
    pub fn of(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// Steps that visit every example once.
    pub fn steps_per_epoch(&self) -> u64 {
        self.split.len().div_ceil(self.size) as u64
    }

    /// The order of an epoch.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        permutation(self.split.len(), NoiseKey::new(self.seed).child(Purpose::Shuffle).at(epoch, 0))
    }

    /// The batches from a step on, without end; none of a split without examples.
    pub fn from(self, step: u64) -> impl Iterator<Item = Result<Batch>> + use<'a> {
        let per_epoch = self.steps_per_epoch().max(1);
        let mut order: Option<(u64, Vec<usize>)> = None;
        (step..).take_while(move |_| !self.split.is_empty()).map(move |step| {
            let (epoch, number) = (step / per_epoch, (step % per_epoch) as usize);
            let (_, rows) = match order.take_if(|(known, _)| *known == epoch) {
                Some(known) => order.insert(known),
                None => order.insert((epoch, self.order(epoch))),
            };
            let rows = rows.chunks(self.size).nth(number).unwrap_or_default();
            let part = self.place.part_of(rows.len());
            let batch = Batch::gather(self.split, rows.get(part.clone()).unwrap_or_default())?;
            Ok(Batch { first: part.start, whole: rows.len(), ..batch })
        })
    }
}

/// All examples of a split in the order of the files, in batches that can be taken in any order.
#[derive(Clone, Copy, Debug)]
pub struct InOrder<'a> {
    split: &'a Split,
    size: usize,
}

impl<'a> InOrder<'a> {
    /// Batches of `size` examples, the last as many as are left.
    pub fn new(split: &'a Split, size: usize) -> Self {
        Self { split, size: size.max(1) }
    }

    /// How many batches.
    pub fn len(&self) -> usize {
        self.split.len().div_ceil(self.size)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.split.is_empty()
    }

    /// How many examples are in the batches before this one.
    pub fn first(&self, batch: usize) -> usize {
        self.split.len().min(batch * self.size)
    }

    /// One of the batches.
    ///
    /// # Errors
    /// What gathering says.
    pub fn batch(&self, number: usize) -> Result<Batch> {
        let rows: Vec<usize> = (self.first(number)..self.first(number + 1)).collect();
        Batch::gather(self.split, &rows)
    }

    /// All of them.
    pub fn batches(self) -> impl Iterator<Item = Result<Batch>> + use<'a> {
        (0..self.len()).map(move |number| self.batch(number))
    }
}

/// Runs an iterator on a thread of its own, a few items ahead of whoever reads; it ends when the receiver is dropped.
pub fn ahead<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    items: impl Iterator<Item = T> + Send + 'scope,
) -> Receiver<T> {
    let (sender, receiver) = sync_channel(AHEAD);
    scope.spawn(move || {
        for item in items {
            if sender.send(item).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Scaling, Units};

    fn split(len: usize) -> Split {
        let scaling = Scaling::Uniform { divisor: 1.0, offset: 0.0 };
        let data = (0..len).flat_map(|i| [i as u8, 100 + i as u8]).collect();
        let inputs = Inputs::Bytes { data, width: 2, scaling };
        Split { inputs, targets: Targets::Classes { labels: (0..len as u32).collect(), num_classes: len } }
    }

    fn labels(batch: &Batch) -> Vec<u32> {
        match &batch.targets {
            HostTargets::Classes(labels) => labels.clone(),
            HostTargets::Values(_) => panic!("classes"),
        }
    }

    #[test]
    fn an_epoch_visits_every_example_once_and_the_next_in_another_order() {
        let split = split(10);
        let batches = Batches::new(&split, 4, 7);
        assert_eq!(batches.steps_per_epoch(), 3);
        let steps: Vec<Batch> = batches.from(0).take(6).map(Result::unwrap).collect();
        assert_eq!(steps.iter().map(Batch::len).collect::<Vec<_>>(), [4, 4, 2, 4, 4, 2]);
        let epochs: Vec<Vec<u32>> = steps.chunks(3).map(|epoch| epoch.iter().flat_map(labels).collect()).collect();
        assert_ne!(epochs[0], epochs[1]);
        for mut epoch in epochs {
            epoch.sort_unstable();
            assert_eq!(epoch, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn inputs_stay_with_their_targets_and_any_step_can_be_the_first() {
        let split = split(10);
        let batches = Batches::new(&split, 4, 7);
        let all: Vec<Batch> = batches.from(0).take(9).map(Result::unwrap).collect();
        for (step, batch) in all.iter().enumerate() {
            assert_eq!(batches.from(step as u64).next().unwrap().unwrap(), *batch, "step {step}");
            let HostInputs::Rows(rows) = &batch.inputs else { panic!("rows") };
            for (row, label) in rows.chunks(2).zip(labels(batch)) {
                assert_eq!(row, [label as f32, 100.0 + label as f32]);
            }
        }
        assert_ne!(Batches::new(&split, 4, 8).order(0), batches.order(0), "another seed, another order");
    }

    #[test]
    fn the_parts_of_processes_are_the_batch_in_order() {
        let split = split(10);
        for of in [2, 3, 5] {
            for step in 0..3 {
                let of_process = |number| {
                    let batches = Batches::new(&split, 4, 7).of(Place { number, of });
                    batches.from(step).next().unwrap().unwrap()
                };
                let parts: Vec<Batch> = (0..of).map(of_process).collect();
                let whole = Batches::new(&split, 4, 7).from(step).next().unwrap().unwrap();
                assert_eq!(parts.iter().flat_map(labels).collect::<Vec<_>>(), labels(&whole));
                let mut first = 0;
                for part in parts {
                    assert_eq!((part.first(), part.len_of_whole()), (first, whole.len()));
                    first += part.len();
                }
            }
        }
    }

    #[test]
    fn in_order_is_every_example_once() {
        let all: Vec<u32> = InOrder::new(&split(5), 2).batches().flat_map(|batch| labels(&batch.unwrap())).collect();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        assert_eq!(InOrder::new(&split(0), 2).batches().count(), 0);
        assert_eq!(Batches::new(&split(0), 2, 1).from(0).count(), 0);
    }

    #[test]
    fn tensors_have_one_row_an_example() {
        let values = Targets::Values { data: vec![0.5, 1.5, 2.5], width: 1, units: Units::default() };
        let words = Inputs::Tokens { data: vec![1, 2, 3, 4, 5, 6], width: 2 };
        let (features, observed) =
            Batch::gather(&Split { inputs: words, targets: values }, &[2, 0]).unwrap().on(&Device::flex());
        let (Features::Words(words), Observed::Values(values)) = (features, observed) else { panic!("words, values") };
        assert_eq!(words.into_data().iter::<i64>().collect::<Vec<_>>(), [5, 6, 1, 2]);
        assert_eq!(values.into_data().iter::<f32>().collect::<Vec<_>>(), [2.5, 0.5]);
    }

    #[test]
    fn what_runs_ahead_arrives_in_order_and_stops_with_its_reader() {
        std::thread::scope(|scope| {
            let numbers = ahead(scope, 0..1_000_000);
            assert_eq!(numbers.iter().take(5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        });
    }
}
