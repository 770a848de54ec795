//! A line into words, with the quotes and escapes that redis-cli, redis.conf and inline requests
//! share; and a word back into quotes. Not here: what the words mean.

/// Blanks between words, as C's `isspace` has them.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Splits `line` into words. Double quotes know `\n \r \t \b \a \xHH` and take any other escaped
/// byte as it is; single quotes know `\'` alone. `None`: a quote is not closed, or is closed
/// inside a word. Like Redis's, the line ends at a NUL.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = &line[..memchr::memchr(0, line).unwrap_or(line.len())];
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while at < line.len() && is_blank(line[at]) {
            at += 1;
        }
        if at == line.len() {
            return Some(words);
        }
        let mut word = Vec::new();
        at = one(line, at, &mut word)?;
        words.push(word);
    }
}

/// Reads one word from `at`; gives the position behind it.
fn one(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    // Only these end an unquoted word; vertical tab and form feed do not, though they part words.
    while at < line.len() && !matches!(line[at], b' ' | b'\n' | b'\r' | b'\t') {
        match line[at] {
            quote @ (b'"' | b'\'') => {
                at = if quote == b'"' { double(line, at + 1, word)? } else { single(line, at + 1, word)? };
                // A closing quote ends the word.
                return (at == line.len() || is_blank(line[at])).then_some(at);
            }
            byte => word.push(byte),
        }
        at += 1;
    }
    Some(at)
}

/// Reads up to the closing double quote; gives the position behind it.
fn double(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match line.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if at + 1 < line.len() => {
                if let Some(byte) = hex_escape(&line[at..]) {
                    word.push(byte);
                    at += 4;
                    continue;
                }
                word.push(match line[at + 1] {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => other,
                });
                at += 2;
            }
            &byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

/// Reads up to the closing single quote; gives the position behind it.
fn single(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match line.get(at)? {
            b'\'' => return Some(at + 1),
            b'\\' if line.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            &byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

/// The byte that `\xHH` at the start of `text` stands for.
fn hex_escape(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match text {
        [b'\\', b'x', high, low, ..] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    }
}

/// Appends `word` in double quotes, escaped so that `split` gives it back.
pub fn quote(word: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(line: &str, words: Option<&[&str]>) {
        let expected = words.map(|w| w.iter().map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(split(line.as_bytes()), expected, "{line:?}");
    }

    #[test]
    fn words_are_split_as_redis_splits_them() {
        check("", Some(&[]));
        check("  set\tkey  value ", Some(&["set", "key", "value"]));
        check(r#"a "b c" 'd e'"#, Some(&["a", "b c", "d e"]));
        check(r#""\x41\n\q\"""#, Some(&["A\nq\""]));
        check(r#""\xzz""#, Some(&["xzz"]));
        check(r"'x\'y' '\n'", Some(&["x'y", "\\n"]));
        check("\"\" ''", Some(&["", ""]));
        check("pre\"fix\"", Some(&["prefix"]));
        check("\"a\"b", None);
        check("\"open", None);
        check("'open", None);
        check("\"open\\", None);
        check("cut\0off", Some(&["cut"]));
    }

    proptest! {
        #[test]
        fn a_quoted_word_comes_back(words in proptest::collection::vec(any::<Vec<u8>>(), 0..4)) {
            let mut line = Vec::new();
            for word in &words {
                quote(word, &mut line);
                line.push(b' ');
            }
            prop_assert_eq!(split(&line), Some(words));
        }

        #[test]
        fn any_line_is_taken_without_a_panic(line in any::<Vec<u8>>()) {
            let _ = split(&line);
        }
    }
}
