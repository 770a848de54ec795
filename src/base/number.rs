//! Redis's strict integer and float syntax, and how it prints them. (Being written.)

/// A 64-bit integer in canonical form: no sign but `-`, no leading zeros, no blanks.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let n: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (itoa::Buffer::new().format(n).as_bytes() == text).then_some(n)
}

/// A finite or infinite double as `INCRBYFLOAT` and the like read it; no blanks, no NaN.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let x: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!x.is_nan()).then_some(x)
}

/// A double as RESP3 prints it (`%.17g`, `inf`, `-inf`, `nan`).
pub fn format_double(x: f64) -> String {
    ryu::Buffer::new().format(x).to_owned()
}
