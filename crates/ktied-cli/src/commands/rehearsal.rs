//! A run on made-up data that leaves nothing behind: the loop of training itself, with a watch on its steps and messages.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ktied::cluster::{Cluster, Place, Wire};
use ktied::config::Config;
use ktied::evaluate::Evaluation;
use ktied::models::{ModelSpec, Norm};
use ktied::posterior::PosteriorKind;
use ktied::train::{StepReport, Trainer, Watch, fit};

use super::bench_step::preset;
use super::made_up;
use crate::args::Work;
use crate::exit::Failure;

/// Steps that warm up allocator, caches and connections, and are not counted.
const WARM_UP: u64 = 3;

/// How a run went.
#[derive(Debug)]
pub(super) struct Pace {
    /// Milliseconds of each step, sorted.
    pub(super) steps: Vec<f64>,
    /// Milliseconds of a step, in the median, between the beginning and the end of a message: the wait for others included.
    pub(super) messages_ms: f64,
    /// That this process sends to others in a step to add up gradients.
    pub(super) sent_bytes: u64,
}

impl Pace {
    pub(super) fn median_ms(&self) -> f64 {
        median(&self.steps)
    }
}

/// The middle of sorted numbers.
pub(super) fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(super) fn config(work: &Work, posterior: PosteriorKind) -> Result<Config, Failure> {
    let mut config = preset(work.model).config();
    (config.posterior.kind, config.estimator.kind) = (posterior, work.estimator);
    config.train.batch = work.batch.unwrap_or(config.train.batch);
    config.cluster.wire = if work.half { Wire::Half } else { Wire::Single };
    if let ModelSpec::ResNet18(spec) = &mut config.model {
        spec.norm = Norm::Frozen;
    }
    config.check()?;
    Ok(config)
}

/// Trains for so many steps, as one of several processes or alone.
pub(super) fn rehearse(config: &Config, steps: u64, cluster: Arc<dyn Cluster>) -> Result<Pace, Failure> {
    let mut config = config.clone();
    let train = &mut config.train;
    (train.steps, train.log_every) = (Some(WARM_UP + steps), u64::MAX);
    (train.validate_every, train.checkpoint_every, train.checkpoint_steps) = (0, 0, None);
    let data = made_up::data_set(&config.model, 2 * config.train.batch);
    let listened = Arc::new(Listened { cluster, nanos: AtomicU64::new(0), sent: AtomicU64::new(0) });
    let trainer = Trainer::new(config, &data)?.with_cluster(Arc::clone(&listened) as Arc<dyn Cluster>)?;
    let mut clock = Clock { listened, ticks: vec![] };
    fit(None, trainer, &data, &mut clock, &AtomicBool::new(false))?;
    Ok(clock.pace())
}

/// Processes whose messages are timed and weighed.
#[derive(Debug)]
struct Listened {
    cluster: Arc<dyn Cluster>,
    nanos: AtomicU64,
    sent: AtomicU64,
}

impl Listened {
    fn timed<T>(&self, message: impl FnOnce(&dyn Cluster) -> T) -> T {
        let begin = Instant::now();
        let said = message(&*self.cluster);
        self.nanos.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        said
    }

    fn own(&self, parts: &[Range<usize>]) -> usize {
        parts.get(self.place().number).map_or(0, Range::len)
    }
}

impl Cluster for Listened {
    fn place(&self) -> Place {
        self.cluster.place()
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.timed(|cluster| cluster.gather(bytes))
    }

    fn exchange(&self, bytes: &[u8], parts: &[Range<usize>], received: &mut [u8]) {
        self.sent.fetch_add((bytes.len() - self.own(parts)) as u64, Ordering::Relaxed);
        self.timed(|cluster| cluster.exchange(bytes, parts, received));
    }

    fn spread(&self, own: &[u8], bytes: &mut [u8], parts: &[Range<usize>]) {
        self.sent.fetch_add((own.len() * (self.place().of - 1)) as u64, Ordering::Relaxed);
        self.timed(|cluster| cluster.spread(own, bytes, parts));
    }
}

/// When each step ended, and what had been said by then.
struct Clock {
    listened: Arc<Listened>,
    ticks: Vec<(Instant, u64, u64)>,
}

impl Clock {
    fn pace(&self) -> Pace {
        let pairs = || self.ticks.windows(2).skip(WARM_UP as usize - 1).map(|pair| (pair[0], pair[1]));
        let sorted = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times
        };
        let steps = sorted(pairs().map(|(from, to)| 1e3 * (to.0 - from.0).as_secs_f64()).collect());
        let messages = sorted(pairs().map(|(from, to)| 1e-6 * (to.1 - from.1) as f64).collect());
        let sent_bytes = pairs().next().map_or(0, |(from, to)| to.2 - from.2);
        Pace { steps, messages_ms: median(&messages), sent_bytes }
    }
}

impl Watch for Clock {
    fn step(&mut self, _: &Trainer, _: &StepReport) {
        let said = [&self.listened.nanos, &self.listened.sent].map(|count| count.load(Ordering::Relaxed));
        self.ticks.push((Instant::now(), said[0], said[1]));
    }

    fn validation(&mut self, _: &Trainer, _: &Evaluation, _: bool) {}
    fn checkpoint(&mut self, _: u64) {}
}
