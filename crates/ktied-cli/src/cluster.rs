//! The processes that a launcher has started together, if it has: how they come together, and how they end.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use ktied::cluster::{Alone, Cluster};

use crate::args::{Args, Bench, Command};
use crate::exit::Failure;
use crate::table::say_line;

/// What launchers tell a process about how many there are, Open MPI's first; with Slurm's PMIx only the second is there.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
/// Where they say which one it is.
const RANKS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];

/// Joins the other processes, if a launcher has started several.
pub(crate) fn join() -> Result<Arc<dyn Cluster>, Failure> {
    let launched = RANKS.iter().any(|name| std::env::var_os(name).is_some());
    match launched && size() != Some(1) {
        true => of_launcher(),
        false => Ok(Arc::new(Alone)),
    }
}

fn number(names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

fn size() -> Option<usize> {
    number(&SIZES)
}

#[cfg(feature = "mpi")]
fn of_launcher() -> Result<Arc<dyn Cluster>, Failure> {
    let refused = || Failure::Usage("the MPI library does not let several threads of a process take turns".into());
    Ok(Arc::new(ktied::cluster::Mpi::join().ok_or_else(refused)?))
}

/// Two processes that know nothing of each other would do the same work twice, into the same folder.
#[cfg(not(feature = "mpi"))]
fn of_launcher() -> Result<Arc<dyn Cluster>, Failure> {
    let several = size().map_or("several processes".into(), |size| format!("{size} processes"));
    let sentence = format!("a launcher has started {several}, and this program was built without the feature `mpi`");
    if number(&RANKS).is_some_and(|rank| rank > 0) {
        // The first one says it.
        std::process::exit(2);
    }
    Err(Failure::Usage(format!("{sentence}: cargo build --release --features mpi")))
}

/// Refuses what several processes would only repeat.
pub(crate) fn check(command: &Command, cluster: &dyn Cluster) -> Result<(), Failure> {
    let found = cluster.place().of;
    match command {
        Command::Train(_) | Command::Evaluate(_) | Command::Predict(_) => Ok(()),
        Command::Bench(Bench::Ranks(_) | Bench::Scale(_) | Bench::Sum(_)) => Ok(()),
        _ if found <= 1 => Ok(()),
        _ => Err(Failure::Usage(format!("only train, evaluate and predict run in several processes, found {found}"))),
    }
}

/// What must be the same in all processes, by name.
pub(crate) type Settings = BTreeMap<String, String>;

/// Refuses processes that do not have what the first has, its version of the program included, with all differences.
pub(crate) fn same(cluster: &dyn Cluster, own: &Settings) -> Result<(), Failure> {
    let mut own = own.clone();
    own.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    let notes = cluster.notes(&serde_json::to_vec(&own).unwrap_or_default())?;
    let all: Vec<Settings> = notes.iter().map(|note| serde_json::from_slice(note).unwrap_or_default()).collect();
    let Some((first, others)) = all.split_first() else { return Ok(()) };
    for (number, other) in others.iter().enumerate() {
        let keys = first.keys().chain(other.keys().filter(|key| !first.contains_key(*key)));
        let of = |settings: &Settings, key| settings.get(key).cloned().unwrap_or("nothing".into());
        let differ = keys.filter(|key| first.get(*key) != other.get(*key));
        let lines = differ.map(|key| format!("{key}: rank 0 has {}, got {}", of(first, key), of(other, key)));
        let differences = lines.collect::<Vec<String>>().join("\n");
        if !differences.is_empty() {
            return Err(ktied::Error::UnlikeFirst { process: number + 1, differences }.into());
        }
    }
    Ok(())
}

/// The same arguments for a process that does not speak to people, unless it is the first.
pub(crate) fn voice(args: &Args, cluster: &dyn Cluster) -> Args {
    Args { quiet: args.quiet || !cluster.place().is_first(), ..args.clone() }
}

/// How this process ends: as the first of those that failed, if any has. That one says why.
pub(crate) fn leave(outcome: Result<(), Failure>, cluster: &dyn Cluster) -> ExitCode {
    let place = cluster.place();
    match outcome {
        Ok(()) => match cluster.notes(&[]) {
            Err(ktied::Error::Elsewhere { code, .. }) => ExitCode::from(code),
            _ => ExitCode::SUCCESS,
        },
        Err(Failure::Library(ktied::Error::Elsewhere { code, .. })) => ExitCode::from(code),
        Err(failure) => {
            let rank = if place.is_first() { String::new() } else { format!("rank {}: ", place.number) };
            let sentence = format!("{rank}{failure}");
            if cluster.fail(failure.code(), &sentence) == place.number {
                say_line(&format!("ktied: {sentence}"));
            }
            ExitCode::from(failure.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use ktied::cluster::Place;

    use super::*;

    /// A first process, and a second that says something else.
    #[derive(Debug)]
    struct Beside(Settings);

    impl Cluster for Beside {
        fn place(&self) -> Place {
            Place { number: 0, of: 2 }
        }

        fn gather(&self, note: &[u8]) -> Vec<Vec<u8>> {
            // The first byte of a note says that its process goes on.
            vec![note.to_vec(), [&note[..1], &serde_json::to_vec(&self.0).expect("JSON")[..]].concat()]
        }

        fn exchange(&self, _: &[u8], _: &[Range<usize>], _: &mut [u8]) {}
        fn spread(&self, _: &[u8], _: &mut [u8], _: &[Range<usize>]) {}
    }

    const VERSION: &str = env!("CARGO_PKG_VERSION");

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    /// What is said of a second process with these settings, where the first has a seed of 0.
    fn said(second: &[(&str, &str)]) -> Option<String> {
        let outcome = same(&Beside(settings(second)), &settings(&[("seed", "0")]));
        outcome.err().map(|failure| failure.to_string())
    }

    #[test]
    fn another_version_of_the_program_is_a_difference() {
        assert_eq!(said(&[("seed", "0"), ("version", VERSION)]), None);
        let said = said(&[("seed", "0"), ("version", "0.0.9")]).expect("refused");
        let line = format!("version: rank 0 has {VERSION}, got 0.0.9");
        assert!(said.contains("rank 1") && said.contains(&line) && !said.contains("seed"), "{said}");
    }

    #[test]
    fn what_only_one_process_has_is_a_difference() {
        let less = said(&[("version", VERSION)]).expect("refused");
        assert!(less.contains("seed: rank 0 has 0, got nothing"), "{less}");
        let more = said(&[("seed", "0"), ("new", "1"), ("version", VERSION)]).expect("refused");
        assert!(more.contains("new: rank 0 has nothing, got 1"), "{more}");
    }
}
