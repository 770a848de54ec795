//! The library `bit`: 32-bit operations on numbers. Not here: BITCOUNT and other commands on bits of values.
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::lua::{Answer, State, entry, ffi, push, set_fn};
use std::ffi::c_int;

/// Added to a double, it leaves the rounded integer in the low bits: 2^52 + 2^51.
const TO_BITS: f64 = 6_755_399_441_055_744.0;

/// Pushes the library's table.
pub(super) unsafe fn push_library(l: State) {
    unsafe {
        ffi::lua_createtable(l, 0, 12);
        set_fn(l, c"tobit", entry!(tobit));
        set_fn(l, c"bnot", entry!(bnot));
        set_fn(l, c"band", entry!(band));
        set_fn(l, c"bor", entry!(bor));
        set_fn(l, c"bxor", entry!(bxor));
        set_fn(l, c"lshift", entry!(lshift));
        set_fn(l, c"rshift", entry!(rshift));
        set_fn(l, c"arshift", entry!(arshift));
        set_fn(l, c"rol", entry!(rol));
        set_fn(l, c"ror", entry!(ror));
        set_fn(l, c"bswap", entry!(bswap));
        set_fn(l, c"tohex", entry!(tohex));
    }
}

/// The low 32 bits of a number, rounded to the nearest (even) integer; for 2^51 and more what the
/// addition leaves, as LuaBitOp has it.
fn bits_of(x: f64) -> u32 {
    (x + TO_BITS).to_bits() as u32
}

unsafe fn argument(l: State, index: c_int) -> u32 {
    unsafe { bits_of(ffi::luaL_checknumber(l, index)) }
}

unsafe fn give(l: State, bits: u32) -> Answer {
    unsafe { ffi::lua_pushnumber(l, f64::from(bits as i32)) };
    Ok(1)
}

unsafe fn tobit(l: State) -> Answer {
    unsafe { give(l, argument(l, 1)) }
}

unsafe fn bnot(l: State) -> Answer {
    unsafe { give(l, !argument(l, 1)) }
}

unsafe fn bswap(l: State) -> Answer {
    unsafe { give(l, argument(l, 1).swap_bytes()) }
}

unsafe fn fold(l: State, join: fn(u32, u32) -> u32) -> Answer {
    unsafe {
        let mut bits = argument(l, 1);
        // From the last to the second: the last wrong argument is the one that is named.
        for i in (2..=ffi::lua_gettop(l)).rev() {
            bits = join(bits, argument(l, i));
        }
        give(l, bits)
    }
}

unsafe fn band(l: State) -> Answer {
    unsafe { fold(l, |a, b| a & b) }
}

unsafe fn bor(l: State) -> Answer {
    unsafe { fold(l, |a, b| a | b) }
}

unsafe fn bxor(l: State) -> Answer {
    unsafe { fold(l, |a, b| a ^ b) }
}

/// Only the low five bits of the count matter.
unsafe fn shift(l: State, by: fn(u32, u32) -> u32) -> Answer {
    unsafe {
        let bits = argument(l, 1);
        give(l, by(bits, argument(l, 2) & 31))
    }
}

unsafe fn lshift(l: State) -> Answer {
    unsafe { shift(l, |bits, n| bits << n) }
}

unsafe fn rshift(l: State) -> Answer {
    unsafe { shift(l, |bits, n| bits >> n) }
}

unsafe fn arshift(l: State) -> Answer {
    unsafe { shift(l, |bits, n| (bits as i32 >> n) as u32) }
}

unsafe fn rol(l: State) -> Answer {
    unsafe { shift(l, u32::rotate_left) }
}

unsafe fn ror(l: State) -> Answer {
    unsafe { shift(l, u32::rotate_right) }
}

/// The last `n` hexadecimal digits, eight unless given; a negative `n` asks for capitals.
unsafe fn tohex(l: State) -> Answer {
    unsafe {
        let mut bits = argument(l, 1);
        let n = if ffi::lua_type(l, 2) == ffi::LUA_TNONE { 8 } else { argument(l, 2) as i32 };
        let digits: &[u8; 16] = if n < 0 { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
        let n = n.unsigned_abs().min(8) as usize;
        let mut text = [0; 8];
        for digit in text[..n].iter_mut().rev() {
            *digit = digits[(bits & 15) as usize];
            bits >>= 4;
        }
        push(l, &text[..n]);
    }
    Ok(1)
}

#[cfg(test)]
mod tests {
    use crate::script::tests::Bench;

    #[test]
    fn bits_as_redis_server_gives_them() {
        let mut bench = Bench::new();
        // Each answer was asked of redis-server 7.0.15.
        for (script, answer) in [
            ("bit.tobit('0x1f')", ":31"),
            ("bit.tobit(4294967295)", ":-1"),
            ("bit.tobit(2^40+5)", ":5"),
            ("bit.tobit(2^53+3)", ":2"),
            ("bit.tobit(1e300)", ":-2013235812"),
            ("bit.tobit(0/0)", ":0"),
            ("bit.tobit(1.5)..bit.tobit(2.5)..bit.tobit(-1.5)..bit.tobit(0.5)", "$5\r\n22-20"),
            ("bit.bxor(1,2,4,8,'16')", ":31"),
            ("bit.bswap(0x12345678)", ":2018915346"),
            ("bit.lshift(1,-1)", ":-2147483648"),
            ("bit.rshift(-1,4)", ":268435455"),
            ("bit.arshift(-256,4)", ":-16"),
            ("bit.rol(0x12345678,12)", ":1164411171"),
            ("bit.ror(0x12345678,12)", ":1736516421"),
            ("bit.rol(1,2.6)", ":8"),
            ("bit.tohex(-1)", "$8\r\nffffffff"),
            ("bit.tohex(0x1234ABCD,-6)", "$6\r\n34ABCD"),
            ("bit.tohex(0x12345678,-2147483648)", "$8\r\n12345678"),
            ("bit.tohex(1,2^33)", "$0"),
            ("bit.band()", "-ERR user_script:1: bad argument #1 to 'band' (number expected, got no value)"),
            (
                "bit.band(7,5,'x')",
                "-ERR user_script:1: bad argument #3 to 'band' (number expected, got string)",
            ),
            ("bit.tohex(1,nil)", "-ERR user_script:1: bad argument #2 to 'tohex' (number expected, got nil)"),
        ] {
            assert_eq!(bench.error(&format!("return {script}")), answer, "{script}");
        }
    }
}
