//! MEMORY: what keys and the server take, and giving back what is free. Not here: INFO's memory
//! section (`info`), the limit (`engine::admit`).

use super::help;
use crate::base::error::CommandError;
use crate::base::{memory, number, process};
use crate::engine::core::Core;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, KeySpec, Outcome, Spec};
use crate::keyspace::Access;
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// The entries.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "memory",
    group: Group::Server,
    since: "4.0.0",
    complexity: "Depends on subcommand.",
    summary: "Tells what takes memory.",
    arity: Arity::AtLeast(2),
    subcommands: &[
        Spec {
            name: "doctor",
            group: Group::Server,
            since: "4.0.0",
            summary: "Tells in words what is unusual about the memory.",
            arity: Arity::Exactly(2),
            tips: TIPS,
            handler: Handler::Server(doctor),
            ..Spec::NONE
        },
        Spec {
            name: "malloc-stats",
            group: Group::Server,
            since: "4.0.0",
            complexity: "Depends on how much memory is allocated, could be slow",
            summary: "Gives the allocator's own report.",
            arity: Arity::Exactly(2),
            tips: TIPS,
            handler: Handler::Server(malloc_stats),
            ..Spec::NONE
        },
        Spec {
            name: "purge",
            group: Group::Server,
            since: "4.0.0",
            complexity: "Depends on how much memory is allocated, could be slow",
            summary: "Gives what is free back to the system.",
            arity: Arity::Exactly(2),
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            handler: Handler::Server(purge),
            ..Spec::NONE
        },
        Spec {
            name: "stats",
            group: Group::Server,
            since: "4.0.0",
            summary: "Gives figures about the memory.",
            arity: Arity::Exactly(2),
            tips: TIPS,
            handler: Handler::Server(stats),
            ..Spec::NONE
        },
        Spec {
            name: "usage",
            group: Group::Server,
            since: "4.0.0",
            summary: "Tells how many bytes a key takes, its value and its share of the tables included.",
            synopsis: "key [SAMPLES count]",
            arity: Arity::AtLeast(3),
            flags: Flags::READONLY,
            keys: &[KeySpec::one(2, &["RO"])],
            handler: Handler::Keys(usage),
            ..Spec::NONE
        },
        help::entry(Group::Server, "4.0.0"),
    ],
    ..Spec::NONE
}];

fn usage(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
    // SAMPLES is for nested values; a string has none.
    let mut at = 3;
    while at < args.len() {
        if !args.is(at, "samples") || at + 1 == args.len() {
            return Err(CommandError::Syntax);
        }
        let samples = number::parse_i64(args.get(at + 1)).ok_or(CommandError::NotAnInteger)?;
        if samples < 0 {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    let slot = keys.find(args.get(2));
    if slot.is_some() {
        let bytes = keys.db().memory_usage(slot);
        reply.integer(bytes as i64);
    } else {
        reply.null();
    }
    Ok(())
}

/// Bytes of a database's tables for each of its keys: an entry of 24, a twelfth of a bucket of 64
/// that is three quarters full.
const TABLE_BYTES_PER_KEY: u64 = 24 + 64 * 4 / (12 * 3);
/// The same for a key with a deadline: its place in the volatile set.
const TABLE_BYTES_PER_DEADLINE: u64 = 4;

fn stats(ctx: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.note_memory();
    let core: &Core = ctx.core;
    let (own, resident) = (memory::figures(), process::resident());
    let used = own.allocated;
    let start = core.memory_at_start.min(used);
    let clients = core.client_figures().buffers;
    let mut dbs = Vec::new();
    let mut keys = 0;
    for index in 0..core.keyspace.count() {
        let db = core.keyspace.db(index);
        if !db.is_empty() {
            keys += db.len() as u64;
            let main = db.len() as u64 * TABLE_BYTES_PER_KEY;
            dbs.push((index, main, db.volatile_len() as u64 * TABLE_BYTES_PER_DEADLINE));
        }
    }
    let tables: u64 = dbs.iter().map(|(_, main, volatile)| main + volatile).sum();
    let overhead = start + clients + tables + core.lua.script_bytes;
    let dataset = used.saturating_sub(overhead);
    let percent = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    let ratio = |whole: u64, part: u64| if part == 0 { 0.0 } else { whole as f64 / part as f64 };
    let difference = |whole: u64, part: u64| whole.cast_signed() - part.cast_signed();

    reply.map(27 + dbs.len());
    let integers = |reply: &mut dyn Reply, list: &[(&str, u64)]| {
        for (name, value) in list {
            reply.text(name);
            reply.integer(value.cast_signed());
        }
    };
    integers(
        reply,
        &[
            ("peak.allocated", core.peak_memory.max(used)),
            ("total.allocated", used),
            ("startup.allocated", start),
            ("replication.backlog", 0),
            ("clients.slaves", 0),
            ("clients.normal", clients),
            ("cluster.links", 0),
            ("aof.buffer", 0),
            ("lua.caches", core.lua.script_bytes),
            ("functions.caches", 0),
        ],
    );
    for (index, main, volatile) in &dbs {
        reply.text(&format!("db.{index}"));
        reply.map(3);
        let tables = [
            ("overhead.hashtable.main", *main),
            ("overhead.hashtable.expires", *volatile),
            ("overhead.hashtable.slot-to-keys", 0),
        ];
        integers(reply, &tables);
    }
    integers(
        reply,
        &[
            ("overhead.total", overhead),
            ("keys.count", keys),
            ("keys.bytes-per-key", used.saturating_sub(start).checked_div(keys).unwrap_or(0)),
            ("dataset.bytes", dataset),
        ],
    );
    for (name, value) in [
        ("dataset.percentage", percent(dataset, used - start)),
        ("peak.percentage", percent(used, core.peak_memory.max(used))),
    ] {
        reply.text(name);
        reply.double(value);
    }
    integers(
        reply,
        &[
            ("allocator.allocated", own.allocated),
            ("allocator.active", own.active),
            ("allocator.resident", own.resident),
        ],
    );
    for (name, bytes, whole, part) in [
        ("allocator-fragmentation.ratio", "allocator-fragmentation.bytes", own.active, own.allocated),
        ("allocator-rss.ratio", "allocator-rss.bytes", own.resident, own.active),
        ("rss-overhead.ratio", "rss-overhead.bytes", resident, own.resident),
        ("fragmentation", "fragmentation.bytes", resident, used),
    ] {
        reply.text(name);
        reply.double(ratio(whole, part));
        reply.text(bytes);
        reply.integer(difference(whole, part));
    }
    Ok(Outcome::Done)
}

fn purge(_: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    memory::purge();
    reply.ok();
    Ok(Outcome::Done)
}

fn malloc_stats(_: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    reply.verbatim(b"txt", &memory::report());
    Ok(Outcome::Done)
}

/// Below this there is nothing to judge, as in Redis.
const SMALL_BYTES: u64 = 5 << 20;

fn doctor(ctx: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.note_memory();
    let (own, resident) = (memory::figures(), process::resident());
    let text = diagnosis(own.allocated, ctx.core.peak_memory, resident, ctx.core.client_figures().buffers);
    reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

/// What is unusual, in words.
fn diagnosis(used: u64, peak: u64, resident: u64, clients: u64) -> String {
    if used < SMALL_BYTES {
        return "So little memory is in use that nothing can be said about it.\n".to_owned();
    }
    let mut found = Vec::new();
    if peak > used.saturating_mul(3) / 2 {
        found.push(
            "High peak: much more memory was in use before than is now. What is free goes back to the system \
             by and by; MEMORY PURGE gives it back at once.",
        );
    }
    if resident > used.saturating_mul(7) / 5 && resident - used > 10 << 20 {
        found.push(
            "High fragmentation: the process holds much more memory than is in use. MEMORY PURGE gives back \
             what is whole pages.",
        );
    }
    if clients > used / 2 {
        found.push(
            "Large client buffers: most memory waits for clients that do not read. CLIENT LIST shows which \
             (omem); client-output-buffer-limit cuts them off.",
        );
    }
    if found.is_empty() {
        return "Nothing is unusual about the memory.\n".to_owned();
    }
    found.iter().map(|line| format!("* {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::diagnosis;

    #[test]
    fn the_doctor_names_what_is_unusual() {
        const MB: u64 = 1 << 20;
        assert!(diagnosis(MB, 100 * MB, 100 * MB, 0).starts_with("So little"));
        assert!(diagnosis(100 * MB, 100 * MB, 110 * MB, 0).starts_with("Nothing"));
        assert!(diagnosis(100 * MB, 200 * MB, 110 * MB, 0).starts_with("* High peak"));
        assert!(diagnosis(100 * MB, 100 * MB, 150 * MB, 0).starts_with("* High fragmentation"));
        assert_eq!(diagnosis(100 * MB, 300 * MB, 300 * MB, 90 * MB).lines().count(), 3);
    }
}
