//! `ktied data check`: reads data sets whole, and compares their contents with the known digests.

use std::path::PathBuf;

use ktied::data::standard::Standard;
use ktied::data::{DataError, DataSpec, Split, load, place};
use serde::Serialize;

use super::expand;
use crate::args::{Args, DataCheck};
use crate::exit::Failure;
use crate::table::{Table, grouped, print_json, print_line};

#[derive(Debug, Serialize)]
struct File {
    file: String,
    expected: String,
    found: String,
    ok: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    set: String,
    ok: bool,
    files: Vec<File>,
    #[serde(skip_serializing_if = "Option::is_none")]
    examples: Option<Examples>,
    /// SHA-256 of the data set as it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip)]
    is_io: bool,
    #[serde(skip)]
    is_missing: bool,
}

#[derive(Debug, Serialize)]
struct Examples {
    train: usize,
    validation: usize,
    test: usize,
}

pub(crate) fn run(check: &DataCheck, args: &Args) -> Result<(), Failure> {
    let names = expand(&check.sets);
    let reports = names.iter().map(|name| report(name, check.data.clone())).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        print_json(&serde_json::json!({ "sets": reports }))?
    } else {
        print(&reports)?
    }
    let wrong: Vec<&Report> = reports.iter().filter(|report| !report.ok).collect();
    let sentences: Vec<String> = wrong.iter().map(|report| report.sentence()).collect();
    match &wrong[..] {
        [] => Ok(()),
        wrong => Err(Failure::Faulty {
            message: sentences.join("\nktied: "),
            is_io: wrong.iter().all(|report| report.is_io),
        }),
    }
}

fn report(name: &str, dir: Option<PathBuf>) -> Result<Report, Failure> {
    let mut report = Report { set: name.into(), ..Report::default() };
    match fill(&mut report, dir) {
        Ok(()) => report.ok = report.files.iter().all(|file| file.ok),
        Err(error @ (DataError::UnknownSet { .. } | DataError::Setting { .. })) => return Err(Failure::DataSet(error)),
        Err(error) => {
            report.is_io = matches!(error, DataError::Io { .. });
            report.is_missing = matches!(error, DataError::Missing { .. });
            report.problem = Some(error.to_string());
        }
    }
    Ok(report)
}

fn fill(report: &mut Report, dir: Option<PathBuf>) -> Result<(), DataError> {
    if let Ok(set) = Standard::named(&report.set) {
        let folder = set.find(&place::folders(dir.as_deref()))?;
        let checked = set.check(&folder)?.into_iter();
        report.files = checked
            .map(|checked| {
                let ok = checked.is_right();
                File { file: checked.file, expected: checked.expected.into(), found: checked.found, ok }
            })
            .collect();
    }
    let set = load(&DataSpec { dir, ..DataSpec::named(&report.set) });
    let set = set.map_err(|error| match error {
        ktied::Error::Data(error) => error,
        other => DataError::Embedded { message: other.to_string() },
    })?;
    let [train, validation, test] = [&set.train, &set.validation, &set.test].map(Split::len);
    report.examples = Some(Examples { train, validation, test });
    report.digest = Some(set.digest);
    Ok(())
}

impl Report {
    /// What is wrong.
    fn sentence(&self) -> String {
        let file = self.files.iter().find(|file| !file.ok);
        match (&self.problem, file) {
            (Some(problem), _) => problem.clone(),
            (None, Some(File { file, expected, found, .. })) => {
                format!("{}: expected the SHA-256 {expected} of {file}, found {found}", self.set)
            }
            (None, None) => self.set.clone(),
        }
    }
}

fn print(reports: &[Report]) -> Result<(), Failure> {
    let mut table = Table::new(&["set", "contents", "SHA-256", "verdict"]).with_text_from(1);
    let verdict = |ok| if ok { "right" } else { "wrong" };
    for report in reports {
        for File { file, found, ok, .. } in &report.files {
            table.row(vec![report.set.clone(), file.clone(), found.clone(), verdict(*ok).into()]);
        }
        if let (Some(Examples { train, validation, test }), Some(digest)) = (&report.examples, &report.digest) {
            let counts = [*train, *validation, *test].map(grouped).join(" / ");
            table.row(vec![report.set.clone(), format!("{counts} examples"), digest.clone(), "read".into()]);
        }
        if report.problem.is_some() {
            let verdict = if report.is_missing { "missing" } else { verdict(false) };
            table.row(vec![report.set.clone(), String::new(), String::new(), verdict.into()]);
        }
    }
    table.print()?;
    let right = reports.iter().filter(|report| report.ok).count();
    print_line("")?;
    print_line(&format!("{right} of {} data sets are as they should be.", reports.len()))
}
