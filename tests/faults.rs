//! KEYLATCH FAULT over real sockets: each action in each phase it fits, on a clock that stands. Not
//! here: rules and what they do in memory (`src/command/fault_tests.rs`), client libraries (`failures`).

mod common;

use common::resp::request;
use common::{Client, Server, is_keylatch};
use std::time::Duration;

/// How long a test waits for what must not come.
const SILENCE: Duration = Duration::from_millis(30);

/// A server whose clock stands, and a client to govern it by.
fn frozen() -> Option<(Server, Client)> {
    if !is_keylatch() {
        return None;
    }
    let server = Server::start(&[]);
    let mut governor = server.client();
    assert_eq!(governor.say("KEYLATCH CLOCK FREEZE 1000000"), ":1000000");
    Some((server, governor))
}

fn add(governor: &mut Client, rule: &str) {
    let answer = governor.say(&format!("KEYLATCH FAULT ADD {rule}"));
    assert!(answer.starts_with(':'), "{rule}: {answer}");
}

/// SET and INCR between two ECHOs, in one write, with `rule` on INCR.
fn pipeline(governor: &mut Client, server: &Server, rule: &str) -> Client {
    add(governor, &format!("COMMAND incr {rule}"));
    let mut client = server.client();
    let requests: [&[&str]; 4] = [&["ECHO", "first"], &["SET", "k", "1"], &["INCR", "n"], &["ECHO", "last"]];
    client.raw(&requests.iter().flat_map(|words| request(words)).collect::<Vec<u8>>());
    client
}

/// What stands before in the pipeline.
const BEFORE: &str = "$5\r\nfirst\r\n+OK\r\n";
/// What stands behind it.
const BEHIND: &str = "$4\r\nlast\r\n";

fn silent(client: &mut Client) -> String {
    let (bytes, closed) = client.rest(SILENCE);
    assert!(!closed, "the connection stays");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn closed(client: &mut Client) -> String {
    String::from_utf8_lossy(&client.until_closed()).into_owned()
}

#[test]
fn an_error_in_a_pipeline() {
    let Some((server, mut governor)) = frozen() else { return };
    let mut client = pipeline(&mut governor, &server, "TIMES 1 ERROR ERR-no");
    assert_eq!(silent(&mut client), format!("{BEFORE}-ERR-no\r\n{BEHIND}"));
    assert_eq!(governor.say("GET n"), "$-1");
    let mut client = pipeline(&mut governor, &server, "ON after ERROR ERR-lost");
    assert_eq!(silent(&mut client), format!("{BEFORE}-ERR-lost\r\n{BEHIND}"));
    assert_eq!(governor.say("GET n"), "$1\r\n1");
}

#[test]
fn a_drop_loses_one_reply_and_none_before_it() {
    let Some((server, mut governor)) = frozen() else { return };
    let mut client = pipeline(&mut governor, &server, "TIMES 1 DROP");
    assert_eq!(closed(&mut client), BEFORE);
    assert_eq!(governor.say("GET n"), "$-1");
    let mut client = pipeline(&mut governor, &server, "ON after TIMES 1 DROP");
    assert_eq!(closed(&mut client), BEFORE);
    assert_eq!(governor.say("GET n"), "$1\r\n1");
    assert_eq!(governor.say("KEYLATCH FAULT CLEAR"), ":2");
    assert_eq!(server.client().say("INCR n"), ":2");
}

#[test]
fn a_hanging_connection_stays_and_says_nothing() {
    let Some((server, mut governor)) = frozen() else { return };
    for (on, n) in [("before", "$-1"), ("after", "$1\r\n1")] {
        let mut client = pipeline(&mut governor, &server, &format!("ON {on} TIMES 1 HANG"));
        assert_eq!(silent(&mut client), BEFORE);
        assert_eq!(governor.say("KEYLATCH CLOCK ADVANCE 1000"), governor.say("KEYLATCH CLOCK GET"));
        assert_eq!(silent(&mut client), "");
        assert_eq!(governor.say("GET n"), n);
        let others = || server.client().say("CLIENT LIST").matches("cmd=").count();
        let before = others();
        drop(client);
        common::until("its end to be seen", || (others() < before).then_some(()));
    }
}

#[test]
fn after_a_reset_who_hung_is_answered_again() {
    let Some((server, mut governor)) = frozen() else { return };
    for on in ["before", "after"] {
        let mut client = pipeline(&mut governor, &server, &format!("ON {on} TIMES 1 HANG"));
        assert_eq!(silent(&mut client), BEFORE);
        // The rules are gone, what they have done is not.
        assert_eq!(governor.say("KEYLATCH FAULT CLEAR"), ":1");
        assert_eq!(silent(&mut client), "");
        assert_eq!(governor.say("KEYLATCH RESET"), "+OK");
        // The reply to INCR is lost, what stands behind it is answered, and what comes now.
        assert_eq!(silent(&mut client), BEHIND, "{on}");
        assert_eq!(client.say("GET n"), "$-1");
        assert_eq!(client.say("INCR n"), ":1");
        assert_eq!(governor.say("KEYLATCH RESET"), "+OK");
    }
}

#[test]
fn a_delay_moves_with_the_clock() {
    let Some((server, mut governor)) = frozen() else { return };
    for (on, n) in [("before", "$-1"), ("after", "$1\r\n2")] {
        let mut client = pipeline(&mut governor, &server, &format!("ON {on} TIMES 1 DELAY 500"));
        assert_eq!(silent(&mut client), BEFORE);
        assert_eq!(governor.say("GET n"), n);
        governor.say("KEYLATCH CLOCK ADVANCE 499");
        assert_eq!(silent(&mut client), "");
        governor.say("KEYLATCH CLOCK ADVANCE 1");
        let reply = if on == "before" { ":1" } else { ":2" };
        assert_eq!(client.frame().expect("the reply"), format!("{reply}\r\n").as_bytes());
        assert_eq!(client.frame().expect("the next"), BEHIND.as_bytes());
    }
}

#[test]
fn delays_and_pieces_end_by_themselves_on_a_clock_that_runs() {
    if !is_keylatch() {
        return;
    }
    let server = Server::start(&[]);
    let mut governor = server.client();
    for rule in ["DELAY 3", "ON after DELAY 3", "STALL 3", "ON after STALL 3", "SPLIT 1"] {
        let mut client = pipeline(&mut governor, &server, &format!("TIMES 1 {rule}"));
        let all: Vec<u8> = (0..4).flat_map(|_| client.frame().expect("a reply")).collect();
        let text = String::from_utf8_lossy(&all).into_owned();
        assert!(text.starts_with(BEFORE) && text.ends_with(BEHIND), "{rule}: {text}");
    }
    assert_eq!(governor.say("GET n"), "$1\r\n5");
}

#[test]
fn a_stall_holds_everybody_and_the_struck_goes_first() {
    let Some((server, mut governor)) = frozen() else { return };
    add(&mut governor, "COMMAND set TIMES 1 STALL 1000");
    let mut other = server.client();
    assert_eq!(other.say("PING"), "+PONG");
    let mut holder = server.client();
    holder.send(&["SET", "lock", "holder", "NX"]);
    assert_eq!(silent(&mut holder), "");
    other.send(&["SET", "lock", "other", "NX"]);
    let mut late = server.client();
    late.send(&["PING"]);
    governor.say("KEYLATCH CLOCK ADVANCE 999");
    assert_eq!((silent(&mut other), silent(&mut late)), (String::new(), String::new()));
    governor.say("KEYLATCH CLOCK ADVANCE 1");
    assert_eq!(holder.frame().expect("its reply"), b"+OK\r\n");
    assert_eq!(other.frame().expect("its reply"), b"$-1\r\n");
    assert_eq!(late.frame().expect("its reply"), b"+PONG\r\n");
    // After the command: it has taken effect, but nobody can see so.
    add(&mut governor, "COMMAND del ON after TIMES 1 STALL 3600000");
    holder.send(&["DEL", "lock"]);
    assert_eq!(silent(&mut holder), "");
    other.send(&["SET", "lock", "other", "NX"]);
    assert_eq!(silent(&mut other), "");
    assert_eq!(governor.say("KEYLATCH FAULT CLEAR"), ":2");
    assert_eq!(holder.frame().expect("its reply"), b":1\r\n");
    assert_eq!(other.frame().expect("its reply"), b"+OK\r\n");
}

#[test]
fn a_reply_is_cut_off_or_comes_in_pieces() {
    let Some((server, mut governor)) = frozen() else { return };
    for (bytes, rest) in [(0, ""), (2, ":2"), (100, ":3\r\n")] {
        let mut client = pipeline(&mut governor, &server, &format!("TIMES 1 TRUNCATE {bytes}"));
        assert_eq!(closed(&mut client), format!("{BEFORE}{rest}"));
    }
    governor.say("KEYLATCH RESET");
    governor.say("KEYLATCH CLOCK FREEZE 1000000");
    let mut client = pipeline(&mut governor, &server, "TIMES 1 SPLIT 2");
    assert_eq!(silent(&mut client), format!("{BEFORE}:1"));
    governor.say("KEYLATCH CLOCK ADVANCE 1");
    assert_eq!(silent(&mut client), format!("\r\n{BEHIND}"));
}

#[test]
fn a_deadline_passes_just_before_a_release() {
    let Some((server, mut governor)) = frozen() else { return };
    add(&mut governor, "COMMAND evalsha* KEY lock:* EXPIRE-FIRST");
    add(&mut governor, "COMMAND eval KEY lock:* EXPIRE-FIRST");
    let mut holder = server.client();
    assert_eq!(holder.say("SET lock:1 token NX PX 30000"), "+OK");
    let release =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    assert_eq!(holder.call(&["EVAL", release, "1", "lock:1", "token"]), ":0");
    assert_eq!(governor.say("EXISTS lock:1"), ":0");
}

#[test]
fn rules_choose_by_client_and_key_and_say_how_often_they_struck() {
    let Some((server, mut governor)) = frozen() else { return };
    add(&mut governor, "CLIENT worker-? KEY lock:* SKIP 1 TIMES 1 ERROR ERR-struck");
    let (mut worker, mut other) = (server.client(), server.client());
    assert_eq!(worker.say("CLIENT SETNAME worker-1"), "+OK");
    assert_eq!(worker.say("GET lock:1"), "$-1");
    assert_eq!(other.say("GET lock:1"), "$-1");
    assert_eq!(worker.say("GET data"), "$-1");
    assert_eq!(worker.say("MGET data lock:1"), "-ERR-struck");
    assert_eq!(worker.say("GET lock:1"), "$-1");
    let list = governor.say("KEYLATCH FAULT LIST");
    assert!(list.ends_with("$7\r\nmatched\r\n:3\r\n$6\r\nstruck\r\n:1"), "{list}");
}

#[test]
fn reset_ends_what_faults_began() {
    let Some((server, mut governor)) = frozen() else { return };
    let mut delayed = pipeline(&mut governor, &server, "TIMES 1 DELAY 5000");
    assert_eq!(silent(&mut delayed), BEFORE);
    add(&mut governor, "COMMAND get STALL 5000");
    let mut stalled = server.client();
    stalled.send(&["GET", "k"]);
    assert_eq!(silent(&mut stalled), "");
    assert_eq!(governor.say("KEYLATCH RESET"), "+OK");
    assert_eq!(delayed.frame().expect("its reply"), b":1\r\n");
    assert_eq!(stalled.frame().expect("its reply"), b"$-1\r\n");
    assert_eq!(governor.say("KEYLATCH FAULT LIST"), "*0");
    assert_eq!(governor.say("GET k"), "$-1");
}
