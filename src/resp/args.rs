//! `Args`: one request's arguments, borrowed, with typed takers. Not here: option grammars that
//! commands share (`command::options`).

use crate::base::error::CommandError;
use crate::base::number;

/// The arguments of one request; number 0 is the command's name.
#[derive(Clone, Copy)]
pub struct Args<'a>(&'a [&'a [u8]]);

impl<'a> Args<'a> {
    /// Wraps a request that has at least its name.
    pub fn new(parts: &'a [&'a [u8]]) -> Self {
        debug_assert!(!parts.is_empty());
        Args(parts)
    }

    /// How many there are, the name included. Never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Argument `i`. Panics past the end: the table's arity has been checked before.
    pub fn get(&self, i: usize) -> &'a [u8] {
        self.0[i]
    }

    /// Argument `i`, if there is one.
    pub fn try_get(&self, i: usize) -> Option<&'a [u8]> {
        self.0.get(i).copied()
    }

    /// The arguments from `i` on.
    pub fn rest(&self, i: usize) -> &'a [&'a [u8]] {
        self.0.get(i..).unwrap_or(&[])
    }

    /// All of them.
    pub fn all(&self) -> &'a [&'a [u8]] {
        self.0
    }

    /// Argument `i` as a 64-bit integer in Redis's strict syntax, or
    /// `ERR value is not an integer or out of range`.
    pub fn int(&self, i: usize) -> Result<i64, CommandError> {
        number::parse_i64(self.get(i)).ok_or(CommandError::NotAnInteger)
    }

    /// Whether argument `i` is there and is `word`, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.try_get(i).is_some_and(|a| a.eq_ignore_ascii_case(word.as_bytes()))
    }
}
