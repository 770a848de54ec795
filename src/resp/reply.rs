//! `Reply`: everything a handler can say. Not here: how it looks on the wire (`encode.rs`), in
//! Lua (`script::convert`) or as a value (`tree.rs`).

use super::encode::Protocol;
use crate::base::error::CommandError;

/// A sink for one reply. Aggregates announce their length first; then come that many replies
/// (twice as many for a map). A handler speaks only after the last thing that can fail.
pub trait Reply {
    /// A simple string, without CR or LF.
    fn simple(&mut self, text: &[u8]);
    /// An error line as it stands after the `-`: code, blank, text. CR and LF become blanks.
    fn error_line(&mut self, line: &[u8]);
    /// An integer.
    fn integer(&mut self, n: i64);
    /// A bulk string.
    fn bulk(&mut self, bytes: &[u8]);
    /// Nothing: the null bulk string in RESP2, `_` in RESP3.
    fn null(&mut self);
    /// Nothing, where RESP2 says the null array; `_` in RESP3.
    fn null_array(&mut self);
    /// An array of `n` replies.
    fn array(&mut self, n: usize);
    /// A map of `n` pairs; a flat array of `2n` in RESP2.
    fn map(&mut self, n: usize);
    /// A set of `n` replies; an array in RESP2.
    fn set(&mut self, n: usize);
    /// An out-of-band push of `n` replies; an array in RESP2.
    fn push(&mut self, n: usize);
    /// A double; a bulk string in RESP2.
    fn double(&mut self, x: f64);
    /// A boolean; 1 or 0 in RESP2.
    fn boolean(&mut self, b: bool);
    /// A big number, decimal digits with an optional sign; a bulk string in RESP2.
    fn big_number(&mut self, digits: &[u8]);
    /// A text with a three-letter format; a bulk string without it in RESP2.
    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]);
    /// Whether the listener speaks RESP3. Only for the few commands whose reply differs in more
    /// than the encoding (pub/sub confirmations).
    fn is_resp3(&self) -> bool;
    /// From here on the listener speaks `protocol` (HELLO, RESET).
    fn speak(&mut self, protocol: Protocol) {
        let _ = protocol;
    }

    /// Announces an attribute of `n` pairs, before the reply that it belongs to. Tells whether the
    /// listener takes it; where not, the pairs must not be said.
    fn attribute(&mut self, n: usize) -> bool {
        let _ = n;
        false
    }

    /// `+OK`.
    fn ok(&mut self) {
        self.simple(b"OK");
    }
    /// A command's error.
    fn error(&mut self, error: &CommandError) {
        self.error_line(&error.line());
    }
    /// A bulk string, or nothing.
    fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }
    /// A bulk string that is text.
    fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }
}
