//! The `redis` crate against the real binary, in RESP2 and RESP3. Not here: redis-py (`python`), raw
//! bytes (`protocol`).

mod common;

use std::time::Duration;

use common::Server;
use redis::{Commands, Connection, Script, Value};

/// Releases a lock for its token's owner only.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

fn connect(server: &Server, options: &str) -> Connection {
    let url = format!("redis://127.0.0.1:{}/{options}", server.port);
    redis::Client::open(url).and_then(|client| client.get_connection()).expect("the crate connects")
}

fn both(test: impl Fn(Connection)) {
    for options in ["", "?protocol=resp3"] {
        let server = Server::start(&[]);
        test(connect(&server, options));
    }
}

fn acquire(connection: &mut Connection, key: &str, token: &str, ms: u64) -> bool {
    let mut command = redis::cmd("SET");
    command.arg(key).arg(token).arg("NX").arg("PX").arg(ms);
    command.query::<Option<String>>(connection).expect("SET answers").is_some()
}

#[test]
fn a_lock_from_end_to_end() {
    both(|mut c| {
        assert!(acquire(&mut c, "lock:a", "one", 30_000));
        assert!(!acquire(&mut c, "lock:a", "two", 30_000));
        assert_eq!(c.get::<_, String>("lock:a").expect("a string"), "one");
        let release = Script::new(RELEASE);
        // The crate sends EVALSHA, hears NOSCRIPT, loads and sends it again.
        let release = |token: &str, c: &mut Connection| -> i64 {
            release.key("lock:a").arg(token).invoke(c).expect("the script runs")
        };
        assert_eq!(release("two", &mut c), 0);
        assert_eq!(release("one", &mut c), 1);
        assert_eq!(release("one", &mut c), 0);
        assert_eq!(c.pttl::<_, i64>("lock:a").expect("an integer"), -2);
    });
}

#[test]
fn pipelines_and_types() {
    both(|mut c| {
        let (n, missing, all): (i64, Option<String>, Vec<Option<String>>) = redis::pipe()
            .cmd("SET")
            .arg("a")
            .arg(41)
            .ignore()
            .cmd("INCR")
            .arg("a")
            .cmd("GET")
            .arg("none")
            .cmd("MGET")
            .arg("a")
            .arg("none")
            .query(&mut c)
            .expect("a pipeline");
        assert_eq!((n, missing), (42, None));
        assert_eq!(all, [Some("42".to_owned()), None]);
        let bytes: Vec<u8> = (0..=255).collect();
        let () = c.set("bin", &bytes).expect("any bytes");
        assert_eq!(c.get::<_, Vec<u8>>("bin").expect("the same bytes"), bytes);
        let error = redis::cmd("INCR").arg("bin").query::<i64>(&mut c).expect_err("not a number");
        assert_eq!(error.detail(), Some("value is not an integer or out of range"));
        let config: std::collections::HashMap<String, String> =
            redis::cmd("CONFIG").arg("GET").arg("hz").query(&mut c).expect("a map");
        assert_eq!(config["hz"], "10");
    });
}

#[test]
fn scripts_speak_every_type() {
    both(|mut c| {
        let eval = |script: &str, c: &mut Connection| redis::cmd("EVAL").arg(script).arg(0).query::<Value>(c);
        assert_eq!(
            eval("return {1, 'two', {3}}", &mut c).expect("an array"),
            Value::Array(vec![
                Value::Int(1),
                Value::BulkString(b"two".to_vec()),
                Value::Array(vec![Value::Int(3)]),
            ])
        );
        assert_eq!(eval("return false", &mut c).expect("nothing"), Value::Nil);
        assert_eq!(
            eval("return redis.status_reply('FINE')", &mut c).expect("a status"),
            Value::SimpleString("FINE".into())
        );
        let error = eval("return redis.error_reply('LOCKED by another')", &mut c).expect_err("an error");
        assert_eq!(error.code(), Some("LOCKED"));
    });
}

#[test]
fn a_scan_finds_every_key() {
    both(|mut c| {
        for i in 0..500 {
            let () = c.set(format!("lock:{i}"), i).expect("SET");
            let () = c.set(format!("other:{i}"), i).expect("SET");
        }
        let mut found: Vec<String> =
            c.scan_match::<_, String>("lock:*").expect("SCAN").collect::<Result<_, _>>().expect("names");
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 500);
    });
}

/// Two counters that only the holder of the lock may touch stay equal.
#[test]
fn fifty_clients_contend_for_one_lock() {
    let server = Server::start(&[]);
    let port = server.port;
    let clients: Vec<_> = (0..50)
        .map(|id| {
            std::thread::spawn(move || {
                let url = format!("redis://127.0.0.1:{port}/");
                let client = redis::Client::open(url).expect("a URL");
                let mut c = client.get_connection().expect("a connection");
                let token = format!("client-{id}");
                let release = Script::new(RELEASE);
                for _ in 0..10 {
                    while !acquire(&mut c, "lock:shared", &token, 60_000) {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                    // Read, then write: without the lock, updates would be lost.
                    let n: Option<i64> = c.get("counter").expect("GET");
                    let () = c.set("counter", n.unwrap_or(0) + 1).expect("SET");
                    let released: i64 =
                        release.key("lock:shared").arg(&token).invoke(&mut c).expect("release");
                    assert_eq!(released, 1);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("no client fails");
    }
    assert_eq!(server.client().say("GET counter"), "$3\r\n500");
}
