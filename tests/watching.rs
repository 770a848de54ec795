//! What clients of one server see of each other, on sockets: WATCH under contention, locks handed
//! over by a message or by an expiry, a thousand subscribers and one that never reads. Not here: the
//! same in memory (`src/command/watching_tests.rs`).

#[path = "common/mod.rs"]
mod common;

use common::{Client, Server, is_keylatch, until};
use redis::{Commands, Connection, ConnectionLike};
use std::time::Duration;

const RELEASE: &str = r"
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[1], 'released')
    return 1";

fn connect(server: &Server) -> Connection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}/", server.port)).expect("a URL");
    client.get_connection().expect("a connection")
}

fn acquire(c: &mut Connection, key: &str, token: &str, ms: u64) -> bool {
    let mut command = redis::cmd("SET");
    command.arg(key).arg(token).arg("NX").arg("PX").arg(ms);
    command.query::<Option<String>>(c).expect("SET answers").is_some()
}

#[test]
fn fifty_clients_retry_and_lose_no_update() {
    const CLIENTS: i64 = 50;
    const EACH: i64 = 20;
    let server = Server::start(&[]);
    let port = server.port;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            std::thread::spawn(move || {
                let url = format!("redis://127.0.0.1:{port}/");
                let mut c = redis::Client::open(url)
                    .and_then(|client| client.get_connection())
                    .expect("a connection");
                for _ in 0..EACH {
                    let () = redis::transaction(&mut c, &["counter"], |c, pipe| {
                        let n: Option<i64> = c.get("counter")?;
                        pipe.set("counter", n.unwrap_or(0) + 1).ignore().query(c)
                    })
                    .expect("the transaction goes through in the end");
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("no client fails");
    }
    assert_eq!(server.client().say("GET counter"), format!("$4\r\n{}", CLIENTS * EACH));
}

#[test]
fn a_lock_is_handed_over_by_a_message() {
    let server = Server::start(&[]);
    let mut holder = connect(&server);
    assert!(acquire(&mut holder, "lock:m", "one", 60_000));
    let (mut waiter, mut listener) = (connect(&server), connect(&server));
    let mut channel = listener.as_pubsub();
    channel.subscribe("lock:m").expect("a subscription");
    channel.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    assert!(!acquire(&mut waiter, "lock:m", "two", 60_000));
    let released: i64 =
        redis::Script::new(RELEASE).key("lock:m").arg("one").invoke(&mut holder).expect("the script runs");
    assert_eq!(released, 1);
    let message = channel.get_message().expect("the message");
    assert_eq!(message.get_payload::<String>().expect("text"), "released");
    assert!(acquire(&mut waiter, "lock:m", "two", 60_000));
}

#[test]
fn a_crashed_holders_lock_is_handed_over_by_its_expiry() {
    let server = Server::start(&["--notify-keyspace-events", "Ex"]);
    let mut holder = connect(&server);
    let (mut waiter, mut listener) = (connect(&server), connect(&server));
    let mut channel = listener.as_pubsub();
    channel.subscribe("__keyevent@0__:expired").expect("a subscription");
    channel.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    assert!(acquire(&mut holder, "lock:x", "one", 100));
    drop(holder);
    assert!(!acquire(&mut waiter, "lock:x", "two", 60_000));
    // Nobody touches the key: the active cycle ends it.
    let message = channel.get_message().expect("the event");
    assert_eq!(message.get_payload::<String>().expect("text"), "lock:x");
    assert!(acquire(&mut waiter, "lock:x", "two", 60_000));
}

#[test]
fn pushes_in_resp3_come_between_replies() {
    let server = Server::start(&[]);
    let client =
        redis::Client::open(format!("redis://127.0.0.1:{}/?protocol=resp3", server.port)).expect("a URL");
    let mut c = client.get_connection().expect("a connection");
    let (sender, pushes) = std::sync::mpsc::channel();
    c.set_push_sender(sender);
    let () = c.subscribe_resp3("a").expect("a subscription");
    let () = c.set("k", "v").expect("SET, though subscribed");
    let () = connect(&server).publish("a", "x").expect("PUBLISH");
    // A push is read on the way to a reply.
    let push = until("the message", || {
        assert!(c.check_connection());
        pushes.try_iter().find(|push| push.kind == redis::PushKind::Message)
    });
    assert_eq!(push.data.len(), 2);
}

/// A line of INFO.
fn figure(client: &mut Client, name: &str) -> i64 {
    let text = client.value(&["INFO"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.and_then(|value| value.trim().parse().ok()).expect("a figure")
}

#[test]
fn a_subscriber_that_never_reads_is_cut_off_alone() {
    const READERS: usize = 1000;
    const MESSAGES: usize = 400;
    let server = Server::start(&["--client-output-buffer-limit", "pubsub 4mb 0 0"]);
    let mut admin = server.client();
    let before = figure(&mut admin, "used_memory");
    let mut readers: Vec<Client> = (0..READERS).map(|_| server.client()).collect();
    readers.iter_mut().for_each(|reader| reader.send(&["SUBSCRIBE", "news"]));
    for reader in &mut readers {
        assert!(reader.frame().expect("a confirmation").starts_with(b"*3\r\n$9\r\nsubscribe"));
    }
    let mut slow = server.client();
    slow.say("SUBSCRIBE news heavy");
    // Everybody gets small messages; the one that never reads gets large ones as well.
    let heavy = "x".repeat(64 * 1024);
    let mut publisher = server.client();
    for i in 0..MESSAGES {
        publisher.send(&["PUBLISH", "news", &i.to_string()]);
        publisher.send(&["PUBLISH", "heavy", &heavy]);
        let (news, heavy) = (publisher.frame().expect("a count"), publisher.frame().expect("a count"));
        assert!(
            news == format!(":{READERS}\r\n").as_bytes()
                || news == format!(":{}\r\n", READERS + 1).as_bytes()
        );
        assert!(heavy == b":0\r\n" || heavy == b":1\r\n");
    }
    assert_eq!(publisher.say("PUBLISH heavy x"), ":0");
    for reader in &mut readers {
        for i in 0..MESSAGES {
            let text = i.to_string();
            let want = format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{text}\r\n", text.len());
            assert_eq!(reader.frame().expect("a message"), want.as_bytes());
        }
    }
    assert!(slow.until_closed_or(Duration::from_secs(20)));
    assert_eq!(publisher.say("PUBSUB NUMSUB heavy"), "*2\r\n$5\r\nheavy\r\n:0");
    if is_keylatch() {
        drop(readers);
        until("the memory to be back", || {
            (figure(&mut admin, "connected_clients") == 2
                && figure(&mut admin, "used_memory") < before + (2 << 20))
                .then_some(())
        });
        assert_eq!(figure(&mut admin, "client_recent_max_output_buffer"), 0);
    }
}

#[test]
fn a_pause_ends_by_itself() {
    let server = Server::start(&[]);
    let (mut a, mut b) = (server.client(), server.client());
    assert_eq!(a.say("CLIENT PAUSE 150 WRITE"), "+OK");
    b.raw(&common::resp::request(&["SET", "k", "v"]));
    b.raw(&common::resp::request(&["GET", "k"]));
    assert_eq!(a.say("GET k"), "$-1");
    assert_eq!(b.frame().expect("a reply"), b"+OK\r\n");
    assert_eq!(b.frame().expect("a reply"), b"$1\r\nv\r\n");
    assert_eq!(a.say("WAIT 1 50"), ":0");
}

/// Who asked for the lock first gets it first, whoever connected first.
#[test]
fn a_pause_ends_in_the_order_of_the_requests() {
    let server = Server::start(&[]);
    let mut admin = server.client();
    for _ in 0..5 {
        let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.say("PING"), "+PONG"));
        assert_eq!(admin.say("FLUSHALL"), "+OK");
        assert_eq!(admin.say("CLIENT PAUSE 60000 WRITE"), "+OK");
        let order = [3, 0, 5, 1, 4, 2];
        for (held, at) in order.into_iter().enumerate() {
            clients[at].send(&["APPEND", "lock", &at.to_string()]);
            let wanted = held as i64 + 1;
            until("it to be held", || (figure(&mut admin, "blocked_clients") == wanted).then_some(()));
        }
        assert_eq!(admin.say("CLIENT UNPAUSE"), "+OK");
        for client in &mut clients {
            assert!(client.frame().expect("a reply").starts_with(b":"));
        }
        assert_eq!(admin.say("GET lock"), "$6\r\n305142");
    }
}

/// The null of a flush is written in what the tracking client speaks, whoever listens for it.
#[test]
fn a_flush_is_told_by_redirect() {
    let told = |server: Server, hello: &str| {
        let (mut listener, mut tracker) = (server.client(), server.client());
        listener.say("HELLO 3");
        tracker.say(hello);
        let id = listener.say("CLIENT ID");
        assert_eq!(tracker.say(&format!("CLIENT TRACKING ON BCAST REDIRECT {}", &id[1..])), "+OK");
        assert_eq!(tracker.say("FLUSHALL"), "+OK");
        let push = listener.frame().expect("an invalidation");
        (String::from_utf8_lossy(&push).into_owned(), listener.say("PING"))
    };
    for hello in ["HELLO 2", "HELLO 3"] {
        assert_eq!(told(Server::start(&[]), hello), told(Server::redis(&[]), hello), "{hello}");
    }
}
