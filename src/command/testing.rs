//! Transcripts against a keyspace in memory, for the tests beside each family of key commands.
//! Not here: what needs a server (sessions, scripts, notifications), tested over TCP.
//!
//! `> SET k v` runs a command (quotes as in redis-cli); the lines under it are its reply as
//! redis-cli prints it. `~ set expire` names the events that it gave rise to, in order.
//! `@advance 10` moves the clock by so many milliseconds. The clock starts at 1,000,000.

use super::table::table;
use crate::base::chance::Chance;
use crate::base::clock::UnixMs;
use crate::base::words;
use crate::engine::spec::{Arity, Handler};
use crate::keyspace::access::Limits;
use crate::keyspace::{Access, Change, Effects, Keyspace};
use crate::resp::{Args, Reply, TreeReply};

struct Bench {
    keyspace: Keyspace,
    now: UnixMs,
    chance: Chance,
    effects: Effects,
}

impl Bench {
    fn run(&mut self, line: &str) -> String {
        let words = words::split(line.as_bytes()).unwrap_or_else(|| panic!("quotes in {line}"));
        let parts: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let args = Args::new(&parts);
        let spec = table().resolve(&args).unwrap_or_else(|error| panic!("{line}: {error:?}")).spec;
        let enough = match spec.arity {
            Arity::Exactly(n) => args.len() == n,
            Arity::AtLeast(n) => args.len() >= n,
        };
        assert!(enough, "{line}: number of arguments");
        let Handler::Keys(handler) = spec.handler else { panic!("{line}: needs a server") };
        let limits = Limits { max_bulk_len: 512 << 20, no_touch: false, ..Limits::NONE };
        let mut keys =
            Access::new(&mut self.keyspace, 0, self.now, &mut self.chance, &mut self.effects, limits);
        let mut reply = TreeReply::default();
        if let Err(error) = handler(&mut keys, &args, &mut reply) {
            reply.error(&error);
        }
        let replies = reply.finish();
        assert_eq!(replies.len(), 1, "{line}: one reply");
        replies[0].to_string()
    }

    fn events(&mut self) -> String {
        let names = self.effects.changes.drain(..).map(|change| match change {
            Change::Key { event, .. } => event.name,
            Change::Flushed { .. } => "flushed",
            Change::Swapped(..) => "swapped",
        });
        // What has no name is told to watchers alone.
        names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// Runs a transcript on empty databases.
pub fn check(transcript: &str) {
    let mut bench = Bench {
        keyspace: Keyspace::new(16, 1),
        now: UnixMs(1_000_000),
        chance: Chance::from_seed(1),
        // Everything is heard but misses and new keys.
        effects: Effects { listening: true, classes: !(1 << 11 | 1 << 14), ..Effects::default() },
    };
    let mut lines = transcript.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        if let Some(ms) = line.strip_prefix("@advance ") {
            bench.now.0 += ms.parse::<i64>().unwrap_or_else(|_| panic!("{line}"));
        } else if let Some(events) = line.strip_prefix('~') {
            assert_eq!(bench.events(), events.trim(), "events before {:?}", lines.peek());
        } else {
            let command = line.strip_prefix("> ").unwrap_or_else(|| panic!("not a command: {line}"));
            bench.effects.changes.clear();
            let reply = bench.run(command);
            let got: Vec<&str> = reply.lines().map(str::trim).collect();
            let mut want = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with(['>', '@', '~'])) {
                want.push(line);
            }
            assert_eq!(got, want, "{command}");
        }
    }
}
