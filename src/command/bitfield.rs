//! BITFIELD and BITFIELD_RO: integers of any width inside a string. Not here: single bits
//! (`bitmap`).

use super::bitmap::{bit_offset, look_to_write_bits};
use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::spec::{Arity, Flags, Group, Handler, Key, KeySpec, Spec, VARIABLE};
use crate::keyspace::{Access, Encoding, Event, Slot, Ttl};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "bitfield",
        group: Group::Bitmap,
        since: "3.2.0",
        complexity: "O(1) for each subcommand specified",
        summary: "Reads, sets and counts up integers of any width inside a string.",
        synopsis: "key [<GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | \
                   INCRBY encoding offset increment>> ...]",
        arity: Arity::AtLeast(2),
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[KeySpec {
            notes: "What it does with the key depends on the subcommands",
            ..KeySpec::one(1, &["RW", "access", "update", VARIABLE])
        }],
        key_reader: Some(key_of_bitfield),
        handler: Handler::Keys(bitfield),
        ..Spec::NONE
    },
    Spec {
        name: "bitfield_ro",
        group: Group::Bitmap,
        since: "6.0.0",
        complexity: "O(1) for each subcommand specified",
        summary: "Reads integers of any width inside a string.",
        synopsis: "key [GET encoding offset [GET encoding offset ...]]",
        arity: Arity::AtLeast(2),
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        handler: Handler::Keys(bitfield_ro),
        ..Spec::NONE
    },
];

/// What happens to a result that does not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// Where an integer lies, and how it is read.
#[derive(Clone, Copy)]
struct Field {
    signed: bool,
    width: u32,
    offset: u64,
}

/// One thing to do.
enum Step {
    Get(Field),
    Set(Field, i64, Overflow),
    Add(Field, i64, Overflow),
}

impl Field {
    /// Reads `u8 #3` and the like.
    fn read(encoding: &[u8], offset: &[u8], max_len: u64) -> Result<Field, CommandError> {
        let refusal = CommandError::fixed(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (signed, digits, width_max) = match encoding {
            [b'i', digits @ ..] => (true, digits, 64),
            [b'u', digits @ ..] => (false, digits, 63),
            _ => return Err(refusal),
        };
        let width = number::parse_i64(digits).filter(|n| (1..=width_max).contains(n)).ok_or(refusal)?;
        let offset = bit_offset(offset, Some(width as u64), max_len)?;
        Ok(Field { signed, width: width as u32, offset })
    }

    /// The last byte that it touches.
    fn last_byte(self) -> usize {
        ((self.offset + u64::from(self.width) - 1) >> 3) as usize
    }

    /// Its value; bits beyond the end of `bytes` are clear.
    fn get(self, bytes: &[u8]) -> i128 {
        let first = (self.offset >> 3) as usize;
        let window = (first..=self.last_byte())
            .fold(0_u128, |window, at| window << 8 | u128::from(bytes.get(at).copied().unwrap_or(0)));
        let bits = window >> self.shift() & self.mask();
        if self.signed && bits >> (self.width - 1) == 1 {
            bits as i128 - (1 << self.width)
        } else {
            bits as i128
        }
    }

    /// Writes `value`, which fits, into `bytes`, which are long enough.
    fn set(self, bytes: &mut [u8], value: i128) {
        let first = (self.offset >> 3) as usize;
        let place = &mut bytes[first..=self.last_byte()];
        let mask = self.mask() << self.shift();
        let window = place.iter().fold(0_u128, |window, byte| window << 8 | u128::from(*byte));
        let mut window = window & !mask | (value as u128) << self.shift() & mask;
        for byte in place.iter_mut().rev() {
            *byte = window as u8;
            window >>= 8;
        }
    }

    fn mask(self) -> u128 {
        (1 << self.width) - 1
    }

    /// How many bits of the last byte lie behind it.
    fn shift(self) -> u32 {
        7 - ((self.offset + u64::from(self.width) - 1) & 7) as u32
    }

    /// `value` as it fits, or `None` where it does not and `overflow` refuses.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = if self.signed {
            (-(1_i128 << (self.width - 1)), (1_i128 << (self.width - 1)) - 1)
        } else {
            (0, (1_i128 << self.width) - 1)
        };
        match overflow {
            _ if (min..=max).contains(&value) => Some(value),
            Overflow::Fail => None,
            Overflow::Saturate => Some(value.clamp(min, max)),
            Overflow::Wrap => {
                let bits = value & self.mask() as i128;
                Some(if bits > max { bits - (1 << self.width) } else { bits })
            }
        }
    }

    /// A number that a client gave, as this field's kind reads it: a negative one is a very large
    /// one without a sign.
    fn operand(self, n: i64) -> i128 {
        if self.signed { i128::from(n) } else { i128::from(n as u64) }
    }
}

fn steps(args: &Args<'_>, max_len: u64) -> Result<Vec<Step>, CommandError> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        if args.is(at, "overflow") && left >= 1 {
            overflow = match args.get(at + 1).to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err(CommandError::fixed("ERR Invalid OVERFLOW type specified")),
            };
            at += 2;
            continue;
        }
        let is_get = args.is(at, "get") && left >= 2;
        if !is_get && !((args.is(at, "set") || args.is(at, "incrby")) && left >= 3) {
            return Err(CommandError::Syntax);
        }
        let field = Field::read(args.get(at + 1), args.get(at + 2), max_len)?;
        if is_get {
            steps.push(Step::Get(field));
            at += 3;
            continue;
        }
        let n = args.int(at + 3)?;
        steps.push(if args.is(at, "set") {
            Step::Set(field, n, overflow)
        } else {
            Step::Add(field, n, overflow)
        });
        at += 4;
    }
    Ok(steps)
}

/// It is only read where all subcommands that are whole read.
fn key_of_bitfield(args: &Args<'_>) -> Vec<Key> {
    let mut at = 2;
    let mut writes = false;
    while at < args.len() && !writes {
        let left = args.len() - at - 1;
        if args.is(at, "get") && left >= 2 {
            at += 3;
        } else if args.is(at, "overflow") && left >= 1 {
            at += 2;
        } else {
            writes = true;
        }
    }
    let flags: &[&str] = if writes { &["RW", "access", "update"] } else { &["RO", "access"] };
    vec![Key { at: 1, flags }]
}

/// The last byte that any write reaches; `None`: there is no write.
fn last_written(steps: &[Step]) -> Option<usize> {
    let written = steps.iter().filter_map(|step| match step {
        Step::Get(_) => None,
        Step::Set(field, ..) | Step::Add(field, ..) => Some(field.last_byte()),
    });
    written.max()
}

fn read_all(keys: &mut Access<'_>, key: &[u8], steps: &[Step], reply: &mut dyn Reply) {
    let slot = keys.look(key);
    let bytes = if slot.is_some() { keys.value(slot) } else { &[] };
    reply.array(steps.len());
    for step in steps {
        if let Step::Get(field) = step {
            reply.integer(field.get(bytes) as i64);
        }
    }
}

fn bitfield_ro(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let steps = steps(args, keys.limits().max_bulk_len)?;
    if last_written(&steps).is_some() {
        return Err(CommandError::fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read_all(keys, args.get(1), &steps, reply);
    Ok(())
}

fn bitfield(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let steps = steps(args, keys.limits().max_bulk_len)?;
    let key = args.get(1);
    let Some(last) = last_written(&steps) else {
        read_all(keys, key, &steps, reply);
        return Ok(());
    };
    let (slot, grows) = look_to_write_bits(keys, key, last);
    // The steps run on the bytes from the first to the last that any of them touches, so that one
    // field of a long string does not copy the string.
    let first = steps.iter().map(|step| (step.field().offset >> 3) as usize).min().unwrap_or(0);
    let end = steps.iter().map(|step| step.field().last_byte() + 1).max().unwrap_or(0);
    let value = if slot.is_some() { keys.value(slot) } else { &[] };
    // What is only read and lies behind the string's end is not made.
    let end = end.min(value.len().max(last + 1)).max(first);
    let mut part = value[first.min(value.len())..end.min(value.len())].to_vec();
    part.resize(end - first, 0);
    let (answers, changed) = run(&steps, &mut part, first, grows);
    store(keys, slot, key, Stored { part: &part, first, last, grows, changed });
    reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(n) => reply.integer(n),
            None => reply.null(),
        }
    }
    Ok(())
}

impl Step {
    fn field(&self) -> Field {
        match *self {
            Step::Get(field) | Step::Set(field, ..) | Step::Add(field, ..) => field,
        }
    }
}

/// Runs `steps` on the bytes from `first` on; gives the answers, and whether anything changed. As
/// in Redis, a write to a string that had to grow for it always counts.
fn run(steps: &[Step], part: &mut [u8], first: usize, grows: bool) -> (Vec<Option<i64>>, bool) {
    let mut changed = false;
    let mut answers = Vec::with_capacity(steps.len());
    for step in steps {
        let field = step.field();
        let field = Field { offset: field.offset - first as u64 * 8, ..field };
        let old = field.get(part);
        let (new, says_new) = match *step {
            Step::Get(_) => {
                answers.push(Some(old as i64));
                continue;
            }
            Step::Set(_, n, overflow) => (field.fit(field.operand(n), overflow), false),
            Step::Add(_, n, overflow) => (field.fit(old + i128::from(n), overflow), true),
        };
        if let Some(new) = new {
            field.set(part, new);
            changed |= grows || old != new;
        }
        answers.push(new.map(|new| if says_new { new } else { old } as i64));
    }
    (answers, changed)
}

/// What is to be written back.
struct Stored<'a> {
    part: &'a [u8],
    /// Where it begins.
    first: usize,
    /// The last byte that the string must have.
    last: usize,
    grows: bool,
    changed: bool,
}

/// Writes back. A string that grew although each write was refused stays grown, without a word,
/// as in Redis.
fn store(keys: &mut Access<'_>, slot: Slot, key: &[u8], stored: Stored<'_>) {
    let Stored { part, first, last, grows, changed } = stored;
    if !grows && !changed {
        return;
    }
    let write = |value: &mut Vec<u8>| {
        if value.len() <= last {
            value.resize(last + 1, 0);
        }
        let end = value.len().min(first + part.len());
        if first < end {
            value[first..end].copy_from_slice(&part[..end - first]);
        }
    };
    let event = if changed { Event::SETBIT } else { Event::UNNAMED };
    if slot.is_some() {
        keys.modify(slot, key, Encoding::Raw, event, write);
    } else {
        let mut value = vec![0; last + 1];
        write(&mut value);
        keys.put(slot, key, &value, Encoding::Raw, Ttl::Clear, event);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn fields() {
        check(
            r#"
            > BITFIELD k SET u8 0 200 GET u8 0 GET i8 0 INCRBY u8 0 10
            1) (integer) 0
            2) (integer) 200
            3) (integer) -56
            4) (integer) 210
            ~ setbit
            > BITFIELD k SET u8 0 210
            1) (integer) 210
            ~
            > BITFIELD k INCRBY u8 #1 300 GET u8 8 SET i64 #1 -1 GET i64 64
            1) (integer) 44
            2) (integer) 44
            3) (integer) 0
            4) (integer) -1
            > BITFIELD k GET u4 1000
            1) (integer) 0
            > BITFIELD_RO k GET u8 0 GET i8 #0
            1) (integer) 210
            2) (integer) -46
            > BITFIELD k
            (empty array)
            > BITFIELD_RO none GET u63 5
            1) (integer) 0
            > STRLEN k
            (integer) 16
            "#,
        );
    }

    #[test]
    fn overflows() {
        check(
            r#"
            > BITFIELD k SET u8 0 255 SET i8 8 127
            1) (integer) 0
            2) (integer) 0
            > BITFIELD k INCRBY u8 0 1 INCRBY i8 8 1
            1) (integer) 0
            2) (integer) -128
            > BITFIELD k OVERFLOW SAT SET u8 0 250 INCRBY u8 0 100 INCRBY u8 0 -500 SET i8 8 100 INCRBY i8 8 100 INCRBY i8 8 -300
            1) (integer) 0
            2) (integer) 255
            3) (integer) 0
            4) (integer) -128
            5) (integer) 127
            6) (integer) -128
            > BITFIELD k OVERFLOW FAIL SET u8 0 256 INCRBY u8 0 -1 INCRBY i8 8 -1
            1) (nil)
            2) (nil)
            3) (nil)
            > BITFIELD k OVERFLOW SAT SET u8 0 -1 SET i64 16 9223372036854775807 INCRBY i64 16 1
            1) (integer) 0
            2) (integer) 0
            3) (integer) 9223372036854775807
            > BITFIELD k OVERFLOW WRAP INCRBY i64 16 1
            1) (integer) -9223372036854775808
            > BITFIELD none OVERFLOW FAIL SET u8 8 256
            1) (nil)
            > GET none
            "\x00\x00"
            "#,
        );
    }

    #[test]
    fn refusals() {
        check(
            r#"
            > BITFIELD k GET u64 0
            (error) ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
            > BITFIELD k GET i65 0
            (error) ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
            > BITFIELD k GET u0 0
            (error) ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
            > BITFIELD k GET x8 0
            (error) ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
            > BITFIELD k GET u8 -1
            (error) ERR bit offset is not an integer or out of range
            > BITFIELD k GET u8 #9223372036854775807
            (error) ERR bit offset is not an integer or out of range
            > BITFIELD k SET u8 9223372036854775807 1
            (error) ERR bit offset is not an integer or out of range
            > BITFIELD k SET u8 0 x
            (error) ERR value is not an integer or out of range
            > BITFIELD k SET u8 0
            (error) ERR syntax error
            > BITFIELD k OVERFLOW NO
            (error) ERR Invalid OVERFLOW type specified
            > BITFIELD k NONSENSE
            (error) ERR syntax error
            > BITFIELD_RO k SET u8 0 1
            (error) ERR BITFIELD_RO only supports the GET subcommand
            > BITFIELD_RO k NONSENSE
            (error) ERR syntax error
            > EXISTS k
            (integer) 0
            "#,
        );
    }

    proptest::proptest! {
        #[test]
        fn what_is_set_is_read_and_nothing_else_moves(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 40),
            signed: bool, width in 1_u32..=63, offset in 0_u64..250, n: i64,
        ) {
            let field = super::Field { signed, width, offset };
            let value = field.fit(field.operand(n), super::Overflow::Wrap).expect("wrapping always fits");
            let mut after = bytes.clone();
            field.set(&mut after, value);
            proptest::prop_assert_eq!(field.get(&after), value);
            field.set(&mut after, field.get(&bytes));
            proptest::prop_assert_eq!(after, bytes);
        }
    }
}
