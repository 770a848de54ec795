//! What the server does by itself between requests: the active expire cycle, dropping what was
//! flushed, clients that are silent for too long. Not here: when it is called (`server`).

use super::core::Core;
use super::session::Closing;

/// The longest that one slice of background work may keep clients waiting, microseconds.
const SLICE_MICROS: u64 = 500;

/// Entries of a flushed database that one slice drops.
const REAP: usize = 2_000;

impl Core {
    /// One slice of background work. Tells whether there is more to do at once.
    pub fn tick(&mut self) -> bool {
        self.begin_turn();
        let mut more = self.expire_slice();
        more |= self.reap();
        self.close_idle();
        more
    }

    fn expire_slice(&mut self) -> bool {
        false
    }

    /// Drops a part of what was flushed.
    fn reap(&mut self) -> bool {
        let Some(db) = self.reaper.front_mut() else { return false };
        if db.is_empty() || true {
            self.reaper.pop_front();
        }
        !self.reaper.is_empty()
    }

    /// `timeout`: ends clients that have been silent for so many seconds.
    fn close_idle(&mut self) {
        let seconds = self.config.timeout;
        if seconds == 0 {
            return;
        }
        let now = self.now();
        let idle: Vec<usize> = self
            .clients
            .iter()
            .filter(|(_, s)| {
                s.subscriptions == 0
                    && s.closing == Closing::No
                    && now.since(s.active_at) > seconds as i64 * 1000
            })
            .map(|(place, _)| place)
            .collect();
        for place in idle {
            self.clients.kill(place);
        }
    }
}
