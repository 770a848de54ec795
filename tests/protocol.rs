//! The protocol's edges on raw sockets: every split, every limit, every error text, and what is owed
//! before a connection ends. Where redis-server can be asked, it is: the same bytes to both. Not
//! here: what commands mean (`differential`).

mod common;

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use common::resp::{Value, request};
use common::{Client, Server, until};

/// Sent behind each input. Unknown commands are refused before authentication is looked at, so this
/// is heard in every state.
const SENTINEL: &[u8] = b"*1\r\n$8\r\nsentinel\r\n";
const SENTINEL_REPLY: &[u8] = b"-ERR unknown command 'sentinel', with args beginning with: \r\n";

/// What a server answers to `bytes`, up to the close or to the sentinel behind them; and whether it
/// closed. An endless line gets no sentinel: whether its end is seen in time would be chance.
fn answer(server: &Server, bytes: &[u8]) -> (String, bool) {
    let mut client = server.client();
    client.raw(bytes);
    if bytes.len() < 100_000 {
        client.raw(SENTINEL);
    }
    client.stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a TCP socket");
    let mut said = Vec::new();
    while let Some(frame) = client.frame() {
        if frame == SENTINEL_REPLY {
            return (said.escape_ascii().to_string(), false);
        }
        said.extend_from_slice(&frame);
    }
    let closed = client.until_closed_or(Duration::from_millis(1));
    (said.escape_ascii().to_string() + if closed { "" } else { " and then nothing" }, closed)
}

/// The same bytes to both; fails with all that differ.
fn compare(args: &[&str], inputs: &[Vec<u8>]) {
    let (ours, theirs) = (Server::start(args), Server::redis(args));
    let mut wrong = Vec::new();
    for input in inputs {
        let (saw, wanted) = (answer(&ours, input), answer(&theirs, input));
        if saw != wanted || wanted.0.ends_with("nothing") {
            let shown = input[..input.len().min(80)].escape_ascii();
            wrong.push(format!("{shown}\n  wanted {wanted:?}\n  saw    {saw:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn inputs(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn inline_requests() {
    compare(
        &[],
        &inputs(&[
            "PING\r\n",
            "PING\n",
            "  PING  \r\n",
            "\r\n\r\nPING\r\n",
            "\n",
            "ping hello\r\n",
            "ECHO \"a b\"\r\n",
            "ECHO 'a b'\r\n",
            "ECHO \"\\x41\\n\\r\\t\\a\\b\\\\\\\"\"\r\n",
            "ECHO \"\\xzz\\q\"\r\n",
            "ECHO 'it\\'s \\n'\r\n",
            "ECHO \"\"\r\n",
            "ECHO ''\r\n",
            "ECHO a\"b c\"\r\n",
            "ECHO \"open\r\n",
            "ECHO 'open\r\n",
            "ECHO \"a\"b\r\n",
            "ECHO 'a'b\r\n",
            "\"\"\r\n",
            "\"PING\"\r\n",
            "NOSUCH a b\r\n",
            "SET k \t v\r\nGET k\r\n",
            "PING\r\r\n",
            "PING\r\n*1\r\n$4\r\nPING\r\nPING\n",
            "$4\r\nPING\r\n",
            ":1\r\n",
            "+PING\r\n",
            "GET\r\n",
            " \r\n",
            "ECHO \u{e9}\r\n",
        ]),
    );
}

#[test]
fn bad_headers() {
    compare(
        &[],
        &inputs(&[
            "*0\r\n",
            "*-1\r\n",
            "*-5\r\n",
            "*-2147483648\r\n",
            "*x\r\n",
            "*\r\n",
            "* 1\r\n",
            "*1 \r\n",
            "*+1\r\n$4\r\nPING\r\n",
            "*01\r\n$4\r\nPING\r\n",
            "*2147483648\r\n",
            "*9223372036854775808\r\n",
            "*1\r\n+PING\r\n",
            "*1\r\n:5\r\n",
            "*1\r\nPING\r\n",
            "*1\r\n\r\n",
            "*1\r\n*1\r\n",
            "*1\r\n$-1\r\n",
            "*1\r\n$x\r\n",
            "*1\r\n$\r\n",
            "*1\r\n$ 4\r\nPING\r\n",
            "*1\r\n$+4\r\nPING\r\n",
            "*1\r\n$04\r\nPING\r\n",
            "*1\r\n$536870913\r\n",
            "*1\r\n$9223372036854775808\r\n",
            "*1\r\n$4\r\nPINGxx",
            "*1\r\n$0\r\n\r\n",
            "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
            "*1\r\n$4\r\nPING\r\n*x\r\n",
            "*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$-7\r\n*1\r\n$4\r\nPING\r\n",
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n\0\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
            "*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
            "QUIT\r\nPING\r\n",
            "QUIT now\r\n",
        ]),
    );
}

#[test]
fn long_lines() {
    let line = |prefix: &str, n: usize, end: &str| {
        let mut bytes = prefix.as_bytes().to_vec();
        bytes.resize(n, b'1');
        bytes.extend_from_slice(end.as_bytes());
        bytes
    };
    // Inputs that stop the parser before the echo behind them: far over the limit, without an end.
    compare(
        &[],
        &[
            line("ECHO ", 60_000, "\r\n"),
            line("ECHO ", 150_000, ""),
            line("*", 150_000, ""),
            line("*1\r\n$", 150_000, ""),
            line("*", 1_000, "\r\n"),
            line("*1\r\n$", 1_000, "\r\n"),
        ],
    );
}

#[test]
fn before_authentication() {
    let bulk = |n: usize| {
        let mut bytes = format!("*2\r\n$4\r\nECHO\r\n${n}\r\n").into_bytes();
        bytes.resize(bytes.len() + n, b'x');
        bytes.extend_from_slice(b"\r\n");
        bytes
    };
    let mut all = inputs(&[
        "PING\r\n",
        "GET k\r\n",
        "GET\r\n",
        "NOSUCH\r\n",
        "HELLO 3\r\n",
        "HELLO\r\n",
        "HELLO 9\r\n",
        "QUIT\r\n",
        "RESET\r\n",
        "AUTH\r\n",
        "AUTH wrong\r\n",
        "AUTH default wrong\r\n",
        "AUTH nobody secret\r\n",
        "AUTH default secret\r\nPING\r\n",
        "AUTH secret\r\nGET k\r\n",
        "AUTH secret\r\nRESET\r\nGET k\r\n",
        "HELLO 2 AUTH default wrong\r\nPING\r\n",
        "MULTI\r\nEXEC\r\n",
        "CLIENT ID\r\n",
        "CLIENT NOSUCH\r\n",
        "COMMAND COUNT\r\n",
        "*10\r\n$4\r\nPING\r\n",
        "*11\r\n$4\r\nPING\r\n",
        "*1\r\n$16385\r\n",
        "AUTH secret\r\n*11\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n",
    ]);
    // Ten announced arguments of which one comes would swallow the echo: give the other nine.
    all[21] = request(&["PING"; 10]);
    all.push(bulk(16_384));
    all.push(bulk(16_385));
    compare(&["--requirepass", "secret"], &all);
}

/// Requests of every form, and the replies to all of them.
const MIXED: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\nPING\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nECHO \"x y\"\n*0\r\n*1\r\n$6\r\nDBSIZE\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n";
const MIXED_REPLIES: &[u8] = b"+OK\r\n+PONG\r\n$4\r\na\r\nb\r\n$3\r\nx y\r\n:1\r\n$-1\r\n";

#[test]
fn split_at_every_byte() {
    let server = Server::start(&[]);
    // All first halves go out before any second half, so that no two arrive in one read.
    let mut clients: Vec<(usize, Client)> = (1..MIXED.len()).map(|at| (at, server.client())).collect();
    for (at, client) in &mut clients {
        client.raw(&MIXED[..*at]);
    }
    // Whoever is answered now has had its bytes read before.
    server.client().say("PING");
    for (at, client) in &mut clients {
        client.raw(&MIXED[*at..]);
        client.stream.shutdown(Shutdown::Write).expect("a socket can be half closed");
        let said = client.until_closed();
        assert_eq!(
            said.escape_ascii().to_string(),
            MIXED_REPLIES.escape_ascii().to_string(),
            "split at {at}"
        );
    }
}

#[test]
fn one_byte_at_a_time() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for byte in MIXED {
        client.raw(&[*byte]);
        std::thread::yield_now();
    }
    client.stream.shutdown(Shutdown::Write).expect("a socket can be half closed");
    assert_eq!(client.until_closed(), MIXED_REPLIES);
}

#[test]
fn deep_pipelines_keep_their_order() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let mut writer = client.stream.try_clone().expect("a socket can be shared");
    let count = 100_000;
    let sender = std::thread::spawn(move || {
        let mut all = Vec::new();
        for i in 0..count {
            all.extend(request(&["ECHO", &i.to_string()]));
        }
        writer.write_all(&all).expect("the server reads");
    });
    for i in 0..count {
        let text = i.to_string();
        let wanted = format!("${}\r\n{text}\r\n", text.len());
        assert_eq!(client.frame().expect("a reply for each"), wanted.as_bytes());
    }
    sender.join().expect("all was sent");
}

#[test]
fn replies_owed_come_before_a_close() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let mut bytes = b"PING\r\n".repeat(1000);
    bytes.extend_from_slice(b"*1\r\n$x\r\nPING\r\n");
    client.raw(&bytes);
    let mut wanted = b"+PONG\r\n".repeat(1000);
    wanted.extend_from_slice(b"-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(client.until_closed(), wanted);
    // Large ones too.
    let mut client = server.client();
    client.say("SET big x");
    client.call(&["SETRANGE", "big", "1000000", "end"]);
    client.raw(&b"GET big\r\n".repeat(20));
    client.raw(b"QUIT\r\n");
    assert_eq!(client.until_closed().len(), 20 * ("$1000003\r\n".len() + 1_000_003 + 2) + "+OK\r\n".len());
    // QUIT in the middle: what stood before it is answered, what stands behind is not run.
    let mut client = server.client();
    client.raw(b"PING\r\nQUIT\r\nSET after quit\r\n");
    assert_eq!(client.until_closed(), b"+PONG\r\n+OK\r\n");
    assert_eq!(server.client().say("EXISTS after"), ":0");
}

#[test]
fn what_a_header_announces_takes_no_memory() {
    let server = Server::start(&[]);
    let mut first = server.client();
    first.say("PING");
    let before = resident_kb(&server);
    let mut clients: Vec<Client> = (0..50).map(|_| server.client()).collect();
    for client in &mut clients {
        client.raw(b"*2147483647\r\n$536870912\r\nabc");
    }
    first.say("PING");
    until("the bytes to be read", || {
        let list = first.value(&["CLIENT", "LIST"]).text();
        (list.lines().filter(|l| !l.contains(" qbuf=0 ")).count() > 50).then_some(())
    });
    assert!(resident_kb(&server) < before + 20_000, "{} kB before, {} after", before, resident_kb(&server));
    drop(clients);
    assert_eq!(first.say("PING"), "+PONG");
}

fn resident_kb(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("Linux says");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of kB")
}

#[test]
fn large_arguments_and_many() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let value: Vec<u8> = (0..32_000_000u32).map(|i| (i % 251) as u8).collect();
    assert_eq!(client.call(&[&b"SET"[..], b"big", &value]), "+OK");
    let got = client.value(&["GET", "big"]);
    assert!(got.bytes() == Some(&value[..]), "32 MB came back otherwise");
    assert_eq!(client.say("STRLEN big"), ":32000000");
    let mut many = vec!["DEL".to_owned(), "big".to_owned()];
    many.extend((0..200_000).map(|i| format!("none:{i}")));
    assert_eq!(client.call(&many), ":1");
}

#[test]
fn a_client_that_never_reads_holds_nobody_up() {
    let server = Server::start(&[]);
    let mut other = server.client();
    other.call(&["SETRANGE", "big", "999999", "x"]);
    let mut deaf = server.client();
    deaf.raw(&b"GET big\r\n".repeat(60));
    for i in 0..200 {
        assert_eq!(other.say("INCR n"), format!(":{}", i + 1));
    }
    // Nothing is lost when it reads after all.
    for _ in 0..60 {
        assert_eq!(deaf.frame().expect("the replies wait").len(), 1_000_000 + 12);
    }
    // With a limit it is cut off.
    assert_eq!(other.call(&["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"]), "+OK");
    deaf.raw(&b"GET big\r\n".repeat(100));
    until("the limit to strike", || {
        let list = other.value(&["CLIENT", "LIST"]).text();
        (list.lines().count() == 1).then_some(())
    });
}

#[test]
fn clients_that_vanish_leave_nothing() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for i in 0..200 {
        let mut other = server.client();
        other.raw(&MIXED[..i % MIXED.len()]);
        if i % 2 == 0 {
            other.raw(b"PING\r\n");
        }
    }
    until("the connections to go", || {
        let list = client.value(&["CLIENT", "LIST"]).text();
        (list.lines().count() == 1).then_some(())
    });
}

#[test]
fn killed_in_the_middle_of_a_request() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let mut victim = server.client();
    let id = victim.say("CLIENT ID");
    victim.raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhal");
    assert_eq!(client.say(&format!("CLIENT KILL ID {}", &id[1..])), ":1");
    assert_eq!(victim.until_closed(), b"");
    assert_eq!(client.say("EXISTS k"), ":0");
    // Oneself, after the reply.
    let own = client.say("CLIENT ID");
    client.raw(format!("CLIENT KILL ID {} SKIPME no\r\nPING\r\n", &own[1..]).as_bytes());
    assert_eq!(client.until_closed(), b":1\r\n");
}

#[test]
fn client_reply_off_and_skip() {
    compare(
        &[],
        &inputs(&[
            "CLIENT REPLY SKIP\r\nPING\r\nPING\r\n",
            "CLIENT REPLY OFF\r\nPING\r\nNOSUCH\r\nCLIENT REPLY ON\r\n",
            "CLIENT REPLY OFF\r\nSET k v\r\nCLIENT REPLY ON\r\nGET k\r\n",
            "CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\n",
            "CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY ON\r\n",
            "CLIENT REPLY OFF\r\nRESET\r\n",
            "CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nPING\r\n",
            "CLIENT REPLY OFF\r\nCLIENT REPLY FOO\r\nCLIENT REPLY ON\r\n",
        ]),
    );
}

#[test]
fn no_more_clients_than_allowed() {
    for server in [Server::start(&["--maxclients", "3"]), Server::redis(&["--maxclients", "3"])] {
        // The connection by which the start was seen may not have gone yet.
        let mut first = server.client();
        until("a quiet server", || {
            (first.value(&["CLIENT", "LIST"]).text().lines().count() == 1).then_some(())
        });
        let mut more = [server.client(), server.client()];
        for client in &mut more {
            assert_eq!(client.say("PING"), "+PONG");
        }
        assert_eq!(server.client().until_closed(), b"-ERR max number of clients reached\r\n");
        drop(more);
        until("room again", || (server.client().say("PING") == "+PONG").then_some(()));
    }
}

#[test]
fn idle_clients_are_closed_when_a_timeout_is_set() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let mut idle = server.client();
    assert_eq!(client.say("CONFIG SET timeout 1"), "+OK");
    let watch = keylatch::base::clock::Stopwatch::start();
    assert_eq!(idle.until_closed(), b"");
    assert!(watch.elapsed() > Duration::from_millis(500), "closed at once");
}

#[test]
fn thousands_of_idle_connections() {
    let server = Server::start(&[]);
    let mut clients: Vec<Client> = (0..1000).map(|_| server.client()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(&["SETNX", &format!("k{i}"), "v"]);
    }
    for client in &mut clients {
        assert_eq!(client.frame().expect("each is served"), b":1\r\n");
    }
    assert_eq!(clients[500].say("DBSIZE"), ":1000");
}

#[test]
fn hello_switches_one_connection_only() {
    let server = Server::start(&[]);
    let (mut new, mut old) = (server.client(), server.client());
    let hello = new.value(&["HELLO", "3"]);
    assert!(matches!(hello, Value::Map(_)), "{hello:?}");
    assert_eq!(new.say("GET none"), "_");
    assert_eq!(old.say("GET none"), "$-1");
    assert_eq!(new.say("RESET"), "+RESET");
    assert_eq!(new.say("GET none"), "$-1");
}

/// What Redis 7.2 added, so redis-server 7.0.15 cannot be asked.
#[test]
fn what_newer_clients_send_on_connect() {
    if !common::is_keylatch() {
        return;
    }
    let server = Server::start(&[]);
    let mut client = server.client();
    assert_eq!(client.say("CLIENT SETINFO LIB-NAME mine(,v1)"), "+OK");
    assert_eq!(client.say("CLIENT SETINFO lib-ver 1.2.3"), "+OK");
    let info = client.value(&["CLIENT", "INFO"]).text();
    assert!(info.contains(" lib-name=mine(,v1) lib-ver=1.2.3"), "{info}");
    assert_eq!(
        client.call(&["CLIENT", "SETINFO", "LIB-NAME", "a b"]),
        "-ERR LIB-NAME cannot contain spaces, newlines or special characters."
    );
    assert_eq!(client.say("CLIENT SETINFO FOO x"), "-ERR Unrecognized option 'FOO'");
    assert_eq!(client.say("CLIENT NO-TOUCH on"), "+OK");
    assert_eq!(client.say("CLIENT NO-TOUCH off"), "+OK");
}

/// A web page can have a browser send requests to a port of this machine; Redis ends them at the
/// first line that looks like HTTP.
#[test]
fn http_is_cut_off_without_an_answer() {
    for server in [Server::start(&[]), Server::redis(&[])] {
        for line in ["POST / HTTP/1.1\r\n", "Host: localhost\r\n", "pOsT\r\n", "*1\r\n$5\r\nHOST:\r\n"] {
            let mut client = server.client();
            assert_eq!(client.say("PING"), "+PONG");
            client.raw(format!("{line}SET k v\r\n").as_bytes());
            assert_eq!(client.until_closed(), b"", "{line}");
        }
        let mut client = server.client();
        client.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nSET k v\r\n");
        client.until_closed();
        assert_eq!(server.client().say("EXISTS k"), ":0");
    }
}

/// One client's long replies do not keep the others waiting: it has its turn again after them.
#[test]
fn long_replies_come_whole_and_in_order() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let value = "x".repeat(300_000);
    assert_eq!(client.call(&["SET", "k", &value]), "+OK");
    client.raw(&b"GET k\r\nSTRLEN k\r\n".repeat(100));
    for _ in 0..100 {
        assert_eq!(client.frame().map(|frame| frame.len()), Some(value.len() + 11));
        assert_eq!(client.frame().as_deref(), Some(&b":300000\r\n"[..]));
    }
}

#[test]
fn modules_are_refused_in_redis_s_words() {
    let asked = inputs(&[
        "MODULE LIST\r\n",
        "MODULE LOAD /none.so\r\n",
        "MODULE LOADEX /none.so CONFIG a b\r\n",
        "MODULE UNLOAD none\r\n",
        "MODULE UNLOAD\r\n",
        "MULTI\r\nMODULE UNLOAD none\r\nEXEC\r\n",
    ]);
    for allowed in ["no", "yes", "local"] {
        compare(&["--enable-module-command", allowed], &asked);
    }
}
