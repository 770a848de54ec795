//! `Access`: one command's view of the keys. Every lookup removes a key past its deadline first;
//! every change names its `Event` in the same call. Not here: what follows from a change
//! (`engine::settle`) and how keys are stored (`db`).

use super::event::{Change, Effects, Event};
use super::{Db, Encoding, Keyspace, Slot};
use crate::base::chance::Chance;
use crate::base::clock::UnixMs;

/// What becomes of a key's deadline when its value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// It stays as it is.
    Keep,
    /// It is dropped.
    Clear,
    /// It becomes this absolute time.
    At(UnixMs),
}

impl Limits {
    /// What the server itself works under: none.
    pub const NONE: Limits = Limits {
        max_bulk_len: u64::MAX,
        hll_sparse_max: 3000,
        no_touch: true,
        lazy_expire: true,
        one_db: false,
    };
}

/// One command's view of one database.
pub struct Access<'a> {
    keyspace: &'a mut Keyspace,
    db: usize,
    now: UnixMs,
    /// The generator for whatever the command draws.
    pub chance: &'a mut Chance,
    effects: &'a mut Effects,
    limits: Limits,
}

/// What a command must know beside the keys.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest string, bytes (`proto-max-bulk-len`).
    pub max_bulk_len: u64,
    /// A sparse HyperLogLog of more bytes becomes dense (`hll-sparse-max-bytes`).
    pub hll_sparse_max: u64,
    /// Whether reads leave the access time alone (CLIENT NO-TOUCH).
    pub no_touch: bool,
    /// Whether a key past its deadline is removed on access (it is nobody's in any case).
    pub lazy_expire: bool,
    /// Other databases than the first are out of reach (cluster-enabled).
    pub one_db: bool,
}

impl<'a> Access<'a> {
    /// The view of database `db` at `now`.
    pub fn new(
        keyspace: &'a mut Keyspace,
        db: usize,
        now: UnixMs,
        chance: &'a mut Chance,
        effects: &'a mut Effects,
        limits: Limits,
    ) -> Self {
        Access { keyspace, db, now, chance, effects, limits }
    }

    /// The same view of another database (which must exist).
    pub fn other(&mut self, db: usize) -> Access<'_> {
        Access {
            keyspace: self.keyspace,
            db,
            now: self.now,
            chance: self.chance,
            effects: self.effects,
            limits: self.limits,
        }
    }

    /// This command's moment.
    pub fn now(&self) -> UnixMs {
        self.now
    }

    /// The index of the database this view is of.
    pub fn db_index(&self) -> usize {
        self.db
    }

    /// How many databases there are.
    pub fn db_count(&self) -> usize {
        self.keyspace.count()
    }

    /// What the command must know beside the keys.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The database itself, to read.
    pub fn db(&self) -> &Db {
        self.keyspace.db(self.db)
    }

    fn db_mut(&mut self) -> &mut Db {
        self.keyspace.db_mut(self.db)
    }

    /// Looks `key` up for a change: no statistics, no access time.
    #[inline]
    pub fn find(&mut self, key: &[u8]) -> Slot {
        let slot = self.db().find(key);
        if slot.is_some() && self.is_due(slot) {
            return self.expire(slot);
        }
        slot
    }

    /// Looks `key` up for a reader: counts a hit or a miss and notes the access.
    #[inline]
    pub fn look(&mut self, key: &[u8]) -> Slot {
        let slot = self.peek(key);
        if slot.is_some() && !self.limits.no_touch {
            let now = self.now;
            self.db_mut().touch(slot, now);
        }
        slot
    }

    /// Looks `key` up for a reader that only asks about it (TTL, TYPE, EXISTS): counts, but
    /// leaves the access time.
    #[inline]
    pub fn peek(&mut self, key: &[u8]) -> Slot {
        let slot = self.peek_untold(key);
        if !slot.is_some() {
            self.effects.also(self.db, key, Event::KEY_MISS);
        }
        slot
    }

    /// As `peek`, but that a miss is only counted (OBJECT).
    #[inline]
    pub fn peek_untold(&mut self, key: &[u8]) -> Slot {
        let slot = self.find(key);
        match slot.is_some() {
            true => self.effects.hits += 1,
            false => self.effects.misses += 1,
        }
        slot
    }

    #[inline]
    fn is_due(&self, slot: Slot) -> bool {
        self.db().deadline(slot).is_some_and(|deadline| deadline <= self.now)
    }

    /// The key's deadline has passed: it is gone for everyone from here on.
    #[cold]
    fn expire(&mut self, slot: Slot) -> Slot {
        if self.limits.lazy_expire {
            let db = self.keyspace.db_mut(self.db);
            self.effects.expired += 1;
            // Nobody's change: it is not counted as one.
            self.effects.touch(self.db, db.key(slot), Event::EXPIRED);
            db.remove(slot);
        }
        Slot { pos: Slot::NONE, ..slot }
    }

    /// Removes the key at `slot` if its deadline has passed, as the active cycle and SCAN do.
    /// Tells whether it has passed.
    #[inline]
    pub fn expire_if_due(&mut self, slot: Slot) -> bool {
        let due = self.is_due(slot);
        if due {
            self.expire(slot);
        }
        due
    }

    /// One call of SCAN: as `Db::scan`, but that keys past their deadline are removed instead of
    /// visited.
    pub fn scan(&mut self, cursor: u64, count: usize, mut visit: impl FnMut(&Db, Slot)) -> u64 {
        let walk = self.db().below(cursor, count);
        let next = walk.start as u64;
        for pos in walk.rev() {
            let slot = self.db().nth(pos);
            if !self.expire_if_due(slot) {
                visit(self.db(), slot);
            }
        }
        next
    }

    /// A uniformly chosen key, past its deadline or not.
    pub fn random(&mut self) -> Option<Slot> {
        self.keyspace.db(self.db).random(self.chance)
    }

    /// The value at `slot`, which must be there.
    #[inline]
    pub fn value(&self, slot: Slot) -> &[u8] {
        self.db().value(slot)
    }

    /// The deadline of the key at `slot`; `None`: it has none.
    #[inline]
    pub fn deadline(&self, slot: Slot) -> Option<UnixMs> {
        self.db().deadline(slot)
    }

    /// Stores `value` under `key`; `slot` is what a lookup gave since the last change.
    #[inline]
    pub fn put(
        &mut self,
        slot: Slot,
        key: &[u8],
        value: &[u8],
        encoding: Encoding,
        ttl: Ttl,
        event: Event,
    ) -> Slot {
        let deadline = match ttl {
            Ttl::Keep if slot.is_some() => self.deadline(slot),
            Ttl::Keep | Ttl::Clear => None,
            Ttl::At(at) => Some(at),
        };
        let now = self.now;
        let new = self.db_mut().put(slot, key, value, encoding, deadline, now);
        if !slot.is_some() {
            self.effects.also(self.db, key, Event::NEW);
        }
        self.effects.record(self.db, key, event);
        new
    }

    /// Changes the value at `slot` in place; its encoding after the change is `encoding`.
    pub fn modify(
        &mut self,
        slot: Slot,
        key: &[u8],
        encoding: Encoding,
        event: Event,
        edit: impl FnOnce(&mut Vec<u8>),
    ) {
        self.db_mut().modify(slot, encoding, edit);
        self.effects.record(self.db, key, event);
    }

    /// Changes only how OBJECT ENCODING reports the value at `slot`: its bytes stay, so nothing
    /// happened that anyone must hear of.
    pub fn recode(&mut self, slot: Slot, encoding: Encoding) {
        self.db_mut().modify(slot, encoding, |_| {});
    }

    /// Sets when the key at `slot` was last used (RESTORE IDLETIME).
    pub fn set_accessed(&mut self, slot: Slot, at: UnixMs) {
        self.db_mut().touch(slot, at);
    }

    /// Sets or drops the deadline of the key at `slot`.
    pub fn set_deadline(&mut self, slot: Slot, key: &[u8], deadline: Option<UnixMs>, event: Event) {
        self.db_mut().set_deadline(slot, deadline);
        self.effects.record(self.db, key, event);
    }

    /// Removes the key at `slot`.
    pub fn remove(&mut self, slot: Slot, key: &[u8], event: Event) {
        self.db_mut().remove(slot);
        self.effects.record(self.db, key, event);
    }

    /// Takes the key `from`, which must be there, to the name `to` of database `db`, over whatever
    /// has it: value, deadline and access time stay. For watchers both names have changed before
    /// either is told; it counts as one change.
    pub fn carry(&mut self, from: &[u8], db: usize, to: &[u8], left: Event, came: Event) {
        let (home, now) = (self.db, self.now);
        let slot = self.db().find(from);
        let source = self.db();
        let (value, encoding) = (source.value(slot).to_vec(), source.encoding(slot));
        let (deadline, accessed) = (source.deadline(slot), source.accessed(slot, now));
        let target = self.keyspace.db_mut(db);
        let slot = target.put(target.find(to), to, &value, encoding, deadline, now);
        target.touch(slot, UnixMs(i64::from(accessed) * 1000));
        // Putting may have moved it.
        let source = self.db_mut();
        source.remove(source.find(from));
        self.effects.dirty += 1;
        self.effects.also(db, to, Event::NEW);
        self.effects.touch(home, from, Event::UNNAMED);
        self.effects.touch(db, to, Event::UNNAMED);
        self.effects.also(home, from, left);
        self.effects.also(db, to, came);
    }

    /// Counts `more` changes on top of what the events say (PFADD counts each element).
    pub fn count(&mut self, more: u64) {
        self.effects.dirty += more;
    }

    /// One more name for what was just done to `key` (`expire` after `set`).
    #[inline]
    pub fn also(&mut self, key: &[u8], event: Event) {
        self.effects.also(self.db, key, event);
    }

    /// Empties database `db`; returns how many keys it had.
    pub fn flush(&mut self, db: usize) -> usize {
        let old = self.keyspace.take(db);
        let removed = old.len();
        self.effects.dirty += removed as u64;
        self.effects.changes.push(Change::Flushed { db, old: Box::new(old) });
        removed
    }

    /// Exchanges two databases (which must exist); one with itself counts as a change all the same.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.effects.dirty += 1;
        if a == b {
            return;
        }
        self.keyspace.swap(a, b);
        self.effects.changes.push(Change::Swapped(a, b));
    }
}
