//! Strings as bits: SETBIT, GETBIT, BITCOUNT, BITPOS. Not here: several strings at once (`bitop`),
//! integers of any width inside a string (`bitfield`).

use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, Spec};
use crate::keyspace::{Access, Encoding, Event, Slot, Ttl};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

const BAD_OFFSET: CommandError = CommandError::fixed("ERR bit offset is not an integer or out of range");

const READ: &[KeySpec] = &[KeySpec::one(1, &["RO", "access"])];

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "setbit",
        group: Group::Bitmap,
        since: "2.2.0",
        summary: "Sets or clears one bit of a string and gives what it was; the string grows to hold it.",
        synopsis: "key offset value",
        arity: Arity::Exactly(4),
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        handler: Handler::Keys(setbit),
        ..Spec::NONE
    },
    Spec {
        name: "getbit",
        group: Group::Bitmap,
        since: "2.2.0",
        summary: "Gives one bit of a string.",
        synopsis: "key offset",
        arity: Arity::Exactly(3),
        flags: Flags::READONLY.or(Flags::FAST),
        keys: READ,
        handler: Handler::Keys(getbit),
        ..Spec::NONE
    },
    Spec {
        name: "bitcount",
        group: Group::Bitmap,
        since: "2.6.0",
        complexity: "O(N)",
        summary: "Counts the bits that are set in a string or in a part of it.",
        synopsis: "key [start end [BYTE | BIT]]",
        arity: Arity::AtLeast(2),
        flags: Flags::READONLY,
        keys: READ,
        history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
        handler: Handler::Keys(bitcount),
        ..Spec::NONE
    },
    Spec {
        name: "bitpos",
        group: Group::Bitmap,
        since: "2.8.7",
        complexity: "O(N)",
        summary: "Finds the first bit that is set, or clear, in a string or in a part of it.",
        synopsis: "key bit [start [end [BYTE | BIT]]]",
        arity: Arity::AtLeast(3),
        flags: Flags::READONLY,
        keys: READ,
        history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
        handler: Handler::Keys(bitpos),
        ..Spec::NONE
    },
];

/// Reads a bit's offset. `width`: `#n` stands for the n-th field of so many bits. No string may
/// reach further than `max_len` bytes, so nothing beyond is ever allocated.
pub fn bit_offset(text: &[u8], width: Option<u64>, max_len: u64) -> Result<u64, CommandError> {
    let (digits, unit) = match (text, width) {
        ([b'#', digits @ ..], Some(width)) => (digits, width),
        _ => (text, 1),
    };
    number::parse_i64(digits)
        .and_then(|n| u64::try_from(n).ok()?.checked_mul(unit))
        .filter(|bit| bit >> 3 < max_len)
        .ok_or(BAD_OFFSET)
}

/// Looks `key` up to write bits up to byte `last`; tells whether the string must be made or made
/// longer. As in Redis, the string is `raw` from here on, whatever comes of the write.
pub fn look_to_write_bits(keys: &mut Access<'_>, key: &[u8], last: usize) -> (Slot, bool) {
    let slot = keys.find(key);
    if !slot.is_some() {
        return (slot, true);
    }
    keys.recode(slot, Encoding::Raw);
    let short = keys.value(slot).len() <= last;
    (slot, short)
}

fn setbit(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let offset = bit_offset(args.get(2), None, keys.limits().max_bulk_len)?;
    let on = match args.get(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(CommandError::fixed("ERR bit is not an integer or out of range")),
    };
    let (key, byte, mask) = (args.get(1), (offset >> 3) as usize, 0x80_u8 >> (offset & 7));
    let (slot, grows) = look_to_write_bits(keys, key, byte);
    let old = slot.is_some() && bit_of(keys.value(slot), offset);
    let set = |value: &mut Vec<u8>| {
        if value.len() <= byte {
            value.resize(byte + 1, 0);
        }
        value[byte] = if on { value[byte] | mask } else { value[byte] & !mask };
    };
    if !slot.is_some() {
        // Zeroed by the allocator: a bit far out costs no second pass over half a gigabyte.
        let mut value = vec![0; byte + 1];
        set(&mut value);
        keys.put(slot, key, &value, Encoding::Raw, Ttl::Clear, Event::SETBIT);
    } else if grows || old != on {
        keys.modify(slot, key, Encoding::Raw, Event::SETBIT, set);
    }
    reply.integer(i64::from(old));
    Ok(())
}

/// The bit at `offset`; bits beyond the end are clear.
fn bit_of(value: &[u8], offset: u64) -> bool {
    let byte = usize::try_from(offset >> 3).ok().and_then(|at| value.get(at));
    byte.is_some_and(|byte| byte & (0x80 >> (offset & 7)) != 0)
}

fn getbit(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let offset = bit_offset(args.get(2), None, keys.limits().max_bulk_len)?;
    let slot = keys.look(args.get(1));
    reply.integer(i64::from(slot.is_some() && bit_of(keys.value(slot), offset)));
    Ok(())
}

/// BYTE or BIT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte,
    Bit,
}

fn unit(word: Option<&[u8]>) -> Result<Unit, CommandError> {
    match word {
        None => Ok(Unit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"byte") => Ok(Unit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"bit") => Ok(Unit::Bit),
        Some(_) => Err(CommandError::Syntax),
    }
}

/// Whole numbers of bits, `first..=last`, of a string of `len` bytes; `None`: an empty range.
fn bit_range(start: i64, end: i64, unit: Unit, len: usize) -> Option<(u64, u64)> {
    let total = len as i64 * if unit == Unit::Bit { 8 } else { 1 };
    let from_front = |n: i64| if n < 0 { n.saturating_add(total).max(0) } else { n };
    let (start, end) = (from_front(start), from_front(end).min(total - 1));
    if start > end {
        return None;
    }
    let (start, end) = (start as u64, end as u64);
    Some(if unit == Unit::Bit { (start, end) } else { (start * 8, end * 8 + 7) })
}

fn bitcount(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let slot = keys.look(args.get(1));
    if !slot.is_some() {
        // Redis 7.0 answers before it looks at the other arguments.
        reply.integer(0);
        return Ok(());
    }
    let value = keys.value(slot);
    let range = match args.len() {
        2 => bit_range(0, -1, Unit::Byte, value.len()),
        4 | 5 => {
            let (start, end) = (args.int(2)?, args.int(3)?);
            if start < 0 && end < 0 && start > end {
                None
            } else {
                bit_range(start, end, unit(args.try_get(4))?, value.len())
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    reply.integer(range.map_or(0, |(first, last)| count_bits(value, first, last)) as i64);
    Ok(())
}

/// The set bits among `first..=last`, which lie inside.
fn count_bits(value: &[u8], first: u64, last: u64) -> u64 {
    let part = &value[(first >> 3) as usize..=(last >> 3) as usize];
    let mut words = part.chunks_exact(8);
    let mut count: u64 = 0;
    for word in &mut words {
        count += u64::from(u64::from_ne_bytes(word.try_into().expect("chunks of eight")).count_ones());
    }
    count += words.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    let before = part[0] & !(0xff >> (first & 7)) as u8;
    let behind = part[part.len() - 1] & (0x7f_u8 >> (last & 7));
    count - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

fn bitpos(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let wanted = match args.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::fixed("ERR The bit argument must be 1 or 0.")),
    };
    let slot = keys.look(args.get(1));
    if !slot.is_some() {
        // A missing key is all zeros, without an end.
        reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    }
    let value = keys.value(slot);
    let (range, bounded) = match args.len() {
        3 => (bit_range(0, -1, Unit::Byte, value.len()), false),
        4 => (bit_range(args.int(3)?, -1, Unit::Byte, value.len()), false),
        5 | 6 => {
            let start = args.int(3)?;
            let unit = unit(args.try_get(5))?;
            (bit_range(start, args.int(4)?, unit, value.len()), true)
        }
        _ => return Err(CommandError::Syntax),
    };
    let found = range.map_or(-1, |(first, last)| match find_bit(value, wanted, first, last) {
        Some(bit) => bit as i64,
        // Behind the end there are zeros, unless the end was given.
        None if !wanted && !bounded => value.len() as i64 * 8,
        None => -1,
    });
    reply.integer(found);
    Ok(())
}

/// The first bit among `first..=last`, which lie inside, that is as `wanted`.
fn find_bit(value: &[u8], wanted: bool, first: u64, last: u64) -> Option<u64> {
    let dull = if wanted { 0 } else { 0xff };
    let (from, to) = ((first >> 3) as usize, (last >> 3) as usize);
    let in_byte = |at: usize, skip: u64| {
        // What is asked for becomes a set bit; what lies before the start is cleared.
        let bits = (value[at] ^ dull) & (0xff >> skip) as u8;
        (bits != 0).then(|| at as u64 * 8 + u64::from(bits.leading_zeros()))
    };
    let found = in_byte(from, first & 7).or_else(|| {
        let at = value[from + 1..=to].iter().position(|byte| *byte != dull)?;
        in_byte(from + 1 + at, 0)
    });
    found.filter(|bit| *bit <= last)
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn single_bits() {
        check(
            r#"
            > SETBIT k 7 1
            (integer) 0
            ~ setbit
            > SETBIT k 7 1
            (integer) 1
            ~
            > SETBIT k 100 0
            (integer) 0
            ~ setbit
            > STRLEN k
            (integer) 13
            > GETBIT k 7
            (integer) 1
            > GETBIT k 100000
            (integer) 0
            > GETBIT none 0
            (integer) 0
            > SETBIT k -1 1
            (error) ERR bit offset is not an integer or out of range
            > SETBIT k 4294967296 1
            (error) ERR bit offset is not an integer or out of range
            > SETBIT k 9223372036854775807 1
            (error) ERR bit offset is not an integer or out of range
            > SETBIT k x 1
            (error) ERR bit offset is not an integer or out of range
            > SETBIT k 0 2
            (error) ERR bit is not an integer or out of range
            > GETBIT k #1
            (error) ERR bit offset is not an integer or out of range
            > SET n 1
            OK
            > OBJECT ENCODING n
            "int"
            > SETBIT n 7 1
            (integer) 1
            > OBJECT ENCODING n
            "raw"
            > EXPIRE n 100
            (integer) 1
            > SETBIT n 0 1
            (integer) 0
            > TTL n
            (integer) 100
            "#,
        );
    }

    #[test]
    fn counts() {
        check(
            r#"
            > SET k foobar
            OK
            > BITCOUNT k
            (integer) 26
            > BITCOUNT k 0 0
            (integer) 4
            > BITCOUNT k 1 1 byte
            (integer) 6
            > BITCOUNT k 5 30 BIT
            (integer) 17
            > BITCOUNT k -2 -1
            (integer) 7
            > BITCOUNT k -1 -2
            (integer) 0
            > BITCOUNT k 5 2
            (integer) 0
            > BITCOUNT k 0 9223372036854775807
            (integer) 26
            > BITCOUNT k -9223372036854775808 -1 BIT
            (integer) 26
            > BITCOUNT k 0
            (error) ERR syntax error
            > BITCOUNT k 0 x
            (error) ERR value is not an integer or out of range
            > BITCOUNT k 0 1 WORD
            (error) ERR syntax error
            > BITCOUNT none 0 x
            (integer) 0
            > BITCOUNT none
            (integer) 0
            "#,
        );
    }

    #[test]
    fn positions() {
        check(
            r#"
            > SET k "\xff\xf0\x00"
            OK
            > BITPOS k 0
            (integer) 12
            > BITPOS k 1 2
            (integer) -1
            > BITPOS k 1 1 -1
            (integer) 8
            > BITPOS k 0 0 0
            (integer) -1
            > BITPOS k 0 2 -1 BIT
            (integer) 12
            > BITPOS k 1 7 15 BIT
            (integer) 7
            > BITPOS k 1 13 15 BIT
            (integer) -1
            > SET f "\xff\xff"
            OK
            > BITPOS f 0
            (integer) 16
            > BITPOS f 0 1
            (integer) 16
            > BITPOS f 0 0 -1
            (integer) -1
            > BITPOS none 0
            (integer) 0
            > BITPOS none 1
            (integer) -1
            > BITPOS k 2
            (error) ERR The bit argument must be 1 or 0.
            > BITPOS k x
            (error) ERR value is not an integer or out of range
            > BITPOS k 1 x
            (error) ERR value is not an integer or out of range
            > BITPOS k 1 0 1 WORD
            (error) ERR syntax error
            > SET e ""
            OK
            > BITPOS e 0
            (integer) -1
            "#,
        );
    }

    fn bits(value: &[u8]) -> Vec<bool> {
        (0..value.len() as u64 * 8).map(|at| super::bit_of(value, at)).collect()
    }

    proptest::proptest! {
        #[test]
        fn counting_and_finding_is_what_looking_at_each_bit_gives(
            value in proptest::collection::vec(proptest::num::u8::ANY, 1..40), a: u64, b: u64, wanted: bool,
        ) {
            let total = value.len() as u64 * 8;
            let (first, last) = ((a % total).min(b % total), (a % total).max(b % total));
            let range = &bits(&value)[first as usize..=last as usize];
            let set = range.iter().filter(|bit| **bit).count() as u64;
            proptest::prop_assert_eq!(super::count_bits(&value, first, last), set);
            let found = range.iter().position(|bit| *bit == wanted).map(|at| first + at as u64);
            proptest::prop_assert_eq!(super::find_bit(&value, wanted, first, last), found);
        }
    }
}
