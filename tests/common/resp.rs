//! The wire as a client sees it: requests out, frames and values in. Written apart from the
//! server's own parser, so that a mistake there is not repeated here. Not here: sockets.

use std::fmt;

/// A request as an array of bulk strings.
pub fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The length of the first whole frame, or `None` while it is incomplete. A frame that is not RESP
/// counts as a line, so that a test shows it instead of waiting.
pub fn frame_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut open = 1usize;
    while open > 0 {
        let rest = bytes.get(at..)?;
        let end = rest.windows(2).position(|w| w == b"\r\n")?;
        let n: i64 = std::str::from_utf8(&rest[1..end.max(1)]).ok().and_then(|s| s.parse().ok()).unwrap_or(0);
        at += end + 2;
        open -= 1;
        match rest[0] {
            b'$' | b'=' | b'!' if n >= 0 => {
                at += n as usize + 2;
                if at > bytes.len() {
                    return None;
                }
            }
            b'*' | b'~' | b'>' if n > 0 => open += n as usize,
            b'%' if n > 0 => open += 2 * n as usize,
            b'|' => open += 2 * n.max(0) as usize + 1,
            _ => {}
        }
    }
    Some(at)
}

/// One reply as a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Int(i64),
    Bulk(Vec<u8>),
    NullBulk,
    NullArray,
    Null,
    Array(Vec<Value>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    Map(Vec<(Value, Value)>),
    /// Double, boolean, big number: the line with its type byte.
    Other(Vec<u8>),
    Verbatim(Vec<u8>),
}

impl Value {
    /// The first value of `bytes`, and how many bytes it took.
    pub fn parse(bytes: &[u8]) -> Option<(Value, usize)> {
        let end = bytes.windows(2).position(|w| w == b"\r\n")?;
        let line = &bytes[1..end.max(1)];
        let n: i64 = std::str::from_utf8(line).ok().and_then(|s| s.parse().ok()).unwrap_or(0);
        let mut at = end + 2;
        let items = |count: i64, at: &mut usize| -> Option<Vec<Value>> {
            (0..count)
                .map(|_| {
                    let (value, used) = Value::parse(&bytes[*at..])?;
                    *at += used;
                    Some(value)
                })
                .collect()
        };
        let value = match bytes[0] {
            b'+' => Value::Simple(line.to_vec()),
            b'-' => Value::Error(line.to_vec()),
            b':' => Value::Int(n),
            b'_' => Value::Null,
            b'$' if n < 0 => Value::NullBulk,
            b'*' if n < 0 => Value::NullArray,
            kind @ (b'$' | b'=' | b'!') => {
                let data = bytes.get(at..at + n as usize)?.to_vec();
                at += n as usize + 2;
                match kind {
                    b'$' => Value::Bulk(data),
                    b'=' => Value::Verbatim(data),
                    _ => Value::Error(data),
                }
            }
            b'*' => Value::Array(items(n, &mut at)?),
            b'~' => Value::Set(items(n, &mut at)?),
            b'>' => Value::Push(items(n, &mut at)?),
            b'%' => {
                let flat = items(2 * n, &mut at)?;
                Value::Map(flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
            }
            _ => Value::Other(bytes[..end].to_vec()),
        };
        Some((value, at))
    }

    /// The bytes of a string of any kind.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(b) | Value::Bulk(b) => Some(b),
            Value::Verbatim(b) => b.get(4..),
            _ => None,
        }
    }

    /// A string of any kind as text.
    pub fn text(&self) -> String {
        self.bytes().map_or_else(|| format!("{self:?}"), |b| String::from_utf8_lossy(b).into_owned())
    }

    /// An integer, or a string that holds one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(*n),
            other => std::str::from_utf8(other.bytes()?).ok()?.parse().ok(),
        }
    }

    /// The elements of an array, set or push.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(v) | Value::Set(v) | Value::Push(v) => Some(v),
            _ => None,
        }
    }

    /// A map, or RESP2's flat array in its place.
    pub fn pairs(&self) -> Option<Vec<(Value, Value)>> {
        match self {
            Value::Map(pairs) => Some(pairs.clone()),
            Value::Array(flat) if flat.len().is_multiple_of(2) => {
                Some(flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |b: &[u8]| b.escape_ascii().to_string();
        match self {
            Value::Simple(b) => write!(f, "+{}", shown(b)),
            Value::Error(b) => write!(f, "-{}", shown(b)),
            Value::Int(n) => write!(f, ":{n}"),
            Value::Bulk(b) => write!(f, "\"{}\"", shown(b)),
            Value::Verbatim(b) => write!(f, "=\"{}\"", shown(b)),
            Value::NullBulk => write!(f, "$-1"),
            Value::NullArray => write!(f, "*-1"),
            Value::Null => write!(f, "_"),
            Value::Array(v) => f.debug_list().entries(v).finish(),
            Value::Set(v) => f.debug_set().entries(v).finish(),
            Value::Push(v) => write!(f, ">").and_then(|()| f.debug_list().entries(v).finish()),
            Value::Map(v) => f.debug_map().entries(v.iter().map(|(k, v)| (k, v))).finish(),
            Value::Other(b) => write!(f, "{}", shown(b)),
        }
    }
}
