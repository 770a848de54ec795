//! OBJECT: what the server knows about a value beside its bytes. Not here: DEBUG OBJECT (`debug`).

use super::help;
use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, Spec};
use crate::keyspace::{Access, Encoding, Slot};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

/// Integers below this are shared objects in Redis, which OBJECT REFCOUNT shows.
const SHARED_INTEGERS: i64 = 10_000;
/// Longer strings are `raw`, not `embstr`.
const EMBSTR_MAX: usize = 44;

/// What the subcommands have in common.
const SUB: Spec = Spec {
    group: Group::Generic,
    since: "2.2.3",
    synopsis: "key",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY,
    keys: &[KeySpec::one(2, &["RO"])],
    tips: &["nondeterministic_output"],
    ..Spec::NONE
};

/// The entries.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "object",
    group: Group::Generic,
    since: "2.2.3",
    complexity: "As its subcommands'.",
    summary: "Holds the commands that look at how a value is kept.",
    arity: Arity::AtLeast(2),
    subcommands: &[
        Spec {
            name: "encoding",
            summary: "Names the form in which a value is kept.",
            handler: Handler::Keys(encoding),
            ..SUB
        },
        Spec {
            name: "freq",
            since: "4.0.0",
            summary: "Tells how often a key is used: never, since no LFU policy is offered.",
            handler: Handler::Keys(freq),
            ..SUB
        },
        Spec {
            name: "idletime",
            summary: "Tells how many seconds ago a key was last used.",
            handler: Handler::Keys(idletime),
            ..SUB
        },
        Spec {
            name: "refcount",
            summary: "Tells how many owners a value has.",
            handler: Handler::Keys(refcount),
            ..SUB
        },
        help::entry(Group::Generic, "6.2.0"),
    ],
    ..Spec::NONE
}];

/// Looks the key up; where there is none, says so.
fn known(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Option<Slot> {
    let slot = keys.peek_untold(args.get(2));
    if !slot.is_some() {
        reply.null();
    }
    slot.is_some().then_some(slot)
}

/// The value as an integer, where it is kept as one.
fn kept_integer(keys: &Access<'_>, slot: Slot) -> Option<i64> {
    match keys.db().encoding(slot) {
        Encoding::Auto | Encoding::Own => number::parse_i64(keys.value(slot)),
        Encoding::Text | Encoding::Raw => None,
    }
}

/// The encoding's name as Redis reports it. DEBUG OBJECT says the same.
pub fn encoding_name(keys: &Access<'_>, slot: Slot) -> &'static str {
    if kept_integer(keys, slot).is_some() {
        return "int";
    }
    match keys.db().encoding(slot) {
        Encoding::Auto | Encoding::Own | Encoding::Text if keys.value(slot).len() <= EMBSTR_MAX => "embstr",
        _ => "raw",
    }
}

fn encoding(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if let Some(slot) = known(keys, args, reply) {
        reply.text(encoding_name(keys, slot));
    }
    Ok(())
}

fn freq(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    match known(keys, args, reply) {
        None => Ok(()),
        Some(_) => Err(CommandError::fixed(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
             when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        )),
    }
}

fn idletime(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if let Some(slot) = known(keys, args, reply) {
        let accessed = i64::from(keys.db().accessed(slot, keys.now()));
        reply.integer((keys.now().0 / 1000 - accessed).max(0));
    }
    Ok(())
}

fn refcount(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if let Some(slot) = known(keys, args, reply) {
        reply.integer(references(keys, slot).into());
    }
    Ok(())
}

/// How many share the value at `slot`, as Redis counts: its small integers are shared by all.
pub fn references(keys: &Access<'_>, slot: Slot) -> i32 {
    let own = keys.db().encoding(slot) == Encoding::Own;
    let shared = kept_integer(keys, slot).is_some_and(|n| (0..SHARED_INTEGERS).contains(&n));
    if shared && !own { i32::MAX } else { 1 }
}
