//! The failures of distributed locks that the literature describes, each made to happen at will: time
//! stands still until it is moved, and faults strike where they are told to. Not here: what a fault
//! does byte for byte (`faults`), mistakes that are found (`findings`).

mod common;

use common::Client;
use keylatch::Server;
use keylatch::faults::{Action, Phase, Rule};

const TTL: i64 = 10_000;

/// Releases a lock for its token's owner only.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Writes data for the owner of the newest fencing token that was seen, and for nobody before it.
const FENCED_WRITE: &str = "if tonumber(ARGV[1]) < tonumber(redis.call('get', KEYS[2]) or '0') then return 0 end \
    redis.call('set', KEYS[2], ARGV[1]) redis.call('set', KEYS[1], ARGV[2]) return 1";

fn server() -> Server {
    Server::builder().frozen_at(1_700_000_000_000).seed(1).start().expect("a server")
}

fn client(server: &Server) -> Client {
    Client::connect(server.addr().port())
}

fn acquire(client: &mut Client, key: &str, token: &str) -> String {
    client.call(&["SET", key, token, "NX", "PX", &TTL.to_string()])
}

fn release(client: &mut Client, key: &str, token: &str) -> String {
    client.call(&["EVAL", RELEASE, "1", key, token])
}

fn value(server: &Server, key: &str) -> Option<String> {
    server.get(key).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits until a fault has struck so often: a request that is not answered gives no other sign.
fn await_strikes(server: &Server, strikes: u64) {
    let struck = || server.faults().list().iter().map(|rule| rule.struck).sum::<u64>();
    common::until("the fault to strike", || (struck() == strikes).then_some(()));
}

#[test]
fn a_holder_stalls_past_its_deadline_and_its_late_write_is_refused() {
    let server = server();
    let (mut first, mut second) = (client(&server), client(&server));
    assert_eq!(acquire(&mut first, "lock:f", "first"), "+OK");
    assert_eq!(first.say("INCR fence"), ":1");
    let write = |client: &mut Client, fence: &str, data: &str| {
        client.call(&["EVAL", FENCED_WRITE, "2", "data", "data:fence", fence, data])
    };
    // It believes that it holds the lock, while its process stands still for longer than that.
    server.clock().advance(TTL);
    assert_eq!(acquire(&mut second, "lock:f", "second"), "+OK");
    assert_eq!(second.say("INCR fence"), ":2");
    assert_eq!(write(&mut second, "2", "by the second"), ":1");
    assert_eq!(write(&mut first, "1", "by the first, late"), ":0");
    assert_eq!(value(&server, "data").as_deref(), Some("by the second"));
    assert_eq!(release(&mut first, "lock:f", "first"), ":0");
    assert_eq!(value(&server, "lock:f").as_deref(), Some("second"));
}

#[test]
fn a_write_is_under_way_for_longer_than_its_lock_lives() {
    let server = server();
    let (mut first, mut second) = (client(&server), client(&server));
    assert_eq!(acquire(&mut first, "lock:w", "first"), "+OK");
    let late = Rule::new(Action::Delay(TTL as u64 + 5_000)).command("eval").key("data").times(1);
    server.faults().add(late).expect("a rule");
    first.send(&["EVAL", FENCED_WRITE, "2", "data", "data:fence", "1", "by the first, late"]);
    await_strikes(&server, 1);
    server.clock().advance(TTL);
    assert_eq!(acquire(&mut second, "lock:w", "second"), "+OK");
    let written = ["EVAL", FENCED_WRITE, "2", "data", "data:fence", "2", "by the second"];
    assert_eq!(second.call(&written), ":1");
    server.clock().advance(5_000);
    assert_eq!(first.frame().expect("its reply, at last"), b":0\r\n");
    assert_eq!(value(&server, "data").as_deref(), Some("by the second"));
}

#[test]
fn the_reply_to_an_acquisition_is_lost_and_the_client_tries_again() {
    let server = server();
    let lost = Rule::new(Action::Drop).on(Phase::After).command("set").key("lock:*").times(1);
    server.faults().add(lost).expect("a rule");
    let mut first = client(&server);
    assert_eq!(acquire(&mut first, "lock:r", "token-1"), "(connection closed)");
    // It holds the lock and does not know. With another token it has locked itself out…
    let mut again = client(&server);
    assert_eq!(acquire(&mut again, "lock:r", "token-2"), "$-1");
    // …with the same, it can tell that the lock is its own, and since when it will end.
    assert_eq!(acquire(&mut again, "lock:r", "token-1"), "$-1");
    assert_eq!(again.say("GET lock:r"), "$7\r\ntoken-1");
    assert_eq!(again.say("PTTL lock:r"), format!(":{TTL}"));
    assert_eq!(release(&mut again, "lock:r", "token-1"), ":1");
}

#[test]
fn a_release_arrives_after_the_lock_has_expired() {
    let server = server();
    for (command, ends_anothers) in [("eval", false), ("del", true)] {
        let (mut first, mut second) = (client(&server), client(&server));
        assert_eq!(acquire(&mut first, "lock:l", "first"), "+OK");
        let slow = Rule::new(Action::Delay(TTL as u64 + 1)).command(command).times(1);
        let slow = server.faults().add(slow).expect("a rule");
        match command {
            "eval" => first.send(&["EVAL", RELEASE, "1", "lock:l", "first"]),
            _ => first.send(&["DEL", "lock:l"]),
        }
        await_strikes(&server, 1);
        server.clock().advance(TTL);
        assert_eq!(acquire(&mut second, "lock:l", "second"), "+OK");
        server.clock().advance(1);
        let reply = if ends_anothers { b":1\r\n" } else { b":0\r\n" };
        assert_eq!(first.frame().expect("its reply"), reply, "{command}");
        assert_eq!(server.get("lock:l").is_none(), ends_anothers, "{command}");
        server.faults().remove(slow);
        second.say("DEL lock:l");
    }
}

#[test]
fn the_deadline_passes_between_the_check_and_the_release() {
    let server = server();
    let mut holder = client(&server);
    assert_eq!(acquire(&mut holder, "lock:e", "mine"), "+OK");
    server.faults().add(Rule::new(Action::ExpireFirst).command("eval").times(1)).expect("a rule");
    assert_eq!(holder.say("GET lock:e"), "$4\r\nmine");
    assert_eq!(release(&mut holder, "lock:e", "mine"), ":0");
}

/// Redlock's acquisition: the same token on every node, and a majority of them. Where there is none,
/// what was taken is given back. Tells on which nodes it was taken.
fn redlock(nodes: &[Server], token: &str) -> Result<Vec<usize>, usize> {
    let taken = |&i: &usize| acquire(&mut client(&nodes[i]), "lock:red", token) == "+OK";
    let taken: Vec<usize> = (0..nodes.len()).filter(taken).collect();
    if taken.len() > nodes.len() / 2 {
        return Ok(taken);
    }
    for node in nodes {
        release(&mut client(node), "lock:red", token);
    }
    Err(taken.len())
}

fn five() -> Vec<Server> {
    (0..5).map(|_| server()).collect()
}

#[test]
fn redlock_loses_its_majority() {
    let nodes = five();
    assert_eq!(redlock(&nodes, "a"), Ok(vec![0, 1, 2, 3, 4]));
    assert_eq!(redlock(&nodes, "b"), Err(0));
    nodes.iter().for_each(|node| assert_eq!(release(&mut client(node), "lock:red", "a"), ":1"));
    // Two nodes away are no harm, the third is.
    for down in [3, 4] {
        nodes[down].faults().add(Rule::new(Action::Drop)).expect("a rule");
    }
    assert_eq!(redlock(&nodes, "c"), Ok(vec![0, 1, 2]));
    nodes.iter().take(3).for_each(|node| assert_eq!(release(&mut client(node), "lock:red", "c"), ":1"));
    // Its acquisition takes effect there, but the reply is lost.
    let lost = Rule::new(Action::Drop).on(Phase::After).command("set");
    let lost = nodes[2].faults().add(lost).expect("a rule");
    assert_eq!(redlock(&nodes, "d"), Err(2));
    // What it gave back is free everywhere, the lost one too.
    assert!(nodes.iter().all(|node| node.get("lock:red").is_none()));
    nodes[2].faults().remove(lost);
    assert_eq!(redlock(&nodes, "e"), Ok(vec![0, 1, 2]));
}

#[test]
fn one_nodes_clock_jumps_and_two_clients_hold_one_lock() {
    let nodes = five();
    let away: Vec<u64> =
        nodes[3..].iter().map(|node| node.faults().add(Rule::new(Action::Drop)).expect("a rule")).collect();
    assert_eq!(redlock(&nodes, "a"), Ok(vec![0, 1, 2]));
    nodes[3..].iter().zip(away).for_each(|(node, rule)| assert!(node.faults().remove(rule)));
    assert_eq!(redlock(&nodes, "b"), Err(2), "as long as the clocks agree, a majority is safe");
    let now = nodes[2].clock().now();
    nodes[2].clock().set(now + TTL);
    assert_eq!(redlock(&nodes, "c"), Ok(vec![2, 3, 4]));
    // Both believe themselves alone: what they guard needs a fencing token.
    let holds =
        |token: &str| nodes.iter().filter(|node| value(node, "lock:red").as_deref() == Some(token)).count();
    assert_eq!((holds("a"), holds("c")), (2, 3));
    assert_eq!(nodes[0].pttl("lock:red"), Some(TTL));
}

#[test]
fn redis_py_sees_every_fault() {
    let Some(python) = std::env::var_os("KEYLATCH_TEST_PYTHON") else {
        eprintln!("KEYLATCH_TEST_PYTHON is not set: redis-py is left out");
        return;
    };
    let server = server();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/failures.py");
    let output = std::process::Command::new(python)
        .args([script, &server.addr().port().to_string()])
        .output()
        .expect("Python starts");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
