//! Locks without scripts: DELEX, DELIFEQ, DIGEST, MSETEX. Not here: SET's conditions (`string`)
//! and those of EXPIRE (`expiry`), how a condition is read and met (`matching`).

use super::matching::{self, Match};
use super::options::{Condition, SetOptions};
use super::string::store;
use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Begin, Find, Flags, Group, Handler, KeySpec, LockPart, Spec};
use crate::keyspace::{Access, Event, Slot};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "delex",
        group: Group::String,
        since: "8.4.0",
        complexity: "O(1) for IFEQ and IFNE; O(N), N being the length of the value, for IFDEQ and IFDNE.",
        summary: "Removes a key if its value, or the value's digest, is or is not the one given.",
        synopsis: "key [IFEQ match-value | IFNE match-value | IFDEQ match-digest | IFDNE match-digest]",
        arity: Arity::AtLeast(2),
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        lock: LockPart::RemoveIf,
        handler: Handler::Keys(delex),
        ..Spec::NONE
    },
    Spec {
        name: "delifeq",
        group: Group::String,
        since: "Valkey 9.0.0",
        summary: "Removes a key if its value is the one given.",
        synopsis: "key value",
        arity: Arity::Exactly(3),
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &[KeySpec::one(1, &["RM", "delete"])],
        lock: LockPart::RemoveIf,
        handler: Handler::Keys(delifeq),
        ..Spec::NONE
    },
    Spec {
        name: "digest",
        group: Group::String,
        since: "8.4.0",
        complexity: "O(N), N being the length of the value.",
        summary: "Gives the digest of a value: XXH3 of 64 bits, in 16 hexadecimal digits.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        handler: Handler::Keys(digest),
        ..Spec::NONE
    },
    Spec {
        name: "msetex",
        group: Group::String,
        since: "8.4.0",
        complexity: "O(N), N being the number of keys.",
        summary: "Stores several values in one step, with a deadline and on a condition if asked: all or none.",
        synopsis: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | \
                   EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        arity: Arity::AtLeast(4),
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
        keys: &[KeySpec {
            begin: Begin::Index(1),
            find: Find::KeyNum(0, 1, 2),
            flags: &["OW", "update"],
            notes: "",
        }],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        lock: LockPart::Store,
        handler: Handler::Keys(msetex),
        ..Spec::NONE
    },
];

/// Removes the key at `slot` if it is there and `met`; answers 1 or 0.
fn remove_if(keys: &mut Access<'_>, slot: Slot, key: &[u8], met: bool, reply: &mut dyn Reply) {
    if met && slot.is_some() {
        keys.remove(slot, key, Event::DEL);
    }
    reply.integer(i64::from(met && slot.is_some()));
}

fn delex(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if args.len() != 2 && args.len() != 4 {
        return Err(CommandError::WrongArity("delex".into()));
    }
    let key = args.get(1);
    let slot = keys.find(key);
    // Of a missing key not even the condition's name is looked at.
    let met = if args.len() == 4 && slot.is_some() {
        let condition = Match::read(args, 2)
            .ok_or(CommandError::fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"))?;
        condition.met(Some(keys.value(slot)))?
    } else {
        true
    };
    remove_if(keys, slot, key, met, reply);
    Ok(())
}

fn delifeq(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let key = args.get(1);
    let slot = keys.find(key);
    let met = slot.is_some() && keys.value(slot) == args.get(2);
    remove_if(keys, slot, key, met, reply);
    Ok(())
}

fn digest(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let slot = keys.look(args.get(1));
    if slot.is_some() {
        reply.text(&matching::digest(keys.value(slot)));
    } else {
        reply.null();
    }
    Ok(())
}

fn msetex(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let count = args
        .int(1)
        .ok()
        .filter(|count| (1..=i64::from(i32::MAX)).contains(count))
        .ok_or(CommandError::fixed("ERR invalid numkeys value"))? as usize;
    if count > (args.len() - 2) / 2 {
        return Err(CommandError::fixed("ERR wrong number of key-value pairs"));
    }
    let options = SetOptions::parse(args, 2 + 2 * count)?;
    if options.get || matches!(options.condition, Some(Condition::Value(_))) {
        return Err(CommandError::Syntax);
    }
    let ttl = options.expiry.ttl(keys.now(), "msetex")?;
    let pairs = &args.rest(2)[..2 * count];
    let met = options.condition.is_none_or(|condition| {
        let wanted = matches!(condition, Condition::Present);
        pairs.chunks_exact(2).all(|pair| keys.find(pair[0]).is_some() == wanted)
    });
    if met {
        for pair in pairs.chunks_exact(2) {
            let slot = keys.find(pair[0]);
            store(keys, slot, pair[0], pair[1], ttl);
        }
    }
    reply.integer(i64::from(met));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn set_on_a_value() {
        check(
            r#"
            > SET k v IFEQ x
            (nil)
            ~
            > SET k v IFDEQ 0
            (nil)
            > EXISTS k
            (integer) 0
            > SET k v IFNE x PX 5000
            OK
            ~ set expire
            > SET k w IFEQ x PX 1
            (nil)
            ~
            > SET k w ifne v
            (nil)
            > PTTL k
            (integer) 5000
            > SET k w IFEQ v KEEPTTL
            OK
            ~ set
            > PTTL k
            (integer) 5000
            > SET k x IFEQ w GET
            "w"
            > TTL k
            (integer) -1
            > SET k y IFEQ w GET
            "x"
            > GET k
            "x"
            > SET none y IFEQ w GET
            (nil)
            > SET none y IFDNE short GET
            (nil)
            > GET none
            "y"
            > SET n 12
            OK
            > SET n 13 IFEQ 12
            OK
            > SET n 14 IFEQ 0013
            (nil)
            "#,
        );
    }

    #[test]
    fn set_refuses_two_conditions() {
        check(
            r#"
            > SET k v
            OK
            > SET k w IFEQ v IFNE x
            (error) ERR syntax error
            > SET k w IFEQ v NX
            (error) ERR syntax error
            > SET k w XX IFEQ v
            (error) ERR syntax error
            > SET k w IFDEQ 0000000000000000 IFDNE 0000000000000000
            (error) ERR syntax error
            > SET k w IFEQ
            (error) ERR syntax error
            > SET k w IFEQ x IFEQ v
            OK
            > SET k w IFEQ w EX 0
            (error) ERR invalid expire time in 'set' command
            "#,
        );
    }

    #[test]
    fn digests() {
        check(
            r#"
            > DIGEST k
            (nil)
            > SET k "Hello world"
            OK
            > DIGEST k
            "b6acb9d84a38ff74"
            > SET k z IFDEQ B6ACB9D84A38FF74
            OK
            > SET k y IFDEQ 0000000000000000
            (nil)
            > SET k y IFDEQ 123
            (error) ERR must be exactly 16 hexadecimal characters
            > SET k y IFDNE 0
            (error) ERR must be exactly 16 hexadecimal characters
            > SET k y IFDEQ zzzzzzzzzzzzzzzz
            (nil)
            > SET k "" IFDNE zzzzzzzzzzzzzzzz
            OK
            > DIGEST k
            "2d06800538d394c2"
            > SET k 123
            OK
            > DIGEST k
            "404a763b3f4c8c9a"
            > DELEX k IFDNE 404a763b3f4c8c9a
            (integer) 0
            > DELEX k IFDEQ 404A763B3F4C8C9A
            (integer) 1
            "#,
        );
    }

    #[test]
    fn delete_on_a_value() {
        check(
            r#"
            > DELEX k
            (integer) 0
            > DELEX k NONSENSE v
            (integer) 0
            > SET k v
            OK
            > DELEX k IFEQ
            (error) ERR wrong number of arguments for 'delex' command
            > DELEX k IFEQ v x
            (error) ERR wrong number of arguments for 'delex' command
            > DELEX k NONSENSE v
            (error) ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
            > DELEX k IFDEQ v
            (error) ERR must be exactly 16 hexadecimal characters
            > DELEX k IFEQ x
            (integer) 0
            ~
            > DELEX k IFNE v
            (integer) 0
            > DELEX k IFEQ v
            (integer) 1
            ~ del
            > SET k v
            OK
            > DELIFEQ k x
            (integer) 0
            ~
            > DELIFEQ k v
            (integer) 1
            ~ del
            > DELIFEQ k v
            (integer) 0
            > SET k v PX 10
            OK
            @advance 10
            > DELEX k IFNE x
            (integer) 0
            ~ expired
            "#,
        );
    }

    #[test]
    fn several_at_once() {
        check(
            r#"
            > MSETEX 0 a 1
            (error) ERR invalid numkeys value
            > MSETEX x a 1
            (error) ERR invalid numkeys value
            > MSETEX 2147483648 a 1
            (error) ERR invalid numkeys value
            > MSETEX 2147483647 a 1
            (error) ERR wrong number of key-value pairs
            > MSETEX 2 a 1 b
            (error) ERR wrong number of key-value pairs
            > MSETEX 1 a 1 b 2
            (error) ERR syntax error
            > MSETEX 1 a 1 GET
            (error) ERR syntax error
            > MSETEX 1 a 1 IFEQ x
            (error) ERR syntax error
            > MSETEX 1 a 1 NX XX
            (error) ERR syntax error
            > MSETEX 1 a 1 EX 1 PX 1
            (error) ERR syntax error
            > MSETEX 1 a 1 EX 0
            (error) ERR invalid expire time in 'msetex' command
            > MSETEX 2 a 1 b 2 XX
            (integer) 0
            > MSETEX 2 a 1 b 2 PX 500 NX
            (integer) 1
            ~ set expire set expire
            > MSETEX 2 b 3 c 3 NX
            (integer) 0
            ~
            > MGET a b c
            1) "1"
            2) "2"
            3) (nil)
            > MSETEX 2 a 2 c 3 KEEPTTL
            (integer) 1
            > PTTL a
            (integer) 500
            > TTL c
            (integer) -1
            > MSETEX 2 a 3 b 4 XX
            (integer) 1
            > TTL a
            (integer) -1
            "#,
        );
    }

    #[test]
    fn renew_on_a_value() {
        check(
            r#"
            > SET lock me PX 100
            OK
            > PEXPIRE lock 500 IFEQ you
            (integer) 0
            ~
            > PTTL lock
            (integer) 100
            > PEXPIRE lock 500 IFEQ me
            (integer) 1
            ~ expire
            > EXPIRE lock 5 GT IFEQ me
            (integer) 1
            > EXPIRE lock 1 ifeq me GT
            (integer) 0
            > PEXPIREAT lock 1005000 IFEQ me
            (integer) 1
            > EXPIREAT lock 1006 IFEQ me
            (integer) 1
            > PTTL lock
            (integer) 6000
            > EXPIRE lock 1 IFEQ
            (error) ERR Unsupported option IFEQ
            > EXPIRE none 1 IFEQ me
            (integer) 0
            > PEXPIRE lock 0 IFEQ me
            (integer) 1
            ~ del
            "#,
        );
    }
}
