//! `load` and `loadstring`: text from a script, compiled as text. Not here: the scripts themselves
//! (`host`), what is done to a text before (`source`).
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::host::load_chunk;
use super::lua::{Answer, State, bytes, check_bytes, ffi, push_str};
use std::ffi::{c_char, c_void};

/// Loads text under `name`, never bytecode.
unsafe fn load_text(l: State, text: &[u8], name: *const c_char) -> Answer {
    unsafe {
        let status = load_chunk(l, text, name);
        if status == 0 {
            return Ok(1);
        }
        ffi::lua_pushnil(l);
        ffi::lua_insert(l, -2);
        Ok(2)
    }
}

pub(super) unsafe fn loadstring(l: State) -> Answer {
    unsafe {
        let text = check_bytes(l, 1);
        let name = if ffi::lua_type(l, 2) <= ffi::LUA_TNIL {
            ffi::lua_tolstring(l, 1, std::ptr::null_mut())
        } else {
            ffi::luaL_checklstring(l, 2, std::ptr::null_mut())
        };
        load_text(l, text, name)
    }
}

/// `load(reader [, name])`. The pieces come one by one, as in Lua, so that an error of the reader
/// wins or loses against one of the text as it does there.
pub(super) unsafe fn load(l: State) -> Answer {
    unsafe {
        ffi::luaL_checktype(l, 1, ffi::LUA_TFUNCTION);
        let name = if ffi::lua_type(l, 2) <= ffi::LUA_TNIL {
            c"=(load)".as_ptr()
        } else {
            ffi::luaL_checklstring(l, 2, std::ptr::null_mut())
        };
        ffi::lua_settop(l, 4); // 3: the piece being read; 4: unused, as Lua has it
        let mut first = true;
        let status = ffi::lua_load(l, piece, std::ptr::addr_of_mut!(first).cast(), name);
        if status == 0 {
            return Ok(1);
        }
        ffi::lua_pushnil(l);
        ffi::lua_insert(l, -2);
        Ok(2)
    }
}

unsafe extern "C-unwind" fn piece(l: State, data: *mut c_void, size: *mut usize) -> *const c_char {
    // SAFETY: `data` is `load`'s flag; the piece stays at stack position 3 while it is read.
    unsafe {
        ffi::luaL_checkstack_(l, 2, c"too many nested functions".as_ptr());
        ffi::lua_pushvalue(l, 1);
        ffi::lua_call(l, 0, 1);
        match ffi::lua_type(l, -1) {
            ffi::LUA_TNIL => {
                *size = 0;
                return std::ptr::null();
            }
            ffi::LUA_TSTRING | ffi::LUA_TNUMBER => {}
            _ => {
                ffi::luaL_error(l, c"reader function must return a string".as_ptr());
            }
        }
        let first = &mut *data.cast::<bool>();
        if bytes(l, -1).is_some_and(|text| text.first() == Some(&0x1b)) && *first {
            push_str(l, " ");
            ffi::lua_insert(l, -2);
            ffi::lua_concat(l, 2);
        }
        *first = false;
        ffi::lua_replace(l, 3);
        ffi::lua_tolstring(l, 3, size)
    }
}
