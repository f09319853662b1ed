//! The command that makes a run again.

use std::path::Path;

use ktied::config::{Config, Preset, Tree};
use ktied::files;
use ktied::posterior::PosteriorKind;
use serde_json::Value;

use crate::log::MAX_DOCUMENT_BYTES;

/// The command for a run's folder, or why there is none.
pub(super) fn command(folder: &Path, config: &Config) -> Result<String, String> {
    let out = format!("{}-again", folder.display());
    let words = match (document(folder, "compression.json"), document(folder, "pruning/pruning.json")) {
        (Some(compression), _) => compress(&compression, config, &out)?,
        (None, Some(pruning)) => prune(&pruning, &out)?,
        (None, None) => train(folder, config, &out)?,
    };
    Ok(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

fn document(folder: &Path, name: &str) -> Option<Value> {
    serde_json::from_str(&files::read_text(&folder.join(name), MAX_DOCUMENT_BYTES).ok()?).ok()
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn compress(document: &Value, config: &Config, out: &str) -> Result<Vec<String>, String> {
    let text = |key: &str| match document.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        _ => Err(format!("It was compressed, but its compression.json does not say `{key}`.")),
    };
    let mut words =
        owned(&["ktied", "compress", &text("run")?, "--rank", &text("rank")?, "--method", &text("method")?]);
    if config.posterior.conv.is_some_and(|conv| conv == config.posterior.kind) {
        words.push("--conv".into());
    }
    if document.get("finetuned").is_some() {
        words.extend(["--finetune-epochs".into(), config.train.epochs.to_string()]);
    }
    words.extend(["--out".into(), out.into()]);
    Ok(words)
}

fn prune(document: &Value, out: &str) -> Result<Vec<String>, String> {
    let missing = || "It was pruned, but its pruning.json does not say how.".to_owned();
    let run = document.get("run").and_then(Value::as_str).ok_or_else(missing)?;
    let keep = document.get("keep_frac").and_then(Value::as_f64).ok_or_else(missing)?;
    Ok(owned(&["ktied", "prune", run, "--keep-frac", &keep.to_string(), "--out", out]))
}

/// The preset that is nearest, and every key that differs. What is made of it is compared with the configuration.
fn train(folder: &Path, config: &Config, out: &str) -> Result<Vec<String>, String> {
    if matches!(config.posterior.kind, PosteriorKind::LowRank { .. }) {
        return Err("It was not trained but made from another run, and its folder does not say which.".into());
    }
    let wanted = Tree::of(config);
    let candidates = Preset::ALL.into_iter().filter_map(|preset| Some((preset, changes(preset, &wanted)?)));
    let Some((preset, changes)) = candidates.min_by_key(|(_, changes)| changes.len()) else {
        return Err("No command can say its configuration; train with the one below, by --config.".into());
    };
    let mut words = owned(&["ktied", "train", "--preset", preset.name()]);
    for (key, value) in changes {
        match key.as_str() {
            "posterior.kind" => words.extend(["--posterior".into(), value]),
            "train.seed" => words.extend(["--seed".into(), value]),
            _ => words.extend(["--set".into(), format!("{key}={value}")]),
        }
    }
    if let Ok(source) = files::read_text(&folder.join("init-from"), MAX_DOCUMENT_BYTES) {
        words.extend(["--init-from".into(), source]);
    }
    words.extend(["--out".into(), out.into()]);
    Ok(words)
}

/// The keys that a preset needs changed to be the wanted configuration; none if that cannot be said.
fn changes(preset: Preset, wanted: &Tree) -> Option<Vec<(String, String)>> {
    let mut tree = Tree::of(&preset.config());
    let mut changes = Vec::new();
    // The kind of model decides which keys there are, so it goes first.
    for key in std::iter::once("model.kind".to_owned()).chain(wanted.keys()) {
        let value = wanted.get(&key).ok()?;
        if tree.get(&key).ok() != Some(value) {
            let text = say(value);
            tree.set(&key, &text).ok()?;
            changes.push((key, text));
        }
    }
    (tree == *wanted).then_some(changes)
}

/// A value as `--set` takes it.
fn say(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(say).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A word for a shell: as it is, or in single quotes, which keep everything but themselves.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=,@%+".contains(character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_what_differs_from_the_nearest_preset() {
        let mut config = Preset::MlpDigits.config();
        config.posterior.kind = "k-tied:2".parse().expect("a posterior");
        (config.train.steps, config.optim.lr, config.anneal.per_batch) = (Some(60), 1.5e-4, Some(1e-3));
        let found = command(Path::new("a run's"), &config).expect("a command");
        assert!(found.starts_with("ktied train --preset mlp-digits "), "{found}");
        for part in
            ["--posterior k-tied:2", "--set train.steps=60", "--set optim.lr=0.00015", "--set anneal.per_batch=0.001"]
        {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(found.ends_with("--out 'a run'\\''s-again'"), "{found}");
    }

    #[test]
    fn every_preset_is_its_own_nearest() {
        for preset in Preset::ALL {
            let found = command(Path::new("run"), &preset.config()).expect("a command");
            assert_eq!(found, format!("ktied train --preset {} --out run-again", preset.name()));
        }
    }

    #[test]
    fn a_run_that_was_not_trained_has_no_command_unless_it_says_of_what_it_was_made() {
        let mut config = Preset::MlpDigits.config();
        config.posterior.kind = "low-rank:2".parse().expect("a posterior");
        assert!(command(Path::new("run"), &config).is_err_and(|reason| reason.contains("made from another run")));
    }

    #[test]
    fn words_for_a_shell_keep_what_they_are() {
        assert_eq!(
            [quoted("a=1,2"), quoted("a b"), quoted("it's"), quoted("")],
            ["a=1,2", "'a b'", "'it'\\''s'", "''"]
        );
        assert_eq!(quoted("$(rm)\n`x`"), "'$(rm)\n`x`'");
    }
}
