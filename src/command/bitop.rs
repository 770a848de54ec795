//! BITOP: strings combined bit by bit. Not here: the bits of one string (`bitmap`).

use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, Spec};
use crate::keyspace::{Access, Encoding, Event, Slot, Ttl};
use crate::resp::{Args, Reply};

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "bitop",
    group: Group::Bitmap,
    since: "2.6.0",
    complexity: "O(N)",
    summary: "Combines strings bit by bit and stores what comes out.",
    synopsis: "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    keys: &[KeySpec::one(2, &["OW", "update"]), KeySpec::range(3, -1, 1, &["RO", "access"])],
    history: &[("8.2.0", "Added the `DIFF`, `DIFF1`, `ANDOR`, and `ONE` operations.")],
    handler: Handler::Keys(bitop),
    ..Spec::NONE
}];

/// What BITOP does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// In the first and in none of the others.
    Diff,
    /// In one of the others and not in the first.
    Diff1,
    /// In the first and in one of the others.
    AndOr,
    /// In exactly one.
    One,
}

fn operation(args: &Args<'_>) -> Result<Operation, CommandError> {
    let word = args.get(1).to_ascii_lowercase();
    let sources = args.len() - 3;
    let two = |operation, refusal| {
        if sources < 2 { Err(CommandError::fixed(refusal)) } else { Ok(operation) }
    };
    match word.as_slice() {
        b"and" => Ok(Operation::And),
        b"or" => Ok(Operation::Or),
        b"xor" => Ok(Operation::Xor),
        b"not" if sources != 1 => {
            Err(CommandError::fixed("ERR BITOP NOT must be called with a single source key."))
        }
        b"not" => Ok(Operation::Not),
        b"diff" => two(Operation::Diff, "ERR BITOP DIFF must be called with at least two source keys."),
        b"diff1" => two(Operation::Diff1, "ERR BITOP DIFF1 must be called with at least two source keys."),
        b"andor" => two(Operation::AndOr, "ERR BITOP ANDOR must be called with at least two source keys."),
        b"one" => Ok(Operation::One),
        _ => Err(CommandError::Syntax),
    }
}

/// `sources` combined; the shorter ones go on with zeros.
fn combine(operation: Operation, sources: &[&[u8]]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let first = sources[0];
    let mut result = first.to_vec();
    result.resize(len, 0);
    let fold = |into: &mut [u8], sources: &[&[u8]], join: fn(u8, u8) -> u8| {
        for source in sources {
            for (at, byte) in into.iter_mut().enumerate() {
                *byte = join(*byte, source.get(at).copied().unwrap_or(0));
            }
        }
    };
    match operation {
        Operation::And => fold(&mut result, &sources[1..], |a, b| a & b),
        Operation::Or => fold(&mut result, &sources[1..], |a, b| a | b),
        Operation::Xor => fold(&mut result, &sources[1..], |a, b| a ^ b),
        Operation::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
        Operation::Diff | Operation::Diff1 | Operation::AndOr => {
            let mut others = vec![0; len];
            fold(&mut others, &sources[1..], |a, b| a | b);
            match operation {
                Operation::Diff => fold(&mut result, &[&others], |x, y| x & !y),
                Operation::Diff1 => fold(&mut result, &[&others], |x, y| !x & y),
                _ => fold(&mut result, &[&others], |x, y| x & y),
            }
        }
        Operation::One => {
            let mut twice = vec![0; len];
            for source in &sources[1..] {
                for (at, byte) in source.iter().enumerate() {
                    twice[at] |= result[at] & byte;
                    result[at] |= byte;
                }
            }
            fold(&mut result, &[&twice], |a, b| a & !b);
        }
    }
    result
}

fn bitop(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
    let operation = operation(args)?;
    let names = args.rest(3);
    // Looking up one may remove another that is due, so all are looked up first, then read.
    for name in names {
        keys.look(name);
    }
    let slots: Vec<Slot> = names.iter().map(|name| keys.find(name)).collect();
    let value = |slot: &Slot| if slot.is_some() { keys.value(*slot) } else { &[][..] };
    let sources: Vec<&[u8]> = slots.iter().map(value).collect();
    let result = combine(operation, &sources);
    let destination = args.get(2);
    let slot = keys.find(destination);
    if !result.is_empty() {
        keys.put(slot, destination, &result, Encoding::Raw, Ttl::Clear, Event::SET);
    } else if slot.is_some() {
        keys.remove(slot, destination, Event::DEL);
    }
    reply.integer(result.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn operations() {
        check(
            r#"
            > SET a "\xf0\xff"
            OK
            > SET b "\x3c"
            OK
            > BITOP AND d a b
            (integer) 2
            ~ set
            > GET d
            "0\x00"
            > OBJECT ENCODING d
            "raw"
            > BITOP or d a b
            (integer) 2
            > GET d
            "\xfc\xff"
            > BITOP XOR d a b none
            (integer) 2
            > GET d
            "\xcc\xff"
            > BITOP NOT d a
            (integer) 2
            > GET d
            "\x0f\x00"
            > EXPIRE d 100
            (integer) 1
            > BITOP AND d none none2
            (integer) 0
            ~ del
            > EXISTS d
            (integer) 0
            > BITOP AND d none
            (integer) 0
            ~
            > BITOP NOT d a b
            (error) ERR BITOP NOT must be called with a single source key.
            > BITOP NAND d a b
            (error) ERR syntax error
            "#,
        );
    }

    /// From Redis 8.2's documentation.
    #[test]
    fn newer_operations() {
        check(
            r#"
            > SET x "\x0f\xff"
            OK
            > SET y "\x3c"
            OK
            > SET z "\x30\x01"
            OK
            > BITOP DIFF d x y z
            (integer) 2
            > GET d
            "\x03\xfe"
            > BITOP DIFF1 d x y z
            (integer) 2
            > GET d
            "0\x00"
            > BITOP ANDOR d x y z
            (integer) 2
            > GET d
            "\x0c\x01"
            > BITOP ONE d x y z
            (integer) 2
            > GET d
            "\x03\xfe"
            > BITOP ONE d x x x
            (integer) 2
            > GET d
            "\x00\x00"
            > BITOP DIFF d x
            (error) ERR BITOP DIFF must be called with at least two source keys.
            "#,
        );
    }
}
