//! Starts the server. Not here: anything else (`lib.rs`).

use keylatch::config::{Config, Startup};
use keylatch::server;
use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    let config = match Config::from_args(&argv) {
        Ok(Startup::Run(config)) => *config,
        Ok(Startup::Print(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Ok(Startup::Usage(text)) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let bound = match server::bind(&config) {
        Ok(bound) => bound,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let (port, port_file) = (bound.port, config.port_file.clone());
    let runtime = server::runtime().expect("an event loop");
    let run = server::serve(server::core(config), bound, true, std::future::pending(), |_| {
        println!("Ready to accept connections on port {port}");
        if !port_file.as_os_str().is_empty() {
            let _ = std::fs::write(&port_file, format!("{port}\n"));
        }
    });
    match runtime.block_on(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
