//! Locks with and without scripts, over TCP: each lock of the lesson in two forms, held to the same
//! answers; what a conditional write means for WATCH, transactions and scripts. Not here: each
//! command's every case (beside the commands).

mod common;

use common::{Client, Server, is_keylatch};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/// How a lock is released and renewed.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// As in the lesson.
    Script,
    /// Redis 8.4 and, with DELEX, Valkey 9.2.
    Delex,
    /// Valkey 9.0.
    Delifeq,
    /// Renewed by EXPIRE's condition, which only keylatch has.
    Expire,
}

const FORMS: [Form; 4] = [Form::Script, Form::Delex, Form::Delifeq, Form::Expire];

impl Form {
    fn release(self, client: &mut Client, key: &str, token: &str) -> bool {
        let answer = match self {
            Form::Script => client.call(&["EVAL", RELEASE, "1", key, token]),
            Form::Delex | Form::Expire => client.call(&["DELEX", key, "IFEQ", token]),
            Form::Delifeq => client.call(&["DELIFEQ", key, token]),
        };
        match answer.as_str() {
            ":1" => true,
            ":0" => false,
            other => panic!("{self:?}: released with {other}"),
        }
    }

    fn renew(self, client: &mut Client, key: &str, token: &str, ms: &str) -> bool {
        let answer = match self {
            Form::Script => client.call(&["EVAL", RENEW, "1", key, token, ms]),
            // The value is written again, as itself, with a new deadline.
            Form::Delex | Form::Delifeq => client.call(&["SET", key, token, "IFEQ", token, "PX", ms]),
            Form::Expire => client.call(&["PEXPIRE", key, ms, "IFEQ", token]),
        };
        match answer.as_str() {
            ":1" | "+OK" => true,
            ":0" | "$-1" => false,
            other => panic!("{self:?}: renewed with {other}"),
        }
    }
}

fn left(client: &mut Client, key: &str) -> i64 {
    client.value(&["PTTL", key]).int().expect("PTTL is an integer")
}

/// The lesson's locks, step by step; each form gives the same answers at each step.
#[test]
fn each_lock_of_the_lesson_in_each_form() {
    if !is_keylatch() {
        return;
    }
    let server = Server::start(&[]);
    let (mut a, mut b) = (server.client(), server.client());
    for form in FORMS {
        assert_eq!(a.say("FLUSHALL"), "+OK");
        // Verified release: a stranger changes nothing, the owner's release counts once.
        assert_eq!(a.say("SET lock:1003 clientA-9f8e NX PX 30000"), "+OK", "{form:?}");
        assert_eq!(b.say("SET lock:1003 clientB NX PX 30000"), "$-1", "{form:?}");
        assert!(!form.release(&mut b, "lock:1003", "clientB-wrong-token"), "{form:?}");
        assert_eq!(b.say("GET lock:1003"), "$12\r\nclientA-9f8e", "{form:?}");
        assert!((29_000..=30_000).contains(&left(&mut b, "lock:1003")), "{form:?}");
        assert!(form.release(&mut a, "lock:1003", "clientA-9f8e"), "{form:?}");
        assert!(!form.release(&mut a, "lock:1003", "clientA-9f8e"), "{form:?}");
        assert_eq!(a.say("GET lock:1003"), "$-1", "{form:?}");
        // Verified renewal: the owner's deadline moves, a stranger's request leaves it.
        assert_eq!(a.say("SET lock:77 worker-7-9c21 NX PX 20000"), "+OK", "{form:?}");
        assert!(form.renew(&mut a, "lock:77", "worker-7-9c21", "45000"), "{form:?}");
        assert!((44_000..=45_000).contains(&left(&mut a, "lock:77")), "{form:?}");
        assert!(!form.renew(&mut b, "lock:77", "worker-8-0000", "90000"), "{form:?}");
        assert!((40_000..=45_000).contains(&left(&mut a, "lock:77")), "{form:?}");
        // A lock that is gone is neither renewed nor made anew.
        assert_eq!(a.say("DEL lock:77"), ":1", "{form:?}");
        assert!(!form.renew(&mut a, "lock:77", "worker-7-9c21", "45000"), "{form:?}");
        assert_eq!(left(&mut a, "lock:77"), -2, "{form:?}");
        // Another's lock is not released by who held it before.
        assert_eq!(b.say("SET lock:77 worker-8-0000 NX PX 20000"), "+OK", "{form:?}");
        assert!(!form.release(&mut a, "lock:77", "worker-7-9c21"), "{form:?}");
        assert_eq!(b.say("GET lock:77"), "$13\r\nworker-8-0000", "{form:?}");
    }
}

/// A conditional write is for WATCH what it did: nothing, or a change.
#[test]
fn a_refused_write_breaks_no_watch() {
    if !is_keylatch() {
        return;
    }
    let server = Server::start(&[]);
    let (mut watcher, mut other) = (server.client(), server.client());
    let cases = [
        ("SET k v2 IFEQ other", false),
        ("SET k v2 IFEQ other GET", false),
        ("SET k v2 IFEQ v", true),
        ("SET k v2 IFDNE 0000000000000000", true),
        ("DELEX k IFEQ other", false),
        ("DELEX k IFEQ v", true),
        ("DELIFEQ k other", false),
        ("DELIFEQ k v", true),
        ("PEXPIRE k 5000 IFEQ other", false),
        ("PEXPIRE k 5000 IFEQ v", true),
        ("MSETEX 2 k 1 free 1 NX", false),
        ("MSETEX 2 k 1 k2 1", true),
        ("PFCOUNT h", true),
        ("PFCOUNT k2", false),
        ("SETBIT bits 0 0", false),
        ("SETBIT bits 0 1", true),
    ];
    for (command, breaks) in cases {
        for setup in ["FLUSHALL", "SET k v", "PFADD h a", "SETBIT bits 3 0", "WATCH k k2 h bits", "MULTI"] {
            let answer = watcher.say(setup);
            assert!(!answer.starts_with('-'), "{setup}: {answer}");
        }
        assert_eq!(watcher.say("PING"), "+QUEUED");
        other.say(command);
        let wanted = if breaks { "*-1" } else { "*1\r\n+PONG" };
        assert_eq!(watcher.say("EXEC"), wanted, "{command}");
    }
}

/// Scripts and transactions meet the conditions as clients do.
#[test]
fn in_scripts_and_transactions() {
    if !is_keylatch() {
        return;
    }
    let server = Server::start(&[]);
    let mut client = server.client();
    assert_eq!(client.say("SET k v"), "+OK");
    let call = |client: &mut Client, script: &str| client.call(&["EVAL", script, "1", "k"]);
    assert_eq!(call(&mut client, "return redis.call('SET', KEYS[1], 'w', 'IFEQ', 'x')"), "$-1");
    assert_eq!(call(&mut client, "return redis.call('SET', KEYS[1], 'w', 'IFEQ', 'v')"), "+OK");
    assert_eq!(call(&mut client, "return redis.call('DELEX', KEYS[1], 'IFEQ', 'v')"), ":0");
    assert_eq!(call(&mut client, "return redis.call('DIGEST', KEYS[1])"), client.call(&["DIGEST", "k"]));
    assert_eq!(client.say("MULTI"), "+OK");
    for command in ["SET k x IFEQ w", "SET k y IFEQ w", "DELIFEQ k x"] {
        assert_eq!(client.say(command), "+QUEUED");
    }
    assert_eq!(client.say("EXEC"), "*3\r\n+OK\r\n$-1\r\n:1");
}

/// A client that offers what only newer servers know is told so, and goes on.
#[test]
fn unknown_to_the_reported_version() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.raw(
        b"*4\r\n$6\r\nCLIENT\r\n$19\r\nMAINT_NOTIFICATIONS\r\n$2\r\nON\r\n$1\r\nx\r\n*1\r\n$4\r\nPING\r\n",
    );
    let frames: Vec<String> =
        (0..2).map(|_| String::from_utf8_lossy(&client.frame().expect("a reply")).into_owned()).collect();
    assert_eq!(frames, ["-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n", "+PONG\r\n"]);
}

/// What is reported is a parameter; everything that tells a version tells that one.
#[test]
fn one_reported_version() {
    if !is_keylatch() {
        return;
    }
    for version in ["7.0.15", "8.4.0"] {
        let server = Server::start(&["--compat-version", version]);
        let mut client = server.client();
        let info = client.call(&["INFO", "server"]);
        assert!(info.contains(&format!("redis_version:{version}\r\n")), "{info}");
        assert!(client.call(&["HELLO"]).contains(&format!("version\r\n${}\r\n{version}", version.len())));
        assert!(client.call(&["LOLWUT"]).contains(version));
        let script = "return redis.REDIS_VERSION";
        assert_eq!(client.call(&["EVAL", script, "0"]), format!("${}\r\n{version}", version.len()));
        let number = version.split('.').fold(0, |n, part| n * 256 + part.parse::<u32>().expect("digits"));
        let script = "return redis.REDIS_VERSION_NUM";
        assert_eq!(client.call(&["EVAL", script, "0"]), format!(":{number}"));
        // Newer commands are there whatever is reported.
        assert_eq!(client.say("SET k v IFNE x"), "+OK");
        assert_eq!(client.say("DELEX k IFEQ v"), ":1");
    }
}

/// Every way by which a command reaches the server.
#[derive(Clone, Copy, Debug)]
enum By {
    Itself,
    Script,
    Transaction,
}

fn run_by(client: &mut Client, by: By, command: &str) {
    let said = match by {
        By::Itself => client.say(command),
        By::Script => client.say(&format!("EVAL return(redis.call(unpack(ARGV))) 1 k {command}")),
        By::Transaction => {
            assert_eq!(client.say("MULTI"), "+OK");
            assert_eq!(client.say(command), "+QUEUED", "{command}");
            client.say("EXEC")
        }
    };
    assert!(!said.contains("-ERR"), "{by:?}: {command}: {said}");
}

/// Subscribers, trackers and monitors see a conditional write as what it did: a refused one is a
/// command that was run, and nothing else.
#[test]
fn a_conditional_write_is_told_as_what_it_did() {
    if !is_keylatch() {
        return;
    }
    let server = Server::start(&["--notify-keyspace-events", "Eg$x"]);
    let (mut actor, mut listener) = (server.client(), server.client());
    let (mut tracker, mut monitor) = (server.client(), server.client());
    assert!(listener.say("PSUBSCRIBE __keyevent@0__:*").starts_with("*3"));
    assert!(tracker.say("HELLO 3").starts_with('%'));
    assert_eq!(tracker.say("CLIENT TRACKING ON"), "+OK");
    let cases: &[(&str, &[&str])] = &[
        ("SET k w IFEQ other", &[]),
        ("SET k w IFEQ other GET", &[]),
        ("SET k w IFEQ v", &["set"]),
        ("SET k w IFEQ v PX 5000", &["set", "expire"]),
        ("SET k w IFNE v", &[]),
        ("SET k w IFNE other", &["set"]),
        ("SET k w IFDEQ 0000000000000000", &[]),
        ("SET k w IFDNE 0000000000000000", &["set"]),
        ("DELEX k IFEQ other", &[]),
        ("DELEX k IFNE v", &[]),
        ("DELEX k IFDEQ 0000000000000000", &[]),
        ("DELEX k IFEQ v", &["del"]),
        ("DELEX k IFDNE 0000000000000000", &["del"]),
        ("DELIFEQ k other", &[]),
        ("DELIFEQ k v", &["del"]),
        ("MSETEX 2 free 1 k 1 NX", &[]),
        ("MSETEX 2 k 1 none 1 XX", &[]),
        ("MSETEX 1 k 1", &["set"]),
        ("MSETEX 1 k 1 XX PX 5000", &["set", "expire"]),
        ("PEXPIRE k 5000 IFEQ other", &[]),
        ("PEXPIRE k 5000 IFEQ v", &["expire"]),
        ("EXPIRE k -1 IFEQ other", &[]),
        ("EXPIRE k -1 IFEQ v", &["del"]),
        ("GETEX k", &[]),
        ("GETEX k PERSIST", &[]),
        ("GETEX k PX 5000", &["expire"]),
        ("DIGEST k", &[]),
    ];
    for by in [By::Itself, By::Script, By::Transaction] {
        for (command, events) in cases {
            assert_eq!(actor.say("FLUSHALL"), "+OK");
            assert_eq!(actor.say("SET k v"), "+OK");
            assert_eq!(actor.say("PUBLISH __keyevent@0__:begin x"), ":1");
            while !listener.frame().is_some_and(|frame| String::from_utf8_lossy(&frame).contains(":begin")) {}
            tracker.send(&["GET", "k"]);
            while tracker.frame().expect("a reply") != b"$1\r\nv\r\n" {}
            assert_eq!(monitor.say("MONITOR"), "+OK");

            run_by(&mut actor, by, command);

            assert_eq!(actor.say("PUBLISH __keyevent@0__:end x"), ":1");
            let mut told = Vec::new();
            loop {
                let frame = listener.value(&["PING"]);
                let words = frame.items().expect("a message").to_vec();
                match words.get(2).map(common::resp::Value::text) {
                    Some(channel) if channel.ends_with(":end") => break,
                    Some(channel) => told.push(channel.rsplit(':').next().unwrap_or_default().to_owned()),
                    None => {} // the answer to a PING
                }
            }
            assert_eq!(&told, events, "{by:?}: {command}");
            // What was read is forgotten where it changed.
            tracker.send(&["PING"]);
            let first = tracker.frame().expect("a frame");
            let forgotten = first.starts_with(b">2\r\n$10\r\ninvalidate");
            assert_eq!(forgotten, !events.is_empty(), "{by:?}: {command}");
            if forgotten {
                assert_eq!(tracker.frame().expect("a reply"), b"+PONG\r\n");
            }
            // Whoever watches the server sees the command either way.
            let quoted = command.split(' ').map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ");
            let shown = common::until("the command", || {
                let line = String::from_utf8_lossy(&monitor.frame()?).into_owned();
                line.contains("] ").then_some(line.clone()).filter(|line| line.contains(&quoted))
            });
            assert!(shown.starts_with('+'), "{shown}");
            monitor = server.client();
        }
    }
}
