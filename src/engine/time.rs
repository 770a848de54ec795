//! Moving the server's time: what fell due on the way happens in the order of its deadlines before
//! the move is over. Not here: who may move it (`command::keylatch`, the embedding API).

use super::core::Core;
use crate::base::clock::{Clock, UnixMs};
use crate::keyspace::Access;
use crate::keyspace::access::Limits;

impl Core {
    /// Moves the clock to `to` (absolute). Forwards, all that falls due until then is done first,
    /// each at its own moment; backwards, nothing is undone.
    pub fn move_clock(&mut self, to: UnixMs) {
        let runs = self.clock.runs();
        let target = to.0.saturating_mul(1000);
        let mut kept = Vec::new();
        if target > self.clock.now_micros() && self.active_expire {
            for (deadline, db, key) in self.due_until(to) {
                self.clock = Clock::Manual(deadline.0.max(self.now().0).saturating_mul(1000));
                self.begin_turn();
                self.pass_deadlines();
                // A pause of writes keeps the data as it is: what falls due goes after it.
                if self.keeps_data() {
                    kept.push((db, key));
                } else {
                    kept.drain(..).for_each(|(db, key)| self.expire_key(db, &key));
                    self.expire_key(db, &key);
                }
            }
        }
        self.clock = Clock::Manual(target);
        if runs {
            self.clock.resume();
        }
        self.begin_turn();
        self.pass_deadlines();
        if !self.keeps_data() {
            kept.iter().for_each(|(db, key)| self.expire_key(*db, key));
        }
    }

    /// Moves the clock by `ms`, which may be negative.
    pub fn advance(&mut self, ms: i64) {
        self.begin_turn();
        self.move_clock(UnixMs(self.now().0.saturating_add(ms)));
    }

    /// The keys whose deadlines pass until `to`, the earliest first.
    fn due_until(&self, to: UnixMs) -> Vec<(UnixMs, usize, Vec<u8>)> {
        let mut due = Vec::new();
        for index in 0..self.keyspace.count() {
            let db = self.keyspace.db(index);
            if db.volatile_len() == 0 {
                continue;
            }
            let mut cursor = 0;
            loop {
                cursor = db.scan(cursor, 1024, |slot| {
                    if let Some(deadline) = db.deadline(slot).filter(|&deadline| deadline <= to) {
                        due.push((deadline, index, db.key(slot).to_vec()));
                    }
                });
                if cursor == 0 {
                    break;
                }
            }
        }
        due.sort();
        due
    }

    pub(super) fn expire_key(&mut self, db: usize, key: &[u8]) {
        let limits = Limits::NONE;
        let now = self.now();
        let (keyspace, chance) = (&mut self.keyspace, &mut self.chance);
        Access::new(keyspace, db, now, chance, &mut self.effects, limits).find(key);
        self.settle();
    }
}
