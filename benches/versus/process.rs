//! Start-up, memory of an idle process, memory of idle connections. Not here: anything under load.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use keylatch::base::clock::Stopwatch;

use crate::Options;
use crate::common::{Server, binary, command, free_port, is_keylatch};
use crate::measure::{cpu_ns, median, pair, resident, table};

pub fn run(options: &Options) {
    table("Process", &["figure", "keylatch", "redis-server", "ratio"]);
    if options.wants("start-up") {
        let ours = if is_keylatch() { vec![] } else { vec!["--save", ""] };
        pair(
            "exec to first PONG",
            "ms",
            start_up(&binary(), &ours),
            start_up("redis-server", &["--save", ""]),
        );
    }
    if options.wants("idle") {
        let idle = |server: Server| {
            std::thread::sleep(Duration::from_secs(1));
            let before = cpu_ns(server.pid());
            std::thread::sleep(Duration::from_secs(2));
            let cpu = (cpu_ns(server.pid()) - before) as f64 / 2e6;
            (resident(server.pid()) as f64 / 1024.0 / 1024.0, cpu)
        };
        let (ours, theirs) = (idle(Server::start(&[])), idle(Server::redis(&[])));
        pair("resident when idle", "MiB", ours.0, theirs.0);
        pair("CPU when idle, per second", "ms", ours.1, theirs.1);
    }
    if options.wants("connections") {
        let count = options.amount(10_000);
        let one = |server: Server| {
            server.client().say("PING");
            let before = resident(server.pid());
            let clients: Vec<_> = (0..count)
                .map(|_| {
                    let mut client = server.client();
                    assert_eq!(client.say("PING"), "+PONG");
                    client
                })
                .collect();
            // Redis gives a client's buffers back from its cron.
            std::thread::sleep(Duration::from_secs(4));
            let bytes = (resident(server.pid()) as f64 - before as f64) / count as f64;
            drop(clients);
            bytes
        };
        let limit = ["--maxclients", "11000"];
        let (ours, theirs) = (one(Server::start(&limit)), one(Server::redis(&limit)));
        pair(&format!("memory for each of {count} idle connections"), "bytes", ours, theirs);
    }
}

/// From exec to the first PONG, in milliseconds: the middle of several starts.
fn start_up(program: &str, args: &[&str]) -> f64 {
    let dir = tempfile::tempdir().expect("a directory for the server");
    let mut times: Vec<f64> = (0..21)
        .map(|_| {
            let port = free_port();
            let port_text = port.to_string();
            let mut all = vec!["--port", &port_text, "--bind", "127.0.0.1"];
            all.extend(args);
            let mut command = command(program, dir.path(), &all);
            let watch = Stopwatch::start();
            let mut child = command.spawn().expect("the server starts");
            loop {
                if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                    let mut pong = [0; 7];
                    stream.write_all(b"PING\r\n").expect("the server reads");
                    stream.read_exact(&mut pong).expect("the server answers");
                    break;
                }
                assert!(watch.elapsed() < Duration::from_secs(10), "the server does not start");
                std::thread::sleep(Duration::from_micros(50));
            }
            let ms = watch.elapsed().as_secs_f64() * 1000.0;
            let _ = child.kill();
            let _ = child.wait();
            ms
        })
        .collect();
    median(&mut times)
}
