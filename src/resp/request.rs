//! The incremental request parser. (A plain stand-in until the real one lands.)

use smallvec::SmallVec;

pub struct Limits {
    pub max_bulk: u64,
    pub authenticated: bool,
}
impl Default for Limits {
    fn default() -> Self {
        Limits { max_bulk: 512 << 20, authenticated: true }
    }
}
#[derive(Debug)]
pub struct ProtocolError;
impl ProtocolError {
    pub fn line(&self) -> Vec<u8> {
        b"ERR Protocol error: unexpected".to_vec()
    }
}
pub enum Step {
    Need,
    Request { consumed: usize },
}
#[derive(Default)]
pub struct Parser {
    spans: Vec<(usize, usize)>,
}
impl Parser {
    pub fn wanted(&self, _have: usize) -> usize {
        0
    }
    pub fn args<'a>(&self, buf: &'a [u8]) -> SmallVec<[&'a [u8]; 8]> {
        self.spans.iter().map(|&(s, l)| &buf[s..s + l]).collect()
    }
    pub fn next(&mut self, buf: &[u8], _limits: &Limits) -> Result<Step, ProtocolError> {
        fn line(buf: &[u8], at: &mut usize) -> Option<i64> {
            let end = memchr::memchr(b'\n', &buf[*at..])? + *at;
            let n = std::str::from_utf8(&buf[*at + 1..end - 1]).ok()?.parse().ok();
            *at = end + 1;
            n
        }
        self.spans.clear();
        let mut at = 0;
        if buf.first().is_some_and(|&b| b != b'*') {
            let Some(end) = memchr::memchr(b'\n', buf) else { return Ok(Step::Need) };
            let mut i = 0;
            for part in buf[..end].split(|b| *b == b' ' || *b == b'\r') {
                if !part.is_empty() {
                    self.spans.push((i, part.len()));
                }
                i += part.len() + 1;
            }
            return if self.spans.is_empty() {
                Err(ProtocolError)
            } else {
                Ok(Step::Request { consumed: end + 1 })
            };
        }
        if buf.is_empty() {
            return Ok(Step::Need);
        }
        let Some(n) = line(buf, &mut at) else { return Ok(Step::Need) };
        for _ in 0..n {
            if at >= buf.len() {
                return Ok(Step::Need);
            }
            let Some(len) = line(buf, &mut at) else { return Ok(Step::Need) };
            if at + len as usize + 2 > buf.len() {
                return Ok(Step::Need);
            }
            self.spans.push((at, len as usize));
            at += len as usize + 2;
        }
        Ok(Step::Request { consumed: at })
    }
}
