//! `Db`: one database: entries, index and volatile set kept in step. (Placeholder over a plain
//! map until the real structures land; the interface is the one to keep.)

use crate::base::{chance::Chance, clock::UnixMs};
use std::collections::HashMap;

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
}

/// Where a key is, or would go. Valid until the next change of its database.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub(super) hash: u64,
    /// The entry's position; `NONE` when the key is not there.
    pub(super) pos: u32,
}

impl Slot {
    pub(super) const NONE: u32 = u32::MAX;

    /// Whether the key is there.
    pub fn is_some(self) -> bool {
        self.pos != Slot::NONE
    }
}

#[derive(Debug)]
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    encoding: Encoding,
    deadline: Option<UnixMs>,
    accessed: u32,
}

/// One database.
#[derive(Debug)]
pub struct Db {
    map: HashMap<Vec<u8>, u32>,
    entries: Vec<Entry>,
}

impl Db {
    /// An empty database whose hashes are keyed by `hash_seed`.
    pub fn new(_hash_seed: u64) -> Self {
        Db { map: HashMap::new(), entries: Vec::new() }
    }

    /// How many keys there are, those past their deadline included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many keys carry a deadline.
    pub fn volatile_len(&self) -> usize {
        self.entries.iter().filter(|e| e.deadline.is_some()).count()
    }

    /// Looks `key` up. Knows nothing of deadlines.
    pub fn find(&self, key: &[u8]) -> Slot {
        Slot { hash: 0, pos: self.map.get(key).copied().unwrap_or(Slot::NONE) }
    }

    /// The value at `slot`, which must be there.
    pub fn value(&self, slot: Slot) -> &[u8] {
        &self.entries[slot.pos as usize].value
    }

    /// The key at `slot`, which must be there.
    pub fn key(&self, slot: Slot) -> &[u8] {
        &self.entries[slot.pos as usize].key
    }

    /// How the value at `slot` was stored.
    pub fn encoding(&self, slot: Slot) -> Encoding {
        self.entries[slot.pos as usize].encoding
    }

    /// The deadline of the key at `slot`; `None`: it has none.
    pub fn deadline(&self, slot: Slot) -> Option<UnixMs> {
        self.entries[slot.pos as usize].deadline
    }

    /// When the key at `slot` was last used: seconds of Unix time, as far as it is kept.
    pub fn accessed(&self, slot: Slot) -> u32 {
        self.entries[slot.pos as usize].accessed
    }

    /// Notes that the key at `slot` is used at `now`.
    pub fn touch(&mut self, slot: Slot, now: UnixMs) {
        self.entries[slot.pos as usize].accessed = (now.0 / 1000) as u32;
    }

    /// Stores `value` under `key` with `deadline`, whether the key is there or not. `slot` is
    /// what `find(key)` gave. Returns the key's slot.
    pub fn put(
        &mut self,
        slot: Slot,
        key: &[u8],
        value: &[u8],
        encoding: Encoding,
        deadline: Option<UnixMs>,
        now: UnixMs,
    ) -> Slot {
        let accessed = (now.0 / 1000) as u32;
        let entry = Entry { key: key.to_vec(), value: value.to_vec(), encoding, deadline, accessed };
        if slot.is_some() {
            self.entries[slot.pos as usize] = entry;
            return slot;
        }
        let pos = self.entries.len() as u32;
        self.map.insert(key.to_vec(), pos);
        self.entries.push(entry);
        Slot { pos, ..slot }
    }

    /// Changes the value at `slot` in place by `edit` (which may grow it), its encoding after.
    pub fn modify(&mut self, slot: Slot, encoding: Encoding, edit: impl FnOnce(&mut Vec<u8>)) {
        let entry = &mut self.entries[slot.pos as usize];
        edit(&mut entry.value);
        entry.encoding = encoding;
    }

    /// Sets or removes the deadline of the key at `slot`.
    pub fn set_deadline(&mut self, slot: Slot, deadline: Option<UnixMs>) {
        self.entries[slot.pos as usize].deadline = deadline;
    }

    /// Removes the key at `slot`.
    pub fn remove(&mut self, slot: Slot) {
        let entry = self.entries.swap_remove(slot.pos as usize);
        self.map.remove(&entry.key);
        if let Some(moved) = self.entries.get(slot.pos as usize) {
            self.map.insert(moved.key.clone(), slot.pos);
        }
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.map.clear();
        self.entries.clear();
    }

    /// One call of SCAN: visits up to `count` entries below `cursor` (0: from the top) and
    /// returns the next cursor, 0 at the end.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Slot)) -> u64 {
        let len = self.entries.len() as u64;
        let mut at = if cursor == 0 { len } else { cursor.min(len) };
        let mut left = count.max(1);
        while at > 0 && left > 0 {
            at -= 1;
            left -= 1;
            visit(Slot { hash: 0, pos: at as u32 });
        }
        at
    }

    /// A uniformly chosen key.
    pub fn random(&self, chance: &mut Chance) -> Option<Slot> {
        (!self.is_empty()).then(|| Slot { hash: 0, pos: chance.below(self.len() as u64) as u32 })
    }

    /// A uniformly chosen key among those with a deadline.
    pub fn random_volatile(&self, chance: &mut Chance) -> Option<Slot> {
        let n = chance.below(self.volatile_len() as u64) as usize;
        let mut volatile = self.entries.iter().enumerate().filter(|(_, e)| e.deadline.is_some());
        volatile.nth(n).map(|(pos, _)| Slot { hash: 0, pos: pos as u32 })
    }
}
