//! The incremental request parser, multibulk and inline, and `ProtocolError`, what ends a
//! connection. It resumes where it stopped, looks at no byte twice, and sets no memory aside for
//! what a header merely announces. Not here: the buffer (`net`), quoting (`base::words`).
//!
//! Two habits of Redis's parser are kept because clients can see them: only the CR of a line end
//! is looked at (the byte after it and the two bytes after a bulk are skipped unread), and a NUL
//! in a header or an inline request hides the line's end.

use crate::base::{number, words};
use smallvec::SmallVec;

/// Bytes that an unfinished header or inline request may have.
const LINE_MAX: usize = 64 * 1024;
/// Arguments that a request may announce.
const ARGS_MAX: i64 = i32::MAX as i64;
/// Arguments, and bytes of an argument, before authentication.
const ARGS_MAX_UNAUTHENTICATED: i64 = 10;
const BULK_MAX_UNAUTHENTICATED: i64 = 16 * 1024;
/// Spans that an idle parser may keep room for.
const SPANS_KEPT: usize = 64;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest argument, bytes (`proto-max-bulk-len`).
    pub max_bulk: u64,
    /// Whether the client has authenticated, or need not.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_bulk: 512 << 20, authenticated: true }
    }
}

/// Why a connection ends: it does not speak the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    MultibulkLength,
    UnauthenticatedMultibulk,
    MultibulkLineTooLong,
    /// What stood where a `$` should.
    ExpectedBulk(u8),
    BulkLength,
    UnauthenticatedBulk,
    BulkLineTooLong,
    InlineTooLong,
    UnbalancedQuotes,
}

impl ProtocolError {
    /// The error line as Redis words it, after the `-`.
    pub fn line(&self) -> Vec<u8> {
        let text: &[u8] = match self {
            Self::MultibulkLength => b"invalid multibulk length",
            Self::UnauthenticatedMultibulk => b"unauthenticated multibulk length",
            Self::MultibulkLineTooLong => b"too big mbulk count string",
            Self::ExpectedBulk(_) => b"expected '$', got '",
            Self::BulkLength => b"invalid bulk length",
            Self::UnauthenticatedBulk => b"unauthenticated bulk length",
            Self::BulkLineTooLong => b"too big bulk count string",
            Self::InlineTooLong => b"too big inline request",
            Self::UnbalancedQuotes => b"unbalanced quotes in request",
        };
        let mut line = [b"ERR Protocol error: ", text].concat();
        if let Self::ExpectedBulk(got) = self {
            line.extend_from_slice(&[*got, b'\'']);
        }
        line
    }
}

/// What one call found at the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The request is not complete. The bytes must be there again, at the start, in the next call.
    Need,
    /// A request without arguments: drop these bytes, nothing is answered.
    Skip { consumed: usize },
    /// A request: `args` has its arguments; then drop these bytes.
    Request { consumed: usize },
}

/// The parser's state for one connection. Positions are relative to the start of the bytes that
/// are not consumed, so the caller may move them between buffers.
#[derive(Debug, Default)]
pub struct Parser {
    /// Start and length of each argument found.
    spans: SmallVec<[(usize, usize); 8]>,
    /// An inline request's arguments, unescaped.
    words: Vec<Vec<u8>>,
    /// Arguments of the multibulk request under way that are still to come; 0: between requests.
    left: usize,
    /// Everything before is parsed.
    at: usize,
    /// Where the line under way has been searched for its end.
    searched: usize,
    /// The announced length of the argument under way, where its header is parsed.
    bulk: Option<usize>,
}

/// A header line, or the lack of its end.
enum Line {
    Open,
    TooLong,
    /// The number (`None`: not one) and the position behind the line.
    Closed(Option<i64>, usize),
}

impl Parser {
    /// How many bytes the argument under way is short of, when `have` are there.
    pub fn wanted(&self, have: usize) -> usize {
        self.bulk.map_or(0, |len| (self.at + len + 2).saturating_sub(have))
    }

    /// The arguments of the request that `next` has found in `buf`.
    pub fn args<'a>(&'a self, buf: &'a [u8]) -> SmallVec<[&'a [u8]; 8]> {
        if self.words.is_empty() {
            self.spans.iter().map(|&(start, len)| &buf[start..start + len]).collect()
        } else {
            self.words.iter().map(Vec::as_slice).collect()
        }
    }

    /// Whether the request that `next` has found is an inline one: then `args` alone has it.
    pub fn is_inline(&self) -> bool {
        !self.words.is_empty()
    }

    /// Start and length in `buf` of each argument of the multibulk request that `next` has found.
    pub fn spans(&self) -> &[(usize, usize)] {
        &self.spans
    }

    /// Looks for one request at the start of `buf`. After an error the connection is lost.
    #[inline]
    pub fn next(&mut self, buf: &[u8], limits: &Limits) -> Result<Step, ProtocolError> {
        if self.left == 0 {
            self.spans.clear();
            if !self.words.is_empty() {
                self.words = Vec::new();
            }
            match buf.first() {
                Some(b'*') => match self.begin(buf, limits)? {
                    Step::Request { .. } => {}
                    step => return Ok(step),
                },
                Some(_) => return self.inline(buf),
                None => {
                    if self.spans.capacity() > SPANS_KEPT {
                        self.spans = SmallVec::new();
                    }
                    return Ok(Step::Need);
                }
            }
        }
        self.arguments(buf, limits)
    }

    /// Reads `*<count>`; the answer `Request` means that arguments follow.
    #[inline]
    fn begin(&mut self, buf: &[u8], limits: &Limits) -> Result<Step, ProtocolError> {
        let (count, end) = match self.header(buf, 0) {
            Line::Open => return Ok(Step::Need),
            Line::TooLong => return Err(ProtocolError::MultibulkLineTooLong),
            Line::Closed(count, end) => (count, end),
        };
        let count = count.filter(|&count| count <= ARGS_MAX).ok_or(ProtocolError::MultibulkLength)?;
        if count > ARGS_MAX_UNAUTHENTICATED && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulk);
        }
        if count <= 0 {
            return Ok(Step::Skip { consumed: end });
        }
        self.left = count as usize; // 1..=ARGS_MAX
        self.at = end;
        Ok(Step::Request { consumed: 0 })
    }

    /// Reads the arguments of the multibulk request under way.
    #[inline]
    fn arguments(&mut self, buf: &[u8], limits: &Limits) -> Result<Step, ProtocolError> {
        let mut at = self.at;
        while self.left > 0 {
            let len = match self.bulk {
                Some(len) => len,
                None => match self.header(buf, at) {
                    Line::Open => {
                        self.at = at;
                        return Ok(Step::Need);
                    }
                    Line::TooLong => return Err(ProtocolError::BulkLineTooLong),
                    Line::Closed(_, _) if buf[at] != b'$' => {
                        return Err(ProtocolError::ExpectedBulk(buf[at]));
                    }
                    Line::Closed(len, end) => {
                        let len = len
                            .filter(|&len| len >= 0 && len as u64 <= limits.max_bulk)
                            .ok_or(ProtocolError::BulkLength)?;
                        if len > BULK_MAX_UNAUTHENTICATED && !limits.authenticated {
                            return Err(ProtocolError::UnauthenticatedBulk);
                        }
                        at = end;
                        usize::try_from(len).map_err(|_| ProtocolError::BulkLength)?
                    }
                },
            };
            // Neither side overflows: `at` is within the buffer, `len` is at most an i64.
            if buf.len() - at < len + 2 {
                self.bulk = Some(len);
                self.at = at;
                return Ok(Step::Need);
            }
            self.bulk = None;
            self.spans.push((at, len));
            self.left -= 1;
            at += len + 2;
        }
        self.at = 0;
        Ok(Step::Request { consumed: at })
    }

    /// Reads the number of the header line that begins at `start` with its one-byte mark.
    #[inline]
    fn header(&mut self, buf: &[u8], start: usize) -> Line {
        // Nearly all headers: one or two digits without a leading zero, all of it there.
        if let Some(&[_, a, b, c, _]) = buf.get(start..start + 5).and_then(|line| line.first_chunk::<5>()) {
            let digit = a.wrapping_sub(b'0');
            if b == b'\r' && digit <= 9 {
                self.searched = 0;
                return Line::Closed(Some(i64::from(digit)), start + 4);
            }
            let second = b.wrapping_sub(b'0');
            if c == b'\r' && (1..=9).contains(&digit) && second <= 9 {
                self.searched = 0;
                return Line::Closed(Some(i64::from(digit) * 10 + i64::from(second)), start + 5);
            }
        }
        self.long_header(buf, start)
    }

    fn long_header(&mut self, buf: &[u8], start: usize) -> Line {
        let from = self.searched.clamp(start, buf.len());
        let end = match memchr::memchr2(b'\r', 0, &buf[from..]) {
            Some(found) if buf[from + found] == b'\r' => Some(from + found),
            // Stay at the NUL: the line never ends.
            Some(found) => {
                self.searched = from + found;
                None
            }
            None => {
                self.searched = buf.len();
                None
            }
        };
        match end {
            Some(end) if end - start > LINE_MAX => Line::TooLong,
            Some(end) if end + 2 > buf.len() => {
                self.searched = end;
                Line::Open
            }
            Some(end) => {
                self.searched = 0;
                // The mark may be missing and the line empty: what stands there is told first.
                Line::Closed(buf.get(start + 1..end).and_then(number::parse_i64), end + 2)
            }
            None if buf.len() - start > LINE_MAX => Line::TooLong,
            None => Line::Open,
        }
    }

    /// Reads an inline request.
    fn inline(&mut self, buf: &[u8]) -> Result<Step, ProtocolError> {
        let from = self.searched.min(buf.len());
        let end = match memchr::memchr2(b'\n', 0, &buf[from..]) {
            Some(found) if buf[from + found] == b'\n' && from + found <= LINE_MAX => from + found,
            found => {
                if buf.len() > LINE_MAX {
                    return Err(ProtocolError::InlineTooLong);
                }
                self.searched = found.map_or(buf.len(), |found| from + found);
                return Ok(Step::Need);
            }
        };
        self.searched = 0;
        let line = buf[..end].strip_suffix(b"\r").unwrap_or(&buf[..end]);
        self.words = words::split(line).ok_or(ProtocolError::UnbalancedQuotes)?;
        let consumed = end + 1;
        Ok(if self.words.is_empty() { Step::Skip { consumed } } else { Step::Request { consumed } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Request = Vec<Vec<u8>>;

    /// All requests of `bytes`, fed in pieces that end at `cuts`, and how it ended.
    fn feed(bytes: &[u8], cuts: &[usize], limits: &Limits) -> (Vec<Request>, Option<ProtocolError>) {
        let mut parser = Parser::default();
        let (mut start, mut requests) = (0, Vec::new());
        for &cut in cuts.iter().chain([&bytes.len()]) {
            loop {
                // A buffer of its own each time: nothing may depend on where the bytes are.
                let buf = bytes[start..cut.max(start)].to_vec();
                match parser.next(&buf, limits) {
                    Ok(Step::Need) => break,
                    Ok(Step::Skip { consumed }) => start += consumed,
                    Ok(Step::Request { consumed }) => {
                        requests.push(parser.args(&buf).iter().map(|arg| arg.to_vec()).collect());
                        start += consumed;
                    }
                    Err(error) => return (requests, Some(error)),
                }
            }
        }
        (requests, None)
    }

    fn check(bytes: &[u8], want: &[&[&str]], error: Option<&str>) {
        let every: Vec<usize> = (0..bytes.len()).collect();
        for cuts in [&[][..], &every[..]] {
            let (requests, got) =
                feed(bytes, if bytes.len() > 10_000 { &[] } else { cuts }, &Limits::default());
            let want: Vec<Request> =
                want.iter().map(|r| r.iter().map(|a| a.as_bytes().to_vec()).collect()).collect();
            assert_eq!(requests, want, "{:?}", bytes.escape_ascii().to_string());
            let got = got.map(|e| String::from_utf8_lossy(&e.line()).into_owned());
            assert_eq!(got, error.map(|e| format!("ERR Protocol error: {e}")));
        }
    }

    #[test]
    fn requests() {
        check(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n", &[&["PING"], &["GET", ""]], None);
        check(b"*0\r\n*-1\r\n\r\n   \n\nPING\n", &[&["PING"]], None);
        check(b"*1\rx$4\r-PING--PING\r\n", &[&["PING"], &["PING"]], None);
        check(b"set k 'a b' \"\\x41\\n\"\r\n", &[&["set", "k", "a b", "A\n"]], None);
        let long = "x".repeat(12_345);
        let bytes = format!("*11\r\n{}$12345\r\n{long}\r\n", "$1\r\na\r\n".repeat(10));
        check(bytes.as_bytes(), &[&["a", "a", "a", "a", "a", "a", "a", "a", "a", "a", &long]], None);
    }

    #[test]
    fn errors_after_what_was_owed() {
        check(b"PING\n*x\r\n", &[&["PING"]], Some("invalid multibulk length"));
        for bytes in ["*\r\n", "*2147483648\r\n", "*01\r\n", "*+1\r\n", "*1 \r\n"] {
            check(bytes.as_bytes(), &[], Some("invalid multibulk length"));
        }
        for bytes in ["$\r\n", "$-1\r\n", "$x\r\n", "$536870913\r\n", "$01\r\n"] {
            check(format!("*1\r\n{bytes}").as_bytes(), &[], Some("invalid bulk length"));
        }
        check(b"*1\r\n+PING\r\n", &[], Some("expected '$', got '+'"));
        check(b"*2147483647\r\n", &[], None);
        check(b"set \"a\"b c\r\n", &[], Some("unbalanced quotes in request"));
        let much = vec![b'1'; 70_000];
        check(&much, &[], Some("too big inline request"));
        check(&[b"*", &much[..]].concat(), &[], Some("too big mbulk count string"));
        check(&[b"*1\r\n$", &much[..]].concat(), &[], Some("too big bulk count string"));
        check(b"PING\0\n\n", &[], None);
    }

    #[test]
    fn less_before_authentication() {
        let limits = Limits { authenticated: false, ..Limits::default() };
        let (_, error) = feed(b"*11\r\n", &[], &limits);
        assert_eq!(error, Some(ProtocolError::UnauthenticatedMultibulk));
        let (_, error) = feed(b"*10\r\n$16384\r\n", &[], &limits);
        assert_eq!(error, None);
        let (_, error) = feed(b"*1\r\n$16385\r\n", &[], &limits);
        assert_eq!(error, Some(ProtocolError::UnauthenticatedBulk));
    }

    #[test]
    fn an_idle_parser_is_small() {
        assert!(std::mem::size_of::<Parser>() <= 256);
        let mut parser = Parser::default();
        assert_eq!(parser.next(b"*2147483647\r\n$536870912\r\n", &Limits::default()), Ok(Step::Need));
        assert_eq!(parser.spans.capacity(), 8);
        assert_eq!(parser.wanted(25), (512 << 20) + 2);
        assert_eq!(parser.wanted(125), (512 << 20) - 98);
    }

    fn encode(requests: &[Request]) -> Vec<u8> {
        let mut out = Vec::new();
        for request in requests {
            out.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
            for arg in request {
                out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
                out.extend_from_slice(arg);
                out.extend_from_slice(b"\r\n");
            }
        }
        out
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            requests in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..130), 1..12), 0..8),
            mut cuts in prop::collection::vec(0usize..4000, 0..20),
        ) {
            let bytes = encode(&requests);
            cuts.iter_mut().for_each(|cut| *cut = (*cut).min(bytes.len()));
            cuts.sort_unstable();
            prop_assert_eq!(feed(&bytes, &cuts, &Limits::default()), (requests, None));
        }

        #[test]
        fn any_bytes_in_any_split(
            bytes in prop::collection::vec(prop::sample::select(&b"*$0123-\r\n\"' \\x\0ab+"[..]), 0..80),
            mut cuts in prop::collection::vec(0usize..80, 0..20),
        ) {
            cuts.iter_mut().for_each(|cut| *cut = (*cut).min(bytes.len()));
            cuts.sort_unstable();
            let whole = feed(&bytes, &[], &Limits::default());
            prop_assert_eq!(feed(&bytes, &cuts, &Limits::default()), whole);
        }
    }
}
