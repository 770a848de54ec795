//! What the server does by itself between requests: the active expire cycle, dropping what was
//! flushed, clients that are silent for too long. Not here: when it is called (`server`).

use super::core::Core;
use super::session::Closing;
use crate::keyspace::expire::{self, Budget};

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
        if !self.active_expire {
            return false;
        }
        let now = self.now();
        let cycle = expire::Cycle { effort: self.config.active_expire_effort, hz: self.config.hz };
        let report = expire::cycle(
            &mut self.keyspace,
            &mut self.expire_state,
            now,
            Budget::Micros(SLICE_MICROS),
            cycle,
            &mut self.chance,
            &mut self.effects,
        );
        self.stats.expire_cycle_micros += report.micros;
        self.stats.expired_stale_share = report.stale_share;
        self.settle();
        report.behind
    }

    /// Drops a part of what was flushed.
    fn reap(&mut self) -> bool {
        let Some(db) = self.reaper.front_mut() else { return false };
        if db.drop_some(REAP) {
            self.reaper.pop_front();
            crate::base::memory::purge_soon();
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
                s.subscriptions == 0 && s.closing == Closing::No && now.since(s.active_at) > seconds as i64 * 1000
            })
            .map(|(place, _)| place)
            .collect();
        for place in idle {
            self.clients.kill(place);
        }
    }
}
