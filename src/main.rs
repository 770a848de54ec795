//! Starts the server. Not here: anything else (`daemon`).

use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    ExitCode::from(keylatch::daemon::run(&argv))
}
