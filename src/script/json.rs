//! The library `cjson`: settings, and what is pushed for a script. The formats are in `json_encode` and
//! `json_decode`; not here: RESP (`convert`).
//!
//! Settings made by one script reach the next one, as on Redis: scripts share one set until SCRIPT
//! FLUSH, functions another; `cjson.new` makes a table with a set of its own.
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::json_decode::decode;
use super::json_encode::encode;
use super::lua::{Answer, Raise, State, bad_arg, entry, ffi, push_str, set_str};
use std::ffi::{CStr, c_char, c_int, c_void};

/// One set of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// Whether an array with too many holes becomes an object (else it is an error).
    pub sparse_convert: bool,
    /// An array is too sparse whose length is over its items times this; 0: none is.
    pub sparse_ratio: c_int,
    /// No array up to this length is too sparse.
    pub sparse_safe: c_int,
    pub encode_max_depth: c_int,
    pub decode_max_depth: c_int,
    /// What becomes of NaN and infinities: `INVALID_REFUSE`, `INVALID_WRITE`, `INVALID_NULL`.
    pub encode_invalid: c_int,
    pub decode_invalid: bool,
    /// Significant digits of a written number.
    pub precision: c_int,
    /// Without effect here: there is one buffer, trimmed by the host.
    pub keep_buffer: bool,
}

pub(super) const INVALID_REFUSE: c_int = 0;
pub(super) const INVALID_WRITE: c_int = 1;

const PRECISION_MAX: c_int = 14;

impl Config {
    pub const START: Config = Config {
        sparse_convert: false,
        sparse_ratio: 2,
        sparse_safe: 10,
        encode_max_depth: 1000,
        decode_max_depth: 1000,
        encode_invalid: INVALID_REFUSE,
        decode_invalid: true,
        precision: PRECISION_MAX,
        keep_buffer: true,
    };
}

/// An open array or object; its table is on the Lua stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frame {
    /// Items done, and how many there are (as far as that is known).
    Array { at: c_int, len: c_int },
    /// Whether a comma comes before the next key.
    Object { comma: bool },
}

/// The settings of the function that runs.
unsafe fn settings(l: State) -> *mut Config {
    unsafe { ffi::lua_touserdata(l, ffi::lua_upvalueindex(1)).cast() }
}

/// A copy of them.
pub(super) unsafe fn config(l: State) -> Config {
    // SAFETY: each function of the library carries a `Config` that lives as long as it does.
    unsafe { settings(l).read() }
}

/// Pushes the library with the settings at `config`, which outlive the VM.
pub(super) unsafe fn push_library(l: State, config: *mut Config) {
    unsafe {
        ffi::lua_pushlightuserdata(l, config.cast());
        fill(l);
    }
}

/// Makes the library's table for the settings on top, which are popped.
unsafe fn fill(l: State) {
    unsafe {
        let functions: [(&CStr, ffi::lua_CFunction); 10] = [
            (c"encode", entry!(encode)),
            (c"decode", entry!(decode)),
            (c"encode_sparse_array", entry!(encode_sparse_array)),
            (c"encode_max_depth", entry!(encode_max_depth)),
            (c"decode_max_depth", entry!(decode_max_depth)),
            (c"encode_number_precision", entry!(encode_number_precision)),
            (c"encode_keep_buffer", entry!(encode_keep_buffer)),
            (c"encode_invalid_numbers", entry!(encode_invalid_numbers)),
            (c"decode_invalid_numbers", entry!(decode_invalid_numbers)),
            (c"new", entry!(new)),
        ];
        ffi::lua_createtable(l, 0, 13);
        for (name, function) in functions {
            ffi::lua_pushvalue(l, -2);
            ffi::lua_pushcclosure(l, function, 1);
            ffi::lua_setfield(l, -2, name.as_ptr());
        }
        ffi::lua_pushlightuserdata(l, std::ptr::null_mut::<c_void>());
        ffi::lua_setfield(l, -2, c"null".as_ptr());
        set_str(l, c"_NAME", "cjson");
        set_str(l, c"_VERSION", "2.1.0");
        ffi::lua_remove(l, -2);
    }
}

/// `cjson.new()`: the library again, with settings of its own.
unsafe fn new(l: State) -> Answer {
    unsafe {
        let config: *mut Config = ffi::lua_newuserdata(l, size_of::<Config>()).cast();
        // SAFETY: as large as asked for, and aligned for any number.
        config.write(Config::START);
        fill(l);
    }
    Ok(1)
}

/// At most `n` arguments; what is missing becomes nil.
unsafe fn arguments(l: State, n: c_int) -> Result<(), Raise> {
    unsafe {
        if ffi::lua_gettop(l) > n {
            return bad_arg(l, n + 1, c"found too many arguments").map(|_| ());
        }
        ffi::lua_settop(l, n);
    }
    Ok(())
}

/// Takes an integer setting from argument `index`, unless that is nil, and pushes it.
unsafe fn integer(
    l: State,
    index: c_int,
    setting: *mut c_int,
    (min, max): (c_int, c_int),
) -> Result<(), Raise> {
    unsafe {
        if ffi::lua_type(l, index) != ffi::LUA_TNIL {
            let value = ffi::luaL_checkinteger(l, index) as c_int; // the low 32 bits, as C has it
            if value < min || value > max {
                ffi::lua_pushfstring(l, c"expected integer between %d and %d".as_ptr(), min, max);
                // Number 1 whichever it is, as cjson says it.
                ffi::luaL_argerror(l, 1, ffi::lua_tolstring(l, -1, std::ptr::null_mut()));
            }
            setting.write(value);
        }
        ffi::lua_pushnumber(l, f64::from(setting.read()));
    }
    Ok(())
}

/// Two or three words, and the end.
struct Words([*const c_char; 4]);

// SAFETY: they point to literals.
unsafe impl Sync for Words {}

static OFF_ON: Words = Words([c"off".as_ptr(), c"on".as_ptr(), std::ptr::null(), std::ptr::null()]);
static OFF_ON_NULL: Words = Words([c"off".as_ptr(), c"on".as_ptr(), c"null".as_ptr(), std::ptr::null()]);

/// As `integer`, for a setting that is a boolean or a word: 0 off, 1 on, 2 null.
unsafe fn choice(l: State, index: c_int, setting: c_int, words: &'static Words) -> c_int {
    unsafe {
        let setting = match ffi::lua_type(l, index) {
            ffi::LUA_TNIL => setting,
            ffi::LUA_TBOOLEAN => ffi::lua_toboolean(l, index),
            _ => ffi::luaL_checkoption(l, index, std::ptr::null(), words.0.as_ptr()),
        };
        match setting {
            0 | 1 => ffi::lua_pushboolean(l, setting),
            _ => push_str(l, "null"),
        }
        setting
    }
}

unsafe fn encode_sparse_array(l: State) -> Answer {
    unsafe {
        let config = settings(l);
        arguments(l, 3)?;
        (*config).sparse_convert = choice(l, 1, c_int::from((*config).sparse_convert), &OFF_ON) != 0;
        integer(l, 2, &raw mut (*config).sparse_ratio, (0, c_int::MAX))?;
        integer(l, 3, &raw mut (*config).sparse_safe, (0, c_int::MAX))?;
    }
    Ok(3)
}

unsafe fn encode_max_depth(l: State) -> Answer {
    unsafe {
        arguments(l, 1)?;
        integer(l, 1, &raw mut (*settings(l)).encode_max_depth, (1, c_int::MAX))?;
    }
    Ok(1)
}

unsafe fn decode_max_depth(l: State) -> Answer {
    unsafe {
        arguments(l, 1)?;
        integer(l, 1, &raw mut (*settings(l)).decode_max_depth, (1, c_int::MAX))?;
    }
    Ok(1)
}

unsafe fn encode_number_precision(l: State) -> Answer {
    unsafe {
        arguments(l, 1)?;
        integer(l, 1, &raw mut (*settings(l)).precision, (1, PRECISION_MAX))?;
    }
    Ok(1)
}

unsafe fn encode_keep_buffer(l: State) -> Answer {
    unsafe {
        let config = settings(l);
        arguments(l, 1)?;
        (*config).keep_buffer = choice(l, 1, c_int::from((*config).keep_buffer), &OFF_ON) != 0;
    }
    Ok(1)
}

unsafe fn encode_invalid_numbers(l: State) -> Answer {
    unsafe {
        let config = settings(l);
        arguments(l, 1)?;
        (*config).encode_invalid = choice(l, 1, (*config).encode_invalid, &OFF_ON_NULL);
    }
    Ok(1)
}

unsafe fn decode_invalid_numbers(l: State) -> Answer {
    unsafe {
        let config = settings(l);
        arguments(l, 1)?;
        (*config).decode_invalid = choice(l, 1, c_int::from((*config).decode_invalid), &OFF_ON) != 0;
    }
    Ok(1)
}
