//! Clients whose requests wait: for the end of CLIENT PAUSE, in WAIT for replicas that will not
//! come, or because a fault has them wait. Times are absolute on the server's clock, so that a test moves them. Not here: the commands
//! (`command::client_wait`, `command::replication`), faults (`striking`), and that a waiting client's socket is left alone
//! (`net`).

use super::core::Core;
use super::spec::Flags;
use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::resp::Reply;
use std::time::Duration;

/// CLIENT PAUSE in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    pub until: UnixMs,
    /// Commands that only read wait as well.
    pub all: bool,
}

impl Pause {
    /// Whether a command with `flags` waits.
    pub fn holds(&self, flags: Flags) -> bool {
        self.all || may_write(flags)
    }
}

/// Whether a command with `flags` may change the data, or would be sent to replicas.
pub fn may_write(flags: Flags) -> bool {
    flags.has(Flags::WRITE) || flags.has(Flags::MAY_REPLICATE)
}

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The end of CLIENT PAUSE: its request is made again then.
    Pause,
    /// Replicas, until then or for ever; `zeros`: how many numbers the answer holds.
    Replicas { until: Option<UnixMs>, zeros: usize },
    /// A fault's delay: then its request is made again, or its reply goes out.
    Delay { until: UnixMs },
    /// A fault's splitting of its reply: the next piece comes then.
    Split { next: UnixMs, bytes: usize },
    /// The end of a fault's stall of the whole server.
    Stall,
    /// Nothing: a fault has its connection hang.
    Hang,
}

impl Wait {
    /// When it ends, or goes on, by itself.
    pub fn until(self) -> Option<UnixMs> {
        match self {
            Wait::Replicas { until, .. } => until,
            Wait::Delay { until } => Some(until),
            Wait::Split { next, .. } => Some(next),
            Wait::Pause | Wait::Stall | Wait::Hang => None,
        }
    }
}

/// How a wait ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// As if the time had come.
    Timeout,
    Error,
}

impl Core {
    /// CLIENT PAUSE. One in force is only made longer and stricter.
    pub fn pause(&mut self, until: UnixMs, all: bool) {
        let old = self.pause.unwrap_or(Pause { until, all });
        self.pause = Some(Pause { until: until.max(old.until), all: all || old.all });
        self.note_special();
    }

    /// CLIENT UNPAUSE, or the end of its time: who waited is served, first come, first served.
    pub fn unpause(&mut self) {
        self.pause = None;
        self.note_special();
        for client in std::mem::take(&mut self.postponed) {
            let session = self.clients.get_mut(client);
            if session.wait == Some(Wait::Pause) {
                session.wait = None;
                self.clients.wake(client);
            }
        }
    }

    /// The pause in force, if its time has not passed.
    pub fn pause_in_force(&mut self) -> Option<Pause> {
        if self.pause.is_some_and(|pause| pause.until <= self.now()) {
            self.unpause();
        }
        self.pause
    }

    /// `client` waits for replicas.
    pub fn wait_for_replicas(&mut self, client: usize, until: Option<UnixMs>, zeros: usize) {
        self.wait_for_time(client, Wait::Replicas { until, zeros });
    }

    /// `client` waits for what `wait` says, until its time.
    pub(super) fn wait_for_time(&mut self, client: usize, wait: Wait) {
        self.clients.get_mut(client).wait = Some(wait);
        self.waiting.push(client);
        self.cron_is_late = true;
    }

    /// Ends `client`'s wait for replicas; false: it was in none.
    pub fn release(&mut self, client: usize, how: Release) -> bool {
        let Some(Wait::Replicas { zeros, .. }) = self.clients.get(client).wait else { return false };
        self.clients.get_mut(client).wait = None;
        self.waiting.retain(|&waiting| waiting != client);
        let mut bytes = Vec::new();
        let mut writer = self.writer(client, &mut bytes);
        match how {
            Release::Error => {
                let error = CommandError::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");
                writer.error(&error);
                self.stats.error(&error.code());
            }
            Release::Timeout => {
                if zeros > 1 {
                    writer.array(zeros);
                }
                (0..zeros).for_each(|_| writer.integer(0));
            }
        }
        self.push(client, &bytes);
        self.clients.wake(client);
        true
    }

    /// When the wait that `client` is in ends by itself.
    fn waits_until(&self, client: usize) -> Option<UnixMs> {
        self.clients.get(client).wait.and_then(Wait::until)
    }

    /// Ends the waits whose time has come, in the order of their times. While the whole server
    /// stands still, none ends.
    pub fn pass_deadlines(&mut self) {
        if self.stands_still() {
            return;
        }
        let now = self.now();
        self.pause_in_force();
        let due = |&client: &usize| Some((self.waits_until(client).filter(|&until| until <= now)?, client));
        let mut due: Vec<(UnixMs, usize)> = self.waiting.iter().filter_map(due).collect();
        due.sort_by_key(|&(until, _)| until);
        for (_, client) in due {
            match self.clients.get(client).wait {
                Some(Wait::Split { .. }) => self.send_pieces(client),
                Some(Wait::Delay { .. }) => self.end_fault(client),
                _ => drop(self.release(client, Release::Timeout)),
            }
        }
    }

    /// How long until the next wait ends by itself; `None`: none does. On a clock that stands, that
    /// is looked at when it is moved.
    pub fn until_next_deadline(&self) -> Option<Duration> {
        if !self.clock.runs() {
            return None;
        }
        let waits = self.waiting.iter().filter_map(|&client| self.waits_until(client));
        let next = waits.chain(self.pause.map(|pause| pause.until)).min();
        let next = self.trouble.stall().or(next)?;
        let ms = next.since(self.clock.now()).max(0);
        Some(Duration::from_millis(ms.unsigned_abs()))
    }
}
