//! Redis's strict integer syntax, doubles, and how they are printed. Not here: the 80-bit numbers
//! of INCRBYFLOAT (`extended`).

/// A 64-bit integer in canonical form: no sign but `-`, no leading zeros, no blanks.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut n: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = n * 10 + u64::from(digit); // 19 digits fit
    }
    if negative { 0i64.checked_sub_unsigned(n) } else { i64::try_from(n).ok() }
}

/// The same for a number without sign.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let canonical = matches!(text, [b'0'] | [b'1'..=b'9', ..]) && text.iter().all(u8::is_ascii_digit);
    if canonical { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

/// A finite or infinite double in decimal; no blanks, no NaN. A number too large to be finite is
/// refused, `inf` is not.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let x: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let overflow = x.is_infinite() && text.iter().any(u8::is_ascii_digit);
    (!x.is_nan() && !overflow).then_some(x)
}

/// A double as replies show it (`%.17g`, `inf`, `-inf`, `nan`).
pub fn format_double(x: f64) -> String {
    format_g(x, 17)
}

/// A double as C's `printf("%.<precision>g")` prints it.
pub fn format_g(x: f64, precision: usize) -> String {
    if !x.is_finite() {
        let sign = if x.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if x.is_nan() { "nan" } else { "inf" });
    }
    let precision = precision.max(1);
    // `d.ddde±x`, rounded; the exponent after rounding decides the form.
    let scientific = format!("{x:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.unsigned_abs());
    }
    let places = (precision as i32 - 1 - exponent) as usize; // exponent < precision
    trim_zeros(&format!("{x:.places$}")).to_owned()
}

/// Cuts the zeros at the end of a fraction, and the point where nothing is left of it.
fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_are_what_they_print(n: i64) {
            prop_assert_eq!(parse_i64(n.to_string().as_bytes()), Some(n));
        }

        #[test]
        fn integers_are_canonical(text in "-?[0-9 +]{0,21}") {
            let want = text.parse::<i64>().ok().filter(|n| n.to_string() == text);
            prop_assert_eq!(parse_i64(text.as_bytes()), want);
        }

        #[test]
        fn seventeen_digits_come_back(x: f64) {
            let back: f64 = format_g(x, 17).parse().unwrap();
            prop_assert!(back == x || x.is_nan());
        }
    }

    #[test]
    fn integers_at_their_ends() {
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"-0"), None);
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"01"), None);
    }

    #[test]
    fn doubles_as_printf_prints_them() {
        for (x, precision, want) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (1.0, 17, "1"),
            (2.14, 17, "2.1400000000000001"),
            (0.1, 14, "0.1"),
            (1e15, 14, "1e+15"),
            (1e13, 14, "10000000000000"),
            (1_234_567_890_123.25, 17, "1234567890123.25"),
            (99999999999999.99, 14, "1e+14"),
            (0.0001, 17, "0.0001"),
            (0.00001, 17, "1.0000000000000001e-05"),
            (1e300, 17, "1.0000000000000001e+300"),
            (5e-324, 17, "4.9406564584124654e-324"),
            (f64::INFINITY, 17, "inf"),
            (f64::NEG_INFINITY, 17, "-inf"),
        ] {
            assert_eq!(format_g(x, precision), want);
        }
    }
}
