//! HyperLogLog in the bytes that Redis keeps it in: 16,384 registers of six bits, sparse (runs)
//! or dense, behind a header of 16 bytes. Not here: the commands (`command::hyperloglog`).
//!
//! Header: `HYLL`, the encoding (0 dense, 1 sparse), three bytes unused, then the last count as a
//! little-endian number whose top bit says that it is out of date.
//!
//! Sparse opcodes: `00llllll` is a run of zeros, `01llllll llllllll` a longer one, `1vvvvvll` a
//! run of up to four registers of the value `v + 1`; a run's length is kept less one.

/// Registers, `2^14`.
pub const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of a hash that are not the register's number.
const RUN_BITS: usize = 64 - INDEX_BITS as usize;
const HEADER: usize = 16;
const DENSE_LEN: usize = HEADER + REGISTERS * 6 / 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// The largest register that a sparse run can hold.
const SPARSE_VALUE_MAX: u8 = 32;
const VALUE_RUN_MAX: usize = 4;
const ZERO_RUN_MAX: usize = 64;

/// The registers do not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupted;

/// A run of equal registers, and how many bytes say so.
#[derive(Clone, Copy)]
struct Run {
    value: u8,
    length: usize,
    bytes: usize,
}

/// Whether `value` is one at all.
pub fn is_valid(value: &[u8]) -> bool {
    value.len() >= HEADER
        && value.starts_with(b"HYLL")
        && (value[4] == SPARSE || value[4] == DENSE && value.len() == DENSE_LEN)
}

/// One that has seen nothing.
pub fn empty() -> Vec<u8> {
    let mut value = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    push_zeros(&mut value, REGISTERS);
    value
}

/// Whether it is dense.
pub fn is_dense(value: &[u8]) -> bool {
    value[4] == DENSE
}

/// Notes that the kept count is out of date.
pub fn invalidate(value: &mut [u8]) {
    value[15] |= 1 << 7;
}

/// The kept count, unless it is out of date.
pub fn kept_count(value: &[u8]) -> Option<u64> {
    (value[15] & 1 << 7 == 0).then(|| {
        let bytes: [u8; 8] = value[8..16].try_into().expect("eight bytes of a header that is there");
        u64::from_le_bytes(bytes)
    })
}

/// Keeps `count`.
pub fn keep_count(value: &mut [u8], count: u64) {
    value[8..16].copy_from_slice(&count.to_le_bytes());
}

/// Notes `element`; tells whether a register grew. `sparse_max`: more bytes than that are dense.
pub fn add(value: &mut Vec<u8>, element: &[u8], sparse_max: usize) -> Result<bool, Corrupted> {
    let (index, rank) = place(element);
    raise(value, index, rank, sparse_max)
}

/// The register of `element` and what it says there.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, 0xadc8_3b19);
    let index = hash as usize & (REGISTERS - 1);
    let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// Raises a register to `rank` if it is lower; tells whether it was.
pub fn raise(value: &mut Vec<u8>, index: usize, rank: u8, sparse_max: usize) -> Result<bool, Corrupted> {
    if is_dense(value) {
        return Ok(raise_dense(value, index, rank));
    }
    raise_sparse(value, index, rank, sparse_max)
}

fn dense_register(value: &[u8], index: usize) -> u8 {
    let (byte, shift) = (HEADER + index * 6 / 8, index * 6 % 8);
    let high = value.get(byte + 1).copied().unwrap_or(0);
    ((u16::from(value[byte]) | u16::from(high) << 8) >> shift) as u8 & 63
}

fn raise_dense(value: &mut [u8], index: usize, rank: u8) -> bool {
    if dense_register(value, index) >= rank {
        return false;
    }
    let (byte, shift) = (HEADER + index * 6 / 8, index * 6 % 8);
    let (mask, bits) = (63_u16 << shift, u16::from(rank) << shift);
    value[byte] = value[byte] & !(mask as u8) | bits as u8;
    if mask >> 8 != 0 {
        value[byte + 1] = value[byte + 1] & !((mask >> 8) as u8) | (bits >> 8) as u8;
    }
    true
}

/// The run at `at`, if there is a whole opcode.
fn run_at(value: &[u8], at: usize) -> Option<Run> {
    let first = *value.get(at)?;
    Some(match first >> 6 {
        0 => Run { value: 0, length: usize::from(first) + 1, bytes: 1 },
        1 => {
            let low = *value.get(at + 1)?;
            Run { value: 0, length: (usize::from(first & 63) << 8 | usize::from(low)) + 1, bytes: 2 }
        }
        _ => Run { value: (first >> 2 & 31) + 1, length: usize::from(first & 3) + 1, bytes: 1 },
    })
}

fn push_zeros(to: &mut Vec<u8>, length: usize) {
    let less = length - 1;
    if length > ZERO_RUN_MAX {
        to.push(0x40 | (less >> 8) as u8);
    }
    to.push(less as u8);
}

fn value_run(value: u8, length: usize) -> u8 {
    0x80 | (value - 1) << 2 | (length - 1) as u8
}

fn raise_sparse(value: &mut Vec<u8>, index: usize, rank: u8, sparse_max: usize) -> Result<bool, Corrupted> {
    if rank > SPARSE_VALUE_MAX {
        make_dense(value)?;
        return Ok(raise_dense(value, index, rank));
    }
    let (mut at, mut first, mut before) = (HEADER, 0, None);
    let run = loop {
        let run = run_at(value, at).ok_or(Corrupted)?;
        if index < first + run.length {
            break run;
        }
        before = Some(at);
        at += run.bytes;
        first += run.length;
    };
    if run.value >= rank {
        return Ok(false);
    }
    // What stands for the run afterwards: the part before, the register, the part behind.
    let mut parts = Vec::with_capacity(5);
    let push = |parts: &mut Vec<u8>, length: usize| match (length, run.value) {
        (0, _) => {}
        (_, 0) => push_zeros(parts, length),
        (_, same) => parts.push(value_run(same, length)),
    };
    push(&mut parts, index - first);
    parts.push(value_run(rank, 1));
    push(&mut parts, first + run.length - 1 - index);
    if parts.len() > run.bytes && value.len() + parts.len() - run.bytes > sparse_max {
        make_dense(value)?;
        return Ok(raise_dense(value, index, rank));
    }
    value.splice(at..at + run.bytes, parts);
    join_runs(value, before.unwrap_or(HEADER));
    invalidate(value);
    Ok(true)
}

/// Joins neighbours of the same value, near the run that was changed only: five steps, as in
/// Redis, since the bytes shall be the same.
fn join_runs(value: &mut Vec<u8>, from: usize) {
    let mut at = from;
    for _ in 0..5 {
        let Some(run) = run_at(value, at) else { return };
        if run.value > 0
            && let Some(next) = run_at(value, at + 1)
            && next.value == run.value
            && next.length + run.length <= VALUE_RUN_MAX
        {
            value[at + 1] = value_run(run.value, run.length + next.length);
            value.remove(at);
            continue;
        }
        at += run.bytes;
    }
}

/// Makes it dense, if it is not.
pub fn make_dense(value: &mut Vec<u8>) -> Result<(), Corrupted> {
    if is_dense(value) {
        return Ok(());
    }
    let mut dense = vec![0; DENSE_LEN];
    dense[..HEADER].copy_from_slice(&value[..HEADER]);
    dense[4] = DENSE;
    each_register(value, |index, rank| {
        raise_dense(&mut dense, index, rank);
    })?;
    *value = dense;
    Ok(())
}

/// Calls `see` with each register that is not zero.
fn each_register(value: &[u8], mut see: impl FnMut(usize, u8)) -> Result<(), Corrupted> {
    if is_dense(value) {
        for index in 0..REGISTERS {
            match dense_register(value, index) {
                0 => {}
                rank => see(index, rank),
            }
        }
        return Ok(());
    }
    let (mut at, mut first) = (HEADER, 0);
    while at < value.len() {
        let run = run_at(value, at).ok_or(Corrupted)?;
        if first + run.length > REGISTERS {
            return Err(Corrupted);
        }
        if run.value > 0 {
            (first..first + run.length).for_each(|index| see(index, run.value));
        }
        at += run.bytes;
        first += run.length;
    }
    if first == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

/// All registers, one byte each.
pub fn registers(value: &[u8]) -> Result<Vec<u8>, Corrupted> {
    let mut all = vec![0; REGISTERS];
    merge(value, &mut all)?;
    Ok(all)
}

/// Raises each of `into` to the register of `value`.
pub fn merge(value: &[u8], into: &mut [u8]) -> Result<(), Corrupted> {
    each_register(value, |index, rank| into[index] = into[index].max(rank))
}

/// The sparse runs as PFDEBUG DECODE prints them: `Z:5 v:1,2 z:3`.
pub fn describe(value: &[u8]) -> Result<String, Corrupted> {
    let mut words = Vec::new();
    let mut at = HEADER;
    while at < value.len() {
        let run = run_at(value, at).ok_or(Corrupted)?;
        words.push(match (run.value, run.bytes) {
            (0, 2) => format!("Z:{}", run.length),
            (0, _) => format!("z:{}", run.length),
            (rank, _) => format!("v:{rank},{}", run.length),
        });
        at += run.bytes;
    }
    Ok(words.join(" "))
}

/// The estimate of how many different elements made these registers: Ertl's improved estimator.
pub fn estimate(registers: &[u8]) -> u64 {
    /// One over `2 ln 2`.
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let mut histogram = [0_u32; 64];
    for rank in registers {
        histogram[usize::from(*rank & 63)] += 1;
    }
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(histogram[RUN_BITS + 1])) / m);
    for count in histogram[1..=RUN_BITS].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

/// MurmurHash2, 64 bits, the variant called A, for little-endian words.
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut k = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        k = k.wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| tail << 8 | u64::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(elements: impl Iterator<Item = u32>, sparse_max: usize) -> Vec<u8> {
        let mut value = empty();
        for element in elements {
            add(&mut value, element.to_string().as_bytes(), sparse_max).expect("sound");
        }
        value
    }

    proptest! {
        #[test]
        fn sparse_and_dense_hold_the_same(elements in proptest::collection::vec(any::<u32>(), 0..400)) {
            let sparse = of(elements.iter().copied(), usize::MAX);
            let dense = of(elements.iter().copied(), 0);
            prop_assert_eq!(registers(&sparse), registers(&dense));
            let mut made = sparse.clone();
            make_dense(&mut made).expect("sound");
            prop_assert!(elements.is_empty() || made[HEADER..] == dense[HEADER..]);
        }

        #[test]
        fn any_bytes_are_sound_or_refused(
            body in proptest::collection::vec(any::<u8>(), 0..100), element in any::<u32>(),
        ) {
            let mut value = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
            value.extend(body);
            let _ = registers(&value);
            let _ = add(&mut value, element.to_string().as_bytes(), 3000);
        }
    }

    #[test]
    fn the_estimate_is_near() {
        for count in [10_u32, 1_000, 100_000] {
            let value = of(0..count, 3000);
            let estimate = estimate(&registers(&value).expect("sound")) as f64;
            let off = (estimate - f64::from(count)).abs() / f64::from(count);
            assert!(off < 0.03, "{count}: {estimate}");
        }
    }

    #[test]
    fn it_turns_dense_above_the_limit() {
        assert!(!is_dense(&of(0..100, 3000)));
        assert!(is_dense(&of(0..5000, 3000)));
        assert!(is_dense(&of(0..1, 10)));
    }
}
