//! Preset, file, flags and `--set`, in this order, each over the ones before.

use std::path::Path;

use ktied::config::{Config, KeyError, Preset, Tree};
use ktied::files;
use ktied::models::ModelSpec;
use ktied::train::MAX_CONFIG_BYTES;

use crate::args::Train;
use crate::exit::Failure;

/// Keys that a run may change when it goes on: how long, how often, and where the data are.
const CHANGEABLE: [&str; 10] = [
    "data.dir",
    "train.epochs",
    "train.steps",
    "train.validate_every",
    "train.validate_draws",
    "train.patience",
    "train.checkpoint_every",
    "train.checkpoint_steps",
    "train.keep",
    "train.log_every",
];

/// The configuration that the arguments describe.
pub(crate) fn config_of(train: &Train) -> Result<Config, Failure> {
    let Some(tree) = tree_of(train)? else {
        let presets = Preset::ALL.map(Preset::name).join(", ");
        return Err(Failure::Usage(format!("say what to train: --preset P (one of {presets}) or --config FILE.toml")));
    };
    tree.config().map_err(usage)
}

/// The run's own configuration, with what the arguments may still change.
pub(crate) fn resumed(train: &Train, stored: Config) -> Result<Config, Failure> {
    let mut tree = Tree::of(&stored);
    let asked = match tree_of(train)? {
        Some(asked) => asked,
        None => {
            let mut asked = tree.clone();
            flags(train, &mut asked)?;
            asked
        }
    };
    let mut refused = vec![];
    for key in tree.keys() {
        let was = tree.get(&key).map_err(usage)?.clone();
        let Ok(wanted) = asked.get(&key).cloned() else {
            // Another kind of network has other keys.
            refused.push(format!("{key}: the run in {} has {was}, got nothing", train.out.display()));
            continue;
        };
        if was == wanted {
            continue;
        }
        if !CHANGEABLE.contains(&key.as_str()) {
            refused.push(format!("{key}: the run in {} has {was}, got {wanted}", train.out.display()));
            continue;
        }
        let text = match &wanted {
            serde_json::Value::Null => "none".into(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        tree.set(&key, &text).map_err(usage)?;
    }
    together(refused)?;
    tree.config().map_err(usage)
}

/// All sentences as one failure, a line each; none if there is none.
fn together(sentences: Vec<String>) -> Result<(), Failure> {
    if sentences.is_empty() { Ok(()) } else { Err(Failure::Usage(sentences.join("\n"))) }
}

/// None if the arguments name neither a preset nor a file.
fn tree_of(train: &Train) -> Result<Option<Tree>, Failure> {
    let file = train.config.as_deref().map(read).transpose()?;
    let named = file.as_ref().and_then(|(preset, _)| *preset);
    if let (Some(file), Some(flag)) = (named, train.preset)
        && file != flag
    {
        return Err(Failure::Usage(format!("--preset is {flag}, but the configuration file names {file}")));
    }
    let preset = match (train.preset.or(named), &file) {
        (Some(preset), _) => preset,
        (None, Some(_)) => Preset::MlpMnist,
        (None, None) => return Ok(None),
    };
    let (mut tree, mut wrong) = (Tree::of(&preset.config()), vec![]);
    if let (Some((_, table)), Some(path)) = (&file, &train.config)
        && let Err(error) = tree.overlay(table)
    {
        let all = if let KeyError::Several(all) = error { all } else { vec![error] };
        wrong.extend(all.iter().map(|error| format!("{}: {error}", path.display())));
    }
    match flags(train, &mut tree) {
        Err(Failure::Usage(sentences)) => wrong.push(sentences),
        other => other?,
    }
    together(wrong)?;
    Ok(Some(tree))
}

/// A TOML file: the preset that it changes, if it names one, and the changes.
fn read(path: &Path) -> Result<(Option<Preset>, toml::Table), Failure> {
    let wrong = |reason: &dyn std::fmt::Display| Failure::Usage(format!("{}: {reason}", path.display()));
    let text = files::read_text(path, MAX_CONFIG_BYTES).map_err(|error| ktied::Error::read(path, &error))?;
    let mut table: toml::Table = toml::from_str(&text).map_err(|error| wrong(&error.message()))?;
    let preset = match table.remove("preset") {
        Some(toml::Value::String(name)) => Some(name.parse().map_err(|error: ktied::Error| wrong(&error))?),
        Some(other) => return Err(wrong(&format!("preset must be a name, got {other}"))),
        None => None,
    };
    Ok((preset, table))
}

/// The flags that are short for a key, then `--set`.
fn flags(train: &Train, tree: &mut Tree) -> Result<(), Failure> {
    let settings = [
        ("posterior.kind", train.posterior.map(|kind| kind.to_string())),
        ("estimator.kind", train.estimator.map(|kind| kind.to_string())),
        ("train.epochs", train.epochs.map(|epochs| epochs.to_string())),
        ("train.seed", train.seed.map(|seed| seed.to_string())),
        ("data.dir", train.data.as_ref().map(|dir| dir.display().to_string())),
    ];
    for (key, value) in settings {
        if let Some(value) = value {
            tree.set(key, &value).map_err(usage)?;
        }
    }
    if train.epochs.is_some() {
        // Whoever says epochs does not mean a preset's steps.
        tree.set("train.steps", "none").map_err(usage)?;
    }
    let mut wrong = vec![];
    for assignment in &train.set {
        match assign(tree, assignment) {
            Err(Failure::Usage(sentence)) => wrong.push(sentence),
            other => other?,
        }
    }
    together(wrong)?;
    let mut config = tree.config().map_err(usage)?;
    config.data = config.data.located();
    *tree = Tree::of(&config);
    Ok(())
}

/// `key=value`
pub(crate) fn assign(tree: &mut Tree, assignment: &str) -> Result<(), Failure> {
    let Some((key, value)) = assignment.split_once('=') else {
        return Err(Failure::Usage(format!("--set expected key=value, found `{assignment}`")));
    };
    tree.set(key.trim(), value).map_err(|error| Failure::Usage(format!("--set {assignment}: {error}")))
}

fn usage(error: KeyError) -> Failure {
    Failure::Usage(error.to_string())
}

/// The layers that `local` draws by Flipout.
pub(crate) fn layers_by_flipout(config: &Config) -> Vec<&'static str> {
    match config.model {
        ModelSpec::Mlp(_) => vec![],
        ModelSpec::LeNet(_) | ModelSpec::ResNet18(_) => vec!["the convolutions"],
        ModelSpec::Lstm(_) => vec!["the LSTM"],
    }
}
