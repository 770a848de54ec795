//! `Extended`: an 80-bit floating-point number as x86's `long double` is, with which Redis reckons
//! in INCRBYFLOAT: reading, adding, printing, each correctly rounded. Exact integers do the work;
//! it is not fast, and need not be. Not here: doubles (`number`).

use num_bigint::{BigInt, BigUint, Sign};
use std::fmt;

/// Bits of a mantissa.
const BITS: u64 = 64;
/// The exponent of the last bit of the smallest numbers, and of the largest.
const EXP_MIN: i64 = -16445;
const EXP_MAX: i64 = 16383 - 63;
/// Longest text that Redis reads as a number, and its buffer for printing one.
const TEXT_MAX: usize = 5 * 1024;
/// Digits behind the point when printed.
const PLACES: u32 = 17;

/// A number: zero, finite or infinite; never NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// `mantissa * 2^exponent`; 0 has no sign.
    Finite {
        negative: bool,
        mantissa: u64,
        exponent: i64,
    },
    Infinite {
        negative: bool,
    },
}

impl Extended {
    const ZERO: Extended = Extended::Finite { negative: false, mantissa: 0, exponent: 0 };

    /// Reads what C's `strtold` reads: decimal or hexadecimal, `inf`, `infinity`; without blanks
    /// around it. `None`: not a number, or too large or too small to tell from infinity or 0.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() >= TEXT_MAX {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(Extended::Infinite { negative });
        }
        let (radix, text) = match text {
            [b'0', b'x' | b'X', rest @ ..] => (16, rest),
            _ => (10, text),
        };
        let (digits, exponent) = scan(text, radix)?;
        let whole = BigUint::parse_bytes(&digits, radix)?;
        if whole == BigUint::ZERO {
            return Some(Self::ZERO);
        }
        let (value, exponent, rest) = if radix == 16 {
            (whole, exponent, false)
        } else {
            // Far out on either side it is settled without the power being worked out.
            if digits.len() as i64 + exponent > 5_000 || digits.len() as i64 + exponent < -5_000 {
                return None;
            }
            let power = BigUint::from(10u32).pow(exponent.unsigned_abs() as u32);
            if exponent >= 0 {
                (whole * power, 0, false)
            } else {
                let shift = (BITS + 2 + power.bits()).saturating_sub(whole.bits());
                let shifted = whole << shift;
                let (quotient, rest) = (&shifted / &power, &shifted % &power);
                (quotient, -(shift as i64), rest != BigUint::ZERO)
            }
        };
        match Self::rounded(negative, value, exponent, rest) {
            Extended::Infinite { .. } | Extended::Finite { mantissa: 0, .. } => None,
            number => Some(number),
        }
    }

    /// `value * 2^exponent`, and a little more where `rest` says so, rounded to nearest, ties to
    /// even.
    fn rounded(negative: bool, value: BigUint, exponent: i64, rest: bool) -> Self {
        let wide = value.bits() as i64 - BITS as i64;
        // Also where the exponent would be too small: such numbers have fewer bits.
        let shift = wide.max(EXP_MIN.saturating_sub(exponent)).max(0);
        let exponent = exponent.saturating_add(shift);
        let mut mantissa = value.clone() >> shift as u64;
        if shift > 0 {
            let half = value.bit(shift as u64 - 1);
            let more = rest || value.trailing_zeros().is_some_and(|zeros| zeros < shift as u64 - 1);
            if half && (more || mantissa.bit(0)) {
                mantissa += 1u32;
            }
        }
        if mantissa == BigUint::ZERO {
            return Self::ZERO;
        }
        // Rounding up may have made a 65th bit, with zeros behind it.
        let spill = mantissa.bits().saturating_sub(BITS);
        let (mantissa, exponent) = (mantissa >> spill, exponent.saturating_add(spill as i64));
        if exponent.saturating_add(mantissa.bits() as i64) > EXP_MAX + BITS as i64 {
            return Extended::Infinite { negative };
        }
        let mantissa = mantissa.iter_u64_digits().next().unwrap_or(0);
        Extended::Finite { negative, mantissa, exponent }
    }

    /// The sum; `None`: not a number (infinity less infinity).
    pub fn plus(self, other: Self) -> Option<Self> {
        use Extended::{Finite, Infinite};
        match (self, other) {
            (Infinite { negative: a }, Infinite { negative: b }) if a != b => None,
            (Infinite { .. }, _) => Some(self),
            (_, Infinite { .. }) => Some(other),
            (
                Finite { negative: a, mantissa: m, exponent: x },
                Finite { negative: b, mantissa: n, exponent: y },
            ) => {
                let low = x.min(y);
                let part = |negative, mantissa: u64, exponent: i64| {
                    let sign = if negative { Sign::Minus } else { Sign::Plus };
                    BigInt::from_biguint(sign, BigUint::from(mantissa) << (exponent - low) as u64)
                };
                let (sign, sum) = (part(a, m, x) + part(b, n, y)).into_parts();
                Some(Self::rounded(sign == Sign::Minus, sum, low, false))
            }
        }
    }

    /// Whether it is not infinite.
    pub fn is_finite(&self) -> bool {
        matches!(self, Extended::Finite { .. })
    }

    /// The same with the other sign.
    pub fn negated(self) -> Self {
        match self {
            Extended::Finite { mantissa: 0, .. } => self,
            Extended::Finite { negative, mantissa, exponent } => {
                Extended::Finite { negative: !negative, mantissa, exponent }
            }
            Extended::Infinite { negative } => Extended::Infinite { negative: !negative },
        }
    }

    /// Whether it is less than `other`.
    pub fn is_below(self, other: Self) -> bool {
        let difference = self.plus(other.negated());
        matches!(
            difference,
            Some(Extended::Finite { negative: true, .. } | Extended::Infinite { negative: true })
        )
    }
}

/// The digits of `[digits][.digits][exponent]` without the point, and the exponent that belongs to
/// them (of ten; of two where `radix` is 16).
fn scan(text: &[u8], radix: u32) -> Option<(Vec<u8>, i64)> {
    let mark = if radix == 16 { b'p' } else { b'e' };
    let end = text.iter().position(|b| b.to_ascii_lowercase() == mark).unwrap_or(text.len());
    let (mantissa, exponent) = text.split_at(end);
    let mut exponent = match exponent {
        [] => 0,
        [_, b'+', digits @ ..] => read_exponent(digits)?,
        [_, b'-', digits @ ..] => -read_exponent(digits)?,
        [_, digits @ ..] => read_exponent(digits)?,
    };
    let point = mantissa.iter().position(|&b| b == b'.');
    let mut digits = mantissa.to_vec();
    if let Some(point) = point {
        digits.remove(point);
        exponent -= (digits.len() - point) as i64 * if radix == 16 { 4 } else { 1 };
    }
    let fine = !digits.is_empty() && digits.iter().all(|&b| char::from(b).is_digit(radix));
    fine.then_some((digits, exponent))
}

/// An exponent's digits; what is beyond all measure is cut down to what is still far too large.
fn read_exponent(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0i64, |n, &digit| (n * 10 + i64::from(digit - b'0')).min(1_000_000)))
}

/// As C's `%.17Lf` with the zeros at its end cut off: how INCRBYFLOAT stores and answers.
impl fmt::Display for Extended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, mantissa, exponent) = match *self {
            Extended::Infinite { negative } => return f.write_str(if negative { "-inf" } else { "inf" }),
            Extended::Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
        };
        let scaled = BigUint::from(mantissa) * BigUint::from(10u32).pow(PLACES);
        let scaled = if exponent >= 0 {
            scaled << exponent as u64
        } else {
            let shift = exponent.unsigned_abs();
            let up = scaled.bit(shift - 1) && {
                let tie = scaled.trailing_zeros() == Some(shift - 1);
                !tie || scaled.bit(shift)
            };
            (scaled >> shift) + u32::from(up)
        };
        let digits = format!("{scaled:0>width$}", width = PLACES as usize + 1);
        let (whole, places) = digits.split_at(digits.len() - PLACES as usize);
        let places = places.trim_end_matches('0');
        let sign = if negative && (whole != "0" || !places.is_empty()) { "-" } else { "" };
        let point = if places.is_empty() { "" } else { "." };
        write!(f, "{sign}{whole}{point}{places}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let read = |text: &str| Extended::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        read(a).plus(read(b)).map_or("nan".into(), |sum| sum.to_string())
    }

    #[test]
    fn sums_as_redis_answers() {
        for (a, b, want) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3.0", "-3.0", "0"),
            ("0", "-0.000000000000000001", "0"),
            ("0x10", "0X1.8p1", "19"),
            ("1", "1e-17", "1.00000000000000001"),
            ("3", "1.1", "4.1"),
            ("-.5", "+5.", "4.5"),
            ("inf", "1", "inf"),
            ("inf", "-infinity", "nan"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551615", "0.5", "18446744073709551616"),
        ] {
            assert_eq!(sum(a, b), want, "{a} + {b}");
        }
    }

    #[test]
    fn what_is_no_number() {
        for text in ["", " 1", "1 ", "nan", "1e", "e1", ".", "0x", "1x", "--1", "1e5000", "1e-5000", "1\0"] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Extended::parse(&[b'1'; TEXT_MAX]), None);
        assert!(Extended::parse(b"1.18973149535723176502e+4932").is_some());
        assert!(Extended::parse(b"1.19e+4932").is_none());
        assert!(Extended::parse(b"3.6e-4951").is_some());
    }
}
