//! How each run was made: what differs between them, the whole configuration, and the command that repeats it.

use std::collections::BTreeSet;

use ktied::config::Tree;
use serde_json::Value;

use super::RunView;
use super::html::{Html, short};

pub(super) fn write(html: &mut Html, runs: &[RunView]) {
    differences(html, runs);
    runs.iter().for_each(|run| of_run(html, run));
}

/// A key's value as people write it.
fn say(tree: &Tree, key: &str) -> String {
    match tree.get(key) {
        Ok(Value::Null) => "none".into(),
        Ok(Value::String(text)) => text.clone(),
        Ok(other) => other.to_string(),
        Err(_) => "–".into(),
    }
}

/// The keys that are not the same in all runs.
fn differences(html: &mut Html, runs: &[RunView]) {
    if runs.len() < 2 {
        return;
    }
    let trees: Vec<Tree> = runs.iter().map(|run| Tree::of(&run.config)).collect();
    let keys: BTreeSet<String> = trees.iter().flat_map(Tree::keys).collect();
    let rows: Vec<(String, Vec<String>)> =
        keys.into_iter().map(|key| (key.clone(), trees.iter().map(|tree| say(tree, &key)).collect())).collect();
    let rows: Vec<_> = rows.into_iter().filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect();
    html.words("h3", &[], "What differs");
    if rows.is_empty() {
        html.words("p", &[], "Nothing: the configurations are the same.");
        return;
    }
    let region = [("class", "wide"), ("role", "region"), ("tabindex", "0"), ("aria-label", "Keys that differ")];
    html.around("div", &region, |html| {
        html.around("table", &[], |html| {
            html.words("caption", &[("class", "unseen")], "Keys of the configuration that differ between runs");
            html.around("thead", &[], |html| {
                html.around("tr", &[], |html| {
                    html.words("th", &[("scope", "col")], "key");
                    for run in runs {
                        html.around("th", &[("scope", "col")], |html| html.name(&run.name));
                    }
                });
            });
            html.around("tbody", &[], |html| {
                for (key, values) in &rows {
                    html.around("tr", &[], |html| {
                        html.words("th", &[("scope", "row")], key);
                        for value in values {
                            html.around("td", &[("class", "words")], |html| html.name(value));
                        }
                    });
                }
            });
        });
    });
}

fn of_run(html: &mut Html, run: &RunView) {
    let tag = format!("run-{}", run.index);
    html.around("section", &[("data-tag", tag.as_str()), ("class", "settings")], |html| {
        html.around("h3", &[], |html| {
            super::page::swatch(html, run.index);
            html.name(&run.name);
        });
        html.words("p", &[], "To repeat it:");
        match &run.repeat {
            Ok(command) => {
                html.around("pre", &[("class", "command"), ("dir", "ltr")], |html| html.words("code", &[], command))
            }
            Err(reason) => html.words("p", &[("class", "none")], reason),
        }
        html.around("dl", &[], |html| facts(html, run));
        html.around("details", &[], |html| {
            html.words("summary", &[], "The whole configuration");
            html.around("pre", &[("dir", "ltr")], |html| html.words("code", &[], &run.config_text));
        });
    });
}

fn facts(html: &mut Html, run: &RunView) {
    let mut fact = |name: &str, value: &str| {
        html.words("dt", &[], name);
        html.around("dd", &[], |html| html.words("bdi", &[], value));
    };
    fact("folder", &run.folder);
    if let Some(checkpoint) = &run.checkpoint {
        fact("checkpoint", &format!("step {}, tensors {}", checkpoint.step, checkpoint.digest));
        fact("data", &format!("{}, SHA-256 {}", short(&run.config.data.set), checkpoint.data_digest));
        let by = format!(
            "ktied {} on {}; bits may differ on another instruction set",
            checkpoint.ktied, checkpoint.instruction_set
        );
        fact("made by", &by);
    }
}
