//! What COMMAND says, beside redis-server: every entry that both have, and the keys of requests that
//! are hard to read. Not here: what commands do (`differential`), COMMAND DOCS (compared there).

mod common;

use common::resp::Value;
use common::{Client, Server};

fn pair() -> (Server, Server) {
    (Server::start(&["--compat-version", "7.0.15"]), Server::redis(&[]))
}

fn names(client: &mut Client) -> Vec<String> {
    let listed = client.value(&["COMMAND", "LIST", "FILTERBY", "PATTERN", "*"]);
    listed.items().expect("a list").iter().map(Value::text).collect()
}

/// Without notes, which are in our own words, and with subcommands by name: Redis lists them in
/// another order at each start.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) | Value::Set(items) => {
            let mut items: Vec<Value> = items.iter().map(plain).collect();
            if let Some(at) = items.iter().position(|item| item.bytes() == Some(b"notes")) {
                items.drain(at..at + 2);
            }
            let subcommand = |item: &Value| {
                let name = item.items().and_then(|entry| entry.first()).and_then(Value::bytes);
                name.is_some_and(|name| name.contains(&b'|'))
            };
            if items.iter().any(subcommand) {
                items.sort();
            }
            if matches!(value, Value::Set(_)) { Value::Set(items) } else { Value::Array(items) }
        }
        Value::Map(pairs) => {
            let kept = pairs.iter().filter(|(name, _)| name.bytes() != Some(b"notes"));
            Value::Map(kept.map(|(name, value)| (name.clone(), plain(value))).collect())
        }
        other => other.clone(),
    }
}

/// Drops a container's subcommands that only one side has.
fn shared(entry: &mut Value, known: &[String]) {
    let Value::Array(fields) = entry else { return };
    if let Some(Value::Array(subs) | Value::Set(subs)) = fields.last_mut() {
        subs.retain(|sub| {
            let name = sub.items().and_then(|sub| sub.first()).map(Value::text);
            name.is_some_and(|name| known.contains(&name))
        });
    }
}

#[test]
fn entries_are_redis_servers() {
    let (ours, theirs) = pair();
    let (mut ours, mut theirs) = (ours.client(), theirs.client());
    let known = names(&mut theirs);
    let both: Vec<String> = names(&mut ours).into_iter().filter(|name| known.contains(name)).collect();
    assert!(both.len() > 100, "only {} commands in common", both.len());
    let mut wrong = Vec::new();
    for protocol in ["2", "3"] {
        ours.say(&format!("HELLO {protocol}"));
        theirs.say(&format!("HELLO {protocol}"));
        for name in &both {
            let asked = ["COMMAND", "INFO", name];
            let entry = |client: &mut Client| {
                let reply = plain(&client.value(&asked));
                let mut entry = reply.items().expect("an array")[0].clone();
                shared(&mut entry, &both);
                entry
            };
            let (saw, wanted) = (entry(&mut ours), entry(&mut theirs));
            if saw != wanted {
                wrong.push(format!("{name}, RESP{protocol}\n  wanted {wanted:?}\n  saw    {saw:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn keys_are_read_off_requests_as_redis_server_does() {
    let (ours, theirs) = pair();
    let (mut ours, mut theirs) = (ours.client(), theirs.client());
    let mut wrong = Vec::new();
    for request in [
        "get k",
        "GeT k",
        "get",
        "get a b",
        "nosuch k",
        "ping",
        "config get x",
        "config nosuch x",
        "del a b c",
        "mset a 1 b 2",
        "mset a 1 b",
        "set k v",
        "set k v get",
        "set k get",
        "set k v nx GET",
        "set k v ex 5",
        "bitfield k",
        "bitfield k get u8 0",
        "bitfield k get u8",
        "bitfield k set u8 0 1",
        "bitfield k overflow wrap get u8 0",
        "bitfield k overflow",
        "bitfield k get u8 0 incrby u8 0 1",
        "bitfield k get u8 0 x",
        "bitop and d a b",
        "bitop not d",
        "pfmerge d",
        "pfmerge d s t",
        "pfcount a b",
        "sort k",
        "sort k store d",
        "sort k store d store e",
        "sort k store",
        "sort k by store store d",
        "sort k get # store d",
        "sort k limit 0 store d",
        "sort k limit store d store e",
        "sort_ro k by x",
        "eval s 0",
        "eval s 1 k",
        "eval s 2 k",
        "eval s 2 k l m",
        "eval s x k",
        "eval s 1x k",
        "eval s -1 k",
        "eval_ro s 1 k",
        "evalsha s 1 k",
        "evalsha_ro s 1 k",
        "fcall f 1 k",
        "fcall_ro f 1 k a",
        "fcall f +1 k",
        "rename a b",
        "copy a b",
        "copy a b db 1",
        "lcs a b",
        "object encoding k",
        "object help x",
        "memory usage k",
        "memory doctor x",
        "client list x",
        "restore k 0 x",
        "getex k",
        "getdel k",
        "scan 0",
    ] {
        for verb in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let line = format!("COMMAND {verb} {request}");
            let (saw, wanted) = (ours.say(&line), theirs.say(&line));
            if saw != wanted {
                wrong.push(format!("{line}\n  wanted {wanted:?}\n  saw    {saw:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What CLIENT LIST shows of another client after it has said `lines`.
fn shown(server: &Server, lines: &[&str]) -> String {
    let (mut watched, mut watcher) = (server.client(), server.client());
    let id = watched.say("CLIENT ID").trim_start_matches(':').to_owned();
    lines.iter().for_each(|line| drop(watched.say(line)));
    let listed = watcher.value(&["CLIENT", "LIST", "ID", &id]).text();
    let kept = ["flags=", "db=", "multi=", "cmd=", "resp=", "name="];
    let words = listed.split_whitespace().filter(|word| kept.iter().any(|field| word.starts_with(field)));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_client_is_shown_with_its_last_command() {
    let (ours, theirs) = pair();
    for lines in [
        &["PING"][..],
        &["NOSUCH"],
        &["PING", "GET"],
        &["OBJECT ENCODING k"],
        &["OBJECT NOSUCH k"],
        &["CLIENT"],
        &["MULTI", "GET k"],
        &["MULTI", "GET k", "EXEC"],
        &["MULTI", "DISCARD"],
        &["EVAL return 0"],
        &["SELECT 3", "CLIENT SETNAME me"],
        &["HELLO 3"],
        &["HELLO 3", "RESET"],
        &["CLIENT NO-EVICT on"],
        &["WATCH k", "SET k 1"],
    ] {
        assert_eq!(shown(&ours, lines), shown(&theirs, lines), "after {lines:?}");
    }
    let mut client = ours.client();
    let own = client.value(&["CLIENT", "INFO"]).text();
    assert!(own.contains(" cmd=client|info "), "{own}");
}

/// Libraries are data: what changes them counts as a change, what is refused or only reads does not.
#[test]
fn changes_of_libraries_count() {
    let (ours, theirs) = pair();
    let count = |client: &mut Client| {
        let info = client.value(&["INFO", "persistence"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
        line.expect("the field").trim().parse::<u64>().expect("a number")
    };
    let code = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    let steps: &[&[&str]] = &[
        &["FUNCTION", "FLUSH"],
        &["FUNCTION", "LOAD", code],
        &["FUNCTION", "LOAD", code],
        &["FUNCTION", "LOAD", "REPLACE", code],
        &["FUNCTION", "LIST"],
        &["FUNCTION", "RESTORE", "nonsense"],
        &["FCALL", "f", "0"],
        &["FUNCTION", "DELETE", "l"],
        &["FUNCTION", "DELETE", "l"],
        &["FUNCTION", "FLUSH", "SYNC"],
        &["SCRIPT", "FLUSH"],
    ];
    let counts = |server: &Server| {
        let mut client = server.client();
        let after = |step: &&[&str]| {
            client.value(step);
            count(&mut client)
        };
        steps.iter().map(after).collect::<Vec<_>>()
    };
    assert_eq!(counts(&ours), counts(&theirs));
    assert_eq!(counts(&ours).last(), Some(&10), "two rounds of five");
}

/// ACL shows the password by its digest, in RESP2 and RESP3.
#[test]
fn acl_shows_what_requirepass_says() {
    let (ours, theirs) = pair();
    let answers = |server: &Server| {
        let mut client = server.client();
        let mut answers = Vec::new();
        for password in ["", "a secret"] {
            client.value(&["CONFIG", "SET", "requirepass", password]);
            for protocol in ["2", "3"] {
                client.value(&["HELLO", protocol]);
                answers.push(client.value(&["ACL", "GETUSER", "default"]));
                answers.push(client.value(&["ACL", "GETUSER", "nobody"]));
                answers.push(client.value(&["ACL", "LIST"]));
            }
        }
        let lengths = ["1", "5", "256", "4096"].map(|n| client.value(&["ACL", "GENPASS", n]).text().len());
        assert_eq!(lengths, [1, 2, 64, 1024]);
        answers
    };
    assert_eq!(answers(&ours), answers(&theirs));
}
