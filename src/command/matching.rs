//! Conditions on the value that a key has: IFEQ, IFNE and, by its digest, IFDEQ, IFDNE. Not here:
//! the commands that take them (`string`, `cas`, `expiry`).

use crate::base::error::CommandError;
use crate::resp::Args;
use xxhash_rust::xxh3::xxh3_64;

/// What a key's value is compared with.
#[derive(Clone, Copy, Debug)]
pub enum Match<'a> {
    Equal(&'a [u8]),
    NotEqual(&'a [u8]),
    DigestEqual(&'a [u8]),
    DigestNotEqual(&'a [u8]),
}

impl<'a> Match<'a> {
    /// Reads the word at argument `i` and the value behind it; `None`: it is another word.
    pub fn read(args: &Args<'a>, i: usize) -> Option<Self> {
        let value = args.try_get(i + 1)?;
        if args.is(i, "ifeq") {
            Some(Match::Equal(value))
        } else if args.is(i, "ifne") {
            Some(Match::NotEqual(value))
        } else if args.is(i, "ifdeq") {
            Some(Match::DigestEqual(value))
        } else if args.is(i, "ifdne") {
            Some(Match::DigestNotEqual(value))
        } else {
            None
        }
    }

    /// Whether a key with `current` as its value meets it; `None`: there is no key. A missing key
    /// is equal to nothing. A digest's length is looked at only where there is a value to compare.
    pub fn met(self, current: Option<&[u8]>) -> Result<bool, CommandError> {
        let Some(current) = current else {
            return Ok(matches!(self, Match::NotEqual(_) | Match::DigestNotEqual(_)));
        };
        Ok(match self {
            Match::Equal(value) => current == value,
            Match::NotEqual(value) => current != value,
            Match::DigestEqual(wanted) => has_digest(current, wanted)?,
            Match::DigestNotEqual(wanted) => !has_digest(current, wanted)?,
        })
    }
}

/// Whether `wanted` is the digest of `value`, in whatever case.
fn has_digest(value: &[u8], wanted: &[u8]) -> Result<bool, CommandError> {
    if wanted.len() != 16 {
        return Err(CommandError::fixed("ERR must be exactly 16 hexadecimal characters"));
    }
    Ok(digest(value).as_bytes().eq_ignore_ascii_case(wanted))
}

/// XXH3 of 64 bits, in 16 lower-case hexadecimal digits.
pub fn digest(value: &[u8]) -> String {
    format!("{:016x}", xxh3_64(value))
}
