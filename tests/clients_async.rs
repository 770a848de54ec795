//! The `redis` crate's asynchronous clients against the real binary: one multiplexed connection, the
//! connection manager that comes back, pub/sub in RESP2 and RESP3, client-side caching, and the
//! cluster client in both forms. Not here: its plain connection (`clients`).

mod common;

use std::time::Duration;

use common::{Server, is_keylatch, until};
use futures_util::StreamExt;
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::{AsyncCommands, Client, Commands, ProtocolVersion, PushKind, Script, Value};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// Runs the test on a runtime of its own; what hangs fails.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(common::PATIENCE, test).await.expect("the test ends in time");
    });
}

fn client(server: &Server, options: &str) -> Client {
    Client::open(format!("redis://127.0.0.1:{}/{options}", server.port)).expect("a URL")
}

async fn connect(server: &Server, options: &str) -> MultiplexedConnection {
    client(server, options).get_multiplexed_async_connection().await.expect("a connection")
}

async fn acquire(c: &mut impl redis::aio::ConnectionLike, key: &str, token: &str, ms: u64) -> bool {
    let mut command = redis::cmd("SET");
    command.arg(key).arg(token).arg("NX").arg("PX").arg(ms);
    command.query_async::<Option<String>>(c).await.expect("SET answers").is_some()
}

/// The next message's channel and payload; confirmations are skipped.
async fn message(pushes: &mut UnboundedReceiver<redis::PushInfo>) -> (PushKind, Vec<String>) {
    loop {
        let push = pushes.recv().await.expect("the connection lives");
        if matches!(push.kind, PushKind::Message | PushKind::PMessage | PushKind::SMessage) {
            let words = push.data.into_iter().map(|word| redis::from_redis_value(word).expect("text"));
            return (push.kind, words.collect());
        }
    }
}

#[test]
fn many_tasks_share_one_connection() {
    for options in ["", "?protocol=resp3"] {
        let server = Server::start(&[]);
        run(async {
            let c = connect(&server, options).await;
            let tasks = (0..100).map(|id| {
                let mut c = c.clone();
                tokio::spawn(async move {
                    let key = format!("k:{id}");
                    for n in 0..20 {
                        let () = c.set(&key, n).await.expect("SET");
                        // Each task hears its own replies, though all share the socket.
                        assert_eq!(c.get::<_, i64>(&key).await.expect("GET"), n);
                        assert_eq!(c.incr::<_, _, i64>(&key, 1000).await.expect("INCR"), n + 1000);
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.expect("no task fails");
            }
            let mut c = c;
            let (a, b): (String, i64) = redis::pipe()
                .atomic()
                .set("a", "x")
                .ignore()
                .get("a")
                .incr("n", 5)
                .query_async(&mut c)
                .await
                .expect("a transaction");
            assert_eq!((a.as_str(), b), ("x", 5));
            assert!(acquire(&mut c, "lock", "mine", 30_000).await);
            assert!(!acquire(&mut c, "lock", "other", 30_000).await);
            let release = Script::new(RELEASE);
            for (token, wanted) in [("other", 0), ("mine", 1)] {
                let answer: i64 =
                    release.key("lock").arg(token).invoke_async(&mut c).await.expect("the script runs");
                assert_eq!(answer, wanted);
            }
            let mut found: Vec<String> = Vec::new();
            let mut scan = c.scan_match::<_, String>("k:*").await.expect("SCAN");
            while let Some(key) = scan.next().await {
                found.push(key.expect("a name"));
            }
            found.sort();
            found.dedup();
            assert_eq!(found.len(), 100);
        });
    }
}

#[test]
fn messages_in_resp2() {
    let server = Server::start(&["--notify-keyspace-events", "Ex"]);
    run(async {
        let mut c = connect(&server, "").await;
        let (mut sink, mut messages) =
            client(&server, "").get_async_pubsub().await.expect("a connection").split();
        sink.subscribe("lock").await.expect("SUBSCRIBE");
        sink.psubscribe("__keyevent@*").await.expect("PSUBSCRIBE");
        assert!(acquire(&mut c, "lock", "one", 60).await);
        // The crashed holder's lock is told by its expiry, a released one by a message.
        let told = messages.next().await.expect("the event");
        assert_eq!(told.get_channel_name(), "__keyevent@0__:expired");
        assert_eq!(told.get_payload::<String>().expect("text"), "lock");
        assert!(acquire(&mut c, "lock", "two", 60_000).await);
        assert_eq!(c.publish::<_, _, i64>("lock", "released").await.expect("PUBLISH"), 1);
        let told = messages.next().await.expect("the message");
        assert_eq!((told.get_channel_name(), told.from_pattern()), ("lock", false));
        sink.unsubscribe("lock").await.expect("UNSUBSCRIBE");
        assert_eq!(c.publish::<_, _, i64>("lock", "late").await.expect("PUBLISH"), 0);
    });
}

#[test]
fn messages_in_resp3_between_replies() {
    let server = Server::start(&[]);
    run(async {
        let (sender, mut pushes) = unbounded_channel();
        let config = redis::AsyncConnectionConfig::new().set_push_sender(sender);
        let mut c = client(&server, "?protocol=resp3")
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .expect("a connection");
        c.subscribe("a").await.expect("SUBSCRIBE");
        c.psubscribe("b*").await.expect("PSUBSCRIBE");
        let () = redis::cmd("SSUBSCRIBE").arg("s").query_async(&mut c).await.expect("SSUBSCRIBE");
        for n in 0..50 {
            // On the very connection that listens: replies and pushes must not be mixed up.
            assert_eq!(c.publish::<_, _, i64>("a", n).await.expect("PUBLISH"), 1);
            let () = c.set("k", n).await.expect("SET");
            assert_eq!(c.get::<_, i64>("k").await.expect("GET"), n);
            assert_eq!(message(&mut pushes).await, (PushKind::Message, vec!["a".to_owned(), n.to_string()]));
        }
        let () = c.publish("bee", "x").await.expect("PUBLISH");
        let wanted = ["b*", "bee", "x"].map(str::to_owned).to_vec();
        assert_eq!(message(&mut pushes).await, (PushKind::PMessage, wanted));
        assert_eq!(c.spublish::<_, _, i64>("s", "y").await.expect("SPUBLISH"), 1);
        assert_eq!(message(&mut pushes).await, (PushKind::SMessage, vec!["s".to_owned(), "y".to_owned()]));
        c.unsubscribe("a").await.expect("UNSUBSCRIBE");
        assert_eq!(c.publish::<_, _, i64>("a", "late").await.expect("PUBLISH"), 0);
    });
}

#[test]
fn the_connection_manager_comes_back() {
    let server = Server::start(&[]);
    run(async {
        let (sender, mut pushes) = unbounded_channel();
        let config = ConnectionManagerConfig::new()
            .set_push_sender(sender)
            .set_automatic_resubscription()
            .set_min_delay(Duration::from_millis(2));
        let mut manager = ConnectionManager::new_with_config(client(&server, "?protocol=resp3"), config)
            .await
            .expect("a connection");
        manager.subscribe("a").await.expect("SUBSCRIBE");
        assert!(acquire(&mut manager, "lock", "mine", 60_000).await);
        let mut other = connect(&server, "").await;
        for round in 0..3 {
            let victim: i64 = redis::cmd("CLIENT").arg("ID").query_async(&mut manager).await.expect("an id");
            let killed: i64 = redis::cmd("CLIENT")
                .arg(&["KILL", "ID"])
                .arg(victim)
                .query_async(&mut other)
                .await
                .expect("KILL");
            assert_eq!(killed, 1);
            // A request may fail while it connects anew; then all is as before, subscriptions too.
            loop {
                if manager.get::<_, String>("lock").await.is_ok_and(|token| token == "mine") {
                    break;
                }
                tokio::task::yield_now().await;
            }
            while other.publish::<_, _, i64>("a", round).await.expect("PUBLISH") == 0 {
                tokio::task::yield_now().await;
            }
            let wanted = (PushKind::Message, vec!["a".to_owned(), round.to_string()]);
            assert_eq!(message(&mut pushes).await, wanted);
        }
        let release = Script::new(RELEASE);
        let released: i64 =
            release.key("lock").arg("mine").invoke_async(&mut manager).await.expect("the script runs");
        assert_eq!(released, 1);
    });
}

#[test]
fn a_cache_is_told_what_has_changed() {
    let server = Server::start(&[]);
    run(async {
        let config = redis::AsyncConnectionConfig::new().set_cache_config(redis::caching::CacheConfig::new());
        let mut c = client(&server, "?protocol=resp3")
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .expect("a connection");
        let mut other = connect(&server, "").await;
        let () = other.set("lock", "one").await.expect("SET");
        for _ in 0..20 {
            assert_eq!(c.get::<_, String>("lock").await.expect("GET"), "one");
        }
        let figures = c.get_cache_statistics().expect("it caches");
        assert_eq!((figures.hit, figures.miss, figures.invalidate), (19, 1, 0));
        for change in ["two", "three"] {
            let () = other.set("lock", change).await.expect("SET");
            while c.get::<_, String>("lock").await.expect("GET") != change {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(c.get_cache_statistics().expect("it caches").invalidate, 2);
        // The end of a deadline is told as well.
        let () = other.pset_ex("lock", "brief", 50).await.expect("PSETEX");
        while c.get::<_, Option<String>>("lock").await.expect("GET").is_some() {
            tokio::task::yield_now().await;
        }
    });
}

/// A node that owns all slots.
fn cluster() -> Server {
    let server = Server::start(&["--cluster-enabled", "yes"]);
    if !is_keylatch() {
        assert_eq!(server.client().say("CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
        until("the cluster", || {
            server.client().say("CLUSTER INFO").contains("cluster_state:ok").then_some(())
        });
    }
    server
}

fn cluster_client(server: &Server, protocol: ProtocolVersion) -> ClusterClient {
    ClusterClient::builder([format!("redis://127.0.0.1:{}/", server.port)])
        .use_protocol(protocol)
        .build()
        .expect("a URL")
}

#[test]
fn the_cluster_client() {
    let server = cluster();
    for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
        let mut c = cluster_client(&server, protocol).get_connection().expect("it finds its way");
        let () = c.set("lock", "mine").expect("SET");
        let release = Script::new(RELEASE);
        for (token, wanted) in [("other", 0), ("mine", 1)] {
            let answer: i64 = release.key("lock").arg(token).invoke(&mut c).expect("the script runs");
            assert_eq!(answer, wanted);
        }
        // The crate splits what crosses slots; what cannot be split is refused.
        let () = c.mset(&[("a", 1), ("b", 2), ("c", 3)]).expect("MSET, split");
        assert_eq!(c.mget::<_, Vec<i64>>(&["a", "b", "c"]).expect("MGET, split"), [1, 2, 3]);
        let error = redis::cmd("RENAME").arg("a").arg("b").query::<Value>(&mut c).expect_err("two slots");
        assert!(error.to_string().contains("same slot"), "{error}");
        let error = redis::cmd("EVAL")
            .arg("return redis.call('mget', KEYS[1], KEYS[2])")
            .arg(&["2", "a", "b"])
            .query::<Value>(&mut c)
            .expect_err("two slots");
        assert!(error.to_string().contains("same slot"), "{error}");
        let (x, y): (i64, i64) =
            redis::cluster::cluster_pipe().incr("p", 1).incr("q", 2).query(&mut c).expect("a pipeline");
        assert_eq!((x, y), (1, 2));
        let keys = c.del::<_, i64>(&["a", "b", "c", "p", "q"]).expect("DEL, split");
        assert_eq!(keys, 5);
    }
}

#[test]
fn the_asynchronous_cluster_client() {
    let server = cluster();
    run(async {
        let mut c = cluster_client(&server, ProtocolVersion::RESP3)
            .get_async_connection()
            .await
            .expect("it finds its way");
        assert!(acquire(&mut c, "lock", "mine", 30_000).await);
        assert!(!acquire(&mut c, "lock", "other", 30_000).await);
        let release = Script::new(RELEASE);
        for (token, wanted) in [("other", 0), ("mine", 1)] {
            let answer: i64 =
                release.key("lock").arg(token).invoke_async(&mut c).await.expect("the script runs");
            assert_eq!(answer, wanted);
        }
        let () = c.mset(&[("a", 1), ("b", 2)]).await.expect("MSET, split");
        assert_eq!(c.mget::<_, Vec<i64>>(&["a", "b"]).await.expect("MGET, split"), [1, 2]);
        let answer = redis::pipe().atomic().incr("{x}a", 1).incr("{x}b", 1).query_async(&mut c).await;
        assert_eq!(answer, Ok((1, 1)));
    });
}

#[test]
fn shard_channels_through_the_cluster_client() {
    let server = cluster();
    run(async {
        let (sender, mut pushes) = unbounded_channel();
        let mut c = ClusterClient::builder([format!("redis://127.0.0.1:{}/", server.port)])
            .use_protocol(ProtocolVersion::RESP3)
            .push_sender(sender)
            .build()
            .expect("a URL")
            .get_async_connection()
            .await
            .expect("it finds its way");
        c.ssubscribe("news").await.expect("SSUBSCRIBE");
        assert_eq!(c.spublish::<_, _, i64>("news", "x").await.expect("SPUBLISH"), 1);
        assert_eq!(message(&mut pushes).await, (PushKind::SMessage, vec!["news".to_owned(), "x".to_owned()]));
    });
}
