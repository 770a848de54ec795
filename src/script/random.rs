//! Redis's own pseudo-random generator for `math.random`: the 48-bit linear congruence of
//! `drand48`, so that a seeded script gives the same numbers everywhere. Not here: the server's
//! own chance (`base::chance`).

use super::lua::{Answer, State, bad_arg, entry, ffi, set_fn, shared};

/// The generator's state, 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rand48(u64);

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// The divisor that Redis uses: 2^31 - 1.
const MAX: i32 = i32::MAX;

impl Rand48 {
    /// The state before any seed.
    pub const START: Rand48 = Rand48(0x1234_ABCD_330E);

    /// As after `math.randomseed(seed)`.
    pub fn seeded(seed: i32) -> Rand48 {
        Rand48((u64::from(seed as u32) << 16) | 0x330E)
    }

    /// The next number in `0..2^31`.
    pub fn next(&mut self) -> i32 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        (self.0 >> 17) as i32
    }
}

/// Puts `random` and `randomseed` into the table on top.
pub(super) unsafe fn install(l: State) {
    unsafe {
        set_fn(l, c"random", entry!(random));
        set_fn(l, c"randomseed", entry!(randomseed));
    }
}

unsafe fn random(l: State) -> Answer {
    unsafe {
        // Drawn before the arguments are looked at, as Redis does.
        let drawn = f64::from(shared(l).random.next() % MAX) / f64::from(MAX);
        match ffi::lua_gettop(l) {
            0 => ffi::lua_pushnumber(l, drawn),
            1 => {
                let upper = int(ffi::luaL_checkinteger(l, 1));
                if upper < 1 {
                    return bad_arg(l, 1, c"interval is empty");
                }
                ffi::lua_pushnumber(l, (drawn * f64::from(upper)).floor() + 1.0);
            }
            2 => {
                let lower = int(ffi::luaL_checkinteger(l, 1));
                let upper = int(ffi::luaL_checkinteger(l, 2));
                if lower > upper {
                    return bad_arg(l, 2, c"interval is empty");
                }
                let width = f64::from(upper.wrapping_sub(lower).wrapping_add(1));
                ffi::lua_pushnumber(l, (drawn * width).floor() + f64::from(lower));
            }
            _ => return super::lua::fail(l, "wrong number of arguments"),
        }
    }
    Ok(1)
}

unsafe fn randomseed(l: State) -> Answer {
    unsafe {
        let seed = int(ffi::luaL_checkinteger(l, 1));
        shared(l).random = Rand48::seeded(seed);
    }
    Ok(0)
}

/// C's conversion from a Lua integer to `int`: the low 32 bits.
fn int(n: ffi::lua_Integer) -> i32 {
    n as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_after_a_seed_are_drand48s() {
        // Asked of redis-server 7.0.15: math.randomseed(0) then math.random(1000000).
        let mut random = Rand48::seeded(0);
        let first = f64::from(random.next() % MAX) / f64::from(MAX);
        assert_eq!((first * 1_000_000.0).floor() as i64 + 1, 170_829);
    }
}
