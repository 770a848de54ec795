//! The library `struct`: numbers and strings as C structures hold them, described by a format string.
//! Not here: MessagePack (`msgpack`).
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::lua::{
    Answer, Raise, State, bad_arg, check_bytes, entry, fail, fail_with, ffi, push, set_fn, to_i64,
};
use super::out::Out;
use std::ffi::c_int;

const INTEGER_BYTES_MAX: usize = 32;
/// What `!` alone aligns to: a C double.
const ALIGN: c_int = 8;

/// Pushes the library's table.
pub(super) unsafe fn push_library(l: State) {
    unsafe {
        ffi::lua_createtable(l, 0, 3);
        set_fn(l, c"pack", entry!(pack));
        set_fn(l, c"unpack", entry!(unpack));
        set_fn(l, c"size", entry!(size));
    }
}

/// A format string on its way.
struct Format<'a> {
    l: State,
    rest: &'a [u8],
    big_endian: bool,
    /// Nothing is aligned to more than this.
    align: usize,
}

/// One item of a format.
struct Item {
    option: u8,
    /// Bytes that it takes, as far as the format tells.
    size: usize,
    /// Bytes before it.
    padding: usize,
}

impl<'a> Format<'a> {
    /// The format that argument 1 is, up to its first zero byte.
    unsafe fn argument(l: State) -> Format<'a> {
        let text = unsafe { check_bytes(l, 1) };
        let end = memchr::memchr(0, text).unwrap_or(text.len());
        Format { l, rest: &text[..end], big_endian: cfg!(target_endian = "big"), align: 1 }
    }

    /// A decimal number, if one stands here.
    fn number(&mut self, default: c_int) -> Result<c_int, Raise> {
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let mut n: c_int = 0;
        for &digit in &self.rest[..digits] {
            let next = n.checked_mul(10).and_then(|n| n.checked_add(c_int::from(digit - b'0')));
            match next {
                Some(next) => n = next,
                None => return unsafe { fail(self.l, "integral size overflow") }.map(|_| 0),
            }
        }
        self.rest = &self.rest[digits..];
        Ok(n)
    }

    /// The next item, for a structure of `len` bytes so far.
    fn next(&mut self, len: usize) -> Result<Option<Item>, Raise> {
        let Some((&option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)? as usize, // not negative
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size as usize > INTEGER_BYTES_MAX {
                    let text =
                        format_args!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(unsafe { fail_with(self.l, text) });
                }
                size as usize
            }
            _ => 0,
        };
        let mut padding = 0;
        if size > 0 && option != b'c' {
            let size = size.min(self.align);
            padding = (size - (len & (size - 1))) & (size - 1);
        }
        Ok(Some(Item { option, size, padding }))
    }

    /// An option that is no item: byte order, alignment, blanks.
    unsafe fn control(&mut self, option: u8) -> Result<(), Raise> {
        let l = self.l;
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(ALIGN)?;
                if align <= 0 || align & (align - 1) != 0 {
                    let text = format_args!("alignment {align} is not a power of 2");
                    return Err(unsafe { fail_with(l, text) });
                }
                self.align = align as usize;
            }
            _ => unsafe {
                ffi::lua_pushfstring(l, c"invalid format option '%c'".as_ptr(), c_int::from(option));
                ffi::luaL_argerror(l, 1, ffi::lua_tolstring(l, -1, std::ptr::null_mut()));
            },
        }
        Ok(())
    }
}

/// A double as C's `(unsigned long)` makes it on x86-64.
fn to_u64(x: f64) -> u64 {
    const TWO_TO_63: f64 = (1u64 << 63) as f64;
    if x >= TWO_TO_63 { to_i64(x - TWO_TO_63) as u64 ^ (1 << 63) } else { to_i64(x) as u64 }
}

unsafe fn pack(l: State) -> Answer {
    unsafe {
        let mut format = Format::argument(l);
        let mut out = Out::new(l);
        // The argument behind the last one is nil, as Redis has it.
        ffi::lua_pushnil(l);
        let (mut argument, mut len) = (2, 0);
        while let Some(Item { option, mut size, padding }) = format.next(len)? {
            len = len.wrapping_add(padding);
            out.fill(0, padding)?;
            match option {
                b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                    let bits = to_u64(ffi::luaL_checknumber(l, argument));
                    argument += 1;
                    let mut bytes = [0; INTEGER_BYTES_MAX];
                    bytes[..8].copy_from_slice(&bits.to_le_bytes());
                    if format.big_endian {
                        bytes[..size].reverse();
                    }
                    out.put(&bytes[..size])?;
                }
                b'x' => out.byte(0)?,
                b'f' => {
                    let bits = (ffi::luaL_checknumber(l, argument) as f32).to_bits();
                    argument += 1;
                    out.put(&if format.big_endian { bits.to_be_bytes() } else { bits.to_le_bytes() })?;
                }
                b'd' => {
                    let bits = ffi::luaL_checknumber(l, argument).to_bits();
                    argument += 1;
                    out.put(&if format.big_endian { bits.to_be_bytes() } else { bits.to_le_bytes() })?;
                }
                b'c' | b's' => {
                    let text = check_bytes(l, argument);
                    argument += 1;
                    if size == 0 {
                        size = text.len();
                    }
                    if size > text.len() {
                        // The number of the next argument, as Redis says it.
                        return bad_arg(l, argument, c"string too short");
                    }
                    out.put(&text[..size])?;
                    if option == b's' {
                        out.byte(0)?;
                        size += 1;
                    }
                }
                _ => format.control(option)?,
            }
            len = len.wrapping_add(size);
            out.step()?;
        }
        out.push();
    }
    Ok(1)
}

/// The integer in `bytes`, of which the last 64 bits count.
fn integer(bytes: &[u8], big_endian: bool, signed: bool) -> f64 {
    let join = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
    let mut bits = if big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) };
    if !signed {
        return bits as f64;
    }
    // A shift by 64 and more (or by -1, for no bytes at all) wraps, as x86-64 does it.
    let sign = u64::MAX.wrapping_shl((bytes.len() as u32).wrapping_mul(8).wrapping_sub(1));
    if bits & sign != 0 {
        bits |= sign;
    }
    bits as i64 as f64
}

unsafe fn unpack(l: State) -> Answer {
    unsafe {
        let mut format = Format::argument(l);
        let data = check_bytes(l, 2);
        let begin = ffi::luaL_optinteger(l, 3, 1);
        if begin == 0 {
            return bad_arg(l, 3, c"offset must be 1 or greater");
        }
        // What is negative becomes huge, and past the end.
        let mut at = (begin as usize).wrapping_sub(1);
        let mut results = 0;
        let mut steps = Out::new(l);
        while let Some(Item { option, mut size, padding }) = format.next(at)? {
            at = at.wrapping_add(padding);
            let fits = |at: usize, size: usize| size <= data.len() && at <= data.len() - size;
            if !fits(at, size) {
                return bad_arg(l, 2, c"data string too short");
            }
            ffi::luaL_checkstack_(l, 2, c"too many results".as_ptr());
            let bytes = &data[at..at + size];
            match option {
                b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                    let signed = option.is_ascii_lowercase();
                    ffi::lua_pushnumber(l, integer(bytes, format.big_endian, signed));
                    results += 1;
                }
                b'x' => {}
                b'f' => {
                    let mut four = [0; 4];
                    four.copy_from_slice(bytes);
                    let x =
                        if format.big_endian { f32::from_be_bytes(four) } else { f32::from_le_bytes(four) };
                    ffi::lua_pushnumber(l, f64::from(x));
                    results += 1;
                }
                b'd' => {
                    let mut eight = [0; 8];
                    eight.copy_from_slice(bytes);
                    let x =
                        if format.big_endian { f64::from_be_bytes(eight) } else { f64::from_le_bytes(eight) };
                    ffi::lua_pushnumber(l, x);
                    results += 1;
                }
                b'c' if size == 0 => {
                    if results == 0 || ffi::lua_isnumber(l, -1) == 0 {
                        return fail(l, "format 'c0' needs a previous size");
                    }
                    size = to_u64(ffi::lua_tonumber(l, -1)) as usize;
                    ffi::lua_settop(l, -2);
                    if !fits(at, size) {
                        return bad_arg(l, 2, c"data string too short");
                    }
                    push(l, &data[at..at + size]);
                }
                b'c' => {
                    push(l, bytes);
                    results += 1;
                }
                b's' => {
                    let Some(len) = memchr::memchr(0, &data[at..]) else {
                        return fail(l, "unfinished string in data");
                    };
                    push(l, &data[at..at + len]);
                    size = len + 1;
                    results += 1;
                }
                _ => format.control(option)?,
            }
            at = at.wrapping_add(size);
            steps.step()?;
        }
        ffi::lua_pushnumber(l, at.wrapping_add(1) as i64 as f64);
        Ok(results + 1)
    }
}

unsafe fn size(l: State) -> Answer {
    unsafe {
        let mut format = Format::argument(l);
        let mut len: usize = 0;
        let mut steps = Out::new(l);
        while let Some(Item { option, size, padding }) = format.next(len)? {
            len = len.wrapping_add(padding);
            match option {
                b's' => return bad_arg(l, 1, c"option 's' has no fixed size"),
                b'c' if size == 0 => return bad_arg(l, 1, c"option 'c0' has no fixed size"),
                _ if !option.is_ascii_alphanumeric() => format.control(option)?,
                _ => {}
            }
            len = len.wrapping_add(size);
            steps.step()?;
        }
        ffi::lua_pushnumber(l, len as i64 as f64);
    }
    Ok(1)
}
