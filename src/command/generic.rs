//! Commands on keys whatever they hold: removing, counting, renaming, copying, moving; and on whole
//! databases. Not here: walking them (`scan`), deadlines (`expiry`).

use super::options;
use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, LockPart, Spec};
use crate::keyspace::{Access, Encoding, Event, Ttl};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

const WRITE: Flags = Flags::WRITE;
const READ: Flags = Flags::READONLY;
const FAST: Flags = Flags::FAST;
const SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const ALL: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

/// What emptying commands have in common.
const FLUSH: Spec = Spec {
    group: Group::Server,
    synopsis: "[ASYNC | SYNC]",
    arity: Arity::AtLeast(1),
    flags: WRITE,
    tips: ALL,
    acl: &["keyspace", "dangerous"],
    history: &[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")],
    ..Spec::NONE
};

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "del",
        complexity: "O(N), N being the number of keys.",
        summary: "Removes keys.",
        synopsis: "key [key ...]",
        arity: Arity::AtLeast(2),
        flags: WRITE,
        keys: &[KeySpec::range(1, -1, 1, &["RM", "delete"])],
        tips: SUM,
        lock: LockPart::Remove,
        handler: Handler::Keys(del),
        ..Spec::NONE
    },
    Spec {
        name: "unlink",
        since: "4.0.0",
        complexity: "O(N), N being the number of keys.",
        summary: "Removes keys. The same as DEL: no value here is so large in parts that it must wait.",
        synopsis: "key [key ...]",
        arity: Arity::AtLeast(2),
        flags: WRITE.or(FAST),
        keys: &[KeySpec::range(1, -1, 1, &["RM", "delete"])],
        tips: SUM,
        lock: LockPart::Remove,
        handler: Handler::Keys(del),
        ..Spec::NONE
    },
    Spec {
        name: "exists",
        complexity: "O(N), N being the number of keys.",
        summary: "Counts how many of the keys are there; one that is named twice counts twice.",
        synopsis: "key [key ...]",
        arity: Arity::AtLeast(2),
        flags: READ.or(FAST),
        keys: &[KeySpec::range(1, -1, 1, &["RO"])],
        tips: SUM,
        history: &[("3.0.3", "More than one `key`.")],
        handler: Handler::Keys(|keys, args, reply| {
            count(args, reply, |key| keys.peek(key).is_some());
            Ok(())
        }),
        ..Spec::NONE
    },
    Spec {
        name: "touch",
        since: "3.2.1",
        complexity: "O(N), N being the number of keys.",
        summary: "Notes that keys are in use, and counts how many are there.",
        synopsis: "key [key ...]",
        arity: Arity::AtLeast(2),
        flags: READ.or(FAST),
        keys: &[KeySpec::range(1, -1, 1, &["RO"])],
        tips: SUM,
        handler: Handler::Keys(|keys, args, reply| {
            count(args, reply, |key| keys.look(key).is_some());
            Ok(())
        }),
        ..Spec::NONE
    },
    Spec {
        name: "type",
        summary: "Names the type of what a key holds.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        flags: READ.or(FAST),
        keys: &[KeySpec::one(1, &["RO"])],
        handler: Handler::Keys(|keys, args, reply| {
            reply.simple(if keys.peek(args.get(1)).is_some() { b"string" } else { b"none" });
            Ok(())
        }),
        ..Spec::NONE
    },
    Spec {
        name: "rename",
        summary: "Gives a key another name, over whatever had it.",
        synopsis: "key newkey",
        arity: Arity::Exactly(3),
        flags: WRITE,
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["OW", "update"])],
        handler: Handler::Keys(rename),
        ..Spec::NONE
    },
    Spec {
        name: "renamenx",
        summary: "Gives a key another name if nothing has it.",
        synopsis: "key newkey",
        arity: Arity::Exactly(3),
        flags: WRITE.or(FAST),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["OW", "insert"])],
        history: &[("3.2.0", "No error any more where both names are the same.")],
        handler: Handler::Keys(renamenx),
        ..Spec::NONE
    },
    Spec {
        name: "copy",
        since: "6.2.0",
        complexity: "O(1) but for the bytes of the value.",
        summary: "Copies a key and its deadline, to another database if asked.",
        synopsis: "source destination [DB destination-db] [REPLACE]",
        arity: Arity::AtLeast(3),
        flags: WRITE.or(Flags::DENYOOM),
        keys: &[KeySpec::one(1, &["RO", "access"]), KeySpec::one(2, &["OW", "update"])],
        handler: Handler::Keys(copy),
        ..Spec::NONE
    },
    Spec {
        name: "move",
        summary: "Moves a key to another database, where it must not be.",
        synopsis: "key db",
        arity: Arity::Exactly(3),
        flags: WRITE.or(FAST),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        handler: Handler::Keys(move_key),
        ..Spec::NONE
    },
    Spec {
        name: "swapdb",
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(N), N being the number of watched keys in both databases.",
        summary: "Exchanges the contents of two databases.",
        synopsis: "index1 index2",
        arity: Arity::Exactly(3),
        flags: WRITE.or(FAST),
        acl: &["keyspace", "dangerous"],
        handler: Handler::Keys(swapdb),
        ..Spec::NONE
    },
    Spec {
        name: "flushdb",
        complexity: "O(1); memory is given back bit by bit afterwards.",
        summary: "Removes all keys of the chosen database.",
        handler: Handler::Keys(flushdb),
        ..FLUSH
    },
    Spec {
        name: "flushall",
        complexity: "O(1) for each database; memory is given back bit by bit afterwards.",
        summary: "Removes all keys of all databases.",
        handler: Handler::Keys(flushall),
        ..FLUSH
    },
];

fn del(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    count(args, reply, |key| {
        let slot = keys.find(key);
        if slot.is_some() {
            keys.remove(slot, key, Event::DEL);
        }
        slot.is_some()
    });
    Ok(())
}

/// Says for how many of the keys `test` holds.
fn count(args: &Args<'_>, reply: &mut dyn Reply, mut test: impl FnMut(&[u8]) -> bool) {
    let n = args.rest(1).iter().filter(|key| test(key)).count();
    reply.integer(n as i64);
}

fn rename(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let (from, to) = (args.get(1), args.get(2));
    if !keys.find(from).is_some() {
        return Err(CommandError::NoSuchKey);
    }
    if from != to {
        // What is stale under the new name goes first, and is told.
        keys.find(to);
        keys.carry(from, keys.db_index(), to, Event::RENAME_FROM, Event::RENAME_TO);
    }
    reply.ok();
    Ok(())
}

fn renamenx(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let (from, to) = (args.get(1), args.get(2));
    if !keys.find(from).is_some() {
        return Err(CommandError::NoSuchKey);
    }
    let free = !keys.find(to).is_some();
    if free {
        keys.carry(from, keys.db_index(), to, Event::RENAME_FROM, Event::RENAME_TO);
    }
    reply.integer(i64::from(free));
    Ok(())
}

fn copy(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let (mut db, mut replace) = (keys.db_index(), false);
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "replace") {
            replace = true;
        } else if args.is(i, "db") && i + 1 < args.len() {
            i += 1;
            db = options::database(args, i, keys.db_count())?;
        } else {
            return Err(CommandError::Syntax);
        }
        i += 1;
    }
    if keys.limits().one_db && db != 0 {
        return Err(CommandError::fixed("ERR Copying to another database is not allowed in cluster mode"));
    }
    let (from, to) = (args.get(1), args.get(2));
    if db == keys.db_index() && from == to {
        return Err(CommandError::SameObject);
    }
    let slot = keys.look(from);
    let free = slot.is_some() && (replace || !keys.other(db).find(to).is_some());
    if free {
        // Looking for the other name may have moved this one.
        let slot = keys.find(from);
        let (value, ttl) = (keys.value(slot).to_vec(), keys.deadline(slot).map_or(Ttl::Clear, Ttl::At));
        let encoding = match keys.db().encoding(slot) {
            Encoding::Auto => Encoding::Own,
            other => other,
        };
        let mut there = keys.other(db);
        let old = there.find(to);
        if old.is_some() {
            // What is replaced is removed without a word, and the copy is new.
            there.also(to, Event::NEW);
        }
        there.put(old, to, &value, encoding, ttl, Event::COPY_TO);
    }
    reply.integer(i64::from(free));
    Ok(())
}

fn move_key(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if keys.limits().one_db {
        return Err(CommandError::fixed("ERR MOVE is not allowed in cluster mode"));
    }
    let db = options::database(args, 2, keys.db_count())?;
    if db == keys.db_index() {
        return Err(CommandError::SameObject);
    }
    let key = args.get(1);
    let slot = keys.find(key);
    let free = slot.is_some() && !keys.other(db).find(key).is_some();
    if free {
        keys.carry(key, db, key, Event::MOVE_FROM, Event::MOVE_TO);
    }
    reply.integer(i64::from(free));
    Ok(())
}

fn swapdb(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if keys.limits().one_db {
        return Err(CommandError::fixed("ERR SWAPDB is not allowed in cluster mode"));
    }
    let first = options::int32(args, 1, Some(CommandError::InvalidFirstDbIndex))?;
    let second = options::int32(args, 2, Some(CommandError::InvalidSecondDbIndex))?;
    let count = keys.db_count();
    let known =
        |n: i32| usize::try_from(n).ok().filter(|&n| n < count).ok_or(CommandError::DbIndexOutOfRange);
    let (first, second) = (known(first)?, known(second)?);
    keys.swap(first, second);
    reply.ok();
    Ok(())
}

/// ASYNC and SYNC are read and make no difference: the content is handed over either way.
fn check_flush_mode(args: &Args<'_>) -> Answer {
    let fine = args.len() == 1 || args.len() == 2 && (args.is(1, "sync") || args.is(1, "async"));
    if fine { Ok(()) } else { Err(CommandError::Syntax) }
}

fn flushdb(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    check_flush_mode(args)?;
    keys.flush(keys.db_index());
    reply.ok();
    Ok(())
}

fn flushall(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    check_flush_mode(args)?;
    for db in 0..keys.db_count() {
        keys.flush(db);
    }
    reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn names() {
        check(
            r#"
            > SET a 1 PX 5000
            OK
            > RENAME a b
            OK
            ~ rename_from rename_to
            > PTTL b
            (integer) 5000
            > RENAME a b
            (error) ERR no such key
            > RENAME b b
            OK
            ~
            > RENAMENX b b
            (integer) 0
            > SET a 2
            OK
            > RENAMENX a b
            (integer) 0
            > RENAME a b
            OK
            > PTTL b
            (integer) -1
            > DEL a b b
            (integer) 1
            ~ del
            "#,
        );
    }

    #[test]
    fn databases() {
        check(
            r#"
            > SET a 1 PX 5000
            OK
            > COPY a b
            (integer) 1
            ~ copy_to
            > COPY a b
            (integer) 0
            > COPY a b REPLACE
            (integer) 1
            > COPY a a
            (error) ERR source and destination objects are the same
            > COPY a a DB 1
            (integer) 1
            > COPY a a DB 16
            (error) ERR DB index is out of range
            > MOVE a 1
            (integer) 0
            > MOVE a 0
            (error) ERR source and destination objects are the same
            > MOVE a 2
            (integer) 1
            ~ move_from move_to
            > EXISTS a b b
            (integer) 2
            > SWAPDB 0 2
            OK
            > PTTL a
            (integer) 5000
            > SWAPDB x 2
            (error) ERR invalid first DB index
            > SWAPDB 0 99
            (error) ERR DB index is out of range
            > FLUSHALL
            OK
            > DBSIZE
            (integer) 0
            > FLUSHDB SYNC ASYNC
            (error) ERR syntax error
            "#,
        );
    }
}
