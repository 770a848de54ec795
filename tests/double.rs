//! The test double at work: what the literature says goes wrong with locks, each as a deterministic
//! test with the `redis` crate on servers in this process, and the same over the wire by redis-py
//! (`double.py`). Nothing here waits for time: it is moved. Not here: each fault's own bytes (`faults`).

use std::path::Path;
use std::process::Command;

use keylatch::faults::{Action, Phase, Rule};
use keylatch::{Nodes, Server, What};
use redis::{Connection, Script};

const TTL: i64 = 10_000;
const NOW: i64 = 1_700_000_000_000;

const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Writes under a fencing token that must not be older than the newest one seen.
const FENCED_WRITE: &str = "if tonumber(ARGV[1]) < tonumber(redis.call('get', KEYS[2]) or '0') then return 0 end \
     redis.call('set', KEYS[2], ARGV[1]) redis.call('set', KEYS[1], ARGV[2]) return 1";

fn frozen() -> Server {
    Server::builder().frozen_at(NOW).seed(1).start().expect("a server")
}

fn connect(server: &Server) -> Connection {
    let client = redis::Client::open(server.url()).expect("an address");
    client.get_connection().expect("it accepts")
}

/// Whether the lock is taken.
fn acquire(connection: &mut Connection, token: &str) -> redis::RedisResult<bool> {
    let mut set = redis::cmd("SET");
    let taken: Option<String> = set.arg("lock").arg(token).arg("NX").arg("PX").arg(TTL).query(connection)?;
    Ok(taken.is_some())
}

fn release(connection: &mut Connection, token: &str) -> redis::RedisResult<bool> {
    Script::new(RELEASE).key("lock").arg(token).invoke::<i64>(connection).map(|n| n == 1)
}

fn fenced_write(connection: &mut Connection, fence: i64, data: &str) -> bool {
    let written: i64 = Script::new(FENCED_WRITE)
        .key("data")
        .key("data:fence")
        .arg(fence)
        .arg(data)
        .invoke(connection)
        .expect("it runs");
    written == 1
}

fn fence(connection: &mut Connection) -> i64 {
    redis::cmd("INCR").arg("lock:fence").query(connection).expect("a number")
}

fn happened(server: &Server) -> Vec<What> {
    server.lock_history("lock").iter().map(|event| event.what).collect()
}

#[test]
fn a_holder_stalls_past_its_ttl_and_its_late_write_is_refused() {
    let server = frozen();
    let (mut first, mut second) = (connect(&server), connect(&server));
    assert!(acquire(&mut first, "first").expect("an answer"));
    let old = fence(&mut first);
    // A long pause of the first holder's process.
    server.clock().advance(TTL);
    assert!(acquire(&mut second, "second").expect("an answer"));
    let new = fence(&mut second);
    assert!(fenced_write(&mut second, new, "second's"));
    assert!(!fenced_write(&mut first, old, "first's, too late"));
    assert_eq!(server.get("data").as_deref(), Some(&b"second's"[..]));
    assert!(!release(&mut first, "first").expect("an answer"));
    assert_eq!(server.get("lock").as_deref(), Some(&b"second"[..]));
    assert!(happened(&server).starts_with(&[What::Acquired, What::Expired, What::Acquired]));
}

#[test]
fn the_reply_to_an_acquire_is_lost_and_the_client_asks_again() {
    let server = frozen();
    let lost = Rule::new(Action::Drop).on(Phase::After).command("set").times(1);
    server.faults().add(lost).expect("it makes sense");
    let mut client = connect(&server);
    acquire(&mut client, "mine").expect_err("the connection is gone");
    // The command took effect all the same: whoever asks again must look whose token is there.
    let mut again = connect(&server);
    assert!(!acquire(&mut again, "mine").expect("an answer"));
    let holder: String = redis::cmd("GET").arg("lock").query(&mut again).expect("an answer");
    assert_eq!(holder, "mine");
    assert!(release(&mut again, "mine").expect("an answer"));
    assert_eq!(server.get("lock"), None);
}

#[test]
fn an_acquire_that_never_arrived_can_be_made_again() {
    let server = frozen();
    server.faults().add(Rule::new(Action::Drop).command("set").times(1)).expect("it makes sense");
    acquire(&mut connect(&server), "mine").expect_err("the connection is gone");
    assert!(acquire(&mut connect(&server), "mine").expect("an answer"));
}

#[test]
fn a_release_arrives_after_expiry_and_leaves_the_next_holder_alone() {
    let server = frozen();
    let (mut first, mut second) = (connect(&server), connect(&server));
    assert!(acquire(&mut first, "first").expect("an answer"));
    // The release is on its way for longer than the lock lives.
    let slow = Rule::new(Action::Delay(TTL as u64 + 1)).command("eval*").times(1);
    server.faults().add(slow).expect("it makes sense");
    let releasing = std::thread::spawn(move || release(&mut first, "first"));
    while server.faults().list()[0].struck == 0 {
        std::thread::yield_now();
    }
    server.clock().advance(TTL);
    assert!(acquire(&mut second, "second").expect("an answer"));
    server.clock().advance(1);
    assert!(!releasing.join().expect("it does not panic").expect("an answer"));
    assert_eq!(server.get("lock").as_deref(), Some(&b"second"[..]));
    assert_eq!(server.pttl("lock"), Some(TTL - 1));
}

#[test]
fn a_deadline_passes_between_the_look_and_the_release() {
    let server = frozen();
    let mut client = connect(&server);
    assert!(acquire(&mut client, "mine").expect("an answer"));
    server.faults().add(Rule::new(Action::ExpireFirst).key("lock").command("eval*")).expect("it makes sense");
    assert!(!release(&mut client, "mine").expect("an answer"));
}

/// Redlock's acquire over `nodes`: on how many the lock was taken. Given back where that is no majority.
fn redlock(nodes: &Nodes, token: &str) -> usize {
    let taken = nodes.iter().filter(|node| acquire(&mut connect(node), token).unwrap_or(false)).count();
    if taken * 2 <= nodes.len() {
        for node in nodes.iter() {
            // A node that is down keeps nothing.
            let _ = release(&mut connect(node), token);
        }
    }
    taken
}

/// As a client sees a node that is down: every request ends its connection.
fn take_down(node: &Server) {
    // Not what the client library says by itself on connecting.
    for command in ["set", "eval*"] {
        node.faults().add(Rule::new(Action::Drop).command(command)).expect("it makes sense");
    }
}

#[test]
fn redlock_lives_with_a_minority_down_and_not_with_a_majority() {
    let nodes = Server::builder().frozen_at(NOW).nodes(5).start().expect("five servers");
    nodes[..2].iter().for_each(take_down);
    assert_eq!(redlock(&nodes, "first"), 3);
    assert_eq!(redlock(&nodes, "second"), 0);
    nodes.iter().for_each(|node| node.clock().advance(TTL));
    take_down(&nodes[2]);
    assert_eq!(redlock(&nodes, "third"), 2);
    // What was taken has been given back.
    assert!(nodes.iter().all(|node| node.get("lock").is_none()));
}

#[test]
fn a_clock_that_jumps_lets_two_hold_one_redlock() {
    let nodes = Server::builder().frozen_at(NOW).nodes(5).start().expect("five servers");
    nodes[..2].iter().for_each(take_down);
    assert_eq!(redlock(&nodes, "first"), 3);
    // The two come back; nobody else can have a majority…
    for node in &nodes[..2] {
        node.faults().clear();
    }
    assert_eq!(redlock(&nodes, "second"), 2);
    // …until the clock of one of the three jumps past the deadline.
    nodes[4].clock().advance(TTL);
    assert_eq!(redlock(&nodes, "second"), 3);
    let holds = |token: &[u8]| nodes.iter().filter(|node| node.get("lock").as_deref() == Some(token)).count();
    assert_eq!((holds(b"first"), holds(b"second")), (2, 3));
    assert_eq!(happened(&nodes[4]), [What::Acquired, What::Refused, What::Expired, What::Acquired]);
}

#[test]
fn over_the_wire_by_redis_py() {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-venv/bin/python");
    let python = std::env::var_os("KEYLATCH_TEST_PYTHON").unwrap_or_else(|| made.into());
    let output = Command::new(env!("CARGO_BIN_EXE_keylatch"))
        .args(["exec", "--nodes", "5", "--"])
        .arg(python)
        .args(["-W", "ignore"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/double.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.ends_with(" ok\n"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
