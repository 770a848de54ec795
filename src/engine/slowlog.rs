//! The slow log: the last commands that took longer than slowlog-log-slower-than. Not here: the
//! command (`command::slowlog`).

use super::core::{Core, Origin};
use super::monitor::REDACTED;
use super::spec::Flags;
use super::table::Command;
use crate::resp::Args;
use std::collections::VecDeque;

/// Arguments, and bytes of each, that an entry keeps.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: u64,
    /// When it ended, seconds of Unix time.
    pub at_seconds: i64,
    pub micros: u64,
    /// Cut to a bounded size, passwords left out.
    pub args: Vec<Vec<u8>>,
    pub addr: String,
    pub name: Vec<u8>,
}

/// The slow log, the newest entry first.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl SlowLog {
    /// The entries, the newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Forgets all; ids go on.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Keeps the newest `most`.
    pub fn truncate(&mut self, most: u64) {
        self.entries.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
}

/// What an entry keeps of a request.
fn kept(command: &Command, args: &Args<'_>) -> Vec<Vec<u8>> {
    let whole = args.len() <= ARGS_MAX;
    let shown = if whole { args.len() } else { ARGS_MAX - 1 };
    let mut kept: Vec<Vec<u8>> = (0..shown)
        .map(|i| {
            let arg = args.get(i);
            if command.is_secret(args, i) {
                REDACTED.to_vec()
            } else if arg.len() > ARG_BYTES_MAX {
                let rest = format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX);
                [&arg[..ARG_BYTES_MAX], rest.as_bytes()].concat()
            } else {
                arg.to_vec()
            }
        })
        .collect();
    if !whole {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}

impl Core {
    /// Logs a command that took `micros`, if that is slow.
    #[inline]
    pub(super) fn log_if_slow(
        &mut self,
        client: usize,
        command: &Command,
        args: &Args<'_>,
        origin: Origin,
        micros: u64,
    ) {
        let threshold = self.config.slowlog_log_slower_than;
        if u64::try_from(threshold).is_ok_and(|threshold| micros >= threshold) {
            self.log_slow(client, command, args, origin, micros);
        }
    }

    #[cold]
    fn log_slow(&mut self, client: usize, command: &Command, args: &Args<'_>, origin: Origin, micros: u64) {
        if command.has(Flags::SKIP_SLOWLOG) {
            return;
        }
        let session = self.clients.get(client);
        // A script's commands are nobody's, as in Redis.
        let (addr, name) = match origin {
            Origin::Script => ("?:0".to_owned(), Vec::new()),
            _ => (session.addr.clone(), session.name.clone()),
        };
        let entry = Entry {
            id: self.slowlog.next_id,
            at_seconds: self.now().0.div_euclid(1000),
            micros,
            args: kept(command, args),
            addr,
            name,
        };
        self.slowlog.next_id += 1;
        self.slowlog.entries.push_front(entry);
        self.slowlog.truncate(self.config.slowlog_max_len);
    }
}
