//! `events.jsonl` is what docs/events.md says, and `export` writes all of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::report::train;
use crate::support::{Folder, json};

/// (event, field) for every value of a log; fields inside others are dotted, those of lists have brackets.
fn fields(run: &str) -> BTreeSet<(String, String)> {
    fn walk(event: &str, prefix: &str, value: &Value, found: &mut BTreeSet<(String, String)>) {
        let join = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        match value {
            Value::Object(entries) => entries.iter().for_each(|(name, value)| walk(event, &join(name), value, found)),
            Value::Array(items) => items.iter().for_each(|item| walk(event, &format!("{prefix}[]"), item, found)),
            _ => drop(found.insert((event.to_owned(), prefix.to_owned()))),
        }
    }
    let text = fs::read_to_string(Path::new(run).join("events.jsonl")).expect("a log");
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        walk(event["event"].as_str().expect("a kind"), "", &event, &mut found);
    }
    found
}

/// What docs/events.md has: a heading "## `event`", then rows that begin "| `field` |". `{value, sem_examples,
/// sem_draws}` after a name stands for three fields.
fn documented() -> BTreeSet<(String, String)> {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md")).expect("the page");
    let (mut event, mut found) = (String::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## `") {
            event = name.trim_end_matches('`').to_owned();
        } else if line.starts_with("## ") {
            event.clear();
        } else if let (Some(field), false) =
            (line.strip_prefix("| `").and_then(|rest| rest.split('`').next()), event.is_empty())
        {
            match field.strip_suffix(".{value, sem_examples, sem_draws}") {
                Some(metric) => found.extend(
                    ["value", "sem_examples", "sem_draws"].map(|part| (event.clone(), format!("{metric}.{part}"))),
                ),
                None => drop(found.insert((event.clone(), field.to_owned()))),
            }
        }
    }
    found
}

/// Runs that between them write everything that can be in a log: classes, numbers, scales, ratios.
fn runs(folder: &Folder) -> [String; 2] {
    let table = folder.join("table.csv");
    let rows: String = (0..300).map(|i| format!("{},{},{}\n", i % 17, i % 5, i % 3)).collect();
    fs::write(&table, format!("x,y,label\n{rows}")).expect("a table");
    let set = format!("data.set={table}");
    let classes = train(
        folder,
        "classes",
        &[&set, "data.task=classes", "model.sizes=2,8,3", "posterior.kind=k-tied:2", "train.batch=240"],
    );
    let values = train(
        folder,
        "values",
        &[&set, "data.task=values", "model.sizes=2,8,1", "posterior.kind=mean-field", "train.batch=240"],
    );
    [classes, values]
}

#[test]
fn every_field_of_a_real_log_is_documented_and_every_documented_field_is_real() {
    let folder = Folder::new("events");
    let real: BTreeSet<(String, String)> = runs(&folder).iter().flat_map(|run| fields(run)).collect();
    let documented = documented();
    let missing: Vec<_> = real.difference(&documented).collect();
    assert!(missing.is_empty(), "docs/events.md does not say what these are: {missing:?}");
    let invented: Vec<_> = documented.difference(&real).collect();
    assert!(invented.is_empty(), "docs/events.md describes what no log has: {invented:?}");
}

/// A CSV without quotes: its heading and its rows.
fn table(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let text = fs::read_to_string(path).expect("a table");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
    (lines.next().expect("a heading"), lines.collect())
}

#[test]
fn export_writes_every_event_as_a_row() {
    let folder = Folder::new("export");
    let [run, _] = runs(&folder);
    json(&["evaluate", &run, "--samples", "2"]);
    let out = folder.join("tables");
    let report = json(&["export", &run, "--format", "csv", "--out", &out]);
    let names: BTreeSet<&str> =
        report["files"].as_array().expect("files").iter().map(|file| file["path"].as_str().expect("a path")).collect();
    let expected = ["checkpoint", "config", "evaluation", "finished", "scales", "snr", "train", "validation"];
    let expected: Vec<String> = expected.map(|name| format!("{out}/{name}.csv")).to_vec();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);

    let events: Vec<Value> = fs::read_to_string(Path::new(&run).join("events.jsonl"))
        .expect("a log")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let (heading, rows) = table(&Path::new(&out).join("train.csv"));
    assert_eq!((&heading[0][..], rows.len()), ("step", of("train").len()));
    let nll = heading.iter().position(|name| name == "nll").expect("a column");
    for (row, event) in rows.iter().zip(of("train")) {
        assert_eq!(row[nll].parse::<f64>().ok(), event["nll"].as_f64());
    }
    let (heading, rows) = table(&Path::new(&out).join("validation.csv"));
    assert!(heading.contains(&"metrics.neg_elbo.sem_draws".to_owned()) && rows.len() == of("validation").len());
    let (heading, rows) = table(&Path::new(&out).join("scales.csv"));
    assert_eq!(
        (heading.as_slice(), rows.len()),
        (&["step", "layer", "max", "mean", "min", "of_prior"].map(str::to_owned)[..], 2 * of("scales").len())
    );
    let (heading, _) = table(&Path::new(&out).join("snr.csv"));
    assert_eq!(heading, ["step", "tensor", "mean", "median"]);
    let (_, rows) = table(&Path::new(&out).join("evaluation.csv"));
    assert!(rows.iter().any(|row| row.contains(&"accuracy".to_owned())));
}

#[test]
fn an_export_leaves_cells_empty_that_were_not_finite_and_counts_what_it_cannot_read() {
    let folder = Folder::new("export-odd");
    let run = train(&folder, "run", &[]);
    let text = "{\"event\":\"train\",\"step\":1,\"nll\":null}\n{\"event\":\"train\",\"step\":2,\"nll\":0.5,\"new\":\"a,\\\"b\\\"\"}\nx\n";
    fs::write(Path::new(&run).join("events.jsonl"), text).expect("a log");
    let report = json(&["export", &run]);
    assert_eq!(report["unreadable_lines"], serde_json::json!([3]));
    let written = fs::read_to_string(Path::new(&run).join("export/train.csv")).expect("a table");
    assert_eq!(written, "step,new,nll\n1,,\n2,\"a,\"\"b\"\"\",0.5\n");
}
