//! The program `ktied`.

use std::process::ExitCode;

// A step allocates and frees the same large buffers again and again; the system's allocator gives them back to the
// kernel each time and pays in page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ktied_cli::run()
}
