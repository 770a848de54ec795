//! The commands on keys: strings, counters, the generic family, deadlines; and the choice among all
//! families. Not here: words and numbers (`grammar.rs`), what is not about keys (`serving.rs`).

use crate::check::Check;
use crate::grammar::{Bytes, Grammar, Step, could_expire_soon, may_leave_stale};
use crate::{bits, scripts, serving};

/// Appends one command, or a few that belong together.
pub fn any(g: &mut Grammar, steps: &mut Vec<Step>) {
    let (mut args, check, bendable) = match g.draw.below(100) {
        0..32 => string(g),
        32..40 => bits::any(g),
        40..58 => generic(g),
        58..74 => deadline(g),
        74..84 => serving::any(g),
        84..94 => scripts::any(g),
        94..97 => wrong_arity(g),
        _ => unknown(g),
    };
    if bendable && g.draw.chance(8) {
        let bent = g.bend(&args);
        if !could_expire_soon(&bent) {
            args = bent;
        }
    }
    let stale = may_leave_stale(&args).then(|| args.get(1).cloned()).flatten();
    steps.push(Step { connection: 0, args, check });
    if let Some(key) = stale {
        steps.push(Step { connection: 0, args: vec![b"EXISTS".to_vec(), key], check: Check::Exact });
    }
}

/// What a production makes: the command, how its replies are compared, whether it may be bent.
pub type Made = (Vec<Bytes>, Check, bool);

pub fn exact(args: Vec<Bytes>) -> Made {
    (args, Check::Exact, true)
}

fn string(g: &mut Grammar) -> Made {
    let name = g.draw.pick(&[
        "SET",
        "SET",
        "SET",
        "SET",
        "SET",
        "SET",
        "GET",
        "GET",
        "GETEX",
        "GETEX",
        "GETDEL",
        "GETSET",
        "SETNX",
        "SETEX",
        "PSETEX",
        "MGET",
        "MSET",
        "MSETNX",
        "APPEND",
        "STRLEN",
        "GETRANGE",
        "SUBSTR",
        "SETRANGE",
        "INCR",
        "DECR",
        "INCRBY",
        "DECRBY",
        "INCRBYFLOAT",
    ]);
    let mut args = vec![g.word(name), g.key()];
    match name {
        "SET" => {
            args.push(g.value());
            for _ in 0..[0, 0, 1, 1, 2, 2, 3, 4][g.draw.below(8)] {
                option(g, &mut args, &["NX", "XX", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT", "PX", "NX"]);
            }
        }
        "GETEX" => {
            for _ in 0..[0, 1, 1, 1, 1, 2][g.draw.below(6)] {
                option(g, &mut args, &["EX", "PX", "EXAT", "PXAT", "PERSIST", "EX", "PX"]);
            }
        }
        "GETSET" | "SETNX" | "APPEND" => args.push(g.value()),
        "SETEX" => args.extend([g.relative(1), g.value()]),
        "PSETEX" => args.extend([g.relative(1000), g.value()]),
        "MGET" => args.extend(g.several(4, Grammar::key)),
        "MSET" | "MSETNX" => {
            args.push(g.value());
            for _ in 0..g.draw.below(3) {
                args.extend([g.key(), g.value()]);
            }
        }
        "GETRANGE" | "SUBSTR" => args.extend([g.integer(), g.integer()]),
        "SETRANGE" => {
            // An offset just below 512 MB would be right, and would make the test slow.
            let far = [&b"536870912"[..], b"9223372036854775807", b"-1", b"4294967296", b"abc"];
            let offset = match g.draw.below(4) {
                0 => g.draw.pick(&far).to_vec(),
                _ => g.draw.between(0, 60).to_string().into(),
            };
            args.extend([offset, g.value()]);
        }
        "INCRBY" | "DECRBY" => args.push(g.integer()),
        "INCRBYFLOAT" => args.push(g.float()),
        _ => {}
    }
    exact(args)
}

/// One option of those named, with its value where it takes one.
fn option(g: &mut Grammar, args: &mut Vec<Bytes>, names: &[&str]) {
    let name = g.draw.pick(names);
    args.push(g.word(name));
    match name {
        "EX" => args.push(g.relative(1)),
        "PX" => args.push(g.relative(1000)),
        "EXAT" => args.push(g.absolute(1)),
        "PXAT" => args.push(g.absolute(1000)),
        _ => {}
    }
}

fn generic(g: &mut Grammar) -> Made {
    let name = g.draw.pick(&[
        "DEL",
        "DEL",
        "UNLINK",
        "EXISTS",
        "EXISTS",
        "TOUCH",
        "TYPE",
        "KEYS",
        "SCAN",
        "SCAN",
        "DBSIZE",
        "RANDOMKEY",
        "RENAME",
        "RENAMENX",
        "COPY",
        "COPY",
        "MOVE",
        "SELECT",
        "SWAPDB",
        "FLUSHDB",
        "FLUSHALL",
        "OBJECT",
    ]);
    let word = g.word(name);
    match name {
        "DEL" | "UNLINK" | "EXISTS" | "TOUCH" => {
            let mut args = vec![word];
            args.extend(g.several(3, Grammar::key));
            exact(args)
        }
        "TYPE" => exact(vec![word, g.key()]),
        "KEYS" => (vec![word, g.pattern()], Check::Unordered, true),
        "SCAN" => scan(g, word),
        "RANDOMKEY" => (vec![word], Check::AnyKey, true),
        "RENAME" | "RENAMENX" => exact(vec![word, g.key(), g.key()]),
        "COPY" => {
            let mut args = vec![word, g.key(), g.key()];
            for _ in 0..[0, 1, 1, 2, 2][g.draw.below(5)] {
                if g.draw.chance(50) {
                    args.push(g.word("REPLACE"));
                } else {
                    args.extend([g.word("DB"), g.database()]);
                }
            }
            exact(args)
        }
        "MOVE" => exact(vec![word, g.key(), g.database()]),
        "SELECT" => exact(vec![word, g.database()]),
        "SWAPDB" => exact(vec![word, g.database(), g.database()]),
        "FLUSHDB" | "FLUSHALL" => {
            // Rarely: an empty keyspace teaches little.
            if g.draw.chance(70) {
                return exact(vec![g.word("DBSIZE")]);
            }
            let mut args = vec![word];
            if g.draw.chance(60) {
                let mode = g.draw.pick(&["SYNC", "ASYNC", "FOO"]);
                args.push(g.word(mode));
            }
            exact(args)
        }
        "OBJECT" => {
            let sub = g.draw.pick(&["ENCODING", "ENCODING", "REFCOUNT", "IDLETIME", "FREQ", "HELP", "FOO"]);
            let mut args = vec![word, g.word(sub)];
            match sub {
                "HELP" => return (args, Check::Kind, true),
                "IDLETIME" => {
                    args.push(g.key());
                    return (args, Check::Kind, true);
                }
                _ => args.push(g.key()),
            }
            exact(args)
        }
        _ => exact(vec![word]),
    }
}

fn scan(g: &mut Grammar, word: Bytes) -> Made {
    if g.draw.chance(15) {
        let cursor = g.draw.pick(&[
            &b"abc"[..],
            b"-1",
            b"",
            b"18446744073709551616",
            b"18446744073709551615",
            b" 0",
            b"0 ",
            b"1.5",
            b"00",
        ]);
        let args = vec![word, cursor.to_vec()];
        return (args, Check::PartScan, false);
    }
    let mut args = vec![word, b"0".to_vec()];
    let whole = g.draw.chance(75);
    if whole {
        args.extend([g.word("COUNT"), b"10000".to_vec()]);
    }
    for _ in 0..g.draw.below(3) {
        match g.draw.below(6) {
            0 if !whole => args.extend([g.word("COUNT"), g.integer()]),
            1..3 => {
                let kind = g.draw.pick(&["string", "list", "STRING", "hash", "foo", ""]);
                args.extend([g.word("TYPE"), kind.into()]);
            }
            _ => args.extend([g.word("MATCH"), g.pattern()]),
        }
    }
    (args, if whole { Check::WholeScan } else { Check::PartScan }, !whole)
}

fn deadline(g: &mut Grammar) -> Made {
    let name = g.draw.pick(&[
        "EXPIRE",
        "EXPIRE",
        "PEXPIRE",
        "PEXPIRE",
        "EXPIREAT",
        "PEXPIREAT",
        "TTL",
        "TTL",
        "PTTL",
        "PTTL",
        "EXPIRETIME",
        "PEXPIRETIME",
        "PERSIST",
    ]);
    let mut args = vec![g.word(name), g.key()];
    let check = match name {
        "TTL" | "EXPIRETIME" => Check::Seconds,
        "PTTL" | "PEXPIRETIME" => Check::Millis,
        _ => Check::Exact,
    };
    match name {
        "EXPIRE" => args.push(g.relative(1)),
        "PEXPIRE" => args.push(g.relative(1000)),
        "EXPIREAT" => args.push(g.absolute(1)),
        "PEXPIREAT" => args.push(g.absolute(1000)),
        _ => return (args, check, true),
    }
    for _ in 0..[0, 0, 1, 1, 1, 2, 3][g.draw.below(7)] {
        let condition = g.draw.pick(&["NX", "XX", "GT", "LT", "NX", "XX", "GT", "LT", "FOO"]);
        args.push(g.word(condition));
    }
    (args, check, true)
}

/// Every command of this issue that has an arity to get wrong.
const NAMES: &[&str] = &[
    "SET",
    "GET",
    "GETEX",
    "GETDEL",
    "GETSET",
    "SETNX",
    "SETEX",
    "PSETEX",
    "MGET",
    "MSET",
    "MSETNX",
    "APPEND",
    "STRLEN",
    "GETRANGE",
    "SUBSTR",
    "SETRANGE",
    "INCR",
    "DECR",
    "INCRBY",
    "DECRBY",
    "INCRBYFLOAT",
    "DEL",
    "UNLINK",
    "EXISTS",
    "TOUCH",
    "TYPE",
    "KEYS",
    "SCAN",
    "RENAME",
    "RENAMENX",
    "COPY",
    "MOVE",
    "SELECT",
    "SWAPDB",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "TTL",
    "PTTL",
    "EXPIRETIME",
    "PEXPIRETIME",
    "PERSIST",
    "ECHO",
    "AUTH",
    "CLIENT",
    "CONFIG",
    "OBJECT",
    "EVAL",
    "EVALSHA",
    "EVAL_RO",
    "EVALSHA_RO",
    "SCRIPT",
    "DEBUG",
];

/// A name alone, or with one argument where that is too few.
fn wrong_arity(g: &mut Grammar) -> Made {
    let name = g.draw.pick(NAMES);
    let mut args = vec![g.word(name)];
    if ["SET", "SETEX", "RENAME", "COPY", "EVAL", "SETRANGE", "EXPIRE", "MOVE"].contains(&name)
        && g.draw.chance(50)
    {
        args.push(g.key());
    }
    (args, Check::Exact, false)
}

/// What no server knows.
fn unknown(g: &mut Grammar) -> Made {
    let name = g.draw.pick(&[
        &b"FOO"[..],
        b"SETT",
        b"",
        b"\x00",
        b"GET ",
        b"lock",
        b"foo\r\nbar",
        b"HSETT",
        b"COMMANDX",
        b"'quoted'",
    ]);
    let mut args = vec![name.to_vec()];
    if g.draw.chance(10) {
        args[0] = vec![b'z'; 150];
    }
    for _ in 0..g.draw.below(4) {
        args.push(g.value());
    }
    (args, Check::Exact, false)
}
