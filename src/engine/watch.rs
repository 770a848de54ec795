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
    /// By database; shorter than there are databases as long as none of the last is watched.
    dbs: Vec<HashMap<Box<[u8]>, Vec<usize>>>,
    keys: usize,
}

impl Watches {
    /// Whether nobody watches anything.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    fn add(&mut self, db: usize, key: &[u8], client: usize) {
        if self.dbs.len() <= db {
            self.dbs.resize_with(db + 1, HashMap::default);
        }
        let watchers = self.dbs[db].entry(key.into()).or_default();
        self.keys += usize::from(watchers.is_empty());
        watchers.push(client);
    }

    fn remove(&mut self, db: usize, key: &[u8], client: usize) {
        let Some(watchers) = self.dbs[db].get_mut(key) else { return };
        watchers.retain(|&watcher| watcher != client);
        if watchers.is_empty() {
            self.dbs[db].remove(key);
            self.keys -= 1;
        }
    }

    fn watchers(&self, db: usize, key: &[u8]) -> &[usize] {
        self.dbs.get(db).and_then(|keys| keys.get(key)).map_or(&[], Vec::as_slice)
    }

    /// The watched keys of `db`.
    fn of(&self, db: usize) -> Vec<Box<[u8]>> {
        self.dbs.get(db).map_or_else(Vec::new, |keys| keys.keys().cloned().collect())
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
        // What is broken already cannot break again.
        if session.watch_broken
            || session.watched.iter().any(|watched| watched.db == db && *watched.key == *key)
        {
            return;
        }
        let was_due = is_due(self.keyspace.db(db), key, now);
        session.watched.push(Watched { db, key: key.into(), was_due });
        self.watches.add(db, key, client);
        self.update_interest();
    }

    /// `client` depends on nothing any more.
    pub fn unwatch(&mut self, client: usize) {
        let session = self.clients.get_mut(client);
        session.watch_broken = false;
        let watched = std::mem::take(&mut session.watched);
        if watched.is_empty() {
            return;
        }
        for Watched { db, key, .. } in watched {
            self.watches.remove(db, &key, client);
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

    /// `key` of `db` has changed. `gone`: what it held is no more, by its deadline or with its whole
    /// database; `now_due`: but another took its place whose deadline has passed as well.
    fn break_watches_of(&mut self, db: usize, key: &[u8], gone: bool, now_due: bool) {
        for &client in self.watches.watchers(db, key) {
            let session = self.clients.get_mut(client);
            let known = session.watched.iter_mut().find(|watched| watched.db == db && *watched.key == *key);
            match known {
                // What was gone already when it was watched may be swept.
                Some(watched) if watched.was_due && gone => watched.was_due = now_due,
                _ => session.watch_broken = true,
            }
        }
    }

    /// `key` of `db` has changed; `expired`: by passing its deadline.
    pub(super) fn break_watches(&mut self, db: usize, key: &[u8], expired: bool) {
        if !self.watches.is_empty() {
            self.break_watches_of(db, key, expired, false);
        }
    }

    /// `db` has been emptied of `old`: what was there has changed.
    pub(super) fn break_watches_flushed(&mut self, db: usize, old: &Db) {
        for key in self.watches.of(db) {
            if old.find(&key).is_some() {
                self.break_watches_of(db, &key, true, false);
            }
        }
    }

    /// Databases `a` and `b` have changed places: what is there in either has changed. A key that
    /// was gone and whose place is taken by another that is gone has not, nor has one that was not
    /// there at all.
    pub(super) fn break_watches_swapped(&mut self, a: usize, b: usize) {
        let now = self.now();
        for (db, other) in [(a, b), (b, a)] {
            for key in self.watches.of(db) {
                // The content is swapped already.
                let was_there = self.keyspace.db(other).find(&key).is_some();
                let is_there = self.keyspace.db(db).find(&key).is_some();
                let due = is_due(self.keyspace.db(db), &key, now);
                if !was_there && due {
                    self.note_due(db, &key);
                } else if was_there || is_there {
                    self.break_watches_of(db, &key, !is_there || due, due);
                }
            }
        }
    }

    /// A key that is gone has come to where there was none: nothing has changed, and its removal
    /// will be no change.
    fn note_due(&mut self, db: usize, key: &[u8]) {
        for &client in self.watches.watchers(db, key) {
            let watched = &mut self.clients.get_mut(client).watched;
            for watched in watched.iter_mut().filter(|watched| watched.db == db && *watched.key == *key) {
                watched.was_due = true;
            }
        }
    }
}
