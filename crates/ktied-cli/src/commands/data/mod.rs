//! `ktied data …`: find, check and download data sets.

mod check;
mod get;
mod list;

use ktied::data::standard::{STANDARD, Standard};

use crate::args::{Args, Data};
use crate::exit::Failure;

pub(crate) fn run(data: &Data, args: &Args) -> Result<(), Failure> {
    match data {
        Data::List(list) => list::run(list, args),
        Data::Check(check) => check::run(check, args),
        Data::Get(get) => get::run(get, args),
    }
}

/// `uci` stands for all tables.
fn expand(names: &[String]) -> Vec<String> {
    let tables = || STANDARD.iter().map(|set: &Standard| set.name).filter(|name| name.starts_with("uci/"));
    let names = names.iter().flat_map(|name| match name.as_str() {
        "uci" => tables().map(String::from).collect(),
        _ => vec![name.clone()],
    });
    names.collect()
}
