//! What is done to a script's text before Lua compiles it. The Lua that is built in was configured to
//! refuse `[[` within `[[…]]`; Redis's takes it for text. Not here: compiling (`host`, `sandbox`).

use std::borrow::Cow;

/// `text` with the brackets of such strings and comments changed to `[=[…]=]`, or a longer form.
pub(super) fn without_nesting(text: &[u8]) -> Cow<'_, [u8]> {
    let mut double = memchr::memmem::find_iter(text, b"[[");
    if double.next().is_none() || double.next().is_none() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut copied, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        match text[at] {
            b'-' if text[at..].starts_with(b"--") => {
                at += 2;
                if open_len(&text[at..]).is_none() {
                    at += memchr::memchr(b'\n', &text[at..]).unwrap_or(text.len() - at);
                }
            }
            quote @ (b'"' | b'\'') => at += quoted_len(&text[at..], quote),
            b'[' => {
                let Some(open) = open_len(&text[at..]) else {
                    at += 1;
                    continue;
                };
                let begin = at + open;
                let Some(len) = memchr::memmem::find(&text[begin..], &bracket(b']', open - 2)) else {
                    // Not closed: Lua shall complain of that.
                    if open == 2 && memchr::memmem::find(&text[begin..], b"[[").is_some() {
                        out.extend_from_slice(&text[copied..at]);
                        out.extend_from_slice(&bracket(b'[', free_level(&text[begin..])));
                        copied = begin;
                    }
                    break;
                };
                let content = &text[begin..begin + len];
                if open == 2 && memchr::memmem::find(content, b"[[").is_some() {
                    let equals = free_level(content);
                    out.extend_from_slice(&text[copied..at]);
                    out.extend_from_slice(&bracket(b'[', equals));
                    out.extend_from_slice(content);
                    out.extend_from_slice(&bracket(b']', equals));
                    copied = begin + len + open;
                }
                at = begin + len + open;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.extend_from_slice(&text[copied..]);
    Cow::Owned(out)
}

/// How long the long bracket is that begins here, `[[` or `[=[` and so on.
fn open_len(text: &[u8]) -> Option<usize> {
    let equals = text.iter().skip(1).take_while(|&&b| b == b'=').count();
    (text.first() == Some(&b'[') && text.get(equals + 1) == Some(&b'[')).then_some(equals + 2)
}

fn bracket(side: u8, equals: usize) -> Vec<u8> {
    let mut bracket = vec![b'='; equals + 2];
    bracket[0] = side;
    bracket[equals + 1] = side;
    bracket
}

/// How long the quoted string is that begins here; up to the end of its line, if it is not closed.
fn quoted_len(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'\n' => return at,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// How many equals signs make brackets that nothing in `content` closes.
fn free_level(content: &[u8]) -> usize {
    (1..)
        .find(|&equals| {
            let close = bracket(b']', equals);
            let whole = [content, &close].concat();
            memchr::memmem::find(&whole, &close) == Some(content.len())
        })
        .unwrap_or(1) // one of the first `content.len()` is free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nested_brackets_are_changed() {
        for (text, expected) in [
            ("return [[a]] .. [[b]]", "return [[a]] .. [[b]]"),
            ("return [[a [[ b]]", "return [=[a [[ b]=]"),
            ("return [[[[]]", "return [=[[[]=]"),
            ("--[[ see [[this]] return 1", "--[=[ see [[this]=] return 1"),
            ("return [=[a [[ b ]] ]=] .. [[x]]", "return [=[a [[ b ]] ]=] .. [[x]]"),
            ("return '[[ [[ ]]' .. \"[[ [[\" -- [[ [[ ]]\n", "return '[[ [[ ]]' .. \"[[ [[\" -- [[ [[ ]]\n"),
            ("return 'it\\'s [[' .. [[x [[ ]=] ]]", "return 'it\\'s [[' .. [==[x [[ ]=] ]==]"),
            ("return [[x [[ ]=]]", "return [==[x [[ ]=]==]"),
            ("return [[a [[", "return [=[a [["),
            ("local a = t[ [[k]] ] [[[ [[", "local a = t[ [[k]] ] [=[[ [["),
            ("return t[t[1]], t[t[2]]", "return t[t[1]], t[t[2]]"),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_nesting(text.as_bytes())), expected, "{text}");
        }
    }
}
