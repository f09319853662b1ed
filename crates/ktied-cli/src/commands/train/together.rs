//! A run of several processes: the first opens its folder, and the others get from it what they need.

use std::path::Path;
use std::sync::Arc;

use ktied::checkpoint::{Checkpoint, Header, read_tensors, tensors_to_bytes};
use ktied::cluster::Cluster;
use ktied::config::{Config, Tree};
use ktied::data::{DataSet, load};
use ktied::train::Trainer;

use super::{Opened, config_of, open};
use crate::args::{Args, Train};
use crate::cluster::{Settings, same};
use crate::exit::Failure;

/// Settings that may differ from machine to machine.
const OWN: [&str; 1] = ["data.dir"];

/// The run as this process sees it.
pub(super) fn open_together(train: &Train, args: &Args, cluster: &Arc<dyn Cluster>) -> Result<Opened, Failure> {
    if cluster.place().is_alone() {
        return open(train, args);
    }
    let wanted = config_of(train)?;
    same(&**cluster, &settings(train, &wanted))?;
    let opened = match cluster.place().is_first() {
        true => {
            let opened = open(train, args)?;
            send(&**cluster, &opened.trainer)?;
            opened
        }
        false => receive(&**cluster, &wanted)?,
    };
    let digest = [("data".to_owned(), opened.data.digest.clone())];
    same(&**cluster, &digest.into_iter().collect())?;
    let Opened { writer, trainer, data } = opened;
    Ok(Opened { writer, trainer: trainer.with_cluster(Arc::clone(cluster))?, data })
}

/// Everything that must be the same in all processes, by name.
fn settings(train: &Train, config: &Config) -> Settings {
    let tree = Tree::of(config);
    let mut settings: Settings =
        tree.keys().into_iter().filter_map(|key| Some((key.clone(), tree.get(&key).ok()?.to_string()))).collect();
    settings.retain(|key, _| !OWN.contains(&key.as_str()));
    settings.insert("--resume".into(), train.resume.to_string());
    settings
}

/// Gives the others the configuration, and where the run has come to.
fn send(cluster: &dyn Cluster, trainer: &Trainer) -> Result<(), Failure> {
    let checkpoint = trainer.checkpoint()?;
    cluster.of_first(trainer.config().to_toml().as_bytes())?;
    cluster.of_first(&serde_json::to_vec(checkpoint.header()).unwrap_or_default())?;
    for tensors in [checkpoint.weights(), checkpoint.train_state()] {
        cluster.of_first(&tensors_to_bytes(tensors))?;
    }
    Ok(())
}

/// What [`send`] gives: the run of the first process, with data of this one's own.
fn receive(cluster: &dyn Cluster, wanted: &Config) -> Result<Opened, Failure> {
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::Usage(format!("what rank 0 sent cannot be read: {error}"));
    let config = String::from_utf8_lossy(&cluster.of_first(&[])?).into_owned();
    let mut config = Config::from_toml(&config).map_err(|error| unreadable(&error))?;
    let header: Header = serde_json::from_slice(&cluster.of_first(&[])?).map_err(|error| unreadable(&error))?;
    let tensors = || Ok::<_, Failure>(read_tensors(Path::new("what rank 0 sent"), &cluster.of_first(&[])?)?);
    let checkpoint = Checkpoint::new(header, tensors()?, tensors()?)?;
    config.data.dir.clone_from(&wanted.data.dir);
    let data: DataSet = load(&config.data)?;
    let trainer = Trainer::resume(config, &data, &checkpoint)?;
    Ok(Opened { writer: None, trainer, data })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn of(settings: &[&str]) -> Settings {
        let words = ["ktied", "train", "--preset", "mlp-digits", "--out", "run"];
        let Command::Train(train) = Cli::parse_from(words.iter().chain(settings)).command else { panic!("train") };
        super::settings(&train, &config_of(&train).expect("a configuration"))
    }

    #[test]
    fn only_where_the_data_are_may_differ() {
        assert_eq!(of(&["--set", "data.dir=elsewhere"]), of(&[]));
        assert_ne!(of(&["--set", "optim.lr=0.5"]), of(&[]));
        assert_ne!(of(&["--resume"]), of(&[]));
    }
}
