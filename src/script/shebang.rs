//! The first line of a script or library, `#!lua name=… flags=…`. Not here: what the flags do.

use super::cache::ScriptFlags;
use crate::base::error::CommandError;

/// A shebang's parts, quotes resolved.
pub(super) struct Shebang {
    parts: Vec<Vec<u8>>,
    /// Bytes up to the line's end (which is not in).
    pub len: usize,
}

/// Reads the shebang of `code`; `Ok(None)`: it has none.
fn read(code: &[u8]) -> Result<Option<Shebang>, CommandError> {
    if !code.starts_with(b"#!") {
        return Ok(None);
    }
    let Some(len) = memchr::memchr(b'\n', code) else {
        return Err(CommandError::fixed("ERR Invalid script shebang"));
    };
    match split(&code[..len]) {
        Some(parts) if !parts.is_empty() => Ok(Some(Shebang { parts, len })),
        _ => Err(CommandError::fixed("ERR Invalid engine in script shebang")),
    }
}

fn said(prefix: &str, bytes: &[u8]) -> CommandError {
    CommandError::Bytes([prefix.as_bytes(), bytes].concat())
}

/// A script's flags, and how many bytes its shebang takes.
pub(super) fn script(body: &[u8]) -> Result<(ScriptFlags, usize), CommandError> {
    let Some(shebang) = read(body)? else {
        return Ok((ScriptFlags::default(), 0));
    };
    if shebang.parts[0] != b"#!lua" {
        return Err(said("ERR Unexpected engine in script shebang: ", &shebang.parts[0]));
    }
    let mut flags = ScriptFlags { given: true, ..ScriptFlags::default() };
    for part in &shebang.parts[1..] {
        let Some(list) = part.strip_prefix(b"flags=") else {
            return Err(said("ERR Unknown lua shebang option: ", part));
        };
        if list.is_empty() {
            continue;
        }
        for flag in list.split(|&b| b == b',') {
            match flag {
                b"no-writes" => flags.no_writes = true,
                b"allow-oom" => flags.allow_oom = true,
                b"allow-cross-slot-keys" => flags.allow_cross_slot = true,
                b"allow-stale" | b"no-cluster" => {}
                _ => return Err(said("ERR Unexpected flag in script shebang: ", flag)),
            }
        }
    }
    Ok((flags, shebang.len))
}

/// A library's name, and how many bytes its shebang takes.
pub(super) fn library(code: &[u8]) -> Result<(Vec<u8>, usize), CommandError> {
    if !code.starts_with(b"#!") {
        return Err(CommandError::fixed("ERR Missing library metadata"));
    }
    let Some(len) = memchr::memchr(b'\n', code) else {
        return Err(CommandError::fixed("ERR Invalid library metadata"));
    };
    let parts = match split(&code[2..len]) {
        Some(parts) if !parts.is_empty() => parts,
        _ => return Err(CommandError::fixed("ERR Invalid library metadata")),
    };
    let mut name: Option<&[u8]> = None;
    for part in &parts[1..] {
        match part.strip_prefix(b"name=") {
            Some(_) if name.is_some() => {
                return Err(CommandError::fixed(
                    "ERR Invalid metadata value, name argument was given multiple times",
                ));
            }
            Some(given) => name = Some(given),
            None => return Err(said("ERR Invalid metadata value given: ", part)),
        }
    }
    let Some(name) = name else {
        return Err(CommandError::fixed("ERR Library name was not given"));
    };
    if !is_name(name) {
        return Err(CommandError::fixed(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
             character long",
        ));
    }
    if !parts[0].eq_ignore_ascii_case(b"lua") {
        let mut line = said("ERR Engine '", &parts[0]).line().into_owned();
        line.extend_from_slice(b"' not found");
        return Err(CommandError::Bytes(line));
    }
    Ok((name.to_vec(), len))
}

/// Whether a library or function may be called so.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// Splits a line at blanks; `"…"` with escapes and `'…'` keep theirs. `None`: unbalanced quotes.
fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|b| !is_blank(*b)).unwrap_or(rest.len());
        rest = &rest[start..];
        if rest.is_empty() {
            return Some(parts);
        }
        let mut part = Vec::new();
        let mut at = 0;
        while at < rest.len() && !is_blank(rest[at]) {
            match rest[at] {
                b'"' => at = double_quoted(rest, at + 1, &mut part)?,
                b'\'' => at = single_quoted(rest, at + 1, &mut part)?,
                byte => {
                    part.push(byte);
                    at += 1;
                }
            }
        }
        parts.push(part);
        rest = &rest[at..];
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// A closing quote must end the part.
fn closed(rest: &[u8], at: usize) -> Option<usize> {
    rest.get(at).is_none_or(|b| is_blank(*b)).then_some(at)
}

fn double_quoted(rest: &[u8], mut at: usize, part: &mut Vec<u8>) -> Option<usize> {
    loop {
        match (*rest.get(at)?, rest.get(at + 1..)) {
            (b'"', _) => return closed(rest, at + 1),
            (b'\\', Some([b'x', a, b, ..])) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
                part.push(digit(*a) * 16 + digit(*b));
                at += 4;
            }
            (b'\\', Some([escaped, ..])) => {
                part.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            (byte, _) => {
                part.push(byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(rest: &[u8], mut at: usize, part: &mut Vec<u8>) -> Option<usize> {
    loop {
        match (*rest.get(at)?, rest.get(at + 1)) {
            (b'\'', _) => return closed(rest, at + 1),
            (b'\\', Some(b'\'')) => {
                part.push(b'\'');
                at += 2;
            }
            (byte, _) => {
                part.push(byte);
                at += 1;
            }
        }
    }
}
