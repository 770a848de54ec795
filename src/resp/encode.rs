//! `RespWriter`: a `Reply` into an output buffer. The only place that knows RESP2 from RESP3.

use super::reply::Reply;
use crate::base::number;

/// Which protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// RESP2, the default.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// A string for which the buffer is made to fit, with what comes behind it.
const LARGE: usize = 4096;

/// Writes replies to the end of `out` in `protocol`.
pub struct RespWriter<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> RespWriter<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        RespWriter { out, protocol }
    }

    fn header(&mut self, kind: u8, n: i64) {
        let mut digits = itoa::Buffer::new();
        self.out.push(kind);
        self.out.extend_from_slice(digits.format(n).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }
}

impl Reply for RespWriter<'_> {
    fn simple(&mut self, text: &[u8]) {
        self.line(b'+', text);
    }
    fn error_line(&mut self, line: &[u8]) {
        self.out.push(b'-');
        let start = self.out.len();
        self.out.extend_from_slice(line);
        for byte in &mut self.out[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }
    fn integer(&mut self, n: i64) {
        self.header(b':', n);
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as i64);
        if bytes.len() >= LARGE {
            // Else the line's end would double what was made to fit.
            self.out.reserve(bytes.len() + 2);
        }
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }
    fn null(&mut self) {
        self.out.extend_from_slice(if self.resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }
    fn null_array(&mut self) {
        self.out.extend_from_slice(if self.resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }
    fn array(&mut self, n: usize) {
        self.header(b'*', n as i64);
    }
    fn map(&mut self, n: usize) {
        if self.resp3() { self.header(b'%', n as i64) } else { self.header(b'*', 2 * n as i64) }
    }
    fn set(&mut self, n: usize) {
        self.header(if self.resp3() { b'~' } else { b'*' }, n as i64);
    }
    fn push(&mut self, n: usize) {
        self.header(if self.resp3() { b'>' } else { b'*' }, n as i64);
    }
    fn double(&mut self, x: f64) {
        let text = number::format_double(x);
        if self.resp3() { self.line(b',', text.as_bytes()) } else { self.bulk(text.as_bytes()) }
    }
    fn boolean(&mut self, b: bool) {
        match (self.resp3(), b) {
            (true, true) => self.out.extend_from_slice(b"#t\r\n"),
            (true, false) => self.out.extend_from_slice(b"#f\r\n"),
            (false, b) => self.integer(i64::from(b)),
        }
    }
    fn big_number(&mut self, digits: &[u8]) {
        if self.resp3() { self.line(b'(', digits) } else { self.bulk(digits) }
    }
    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if self.resp3() {
            self.header(b'=', text.len() as i64 + 4);
            self.out.extend_from_slice(format);
            self.out.push(b':');
            self.out.extend_from_slice(text);
            self.out.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }
    fn attribute(&mut self, n: usize) -> bool {
        if self.resp3() {
            self.header(b'|', n as i64);
        }
        self.resp3()
    }
    fn is_resp3(&self) -> bool {
        self.resp3()
    }
    fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }
}
