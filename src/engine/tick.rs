//! What the server does by itself between requests: the active expire cycle, dropping what was
//! flushed, clients that are silent for too long. Not here: when it is called (`server`).

use super::core::Core;
use super::session::Closing;
use crate::base::clock::Stopwatch;
use crate::keyspace::expire::{self, Effort};
use std::time::Duration;

/// Entries of a flushed database that one slice drops.
const REAP: usize = 2_000;

impl Core {
    /// Whether anything is left for the cron to do: without, the process sleeps.
    pub fn needs_cron(&self) -> bool {
        !self.reaper.is_empty()
            || self.keeps_data()
            || !self.waiting.is_empty()
            || self.config.timeout > 0
            || (self.active_expire
                && (0..self.keyspace.count()).any(|db| self.keyspace.db(db).volatile_len() > 0))
    }

    /// How long the cron may sleep; `None`: until something comes up.
    pub fn next_tick(&self) -> Option<Duration> {
        let period = Duration::from_micros(1_000_000 / u64::from(self.config.hz.max(1)));
        self.needs_cron().then(|| self.until_next_deadline().map_or(period, |until| until.min(period)))
    }

    /// One slice of background work. Tells whether there is more to do at once.
    pub fn tick(&mut self) -> bool {
        self.begin_turn();
        self.pass_deadlines();
        if self.cron_paused {
            return false;
        }
        let mut more = self.expire_slice();
        more |= self.reap();
        self.close_idle();
        more
    }

    /// A slice of the active expire cycle. Tells whether it is behind.
    fn expire_slice(&mut self) -> bool {
        if !self.active_expire || self.keeps_data() {
            return false;
        }
        let effort = Effort::new(self.config.active_expire_effort);
        let (now, budget, watch) = (self.now(), effort.budget(self.config.hz), Stopwatch::start());
        let (keyspace, progress) = (&mut self.keyspace, &mut self.expire_progress);
        let (chance, effects) = (&mut self.chance, &mut self.effects);
        let report = expire::cycle(keyspace, now, budget, effort, progress, chance, effects);
        self.settle();
        let micros = watch.micros();
        self.note_latency("expire-cycle", micros);
        self.stats.expire_cycle_micros += micros;
        self.stats.expire_cap_reached += u64::from(report.behind);
        if let Some(share) = report.stale_share() {
            // The running mean that Redis keeps.
            self.stats.expired_stale_share = share * 0.05 + self.stats.expired_stale_share * 0.95;
        }
        report.behind
    }

    /// Drops a part of what was flushed. Tells whether there is more.
    fn reap(&mut self) -> bool {
        if self.reaper.front_mut().is_some_and(|db| !db.drop_some(REAP)) {
            self.reaper.pop_front();
        }
        !self.reaper.is_empty()
    }

    /// `timeout`: ends clients that have been silent for so many seconds.
    fn close_idle(&mut self) {
        let seconds = self.config.timeout;
        if seconds == 0 || self.trouble.stall().is_some() {
            return;
        }
        let now = self.now();
        let idle: Vec<usize> = self
            .clients
            .iter()
            .filter(|(_, s)| {
                s.subscriptions == 0
                    && !s.waits()
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
