//! The runs of an evaluation: opened, and found to be of one task.

use std::path::{Path, PathBuf};

use ktied::checkpoint::Checkpoint;
use ktied::cluster::Cluster;
use ktied::config::Config;
use ktied::data::{DataSet, load};
use ktied::evaluate::{Ensemble, Protocol};
use ktied::models::{AnyNetwork, Network};
use ktied::train::memory::Task;
use ktied::train::{Run, Trainer};

use super::super::memory;
use crate::args::Args;
use crate::cluster::{Settings, same};
use crate::exit::Failure;

/// One run or several, and the data that all of them were trained on.
pub(crate) struct Members {
    pub(crate) trainers: Vec<Trainer>,
    pub(crate) data: DataSet,
}

impl Members {
    /// Opens the runs, if the machine has the memory for `task`, or that is to be tried.
    pub(crate) fn open(
        runs: &[PathBuf],
        data: Option<&Path>,
        best: bool,
        (task, force): (Task, bool),
        args: &Args,
    ) -> Result<Self, Failure> {
        let Some((first, others)) = runs.split_first() else { return Err(Failure::Usage("name a run".into())) };
        memory::check(&Run::open(first)?.config()?, task, force, args)?;
        let (trainer, data) = trained(&Run::open(first)?, data, best, args)?;
        let mut members = Self { trainers: vec![trainer], data };
        for run in others {
            let trainer = members.open_beside(run, best, args)?;
            members.trainers.push(trainer);
        }
        Ok(members)
    }

    /// Another run, which must be of the same data.
    pub(crate) fn open_beside(&self, run: &Path, best: bool, args: &Args) -> Result<Trainer, Failure> {
        let run = Run::open(run)?;
        let mut config = run.config()?;
        if config.data.set != self.config().data.set {
            let (found, expected) = (&config.data.set, &self.config().data.set);
            let folder = run.folder().display();
            return Err(Failure::Usage(format!(
                "{folder} was trained on `{found}`, and the first run on `{expected}`"
            )));
        }
        config.data = self.config().data.clone();
        Ok(Trainer::resume(config, &self.data, &checkpoint_of(&run, best, args)?)?)
    }

    /// Refuses processes that would judge other weights or other data, or otherwise (`how`) than the first.
    pub(crate) fn check_same(&self, cluster: &dyn Cluster, how: &[(&str, String)]) -> Result<(), Failure> {
        if cluster.place().is_alone() {
            return Ok(());
        }
        let mut settings: Settings = how.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        settings.insert("data".into(), self.data.digest.clone());
        for (number, trainer) in self.trainers.iter().enumerate() {
            let digest = trainer.checkpoint()?.digest().to_string();
            settings.insert(format!("weights of run {}", number + 1), digest);
        }
        same(cluster, &settings)
    }

    /// The configuration of the first.
    pub(crate) fn config(&self) -> &Config {
        self.trainers.first().map(Trainer::config).unwrap_or_else(|| unreachable!("there is at least one"))
    }

    /// The mixture of all.
    pub(crate) fn ensemble(&self) -> Result<Ensemble<AnyNetwork>, Failure> {
        Ok(Ensemble::new(self.trainers.iter().map(|trainer| (&trainer.model().network, &trainer.model().likelihood)))?)
    }

    /// `samples` draws of each, or one if all are the same.
    pub(crate) fn protocol(&self, samples: u64) -> Protocol {
        let certain = self.trainers.iter().all(|trainer| trainer.model().network.is_deterministic());
        let samples = if certain { 1 } else { samples };
        Protocol { samples, seed: self.config().train.seed, num_train: self.data.train.len() }
    }
}

/// The run at its newest good checkpoint, or at its best, and its data.
pub(crate) fn trained(run: &Run, data: Option<&Path>, best: bool, args: &Args) -> Result<(Trainer, DataSet), Failure> {
    let mut config: Config = run.config()?;
    if let Some(dir) = data {
        config.data.dir = Some(dir.into());
    }
    let checkpoint = checkpoint_of(run, best, args)?;
    let data = load(&config.data)?;
    Ok((Trainer::resume(config, &data, &checkpoint)?, data))
}

/// The newest good checkpoint, or the best one.
pub(crate) fn checkpoint_of(run: &Run, best: bool, args: &Args) -> Result<Checkpoint, Failure> {
    if best {
        let missing = || Failure::Usage(format!("--best: no validation has chosen one in {}", run.folder().display()));
        return Ok(run.store()?.load(run.best().ok_or_else(missing)?).map_err(ktied::Error::from)?);
    }
    let (checkpoint, skipped) = run.newest()?;
    skipped.iter().for_each(|skipped| args.say(&skipped.to_string()));
    Ok(checkpoint)
}
