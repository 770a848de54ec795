//! Five hundred servers in one process. A file of its own: it counts this process's threads and
//! descriptors, which no other test may change meanwhile.

use std::time::Duration;

use keylatch::Server;
use keylatch::base::clock::Stopwatch;

const SERVERS: usize = 500;

/// What 500 starts and stops may take. An unoptimised build is given more.
const WITHIN: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 2 });

fn count(what: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{what}")).expect("procfs is there").count()
}

#[test]
fn five_hundred_servers_come_and_go() {
    let room = keylatch::base::process::make_room_for_clients(8 * SERVERS as u32);
    assert!(room >= 8 * SERVERS as u32, "the system allows too few open files: {room}");
    // The first one sets up what the process keeps.
    drop(Server::start().expect("a server"));
    let before = (count("task"), count("fd"));
    let began = Stopwatch::start();
    let servers: Vec<Server> =
        (0..SERVERS).map(|_| Server::builder().frozen_at(1_000).start().expect("a server")).collect();
    for (i, server) in servers.iter().enumerate() {
        server.set("k", i.to_string(), Some(i as i64 + 1));
    }
    servers[9].clock().advance(10);
    let here = |i: usize| servers[i].get("k").map(|value| String::from_utf8_lossy(&value).into_owned());
    assert_eq!((here(9), here(10), here(499)), (None, Some("10".into()), Some("499".into())));
    assert!(count("task") >= before.0 + SERVERS, "each has a thread of its own");
    drop(servers);
    let took = began.elapsed();
    assert_eq!((count("task"), count("fd")), before, "threads and descriptors");
    println!("{SERVERS} servers: {took:?}");
    assert!(took < WITHIN, "{SERVERS} servers took {took:?}");
}
