//! Starts the server. Not here: anything else (`daemon`, `exec`).

use std::ffi::c_char;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The allocator reads this at its start. One thread does nearly all the work: more arenas would
/// only hold more free pages. Those go back within a fraction of a second instead of ten.
#[allow(non_upper_case_globals)]
// the allocator's own name for it
// SAFETY: the allocator looks for a pointer to a C string under this name, and this is one.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: Option<&'static c_char> = Some({
    // SAFETY: the literal lives for ever and has a first byte.
    unsafe { &*c"narenas:1,dirty_decay_ms:300".as_ptr() }
});

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    let exec = argv.get(1).is_some_and(|word| word == "exec");
    ExitCode::from(if exec { keylatch::exec::run(&argv) } else { keylatch::daemon::run(&argv) })
}
