//! Server CPU per command, at three depths of pipeline, for the commands that a lock is made of.
//! Not here: memory and pauses (`keyspace.rs`).

use crate::Options;
use crate::common::Server;
use crate::echo::{Echo, benchmark};
use crate::load;
use crate::measure::{cpu_ns, median, row, table};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
const TOKEN: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
const KEY: &str = "lock:ord:__rand_int__";
const KEYS: usize = 100_000;
/// With one token for all, each acquisition would be a mistake to be written down as well.
const OWN_TOKEN: &str = "0f8fad5b-d9cb-469f-a165-__rand_int__";
/// By a server that keeps the history of its locks: each attempt is written down.
const KEPT: &str = "SET NX PX, history kept";

/// Depth of pipeline, connections, requests in a round.
const SHAPES: [(usize, usize, usize); 3] = [(1, 50, 150_000), (16, 10, 600_000), (100, 4, 1_500_000)];

pub fn run(options: &Options) {
    let (ours, theirs, echo) = (Server::start(&[]), Server::redis(&[]), Echo::start());
    let book = Server::start(&["--lock-history-len", "10000"]);
    let sha = |server: &Server| server.client().value(&["SCRIPT", "LOAD", RELEASE]).text();
    let digest = sha(&theirs);
    assert_eq!(digest, sha(&ours), "both name a script alike");
    let rows: [(&str, Vec<&str>); 7] = [
        ("SET NX PX", vec!["SET", KEY, TOKEN, "NX", "PX", "30000"]),
        (KEPT, vec!["SET", KEY, OWN_TOKEN, "NX", "PX", "30000"]),
        ("GET", vec!["GET", KEY]),
        ("PTTL", vec!["PTTL", KEY]),
        ("release by EVAL", vec!["EVAL", RELEASE, "1", KEY, TOKEN]),
        ("release by EVALSHA", vec!["EVALSHA", &digest, "1", KEY, TOKEN]),
        ("release by DELEX", vec!["DELEX", KEY, "IFEQ", TOKEN]),
    ];
    // redis-server 7.0 has no DELEX: it releases by the script.
    let by_script = vec!["EVALSHA", digest.as_str(), "1", KEY, TOKEN];
    let columns =
        ["command", "pipeline", "keylatch", "redis-server", "echo", "ratio", "spread", "echo / redis"];
    table("Server CPU per command, in microseconds", &columns);
    for (pipeline, clients, requests) in SHAPES {
        let requests = options.amount(requests);
        for (name, command) in &rows {
            if !options.wants(&format!("commands {name} P{pipeline}")) {
                continue;
            }
            let measured = (0..options.rounds()).map(|round| {
                let one = |port: u16, pid: u32| {
                    let before = cpu_ns(pid);
                    let instead = *name == "release by DELEX" && port == theirs.port;
                    let command = if instead { &by_script } else { command };
                    benchmark(port, clients, pipeline, requests, KEYS, command);
                    (cpu_ns(pid) - before) as f64 / requests as f64 / 1000.0
                };
                let server = |server: &Server| {
                    prepare(server, name);
                    one(server.port, server.pid())
                };
                let ours = if *name == KEPT { &book } else { &ours };
                // Who goes first changes from round to round.
                let (a, b) = if round % 2 == 0 {
                    let a = server(ours);
                    (a, server(&theirs))
                } else {
                    let b = server(&theirs);
                    (server(ours), b)
                };
                (a, b, one(echo.port, echo.pid()))
            });
            report(name, pipeline, &measured.collect::<Vec<_>>());
        }
    }
    if options.wants("commands acquire and release P16") {
        let rounds = options.amount(4000);
        let measured = (0..options.rounds()).map(|_| {
            let one = |server: &Server| {
                let before = cpu_ns(server.pid());
                load::acquire_and_release(server.port, &digest, 10, 8, rounds);
                (cpu_ns(server.pid()) - before) as f64 / (rounds * 10 * 8 * 2) as f64 / 1000.0
            };
            (one(&ours), one(&theirs), f64::NAN)
        });
        report("acquire and release by EVALSHA", 16, &measured.collect::<Vec<_>>());
    }
}

/// The keys as the command wants to find them.
fn prepare(server: &Server, name: &str) {
    server.client().say("FLUSHALL");
    if name == "GET" || name == "PTTL" || name.starts_with("release") {
        // Half the keys are there; a release that finds its own token deletes it.
        load::pipelined(server.port, KEYS / 2, |i| {
            crate::common::resp::request(&["SET", &format!("lock:ord:{:012}", i * 2), TOKEN, "PX", "3600000"])
        });
    }
}

fn report(name: &str, pipeline: usize, rounds: &[(f64, f64, f64)]) {
    let mut ratios: Vec<f64> = rounds.iter().map(|(a, b, _)| a / b).collect();
    let middle = |pick: fn(&(f64, f64, f64)) -> f64| median(&mut rounds.iter().map(pick).collect::<Vec<_>>());
    let ratio = median(&mut ratios);
    let (ours, theirs, echo) = (middle(|r| r.0), middle(|r| r.1), middle(|r| r.2));
    let shown = |x: f64, digits: usize| if x.is_nan() { "-".to_owned() } else { format!("{x:.digits$}") };
    row(&[
        name.to_owned(),
        pipeline.to_string(),
        shown(ours, 3),
        shown(theirs, 3),
        shown(echo, 3),
        shown(ratio, 2),
        format!("{:.2}-{:.2}", ratios[0], ratios[ratios.len() - 1]),
        shown(echo / theirs, 2),
    ]);
}
