//! The differential test: the same stream of commands to keylatch and to redis-server, replies
//! compared. A stream is determined by its seed. On a difference it is shrunk to the shortest list
//! of commands that still shows it, and printed with the seed and both replies.
//!
//! `KEYLATCH_DIFF_COMMANDS` (50,000 unless given) says how many commands, `KEYLATCH_DIFF_SEED` the
//! first seed, `KEYLATCH_DIFF_FINDINGS` how many differences are shown before the test gives up.

#[path = "../common/mod.rs"]
mod common;

mod bits;
mod check;
mod grammar;
mod keys;
mod run;
mod scripts;
mod serving;
mod watching;

use keylatch::base::clock::Clock;
use run::Pair;

/// Commands in one stream. Each starts on empty servers, so a failure needs no longer prefix.
const STREAM: usize = 500;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn the_same_replies_as_redis_server() {
    let commands = number("KEYLATCH_DIFF_COMMANDS", 50_000);
    let first = number("KEYLATCH_DIFF_SEED", 20_260_501);
    let most = number("KEYLATCH_DIFF_FINDINGS", 3) as usize;
    let pair = Pair::start();
    let mut findings: Vec<run::Finding> = Vec::new();
    for seed in first..first + commands.div_ceil(STREAM as u64) {
        let now = Clock::System.now().0 / 1000;
        let stream = grammar::stream(seed, now, STREAM);
        let protocol = if seed % 2 == 0 { 2 } else { 3 };
        let Some(first) = pair.difference(protocol, &stream) else { continue };
        let finding = pair.shrink(seed, protocol, &stream[..=first.0], first);
        if !findings.iter().any(|f| f.resembles(&finding)) {
            eprintln!("{finding}");
            findings.push(finding);
        }
        if findings.len() >= most {
            break;
        }
    }
    assert!(findings.is_empty(), "{} differences, shown above", findings.len());
}

/// Steps in one stream of several connections.
const WATCHING_STREAM: usize = 250;

#[test]
fn the_same_pushes_as_redis_server() {
    let commands = number("KEYLATCH_DIFF_COMMANDS", 50_000);
    let first = number("KEYLATCH_DIFF_SEED", 20_260_601);
    let most = number("KEYLATCH_DIFF_FINDINGS", 3) as usize;
    let pair = watching::Pair::start();
    let mut findings = 0;
    for seed in first..first + commands.div_ceil(WATCHING_STREAM as u64) {
        let stream = watching::stream(seed, WATCHING_STREAM);
        if let Some(finding) = pair.find(seed, &stream) {
            eprintln!("{finding}");
            findings += 1;
        }
        if findings >= most {
            break;
        }
    }
    assert_eq!(findings, 0, "differences, shown above");
}
