//! Values as numbers: INCR and its like. Not here: how numbers are read and printed
//! (`base::number`, `base::extended`).

use crate::base::error::CommandError;
use crate::base::extended::Extended;
use crate::base::number;
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, LockPart, Spec};
use crate::keyspace::{Access, Encoding, Event, Ttl};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

/// What these entries have in common.
const COUNTER: Spec = Spec {
    group: Group::String,
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    keys: &[KeySpec::one(1, &["RW", "access", "update"])],
    lock: LockPart::Count,
    ..Spec::NONE
};

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "incr",
        summary: "Adds one to the integer that a key holds, 0 where there is none.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        handler: Handler::Keys(|keys, args, reply| add(keys, args.get(1), 1, reply)),
        ..COUNTER
    },
    Spec {
        name: "decr",
        summary: "Takes one from the integer that a key holds, 0 where there is none.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        handler: Handler::Keys(|keys, args, reply| add(keys, args.get(1), -1, reply)),
        ..COUNTER
    },
    Spec {
        name: "incrby",
        summary: "Adds to the integer that a key holds, 0 where there is none.",
        synopsis: "key increment",
        arity: Arity::Exactly(3),
        handler: Handler::Keys(|keys, args, reply| add(keys, args.get(1), args.int(2)?, reply)),
        ..COUNTER
    },
    Spec {
        name: "decrby",
        summary: "Takes from the integer that a key holds, 0 where there is none.",
        synopsis: "key decrement",
        arity: Arity::Exactly(3),
        handler: Handler::Keys(decrby),
        ..COUNTER
    },
    Spec {
        name: "incrbyfloat",
        since: "2.6.0",
        summary: "Adds to the number that a key holds, 0 where there is none.",
        synopsis: "key increment",
        arity: Arity::Exactly(3),
        handler: Handler::Keys(incrbyfloat),
        ..COUNTER
    },
];

fn add(keys: &mut Access<'_>, key: &[u8], by: i64, reply: &mut dyn Reply) -> Answer {
    let slot = keys.find(key);
    let old = if slot.is_some() {
        number::parse_i64(keys.value(slot)).ok_or(CommandError::NotAnInteger)?
    } else {
        0
    };
    let new = old.checked_add(by).ok_or(CommandError::IncrOverflow)?;
    let mut digits = itoa::Buffer::new();
    keys.put(slot, key, digits.format(new).as_bytes(), Encoding::Auto, Ttl::Keep, Event::INCRBY);
    reply.integer(new);
    Ok(())
}

fn decrby(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let by = args.int(2)?.checked_neg().ok_or(CommandError::DecrOverflow)?;
    add(keys, args.get(1), by, reply)
}

fn incrbyfloat(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let key = args.get(1);
    let slot = keys.find(key);
    let old = if slot.is_some() { keys.value(slot) } else { b"0" };
    let old = Extended::parse(old).ok_or(CommandError::NotAFloat)?;
    let by = Extended::parse(args.get(2)).ok_or(CommandError::NotAFloat)?;
    let new = old.plus(by).filter(|new| new.is_finite()).ok_or(CommandError::NanOrInfinity)?.to_string();
    keys.put(slot, key, new.as_bytes(), Encoding::Text, Ttl::Keep, Event::INCRBYFLOAT);
    reply.text(&new);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn counting() {
        check(
            r#"
            > INCR n
            (integer) 1
            ~ incrby
            > DECRBY n 11
            (integer) -10
            > EXPIRE n 100
            (integer) 1
            > INCRBY n 9223372036854775807
            (integer) 9223372036854775797
            > TTL n
            (integer) 100
            > INCRBY n 100
            (error) ERR increment or decrement would overflow
            > DECRBY n -9223372036854775808
            (error) ERR decrement would overflow
            > SET n " 1"
            OK
            > INCR n
            (error) ERR value is not an integer or out of range
            > INCRBYFLOAT n 1
            (error) ERR value is not a valid float
            > SET n 10.50
            OK
            > INCRBYFLOAT n 0.1
            "10.6"
            ~ incrbyfloat
            > INCRBYFLOAT n inf
            (error) ERR increment would produce NaN or Infinity
            > INCRBYFLOAT m 3
            "3"
            > OBJECT ENCODING m
            "embstr"
            "#,
        );
    }
}
