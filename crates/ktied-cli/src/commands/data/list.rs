//! `ktied data list`: the data sets with names, and where they are.

use ktied::data::place;
use ktied::data::standard::{Kind, STANDARD, Standard};
use serde::Serialize;

use crate::args::{Args, DataList};
use crate::exit::Failure;
use crate::table::{Table, grouped, print_json, print_line};

#[derive(Debug, Serialize)]
struct Row {
    set: &'static str,
    train: usize,
    validation: usize,
    test: usize,
    about: &'static str,
    embedded: bool,
    /// The folder, or nothing if the set is not there.
    found: Option<String>,
    /// What is wrong with a folder that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    folders: Vec<String>,
    sets: Vec<Row>,
}

pub(crate) fn run(list: &DataList, args: &Args) -> Result<(), Failure> {
    let folders = place::folders(list.data.as_deref());
    let report = Report {
        sets: STANDARD.iter().map(|set| row(set, &folders)).collect(),
        folders: folders.iter().map(|folder| folder.display().to_string()).collect(),
    };
    if args.json { print_json(&report) } else { print(&report) }
}

fn row(set: &Standard, folders: &[std::path::PathBuf]) -> Row {
    let [train, validation, test] = set.examples;
    let embedded = set.kind == Kind::Embedded;
    let (found, problem) = match set.find(folders) {
        Ok(_) if embedded => (None, None),
        Ok(folder) => (Some(folder.display().to_string()), None),
        Err(ktied::data::DataError::Missing { .. }) => (None, None),
        Err(error) => (None, Some(error.to_string())),
    };
    Row { set: set.name, train, validation, test, about: set.about, embedded, found, problem }
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&["set", "train", "validation", "test", "what", "where"]).with_text_from(4);
    for row in &report.sets {
        let place = match (row.embedded, &row.found, &row.problem) {
            (true, ..) => "in the program",
            (_, Some(folder), _) => folder,
            (_, None, Some(_)) => "incomplete",
            (_, None, None) => "not found",
        };
        let counts = [row.train, row.validation, row.test].map(grouped);
        table.row([&[row.set.to_string()], &counts[..], &[row.about.into(), place.into()]].concat());
    }
    table.print()?;
    print_line("")?;
    print_line(&match &report.folders[..] {
        [] => "There is no folder to look in: name one with --data or KTIED_DATA.".to_string(),
        folders => format!("Looked for in {}. `ktied data get SET` downloads one.", folders.join(", then ")),
    })
}
