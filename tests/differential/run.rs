//! Runs a stream against both servers, finds the first difference and shrinks it. Not here: what is
//! sent (`grammar.rs`), what counts as the same (`check.rs`).

use std::fmt;

use crate::common::{Client, Server, is_keylatch, resp};
use crate::grammar::{Bytes, Step};

/// Commands sent ahead before replies are read. The replies to a batch must fit the sockets' buffers.
const BATCH: usize = 50;

/// What is put back before each stream: parameters that a stream may change, as pairs.
const DEFAULTS: &[&str] = &[
    "maxmemory",
    "0",
    "maxmemory-policy",
    "noeviction",
    "timeout",
    "0",
    "hz",
    "10",
    "loglevel",
    "notice",
    "notify-keyspace-events",
    "",
    "active-expire-effort",
    "1",
    "protected-mode",
    "no",
    "proto-max-bulk-len",
    "512mb",
    "busy-reply-threshold",
    "5000",
    "maxclients",
    "10000",
    "tcp-keepalive",
    "300",
];

const START: &[&str] = &["--enable-debug-command", "yes"];

/// The two servers.
pub struct Pair {
    ours: Server,
    theirs: Server,
}

/// A difference, shrunk.
pub struct Finding {
    seed: u64,
    protocol: u8,
    steps: Vec<Step>,
    ours: Vec<u8>,
    theirs: Vec<u8>,
}

impl Pair {
    pub fn start() -> Pair {
        let mut ours = START.to_vec();
        if is_keylatch() {
            ours.extend(["--compat-version", "7.0.15"]);
        }
        Pair { ours: Server::start(&ours), theirs: Server::redis(START) }
    }

    /// The place of the first reply that differs.
    fn first_difference(&self, protocol: u8, steps: &[Step]) -> Option<usize> {
        self.difference(protocol, steps).map(|(at, _, _)| at)
    }

    /// The same, with both replies.
    pub fn difference(&self, protocol: u8, steps: &[Step]) -> Option<(usize, Vec<u8>, Vec<u8>)> {
        let connections = steps.iter().map(|s| s.connection).max().map_or(1, |most| most + 1);
        let mut ours = fresh(&self.ours, protocol, connections);
        let mut theirs = fresh(&self.theirs, protocol, connections);
        let mut at = 0;
        while at < steps.len() {
            // A batch stays on one connection: what another sends must not overtake it.
            let connection = steps[at].connection;
            let batch: Vec<&Step> =
                steps[at..].iter().take(BATCH).take_while(|s| s.connection == connection).collect();
            let bytes: Vec<u8> = batch.iter().flat_map(|s| resp::request(&s.args)).collect();
            ours[connection].raw(&bytes);
            theirs[connection].raw(&bytes);
            for (offset, step) in batch.iter().enumerate() {
                let (a, b) = (ours[connection].frame(), theirs[connection].frame());
                match (a, b) {
                    (Some(a), Some(b)) if step.check.same(&a, &b) => {}
                    // No stream ends a connection, so silence on both sides is no agreement.
                    (a, b) => {
                        let said = |reply: Option<Vec<u8>>| reply.unwrap_or_else(|| b"(no reply)".to_vec());
                        return Some((at + offset, said(a), said(b)));
                    }
                }
            }
            at += batch.len();
        }
        None
    }

    /// Leaves out whatever can be left out while the last command still differs.
    pub fn shrink(
        &self,
        seed: u64,
        protocol: u8,
        steps: &[Step],
        (_, ours, theirs): (usize, Vec<u8>, Vec<u8>),
    ) -> Finding {
        let mut kept = steps.to_vec();
        let mut chunk = kept.len().div_ceil(2);
        loop {
            let mut start = 0;
            let mut dropped = false;
            while start + 1 < kept.len() {
                // The last command is the one that differs: it stays.
                let end = (start + chunk).min(kept.len() - 1);
                let mut fewer = kept[..start].to_vec();
                fewer.extend_from_slice(&kept[end..]);
                if self.first_difference(protocol, &fewer) == Some(fewer.len() - 1) {
                    kept = fewer;
                    dropped = true;
                } else {
                    start = end;
                }
            }
            if chunk == 1 && !dropped {
                break;
            }
            chunk = if dropped && chunk == 1 { 1 } else { chunk.div_ceil(2).max(1) };
        }
        let (ours, theirs) = match self.difference(protocol, &kept) {
            Some((_, ours, theirs)) => (ours, theirs),
            // Not seen again: what was seen the first time.
            None => (ours, theirs),
        };
        Finding { seed, protocol, steps: kept, ours, theirs }
    }
}

/// An empty server as it was at the start, and new connections to it.
fn fresh(server: &Server, protocol: u8, connections: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..connections).map(|_| server.client()).collect();
    let first = &mut clients[0];
    for command in ["FLUSHALL", "SCRIPT FLUSH", "CONFIG RESETSTAT", "DEBUG SET-ACTIVE-EXPIRE 0"] {
        first.say(command);
    }
    for pair in DEFAULTS.chunks(2) {
        first.call(&["CONFIG", "SET", pair[0], pair[1]]);
    }
    if protocol == 3 {
        for client in &mut clients {
            client.say("HELLO 3");
        }
    }
    clients
}

impl Finding {
    /// The same command with the same pair of replies is one finding, met again.
    pub fn resembles(&self, other: &Finding) -> bool {
        let last = |f: &Finding| f.steps.last().map(|s| s.args[0].to_ascii_uppercase());
        last(self) == last(other)
            && shape(&self.ours) == shape(&other.ours)
            && shape(&self.theirs) == shape(&other.theirs)
    }
}

/// A reply without its numbers.
fn shape(reply: &[u8]) -> Vec<u8> {
    reply.iter().filter(|b| !b.is_ascii_digit()).take(60).copied().collect()
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "== seed {}, RESP{}, {} commands", self.seed, self.protocol, self.steps.len())?;
        for step in &self.steps {
            writeln!(f, "> {}", typed(&step.args))?;
        }
        let check = self.steps.last().map(|s| s.check);
        writeln!(f, "  compared:     {check:?}")?;
        writeln!(f, "  keylatch:     {}", self.ours.escape_ascii())?;
        write!(f, "  redis-server: {}", self.theirs.escape_ascii())
    }
}

/// A command as it can be typed into redis-cli.
fn typed(args: &[Bytes]) -> String {
    let quoted = args.iter().map(|arg| {
        let plain = !arg.is_empty() && arg.iter().all(|b| b.is_ascii_graphic() && !b"\"'\\".contains(b));
        if plain { arg.escape_ascii().to_string() } else { format!("\"{}\"", arg.escape_ascii()) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}
