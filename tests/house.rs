//! The house rules, as a test: rooms look downward only, files stay short and say what they are,
//! time and chance are read in one place. Not here: formatting and lints, which have their own tools.

use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up. A file may use its own room and those before it.
const ROOMS: &[&str] = &["base", "resp", "config", "keyspace", "script", "engine", "command", "net", "top"];

/// The longest a file may be.
const LINES_MAX: usize = 700;

/// Calls that only `base` may make: the one reader of time, the one source of chance.
const BANNED: &[(&str, &str)] = &[
    ("Instant::now", "base::clock::Stopwatch"),
    ("SystemTime::now", "base::clock::Clock"),
    ("thread_rng", "base::chance::Chance"),
    ("rand::rng(", "base::chance::Chance"),
    ("rand::random", "base::chance::Chance"),
    ("Utc::now", "base::clock::Clock"),
];

fn rust_files(under: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(under)];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(path).display().to_string()
}

/// The room a file of `src` lives in: its first directory, or the top.
fn room(path: &Path) -> &'static str {
    let text = shown(path);
    let mut parts = text.split('/').skip(1);
    let first = parts.next().unwrap_or_default();
    ROOMS.iter().find(|room| **room == first).copied().unwrap_or("top")
}

/// A file's code without comments: a comment may name any room.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that follow `crate::` in the code: `crate::a::b` gives `a`, `crate::{a::b, c}` gives
/// both.
fn named_after_crate(code: &str) -> Vec<String> {
    let ident = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = code[at + "crate::".len()..].trim_start();
        let Some(group) = rest.strip_prefix('{') else {
            names.push(ident(rest));
            continue;
        };
        let mut depth = 1;
        let mut start = true;
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => start = true,
                _ if start && !c.is_whitespace() => {
                    names.push(ident(&group[i..]));
                    start = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

fn report(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn rooms_look_downward_only() {
    let level = |room: &str| ROOMS.iter().position(|r| *r == room);
    let mut faults = Vec::new();
    for path in rust_files("src") {
        let own = level(room(&path));
        let text = fs::read_to_string(&path).expect("a source file can be read");
        for name in named_after_crate(&code(&text)) {
            // What is no room is a file of the top.
            let other = level(&name).or(level("top"));
            if shown(&path) != "src/lib.rs" && other > own {
                faults.push(format!("{} ({}) looks up at {name}", shown(&path), room(&path)));
            }
        }
    }
    report(&faults);
}

#[test]
fn files_stay_short_and_say_what_they_are() {
    let mut faults = Vec::new();
    for path in ["src", "tests", "benches"].iter().flat_map(|under| rust_files(under)) {
        let text = fs::read_to_string(&path).expect("a source file can be read");
        let lines = text.lines().count();
        if lines > LINES_MAX {
            faults.push(format!("{} has {lines} lines, more than {LINES_MAX}", shown(&path)));
        }
        if !text.starts_with("//! ") {
            faults.push(format!("{} does not open by saying what lives there", shown(&path)));
        }
    }
    report(&faults);
}

#[test]
fn time_and_chance_are_read_in_one_place() {
    let mut faults = Vec::new();
    for path in rust_files("src").iter().filter(|path| room(path) != "base") {
        let text = fs::read_to_string(path).expect("a source file can be read");
        let code = code(&text);
        for (call, instead) in BANNED {
            if code.contains(call) {
                faults.push(format!("{} calls {call}; use {instead}", shown(path)));
            }
        }
    }
    report(&faults);
}

#[test]
fn the_checks_see_what_they_look_for() {
    assert_eq!(named_after_crate("use crate::base::clock; crate::net::x()"), ["base", "net"]);
    assert_eq!(
        named_after_crate("use crate::{resp::{A, B}, engine, base::error::E};"),
        ["resp", "engine", "base"]
    );
    assert_eq!(code("a // crate::net\nb"), "a \nb");
    assert_eq!(room(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/resp/args.rs"))), "resp");
    assert_eq!(room(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/server.rs"))), "top");
}
