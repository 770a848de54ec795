//! Back to the start, for use between two tests: data, time, chance, parameters, faults, statistics.
//! Connections stay, as do their own settings. Not here: the scripts (the host forgets them).

use super::core::Core;
use crate::base::chance::Chance;
use crate::base::clock::Clock;
use crate::config::{Config, Hooks};
use crate::keyspace::Access;
use crate::keyspace::access::Limits;

/// What a server starts with, kept to go back to.
#[derive(Clone, Debug)]
pub struct Start {
    pub config: Config,
    pub clock: Clock,
    pub chance: Chance,
}

impl Core {
    /// Makes everything random follow from `chance`: the generator, and the hashes of what is
    /// stored from here on.
    pub fn reseed(&mut self, mut chance: Chance) {
        self.keyspace.set_hash_seed(chance.bits());
        self.chance = chance;
    }

    /// Puts all back as it was at the start, but for scripts and connections. `Err`: a parameter
    /// that could not be put back.
    pub fn reset(&mut self) -> Result<(), (Hooks, String)> {
        self.turn_page_of_book();
        let limits = Limits::NONE;
        let now = self.now();
        for db in 0..self.keyspace.count() {
            let (keyspace, chance) = (&mut self.keyspace, &mut self.chance);
            Access::new(keyspace, db, now, chance, &mut self.effects, limits).flush(db);
        }
        self.settle();
        let start = self.start.clone();
        let hooks = start.config.differs_from(&self.config);
        self.config = start.config;
        self.clock = start.clock;
        self.reseed(start.chance);
        self.active_expire = true;
        self.cron_paused = false;
        self.unpause();
        self.reset_faults();
        self.slowlog.clear();
        self.latency.clear();
        self.reset_statistics();
        self.begin_turn();
        self.reconfigure(hooks)
    }
}
