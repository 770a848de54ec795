//! WATCH: which keys a client's transaction depends on, and whether any has changed. Not here: what
//! a change is (`keyspace::event`), and the queue (`session`).

use super::core::Core;
use crate::base::clock::UnixMs;
use crate::keyspace::Db;
use std::collections::HashMap;

/// A watched key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub db: usize,
    pub key: Box<[u8]>,
    /// Its deadline had passed when it was watched: its removal is no change.
    pub was_due: bool,
}

/// Who watches what.
#[derive(Debug, Default)]
pub struct Watches {
    by_key: HashMap<(usize, Box<[u8]>), Vec<usize>>,
}

impl Watches {
    /// Whether nobody watches anything.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The watched keys of `db`.
    fn of(&self, db: usize) -> Vec<Box<[u8]>> {
        self.by_key.keys().filter(|(index, _)| *index == db).map(|(_, key)| key.clone()).collect()
    }
}

/// Whether `key` is in `db` and its deadline has passed.
fn is_due(db: &Db, key: &[u8], now: UnixMs) -> bool {
    let slot = db.find(key);
    slot.is_some() && db.deadline(slot).is_some_and(|deadline| deadline <= now)
}

impl Core {
    /// `client`'s next EXEC depends on `key` of its database.
    pub fn watch(&mut self, client: usize, key: &[u8]) {
        let now = self.now();
        let session = self.clients.get_mut(client);
        let db = session.db;
        if session.watched.iter().any(|watched| watched.db == db && *watched.key == *key) {
            return;
        }
        let was_due = is_due(self.keyspace.db(db), key, now);
        session.watched.push(Watched { db, key: key.into(), was_due });
        self.watches.by_key.entry((db, key.into())).or_default().push(client);
        self.update_interest();
    }

    /// `client` depends on nothing any more.
    pub fn unwatch(&mut self, client: usize) {
        let session = self.clients.get_mut(client);
        session.watch_broken = false;
        for watched in std::mem::take(&mut session.watched) {
            let place = (watched.db, watched.key);
            if let Some(watchers) = self.watches.by_key.get_mut(&place) {
                watchers.retain(|&watcher| watcher != client);
                if watchers.is_empty() {
                    self.watches.by_key.remove(&place);
                }
            }
        }
        self.update_interest();
    }

    /// Whether something that `client` watches has changed, or has expired unseen.
    pub fn watch_is_broken(&self, client: usize) -> bool {
        let session = self.clients.get(client);
        let now = self.now();
        let expired =
            |watched: &Watched| !watched.was_due && is_due(self.keyspace.db(watched.db), &watched.key, now);
        session.watch_broken || session.watched.iter().any(expired)
    }

    /// `key` of `db` has changed; `expired`: by passing its deadline.
    pub(super) fn break_watches(&mut self, db: usize, key: &[u8], expired: bool) {
        let Some(watchers) = self.watches.by_key.get(&(db, key.into())) else { return };
        for &client in watchers {
            let session = self.clients.get_mut(client);
            let known = |watched: &Watched| watched.db == db && *watched.key == *key && watched.was_due;
            // What was gone already when it was watched may be swept.
            if !(expired && session.watched.iter().any(known)) {
                session.watch_broken = true;
            }
        }
    }

    /// `db` has been emptied of `old`: what was there has changed.
    pub(super) fn break_watches_flushed(&mut self, db: usize, old: &Db) {
        for key in self.watches.of(db) {
            if old.find(&key).is_some() {
                self.break_watches(db, &key, false);
            }
        }
    }

    /// Databases `a` and `b` have changed places: what is there in either has changed.
    pub(super) fn break_watches_swapped(&mut self, a: usize, b: usize) {
        for db in [a, b] {
            for key in self.watches.of(db) {
                if [a, b].iter().any(|&content| self.keyspace.db(content).find(&key).is_some()) {
                    self.break_watches(db, &key, false);
                }
            }
        }
    }

    /// Changes are kept one by one only while somebody wants them.
    pub fn update_interest(&mut self) {
        self.effects.listening = !self.watches.is_empty();
    }
}
