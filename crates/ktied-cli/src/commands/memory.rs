//! What a command will need, said before it takes it.

use ktied::config::Config;
use ktied::train::memory::{Memory, Task, machine};

use crate::args::Args;
use crate::exit::Failure;

/// From here on a person would like to know, in bytes.
const WORTH_SAYING: u64 = 1 << 30;

/// Says what is needed if it is much, and refuses if the machine has less, unless that is to be tried.
pub(crate) fn check(config: &Config, task: Task, force: bool, args: &Args) -> Result<(), Failure> {
    let memory = Memory::of(config, task)?;
    if memory.total() >= WORTH_SAYING {
        args.say(&format!("This will need about {memory} of memory."));
    }
    if force { Ok(()) } else { Ok(memory.check(machine::available())?) }
}
