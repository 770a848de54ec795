//! `Db`: one database: entries, index and volatile set kept in step; SCAN's walk and sampling. Not
//! here: what a deadline means (`access`, `expire`) and what follows from a change (`event`).
//!
//! - `entries` is dense. Removing one moves the last one into the hole.
//! - `index` leads from a key's hash to its position.
//! - `volatile` holds the positions of the entries that carry a deadline; each of their records
//!   holds its place there, so that both can be mended when either moves.

use super::chunked::Chunked;
use super::index::Index;
use super::record::{ACCESS_MASK, Record};
use crate::base::{chance::Chance, clock::UnixMs};
use ahash::RandomState;
use smallvec::SmallVec;

/// How OBJECT ENCODING reports a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `int` where the bytes are a canonical 64-bit integer, `embstr` up to 44 bytes, else `raw`
    /// (what SET and its like store).
    Auto,
    /// `embstr` up to 44 bytes, else `raw`, never `int` (INCRBYFLOAT).
    Text,
    /// `raw` whatever its length (APPEND to a key, SETRANGE, SETBIT).
    Raw,
    /// As `Auto`, but a small integer is the key's own: OBJECT REFCOUNT tells (COPY).
    Own,
}

/// Where a key is, or would go. Valid until the next change of its database.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The key's hash, where `find` made the slot.
    pub(super) hash: u64,
    /// The entry's position; `NONE` when the key is not there.
    pub(super) pos: u32,
}

impl Slot {
    pub(super) const NONE: u32 = u32::MAX;

    fn at(pos: usize) -> Slot {
        Slot { hash: 0, pos: pos as u32 }
    }

    /// Whether the key is there.
    #[inline]
    pub fn is_some(self) -> bool {
        self.pos != Slot::NONE
    }
}

struct Entry {
    record: Record,
    /// Absolute milliseconds, or `NEVER`.
    deadline: i64,
}

const _: () = assert!(size_of::<Entry>() == 24);

/// How many keys `Db::warm` looks at: about as many cache misses as a core has under way.
const WARM: usize = 16;

/// No deadline. A deadline of that very millisecond, 292 million years ago, is put one later.
const NEVER: i64 = i64::MIN;

/// Not in the volatile set.
const FIXED: u32 = u32::MAX;

/// A database with more keys takes no new ones: positions are 32 bits. What is left covers what one
/// command can add between two looks.
const KEYS_MAX: usize = u32::MAX as usize - (1 << 24);

/// Chunks that count as one thousand entries where a database is dropped in slices.
const CHUNKS_A_THOUSAND: usize = 20;

/// One database.
pub struct Db {
    entries: Chunked<Entry>,
    index: Index,
    volatile: Chunked<u32>,
    hasher: RandomState,
    /// Where small values are edited.
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Db({} keys, {} with a deadline)", self.len(), self.volatile_len())
    }
}

/// The hash of the key at a position: what the index asks for.
fn hash_of(entries: &Chunked<Entry>, hasher: &RandomState) -> impl Fn(u32) -> u64 {
    |pos| hasher.hash_one(entries.get(pos as usize).record.key())
}

impl Db {
    /// An empty database whose hashes are keyed by `hash_seed`.
    pub fn new(hash_seed: u64) -> Self {
        let mut chance = Chance::from_seed(hash_seed);
        let mut bits = || chance.bits();
        let hasher = RandomState::with_seeds(bits(), bits(), bits(), bits());
        Db {
            entries: Chunked::new(),
            index: Index::new(),
            volatile: Chunked::new(),
            hasher,
            scratch: Vec::new(),
        }
    }

    /// How many keys there are, those past their deadline included.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a new key is to be refused as out of memory: positions run out.
    pub fn is_full(&self) -> bool {
        self.len() >= KEYS_MAX
    }

    /// How many keys the index has room for.
    pub fn room(&self) -> usize {
        self.index.room()
    }

    /// How many keys carry a deadline.
    #[inline]
    pub fn volatile_len(&self) -> usize {
        self.volatile.len()
    }

    /// Looks `key` up. Knows nothing of deadlines.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Slot {
        let hash = self.hasher.hash_one(key);
        let found = self.index.find(hash, |pos| self.entries.get(pos as usize).record.key() == key);
        Slot { hash, pos: found.unwrap_or(Slot::NONE) }
    }

    #[inline]
    fn entry(&self, slot: Slot) -> &Entry {
        self.entries.get(slot.pos as usize)
    }

    #[inline]
    fn record_mut(&mut self, pos: u32) -> &mut Record {
        &mut self.entries.get_mut(pos as usize).record
    }

    /// Brings what lookups of `keys` will touch into the cache. The misses of several keys overlap,
    /// where one lookup after another waits for each: bucket, entry and record in turn. Looks at
    /// the first `WARM` keys and changes nothing.
    pub fn warm<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let hashes: SmallVec<[u64; WARM]> = keys.take(WARM).map(|key| self.hasher.hash_one(key)).collect();
        let candidates: SmallVec<[Option<u32>; WARM]> =
            hashes.iter().map(|&hash| self.index.candidate(hash)).collect();
        let mut touched = 0;
        for position in candidates.iter().flatten() {
            touched ^= self.entries.get(*position as usize).deadline;
        }
        for position in candidates.iter().flatten() {
            touched ^= self.entries.get(*position as usize).record.key().len() as i64;
        }
        std::hint::black_box(touched);
    }

    /// The value at `slot`, which must be there.
    #[inline]
    pub fn value(&self, slot: Slot) -> &[u8] {
        self.entry(slot).record.value()
    }

    /// The key at `slot`, which must be there.
    #[inline]
    pub fn key(&self, slot: Slot) -> &[u8] {
        self.entry(slot).record.key()
    }

    /// How the value at `slot` was stored.
    pub fn encoding(&self, slot: Slot) -> Encoding {
        self.entry(slot).record.encoding()
    }

    /// The deadline of the key at `slot`; `None`: it has none.
    #[inline]
    pub fn deadline(&self, slot: Slot) -> Option<UnixMs> {
        let deadline = self.entry(slot).deadline;
        (deadline != NEVER).then_some(UnixMs(deadline))
    }

    /// When the key at `slot` was last used, seconds of Unix time; wrong by a multiple of 97 days
    /// where that is longer ago. Needs `now` since records keep the low bits only; a clock that was
    /// moved back reads as no time at all.
    pub fn accessed(&self, slot: Slot, now: UnixMs) -> u32 {
        let idle = seconds(now).wrapping_sub(self.entry(slot).record.accessed()) & ACCESS_MASK;
        seconds(now) - if idle > ACCESS_MASK - 3600 { 0 } else { idle.min(seconds(now)) }
    }

    /// Bytes that the key at `slot` takes: its record, entry, and share of index and volatile set.
    pub fn memory_usage(&self, slot: Slot) -> usize {
        const INDEX_SHARE: usize = 8;
        let volatile = if self.deadline(slot).is_some() { size_of::<u32>() } else { 0 };
        self.entry(slot).record.allocated() + size_of::<Entry>() + INDEX_SHARE + volatile
    }

    /// Notes that the key at `slot` is used at `now`.
    #[inline]
    pub fn touch(&mut self, slot: Slot, now: UnixMs) {
        self.record_mut(slot.pos).touch(seconds(now));
    }

    /// Stores `value` under `key` with `deadline`, whether the key is there or not. `slot` is
    /// what `find(key)` gave. Returns the key's slot.
    #[inline]
    pub fn put(
        &mut self,
        slot: Slot,
        key: &[u8],
        value: &[u8],
        encoding: Encoding,
        deadline: Option<UnixMs>,
        now: UnixMs,
    ) -> Slot {
        if slot.is_some() {
            self.record_mut(slot.pos).overwrite(value, encoding, seconds(now));
            self.set_deadline(slot, deadline);
            return slot;
        }
        let pos = self.entries.len() as u32;
        assert!(pos < Slot::NONE, "a full database was given another key");
        let (mut volatile, mut at) = (FIXED, NEVER);
        if let Some(deadline) = deadline {
            volatile = self.volatile.len() as u32;
            self.volatile.push(pos);
            at = deadline.0.max(NEVER + 1);
        }
        let record = Record::new(key, value, encoding, seconds(now), volatile);
        self.entries.push(Entry { record, deadline: at });
        self.index.insert(slot.hash, pos, hash_of(&self.entries, &self.hasher));
        Slot { pos, ..slot }
    }

    /// Changes the value at `slot` in place by `edit` (which may grow it), its encoding after. A
    /// large value is not copied for it.
    pub fn modify(&mut self, slot: Slot, encoding: Encoding, edit: impl FnOnce(&mut Vec<u8>)) {
        let record = &mut self.entries.get_mut(slot.pos as usize).record;
        record.modify(encoding, &mut self.scratch, edit);
    }

    /// Sets or removes the deadline of the key at `slot`.
    #[inline]
    pub fn set_deadline(&mut self, slot: Slot, deadline: Option<UnixMs>) {
        let entry = self.entries.get_mut(slot.pos as usize);
        let was = entry.deadline != NEVER;
        entry.deadline = deadline.map_or(NEVER, |at| at.0.max(NEVER + 1));
        match (was, deadline.is_some()) {
            (false, true) => {
                entry.record.set_volatile(self.volatile.len() as u32);
                self.volatile.push(slot.pos);
            }
            (true, false) => {
                let place = entry.record.volatile();
                entry.record.set_volatile(FIXED);
                self.leave_volatile(place);
            }
            _ => {}
        }
    }

    /// Takes `place` out of the volatile set; the last one of it moves there.
    #[inline]
    fn leave_volatile(&mut self, place: u32) {
        self.volatile.swap_remove(place as usize);
        if (place as usize) < self.volatile.len() {
            let moved = *self.volatile.get(place as usize);
            self.record_mut(moved).set_volatile(place);
        }
    }

    /// Removes the key at `slot`. The last entry moves to its position.
    pub fn remove(&mut self, slot: Slot) {
        let pos = slot.pos;
        let entry = self.entry(slot);
        let hash = self.hasher.hash_one(entry.record.key());
        let place = entry.record.volatile();
        if place != FIXED {
            self.leave_volatile(place);
        }
        self.index.remove(hash, pos, hash_of(&self.entries, &self.hasher));
        let last = self.entries.len() as u32 - 1;
        let gone = self.entries.swap_remove(pos as usize);
        if pos != last {
            let moved = &self.entries.get(pos as usize).record;
            self.index.moved(self.hasher.hash_one(moved.key()), last, pos);
            if moved.volatile() != FIXED {
                *self.volatile.get_mut(moved.volatile() as usize) = pos;
            }
        }
        drop(gone);
    }

    /// Removes everything, at once.
    pub fn clear(&mut self) {
        self.entries = Chunked::new();
        self.index = Index::new();
        self.volatile = Chunked::new();
    }

    /// Drops up to `n` entries of a database that nobody will look at again (or what they weigh of
    /// its tables). Tells whether anything is left to drop.
    pub fn drop_some(&mut self, n: usize) -> bool {
        for _ in 0..n {
            if self.entries.pop().is_none() {
                break;
            }
        }
        if self.entries.len() > 0 {
            return true;
        }
        // The keys are gone, so nothing may be asked of the index from here on.
        let chunks = (n * CHUNKS_A_THOUSAND).div_ceil(1000);
        (0..chunks)
            .all(|_| self.index.drop_chunk() || self.volatile.drop_chunk() || self.entries.drop_chunk())
    }

    /// One call of SCAN: visits up to `count` entries below `cursor` (0: from the top) and
    /// returns the next cursor, 0 at the end. A cursor that was never given is as good as the top.
    ///
    /// The cursor is the number of positions that are still to be visited; the walk goes down.
    /// A key that is there from the first call to the last comes back at least once:
    ///
    /// 1. Entries only ever move to lower positions: removing one moves the last one into the hole,
    ///    and nothing else moves any. So while a key stays, its position never rises.
    /// 2. At the first call it stands below the cursor, which is the number of all positions. While
    ///    it stands below the cursor it is still to come. The cursor sinks past a key's position
    ///    only by visiting that position, and then the key is returned.
    /// 3. The walk ends at cursor 0, below which nothing stands. So each key that stayed has been
    ///    passed, and by 2 was returned.
    ///
    /// A key comes back twice if it stood above the cursor and moved into a hole below it. Keys that
    /// are added stand at the top: they are not visited, so the walk ends however many are added.
    /// After removals the cursor may be above the number of entries: there is nothing there.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Slot)) -> u64 {
        let walk = self.below(cursor, count);
        let next = walk.start as u64;
        walk.rev().for_each(|pos| visit(Slot::at(pos)));
        next
    }

    /// The positions that one call of SCAN visits, from the last to the first. Removing while walking
    /// down is safe: what moves has been visited.
    pub(super) fn below(&self, cursor: u64, count: usize) -> std::ops::Range<usize> {
        let len = self.len();
        let end = if cursor == 0 { len } else { usize::try_from(cursor).unwrap_or(len).min(len) };
        end.saturating_sub(count.max(1))..end
    }

    /// The slot of the entry at `pos`, which must be below `len()`.
    pub(super) fn nth(&self, pos: usize) -> Slot {
        Slot::at(pos)
    }

    /// The slot of the key at `place` of the volatile set, which must be below `volatile_len()`.
    #[inline]
    pub(super) fn nth_volatile(&self, place: usize) -> Slot {
        Slot::at(*self.volatile.get(place) as usize)
    }

    /// A uniformly chosen key.
    pub fn random(&self, chance: &mut Chance) -> Option<Slot> {
        (!self.is_empty()).then(|| self.nth(chance.below(self.len() as u64) as usize))
    }

    /// A uniformly chosen key among those with a deadline.
    #[inline]
    pub fn random_volatile(&self, chance: &mut Chance) -> Option<Slot> {
        let n = self.volatile_len() as u64;
        (n > 0).then(|| self.nth_volatile(chance.below(n) as usize))
    }

    /// Verifies that entries, index and volatile set agree: `Err` says where they do not.
    pub fn check(&self) -> Result<(), String> {
        self.index.check(|pos| {
            if (pos as usize) < self.len() { hash_of(&self.entries, &self.hasher)(pos) } else { 0 }
        })?;
        let mut volatile = 0;
        for pos in 0..self.len() {
            let entry = self.entries.get(pos);
            let found = self.find(entry.record.key()).pos;
            if found as usize != pos {
                return Err(format!("the key at {pos} is found at {found}"));
            }
            let place = entry.record.volatile();
            if (entry.deadline == NEVER) != (place == FIXED) {
                return Err(format!("deadline {} of {pos} stands at {place}", entry.deadline));
            }
            if place == FIXED {
                continue;
            }
            volatile += 1;
            if place as usize >= self.volatile_len() || *self.volatile.get(place as usize) as usize != pos {
                return Err(format!("the entry at {pos} is not at {place} of the volatile set"));
            }
        }
        if volatile != self.volatile_len() {
            return Err(format!("{volatile} deadlines, {} in the volatile set", self.volatile_len()));
        }
        Ok(())
    }
}

/// Seconds of Unix time, as records keep them (which take the low bits).
#[inline]
fn seconds(now: UnixMs) -> u32 {
    now.0.div_euclid(1000) as u32
}

#[cfg(test)]
#[path = "db_tests.rs"]
mod tests;
