//! keylatch and redis-server side by side, in one run, pairwise: CPU per command, memory, pauses,
//! start-up. Prints the tables of docs/benchmarks.md. Not here: parts of keylatch on their own (the
//! other benches).
//!
//! `cargo bench --bench versus -- [--quick] [filter ...]`: a filter names sections or rows in part.
//! `KEYLATCH_TEST_BINARY` measures another binary in keylatch's place.

#[path = "../../tests/common/mod.rs"]
mod common;

mod commands;
mod echo;
mod keyspace;
mod load;
mod measure;
mod process;

/// What was asked for on the command line.
pub struct Options {
    pub quick: bool,
    filters: Vec<String>,
}

impl Options {
    /// Whether the row is to be measured.
    pub fn wants(&self, row: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|f| row.contains(f.as_str()))
    }

    /// `full`, or a tenth of it when time is short.
    pub fn amount(&self, full: usize) -> usize {
        if self.quick { full / 10 } else { full }
    }

    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if args.first().is_some_and(|a| a == echo::ARGUMENT) {
        echo::serve();
        return;
    }
    let options = Options {
        quick: args.iter().any(|a| a == "--quick"),
        filters: args.into_iter().filter(|a| !a.starts_with("--")).collect(),
    };
    println!("{}", measure::machine());
    commands::run(&options);
    keyspace::run(&options);
    process::run(&options);
}
