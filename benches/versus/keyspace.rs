//! Memory per lock, the longest wait beside growth and beside an expiry storm, and the cost of a
//! walk. Not here: CPU per command (`commands.rs`).

use std::time::Duration;

use keylatch::base::clock::{Clock, Stopwatch};

use crate::Options;
use crate::common::Server;
use crate::common::resp::request;
use crate::load::{Pinger, pipelined};
use crate::measure::{cpu_ns, pair, resident, row, table};

const MIB: f64 = 1024.0 * 1024.0;

/// A 20-byte key, a 36-byte token, a deadline.
fn lock(i: usize) -> Vec<u8> {
    request(&["SET", &format!("lock:order:{i:09}"), &format!("{i:036}"), "NX", "PX", "3600000"])
}

pub fn run(options: &Options) {
    table("Keyspace", &["figure", "keylatch", "redis-server", "ratio"]);
    if options.wants("memory per lock") {
        memory(options);
    }
    if options.wants("growth pauses") {
        growth(options);
    }
    if options.wants("expiry storm") {
        storm(options);
    }
}

/// The same on both servers, one after the other.
fn both<T>(measure: impl Fn(&Server) -> T) -> (T, T) {
    let one = |server: Server| measure(&server);
    (one(Server::start(&[])), one(Server::redis(&[])))
}

fn memory(options: &Options) {
    let count = options.amount(1_000_000);
    let (ours, theirs) = both(|server| {
        server.client().say("PING");
        let empty = resident(server.pid());
        pipelined(server.port, count, lock);
        let per_lock = (resident(server.pid()) - empty) as f64 / count as f64;
        let walk = cpu_ns(server.pid());
        let found = walk_all(server);
        let walk = (cpu_ns(server.pid()) - walk) as f64 / 1e6;
        assert!(found >= count, "SCAN found {found} of {count}");
        pipelined(server.port, count, |i| request(&["DEL", &format!("lock:order:{i:09}")]));
        std::thread::sleep(Duration::from_secs(2));
        [per_lock, walk, (resident(server.pid()) as f64 - empty as f64) / MIB]
    });
    pair(&format!("resident memory per lock, {count} locks"), "bytes", ours[0], theirs[0]);
    pair(&format!("SCAN MATCH lock:* COUNT 1000 over {count} keys, CPU"), "ms", ours[1], theirs[1]);
    pair("memory kept 2 s after all were deleted", "MiB", ours[2], theirs[2]);
}

fn walk_all(server: &Server) -> usize {
    let mut client = server.client();
    let mut cursor = "0".to_owned();
    let mut found = 0;
    loop {
        let reply = client.value(&["SCAN", &cursor, "MATCH", "lock:*", "COUNT", "1000"]);
        let items = reply.items().expect("SCAN answers a pair");
        found += items[1].items().expect("names").len();
        cursor = items[0].text();
        if cursor == "0" {
            return found;
        }
    }
}

fn growth(options: &Options) {
    let count = options.amount(4_000_000);
    let (ours, theirs) = both(|server| {
        let pinger = Pinger::start(server.port);
        pipelined(server.port, count, lock);
        let mut waits = pinger.waits();
        waits.sort_by(f64::total_cmp);
        [waits[waits.len() - 1], waits[waits.len() * 999 / 1000]]
    });
    pair(&format!("longest PING beside {count} inserts"), "ms", ours[0], theirs[0]);
    pair("99.9 % of those PINGs within", "ms", ours[1], theirs[1]);
    // What the machine itself makes a PING wait while server and load take its cores.
    let (busy, idle) = (Server::start(&[]), Server::start(&[]));
    let pinger = Pinger::start(idle.port);
    pipelined(busy.port, count, lock);
    control("longest PING to an idle keylatch beside another that takes those inserts", &pinger.waits());
}

/// A row for what is not the server's doing: the longest of `waits`.
fn control(name: &str, waits: &[f64]) {
    let longest = waits.iter().copied().fold(0.0, f64::max);
    row(&[name.to_owned(), format!("{longest:.2} ms"), "-".to_owned(), "-".to_owned()]);
}

fn storm(options: &Options) {
    let count = options.amount(1_000_000);
    let (ours, theirs) = both(|server| {
        server.client().say("PING");
        let empty = resident(server.pid());
        // All due within one second, which begins when they are in for certain.
        let start = Clock::System.now().0 + 12_000;
        pipelined(server.port, count, |i| {
            let at = start + (i * 1000 / count) as i64;
            request(&["SET", &format!("lock:order:{i:09}"), &format!("{i:036}"), "PXAT", &at.to_string()])
        });
        let full = resident(server.pid());
        assert!(Clock::System.now().0 < start, "the keys were not in before the first fell due");
        while Clock::System.now().0 < start - 100 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let cpu = cpu_ns(server.pid());
        let pinger = Pinger::start(server.port);
        let mut client = server.client();
        let watch = Stopwatch::start();
        let mut gone = f64::NAN;
        let mut back = f64::NAN;
        while watch.elapsed() < Duration::from_secs(15) && (gone.is_nan() || back.is_nan()) {
            // Counted from the moment at which the last key fell due.
            let since = (Clock::System.now().0 - start - 1000) as f64 / 1000.0;
            let left = client.value(&["DBSIZE"]).int().expect("a number");
            if gone.is_nan() && left <= count as i64 / 100 {
                gone = since;
            }
            if back.is_nan() && resident(server.pid()) < empty + (full - empty) / 4 {
                back = since;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let longest = pinger.waits().into_iter().fold(0.0, f64::max);
        [longest, gone, back, (cpu_ns(server.pid()) - cpu) as f64 / 1e6]
    });
    pair(&format!("longest PING while {count} keys fall due in one second"), "ms", ours[0], theirs[0]);
    pair("99 % of them gone, after the last fell due", "s", ours[1], theirs[1]);
    pair("three quarters of their memory back, after the last fell due", "s", ours[2], theirs[2]);
    pair("CPU for all of it", "ms", ours[3], theirs[3]);
    let idle = Server::start(&[]);
    let pinger = Pinger::start(idle.port);
    std::thread::sleep(Duration::from_secs(3));
    control("longest PING to an idle keylatch in three seconds", &pinger.waits());
}
