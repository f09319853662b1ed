//! `ktied completions`: what a shell needs to complete this program's arguments.

use std::io;

use clap::CommandFactory;

use crate::args::{Cli, Completions};
use crate::exit::Failure;

pub(crate) fn run(completions: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "ktied", &mut script);
    io::Write::write_all(&mut io::stdout(), &script)
        .map_err(|source| Failure::Io { action: "write to standard output", source })
}
