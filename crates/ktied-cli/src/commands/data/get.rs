//! `ktied data get`: downloads data sets from their hosts.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use ktied::data::place;
use ktied::data::standard::{Checked, Kind, Standard};
use serde::Serialize;

use super::expand;
use crate::args::{Args, DataGet};
use crate::exit::Failure;
use crate::fetch::{self, FetchError, Host};
use crate::table::{print_json, print_line};

#[derive(Debug, Serialize)]
struct Row {
    set: &'static str,
    folder: Option<String>,
    /// `fetched`, `present` or `embedded`.
    state: &'static str,
}

pub(crate) fn run(get: &DataGet, args: &Args) -> Result<(), Failure> {
    let folders = place::folders(get.data.as_deref());
    let dir =
        folders.first().ok_or_else(|| Failure::Usage("there is no folder for data: name one with --data".into()))?;
    if get.from.as_ref().is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
        return Err(Failure::Usage("--from expected an address that begins with http:// or https://".into()));
    }
    // All names first: a misspelt last one should not be found out after an hour of downloads.
    let names = expand(&get.sets);
    let sets = names.iter().map(|name| set(name, get.from.as_deref())).collect::<Result<Vec<_>, _>>()?;
    let bar = progress(args);
    let rows = sets.into_iter().map(|(set, host)| row(set, host, dir, &bar)).collect::<Result<Vec<_>, _>>()?;
    bar.finish_and_clear();
    if args.json {
        return print_json(&serde_json::json!({ "sets": rows }));
    }
    rows.iter().try_for_each(|row| match &row.folder {
        Some(folder) => print_line(&format!("{}: {}, {}", row.set, row.state, folder)),
        None => print_line(&format!("{}: {}", row.set, row.state)),
    })
}

fn set(name: &str, from: Option<&str>) -> Result<(&'static Standard, Option<Host>), Failure> {
    let set = Standard::named(name).map_err(Failure::DataSet)?;
    match Host::of(name, from) {
        None if set.kind != Kind::Embedded => Err(FetchError::NoHost { set: set.name }.into()),
        host => Ok((set, host)),
    }
}

fn row(set: &'static Standard, host: Option<Host>, dir: &Path, bar: &ProgressBar) -> Result<Row, Failure> {
    let Some(host) = host else { return Ok(Row { set: set.name, folder: None, state: "embedded" }) };
    let (folder, state) = match is_right(set, dir) {
        true => (dir.join(set.name), "present"),
        false => (fetch::get(set, &host, dir, &fetch::agent(), bar)?, "fetched"),
    };
    Ok(Row { set: set.name, folder: Some(folder.display().to_string()), state })
}

/// Whether the set is there already, complete and with the known contents.
fn is_right(set: &Standard, dir: &Path) -> bool {
    let folder = set.find(&[dir.to_path_buf()]);
    folder.and_then(|folder| set.check(&folder)).is_ok_and(|checked| checked.iter().all(Checked::is_right))
}

fn progress(args: &Args) -> ProgressBar {
    if !args.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg}  {eta} left");
    ProgressBar::new(0).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}
