//! DUMP and RESTORE: a value as a payload, in the bytes of Redis 7.0 (RDB version 10). Not here:
//! the compression (`base::lzf`) and the checksum (`base::crc64`).

use crate::base::clock::UnixMs;
use crate::base::crc64::crc64;
use crate::base::error::CommandError;
use crate::base::{lzf, number};
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, Spec};
use crate::keyspace::{Access, Encoding, Event, Ttl};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

/// What Redis 7.0 writes.
const VERSION: u16 = 10;
/// What Redis 8 writes. A string has looked the same since the first one.
const VERSION_MAX: u16 = 12;
/// What Valkey 9 writes; nothing between is anyone's.
const VERSION_VALKEY: u16 = 80;

/// The only type that is kept here.
const TYPE_STRING: u8 = 0;
const INT8: u8 = 0xc0;
const INT16: u8 = 0xc1;
const INT32: u8 = 0xc2;
const LZF: u8 = 0xc3;

const RESTORE_SYNOPSIS: &str =
    "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]";
const RESTORE_HISTORY: &[(&str, &str)] = &[
    ("3.0.0", "Added the `REPLACE` modifier."),
    ("5.0.0", "Added the `ABSTTL` modifier."),
    ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
];

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "dump",
        group: Group::Generic,
        since: "2.6.0",
        complexity: "O(N) where N is the length of the value",
        summary: "Gives the value as a payload that RESTORE takes.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        flags: Flags::READONLY,
        keys: &[KeySpec::one(1, &["RO", "access"])],
        tips: &["nondeterministic_output"],
        handler: Handler::Keys(dump),
        ..Spec::NONE
    },
    Spec {
        name: "restore",
        group: Group::Generic,
        since: "2.6.0",
        complexity: "O(N) where N is the length of the payload",
        summary: "Makes a key from a payload that DUMP gave.",
        synopsis: RESTORE_SYNOPSIS,
        arity: Arity::AtLeast(4),
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[KeySpec::one(1, &["OW", "update"])],
        acl: &["dangerous"],
        history: RESTORE_HISTORY,
        handler: Handler::Keys(restore),
        ..Spec::NONE
    },
    Spec {
        name: "restore-asking",
        group: Group::Server,
        since: "3.0.0",
        complexity: "O(N) where N is the length of the payload",
        summary: "RESTORE, as the nodes of a cluster send it to each other.",
        synopsis: RESTORE_SYNOPSIS,
        arity: Arity::AtLeast(4),
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::ASKING).or(Flags::SYSTEM),
        keys: &[KeySpec::one(1, &["OW", "update"])],
        acl: &["keyspace", "dangerous"],
        history: RESTORE_HISTORY,
        handler: Handler::Keys(restore),
        ..Spec::NONE
    },
];

fn dump(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let slot = keys.look(args.get(1));
    if !slot.is_some() {
        reply.null();
        return Ok(());
    }
    reply.bulk(&payload(keys.value(slot)));
    Ok(())
}

/// `value` as DUMP gives it.
fn payload(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 16);
    out.push(TYPE_STRING);
    push_string(&mut out, value);
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// A string in its shortest form: a small integer, compressed, or its length and its bytes.
fn push_string(out: &mut Vec<u8>, value: &[u8]) {
    let small = (value.len() <= 11).then(|| number::parse_i64(value)).flatten();
    if let Some(n) = small.and_then(|n| i32::try_from(n).ok()) {
        if let Ok(n) = i8::try_from(n) {
            out.extend_from_slice(&[INT8, n as u8]);
        } else if let Ok(n) = i16::try_from(n) {
            out.push(INT16);
            out.extend_from_slice(&n.to_le_bytes());
        } else {
            out.push(INT32);
            out.extend_from_slice(&n.to_le_bytes());
        }
        return;
    }
    if value.len() > 20
        && let Some(packed) = lzf::pack(value, value.len() - 4)
    {
        out.push(LZF);
        push_length(out, packed.len());
        push_length(out, value.len());
        out.extend_from_slice(&packed);
        return;
    }
    push_length(out, value.len());
    out.extend_from_slice(value);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..=63 => out.push(length as u8),
        64..=16_383 => out.extend_from_slice(&[0x40 | (length >> 8) as u8, length as u8]),
        _ => match u32::try_from(length) {
            Ok(length) => {
                out.push(0x80);
                out.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                out.push(0x81);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
}

/// A payload being read; each taker gives `None` past the end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn length(&mut self, first: u8) -> Option<usize> {
        let length = match first {
            0..=63 => u64::from(first),
            64..=127 => u64::from(first & 63) << 8 | u64::from(self.byte()?),
            0x80 => u64::from(u32::from_be_bytes(self.array()?)),
            0x81 => u64::from_be_bytes(self.array()?),
            _ => return None,
        };
        usize::try_from(length).ok()
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        let digits = |n: i32| itoa::Buffer::new().format(n).as_bytes().to_vec();
        match self.byte()? {
            INT8 => Some(digits(i8::from_le_bytes(self.array()?).into())),
            INT16 => Some(digits(i16::from_le_bytes(self.array()?).into())),
            INT32 => Some(digits(i32::from_le_bytes(self.array()?))),
            LZF => {
                let first = self.byte()?;
                let packed = self.length(first)?;
                let first = self.byte()?;
                let length = self.length(first)?;
                lzf::unpack(self.take(packed)?, length)
            }
            first => {
                let length = self.length(first)?;
                Some(self.take(length)?.to_vec())
            }
        }
    }
}

/// The value in a payload.
fn value_of(payload: &[u8]) -> Result<Vec<u8>, CommandError> {
    let refusal = CommandError::fixed("ERR DUMP payload version or checksum are wrong");
    let Some((summed, sum)) = payload.split_last_chunk::<8>() else { return Err(refusal) };
    let Some((body, version)) = summed.split_last_chunk::<2>() else { return Err(refusal) };
    let version = u16::from_le_bytes(*version);
    let known = version <= VERSION_MAX || version == VERSION_VALKEY;
    if !known || crc64(summed) != u64::from_le_bytes(*sum) {
        return Err(refusal);
    }
    // A list, a set and so on are well-formed in Redis and cannot be kept here.
    let value = body.split_first().filter(|(kind, _)| **kind == TYPE_STRING);
    value.and_then(|(_, string)| Reader(string).string()).ok_or(CommandError::fixed("ERR Bad data format"))
}

/// What follows the payload.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_seconds: Option<i64>,
    frequency: Option<i64>,
}

fn options(args: &Args<'_>) -> Result<Options, CommandError> {
    let mut options = Options::default();
    let mut at = 4;
    while at < args.len() {
        let more = at + 1 < args.len();
        if args.is(at, "replace") {
            options.replace = true;
        } else if args.is(at, "absttl") {
            options.absolute = true;
        } else if args.is(at, "idletime") && more && options.frequency.is_none() {
            at += 1;
            options.idle_seconds = Some(args.int(at)?);
            if options.idle_seconds < Some(0) {
                return Err(CommandError::fixed("ERR Invalid IDLETIME value, must be >= 0"));
            }
        } else if args.is(at, "freq") && more && options.idle_seconds.is_none() {
            at += 1;
            let frequency = args.int(at)?;
            if !(0..=255).contains(&frequency) {
                return Err(CommandError::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255"));
            }
            options.frequency = Some(frequency);
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

fn restore(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let options = options(args)?;
    let key = args.get(1);
    let slot = keys.find(key);
    if slot.is_some() && !options.replace {
        return Err(CommandError::fixed("BUSYKEY Target key name already exists."));
    }
    let ttl = args.int(2)?;
    if ttl < 0 {
        return Err(CommandError::fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let value = value_of(args.get(3))?;
    // A sum past the end of time wraps in Redis and so lies in the past: the key is gone at once.
    let now = keys.now();
    let at = UnixMs(if options.absolute { ttl } else { ttl.wrapping_add(now.0) });
    if ttl > 0 && at <= now {
        if slot.is_some() {
            keys.remove(slot, key, Event::DEL);
        }
        reply.ok();
        return Ok(());
    }
    if slot.is_some() {
        // What was there is removed first, so the key is a new one.
        keys.also(key, Event::NEW);
    }
    let ttl = if ttl > 0 { Ttl::At(at) } else { Ttl::Clear };
    let slot = keys.put(slot, key, &value, Encoding::Auto, ttl, Event::RESTORE);
    if let Some(idle) = options.idle_seconds {
        keys.set_accessed(slot, UnixMs(now.0.saturating_sub(idle.saturating_mul(1000)).max(0)));
    }
    reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn payloads() {
        check(
            r#"
            > DUMP none
            (nil)
            > SET n 10
            OK
            > DUMP n
            "\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb"
            > SET n -300
            OK
            > DUMP n
            "\x00\xc1\xd4\xfe\n\x00\xc6\xc4\x86#\xfe\xbe\xde."
            > SET n 100000
            OK
            > DUMP n
            "\x00\xc2\xa0\x86\x01\x00\n\x00\xf1$\x03Po/\xa6t"
            > SET n 12345678901
            OK
            > DUMP n
            "\x00\x0b12345678901\n\x000NR\xd7'\x17e\x10"
            > SET s aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            OK
            > DUMP s
            "\x00\xc3\t\x1e\x01aa\xe0\x11\x00\x01aa\n\x00Es|\xbb+d{\xbb"
            > SET s abcdefghijklmnopqrstuvwxyz
            OK
            > DUMP s
            "\x00\x1aabcdefghijklmnopqrstuvwxyz\n\x00\x9e\x1b?4\xab\xfc_y"
            > SET s ""
            OK
            > DUMP s
            "\x00\x00\n\x00]\x9b\\@\x0f\x7f\xa2\xda"
            "#,
        );
    }

    #[test]
    fn restoring() {
        check(
            r#"
            > RESTORE k 0 "\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb"
            OK
            ~ restore
            > GET k
            "10"
            > OBJECT ENCODING k
            "int"
            > TTL k
            (integer) -1
            > RESTORE k 0 "\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb"
            (error) BUSYKEY Target key name already exists.
            > RESTORE k 5000 "\x00\xc3\t\x1e\x01aa\xe0\x11\x00\x01aa\n\x00Es|\xbb+d{\xbb" REPLACE IDLETIME 77
            OK
            > OBJECT IDLETIME k
            (integer) 77
            > GET k
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            > RESTORE k 1 "\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb" REPLACE ABSTTL
            OK
            ~ del
            > EXISTS k
            (integer) 0
            > RESTORE k 1 "\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb" ABSTTL
            OK
            ~
            > RESTORE k 9223372036854775807 "\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb"
            OK
            > EXISTS k
            (integer) 0
            "#,
        );
    }

    #[test]
    fn refusals() {
        check(
            r#"
            > RESTORE k -1 x
            (error) ERR Invalid TTL value, must be >= 0
            > RESTORE k x x
            (error) ERR value is not an integer or out of range
            > RESTORE k 0 x
            (error) ERR DUMP payload version or checksum are wrong
            > RESTORE k 0 "\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbc"
            (error) ERR DUMP payload version or checksum are wrong
            > RESTORE k 0 x NONSENSE
            (error) ERR syntax error
            > RESTORE k 0 x IDLETIME
            (error) ERR syntax error
            > RESTORE k 0 x IDLETIME -1
            (error) ERR Invalid IDLETIME value, must be >= 0
            > RESTORE k 0 x IDLETIME x
            (error) ERR value is not an integer or out of range
            > RESTORE k 0 x FREQ 256
            (error) ERR Invalid FREQ value, must be >= 0 and <= 255
            > RESTORE k 0 x FREQ 1 IDLETIME 1
            (error) ERR syntax error
            > SET k v
            OK
            > RESTORE k x x
            (error) BUSYKEY Target key name already exists.
            > EXISTS none
            (integer) 0
            "#,
        );
    }

    /// Redis 7.0 writes version 10, Redis 8 up to 12, Valkey 9 writes 80. What else there may be one
    /// day could mean anything.
    #[test]
    fn newer_payloads_are_read_unknown_ones_refused() {
        let of_version = |version: u16| {
            let mut payload = vec![super::TYPE_STRING, super::INT8, 1];
            payload.extend_from_slice(&version.to_le_bytes());
            payload.extend_from_slice(&super::crc64(&payload).to_le_bytes());
            payload
        };
        for version in [1, 9, 10, 11, 12, 80] {
            assert_eq!(super::value_of(&of_version(version)), Ok(b"1".to_vec()), "{version}");
        }
        for version in [13, 79, 81, 65_535] {
            assert!(super::value_of(&of_version(version)).is_err(), "{version}");
        }
        // As a Valkey 9.1 gave it.
        assert_eq!(super::value_of(b"\x00\xc0\x01P\x00\xe9R.'OSv\x08"), Ok(b"1".to_vec()));
    }

    proptest::proptest! {
        #[test]
        fn any_value_comes_back(value: Vec<u8>, repeat in 1_usize..200) {
            let value = value.repeat(repeat);
            proptest::prop_assert_eq!(super::value_of(&super::payload(&value)), Ok(value));
        }

        #[test]
        fn any_body_is_read_or_refused(mut payload: Vec<u8>) {
            payload.insert(0, super::TYPE_STRING);
            payload.extend_from_slice(&super::VERSION.to_le_bytes());
            payload.extend_from_slice(&super::crc64(&payload).to_le_bytes());
            let _ = super::value_of(&payload);
        }
    }
}
