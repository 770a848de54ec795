//! `Record`: a key, its header and its value; a small value shares the key's allocation. Not here:
//! the deadline (`db`, beside the record, so that expiry need not touch it).

use super::Encoding;

/// Header, key and value in one allocation up to this size. Above it, the value has its own, which
/// grows without a copy each time.
const SMALL_MAX: usize = 1024;

/// The longest key whose length the header can say.
const SMALL_KEY_MAX: usize = 127;

/// The header of a small record: 8 bytes. With one more, a lock (20-byte key, 36-byte token) would
/// not fit the allocator's class of 64 bytes.
const HEADER: usize = 8;
const _: () = assert!(HEADER + 20 + 36 == 64);

/// The header's second word: 7 bits of key length, 2 of encoding, 23 of access time in seconds.
const KEY_BITS: u32 = 7;
const ACCESS_SHIFT: u32 = 9;

/// Seconds of Unix time are kept modulo this (97 days).
pub const ACCESS_MASK: u32 = (1 << 23) - 1;

/// A key with its value.
pub enum Record {
    /// The header's two words (place in the volatile set; the rest), then key, then value.
    Small(Box<[u8]>),
    Large(Box<Large>),
}

// The null pointer that a box cannot be tells the two apart.
const _: () = assert!(size_of::<Record>() == 16);

/// A long key, or a value of its own allocation.
pub struct Large {
    volatile: u32,
    /// As in a small record, but that the key's length is not in it.
    meta: u32,
    key: Box<[u8]>,
    value: Vec<u8>,
}

fn pack(key_len: usize, encoding: Encoding, accessed: u32) -> u32 {
    let code = match encoding {
        Encoding::Auto => 0,
        Encoding::Text => 1,
        Encoding::Raw => 2,
        Encoding::Own => 3,
    };
    key_len as u32 | code << KEY_BITS | (accessed & ACCESS_MASK) << ACCESS_SHIFT
}

/// Whether a value of `value` bytes shares the allocation of a key of `key` bytes.
#[inline]
fn is_small(key: usize, value: usize) -> bool {
    key <= SMALL_KEY_MAX && HEADER + key + value <= SMALL_MAX
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    let four: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(four)
}

impl Record {
    /// A record of `key` and `value`, `volatile` its place in the volatile set.
    pub fn new(key: &[u8], value: &[u8], encoding: Encoding, accessed: u32, volatile: u32) -> Self {
        if !is_small(key.len(), value.len()) {
            return Record::large(key, value.to_vec(), encoding, accessed, volatile);
        }
        let mut bytes = Vec::with_capacity(HEADER + key.len() + value.len());
        bytes.extend_from_slice(&volatile.to_le_bytes());
        bytes.extend_from_slice(&pack(key.len(), encoding, accessed).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Record::Small(bytes.into_boxed_slice())
    }

    fn large(key: &[u8], value: Vec<u8>, encoding: Encoding, accessed: u32, volatile: u32) -> Self {
        let meta = pack(0, encoding, accessed);
        Record::Large(Box::new(Large { volatile, meta, key: key.into(), value }))
    }

    #[inline]
    fn meta(&self) -> u32 {
        match self {
            Record::Small(bytes) => word(bytes, 4),
            Record::Large(large) => large.meta,
        }
    }

    #[inline]
    fn set_meta(&mut self, meta: u32) {
        match self {
            Record::Small(bytes) => bytes[4..8].copy_from_slice(&meta.to_le_bytes()),
            Record::Large(large) => large.meta = meta,
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self {
            Record::Small(bytes) => {
                let len = word(bytes, 4) as usize & SMALL_KEY_MAX;
                &bytes[HEADER..HEADER + len]
            }
            Record::Large(large) => &large.key,
        }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self {
            Record::Small(bytes) => {
                let len = word(bytes, 4) as usize & SMALL_KEY_MAX;
                &bytes[HEADER + len..]
            }
            Record::Large(large) => &large.value,
        }
    }

    /// The place in the volatile set.
    #[inline]
    pub fn volatile(&self) -> u32 {
        match self {
            Record::Small(bytes) => word(bytes, 0),
            Record::Large(large) => large.volatile,
        }
    }

    /// Notes the place in the volatile set.
    #[inline]
    pub fn set_volatile(&mut self, at: u32) {
        match self {
            Record::Small(bytes) => bytes[..4].copy_from_slice(&at.to_le_bytes()),
            Record::Large(large) => large.volatile = at,
        }
    }

    /// How the value was stored.
    #[inline]
    pub fn encoding(&self) -> Encoding {
        match self.meta() >> KEY_BITS & 3 {
            0 => Encoding::Auto,
            1 => Encoding::Text,
            2 => Encoding::Raw,
            _ => Encoding::Own,
        }
    }

    /// The last access, seconds of Unix time modulo 2^23.
    #[inline]
    pub fn accessed(&self) -> u32 {
        self.meta() >> ACCESS_SHIFT
    }

    /// Notes an access. Writes only where the second has changed: most reads leave the line clean.
    #[inline]
    pub fn touch(&mut self, accessed: u32) {
        let (old, low) = (self.meta(), (1 << ACCESS_SHIFT) - 1);
        let new = old & low | (accessed & ACCESS_MASK) << ACCESS_SHIFT;
        if new != old {
            self.set_meta(new);
        }
    }

    /// Another value under the same key. A value of the same length is written over the old one;
    /// else the allocation is resized, which within the allocator's size class moves nothing.
    #[inline]
    pub fn overwrite(&mut self, value: &[u8], encoding: Encoding, accessed: u32) {
        let key_len = self.key().len();
        let meta = match self {
            Record::Small(_) => pack(key_len, encoding, accessed),
            Record::Large(_) => pack(0, encoding, accessed),
        };
        match self {
            Record::Small(bytes) if is_small(key_len, value.len()) => {
                let at = HEADER + key_len;
                if bytes.len() == at + value.len() {
                    bytes[at..].copy_from_slice(value);
                } else {
                    let mut grown = std::mem::take(bytes).into_vec();
                    grown.truncate(at);
                    grown.reserve_exact(value.len());
                    grown.extend_from_slice(value);
                    *bytes = grown.into_boxed_slice();
                }
                bytes[4..8].copy_from_slice(&meta.to_le_bytes());
            }
            // Room for twice the value is kept; more goes back.
            Record::Large(large) if value.len() > SMALL_MAX && large.value.capacity() / 2 <= value.len() => {
                large.value.clear();
                large.value.extend_from_slice(value);
                large.meta = meta;
            }
            _ => *self = Record::new(self.key(), value, encoding, accessed, self.volatile()),
        }
    }

    /// Changes the value by `edit`. A large value is edited where it is; a small one in `scratch`,
    /// which becomes the value itself if it has grown large, so that it is not copied again.
    pub fn modify(&mut self, encoding: Encoding, scratch: &mut Vec<u8>, edit: impl FnOnce(&mut Vec<u8>)) {
        let accessed = self.accessed();
        if let Record::Large(large) = self {
            edit(&mut large.value);
            large.meta = pack(0, encoding, accessed);
            return;
        }
        scratch.clear();
        scratch.extend_from_slice(self.value());
        edit(scratch);
        if is_small(self.key().len(), scratch.len()) {
            self.overwrite(scratch, encoding, accessed);
        } else {
            let value = std::mem::take(scratch);
            *self = Record::large(self.key(), value, encoding, accessed, self.volatile());
        }
    }

    /// Bytes that the record allocates, as MEMORY USAGE counts.
    pub fn allocated(&self) -> usize {
        match self {
            Record::Small(bytes) => bytes.len(),
            Record::Large(large) => size_of::<Large>() + large.key.len() + large.value.capacity(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: &Record, key: &[u8], value: &[u8], encoding: Encoding, accessed: u32) {
        assert_eq!(record.key(), key);
        assert_eq!(record.value(), value);
        assert_eq!(record.encoding(), encoding);
        assert_eq!(record.accessed(), accessed & ACCESS_MASK);
        assert_eq!(record.volatile(), 77);
    }

    #[test]
    fn holds_keys_and_values_of_any_length() {
        for key_len in [0, 1, 20, 126, 127, 128, 129, 5000] {
            for value_len in [0, 1, 36, 800, 900, 1016, 1017, 1100, 70_000] {
                let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
                let mut record = Record::new(&key, &value, Encoding::Text, u32::MAX, 77);
                check(&record, &key, &value, Encoding::Text, u32::MAX);
                for other in [0, 36, 36, 900, 2000, 1500, 1030, 12] {
                    let value = vec![b'w'; other];
                    record.overwrite(&value, Encoding::Raw, 5);
                    check(&record, &key, &value, Encoding::Raw, 5);
                    record.touch(6);
                    check(&record, &key, &value, Encoding::Raw, 6);
                }
                let mut value = vec![b'w'; 12];
                for _ in 0..100 {
                    record.modify(Encoding::Auto, &mut Vec::new(), |v| v.extend_from_slice(&[b'x'; 50]));
                    value.extend_from_slice(&[b'x'; 50]);
                    check(&record, &key, &value, Encoding::Auto, 6);
                }
            }
        }
    }

    #[test]
    fn a_value_of_the_same_length_stays_where_it_is() {
        let mut record = Record::new(b"lock:1", b"token-a", Encoding::Auto, 0, 77);
        let before = record.value().as_ptr();
        record.overwrite(b"token-b", Encoding::Auto, 1);
        assert_eq!(record.value().as_ptr(), before);
        check(&record, b"lock:1", b"token-b", Encoding::Auto, 1);
    }

    #[test]
    fn a_large_value_is_not_copied_by_each_append() {
        let mut record = Record::new(b"k", &[0; 100_000], Encoding::Raw, 0, 77);
        let mut moves = 0;
        for _ in 0..10_000 {
            let before = record.value().as_ptr();
            record.modify(Encoding::Raw, &mut Vec::new(), |v| v.extend_from_slice(&[1; 100]));
            moves += usize::from(record.value().as_ptr() != before);
        }
        assert!(moves < 20, "{moves} moves in 10,000 appends");
    }
}
