//! `Index`: from a key's hash to its entry's position, by linear hashing: it grows and shrinks by
//! one bucket at a time. Not here: keys and hashing (`db` hands in what is needed of them).
//!
//! With `n` buckets and `2^k` the largest power of two not above `n`, a hash belongs to the bucket
//! that its lowest `k + 1` bits name, or, while there is no such bucket yet, its lowest `k`. Adding
//! bucket `n` therefore concerns one bucket alone, `n - 2^k`: about half of its entries move over.
//! There is no second table, no directory, and no moment at which more than one bucket is touched.

use super::chunked::Chunked;

/// Entries in a bucket: with a tag and a position each, and the link, 64 bytes, one cache line.
const WIDTH: usize = 12;

/// Above so many entries to a bucket, on average, one is split.
const SPLIT_ABOVE: usize = 8;

/// Below so many, two are merged. Far enough from splitting that swinging costs nothing.
const MERGE_BELOW: usize = 5;

/// No overflow bucket follows.
const NONE: u32 = u32::MAX;

#[repr(C, align(64))]
struct Bucket {
    /// The hash's highest byte, 0 where there is no entry (and 1 in place of 0).
    tags: [u8; WIDTH],
    positions: [u32; WIDTH],
    /// The next bucket of the chain, in `overflow`. Only the last of a chain has room.
    next: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

impl Bucket {
    const EMPTY: Bucket = Bucket { tags: [0; WIDTH], positions: [0; WIDTH], next: NONE };

    /// The places that hold `tag`, as bits: place `i` at bit `8 * i + 7`.
    #[inline]
    fn matches(&self, tag: u8) -> u128 {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        // A byte's high bit ends up set where the byte is zero. Exact: no carry leaves a byte.
        let zeros = |x: u64| !((x & LOW).wrapping_add(LOW) | x | LOW);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        let pattern = u64::from(tag) * 0x0101_0101_0101_0101;
        let low = zeros(u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ pattern);
        // The upper four bytes are made to differ.
        let rest = u64::from(u32::from_le_bytes([i, j, k, l])) | u64::from(!(pattern as u32)) << 32;
        let high = zeros(rest ^ pattern);
        u128::from(low) | u128::from(high) << 64
    }

    /// How many entries it has: they stand in front.
    fn count(&self) -> usize {
        self.tags.iter().position(|&tag| tag == 0).unwrap_or(WIDTH)
    }
}

/// Iterates over the places that `matches` gave.
#[inline]
fn next_place(bits: &mut u128) -> Option<usize> {
    if *bits == 0 {
        return None;
    }
    let place = bits.trailing_zeros() as usize / 8;
    *bits &= *bits - 1;
    Some(place)
}

/// A bucket's address: in the table, or in the overflow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Table(usize),
    Overflow(u32),
}

/// The index of one database.
pub struct Index {
    table: Chunked<Bucket>,
    /// Further buckets of chains, always dense: the last one moves where one is freed.
    overflow: Chunked<Bucket>,
    len: usize,
}

impl Index {
    /// Empty; allocates nothing.
    pub const fn new() -> Self {
        Index { table: Chunked::new(), overflow: Chunked::new(), len: 0 }
    }

    /// How many positions it holds.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many positions fit into its buckets without further ones.
    pub fn room(&self) -> usize {
        self.table.len() * WIDTH
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        let n = self.table.len();
        let level = 1usize << n.ilog2();
        let wide = hash as usize & (level * 2 - 1);
        if wide < n { wide } else { wide - level }
    }

    /// The position that a lookup of `hash` will look at first, if any.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let bucket = self.table.get(self.home(hash));
        next_place(&mut bucket.matches(tag(hash))).map(|place| bucket.positions[place])
    }

    #[inline]
    fn bucket(&self, at: At) -> &Bucket {
        match at {
            At::Table(i) => self.table.get(i),
            At::Overflow(i) => self.overflow.get(i as usize),
        }
    }

    #[inline]
    fn bucket_mut(&mut self, at: At) -> &mut Bucket {
        match at {
            At::Table(i) => self.table.get_mut(i),
            At::Overflow(i) => self.overflow.get_mut(i as usize),
        }
    }

    /// The position under `hash` for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut bucket = self.table.get(self.home(hash));
        loop {
            let mut bits = bucket.matches(tag(hash));
            while let Some(place) = next_place(&mut bits) {
                let position = bucket.positions[place];
                if is_it(position) {
                    return Some(position);
                }
            }
            if bucket.next == NONE {
                return None;
            }
            bucket = self.overflow.get(bucket.next as usize);
        }
    }

    /// Where `position` stands, which must be there under `hash`.
    #[inline]
    fn locate(&self, hash: u64, position: u32) -> (At, usize) {
        let mut at = At::Table(self.home(hash));
        loop {
            let bucket = self.bucket(at);
            let mut bits = bucket.matches(tag(hash));
            while let Some(place) = next_place(&mut bits) {
                if bucket.positions[place] == position {
                    return (at, place);
                }
            }
            assert!(bucket.next != NONE, "an entry is always in the index");
            at = At::Overflow(bucket.next);
        }
    }

    /// Adds `position` under `hash`. `hash_of` tells the hash of any position that is in the index.
    #[inline]
    pub fn insert(&mut self, hash: u64, position: u32, hash_of: impl Fn(u32) -> u64) {
        if self.table.len() == 0 {
            self.table.push(Bucket::EMPTY);
        }
        let home = self.home(hash);
        self.append(home, tag(hash), position);
        self.len += 1;
        if self.len > self.table.len() * SPLIT_ABOVE {
            self.split(hash_of);
        }
    }

    fn append(&mut self, home: usize, tag: u8, position: u32) {
        let mut at = At::Table(home);
        while self.bucket(at).next != NONE {
            at = At::Overflow(self.bucket(at).next);
        }
        let bucket = self.bucket_mut(at);
        let place = bucket.count();
        if place < WIDTH {
            bucket.tags[place] = tag;
            bucket.positions[place] = position;
            return;
        }
        let mut fresh = Bucket::EMPTY;
        fresh.tags[0] = tag;
        fresh.positions[0] = position;
        let next = self.overflow.len() as u32;
        self.overflow.push(fresh);
        self.bucket_mut(at).next = next;
    }

    /// Notes that the entry under `hash` has moved from position `from` to `to`.
    #[inline]
    pub fn moved(&mut self, hash: u64, from: u32, to: u32) {
        let (at, place) = self.locate(hash, from);
        self.bucket_mut(at).positions[place] = to;
    }

    /// Takes `position` out, which must be there under `hash`. `hash_of` tells the hash of any other
    /// position that is in the index.
    #[inline]
    pub fn remove(&mut self, hash: u64, position: u32, hash_of: impl Fn(u32) -> u64) {
        let (at, place) = self.locate(hash, position);
        // The chain's last entry takes the place, so that only the last bucket has room.
        let (mut before, mut last) = (None, at);
        while self.bucket(last).next != NONE {
            before = Some(last);
            last = At::Overflow(self.bucket(last).next);
        }
        if before.is_none() && last != At::Table(self.home(hash)) {
            before = Some(self.before(self.home(hash), last));
        }
        let bucket = self.bucket_mut(last);
        let end = bucket.count() - 1;
        let (moved_tag, moved) = (bucket.tags[end], bucket.positions[end]);
        bucket.tags[end] = 0;
        if (last, end) != (at, place) {
            let bucket = self.bucket_mut(at);
            bucket.tags[place] = moved_tag;
            bucket.positions[place] = moved;
        }
        self.len -= 1;
        if let (0, Some(before), At::Overflow(freed)) = (end, before, last) {
            self.bucket_mut(before).next = NONE;
            self.free(freed, &hash_of);
        }
        if self.len < (self.table.len() - 1) * MERGE_BELOW {
            self.merge(hash_of);
        }
    }

    /// The bucket of `home`'s chain whose link is `at`.
    fn before(&self, home: usize, at: At) -> At {
        let mut before = At::Table(home);
        while At::Overflow(self.bucket(before).next) != at {
            before = At::Overflow(self.bucket(before).next);
        }
        before
    }

    /// Gives an unlinked overflow bucket back: the last one moves to its place. None of them is ever
    /// empty, so that an entry's hash leads to the chain that the last one belongs to.
    fn free(&mut self, freed: u32, hash_of: &impl Fn(u32) -> u64) {
        let last = self.overflow.len() as u32 - 1;
        if freed != last {
            let home = self.home(hash_of(self.overflow.get(last as usize).positions[0]));
            let before = self.before(home, At::Overflow(last));
            self.bucket_mut(before).next = freed;
        }
        self.overflow.swap_remove(freed as usize);
    }

    /// Takes all entries out of `home`'s chain and gives its overflow back.
    fn unchain(&mut self, home: usize, hash_of: &impl Fn(u32) -> u64) -> smallvec::SmallVec<[(u8, u32); 32]> {
        let mut taken = smallvec::SmallVec::new();
        loop {
            // From the second bucket on, one at a time: freeing may move the ones behind.
            let first = self.table.get(home);
            let at = if first.next == NONE { At::Table(home) } else { At::Overflow(first.next) };
            let bucket = self.bucket(at);
            taken.extend((0..bucket.count()).map(|i| (bucket.tags[i], bucket.positions[i])));
            match at {
                At::Table(home) => {
                    *self.table.get_mut(home) = Bucket::EMPTY;
                    return taken;
                }
                At::Overflow(freed) => {
                    self.table.get_mut(home).next = self.bucket(at).next;
                    self.free(freed, hash_of);
                }
            }
        }
    }

    /// Adds a bucket; about half of one other's entries move to it.
    fn split(&mut self, hash_of: impl Fn(u32) -> u64) {
        let n = self.table.len();
        let level = 1usize << n.ilog2();
        let source = n - level;
        let taken = self.unchain(source, &hash_of);
        self.table.push(Bucket::EMPTY);
        for (tag, position) in taken {
            let home = if hash_of(position) as usize & level == 0 { source } else { n };
            self.append(home, tag, position);
        }
    }

    /// Takes the last bucket away; its entries go back to the one that it was split from.
    fn merge(&mut self, hash_of: impl Fn(u32) -> u64) {
        let last = self.table.len() - 1;
        let taken = self.unchain(last, &hash_of);
        self.table.pop();
        let target = last - (1usize << last.ilog2());
        for (tag, position) in taken {
            self.append(target, tag, position);
        }
    }

    /// Drops one chunk, entries and all, on the way to dropping the whole. Tells whether there was one.
    pub fn drop_chunk(&mut self) -> bool {
        self.len = 0;
        self.overflow.drop_chunk() || self.table.drop_chunk()
    }

    /// Verifies the index: `Err` says what is wrong.
    pub fn check(&self, hash_of: impl Fn(u32) -> u64) -> Result<(), String> {
        let (mut entries, mut chained) = (0, 0);
        for home in 0..self.table.len() {
            let mut at = At::Table(home);
            loop {
                let bucket = self.bucket(at);
                let count = bucket.count();
                if bucket.tags[count..].iter().any(|&tag| tag != 0) {
                    return Err(format!("bucket {home}: an entry behind a gap"));
                }
                for place in 0..count {
                    let hash = hash_of(bucket.positions[place]);
                    if self.home(hash) != home || tag(hash) != bucket.tags[place] {
                        return Err(format!("bucket {home}: position {} is lost", bucket.positions[place]));
                    }
                }
                entries += count;
                if matches!(at, At::Overflow(_)) && count == 0 {
                    return Err(format!("bucket {home}: an empty overflow bucket"));
                }
                if bucket.next == NONE {
                    break;
                }
                if count < WIDTH {
                    return Err(format!("bucket {home}: room before the chain's end"));
                }
                chained += 1;
                if chained > self.overflow.len() {
                    return Err(format!("bucket {home}: the chain has no end"));
                }
                at = At::Overflow(bucket.next);
            }
        }
        if entries != self.len {
            return Err(format!("the index has {entries} entries and says {}", self.len));
        }
        if chained != self.overflow.len() {
            return Err(format!("{} overflow buckets of which {chained} are used", self.overflow.len()));
        }
        let n = self.table.len();
        if self.len > n * SPLIT_ABOVE || self.len < n.saturating_sub(1) * MERGE_BELOW {
            return Err(format!("{n} buckets for {} entries", self.len));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::chance::Chance;

    #[test]
    fn tags_are_matched_exactly() {
        let mut chance = Chance::from_seed(5);
        for _ in 0..20_000 {
            let mut bucket = Bucket::EMPTY;
            // Few different tags, and neighbours among them: where a borrow would show.
            for place in 0..WIDTH {
                bucket.tags[place] = [0, 1, 2, 127, 128, 129, 254, 255][chance.below(8) as usize];
            }
            for tag in [1, 2, 3, 127, 128, 129, 254, 255] {
                let mut bits = bucket.matches(tag);
                let found: Vec<usize> = std::iter::from_fn(|| next_place(&mut bits)).collect();
                let right: Vec<usize> = (0..WIDTH).filter(|&i| bucket.tags[i] == tag).collect();
                assert_eq!(found, right);
            }
        }
    }

    /// Hashes of chosen badness: the low bits decide the bucket, few of them make long chains.
    fn churn(spread: impl Fn(u32) -> u64) {
        let mut chance = Chance::from_seed(11);
        let mut index = Index::new();
        let mut there: Vec<u32> = Vec::new();
        let mut next = 0;
        for phase in 0..8 {
            for step in 0..3000 {
                let grows = if phase % 2 == 0 { 4 } else { 1 };
                if there.is_empty() || chance.below(5) < grows {
                    index.insert(spread(next), next, &spread);
                    there.push(next);
                    next += 1;
                } else {
                    let gone = there.swap_remove(chance.below(there.len() as u64) as usize);
                    index.remove(spread(gone), gone, &spread);
                }
                if step % 97 == 0 {
                    index.check(&spread).unwrap();
                    assert_eq!(index.len(), there.len());
                }
            }
            assert!(there.iter().all(|&p| index.find(spread(p), |q| q == p) == Some(p)));
            assert_eq!(index.find(spread(next), |q| q == next), None);
        }
        for gone in there {
            index.remove(spread(gone), gone, &spread);
        }
        index.check(&spread).unwrap();
        assert_eq!((index.table.len(), index.overflow.len()), (1, 0));
    }

    #[test]
    fn grows_and_shrinks_with_good_hashes() {
        churn(|p| u64::from(p).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    }

    #[test]
    fn stays_right_with_bad_hashes() {
        churn(|p| u64::from(p % 7) << 2 | u64::from(p) << 56);
        churn(|p| u64::from(p % 300));
    }
}
