//! COMMAND: what the table says about itself. Not here: the table (`engine::table`), the argument
//! trees (`engine::synopsis`), key positions (`engine::keys`).

use super::help;
use crate::base::error::CommandError;
use crate::base::glob;
use crate::engine::keys;
use crate::engine::spec::{Arity, Begin, Context, Find, Flags, Group, Handler, KeySpec, Outcome, Spec};
use crate::engine::synopsis::{self, Argument, Kind};
use crate::engine::table::{Command, Table};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const USUAL: Flags = Flags::LOADING.or(Flags::STALE);
const ORDER: &[&str] = &["nondeterministic_output_order"];
const SUB: Spec =
    Spec { group: Group::Server, acl: &["connection"], flags: USUAL, since: "2.8.13", ..Spec::NONE };

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "command",
    complexity: "O(N) where N is the total number of commands",
    summary: "Tells about all commands.",
    arity: Arity::AtLeast(1),
    tips: ORDER,
    subcommands: &[
        Spec {
            name: "count",
            summary: "Tells how many commands there are.",
            arity: Arity::Exactly(2),
            handler: Handler::Server(count),
            ..SUB
        },
        Spec {
            name: "docs",
            since: "7.0.0",
            complexity: "O(N) where N is the number of commands to look up",
            summary: "Documents commands.",
            synopsis: "[command-name [command-name ...]]",
            arity: Arity::AtLeast(2),
            tips: ORDER,
            handler: Handler::Server(docs),
            ..SUB
        },
        Spec {
            name: "getkeys",
            complexity: "O(N) where N is the number of arguments to the command",
            summary: "Tells which arguments of a command are keys.",
            synopsis: "command [arg [arg ...]]",
            arity: Arity::AtLeast(4),
            handler: Handler::Server(|ctx, args, reply| getkeys(ctx, args, reply, false)),
            ..SUB
        },
        Spec {
            name: "getkeysandflags",
            since: "7.0.0",
            complexity: "O(N) where N is the number of arguments to the command",
            summary: "Tells which arguments of a command are keys, and what it does with each.",
            synopsis: "command [arg [arg ...]]",
            arity: Arity::AtLeast(4),
            handler: Handler::Server(|ctx, args, reply| getkeys(ctx, args, reply, true)),
            ..SUB
        },
        Spec { acl: &["connection"], ..help::entry(Group::Server, "5.0.0") },
        Spec {
            name: "info",
            complexity: "O(N) where N is the number of commands to look up",
            summary: "Tells about some commands.",
            synopsis: "[command-name [command-name ...]]",
            arity: Arity::AtLeast(2),
            tips: ORDER,
            history: &[("7.0.0", "Without names it tells about all.")],
            handler: Handler::Server(info),
            ..SUB
        },
        Spec {
            name: "list",
            since: "7.0.0",
            complexity: "O(N) where N is the total number of commands",
            summary: "Lists the commands' names.",
            synopsis: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
            arity: Arity::AtLeast(2),
            tips: ORDER,
            handler: Handler::Server(list),
            ..SUB
        },
    ],
    handler: Handler::Server(info),
    ..SUB
}];

fn top(table: &Table) -> impl Iterator<Item = &Command> {
    table.all().iter().filter(|command| command.parent.is_none())
}

fn count(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    reply.integer(top(ctx.core.table).count() as i64);
    Ok(Outcome::Done)
}

fn info(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let table = ctx.core.table;
    if args.len() <= 2 {
        reply.array(top(table).count());
        top(table).for_each(|command| say_info(table, command, reply));
        return Ok(Outcome::Done);
    }
    reply.array(args.len() - 2);
    for name in args.rest(2) {
        match table.find_full(name) {
            Some(command) => say_info(table, command, reply),
            None => reply.null(),
        }
    }
    Ok(Outcome::Done)
}

/// The ACL categories, in Redis's order.
pub(super) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// A command's ACL categories, in that order: from the flags, the group, and what the entry adds.
pub(super) fn categories(command: &Command) -> Vec<&'static str> {
    let spec = command.spec;
    let has = |flag| spec.flags.has(flag);
    let scripting = spec.group == Group::Scripting;
    let by_group = if matches!(spec.handler, Handler::Container) {
        ""
    } else {
        match spec.group {
            // WAIT stands among the generic commands, and has nothing to do with keys.
            Group::Generic if spec.acl.contains(&"connection") => "",
            Group::Generic => "keyspace",
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Connection => "connection",
            Group::Transactions => "transaction",
            Group::Scripting => "scripting",
            // Those of pub/sub are told by their flag: HELP has none.
            Group::PubSub | Group::Server | Group::Cluster | Group::Sorting => "",
        }
    };
    let listed = |name: &str| match name {
        "read" => has(Flags::READONLY) && !scripting,
        "write" => has(Flags::WRITE),
        "pubsub" => has(Flags::PUBSUB),
        "admin" | "dangerous" => has(Flags::ADMIN),
        "fast" => has(Flags::FAST),
        "slow" => !has(Flags::FAST),
        "blocking" => has(Flags::BLOCKING),
        _ => false,
    };
    CATEGORIES
        .into_iter()
        .filter(|&name| listed(name) || name == by_group || spec.acl.contains(&name))
        .collect()
}

/// First key, last key and step as commands had them before key specifications.
fn legacy_range(keys: &[KeySpec]) -> (i64, i64, i64) {
    let mut whole: Option<(i64, i64, i64)> = None;
    for spec in keys {
        let (Begin::Index(at), Find::Range(last, step, _)) = (spec.begin, spec.find) else { continue };
        let last = if last >= 0 { at as i64 + i64::from(last) } else { i64::from(last) };
        whole = Some(match whole {
            None => (at as i64, last, step as i64),
            Some((first, _, step)) => (first.min(at as i64), last, step),
        });
    }
    whole.unwrap_or((0, 0, 0))
}

fn arity(arity: Arity) -> i64 {
    match arity {
        Arity::Exactly(n) => n as i64,
        Arity::AtLeast(n) => -(n as i64),
    }
}

fn say_info(table: &Table, command: &Command, reply: &mut dyn Reply) {
    let spec = command.spec;
    reply.array(10);
    reply.text(&command.full_name);
    reply.integer(arity(spec.arity));
    let flags: Vec<&str> = Flags::NAMES
        .iter()
        .filter(|(f, name)| spec.flags.has(*f) && !name.is_empty())
        .map(|(_, name)| *name)
        .collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag.as_bytes()));
    let (first, last, step) = legacy_range(spec.keys);
    [first, last, step].into_iter().for_each(|n| reply.integer(n));
    let categories = categories(command);
    reply.set(categories.len());
    categories.iter().for_each(|name| reply.simple(format!("@{name}").as_bytes()));
    reply.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| reply.text(tip));
    reply.set(spec.keys.len());
    spec.keys.iter().for_each(|keys| say_key_spec(keys, reply));
    if command.children.is_empty() {
        reply.set(0);
    } else {
        reply.array(command.children.len());
        command.children.iter().for_each(|&id| say_info(table, table.get(id), reply));
    }
}

fn say_key_spec(keys: &KeySpec, reply: &mut dyn Reply) {
    reply.map(3 + usize::from(!keys.notes.is_empty()));
    if !keys.notes.is_empty() {
        reply.text("notes");
        reply.text(keys.notes);
    }
    reply.text("flags");
    reply.set(keys.flags.len());
    keys.flags.iter().for_each(|flag| reply.simple(flag.as_bytes()));
    match keys.begin {
        Begin::Index(at) => say_step(reply, "begin_search", "index", &[("index", at as i64)]),
        Begin::Keyword(word, from) => {
            reply.text("begin_search");
            reply.map(2);
            reply.text("type");
            reply.text("keyword");
            reply.text("spec");
            reply.map(2);
            reply.text("keyword");
            reply.text(word);
            reply.text("startfrom");
            reply.integer(from.into());
        }
        Begin::Unknown => say_step(reply, "begin_search", "unknown", &[]),
    }
    match keys.find {
        Find::Range(last, step, limit) => {
            let fields = [("lastkey", last.into()), ("keystep", step as i64), ("limit", limit as i64)];
            say_step(reply, "find_keys", "range", &fields);
        }
        Find::KeyNum(count, first, step) => {
            let fields = [("keynumidx", count as i64), ("firstkey", first as i64), ("keystep", step as i64)];
            say_step(reply, "find_keys", "keynum", &fields);
        }
        Find::Unknown => say_step(reply, "find_keys", "unknown", &[]),
    }
}

fn say_step(reply: &mut dyn Reply, step: &str, kind: &str, fields: &[(&str, i64)]) {
    reply.text(step);
    reply.map(2);
    reply.text("type");
    reply.text(kind);
    reply.text("spec");
    reply.map(fields.len());
    for (name, value) in fields {
        reply.text(name);
        reply.integer(*value);
    }
}

fn docs(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let table = ctx.core.table;
    let asked: Vec<&Command> = match args.rest(2) {
        [] => top(table).collect(),
        names => names.iter().filter_map(|name| table.find_full(name)).collect(),
    };
    reply.map(asked.len());
    asked.into_iter().for_each(|command| say_docs(table, command, reply));
    Ok(Outcome::Done)
}

fn say_docs(table: &Table, command: &Command, reply: &mut dyn Reply) {
    let spec = command.spec;
    let arguments = synopsis::arguments(spec.synopsis);
    let deprecated = !spec.deprecated.0.is_empty();
    reply.text(&command.full_name);
    let system = spec.flags.has(Flags::SYSTEM);
    let doc_flags: Vec<&[u8]> = [(deprecated, &b"deprecated"[..]), (system, b"syscmd")]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect();
    let present = [
        !doc_flags.is_empty(),
        !spec.complexity.is_empty(),
        !spec.history.is_empty(),
        !arguments.is_empty(),
        !command.children.is_empty(),
    ];
    reply.map(3 + 2 * usize::from(deprecated) + present.iter().filter(|there| **there).count());
    let fields = [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", group(spec.group)),
        ("complexity", spec.complexity),
    ];
    for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
        reply.text(name);
        reply.text(value);
    }
    if !doc_flags.is_empty() {
        reply.text("doc_flags");
        reply.set(doc_flags.len());
        doc_flags.iter().for_each(|flag| reply.simple(flag));
    }
    if deprecated {
        reply.text("deprecated_since");
        reply.text(spec.deprecated.0);
        reply.text("replaced_by");
        reply.text(spec.deprecated.1);
    }
    if !spec.history.is_empty() {
        reply.text("history");
        reply.set(spec.history.len());
        for (version, what) in spec.history {
            reply.array(2);
            reply.text(version);
            reply.text(what);
        }
    }
    if !arguments.is_empty() {
        reply.text("arguments");
        let mut keys = KeyNumbers { next: 0, last: spec.keys.len().saturating_sub(1) };
        say_arguments(&arguments, &mut keys, reply);
    }
    if !command.children.is_empty() {
        reply.text("subcommands");
        reply.map(command.children.len());
        command.children.iter().for_each(|&id| say_docs(table, table.get(id), reply));
    }
}

/// Which key specification an argument belongs to: the first key to the first, and so on; the last
/// one takes the rest.
struct KeyNumbers {
    next: usize,
    last: usize,
}

fn say_arguments(arguments: &[Argument], keys: &mut KeyNumbers, reply: &mut dyn Reply) {
    reply.array(arguments.len());
    for argument in arguments {
        let flags: Vec<&str> = [
            (argument.optional, "optional"),
            (argument.multiple, "multiple"),
            (argument.multiple_token, "multiple_token"),
        ]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect();
        let is_key = argument.kind == Kind::Key;
        let there = [is_key, !argument.token.is_empty(), !flags.is_empty(), !argument.parts.is_empty()];
        reply.map(2 + there.iter().filter(|there| **there).count());
        reply.text("name");
        reply.text(&argument.name);
        reply.text("type");
        reply.text(argument.kind.name());
        if is_key {
            reply.text("key_spec_index");
            reply.integer(keys.next.min(keys.last) as i64);
            keys.next += 1;
        }
        if !argument.token.is_empty() {
            reply.text("token");
            reply.text(&argument.token);
        }
        if !flags.is_empty() {
            reply.text("flags");
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.simple(flag.as_bytes()));
        }
        if !argument.parts.is_empty() {
            reply.text("arguments");
            say_arguments(&argument.parts, keys, reply);
        }
    }
}

/// A group's name in the documentation.
pub(super) fn group(group: Group) -> &'static str {
    match group {
        Group::Generic | Group::Sorting => "generic",
        Group::String => "string",
        Group::Bitmap => "bitmap",
        Group::HyperLogLog => "hyperloglog",
        Group::Connection => "connection",
        Group::Server => "server",
        Group::Scripting => "scripting",
        Group::Transactions => "transactions",
        Group::PubSub => "pubsub",
        Group::Cluster => "cluster",
    }
}

fn getkeys(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply, with_flags: bool) -> Answer {
    let request = Args::new(args.rest(2));
    let command =
        ctx.core.table.resolve(&request).map_err(|_| CommandError::fixed("ERR Invalid command specified"))?;
    if command.spec.keys.is_empty() {
        return Err(CommandError::fixed("ERR The command has no key arguments"));
    }
    if !command.arity_fits(request.len()) {
        return Err(CommandError::fixed("ERR Invalid number of arguments specified for command"));
    }
    let found = match keys::of(command.spec, &request) {
        Some(found) if !found.is_empty() => found,
        _ if command.has(Flags::NO_MANDATORY_KEYS) => Vec::new(),
        _ => return Err(CommandError::fixed("ERR Invalid arguments specified for command")),
    };
    reply.array(found.len());
    for key in found {
        if with_flags {
            reply.array(2);
        }
        reply.bulk(request.get(key.at));
        if with_flags {
            reply.set(key.flags.len());
            key.flags.iter().for_each(|flag| reply.simple(flag.as_bytes()));
        }
    }
    Ok(Outcome::Done)
}

fn list(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let table = ctx.core.table;
    let all = || table.all().iter();
    let found: Vec<&Command> = match args.len() {
        2 => top(table).collect(),
        5 if args.is(2, "filterby") => {
            let wanted = args.get(4);
            if args.is(3, "module") {
                Vec::new()
            } else if args.is(3, "aclcat") {
                let category = wanted.to_ascii_lowercase();
                all().filter(|c| categories(c).iter().any(|name| name.as_bytes() == category)).collect()
            } else if args.is(3, "pattern") {
                all().filter(|c| glob::matches(wanted, c.full_name.as_bytes(), true)).collect()
            } else {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    reply.set(found.len());
    found.iter().for_each(|command| reply.text(&command.full_name));
    Ok(Outcome::Done)
}
