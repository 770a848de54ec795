//! Scripts against redis-server 7.0.15, byte by byte: a corpus (`corpus/*.txt`), random values and
//! formats (`formats.rs`), what a script that is stuck or hungry does to the server (`limits.rs`), and
//! hostile ones by the thousand (`hostile.rs`); the scripts of docs/scripting.md (`examples.rs`).
//!
//! `KEYLATCH_SCRIPT_CASES` (4,000 unless given) says how many random cases, `KEYLATCH_SCRIPT_SEED` their
//! first seed; `KEYLATCH_HOSTILE_SCRIPTS` (10,000) how many hostile ones, and with
//! `KEYLATCH_HOSTILE_SHOW` each is shown before it runs.

#[path = "../common/mod.rs"]
mod common;

mod corpus;
mod examples;
mod formats;
mod hostile;
mod limits;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What both servers are started with.
const START: &[&str] = &["--enable-debug-command", "yes", "--loglevel", "warning"];

/// keylatch (reporting 7.0.15) and redis-server.
fn pair() -> (common::Server, common::Server) {
    pair_with(&[])
}

/// The same with more arguments.
fn pair_with(args: &[&'static str]) -> (common::Server, common::Server) {
    let theirs = [START, args].concat();
    let mut ours = theirs.clone();
    if common::is_keylatch() {
        ours.extend(["--compat-version", "7.0.15"]);
    }
    (common::Server::start(&ours), common::Server::redis(&theirs))
}

/// Bytes as a person reads them.
fn shown(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string().replace("\\r\\n", "|").replace("\\'", "'");
    text.chars().take(600).collect()
}
