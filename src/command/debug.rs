//! DEBUG, as far as the suites of clients call it. Guarded by enable-debug-command. Not here: what
//! Redis's DEBUG says about types and files that keylatch does not have; the digests (`digest`).

use super::digest;
use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::base::number;
use crate::config;
use crate::engine::session::Session;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::keyspace::{Access, Db, Encoding, Event, Slot, Ttl};
use crate::resp::{Args, Reply};
use std::time::Duration;

type Answer = Result<Outcome, CommandError>;

/// The entry. Its subcommands are not in the table, as in Redis: COMMAND does not list them.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "debug",
    group: Group::Server,
    complexity: "Depends on subcommand.",
    summary: "Looks inside the server, and does things to it that tests need.",
    arity: Arity::AtLeast(2),
    flags: Flags::ADMIN
        .or(Flags::NOSCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::PROTECTED)
        .or(Flags::SYSTEM),
    handler: Handler::Server(debug),
    ..Spec::NONE
}];

/// One subcommand: how it is called, how many arguments it has behind its name, what HELP says.
struct Sub {
    usage: &'static str,
    /// Fewest and most.
    arguments: (usize, usize),
    help: &'static [&'static str],
    run: fn(&mut Context<'_>, &Args<'_>, &mut dyn Reply) -> Answer,
}

const MANY: usize = usize::MAX;

const SUBS: &[Sub] = &[
    Sub {
        usage: "CHANGE-REPL-ID",
        arguments: (0, 0),
        help: &["Draws another replication id."],
        run: change_repl_id,
    },
    Sub {
        usage: "DIGEST",
        arguments: (0, 0),
        help: &["Gives a hash of all databases, the same as Redis's for the same data."],
        run: digest::digest,
    },
    Sub {
        usage: "DIGEST-VALUE <key> [<key> ...]",
        arguments: (0, MANY),
        help: &["Gives a hash of each value."],
        run: digest::digest_value,
    },
    Sub { usage: "ERROR <string>", arguments: (1, 1), help: &["Answers this as an error."], run: error },
    Sub {
        usage: "HTSTATS <dbid>",
        arguments: (1, 1),
        help: &["Tells how full a database's index is, and how many keys carry a deadline."],
        run: htstats,
    },
    Sub {
        usage: "HTSTATS-KEY <key>",
        arguments: (1, 1),
        help: &["Redis's look into a hash table, which no string is."],
        run: htstats_key,
    },
    Sub {
        usage: "LEAK <string>",
        arguments: (1, 1),
        help: &["Keeps these bytes for ever, out of anybody's reach."],
        run: leak,
    },
    Sub {
        usage: "LISTPACK <key>",
        arguments: (1, 1),
        help: &["Redis's look into a packed list, which no string is."],
        run: listpack,
    },
    Sub { usage: "LOG <message>", arguments: (1, 1), help: &["Writes this to the log."], run: log },
    Sub {
        usage: "OBJECT <key>",
        arguments: (1, MANY),
        help: &["Tells how the value is stored."],
        run: object,
    },
    Sub {
        usage: "PANIC",
        arguments: (0, 0),
        help: &["Ends the process at once, as a crash would. So do ASSERT, OOM and SEGFAULT."],
        run: crash,
    },
    Sub { usage: "ASSERT", arguments: (0, 0), help: &[], run: crash },
    Sub { usage: "OOM", arguments: (0, 0), help: &[], run: crash },
    Sub { usage: "SEGFAULT", arguments: (0, 0), help: &[], run: crash },
    Sub {
        usage: "PAUSE-CRON <0|1>",
        arguments: (1, 1),
        help: &["1 stops what the server does by itself, 0 lets it go on."],
        run: pause_cron,
    },
    Sub {
        usage: "POPULATE <count> [<prefix>] [<size>]",
        arguments: (1, 3),
        help: &[
            "Creates so many keys <prefix>:<number> (the prefix is `key` without one), where they are",
            "missing, each with a value of so many bytes.",
        ],
        run: populate,
    },
    Sub {
        usage: "PROTOCOL <type>",
        arguments: (1, 1),
        help: &[
            "Answers a value of this type: string, integer, double, bignum, null, array, set, map,",
            "attrib, push, verbatim, true, false.",
        ],
        run: protocol,
    },
    Sub {
        usage: "QUICKLIST <key> [<0|1>]",
        arguments: (1, 2),
        help: &["Redis's look into a list, which no string is."],
        run: quicklist,
    },
    Sub {
        usage: "QUICKLIST-PACKED-THRESHOLD <size>",
        arguments: (1, 1),
        help: &["Looks whether Redis would take this size. There are no lists that it could change."],
        run: quicklist_packed_threshold,
    },
    Sub {
        usage: "RELOAD [option ...]",
        arguments: (0, MANY),
        help: &["What saving and loading would do: removes the keys that are due. Nothing is saved."],
        run: reload,
    },
    Sub {
        usage: "SDSLEN <key>",
        arguments: (1, 1),
        help: &["Tells the lengths of key and value."],
        run: sdslen,
    },
    Sub {
        usage: "SET-ACTIVE-EXPIRE <0|1>",
        arguments: (1, 1),
        help: &["0 leaves keys that are due until they are accessed, 1 removes them as usual."],
        run: set_active_expire,
    },
    Sub {
        usage: "SLEEP <seconds>",
        arguments: (1, 1),
        help: &["Stops the whole server for so long; fractions are allowed."],
        run: sleep,
    },
    Sub {
        usage: "STRUCTSIZE",
        arguments: (0, 0),
        help: &["Tells how many bytes some of the server's structures take."],
        run: structsize,
    },
    Sub { usage: "HELP", arguments: (0, 0), help: &["Prints this help."], run: help },
];

impl Sub {
    fn name(&self) -> &'static str {
        self.usage.split(' ').next().unwrap_or_default()
    }
}

fn debug(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let given = args.len() - 2;
    let fits = |sub: &&Sub| args.is(1, sub.name()) && (sub.arguments.0..=sub.arguments.1).contains(&given);
    match SUBS.iter().find(fits) {
        Some(sub) => (sub.run)(ctx, args, reply),
        None => {
            let mut line = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
            line.extend_from_slice(&args.get(1)[..args.get(1).len().min(128)]);
            line.extend_from_slice(b"'. Try DEBUG HELP.");
            Err(CommandError::Bytes(line))
        }
    }
}

fn help(_: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let mut lines = vec!["DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:".to_owned()];
    for sub in SUBS.iter().filter(|sub| !sub.help.is_empty()) {
        lines.push(sub.usage.to_owned());
        lines.extend(sub.help.iter().map(|line| format!("    {line}")));
    }
    reply.array(lines.len());
    for line in &lines {
        reply.simple(line.as_bytes());
    }
    Ok(Outcome::Done)
}

fn change_repl_id(ctx: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.identity.replication_id = ctx.core.chance.hex(40);
    reply.ok();
    Ok(Outcome::Done)
}

fn error(_: &mut Context<'_>, args: &Args<'_>, _: &mut dyn Reply) -> Answer {
    // A line cannot hold the breaks that a bulk string can.
    Err(CommandError::Bytes(args.get(2).to_vec()))
}

fn log(_: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(args.get(2)));
    reply.ok();
    Ok(Outcome::Done)
}

fn crash(_: &mut Context<'_>, args: &Args<'_>, _: &mut dyn Reply) -> Answer {
    tracing::warn!("DEBUG {}: the process ends as by a crash", String::from_utf8_lossy(args.get(1)));
    std::process::abort()
}

fn set_active_expire(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.active_expire = leading_number(args.get(2)) as i64 != 0;
    reply.ok();
    Ok(Outcome::Done)
}

fn sleep(_: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let seconds = leading_number(args.get(2));
    if let Ok(pause) = Duration::try_from_secs_f64(seconds) {
        std::thread::sleep(pause);
    }
    reply.ok();
    Ok(Outcome::Done)
}

/// The number that `text` begins with, as C's `strtod` reads it without blanks and names; else 0.
fn leading_number(text: &[u8]) -> f64 {
    (1..=text.len().min(32))
        .rev()
        .find_map(|end| std::str::from_utf8(&text[..end]).ok()?.parse::<f64>().ok())
        .filter(|number| number.is_finite())
        .unwrap_or(0.0)
}

/// The key at argument 2, which must be there. DEBUG looks without touching.
fn existing(keys: &mut Access<'_>, args: &Args<'_>) -> Result<Slot, CommandError> {
    let slot = keys.find(args.get(2));
    if slot.is_some() { Ok(slot) } else { Err(CommandError::NoSuchKey) }
}

fn listpack(ctx: &mut Context<'_>, args: &Args<'_>, _reply: &mut dyn Reply) -> Answer {
    existing(&mut ctx.core.access(ctx.client), args)?;
    Err(CommandError::fixed("ERR Not a listpack encoded object."))
}

fn quicklist(ctx: &mut Context<'_>, args: &Args<'_>, _reply: &mut dyn Reply) -> Answer {
    existing(&mut ctx.core.access(ctx.client), args)?;
    Err(CommandError::fixed("ERR Not a quicklist encoded object."))
}

fn quicklist_packed_threshold(_: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    // The largest that Redis takes, its own room for a node left free.
    const MOST: u64 = (1 << 32) - (1 << 20);
    if config::memory(args.get(2)).is_none_or(|size| size > MOST) {
        return Err(CommandError::fixed(
            "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
        ));
    }
    reply.ok();
    Ok(Outcome::Done)
}

fn htstats_key(ctx: &mut Context<'_>, args: &Args<'_>, _reply: &mut dyn Reply) -> Answer {
    existing(&mut ctx.core.access(ctx.client), args)?;
    Err(CommandError::fixed(
        "ERR The value stored at the specified key is not represented using an hash table",
    ))
}

fn htstats(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let number = number::parse_i64(args.get(2)).ok_or(CommandError::NotAnInteger)?;
    let keyspace = &ctx.core.keyspace;
    let index = usize::try_from(number).ok().filter(|&index| index < keyspace.count());
    let db = keyspace.db(index.ok_or(CommandError::fixed("ERR Out of range database"))?);
    let table = |room: usize, len: usize| match len {
        0 => "No stats available for empty dictionaries\n".to_owned(),
        _ => format!(" table size: {room}\n number of elements: {len}\n"),
    };
    let text = format!(
        "[Dictionary HT]\nHash table 0 stats (main hash table):\n{}\
         [Expires HT]\nHash table 0 stats (main hash table):\n{}",
        table(db.room(), db.len()),
        table(db.volatile_len(), db.volatile_len()),
    );
    reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

fn structsize(_: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let (bits, session, db) = (usize::BITS, size_of::<Session>(), size_of::<Db>());
    reply.simple(format!("bits:{bits} session:{session} db:{db}").as_bytes());
    Ok(Outcome::Done)
}

fn leak(_: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    args.get(2).to_vec().leak();
    reply.ok();
    Ok(Outcome::Done)
}

fn pause_cron(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.cron_paused = leading_number(args.get(2)) as i64 != 0;
    reply.ok();
    Ok(Outcome::Done)
}

fn object(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let now = ctx.now;
    let mut keys = ctx.core.access(ctx.client);
    let slot = existing(&mut keys, args)?;
    let value = keys.value(slot);
    let encoding = super::object::encoding_name(&keys, slot);
    let accessed = UnixMs(i64::from(keys.db().accessed(slot, now)) * 1000);
    // The address is that of the value as it is stored now.
    let line = format!(
        "Value at:{:p} refcount:{} encoding:{encoding} serializedlength:{} lru:{} lru_seconds_idle:{}",
        value.as_ptr(),
        super::object::references(&keys, slot),
        serialized_len(value, encoding),
        super::info::lru_clock(accessed),
        now.since(accessed).max(0) / 1000,
    );
    reply.simple(line.as_bytes());
    Ok(Outcome::Done)
}

/// How long the value would be in an RDB file: its length prefix and its bytes, or an integer of
/// one, two or four bytes. Redis compresses longer values where that helps; this does not.
fn serialized_len(value: &[u8], encoding: &str) -> usize {
    if value.len() <= 11
        && encoding != "raw"
        && let Some(number) = number::parse_i64(value)
    {
        if i8::try_from(number).is_ok() {
            return 2;
        }
        if i16::try_from(number).is_ok() {
            return 3;
        }
        if i32::try_from(number).is_ok() {
            return 5;
        }
    }
    let prefix = match value.len() {
        0..64 => 1,
        64..16384 => 2,
        _ => 5,
    };
    prefix + value.len()
}

fn sdslen(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let mut keys = ctx.core.access(ctx.client);
    let slot = existing(&mut keys, args)?;
    let (key, value) = (args.get(2).len(), keys.value(slot));
    if super::object::encoding_name(&keys, slot) == "int" {
        return Err(CommandError::fixed("ERR Not an sds encoded string."));
    }
    let value = value.len();
    // Nothing is set aside beyond the lengths.
    let line = format!(
        "key_sds_len:{key}, key_sds_avail:0, key_zmalloc: {key}, val_sds_len:{value}, val_sds_avail:0, val_zmalloc: {value}"
    );
    reply.simple(line.as_bytes());
    Ok(Outcome::Done)
}

fn populate(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let positive = |at: usize| {
        number::parse_i64(args.get(at))
            .and_then(|n| u64::try_from(n).ok())
            .ok_or(CommandError::MustBePositive)
    };
    let count = positive(2)?;
    let prefix = args.try_get(3).unwrap_or(b"key");
    let size = if args.len() == 5 { Some(positive(4)?).filter(|size| *size > 0) } else { None };
    let mut keys = ctx.core.access(ctx.client);
    for number in 0..count {
        let key = [prefix, b":", number.to_string().as_bytes()].concat();
        let slot = keys.find(&key);
        if slot.is_some() {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(usize::try_from(size).map_err(|_| CommandError::StringTooLong)?, 0);
        }
        keys.put(slot, &key, &value, Encoding::Auto, Ttl::Clear, Event::SET);
    }
    reply.ok();
    Ok(Outcome::Done)
}

fn reload(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    for word in args.rest(2) {
        if word.eq_ignore_ascii_case(b"nosave") {
            return Err(CommandError::fixed(
                "ERR Error trying to load the RDB dump: nothing is kept on disk",
            ));
        }
        if !word.eq_ignore_ascii_case(b"merge") && !word.eq_ignore_ascii_case(b"noflush") {
            return Err(CommandError::fixed(
                "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
            ));
        }
    }
    let count = ctx.core.keyspace.count();
    for db in 0..count {
        let mut keys = ctx.core.access(ctx.client);
        let mut keys = keys.other(db);
        let mut due: Vec<Box<[u8]>> = Vec::new();
        let now = keys.now();
        let mut cursor = 0;
        loop {
            cursor = keys.db().scan(cursor, 1000, |slot| {
                if keys.db().deadline(slot).is_some_and(|deadline| deadline <= now) {
                    due.push(keys.db().key(slot).into());
                }
            });
            if cursor == 0 {
                break;
            }
        }
        for key in due {
            // The lookup removes it.
            keys.find(&key);
        }
    }
    reply.ok();
    Ok(Outcome::Done)
}

#[allow(clippy::approx_constant)] // the number that Redis answers, not a circle's
fn protocol(_: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    match args.get(2).to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(3.141),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.integer(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if !reply.is_resp3() {
                return Err(CommandError::fixed("ERR RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            // Redis leaves the reply itself to come after the push.
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        _ => {
            return Err(CommandError::fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_are_redis_s() {
        assert_eq!(serialized_len(b"12345", "int"), 3);
        assert_eq!(serialized_len(b"hello", "embstr"), 6);
        assert_eq!(serialized_len(b"hellox", "raw"), 7);
        assert_eq!(leading_number(b"0.5x"), 0.5);
        assert_eq!(leading_number(b"x"), 0.0);
        assert_eq!(leading_number(b"1"), 1.0);
    }
}
