//! PFADD, PFCOUNT, PFMERGE, PFDEBUG, PFSELFTEST. Not here: registers and their bytes
//! (`base::hyperloglog`).

use crate::base::error::CommandError;
use crate::base::hyperloglog::{self as hll, Corrupted};
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, Spec};
use crate::keyspace::{Access, Encoding, Event, Slot, Ttl};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

const NOT_ONE: CommandError = CommandError::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");

impl From<Corrupted> for CommandError {
    fn from(_: Corrupted) -> Self {
        CommandError::fixed("INVALIDOBJ Corrupted HLL object detected")
    }
}

const WRITE: Flags = Flags::WRITE.or(Flags::DENYOOM);

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "pfadd",
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1) to add every element.",
        summary: "Adds elements to a HyperLogLog, which it makes if it is missing.",
        synopsis: "key [element [element ...]]",
        arity: Arity::AtLeast(2),
        flags: WRITE.or(Flags::FAST),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        handler: Handler::Keys(pfadd),
        ..Spec::NONE
    },
    Spec {
        name: "pfcount",
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1) for one key, whose count is kept; O(N) for N keys, each of which is read whole.",
        summary: "Estimates how many different elements were added, to all the keys together.",
        synopsis: "key [key ...]",
        arity: Arity::AtLeast(2),
        flags: Flags::READONLY.or(Flags::MAY_REPLICATE),
        keys: &[KeySpec {
            notes: "Counting stores the estimate in the value, so it writes too",
            ..KeySpec::range(1, -1, 1, &["RW", "access"])
        }],
        handler: Handler::Keys(pfcount),
        ..Spec::NONE
    },
    Spec {
        name: "pfmerge",
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(N) to merge N HyperLogLogs, each of which is read whole.",
        summary: "Adds to a HyperLogLog what others have seen.",
        synopsis: "destkey [sourcekey [sourcekey ...]]",
        arity: Arity::AtLeast(2),
        flags: WRITE,
        keys: &[KeySpec::one(1, &["RW", "access", "insert"]), KeySpec::range(2, -1, 1, &["RO", "access"])],
        handler: Handler::Keys(pfmerge),
        ..Spec::NONE
    },
    Spec {
        name: "pfdebug",
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "N/A",
        summary: "Shows how a HyperLogLog is kept, or makes it dense.",
        synopsis: "subcommand key",
        arity: Arity::Exactly(3),
        flags: WRITE.or(Flags::ADMIN).or(Flags::SYSTEM),
        keys: &[KeySpec::one(2, &["RW", "access"])],
        handler: Handler::Keys(pfdebug),
        ..Spec::NONE
    },
    Spec {
        name: "pfselftest",
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "N/A",
        summary: "Has the HyperLogLog check itself.",
        arity: Arity::Exactly(1),
        flags: Flags::ADMIN.or(Flags::SYSTEM),
        handler: Handler::Keys(pfselftest),
        ..Spec::NONE
    },
];

/// The value at `slot`, refused if it is none.
fn checked<'k>(keys: &'k Access<'_>, slot: Slot) -> Result<&'k [u8], CommandError> {
    let value = keys.value(slot);
    if hll::is_valid(value) { Ok(value) } else { Err(NOT_ONE) }
}

fn pfadd(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let key = args.get(1);
    let sparse_max = sparse_max(keys);
    let slot = keys.find(key);
    let is_new = !slot.is_some();
    if !is_new {
        checked(keys, slot)?;
        keys.recode(slot, Encoding::Raw);
    }
    let mut value = if is_new { hll::empty() } else { keys.value(slot).to_vec() };
    // A new key and each element that changed it count as a change of their own.
    let mut changes = u64::from(is_new);
    let mut failed = None;
    for element in args.rest(2) {
        match hll::add(&mut value, element, sparse_max) {
            Ok(grew) => changes += u64::from(grew),
            Err(corrupted) => {
                failed = Some(corrupted);
                break;
            }
        }
    }
    if changes > 0 {
        keys.count(changes - 1);
        hll::invalidate(&mut value);
        // What went in before a corrupted run was met stays in, without a word, as in Redis.
        let event = if failed.is_none() { Event::PFADD } else { Event::UNNAMED };
        store(keys, slot, key, value, event);
    }
    match failed {
        Some(corrupted) => Err(corrupted.into()),
        None => {
            reply.integer(i64::from(changes > 0));
            Ok(())
        }
    }
}

fn sparse_max(keys: &Access<'_>) -> usize {
    usize::try_from(keys.limits().hll_sparse_max).unwrap_or(usize::MAX)
}

fn store(keys: &mut Access<'_>, slot: Slot, key: &[u8], value: Vec<u8>, event: Event) {
    if slot.is_some() {
        keys.modify(slot, key, Encoding::Raw, event, |old| *old = value);
    } else {
        keys.put(slot, key, &value, Encoding::Raw, Ttl::Clear, event);
    }
}

fn pfcount(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let count = if args.len() == 2 {
        count_one(keys, args.get(1))?
    } else {
        let mut registers = vec![0; hll::REGISTERS];
        for key in args.rest(1) {
            let slot = keys.look(key);
            if slot.is_some() {
                hll::merge(checked(keys, slot)?, &mut registers)?;
            }
        }
        hll::estimate(&registers)
    };
    reply.integer(count as i64);
    Ok(())
}

/// The count of one key. It is kept in the value, which is a change, though one without a name.
fn count_one(keys: &mut Access<'_>, key: &[u8]) -> Result<u64, CommandError> {
    let slot = keys.look(key);
    if !slot.is_some() {
        return Ok(0);
    }
    let value = checked(keys, slot)?;
    let kept = hll::kept_count(value);
    let count = match kept {
        Some(count) => count,
        None => hll::estimate(&hll::registers(value)?),
    };
    keys.recode(slot, Encoding::Raw);
    if kept.is_none() {
        keys.modify(slot, key, Encoding::Raw, Event::UNNAMED, |value| hll::keep_count(value, count));
    }
    Ok(count)
}

fn pfmerge(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let mut registers = vec![0; hll::REGISTERS];
    let mut dense = false;
    for key in args.rest(1) {
        let slot = keys.look(key);
        if slot.is_some() {
            let value = checked(keys, slot)?;
            dense |= hll::is_dense(value);
            hll::merge(value, &mut registers)?;
        }
    }
    let key = args.get(1);
    let sparse_max = sparse_max(keys);
    let slot = keys.find(key);
    let mut value = if slot.is_some() { checked(keys, slot)?.to_vec() } else { hll::empty() };
    if dense {
        hll::make_dense(&mut value)?;
    }
    for (index, rank) in registers.into_iter().enumerate().filter(|(_, rank)| *rank > 0) {
        hll::raise(&mut value, index, rank, sparse_max)?;
    }
    hll::invalidate(&mut value);
    store(keys, slot, key, value, Event::PFADD);
    reply.ok();
    Ok(())
}

fn pfdebug(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let key = args.get(2);
    let slot = keys.find(key);
    if !slot.is_some() {
        return Err(CommandError::fixed("ERR The specified key does not exist"));
    }
    let value = checked(keys, slot)?;
    let dense = hll::is_dense(value);
    let arity = || CommandError::fixed("ERR Wrong number of arguments for the given subcommand");
    match args.get(1).to_ascii_lowercase().as_slice() {
        b"getreg" => {
            let registers = hll::registers(value)?;
            make_dense(keys, slot, key)?;
            reply.array(registers.len());
            registers.iter().for_each(|rank| reply.integer(i64::from(*rank)));
        }
        b"decode" if dense => {
            return Err(CommandError::fixed("ERR HLL encoding is not sparse"));
        }
        b"decode" => {
            let text = hll::describe(value)?;
            reply.text(&text);
        }
        b"encoding" => reply.simple(if dense { b"dense" } else { b"sparse" }),
        b"todense" => {
            make_dense(keys, slot, key)?;
            reply.integer(i64::from(!dense));
        }
        _ if args.len() != 3 => return Err(arity()),
        _ => {
            let mut line = b"ERR Unknown PFDEBUG subcommand '".to_vec();
            line.extend_from_slice(args.get(1));
            line.push(b'\'');
            return Err(CommandError::Bytes(line));
        }
    }
    Ok(())
}

fn make_dense(keys: &mut Access<'_>, slot: Slot, key: &[u8]) -> Answer {
    let mut value = keys.value(slot).to_vec();
    if !hll::is_dense(&value) {
        hll::make_dense(&mut value)?;
        store(keys, slot, key, value, Event::UNNAMED);
    }
    Ok(())
}

/// Adds known numbers of elements and looks whether sparse and dense agree and the estimate is as
/// near as it is said to be.
fn pfselftest(keys: &mut Access<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let salt = keys.chance.bits();
    let (mut sparse, mut dense) = (hll::empty(), hll::empty());
    hll::make_dense(&mut dense)?;
    for n in 1..=10_000_u64 {
        let element = (salt ^ n).to_le_bytes();
        hll::add(&mut sparse, &element, usize::MAX)?;
        hll::add(&mut dense, &element, 0)?;
        if n != 1_000 && n != 10_000 {
            continue;
        }
        let registers = hll::registers(&dense)?;
        if hll::registers(&sparse)? != registers {
            return Err(CommandError::fixed("ERR TESTFAILED dense/sparse disagree"));
        }
        // Six standard errors of 1.04 / sqrt(16384).
        if (hll::estimate(&registers) as f64 - n as f64).abs() > n as f64 * 0.00812 * 6.0 {
            return Err(CommandError::fixed("ERR TESTFAILED Too big error"));
        }
    }
    reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn adding_and_counting() {
        check(
            r#"
            > PFADD h
            (integer) 1
            ~ pfadd
            > PFADD h
            (integer) 0
            ~
            > PFADD h a b c d e f g
            (integer) 1
            ~ pfadd
            > PFADD h a b
            (integer) 0
            ~
            > GET h
            "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80Fm\x80V\x0c\x80D<\x848\x80P\xb1\x84I\x8c\x80Bm\x80BZ"
            > PFCOUNT h
            (integer) 7
            ~
            > GET h
            "HYLL\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00Fm\x80V\x0c\x80D<\x848\x80P\xb1\x84I\x8c\x80Bm\x80BZ"
            > PFADD h2 x a
            (integer) 1
            > PFCOUNT h h2 none
            (integer) 8
            > PFCOUNT none
            (integer) 0
            > PFMERGE h h2
            OK
            > PFCOUNT h
            (integer) 8
            > PFMERGE new
            OK
            > PFCOUNT new
            (integer) 0
            > PFDEBUG ENCODING h
            sparse
            > PFDEBUG DECODE h2
            "Z:12711 v:2,1 Z:3662 v:2,1 z:9"
            > PFDEBUG TODENSE h
            (integer) 1
            > PFDEBUG TODENSE h
            (integer) 0
            > PFDEBUG ENCODING h
            dense
            > PFDEBUG DECODE h
            (error) ERR HLL encoding is not sparse
            > PFDEBUG NONSENSE h
            (error) ERR Unknown PFDEBUG subcommand 'NONSENSE'
            > PFDEBUG ENCODING none
            (error) ERR The specified key does not exist
            > STRLEN h
            (integer) 12304
            > PFCOUNT h
            (integer) 8
            > PFSELFTEST
            OK
            "#,
        );
    }

    #[test]
    fn not_one() {
        check(
            r#"
            > SET k v
            OK
            > PFADD k a
            (error) WRONGTYPE Key is not a valid HyperLogLog string value.
            > PFCOUNT k
            (error) WRONGTYPE Key is not a valid HyperLogLog string value.
            > PFCOUNT none k
            (error) WRONGTYPE Key is not a valid HyperLogLog string value.
            > PFMERGE none k
            (error) WRONGTYPE Key is not a valid HyperLogLog string value.
            > PFMERGE k
            (error) WRONGTYPE Key is not a valid HyperLogLog string value.
            > SET k "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00"
            OK
            > PFCOUNT k
            (error) INVALIDOBJ Corrupted HLL object detected
            > PFADD k a
            (error) INVALIDOBJ Corrupted HLL object detected
            "#,
        );
    }
}
