//! The commands on the connection and the server. Not here: commands on keys (`keys.rs`), scripts
//! (`scripts.rs`), and what ends a connection or changes how many replies there are (tests/protocol).

use crate::check::Check;
use crate::grammar::{Bytes, Grammar};
use crate::keys::{Made, exact};

fn words(words: &str) -> Vec<Bytes> {
    words.split_whitespace().map(Into::into).collect()
}

fn fixed(text: &str, check: Check) -> Made {
    (words(text), check, false)
}

pub fn any(g: &mut Grammar) -> Made {
    match g.draw.below(10) {
        0..3 => connection(g),
        3..5 => client(g),
        5..7 => command(g),
        7 => config(g),
        _ => server(g),
    }
}

fn connection(g: &mut Grammar) -> Made {
    match g.draw.below(12) {
        0 => exact(vec![g.word("PING")]),
        1 => exact(vec![g.word("PING"), g.value()]),
        2 => exact(vec![g.word("ECHO"), g.value()]),
        3 => fixed("RESET", Check::Exact),
        4..7 => fixed(
            g.draw.pick(&[
                "HELLO",
                "HELLO 2",
                "HELLO 3",
                "HELLO 3 SETNAME me",
                "HELLO 2 AUTH default x",
                "HELLO 3 AUTH default x SETNAME you",
                "hello 3",
                "HELLO 2 SETNAME",
            ]),
            Check::Hello,
        ),
        7 => fixed(
            g.draw.pick(&[
                "HELLO 4",
                "HELLO 1",
                "HELLO x",
                "HELLO 3 FOO",
                "HELLO 2 AUTH default",
                "HELLO 3 AUTH nobody x",
                "HELLO 9223372036854775808",
                "HELLO 2 SETNAME a SETNAME b FOO",
            ]),
            Check::Exact,
        ),
        8 => fixed(g.draw.pick(&["AUTH x", "AUTH default x", "AUTH nobody x", "AUTH a b c"]), Check::Exact),
        9 => acl(g),
        10 => fixed(g.draw.pick(&["TIME", "LOLWUT", "LOLWUT VERSION 5 1 1 1"]), Check::Kind),
        _ => fixed("PING a b", Check::Exact),
    }
}

fn acl(g: &mut Grammar) -> Made {
    match g.draw.below(4) {
        0 => fixed("ACL GENPASS", Check::Kind),
        // A category of which keylatch has each command.
        1 => fixed("ACL CAT transaction", Check::Unordered),
        _ => fixed(
            g.draw.pick(&[
                "ACL WHOAMI",
                "ACL WHOAMI x",
                "ACL CAT",
                "ACL CAT nosuch",
                "ACL CAT string x",
                "ACL LIST",
                "ACL USERS",
                "ACL GETUSER default",
                "ACL GETUSER nobody",
                "ACL GETUSER",
                "ACL GENPASS 0",
                "ACL GENPASS 4097",
                "ACL GENPASS abc",
                "ACL GENPASS 1 2",
                "ACL FOO",
                "ACL",
            ]),
            Check::Exact,
        ),
    }
}

fn client(g: &mut Grammar) -> Made {
    match g.draw.below(10) {
        0 => fixed("CLIENT ID", Check::Any),
        1 => fixed("CLIENT GETNAME", Check::Exact),
        2 => exact(vec![g.word("CLIENT"), g.word("SETNAME"), g.value()]),
        3 => {
            fixed(g.draw.pick(&["CLIENT INFO", "CLIENT LIST", "CLIENT LIST TYPE normal"]), Check::ClientLine)
        }
        4 => fixed(
            g.draw.pick(&[
                "CLIENT LIST TYPE foo",
                "CLIENT LIST FOO",
                "CLIENT LIST TYPE pubsub",
                "CLIENT LIST TYPE master",
                "CLIENT LIST ID",
                "CLIENT LIST ID abc",
                "CLIENT LIST ID 999999999",
                "CLIENT LIST TYPE",
            ]),
            Check::Exact,
        ),
        5 => fixed(
            g.draw.pick(&[
                "CLIENT KILL 1.2.3.4:5",
                "CLIENT KILL ID 999999999",
                "CLIENT KILL ID abc",
                "CLIENT KILL ID -1",
                "CLIENT KILL TYPE foo",
                "CLIENT KILL TYPE pubsub",
                "CLIENT KILL ADDR 1.2.3.4:5",
                "CLIENT KILL LADDR 1.2.3.4:5",
                "CLIENT KILL USER nobody",
                "CLIENT KILL USER default SKIPME yes ID 999999999",
                "CLIENT KILL SKIPME maybe",
                "CLIENT KILL ID",
                "CLIENT KILL ID 1 2",
                "CLIENT KILL FOO bar",
                "CLIENT KILL TYPE normal ID 999999999",
            ]),
            Check::Exact,
        ),
        6 => fixed(
            g.draw.pick(&[
                "CLIENT NO-EVICT on",
                "CLIENT NO-EVICT OFF",
                "CLIENT NO-EVICT x",
                "CLIENT NO-EVICT",
                "CLIENT REPLY ON",
                "CLIENT REPLY foo",
                "CLIENT REPLY",
            ]),
            Check::Exact,
        ),
        7 => fixed("CLIENT HELP", Check::Kind),
        8 => fixed(
            g.draw.pick(&["CLIENT FOO", "CLIENT GETNAME x", "CLIENT SETNAME", "CLIENT ID 1"]),
            Check::Exact,
        ),
        _ => exact(vec![g.word("CLIENT"), g.word("SETNAME"), b"name".to_vec()]),
    }
}

/// Commands whose argument tree Redis names in ways that no synopsis line tells (a block called
/// `new-format`, a double called `increment`); see docs/differences.md.
const OTHERWISE_DOCUMENTED: &[&str] = &[
    "bitcount",
    "bitfield",
    "bitfield_ro",
    "bitop",
    "bitpos",
    "client|kill",
    "client|list",
    "command|list",
    "config|get",
    "function|restore",
    "hello",
    "incrbyfloat",
    "lcs",
    "pfmerge",
    "script|debug",
    "setbit",
    "shutdown",
    "sort",
    "sort_ro",
];

/// Commands whose entry is compared in full.
const KNOWN: &[&str] = &[
    "acl|cat",
    "acl|genpass",
    "acl|getuser",
    "acl|help",
    "acl|list",
    "acl|users",
    "acl|whoami",
    "set",
    "get",
    "getex",
    "getdel",
    "getset",
    "setnx",
    "setex",
    "psetex",
    "mget",
    "mset",
    "msetnx",
    "append",
    "strlen",
    "getrange",
    "substr",
    "setrange",
    "incr",
    "decr",
    "incrby",
    "decrby",
    "incrbyfloat",
    "del",
    "unlink",
    "exists",
    "touch",
    "type",
    "keys",
    "scan",
    "dbsize",
    "randomkey",
    "rename",
    "renamenx",
    "copy",
    "move",
    "select",
    "swapdb",
    "flushdb",
    "flushall",
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "persist",
    "ping",
    "echo",
    "hello",
    "auth",
    "quit",
    "reset",
    "time",
    "shutdown",
    "lolwut",
    "eval",
    "evalsha",
    "eval_ro",
    "evalsha_ro",
    "object|encoding",
    "script|load",
    "script|exists",
    "script|flush",
    "config|get",
    "config|set",
    "client|id",
    "client|setname",
    "object|freq",
];

fn command(g: &mut Grammar) -> Made {
    match g.draw.below(12) {
        0 => fixed("COMMAND COUNT", Check::Kind),
        1..4 => {
            let mut args = words("COMMAND INFO");
            args.extend(g.several(3, |g| (g.draw.pick(KNOWN)).into()));
            (args, Check::CommandInfo, false)
        }
        4 => fixed(
            g.draw.pick(&["COMMAND INFO nosuch", "COMMAND DOCS nosuch", "COMMAND FOO", "COMMAND COUNT x"]),
            Check::Exact,
        ),
        5..7 => {
            let mut args = words("COMMAND DOCS");
            let known = g.draw.pick(KNOWN);
            args.push((if OTHERWISE_DOCUMENTED.contains(&known) { "get" } else { known }).into());
            (args, Check::Docs, false)
        }
        7 => fixed("COMMAND HELP", Check::Kind),
        8 => fixed(
            g.draw.pick(&[
                "COMMAND LIST FILTERBY PATTERN expire*",
                "COMMAND LIST FILTERBY PATTERN gete*",
                "COMMAND LIST FILTERBY PATTERN nosuch*",
                "COMMAND LIST FILTERBY ACLCAT nosuch",
                "COMMAND LIST FILTERBY MODULE nosuch",
                "COMMAND LIST FOO",
                "COMMAND LIST FILTERBY FOO x",
                "COMMAND LIST FILTERBY PATTERN",
            ]),
            Check::Unordered,
        ),
        _ => {
            let mut args = words("COMMAND GETKEYS");
            args.extend(words(g.draw.pick(&[
                "SET a b",
                "GET a",
                "MSET a 1 b 2",
                "MGET a b c",
                "DEL a",
                "EVAL x 2 a b c",
                "EVAL x 0",
                "EVALSHA x 1 a",
                "RENAME a b",
                "COPY a b",
                "PING",
                "NOSUCH a",
                "SET a",
                "MSET",
                "EVAL x abc",
                "EVAL x 9 a",
                "OBJECT ENCODING a",
                "EXPIRE a 1",
                "TOUCH a b",
                "SCAN 0",
                "MSETNX a 1",
                "EVAL_RO x 1 k",
                "EVAL x -1",
                "KEYS *",
                "RANDOMKEY",
            ])));
            (args, Check::Exact, false)
        }
    }
}

fn config(g: &mut Grammar) -> Made {
    let text = g.draw.pick(&[
        "CONFIG GET maxmemory",
        "CONFIG GET hz",
        "CONFIG GET timeout",
        "CONFIG GET databases",
        "CONFIG GET MAXMEMORY",
        "CONFIG GET nosuch",
        "CONFIG GET maxmemory hz",
        "CONFIG GET maxmemory*",
        "CONFIG GET proto-max-bulk-len",
        "CONFIG GET lua-time-limit",
        "CONFIG GET busy-reply-threshold",
        "CONFIG GET maxmemory-policy",
        "CONFIG GET notify-keyspace-events",
        "CONFIG GET client-output-buffer-limit",
        "CONFIG GET save",
        "CONFIG GET appendonly",
        "CONFIG GET requirepass",
        "CONFIG GET active-expire-effort",
        "CONFIG GET tcp-keepalive",
        "CONFIG GET tcp-backlog",
        "CONFIG GET client-query-buffer-limit",
        "CONFIG GET unixsocketperm",
        "CONFIG GET loglevel",
        "CONFIG GET protected-mode",
        "CONFIG GET daemonize",
        "CONFIG GET enable-debug-command",
        "CONFIG GET [",
        "CONFIG GET",
        "CONFIG SET timeout 0",
        "CONFIG SET timeout -1",
        "CONFIG SET timeout abc",
        "CONFIG SET hz 10",
        "CONFIG SET hz abc",
        "CONFIG SET hz 9223372036854775808",
        "CONFIG SET nosuch 1",
        "CONFIG SET databases 32",
        "CONFIG SET maxmemory 0",
        "CONFIG SET maxmemory 100gb",
        "CONFIG SET maxmemory -1",
        "CONFIG SET maxmemory 1x",
        "CONFIG SET maxmemory 1xb",
        "CONFIG SET maxmemory-policy noeviction",
        "CONFIG SET maxmemory-policy foo",
        "CONFIG SET loglevel foo",
        "CONFIG SET loglevel notice",
        "CONFIG SET notify-keyspace-events KEx",
        "CONFIG SET notify-keyspace-events \"\"",
        "CONFIG SET notify-keyspace-events Q",
        "CONFIG SET active-expire-effort 11",
        "CONFIG SET active-expire-effort 1",
        "CONFIG SET timeout 0 hz 10",
        "CONFIG SET timeout 0 timeout 0",
        "CONFIG SET timeout 0 nosuch 1",
        "CONFIG SET timeout",
        "CONFIG SET timeout 0 hz",
        "CONFIG SET daemonize yes",
        "CONFIG SET protected-mode maybe",
        "CONFIG SET protected-mode no",
        "CONFIG SET lua-time-limit 5000",
        "CONFIG SET busy-reply-threshold -1",
        "CONFIG SET proto-max-bulk-len 1",
        "CONFIG SET proto-max-bulk-len 512mb",
        "CONFIG SET maxclients 10000",
        "CONFIG SET maxclients 0",
        "CONFIG SET client-output-buffer-limit foo",
        "CONFIG SET port 70000",
        "CONFIG SET tcp-keepalive 300",
        "CONFIG SET enable-debug-command no",
        "CONFIG RESETSTAT",
        "CONFIG RESETSTAT x",
        "CONFIG REWRITE",
        "CONFIG FOO",
        "CONFIG HELP",
    ]);
    let check = match text {
        "CONFIG HELP" => Check::Kind,
        // A pattern may find parameters that only one of the servers has.
        "CONFIG GET maxmemory*" => Check::Kind,
        _ if text.starts_with("CONFIG GET") && text.matches(' ').count() > 2 => Check::Unordered,
        _ => Check::Exact,
    };
    fixed(text, check)
}

fn server(g: &mut Grammar) -> Made {
    match g.draw.below(8) {
        0..2 => fixed(
            g.draw.pick(&[
                "INFO keyspace",
                "INFO clients",
                "INFO nosuch",
                "INFO memory stats",
                "INFO server",
                "INFO replication",
                "INFO KEYSPACE",
                "INFO cpu",
                "INFO persistence",
            ]),
            Check::Info,
        ),
        2 => fixed(
            g.draw.pick(&[
                "DEBUG SLEEP 0",
                "DEBUG SLEEP 0.0001",
                "DEBUG SET-ACTIVE-EXPIRE 0",
                "DEBUG FOO",
                "DEBUG OBJECT",
                "DEBUG SLEEP",
                "DEBUG STRINGMATCH-LEN",
                "DEBUG LISTPACK k",
                "DEBUG QUICKLIST k",
                "DEBUG QUICKLIST k 1",
                "DEBUG QUICKLIST none",
                "DEBUG HTSTATS 99",
                "DEBUG HTSTATS -1",
                "DEBUG HTSTATS x",
                "DEBUG HTSTATS 15",
                "DEBUG HTSTATS 0 full",
                "DEBUG HTSTATS-KEY k",
                "DEBUG HTSTATS-KEY none",
                "DEBUG LEAK x",
                "DEBUG PAUSE-CRON 0",
                "DEBUG QUICKLIST-PACKED-THRESHOLD 100",
                "DEBUG QUICKLIST-PACKED-THRESHOLD 0",
                "DEBUG QUICKLIST-PACKED-THRESHOLD -1",
                "DEBUG QUICKLIST-PACKED-THRESHOLD 4gb",
                "DEBUG QUICKLIST-PACKED-THRESHOLD 4095mb",
                "DEBUG QUICKLIST-PACKED-THRESHOLD 4293918721",
                "DEBUG QUICKLIST-PACKED-THRESHOLD x",
                "MODULE LIST",
                "MODULE LOAD /none.so",
                "MODULE LOADEX /none.so CONFIG a b",
                "MODULE UNLOAD none",
                "MODULE UNLOAD",
            ]),
            Check::Exact,
        ),
        3 => (vec![g.word("DEBUG"), g.word("OBJECT"), g.key()], Check::DebugObject, false),
        4 => fixed("DEBUG HELP", Check::Kind),
        5 => fixed(
            g.draw.pick(&[
                "SHUTDOWN FOO",
                "SHUTDOWN ABORT",
                "SHUTDOWN NOSAVE SAVE",
                "SHUTDOWN ABORT NOW",
                "SHUTDOWN NOW FOO",
            ]),
            Check::Exact,
        ),
        6 => fixed(g.draw.pick(&["SCRIPT HELP", "OBJECT HELP", "MEMORY HELP"]), Check::Kind),
        _ => exact(vec![g.word("DBSIZE")]),
    }
}
