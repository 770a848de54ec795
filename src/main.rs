//! Starts the server. Not here: anything else (`daemon`, `exec`).

use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    let exec = argv.get(1).is_some_and(|word| word == "exec");
    ExitCode::from(if exec { keylatch::exec::run(&argv) } else { keylatch::daemon::run(&argv) })
}
