//! `Shelf`: the locks that the book knows, found by key. They lie side by side, in the order in which
//! they were learnt; where there is no room for more, a hand goes round and gives the place of the
//! oldest, with all that it had allocated, to the new one. So an attempt costs one hash and, as a rule,
//! no allocation. Not here: what is known of a lock (`hold`), when one is learnt (`book`).

use super::hold::Lock;
use std::hash::{BuildHasher, Hasher};

/// Where a key is, or would be: found once a command, used until it is done.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    hash: u32,
    /// A hint: places change hands.
    place: Option<u32>,
}

impl Spot {
    /// Whether the key was known when it was looked for.
    #[inline]
    pub fn is_known(self) -> bool {
        self.place.is_some()
    }
}

/// One place of the index; `lock` is one more than the lock's place, 0: none.
#[derive(Clone, Copy, Default)]
struct Mark {
    hash: u32,
    lock: u32,
}

/// The locks.
pub struct Shelf {
    locks: Vec<Lock>,
    /// Linear probing over a power of two, a third of it empty at least: small, so that it stays near.
    index: Vec<Mark>,
    /// Whose turn it is to make room.
    hand: usize,
    hasher: ahash::RandomState,
}

/// Places can be numbered up to here.
const LOCKS_MAX: usize = 1 << 30;

impl Default for Shelf {
    /// An empty one.
    fn default() -> Shelf {
        Shelf {
            locks: Vec::new(),
            index: vec![Mark::default(); 16],
            hand: 0,
            hasher: ahash::RandomState::with_seeds(1, 2, 3, 4),
        }
    }
}

impl Shelf {
    /// Every lock, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &Lock> {
        self.locks.iter()
    }

    /// The same, to be changed; but for `key` and `db`, by which they are found.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lock> {
        self.locks.iter_mut()
    }

    /// Where `key` is.
    #[inline]
    pub fn seek(&self, db: usize, key: &[u8]) -> Spot {
        let hash = self.hash(db, key);
        Spot { hash, place: self.probe(hash, db, key) }
    }

    /// The lock at `spot`, which was sought for the same key.
    #[inline]
    pub fn at(&self, spot: Spot, db: usize, key: &[u8]) -> Option<&Lock> {
        self.place_of(spot, db, key).map(|place| &self.locks[place])
    }

    /// The same, to be changed.
    #[inline]
    pub fn at_mut(&mut self, spot: Spot, db: usize, key: &[u8]) -> Option<&mut Lock> {
        self.place_of(spot, db, key).map(|place| &mut self.locks[place])
    }

    #[inline]
    fn place_of(&self, spot: Spot, db: usize, key: &[u8]) -> Option<usize> {
        let hinted = spot.place.filter(|&place| self.is_at(place, db, key));
        hinted.or_else(|| self.probe(spot.hash, db, key)).map(|place| place as usize)
    }

    #[inline]
    fn is_at(&self, place: u32, db: usize, key: &[u8]) -> bool {
        self.locks.get(place as usize).is_some_and(|lock| lock.db == db && *lock.key == *key)
    }

    #[inline]
    fn hash(&self, db: usize, key: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.write_usize(db);
        hasher.finish() as u32
    }

    #[inline]
    fn probe(&self, hash: u32, db: usize, key: &[u8]) -> Option<u32> {
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let mark = self.index[at];
            let place = mark.lock.checked_sub(1)?;
            if mark.hash == hash && self.is_at(place, db, key) {
                return Some(place);
            }
            at = (at + 1) & mask;
        }
    }

    /// The lock `key`, which is new at `spot`, with room for `max` in all. `lost` is shown what had
    /// to make room.
    pub fn put(
        &mut self,
        spot: Spot,
        db: usize,
        key: &[u8],
        named: bool,
        max: usize,
        lost: impl FnOnce(&Lock),
    ) -> &mut Lock {
        let place = if self.locks.len() < max.clamp(1, LOCKS_MAX) {
            self.locks.push(Lock::new(db, key, named));
            self.locks.len() - 1
        } else {
            let place = self.oldest();
            self.unmark(place);
            lost(&self.locks[place]);
            self.locks[place].renew(db, key, named);
            place
        };
        self.mark(spot.hash, place);
        &mut self.locks[place]
    }

    /// Whose place is to be given away. Those that are held have a second chance, two at a time.
    fn oldest(&mut self) -> usize {
        for _ in 0..2 {
            if self.hand >= self.locks.len() {
                self.hand = 0;
            }
            if self.locks[self.hand].hold.is_none() {
                break;
            }
            self.hand += 1;
        }
        let place = if self.hand < self.locks.len() { self.hand } else { 0 };
        self.hand = place + 1;
        place
    }

    /// Takes the lock `key` away.
    pub fn remove(&mut self, db: usize, key: &[u8]) -> Option<Lock> {
        let place = self.seek(db, key).place? as usize;
        self.unmark(place);
        let last = self.locks.len() - 1;
        if place < last {
            self.unmark(last);
        }
        let gone = self.locks.swap_remove(place);
        if place < last {
            let moved = &self.locks[place];
            self.mark(self.hash(moved.db, &moved.key), place);
        }
        Some(gone)
    }

    /// Keeps `max` at most: the oldest go, first those that are not held.
    pub fn shrink(&mut self, max: usize) -> Vec<Lock> {
        let mut excess = self.locks.len().saturating_sub(max);
        if excess == 0 {
            return Vec::new();
        }
        let hand = self.hand.min(self.locks.len());
        self.locks.rotate_left(hand);
        let (held, free): (Vec<_>, Vec<_>) =
            (0..self.locks.len()).partition(|&i| self.locks[i].hold.is_some());
        let mut goes = vec![false; self.locks.len()];
        for i in free.into_iter().chain(held) {
            if excess == 0 {
                break;
            }
            goes[i] = true;
            excess -= 1;
        }
        let mut gone = Vec::new();
        let all = std::mem::take(&mut self.locks);
        for (lock, goes) in all.into_iter().zip(goes) {
            if goes { gone.push(lock) } else { self.locks.push(lock) }
        }
        self.hand = 0;
        self.mark_all();
        gone
    }

    /// Databases `a` and `b` have changed places.
    pub fn swap(&mut self, a: usize, b: usize) {
        for lock in &mut self.locks {
            if lock.db == a {
                lock.db = b;
            } else if lock.db == b {
                lock.db = a;
            }
        }
        self.mark_all();
    }

    fn mark(&mut self, hash: u32, place: usize) {
        if self.locks.len() * 3 > self.index.len() * 2 {
            self.mark_all(); // this one with them
            return;
        }
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        while self.index[at].lock != 0 {
            at = (at + 1) & mask;
        }
        // Below LOCKS_MAX, so it fits.
        self.index[at] = Mark { hash, lock: place as u32 + 1 };
    }

    /// Makes the index anew.
    fn mark_all(&mut self) {
        self.index.clear();
        self.index.resize((self.locks.len() * 3 / 2 + 1).next_power_of_two().max(16), Mark::default());
        for place in 0..self.locks.len() {
            let lock = &self.locks[place];
            self.mark(self.hash(lock.db, &lock.key), place);
        }
    }

    /// Takes the mark of `place` out; what lies behind it, and could lie there, moves up.
    fn unmark(&mut self, place: usize) {
        let mask = self.index.len() - 1;
        let lock = &self.locks[place];
        let mut hole = self.hash(lock.db, &lock.key) as usize & mask;
        while self.index[hole].lock != place as u32 + 1 {
            debug_assert!(self.index[hole].lock != 0, "every lock has a mark");
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let mark = self.index[at];
            if mark.lock == 0 {
                break;
            }
            let from_home = at.wrapping_sub(mark.hash as usize) & mask;
            if from_home >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = mark;
                hole = at;
            }
        }
        self.index[hole] = Mark::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::UnixMs;
    use crate::engine::locks::hold::Hold;
    use crate::engine::locks::words::Words;
    use std::collections::BTreeSet;

    fn put(shelf: &mut Shelf, db: usize, key: &[u8], max: usize) -> Option<Vec<u8>> {
        let mut gone = None;
        let spot = shelf.seek(db, key);
        assert!(!spot.is_known());
        shelf.put(spot, db, key, false, max, |lock| gone = Some(lock.key.to_vec()));
        gone
    }

    fn hold(shelf: &mut Shelf, key: &[u8]) {
        let lock = shelf.at_mut(shelf.seek(0, key), 0, key).expect("it was put there");
        lock.hold = Some(Hold::new(None, Words::silent(b"t"), UnixMs(1), None));
    }

    #[test]
    fn the_oldest_makes_room_and_who_is_held_has_a_second_chance() {
        let mut shelf = Shelf::default();
        for key in [b"a", b"b", b"c", b"d"] {
            assert_eq!(put(&mut shelf, 0, key, 4), None);
        }
        assert_eq!(put(&mut shelf, 0, b"e", 4).as_deref(), Some(&b"a"[..]));
        hold(&mut shelf, b"b");
        assert_eq!(put(&mut shelf, 0, b"f", 4).as_deref(), Some(&b"c"[..]));
        for key in [b"b", b"d", b"e", b"f"] {
            hold(&mut shelf, key);
        }
        // All are held: two are passed over, and no more.
        assert_eq!(put(&mut shelf, 0, b"g", 4).as_deref(), Some(&b"b"[..]));
        let gone: Vec<Vec<u8>> = shelf.shrink(2).into_iter().map(|lock| lock.key.to_vec()).collect();
        assert!(gone.contains(&b"g".to_vec()), "the one that is not held goes first: {gone:?}");
        assert_eq!(shelf.iter().count(), 2);
    }

    #[test]
    fn a_place_that_changed_hands_is_not_taken_for_the_old_one() {
        let mut shelf = Shelf::default();
        put(&mut shelf, 0, b"a", 1);
        let spot = shelf.seek(0, b"a");
        put(&mut shelf, 0, b"b", 1);
        assert!(shelf.at(spot, 0, b"a").is_none());
        let early = shelf.seek(0, b"c");
        put(&mut shelf, 0, b"c", 2);
        assert_eq!(shelf.at(early, 0, b"c").map(|lock| lock.key.to_vec()), Some(b"c".to_vec()));
    }

    #[test]
    fn each_lock_is_found_whatever_came_and_went() {
        let mut shelf = Shelf::default();
        let mut known: BTreeSet<(usize, Vec<u8>)> = BTreeSet::new();
        let mut chance = 7u64;
        for step in 0..20_000 {
            chance = chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (db, key) = ((chance >> 33) as usize % 2, format!("k{}", (chance >> 40) % 900).into_bytes());
            assert_eq!(shelf.seek(db, &key).is_known(), known.contains(&(db, key.clone())), "step {step}");
            if step % 3_000 == 2_999 {
                shelf.swap(0, 1);
                known = known.into_iter().map(|(db, key)| (1 - db, key)).collect();
                shelf
                    .shrink(100)
                    .iter()
                    .for_each(|lock| assert!(known.remove(&(lock.db, lock.key.to_vec()))));
            } else if shelf.seek(db, &key).is_known() {
                if chance >> 62 == 0 {
                    let gone = shelf.remove(db, &key).expect("it is known");
                    assert_eq!((gone.db, &*gone.key), (db, &*key));
                    known.remove(&(db, key));
                }
            } else {
                let mut lost = None;
                let spot = shelf.seek(db, &key);
                shelf.put(spot, db, &key, false, 500, |lock| lost = Some((lock.db, lock.key.to_vec())));
                lost.iter().for_each(|lost| assert!(known.remove(lost)));
                known.insert((db, key));
            }
            assert_eq!(shelf.iter().count(), known.len());
        }
        assert!(known.len() > 300, "{}", known.len());
        for (db, key) in known {
            assert!(shelf.at(shelf.seek(db, &key), db, &key).is_some());
        }
    }
}
