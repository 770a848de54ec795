//! The string commands: whole values and parts of them. Not here: values as numbers (`counter`),
//! deadlines on their own (`expiry`).

use super::options::{self, Expiry, From, Lifetime, SetOptions, Unit};
use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Flags, Group, Handler, Key, KeySpec, LockPart, Spec, VARIABLE};
use crate::keyspace::{Access, Encoding, Event, Slot, Ttl};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

const WRITE: Flags = Flags::WRITE;
const WRITE_GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const READ: Flags = Flags::READONLY;
const FAST: Flags = Flags::FAST;

/// What string entries have in common.
const STRING: Spec = Spec { group: Group::String, ..Spec::NONE };

const RANGE_COMPLEXITY: &str = "O(N), N being the length of what is returned; O(1) where that is small.";

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "set",
        summary: "Stores a value under a key, whatever was there; on a condition and with a deadline if asked.",
        synopsis: "key value [NX | XX | IFEQ match-value | IFNE match-value | IFDEQ match-digest | \
                   IFDNE match-digest] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
                   PXAT unix-time-milliseconds | KEEPTTL]",
        arity: Arity::AtLeast(3),
        flags: WRITE_GROW,
        keys: &[KeySpec {
            notes: "ACCESS only where GET is given",
            ..KeySpec::one(1, &["RW", "access", "update", VARIABLE])
        }],
        key_reader: Some(key_of_set),
        history: &[
            ("2.6.12", "`EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "`KEEPTTL`."),
            ("6.2.0", "`GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` together with `GET`."),
            ("8.4.0", "`IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`."),
        ],
        lock: LockPart::Store,
        handler: Handler::Keys(set),
        ..STRING
    },
    Spec {
        name: "get",
        summary: "Gives the value of a key.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        flags: READ.or(FAST),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        handler: Handler::Keys(get),
        ..STRING
    },
    Spec {
        name: "getex",
        since: "6.2.0",
        summary: "Gives the value of a key and sets or drops its deadline.",
        synopsis: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
                   PXAT unix-time-milliseconds | PERSIST]",
        arity: Arity::AtLeast(2),
        flags: WRITE.or(FAST),
        keys: &[KeySpec {
            notes: "UPDATE for the deadline's sake",
            ..KeySpec::one(1, &["RW", "access", "update"])
        }],
        handler: Handler::Keys(getex),
        ..STRING
    },
    Spec {
        name: "getdel",
        since: "6.2.0",
        summary: "Gives the value of a key and removes it.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        flags: WRITE.or(FAST),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"])],
        lock: LockPart::Remove,
        handler: Handler::Keys(getdel),
        ..STRING
    },
    Spec {
        name: "getset",
        summary: "Stores a value and gives the one that was there.",
        synopsis: "key value",
        arity: Arity::Exactly(3),
        flags: WRITE_GROW.or(FAST),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        deprecated: ("6.2.0", "`SET` with the `!GET` argument"),
        lock: LockPart::Store,
        handler: Handler::Keys(getset),
        ..STRING
    },
    Spec {
        name: "setnx",
        summary: "Stores a value if the key is not there.",
        synopsis: "key value",
        arity: Arity::Exactly(3),
        flags: WRITE_GROW.or(FAST),
        keys: &[KeySpec::one(1, &["OW", "insert"])],
        lock: LockPart::StoreNew,
        handler: Handler::Keys(setnx),
        ..STRING
    },
    Spec {
        name: "setex",
        since: "2.0.0",
        summary: "Stores a value that lives for so many seconds.",
        synopsis: "key seconds value",
        arity: Arity::Exactly(4),
        flags: WRITE_GROW,
        keys: &[KeySpec::one(1, &["OW", "update"])],
        lock: LockPart::Store,
        handler: Handler::Keys(|keys, args, reply| setex(keys, args, reply, Unit::Seconds, "setex")),
        ..STRING
    },
    Spec {
        name: "psetex",
        since: "2.6.0",
        summary: "Stores a value that lives for so many milliseconds.",
        synopsis: "key milliseconds value",
        arity: Arity::Exactly(4),
        flags: WRITE_GROW,
        keys: &[KeySpec::one(1, &["OW", "update"])],
        lock: LockPart::Store,
        handler: Handler::Keys(|keys, args, reply| setex(keys, args, reply, Unit::Millis, "psetex")),
        ..STRING
    },
    Spec {
        name: "mget",
        complexity: "O(N), N being the number of keys.",
        summary: "Gives the values of several keys.",
        synopsis: "key [key ...]",
        arity: Arity::AtLeast(2),
        flags: READ.or(FAST),
        keys: &[KeySpec::range(1, -1, 1, &["RO", "access"])],
        tips: &["request_policy:multi_shard"],
        handler: Handler::Keys(mget),
        ..STRING
    },
    Spec {
        name: "mset",
        since: "1.0.1",
        complexity: "O(N), N being the number of keys.",
        summary: "Stores several values in one step.",
        synopsis: "key value [key value ...]",
        arity: Arity::AtLeast(3),
        flags: WRITE_GROW,
        keys: &[KeySpec::range(1, -1, 2, &["OW", "update"])],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        lock: LockPart::Store,
        handler: Handler::Keys(mset),
        ..STRING
    },
    Spec {
        name: "msetnx",
        since: "1.0.1",
        complexity: "O(N), N being the number of keys.",
        summary: "Stores several values in one step if none of the keys is there.",
        synopsis: "key value [key value ...]",
        arity: Arity::AtLeast(3),
        flags: WRITE_GROW,
        keys: &[KeySpec::range(1, -1, 2, &["OW", "insert"])],
        tips: &["request_policy:multi_shard", "response_policy:agg_min"],
        lock: LockPart::StoreNew,
        handler: Handler::Keys(msetnx),
        ..STRING
    },
    Spec {
        name: "append",
        since: "2.0.0",
        complexity: "O(1), amortised, where what is appended is small.",
        summary: "Appends to a value, which begins empty.",
        synopsis: "key value",
        arity: Arity::Exactly(3),
        flags: WRITE_GROW.or(FAST),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        handler: Handler::Keys(append),
        ..STRING
    },
    Spec {
        name: "strlen",
        since: "2.2.0",
        summary: "Tells the length of a value.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        flags: READ.or(FAST),
        keys: &[KeySpec::one(1, &["RO"])],
        handler: Handler::Keys(strlen),
        ..STRING
    },
    Spec {
        name: "getrange",
        since: "2.4.0",
        complexity: RANGE_COMPLEXITY,
        summary: "Gives a part of a value.",
        synopsis: "key start end",
        arity: Arity::Exactly(4),
        flags: READ,
        keys: &[KeySpec::one(1, &["RO", "access"])],
        handler: Handler::Keys(getrange),
        ..STRING
    },
    Spec {
        name: "substr",
        complexity: RANGE_COMPLEXITY,
        summary: "Gives a part of a value.",
        synopsis: "key start end",
        arity: Arity::Exactly(4),
        flags: READ,
        keys: &[KeySpec::one(1, &["RO", "access"])],
        deprecated: ("2.0.0", "`GETRANGE`"),
        handler: Handler::Keys(getrange),
        ..STRING
    },
    Spec {
        name: "setrange",
        since: "2.2.0",
        complexity: "O(M), M being the length of what is written; O(1) where that is small.",
        summary: "Writes over a part of a value, which grows as needed.",
        synopsis: "key offset value",
        arity: Arity::Exactly(4),
        flags: WRITE_GROW,
        keys: &[KeySpec::one(1, &["RW", "update"])],
        handler: Handler::Keys(setrange),
        ..STRING
    },
];

/// Stores a value as SET does: `set`, then `expire` where it gets a deadline.
pub fn store(keys: &mut Access<'_>, slot: Slot, key: &[u8], value: &[u8], ttl: Ttl) {
    keys.put(slot, key, value, Encoding::Auto, ttl, Event::SET);
    if let Ttl::At(_) = ttl {
        keys.also(key, Event::EXPIRE);
    }
}

/// It is read only where the old value is asked for.
fn key_of_set(args: &Args<'_>) -> Vec<Key> {
    let gets = (3..args.len()).any(|at| args.is(at, "get"));
    let flags: &[&str] = if gets { &["RW", "access", "update"] } else { &["OW", "update"] };
    vec![Key { at: 1, flags }]
}

fn set(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let options = SetOptions::parse(args, 3)?;
    let ttl = options.expiry.ttl(keys.now(), "set")?;
    let key = args.get(1);
    // Who asks for the old value is a reader.
    let slot = if options.get { keys.look(key) } else { keys.find(key) };
    let current = slot.is_some().then(|| keys.value(slot));
    let met = match options.condition {
        None => true,
        Some(condition) => condition.met(current)?,
    };
    if options.get {
        reply.bulk_or_null(current);
    } else if met {
        reply.ok();
    } else {
        reply.null();
    }
    if met {
        store(keys, slot, key, args.get(2), ttl);
    }
    Ok(())
}

fn get(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let slot = keys.look(args.get(1));
    reply.bulk_or_null(slot.is_some().then(|| keys.value(slot)));
    Ok(())
}

fn getex(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let expiry = options::getex(args, 2)?;
    let key = args.get(1);
    let slot = keys.look(key);
    if !slot.is_some() {
        // The time is not even read then.
        reply.null();
        return Ok(());
    }
    let ttl = expiry.ttl(keys.now(), "getex")?;
    reply.bulk(keys.value(slot));
    match (expiry, ttl) {
        (_, Ttl::At(deadline)) if deadline <= keys.now() => keys.remove(slot, key, Event::DEL),
        (_, Ttl::At(deadline)) => keys.set_deadline(slot, key, Some(deadline), Event::EXPIRE),
        (Expiry::Persist, _) if keys.deadline(slot).is_some() => {
            keys.set_deadline(slot, key, None, Event::PERSIST);
        }
        _ => {}
    }
    Ok(())
}

fn getdel(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let key = args.get(1);
    let slot = keys.look(key);
    reply.bulk_or_null(slot.is_some().then(|| keys.value(slot)));
    if slot.is_some() {
        keys.remove(slot, key, Event::DEL);
    }
    Ok(())
}

fn getset(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let key = args.get(1);
    let slot = keys.look(key);
    reply.bulk_or_null(slot.is_some().then(|| keys.value(slot)));
    store(keys, slot, key, args.get(2), Ttl::Clear);
    Ok(())
}

fn setnx(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let key = args.get(1);
    let slot = keys.find(key);
    if !slot.is_some() {
        store(keys, slot, key, args.get(2), Ttl::Clear);
    }
    reply.integer(i64::from(!slot.is_some()));
    Ok(())
}

fn setex(
    keys: &mut Access<'_>,
    args: &Args<'_>,
    reply: &mut dyn Reply,
    unit: Unit,
    name: &'static str,
) -> Answer {
    let lifetime = Lifetime { amount: args.get(2), unit, from: From::Now };
    let deadline = lifetime.deadline(keys.now(), name)?;
    let key = args.get(1);
    let slot = keys.find(key);
    store(keys, slot, key, args.get(3), Ttl::At(deadline));
    reply.ok();
    Ok(())
}

fn mget(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    reply.array(args.len() - 1);
    for key in args.rest(1) {
        let slot = keys.look(key);
        reply.bulk_or_null(slot.is_some().then(|| keys.value(slot)));
    }
    Ok(())
}

/// The pairs of MSET and MSETNX.
fn pairs<'a>(args: &Args<'a>, name: &str) -> Result<&'a [&'a [u8]], CommandError> {
    if args.len().is_multiple_of(2) {
        Err(CommandError::WrongArity(name.to_owned()))
    } else {
        Ok(args.rest(1))
    }
}

fn store_pairs(keys: &mut Access<'_>, pairs: &[&[u8]]) {
    for pair in pairs.chunks_exact(2) {
        let slot = keys.find(pair[0]);
        store(keys, slot, pair[0], pair[1], Ttl::Clear);
    }
}

fn mset(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    store_pairs(keys, pairs(args, "mset")?);
    reply.ok();
    Ok(())
}

fn msetnx(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let pairs = pairs(args, "msetnx")?;
    let free = !pairs.chunks_exact(2).any(|pair| keys.find(pair[0]).is_some());
    if free {
        store_pairs(keys, pairs);
    }
    reply.integer(i64::from(free));
    Ok(())
}

/// Refuses a value that would end up longer than `proto-max-bulk-len`.
fn check_len(keys: &Access<'_>, at: usize, more: usize) -> Answer {
    let fits = at.checked_add(more).is_some_and(|len| len as u64 <= keys.limits().max_bulk_len);
    if fits { Ok(()) } else { Err(CommandError::StringTooLong) }
}

fn append(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let (key, more) = (args.get(1), args.get(2));
    let slot = keys.find(key);
    let mut len = more.len();
    if slot.is_some() {
        let old = keys.value(slot).len();
        check_len(keys, old, len)?;
        len += old;
        keys.modify(slot, key, Encoding::Raw, Event::APPEND, |value| value.extend_from_slice(more));
    } else {
        keys.put(slot, key, more, Encoding::Auto, Ttl::Clear, Event::APPEND);
    }
    reply.integer(len as i64);
    Ok(())
}

fn strlen(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let slot = keys.look(args.get(1));
    reply.integer(if slot.is_some() { keys.value(slot).len() as i64 } else { 0 });
    Ok(())
}

fn getrange(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let (start, end) = (args.int(2)?, args.int(3)?);
    let slot = keys.look(args.get(1));
    reply.bulk(if slot.is_some() { part(keys.value(slot), start, end) } else { b"" });
    Ok(())
}

/// The bytes from `start` to `end`, both included; negative ones count from the end.
fn part(value: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let len = value.len() as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    // Both are within the value here: an empty one has no `end` at all.
    if start > end { b"" } else { &value[start as usize..=end as usize] }
}

fn setrange(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let offset = usize::try_from(args.int(2)?).map_err(|_| CommandError::OffsetOutOfRange)?;
    let (key, new) = (args.get(1), args.get(3));
    let slot = keys.find(key);
    let old_len = if slot.is_some() { keys.value(slot).len() } else { 0 };
    if new.is_empty() {
        reply.integer(old_len as i64);
        return Ok(());
    }
    check_len(keys, offset, new.len())?;
    let end = offset + new.len();
    if slot.is_some() {
        keys.modify(slot, key, Encoding::Raw, Event::SETRANGE, |value| {
            if value.len() < end {
                value.resize(end, 0);
            }
            value[offset..end].copy_from_slice(new);
        });
    } else {
        let mut value = vec![0; end];
        value[offset..].copy_from_slice(new);
        keys.put(slot, key, &value, Encoding::Raw, Ttl::Clear, Event::SETRANGE);
    }
    reply.integer(old_len.max(end) as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn set_on_a_condition_and_with_a_deadline() {
        check(
            r#"
            > SET lock token NX PX 30000
            OK
            ~ set expire
            > SET lock other NX PX 30000
            (nil)
            ~
            > set lock other nx get
            "token"
            > PTTL lock
            (integer) 30000
            > SET lock next XX KEEPTTL
            OK
            > PTTL lock
            (integer) 30000
            > SET lock last GET
            "next"
            ~ set
            > PTTL lock
            (integer) -1
            > SET none v XX
            (nil)
            > SET none v XX GET
            (nil)
            > SET k v EX 1
            OK
            @advance 999
            > GET k
            "v"
            @advance 1
            > GET k
            (nil)
            ~ expired
            > SET k v PXAT 5
            OK
            ~ set expire
            > GET k
            (nil)
            "#,
        );
    }

    #[test]
    fn set_refuses() {
        for options in [
            "NX XX",
            "EX",
            "PX",
            "EX 1 PX 1",
            "EX 1 KEEPTTL",
            "KEEPTTL PXAT 5",
            "PERSIST",
            "NX 5",
            "GETT",
            "EX 1 EXAT 1",
        ] {
            check(&format!("> SET k v {options}\n(error) ERR syntax error"));
        }
        for options in
            ["EX 0", "PX -1", "EX 9223372036854775807", "EXAT 9223372036854776", "PX 9223372036854775807"]
        {
            check(&format!("> SET k v {options}\n(error) ERR invalid expire time in 'set' command"));
        }
        check("> SET k v EX x\n(error) ERR value is not an integer or out of range");
        check("> SET k v NX NX EX 5 EX 7\nOK\n> TTL k\n(integer) 7");
        check("> SETEX k 0 v\n(error) ERR invalid expire time in 'setex' command");
        check("> PSETEX k -1 v\n(error) ERR invalid expire time in 'psetex' command");
    }

    #[test]
    fn getex_getdel_getset() {
        check(
            r#"
            > GETEX k EX x
            (nil)
            > SET k v
            OK
            > GETEX k EX 0
            (error) ERR invalid expire time in 'getex' command
            > GETEX k PX 500
            "v"
            ~ expire
            > PTTL k
            (integer) 500
            > GETEX k
            "v"
            ~
            > GETEX k PERSIST
            "v"
            ~ persist
            > GETEX k PERSIST
            "v"
            ~
            > GETEX k PERSIST EX 5
            (error) ERR syntax error
            > GETEX k EXAT 1
            "v"
            ~ del
            > GETSET k a
            (nil)
            > GETSET k b
            "a"
            ~ set
            > GETDEL k
            "b"
            ~ del
            > GETDEL k
            (nil)
            "#,
        );
    }

    #[test]
    fn several_keys() {
        check(
            r#"
            > MSET a 1 b 2 a 3
            OK
            ~ set set set
            > MGET a b c
            1) "3"
            2) "2"
            3) (nil)
            > MSETNX c 1 a 2
            (integer) 0
            > MSETNX c 1 d 2
            (integer) 1
            > MSET a 1 b
            (error) ERR wrong number of arguments for 'mset' command
            "#,
        );
    }

    #[test]
    fn parts() {
        check(
            r#"
            > APPEND k hello
            (integer) 5
            ~ append
            > APPEND k " world"
            (integer) 11
            > GETRANGE k 0 4
            "hello"
            > GETRANGE k -5 -1
            "world"
            > GETRANGE k -1 -5
            ""
            > GETRANGE k -9223372036854775808 9223372036854775807
            "hello world"
            > SUBSTR none 0 1
            ""
            > SETRANGE k 6 redis
            (integer) 11
            > GET k
            "hello redis"
            > SETRANGE new 2 x
            (integer) 3
            ~ setrange
            > GET new
            "\x00\x00x"
            > SETRANGE new 9223372036854775807 ""
            (integer) 3
            > SETRANGE new 9223372036854775807 x
            (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)
            > SETRANGE new -1 x
            (error) ERR offset is out of range
            > STRLEN new
            (integer) 3
            > OBJECT ENCODING new
            "raw"
            "#,
        );
    }
}
