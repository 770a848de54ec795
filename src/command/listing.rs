//! `docs/commands.md` and README's table, written from the table of commands by a test that fails
//! while they are stale (`UPDATE_DOCS=1` rewrites them). Not here: COMMAND DOCS (`introspect`).
#![cfg(test)]

use super::introspect;
use super::table::table;
use crate::engine::spec::{Arity, Begin, Find, Flags, Handler};
use crate::engine::synopsis::{self, Argument, Kind};
use crate::engine::table::Command;
use std::fmt::Write;

/// Between these the README's table stands.
const MARKS: (&str, &str) = ("<!-- commands -->", "<!-- /commands -->");

const GROUPS: [&str; 10] = [
    "string",
    "generic",
    "connection",
    "server",
    "scripting",
    "transactions",
    "bitmap",
    "hyperloglog",
    "pubsub",
    "cluster",
];

fn of_group(group: &str) -> Vec<&'static Command> {
    let all = table().all().iter();
    let mut found: Vec<&Command> = all
        .filter(|c| introspect::group(c.spec.group) == group && !matches!(c.spec.handler, Handler::Container))
        .collect();
    found.sort_by(|a, b| a.full_name.cmp(&b.full_name));
    found
}

fn line(command: &Command) -> String {
    let spec = command.spec;
    let mut call = command.full_name.replace('|', " ").to_ascii_uppercase();
    if !spec.synopsis.is_empty() {
        call = format!("{call} {}", spec.synopsis);
    }
    let call = call.replace('|', "\\|");
    let since = if spec.flags.has(Flags::EXTENSION) { "ours" } else { spec.since };
    let mut what = spec.summary.to_owned();
    for (version, change) in spec.history {
        let version = if *version == "keylatch" { "Ours" } else { version };
        write!(what, " {version}: {change}").expect("a string takes all");
    }
    format!("| `{call}` | {since} | {} |\n", what.replace('|', "\\|"))
}

fn page() -> String {
    let mut page = "# Commands\n\nWritten by a test from the table of commands; `since` is the release of Redis (or of Valkey, \
                    see [newer.md](newer.md)) that brought the command.\n"
        .to_owned();
    for group in GROUPS {
        let commands = of_group(group);
        if commands.is_empty() {
            continue;
        }
        page += &format!("\n## {group}\n\n| command | since | what it does |\n| --- | --- | --- |\n");
        commands.iter().for_each(|command| page += &line(command));
    }
    page
}

fn short_table() -> String {
    let mut text = "\n| group | commands |\n| --- | --- |\n".to_owned();
    for group in GROUPS {
        let names: Vec<String> = of_group(group)
            .iter()
            .map(|c| format!("`{}`", c.full_name.replace('|', " ").to_ascii_uppercase()))
            .collect();
        if !names.is_empty() {
            text += &format!("| {group} | {} |\n", names.join(" "));
        }
    }
    text + "\n"
}

fn check(path: &str, wanted: &str) {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, wanted).expect("the docs can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{path} is stale: UPDATE_DOCS=1 cargo test writes it anew");
}

#[test]
fn the_list_of_commands_is_up_to_date() {
    check("docs/commands.md", &page());
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("it is there");
    let (before, rest) = readme.split_once(MARKS.0).expect("the README has a place for the table");
    let (_, after) = rest.split_once(MARKS.1).expect("the place has an end");
    check("README.md", &format!("{before}{}{}{}{after}", MARKS.0, short_table(), MARKS.1));
}

#[test]
fn entries_are_sound() {
    for command in table().all() {
        let (spec, name) = (command.spec, &command.full_name);
        assert!(!spec.summary.is_empty(), "{name} has no summary");
        assert!(name.bytes().all(|b| !b.is_ascii_uppercase()), "{name} is not in lower case");
        let (writes, reads) = (spec.flags.has(Flags::WRITE), spec.flags.has(Flags::READONLY));
        assert!(!(writes && reads), "{name} writes and only reads");
        if matches!(spec.handler, Handler::Keys(_)) && !spec.keys.is_empty() {
            assert!(writes || reads, "{name} has keys and neither writes nor reads");
        }
        for keys in spec.keys {
            if let Begin::Index(at) = keys.begin {
                assert!(at >= 1, "{name}: a key where the name stands");
            }
        }
    }
}

/// How many words `argument` takes at least, and whether it may take more.
fn width(argument: &Argument) -> (usize, bool) {
    let parts = || argument.parts.iter().map(width);
    let (least, more) = match argument.kind {
        Kind::Token => (0, false),
        Kind::OneOf => {
            let least = parts().map(|part| part.0).min().unwrap_or(0);
            (least, parts().any(|part| part.1 || part.0 != least))
        }
        Kind::Block => (parts().map(|part| part.0).sum(), parts().any(|part| part.1)),
        _ => (1, false),
    };
    let least = if argument.optional { 0 } else { least + usize::from(!argument.token.is_empty()) };
    (least, more || argument.optional || argument.multiple)
}

/// Where Redis's own arity and line differ: GETKEYS wants a command with an argument, each filter of
/// CLIENT KILL is optional though one must stand, QUIT overlooks what follows.
const LOOSE: &[&str] = &["command|getkeys", "command|getkeysandflags", "client|kill", "quit"];

#[test]
fn arity_agrees_with_the_synopsis() {
    let mut faults = Vec::new();
    for command in table().all().iter().filter(|c| !LOOSE.contains(&c.full_name.as_str())) {
        if command.spec.name == "debug" || !command.children.is_empty() {
            continue; // what follows is the subcommand's affair
        }
        let arguments = synopsis::arguments(command.spec.synopsis);
        let name = if command.parent.is_some() { 2 } else { 1 };
        let least = name + arguments.iter().map(|argument| width(argument).0).sum::<usize>();
        let more = arguments.iter().any(|argument| width(argument).1);
        let wanted = if more { Arity::AtLeast(least) } else { Arity::Exactly(least) };
        if command.spec.arity != wanted {
            faults.push(format!("{}: {:?}, its line says {wanted:?}", command.full_name, command.spec.arity));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The words of a request in order, each once: a choice counts as one.
fn words<'a>(arguments: &'a [Argument], into: &mut Vec<&'a Argument>) {
    for argument in arguments {
        if argument.kind == Kind::Block {
            words(&argument.parts, into);
        } else {
            into.push(argument);
        }
    }
}

#[test]
fn key_positions_fall_on_keys() {
    for command in table().all() {
        let arguments = synopsis::arguments(command.spec.synopsis);
        let mut line = Vec::new();
        words(&arguments, &mut line);
        let name = if command.parent.is_some() { 2 } else { 1 };
        // Shard channels stand among the keys without being any.
        for keys in command.spec.keys.iter().filter(|keys| !keys.flags.contains(&"not_key")) {
            let Begin::Index(at) = keys.begin else { continue };
            let key_at = match keys.find {
                Find::KeyNum(count, first, _) => {
                    let counter = line.get(at - name + count).map(|argument| argument.name.as_str());
                    assert_eq!(counter, Some("numkeys"), "{}: no count at {at}", command.full_name);
                    at + first
                }
                _ => at,
            };
            // `key [key ...]` is one word of the line, so a later one repeats the last.
            let word = line.get(key_at - name).or(line.last().filter(|last| last.multiple));
            let kind = word.map(|argument| argument.kind);
            assert_eq!(kind, Some(Kind::Key), "{}: argument {key_at} is no key", command.full_name);
        }
    }
}
