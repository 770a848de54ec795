//! Load that redis-benchmark cannot make: numbered keys, pairs of commands, a PING that is timed
//! beside it. Not here: what is measured.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use keylatch::base::clock::Stopwatch;

use crate::common::resp::{frame_len, request};

/// Requests in one write.
const BATCH: usize = 100;

/// Sends `count` requests that `make` gives, pipelined, and reads every reply.
pub fn pipelined(port: u16, count: usize, make: impl Fn(usize) -> Vec<u8>) {
    let mut stream = connect(port);
    let mut replies = Replies::default();
    let mut sent = 0;
    while sent < count {
        let batch = BATCH.min(count - sent);
        let bytes: Vec<u8> = (sent..sent + batch).flat_map(&make).collect();
        stream.write_all(&bytes).expect("the server reads");
        replies.skip(&mut stream, batch);
        sent += batch;
    }
}

/// `clients` threads, each acquiring and releasing a lock of its own, `pairs` at a time in one
/// write, `rounds` times.
pub fn acquire_and_release(port: u16, sha: &str, clients: usize, pairs: usize, rounds: usize) {
    let threads: Vec<_> = (0..clients)
        .map(|id| {
            let key = format!("lock:order:{id:09}");
            let token = format!("{id:036}");
            let mut bytes = request(&["SET", &key, &token, "NX", "PX", "30000"]);
            bytes.extend(request(&["EVALSHA", sha, "1", &key, &token]));
            let bytes = bytes.repeat(pairs);
            let wanted = b"+OK\r\n:1\r\n".repeat(pairs);
            std::thread::spawn(move || {
                let mut stream = connect(port);
                let mut replies = vec![0; wanted.len()];
                for _ in 0..rounds {
                    stream.write_all(&bytes).expect("the server reads");
                    stream.read_exact(&mut replies).expect("the server answers");
                    assert!(replies == wanted, "a lock was not acquired and released");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no client fails");
    }
}

/// A PING that is sent again and again beside other load.
pub struct Pinger {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<f64>>,
}

impl Pinger {
    pub fn start(port: u16) -> Pinger {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut stream = connect(port);
            let mut waits = Vec::new();
            let mut pong = [0; 7];
            while !seen.load(Ordering::Relaxed) {
                let watch = Stopwatch::start();
                stream.write_all(b"PING\r\n").expect("the server reads");
                stream.read_exact(&mut pong).expect("the server answers");
                waits.push(watch.elapsed().as_secs_f64() * 1000.0);
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            waits
        });
        Pinger { stop, thread }
    }

    /// Ends it; the waits in milliseconds, in order of time.
    pub fn waits(self) -> Vec<f64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("PING is answered")
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
    stream.set_nodelay(true).expect("a TCP socket");
    stream
}

/// Counts replies off a stream.
#[derive(Default)]
struct Replies {
    buffer: Vec<u8>,
}

impl Replies {
    fn skip(&mut self, stream: &mut TcpStream, mut count: usize) {
        let mut chunk = [0; 65536];
        let mut at = 0;
        loop {
            while count > 0 {
                let Some(n) = frame_len(&self.buffer[at..]) else { break };
                at += n;
                count -= 1;
            }
            self.buffer.drain(..at);
            at = 0;
            if count == 0 {
                return;
            }
            let n = stream.read(&mut chunk).expect("the server answers");
            assert!(n > 0, "the server closed the connection");
            self.buffer.extend_from_slice(&chunk[..n]);
        }
    }
}
