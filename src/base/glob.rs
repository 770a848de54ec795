//! The glob matcher, deciding as Redis 7.0's `stringmatchlen` does, oddities included. Not here:
//! what is matched (keys, channels, parameter names).

/// Stars (runs of them count once) that a pattern may have before it matches nothing: Redis's
/// matcher recurses on each, and stops there.
const STARS_MAX: usize = 1000;

/// Whether `text` matches `pattern`; `nocase` folds ASCII case.
///
/// `*` any bytes, `?` one byte, `[ab]`, `[a-z]`, `[^a]` one byte of (not of) a class, `\x` the byte
/// x itself. A class that is not closed ends with the pattern; a range may be written backwards;
/// bytes in a range compare as signed. The empty text matches the empty pattern alone, not `*`.
///
/// A mismatch goes back to the latest star alone: whatever an earlier star could skip, the latest
/// can skip too. So the work is at most the product of the two lengths.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Behind the latest star, and the text that it was last tried with.
    let mut star: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        if p == pattern.len() && t == text.len() {
            return true;
        }
        if t < text.len() && pattern.get(p) == Some(&b'*') {
            while pattern.get(p + 1) == Some(&b'*') {
                p += 1;
            }
            if p + 1 == pattern.len() {
                return true;
            }
            stars += 1;
            if stars > STARS_MAX {
                return false;
            }
            p += 1;
            star = Some((p, t));
            continue;
        }
        if t < text.len()
            && p < pattern.len()
            && let Some(next) = one(pattern, p, text[t], nocase)
        {
            (p, t) = (next, t + 1);
            if t == text.len() {
                while pattern.get(p) == Some(&b'*') {
                    p += 1;
                }
            }
            continue;
        }
        match &mut star {
            // Nothing is left for what follows the star: Redis does not try the empty rest.
            Some((_, tried)) if *tried + 1 >= text.len() => return false,
            Some((behind, tried)) => {
                *tried += 1;
                (p, t) = (*behind, *tried);
            }
            None => return false,
        }
    }
}

/// Matches `byte` with the pattern's element at `p`; gives the position behind the element.
fn one(pattern: &[u8], p: usize, byte: u8, nocase: bool) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, byte, nocase),
        b'\\' if p + 1 < pattern.len() => same(pattern[p + 1], byte, nocase).then_some(p + 2),
        literal => same(literal, byte, nocase).then_some(p + 1),
    }
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    a == b || nocase && a.eq_ignore_ascii_case(&b)
}

/// Matches `byte` with the class whose inside begins at `p`.
fn class(pattern: &[u8], mut p: usize, byte: u8, nocase: bool) -> Option<usize> {
    let not = pattern.get(p) == Some(&b'^');
    p += usize::from(not);
    let mut found = false;
    loop {
        match &pattern[p..] {
            [] => break,
            // An escaped byte is compared as it is, whatever `nocase` says.
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [from, b'-', to, ..] => {
                found |= in_range(*from, *to, byte, nocase);
                p += 3;
            }
            [literal, ..] => {
                found |= same(*literal, byte, nocase);
                p += 1;
            }
        }
    }
    (found != not).then_some(p)
}

fn in_range(from: u8, to: u8, byte: u8, nocase: bool) -> bool {
    let (from, to) = if from as i8 > to as i8 { (to, from) } else { (from, to) };
    let fold = |b: u8| (if nocase { b.to_ascii_lowercase() } else { b }) as i8;
    (fold(from)..=fold(to)).contains(&fold(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by plain recursion: every split is tried.
    fn naive(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([], _) | (_, []) => false,
            ([b'*', b'*', ..], _) => naive(&pattern[1..], text, nocase),
            ([b'*'], _) => true,
            ([b'*', ..], _) => (0..text.len()).any(|n| naive(&pattern[1..], &text[n..], nocase)),
            _ => one(pattern, 0, text[0], nocase).is_some_and(|next| {
                let (mut pattern, text) = (&pattern[next..], &text[1..]);
                while text.is_empty() && pattern.first() == Some(&b'*') {
                    pattern = &pattern[1..];
                }
                naive(pattern, text, nocase)
            }),
        }
    }

    #[test]
    fn cases() {
        for (pattern, text, want) in [
            ("*", "x", true),
            ("*", "", false),
            ("", "", true),
            ("a*", "a", true),
            ("*a", "a", true),
            ("a*?", "a", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[z-a]llo", "hello", true),
            ("h[a-", "h-", true),
            ("h[a", "ha", true),
            ("h[", "hx", false),
            ("h[^", "hx", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("[\\]]", "]", true),
            ("[]", "]", false),
            ("*lock:*:x", "a:lock:b:lock:c:x", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), want, "{pattern} {text}");
        }
        assert!(matches(b"HeL[L]*", b"hello", true));
        assert!(!matches(b"HeLLo", b"hello", false));
    }

    #[test]
    fn many_stars_end_soon() {
        let text = vec![b'a'; 50_000];
        assert!(!matches(
            "a*".repeat(300).as_bytes().strip_suffix(b"*").unwrap(),
            &[&text[..], b"b"].concat(),
            false
        ));
        assert!(!matches("*a".repeat(100_000).as_bytes(), &text, false));
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_matcher(
            pattern in prop::collection::vec(prop::sample::select(&b"**??[]^-\\abAB\xff"[..]), 0..10),
            text in prop::collection::vec(prop::sample::select(&b"abAB]-\xff"[..]), 0..8),
            nocase: bool,
        ) {
            prop_assert_eq!(matches(&pattern, &text, nocase), naive(&pattern, &text, nocase));
        }
    }
}
