//! `ktied export`: a run's log, evaluations and configuration as tables, for people who live in pandas.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ktied::checkpoint::write_file;
use ktied::config::Tree;
use ktied::files;
use ktied::train::Run;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::{Args, Export, ExportFormat};
use crate::csv::Csv;
use crate::exit::Failure;
use crate::log::{Log, MAX_DOCUMENT_BYTES};
use crate::table::{Table, grouped, print_json, print_line};

/// Columns that come first where there are any.
const FIRST: [&str; 4] = ["step", "epoch", "layer", "tensor"];

/// One file.
#[derive(Debug, Serialize)]
struct File {
    path: PathBuf,
    rows: usize,
    columns: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    run: PathBuf,
    folder: PathBuf,
    files: Vec<File>,
    /// Lines of the log that could not be read, from 1.
    unreadable_lines: Vec<usize>,
}

/// Rows that will be a table: a name, and cells by column.
type Rows = (String, Vec<Map<String, Value>>);

pub(crate) fn run(arguments: &Export, args: &Args) -> Result<(), Failure> {
    let ExportFormat::Csv = arguments.format;
    let run = Run::open(&arguments.run)?;
    let folder = arguments.out.clone().unwrap_or_else(|| arguments.run.join("export"));
    let log = Log::read(&arguments.run)?;
    let mut tables = of_log(&log);
    tables.push(of_evaluations(&arguments.run.join("evaluation"))?);
    tables.push(of_config(&Tree::of(&run.config()?)));
    // Not before all has been read.
    fs::create_dir_all(&folder).map_err(|error| ktied::Error::io("create", &folder, &error))?;
    let files = tables.into_iter().filter(|(_, rows)| !rows.is_empty()).map(|table| write(&folder, table));
    let report = Report {
        run: arguments.run.clone(),
        files: files.collect::<Result<_, _>>()?,
        unreadable_lines: log.unreadable,
        folder,
    };
    if args.json { print_json(&report) } else { print(&report) }
}

/// A table for each kind of event, and one for each list inside them.
fn of_log(log: &Log) -> Vec<Rows> {
    let kind = |event: &Value| event.get("event").and_then(Value::as_str).unwrap_or("other").to_owned();
    let kinds: BTreeSet<String> = log.events().iter().map(kind).collect();
    let mut tables: Vec<Rows> = Vec::new();
    for name in kinds {
        let mut rows = Vec::new();
        for event in log.events().iter().filter(|event| kind(event) == name) {
            let mut row = Map::new();
            flatten("", event, &mut row);
            row.remove("event");
            for (list, items) in lists(event) {
                // A list is a table of its own; scales hold nothing else, so theirs keeps their name.
                let table = if list == "layers" { name.clone() } else { list };
                let step = event.get("step").cloned().unwrap_or_default();
                add(&mut tables, &table, items.iter().map(|item| with_step(item, &step)));
            }
            rows.push(row);
        }
        if !tables.iter().any(|(table, _)| *table == name) {
            tables.push((name, rows));
        }
    }
    tables
}

fn add(tables: &mut Vec<Rows>, name: &str, rows: impl Iterator<Item = Map<String, Value>>) {
    match tables.iter_mut().find(|(table, _)| table == name) {
        Some((_, all)) => all.extend(rows),
        None => tables.push((name.to_owned(), rows.collect())),
    }
}

fn with_step(item: &Value, step: &Value) -> Map<String, Value> {
    let mut row = Map::new();
    flatten("", item, &mut row);
    row.insert("step".into(), step.clone());
    row
}

/// The lists of an event by name.
fn lists(event: &Value) -> impl Iterator<Item = (String, &Vec<Value>)> {
    let entries = event.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_array()?)))
}

/// Values inside objects by their dotted names; lists are left out.
fn flatten(prefix: &str, value: &Value, row: &mut Map<String, Value>) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, row);
            }
        }
        Value::Array(_) => {}
        value => drop(row.insert(prefix.into(), value.clone())),
    }
}

/// Every metric of every split that was judged.
fn of_evaluations(folder: &Path) -> Result<Rows, Failure> {
    let mut rows = Vec::new();
    for split in ["train", "validation", "test"] {
        let path = folder.join(format!("{split}.json"));
        let text = match files::read_text(&path, MAX_DOCUMENT_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(ktied::Error::read(&path, &error).into()),
        };
        let document: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::Usage(format!("{} is not JSON: {error}", path.display())))?;
        for (metric, value) in document.as_object().into_iter().flatten() {
            let row = |cells: [(&str, Value); 3]| {
                let named = [("split", split.into()), ("metric", Value::from(metric.as_str()))];
                named.into_iter().chain(cells).map(|(name, cell)| (name.to_owned(), cell)).collect()
            };
            let part = |name: &str| value.get(name).cloned().unwrap_or_default();
            match value {
                Value::Object(estimate) if estimate.contains_key("value") => {
                    rows.push(row(["value", "sem_examples", "sem_draws"].map(|name| (name, part(name)))));
                }
                Value::Number(number) => {
                    let cells = [number.clone().into(), Value::Null, Value::Null];
                    let [value, examples, draws] = cells;
                    rows.push(row([("value", value), ("sem_examples", examples), ("sem_draws", draws)]));
                }
                _ => {}
            }
        }
    }
    Ok(("evaluation".into(), rows))
}

fn of_config(tree: &Tree) -> Rows {
    let row = |key: String| {
        let value = match tree.get(&key).cloned().unwrap_or_default() {
            list @ Value::Array(_) => list.to_string().into(),
            other => other,
        };
        Map::from_iter([("key".to_owned(), key.into()), ("value".to_owned(), value)])
    };
    ("config".into(), tree.keys().into_iter().map(row).collect())
}

fn write(folder: &Path, (name, rows): Rows) -> Result<File, Failure> {
    let all: BTreeSet<&String> = rows.iter().flat_map(Map::keys).collect();
    let first = FIRST.iter().copied().filter(|name| all.contains(&(*name).to_owned()));
    let others = all.iter().map(|name| name.as_str()).filter(|name| !FIRST.contains(name));
    let columns: Vec<&str> = first.chain(others).collect();
    let mut csv = Csv::new(&columns);
    for row in &rows {
        csv.row(&columns.iter().map(|name| row.get(*name).cloned().unwrap_or_default()).collect::<Vec<_>>());
    }
    // Kinds of events come from the log, which anybody may have written.
    let stem: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect();
    let path = folder.join(format!("{stem}.csv"));
    let columns = columns.into_iter().map(str::to_owned).collect();
    write_file(&path, csv.finish().as_bytes())?;
    Ok(File { path, rows: rows.len(), columns })
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["file", "rows", "columns"]).with_text_from(2);
    for file in &report.files {
        let columns = if file.columns.len() > 8 { &file.columns[..8] } else { &file.columns[..] };
        let more = if file.columns.len() > 8 { ", …" } else { "" };
        let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        table.row(vec![name, grouped(file.rows), columns.join(", ") + more]);
    }
    table.print()?;
    print_line("")?;
    if !report.unreadable_lines.is_empty() {
        let count = report.unreadable_lines.len();
        print_line(&format!(
            "{count} lines of the log could not be read, the first is {}.",
            report.unreadable_lines[0]
        ))?;
    }
    print_line(&format!("{} as tables in {}.", report.run.display(), report.folder.display()))
}
