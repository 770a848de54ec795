//! How libraries travel: the payload of FUNCTION DUMP and RESTORE, that is Redis's RDB opcode for
//! a library, its string encodings, and the footer with version and checksum. Not here: what is
//! done with the code (`functions`).

use crate::base::error::CommandError;

/// The opcode before a library's code.
const LIBRARY: u8 = 245;
/// The RDB version that is written (7.0's), and the newest that is read (7.2's).
const VERSION: u16 = 10;
const VERSION_MAX: u16 = 11;

/// The payload that holds `codes`.
pub(super) fn dump(codes: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for code in codes {
        out.push(LIBRARY);
        match compress(code) {
            Some(packed) => {
                out.push(0xC3);
                put_len(&mut out, packed.len());
                put_len(&mut out, code.len());
                out.extend_from_slice(&packed);
            }
            None => {
                put_len(&mut out, code.len());
                out.extend_from_slice(code);
            }
        }
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let crc = crc64(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    match len {
        0..64 => out.push(len as u8),
        64..16384 => out.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
        _ => match u32::try_from(len) {
            Ok(len) => {
                out.push(0x80);
                out.extend_from_slice(&len.to_be_bytes());
            }
            Err(_) => {
                out.push(0x81);
                out.extend_from_slice(&(len as u64).to_be_bytes());
            }
        },
    }
}

/// The codes in a payload.
pub(super) fn parse(payload: &[u8]) -> Result<Vec<Vec<u8>>, CommandError> {
    let wrong = CommandError::fixed("ERR DUMP payload version or checksum are wrong");
    let Some(end) = payload.len().checked_sub(10) else {
        return Err(wrong);
    };
    let (body, footer) = payload.split_at(end);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let crc = u64::from_le_bytes(footer[2..10].try_into().expect("eight bytes"));
    if version > VERSION_MAX || crc != crc64(&payload[..end + 2]) {
        return Err(wrong);
    }
    let mut codes = Vec::new();
    let mut rest = body;
    while let Some((&kind, after)) = rest.split_first() {
        if kind != LIBRARY {
            return Err(CommandError::fixed("ERR given type is not a function"));
        }
        rest = after;
        codes.push(take_string(&mut rest).ok_or(CommandError::fixed("ERR Failed loading library data"))?);
    }
    Ok(codes)
}

enum Len {
    Plain(usize),
    Special(u8),
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(n)?;
    *rest = after;
    Some(taken)
}

fn take_len(rest: &mut &[u8]) -> Option<Len> {
    let first = take(rest, 1)?[0];
    Some(match first >> 6 {
        0 => Len::Plain(usize::from(first)),
        1 => Len::Plain(usize::from(first & 0x3f) << 8 | usize::from(take(rest, 1)?[0])),
        2 if first == 0x80 => Len::Plain(u32::from_be_bytes(take(rest, 4)?.try_into().ok()?) as usize),
        2 if first == 0x81 => {
            Len::Plain(usize::try_from(u64::from_be_bytes(take(rest, 8)?.try_into().ok()?)).ok()?)
        }
        2 => return None,
        _ => Len::Special(first & 0x3f),
    })
}

fn take_string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    match take_len(rest)? {
        Len::Plain(n) => take(rest, n).map(<[u8]>::to_vec),
        Len::Special(0) => Some((take(rest, 1)?[0] as i8).to_string().into_bytes()),
        Len::Special(1) => Some(i16::from_le_bytes(take(rest, 2)?.try_into().ok()?).to_string().into_bytes()),
        Len::Special(2) => Some(i32::from_le_bytes(take(rest, 4)?.try_into().ok()?).to_string().into_bytes()),
        Len::Special(3) => {
            let (Len::Plain(packed), Len::Plain(len)) = (take_len(rest)?, take_len(rest)?) else {
                return None;
            };
            unpack(take(rest, packed)?, len)
        }
        Len::Special(_) => None,
    }
}

/// LZF: a control byte below 32 is a run of that many plus one literals; else its top three bits
/// are a length (7: another byte follows) and the rest, with the next byte, a distance back.
fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // A packed byte pair gives 264 bytes at most: no length beyond that is worth reserving.
    let mut out = Vec::with_capacity(len.min(packed.len().saturating_mul(132)));
    let mut rest = packed;
    while !rest.is_empty() {
        let control = usize::from(take(&mut rest, 1)?[0]);
        if control < 32 {
            out.extend_from_slice(take(&mut rest, control + 1)?);
        } else {
            let mut run = control >> 5;
            if run == 7 {
                run += usize::from(take(&mut rest, 1)?[0]);
            }
            let back = ((control & 0x1f) << 8 | usize::from(take(&mut rest, 1)?[0])) + 1;
            let from = out.len().checked_sub(back)?;
            for i in 0..run + 2 {
                out.push(out[from + i]);
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// Packs by LZF; `None` when that does not save four bytes. The matches are found by a plain
/// table of the last position of each three bytes.
fn compress(code: &[u8]) -> Option<Vec<u8>> {
    if code.len() <= 20 {
        return None;
    }
    const BITS: u32 = 14;
    let mut last = vec![usize::MAX; 1 << BITS];
    let mut out = Vec::with_capacity(code.len());
    let mut literals = 0;
    let mut at = 0;
    while at + 2 < code.len() {
        let three = u32::from(code[at]) << 16 | u32::from(code[at + 1]) << 8 | u32::from(code[at + 2]);
        let hash = (three.wrapping_mul(2_654_435_761) >> (32 - BITS)) as usize;
        let from = std::mem::replace(&mut last[hash], at);
        let fits = from != usize::MAX && at - from <= 8192 && code[from..from + 3] == code[at..at + 3];
        if !fits {
            at += 1;
            continue;
        }
        let max = (code.len() - at).min(264);
        let run = (3..max).take_while(|&n| code[from + n] == code[at + n]).count() + 3;
        put_literals(&mut out, &code[literals..at]);
        let (back, len) = (at - from - 1, run - 2);
        if len < 7 {
            out.push((len << 5 | back >> 8) as u8);
        } else {
            out.push((7 << 5 | back >> 8) as u8);
            out.push((len - 7) as u8);
        }
        out.push(back as u8);
        at += run;
        literals = at;
    }
    put_literals(&mut out, &code[literals..]);
    (out.len() + 4 <= code.len()).then_some(out)
}

fn put_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(32) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

/// The reflected polynomial of Jones's CRC-64.
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_redis_own() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn a_payload_as_redis_7_0_15_wrote_it_is_read_and_written() {
        let code = b"#!lua name=b\nredis.register_function(\"f\",function() end)";
        let payload = [b"\xf58", code.as_slice(), b"\n\x00\xd2-F\x8e\xdej<\xcd"].concat();
        assert_eq!(parse(&payload), Ok(vec![code.to_vec()]));
        assert_eq!(dump(&[code]), payload);
        assert!(parse(b"x").is_err());
    }

    #[test]
    fn any_code_comes_back() {
        let mut chance = crate::base::chance::Chance::from_seed(7);
        for len in 0..400 {
            let letters = 1 + chance.below(5);
            let code: Vec<u8> = (0..len * 3).map(|_| b'a' + chance.below(letters) as u8).collect();
            assert_eq!(parse(&dump(&[&code, b"x"])), Ok(vec![code, b"x".to_vec()]));
        }
    }

    #[test]
    fn a_broken_string_is_refused() {
        for packed in [&b"\x05ab"[..], b"\x20\x00", b"\xff"] {
            assert_eq!(unpack(packed, 10), None);
        }
    }
}
