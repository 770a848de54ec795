//! Walking a database: SCAN, KEYS, RANDOMKEY, DBSIZE. Not here: the cursor and its guarantee
//! (`keyspace::db`), globs (`base::glob`).

use crate::base::error::CommandError;
use crate::base::glob;
use crate::engine::spec::{Arity, Flags, Group, Handler, LockPart, Spec};
use crate::keyspace::{Access, Slot};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

/// How many keys one call of SCAN looks at, where it is not told.
const COUNT: usize = 10;

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "keys",
        complexity: "O(N), N being the number of keys in the database.",
        summary: "Lists the keys whose names match. Nobody else is served meanwhile: SCAN is kinder.",
        synopsis: "pattern",
        arity: Arity::Exactly(2),
        flags: Flags::READONLY,
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        acl: &["dangerous"],
        lock: LockPart::Walk,
        handler: Handler::Keys(keys_matching),
        ..Spec::NONE
    },
    Spec {
        name: "scan",
        since: "2.8.0",
        complexity: "O(1) for each call, O(N) for a whole walk, N being the number of keys.",
        summary: "Walks the keys step by step; what stays is returned at least once.",
        synopsis: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        arity: Arity::AtLeast(2),
        flags: Flags::READONLY,
        tips: &["nondeterministic_output", "request_policy:special"],
        history: &[("6.0.0", "`TYPE`.")],
        handler: Handler::Keys(scan),
        ..Spec::NONE
    },
    Spec {
        name: "dbsize",
        group: Group::Server,
        summary: "Counts the keys of the chosen database.",
        arity: Arity::Exactly(1),
        flags: Flags::READONLY.or(Flags::FAST),
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        acl: &["keyspace"],
        handler: Handler::Keys(|keys, _, reply| {
            reply.integer(keys.db().len() as i64);
            Ok(())
        }),
        ..Spec::NONE
    },
    Spec {
        name: "randomkey",
        summary: "Gives a key, any of them as likely as another.",
        arity: Arity::Exactly(1),
        flags: Flags::READONLY,
        tips: &["request_policy:all_shards", "nondeterministic_output"],
        handler: Handler::Keys(randomkey),
        ..Spec::NONE
    },
];

/// A pattern; `*` alone lets everything through, the empty name too.
fn lets_through(pattern: &[u8], key: &[u8]) -> bool {
    pattern == b"*" || glob::matches(pattern, key, false)
}

/// Whether the key at `slot` is past its deadline, though nothing has removed it yet.
fn is_stale(keys: &Access<'_>, slot: Slot) -> bool {
    keys.deadline(slot).is_some_and(|deadline| deadline <= keys.now())
}

fn keys_matching(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let pattern = args.get(1);
    let mut found = Vec::new();
    keys.db().scan(0, usize::MAX, |slot| {
        if lets_through(pattern, keys.db().key(slot)) && !is_stale(keys, slot) {
            found.push(slot);
        }
    });
    reply.array(found.len());
    for slot in found {
        reply.bulk(keys.db().key(slot));
    }
    Ok(())
}

/// SCAN's options.
struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    type_name: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    fn parse(args: &Args<'a>, mut i: usize) -> Result<Self, CommandError> {
        let mut options = ScanOptions { pattern: None, count: COUNT, type_name: None };
        while i < args.len() {
            let Some(value) = args.try_get(i + 1) else { return Err(CommandError::Syntax) };
            if args.is(i, "match") {
                options.pattern = Some(value);
            } else if args.is(i, "count") {
                let count = args.int(i + 1)?;
                options.count =
                    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(CommandError::Syntax)?;
            } else if args.is(i, "type") {
                options.type_name = Some(value);
            } else {
                return Err(CommandError::Syntax);
            }
            i += 2;
        }
        Ok(options)
    }

    fn let_through(&self, key: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| lets_through(pattern, key))
            && self.type_name.is_none_or(|name| name.eq_ignore_ascii_case(b"string"))
    }
}

/// A cursor as C's `strtoul` reads it: a sign is fine, nothing at all is 0.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let text = text.split(|&b| b == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0);
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    let n: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { n.wrapping_neg() } else { n })
}

fn scan(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let cursor = parse_cursor(args.get(1)).ok_or(CommandError::InvalidCursor)?;
    let options = ScanOptions::parse(args, 2)?;
    let (mut found, mut stale) = (Vec::new(), Vec::<Box<[u8]>>::new());
    let next = keys.db().scan(cursor, options.count, |slot| {
        let key = keys.db().key(slot);
        if options.let_through(key) {
            if is_stale(keys, slot) { stale.push(key.into()) } else { found.push(slot) }
        }
    });
    reply.array(2);
    reply.text(itoa::Buffer::new().format(next));
    reply.array(found.len());
    for slot in found {
        reply.bulk(keys.db().key(slot));
    }
    // Last, since removing moves entries: a key past its deadline goes when it is met.
    for key in stale {
        keys.find(&key);
    }
    Ok(())
}

fn randomkey(keys: &mut Access<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    loop {
        let Some(slot) = keys.random() else {
            reply.null();
            return Ok(());
        };
        // Each turn removes a key, so this ends.
        if !(keys.limits().lazy_expire && keys.expire_if_due(slot)) {
            reply.bulk(keys.db().key(slot));
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::parse_cursor;

    #[test]
    fn walking() {
        check(
            r#"
            > SET lock:1 a
            OK
            > SCAN 0 MATCH lock:* COUNT 100 TYPE string
            1) "0"
            2) 1) "lock:1"
            > SCAN 0 TYPE list
            1) "0"
            2) (empty array)
            > SCAN 0 COUNT 0
            (error) ERR syntax error
            > SCAN x
            (error) ERR invalid cursor
            > SET stale b PX 1
            OK
            @advance 1
            > DBSIZE
            (integer) 2
            > KEYS *
            1) "lock:1"
            > SCAN 0
            1) "0"
            2) 1) "lock:1"
            ~ expired
            > DBSIZE
            (integer) 1
            > RANDOMKEY
            "lock:1"
            "#,
        );
    }

    #[test]
    fn cursors() {
        assert_eq!(parse_cursor(b""), Some(0));
        assert_eq!(parse_cursor(b"+07"), Some(7));
        assert_eq!(parse_cursor(b"-1"), Some(u64::MAX));
        for text in [&b"-"[..], b" 1", b"1x", b"18446744073709551616"] {
            assert_eq!(parse_cursor(text), None);
        }
    }
}
