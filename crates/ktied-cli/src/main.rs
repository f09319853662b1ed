//! The program `ktied`.

use std::process::ExitCode;

// A step allocates and frees the same large buffers again and again; the system's allocator gives them back to the
// kernel each time and pays in page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of mimalloc's option `purge_delay`, which its bindings have no name for.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

fn main() -> ExitCode {
    // Memory that is free for a hundredth of a second would go back to the kernel, and come back page by page in the next
    // step. Minus one is never.
    // SAFETY: sets a number of the allocator's own, before there is a second thread.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
    ktied_cli::run()
}
