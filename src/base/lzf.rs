//! LZF: the compression of long strings in a DUMP payload. The packer makes the same choices as
//! the one in Redis (its hash, its run lengths, its ends), so that payloads are equal to the byte.
//! Not here: which strings are compressed (`command::dump`).
//!
//! The format: a control byte below 32 says that so many bytes, plus one, follow as they are. Any
//! other is a reference: its upper three bits are the length less two (7: one more byte adds to
//! it), its lower five and the byte after are the distance less one.

/// Positions that the packer remembers, a power of two.
const SLOTS: usize = 1 << 16;
/// The longest run of bytes as they are.
const LITERAL_MAX: usize = 32;
/// The farthest reference.
const DISTANCE_MAX: usize = 1 << 13;
/// The longest reference.
const REFERENCE_MAX: usize = (1 << 8) + (1 << 3);

/// The slot of the three bytes at the end of `rolling`.
fn slot(rolling: u32) -> usize {
    (rolling >> 8).wrapping_sub(rolling.wrapping_mul(5)) as usize & (SLOTS - 1)
}

/// A packed form being written, with the run of plain bytes that is still open.
struct Packer {
    out: Vec<u8>,
    /// Plain bytes since the last control byte, whose place is reserved before them.
    run: usize,
}

impl Packer {
    fn literal(&mut self, byte: u8) {
        self.out.push(byte);
        self.run += 1;
        if self.run == LITERAL_MAX {
            self.close();
            self.open();
        }
    }

    fn open(&mut self) {
        self.run = 0;
        self.out.push(0);
    }

    /// Writes the run's length, or takes the reserved byte back if it is empty.
    fn close(&mut self) {
        let reserved = self.out.len() - self.run - 1;
        if self.run == 0 {
            self.out.truncate(reserved);
        } else {
            self.out[reserved] = (self.run - 1) as u8;
        }
    }
}

/// Packs `input` into fewer than `room` bytes; `None` where that does not succeed.
pub fn pack(input: &[u8], room: usize) -> Option<Vec<u8>> {
    let end = input.len();
    if end == 0 || room == 0 {
        return None;
    }
    // A position is kept plus one, so that 0 is an empty slot.
    let mut seen = vec![0_u32; SLOTS];
    let mut packer = Packer { out: Vec::with_capacity(room + 8), run: 0 };
    packer.open();
    let mut at = 0;
    let mut rolling = if end > 1 { u32::from(input[0]) << 8 | u32::from(input[1]) } else { 0 };
    while at + 2 < end {
        rolling = rolling << 8 | u32::from(input[at + 2]);
        let remembered = std::mem::replace(&mut seen[slot(rolling)], at as u32 + 1) as usize;
        // The very first byte is never referred to: the original's test is `>`.
        let matched = remembered > 1 && {
            let earlier = remembered - 1;
            at - earlier <= DISTANCE_MAX && input[earlier..earlier + 3] == input[at..at + 3]
        };
        if !matched {
            if packer.out.len() >= room {
                return None;
            }
            packer.literal(input[at]);
            at += 1;
            continue;
        }
        let earlier = remembered - 1;
        if packer.out.len() - usize::from(packer.run == 0) + 4 >= room {
            return None;
        }
        packer.close();
        let length = match_length(input, earlier, at);
        let (distance, code) = (at - earlier - 1, length - 2);
        if code < 7 {
            packer.out.push((distance >> 8) as u8 + ((code as u8) << 5));
        } else {
            packer.out.push((distance >> 8) as u8 + (7 << 5));
            packer.out.push((code - 7) as u8);
        }
        packer.out.push(distance as u8);
        packer.open();
        at += length;
        if at + 2 >= end {
            break;
        }
        // The last two positions of the match are remembered, those before are not.
        rolling = u32::from(input[at - 2]) << 8 | u32::from(input[at - 1]);
        for place in at - 2..at {
            rolling = rolling << 8 | u32::from(input[place + 2]);
            seen[slot(rolling)] = place as u32 + 1;
        }
    }
    if packer.out.len() + 3 > room {
        return None;
    }
    for &byte in &input[at..] {
        packer.literal(byte);
    }
    packer.close();
    Some(packer.out)
}

/// How many bytes at `at` equal those at `earlier`, at least three. The original compares the
/// first sixteen without looking at the limit, and so ends one byte later on some limits.
fn match_length(input: &[u8], earlier: usize, at: usize) -> usize {
    let limit = (input.len() - at - 2).min(REFERENCE_MAX);
    let mut length = 2;
    if limit > 16 {
        for _ in 0..16 {
            length += 1;
            if input[earlier + length] != input[at + length] {
                return length;
            }
        }
    }
    loop {
        length += 1;
        if length >= limit || input[earlier + length] != input[at + length] {
            return length;
        }
    }
}

/// Unpacks `packed` into exactly `length` bytes; `None` where it does not say that.
pub fn unpack(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    // No byte of input can stand for more than this: a lie about the length allocates nothing.
    if length > packed.len().saturating_mul(REFERENCE_MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(length);
    let mut rest = packed.iter().copied();
    while let Some(control) = rest.next() {
        if usize::from(control) < LITERAL_MAX {
            for _ in 0..=control {
                out.push(rest.next()?);
            }
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if count == 9 {
                count += usize::from(rest.next()?);
            }
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(rest.next()?)) + 1;
            let start = out.len().checked_sub(distance)?;
            for place in start..start + count {
                out.push(out[place]);
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_out_again(
            input in proptest::collection::vec(0_u8..4, 1..3000),
        ) {
            if let Some(packed) = pack(&input, input.len().max(5) - 4) {
                prop_assert!(packed.len() + 4 <= input.len());
                prop_assert_eq!(unpack(&packed, input.len()), Some(input));
            }
        }

        #[test]
        fn any_bytes_unpack_or_are_refused(
            packed in proptest::collection::vec(any::<u8>(), 0..200),
            length in 0_usize..100_000,
        ) {
            if let Some(out) = unpack(&packed, length) {
                prop_assert_eq!(out.len(), length);
            }
        }
    }

    #[test]
    fn as_redis_packs_it() {
        // What DUMP gives for 30 times "a", between the header and the footer.
        assert_eq!(pack(&[b'a'; 30], 26).as_deref(), Some(&b"\x01aa\xe0\x11\x00\x01aa"[..]));
        assert_eq!(pack(b"abcdefghijklmnopqrstuvwxyz", 22), None);
    }

    #[test]
    fn a_lie_about_the_length_allocates_nothing() {
        assert_eq!(unpack(b"\x00a", usize::MAX), None);
        assert_eq!(unpack(b"\x20\x05", 3), None, "a reference before the start");
        assert_eq!(unpack(b"\x05a", 6), None, "fewer bytes than said");
    }
}
