//! The globals that a script may see, and how they are kept from being changed. Not here: what
//! the functions do that have a file of their own (`api`, `patterns`, the libraries).
//!
//! Redis patches its Lua so that a table can be made read-only. An unpatched one cannot know, so
//! a protected table is a pair: the content, which no script ever holds, and a *front*, an empty
//! table whose metatable reads from the content and refuses to write. The functions which look
//! past metatables (`next`, `pairs`, `rawget`, …) are ours and know fronts: they look at the
//! content instead, so that a script sees no difference.

use super::lua::{
    Answer, Raise, Shared, State, bad_arg, c_text, entry, fail, ffi, push, push_str, set_fn, shared,
};
use super::{api, bits, json, loading, msgpack, packing, patterns, random, sorting};
use std::ffi::{CStr, c_int, c_void};

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// In a front's metatable: the mark at 1, the content at 2, what `getmetatable` shows at 3.
const MARK: c_int = 1;
pub(super) const CONTENT: c_int = 2;
const SHOWN: c_int = 3;

static MARKER: u8 = 0;

fn marker() -> *mut c_void {
    std::ptr::addr_of!(MARKER).cast_mut().cast()
}

/// Replaces the table on top by its front.
pub(super) unsafe fn protect(l: State) {
    unsafe {
        ffi::lua_createtable(l, 0, 0); // content, front
        ffi::lua_createtable(l, 3, 2); // content, front, meta
        ffi::lua_pushlightuserdata(l, marker());
        ffi::lua_rawseti_(l, -2, MARK);
        ffi::lua_pushvalue(l, -3);
        ffi::lua_rawseti_(l, -2, CONTENT);
        ffi::lua_pushvalue(l, -3);
        ffi::lua_setfield(l, -2, c"__index".as_ptr());
        set_fn(l, c"__newindex", entry!(refuse_write));
        ffi::lua_setmetatable(l, -2);
        ffi::lua_remove(l, -2);
    }
}

/// What `getmetatable` gives for the front at -2 becomes the table on top, which is popped.
unsafe fn show_metatable(l: State) {
    unsafe {
        ffi::lua_getmetatable(l, -2);
        ffi::lua_pushvalue(l, -2);
        ffi::lua_rawseti_(l, -2, SHOWN);
        ffi::lua_settop(l, -3);
    }
}

/// If the value at `index` is a front: pushes its metatable's `field`.
pub(super) unsafe fn front_field(l: State, index: c_int, field: c_int) -> bool {
    unsafe {
        if ffi::lua_type(l, index) != ffi::LUA_TTABLE || ffi::lua_getmetatable(l, index) == 0 {
            return false;
        }
        ffi::lua_rawgeti_(l, -1, MARK);
        let is_front = ffi::lua_touserdata(l, -1) == marker();
        ffi::lua_settop(l, -2);
        if is_front {
            ffi::lua_rawgeti_(l, -1, field);
            ffi::lua_remove(l, -2);
        } else {
            ffi::lua_settop(l, -2);
        }
        is_front
    }
}

/// A front as the first argument is replaced by its content.
unsafe fn look_behind(l: State) {
    unsafe {
        if front_field(l, 1, CONTENT) {
            ffi::lua_replace(l, 1);
        }
    }
}

unsafe fn refuse_front(l: State) -> Result<(), Raise> {
    unsafe {
        if front_field(l, 1, MARK) {
            push_str(l, READ_ONLY);
            return Err(Raise);
        }
    }
    Ok(())
}

unsafe fn refuse_write(l: State) -> Answer {
    unsafe { fail(l, READ_ONLY) }
}

/// Reading a global that is not there. A script can get hold of this function and call it in other ways.
unsafe fn refuse_global(l: State) -> Answer {
    unsafe {
        if ffi::lua_gettop(l) != 2 {
            return fail(l, "Wrong number of arguments to luaProtectedTableError");
        }
        let Some(name) = c_text(l, 2) else {
            return fail(l, "Second argument to luaProtectedTableError must be a string or number");
        };
        ffi::luaL_where(l, 1);
        push_str(l, "Script attempted to access nonexistent global variable '");
        push(l, name);
        push_str(l, "'");
        ffi::lua_concat(l, 4);
    }
    Err(Raise)
}

unsafe fn next(l: State) -> Answer {
    unsafe {
        look_behind(l);
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        ffi::lua_settop(l, 2);
        if ffi::lua_next(l, 1) != 0 {
            return Ok(2);
        }
        ffi::lua_pushnil(l);
    }
    Ok(1)
}

unsafe fn pairs(l: State) -> Answer {
    unsafe {
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(1));
        ffi::lua_pushvalue(l, 1);
        ffi::lua_pushnil(l);
    }
    Ok(3)
}

unsafe fn rawget(l: State) -> Answer {
    unsafe {
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        ffi::luaL_checkany(l, 2);
        ffi::lua_settop(l, 2);
        look_behind(l);
        ffi::lua_rawget_(l, 1);
    }
    Ok(1)
}

unsafe fn rawset(l: State) -> Answer {
    unsafe {
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        ffi::luaL_checkany(l, 2);
        ffi::luaL_checkany(l, 3);
        ffi::lua_settop(l, 3);
        refuse_front(l)?;
        ffi::lua_rawset(l, 1);
    }
    Ok(1)
}

unsafe fn getmetatable(l: State) -> Answer {
    unsafe {
        ffi::luaL_checkany(l, 1);
        if !front_field(l, 1, SHOWN)
            && ffi::luaL_getmetafield_(l, 1, c"__metatable".as_ptr()) == 0
            && ffi::lua_getmetatable(l, 1) == 0
        {
            ffi::lua_pushnil(l);
        }
    }
    Ok(1)
}

unsafe fn setmetatable(l: State) -> Answer {
    unsafe {
        let kind = ffi::lua_type(l, 2);
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        if kind != ffi::LUA_TNIL && kind != ffi::LUA_TTABLE {
            return bad_arg(l, 2, c"nil or table expected");
        }
        refuse_front(l)?;
        if ffi::luaL_getmetafield_(l, 1, c"__metatable".as_ptr()) != 0 {
            return fail(l, "cannot change a protected metatable");
        }
        ffi::lua_settop(l, 2);
        ffi::lua_setmetatable(l, 1);
    }
    Ok(1)
}

unsafe fn insert(l: State) -> Answer {
    unsafe { refuse_front(l)? };
    // SAFETY: the upvalue is Lua's own `table.insert`, which has none of its own.
    unsafe { original(l) }
}

/// For functions that only look: a front is replaced by its content, then Lua's own function
/// (the upvalue) runs in this frame, so that positions in its errors stay right.
unsafe fn looking(l: State) -> Answer {
    unsafe {
        look_behind(l);
        original(l)
    }
}

/// A collection is one instruction, however long it takes: others are served before each.
unsafe fn collectgarbage(l: State) -> Answer {
    unsafe {
        super::host::look_around(l)?;
        original(l)
    }
}

unsafe fn original(l: State) -> Answer {
    unsafe {
        match ffi::lua_tocfunction(l, ffi::lua_upvalueindex(1)) {
            Some(function) => Ok(function(l)),
            None => fail(l, "not a function"),
        }
    }
}

/// Redis's `pcall`: an error table with a text in `err` is handed out as that text.
unsafe fn pcall(l: State) -> Answer {
    unsafe {
        let argc = ffi::lua_gettop(l);
        if argc == 0 {
            // What Redis calls then is the place it keeps for the result.
            ffi::lua_pushboolean(l, 0);
            push_str(l, "attempt to call a boolean value");
            return Ok(2);
        }
        // The place of the first result is taken before the call: after it there may be no room.
        ffi::lua_pushboolean(l, 1);
        ffi::lua_insert(l, 1);
        if ffi::lua_pcall(l, argc - 1, ffi::LUA_MULTRET, 0) == 0 {
            return Ok(ffi::lua_gettop(l));
        }
        if ffi::lua_type(l, -1) == ffi::LUA_TTABLE {
            ffi::lua_getfield_(l, -1, c"err".as_ptr());
            if ffi::lua_isstring(l, -1) != 0 {
                ffi::lua_replace(l, -2);
            } else {
                ffi::lua_settop(l, -2);
            }
        }
        ffi::lua_pushboolean(l, 0);
        ffi::lua_replace(l, 1);
        Ok(2)
    }
}

/// Makes the error table that a run ends with. Runs as the handler of the outermost `lua_pcall`.
unsafe fn error_handler(l: State) -> Answer {
    unsafe {
        let mut info: ffi::lua_Debug = std::mem::zeroed();
        let mut known = ffi::lua_getstack(l, 1, &mut info) != 0;
        if known {
            ffi::lua_getinfo(l, c"nSl".as_ptr(), &mut info);
            if CStr::from_ptr(info.what) == c"C" {
                known = ffi::lua_getstack(l, 2, &mut info) != 0;
                if known {
                    ffi::lua_getinfo(l, c"nSl".as_ptr(), &mut info);
                }
            }
        }
        ffi::lua_settop(l, 1);
        if ffi::lua_type(l, 1) != ffi::LUA_TTABLE {
            ffi::lua_createtable(l, 0, 3);
            push_str(l, "ERR ");
            // `tostring`, with its metamethods.
            ffi::lua_pushvalue(l, ffi::lua_upvalueindex(1));
            ffi::lua_pushvalue(l, 1);
            ffi::lua_call(l, 1, 1);
            ffi::lua_concat(l, 2);
            ffi::lua_setfield(l, -2, c"err".as_ptr());
            ffi::lua_replace(l, 1);
        }
        if known {
            ffi::lua_pushstring_(l, info.source);
            ffi::lua_setfield(l, 1, c"source".as_ptr());
            ffi::lua_pushnumber(l, f64::from(info.currentline));
            ffi::lua_setfield(l, 1, c"line".as_ptr());
        }
    }
    Ok(1)
}

/// Pushes the handler.
pub(super) unsafe fn push_error_handler(l: State) {
    unsafe {
        ffi::lua_getfield_(l, ffi::LUA_GLOBALSINDEX, c"tostring".as_ptr());
        ffi::lua_pushcclosure(l, entry!(error_handler), 1);
    }
}

/// What scripts get as it stands in the raw globals: Lua's own functions, and fronts of libraries.
const SHARED: &[&CStr] = &[
    c"assert",
    c"collectgarbage",
    c"error",
    c"gcinfo",
    c"ipairs",
    c"rawequal",
    c"select",
    c"tonumber",
    c"tostring",
    c"type",
    c"unpack",
    c"xpcall",
    c"_VERSION",
    c"coroutine",
    c"table",
    c"string",
    c"math",
    c"cmsgpack",
    c"struct",
    c"bit",
];

/// Opens a library of Lua's and pushes its table.
unsafe fn open(l: State, library: ffi::lua_CFunction, name: &CStr) {
    unsafe {
        ffi::lua_pushcclosure(l, library, 0);
        push(l, name.to_bytes());
        ffi::lua_call(l, 1, 0);
        ffi::lua_getfield_(l, ffi::LUA_GLOBALSINDEX, name.as_ptr());
    }
}

/// `table[name]` (a C function of Lua's, the table on top) is run by `ours` from now on.
unsafe fn wrap(l: State, name: &CStr, ours: ffi::lua_CFunction) {
    unsafe {
        ffi::lua_getfield_(l, -1, name.as_ptr());
        ffi::lua_pushcclosure(l, ours, 1);
        ffi::lua_setfield(l, -2, name.as_ptr());
    }
}

/// The library on top becomes a front, under its global name.
unsafe fn publish(l: State, name: &CStr) {
    unsafe {
        protect(l);
        ffi::lua_setfield(l, ffi::LUA_GLOBALSINDEX, name.as_ptr());
    }
}

/// Fills the raw globals of a new VM. No script ever holds them.
pub(super) unsafe fn open_libraries(l: State) {
    unsafe {
        open(l, ffi::luaopen_base, c"");
        ffi::lua_pushvalue(l, ffi::LUA_GLOBALSINDEX);
        wrap(l, c"collectgarbage", entry!(collectgarbage));
        ffi::lua_settop(l, -2);
        ffi::lua_pushcclosure(l, xpcall, 0);
        ffi::lua_setfield(l, ffi::LUA_GLOBALSINDEX, c"xpcall".as_ptr());
        ffi::lua_getfield_(l, ffi::LUA_GLOBALSINDEX, c"coroutine".as_ptr());
        publish(l, c"coroutine");
        open(l, ffi::luaopen_table, c"table");
        wrap(l, c"insert", entry!(insert));
        set_fn(l, c"sort", entry!(sorting::sort));
        for name in [c"foreach", c"foreachi", c"getn", c"maxn", c"concat"] {
            wrap(l, name, entry!(looking));
        }
        publish(l, c"table");
        open(l, ffi::luaopen_string, c"string");
        patterns::install(l);
        publish(l, c"string");
        close_string_metatable(l);
        open(l, ffi::luaopen_math, c"math");
        random::install(l);
        publish(l, c"math");
        bits::push_library(l);
        publish(l, c"bit");
        msgpack::push_library(l);
        publish(l, c"cmsgpack");
        packing::push_library(l);
        publish(l, c"struct");
        ffi::lua_settop(l, 0);
    }
}

/// Lua's own but for one thing: a run that is to end does not call the script's handler. Lua calls it
/// inside of the hook, where no hook looks at the time, so an endless one could not be ended.
unsafe extern "C-unwind" fn xpcall(l: State) -> c_int {
    // SAFETY: Lua calls with its own state; nothing here owns memory when an error passes.
    unsafe {
        ffi::luaL_checkany(l, 2);
        ffi::lua_settop(l, 2);
        ffi::lua_pushcclosure(l, handle_unless_killed, 1);
        ffi::lua_insert(l, 1);
        let status = ffi::lua_pcall(l, 0, ffi::LUA_MULTRET, 1);
        ffi::lua_checkstack(l, 1);
        ffi::lua_pushboolean(l, c_int::from(status == 0));
        ffi::lua_replace(l, 1);
        ffi::lua_gettop(l)
    }
}

/// The handler that `xpcall` sets: its upvalue is the script's.
unsafe extern "C-unwind" fn handle_unless_killed(l: State) -> c_int {
    // SAFETY: as above.
    unsafe {
        if !super::lua::shared(l).killed {
            ffi::lua_settop(l, 1);
            ffi::lua_pushvalue(l, ffi::lua_upvalueindex(1));
            ffi::lua_insert(l, 1);
            ffi::lua_call(l, 1, 1);
        }
        1
    }
}

/// `getmetatable('')` shows a front, so that nothing can be planted there for the next script.
unsafe fn close_string_metatable(l: State) {
    unsafe {
        push_str(l, "");
        ffi::lua_getmetatable(l, -1);
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_getfield_(l, ffi::LUA_GLOBALSINDEX, c"string".as_ptr());
        ffi::lua_setfield(l, -2, c"__index".as_ptr());
        protect(l);
        ffi::lua_setfield(l, -2, c"__metatable".as_ptr());
        ffi::lua_settop(l, -3);
    }
}

/// Pushes the content of a set of globals, then its front. `version` is what the server reports.
pub(super) unsafe fn push_globals(l: State, version: &str, for_functions: bool) {
    unsafe {
        ffi::lua_createtable(l, 0, 64);
        for &name in SHARED {
            ffi::lua_getfield_(l, ffi::LUA_GLOBALSINDEX, name.as_ptr());
            ffi::lua_setfield(l, -2, name.as_ptr());
        }
        set_fn(l, c"next", entry!(next));
        ffi::lua_getfield_(l, -1, c"next".as_ptr());
        ffi::lua_pushcclosure(l, entry!(pairs), 1);
        ffi::lua_setfield(l, -2, c"pairs".as_ptr());
        set_fn(l, c"rawget", entry!(rawget));
        set_fn(l, c"rawset", entry!(rawset));
        set_fn(l, c"getmetatable", entry!(getmetatable));
        set_fn(l, c"setmetatable", entry!(setmetatable));
        set_fn(l, c"pcall", entry!(pcall));
        set_fn(l, c"load", entry!(loading::load));
        set_fn(l, c"loadstring", entry!(loading::loadstring));
        if !for_functions {
            push_error_handler(l);
            ffi::lua_setfield(l, -2, c"__redis__err__handler".as_ptr());
        }
        let shared: *mut Shared = shared(l);
        let json =
            if for_functions { &raw mut (*shared).function_json } else { &raw mut (*shared).eval_json };
        json::push_library(l, json);
        protect(l);
        ffi::lua_setfield(l, -2, c"cjson".as_ptr());
        if api::version_number(version) >= OS_SINCE {
            push_clock(l);
            ffi::lua_setfield(l, -2, c"os".as_ptr());
        }
        api::push_api(l, version, for_functions);
        protect(l);
        ffi::lua_pushvalue(l, -1);
        ffi::lua_setfield(l, -3, c"server".as_ptr());
        ffi::lua_setfield(l, -2, c"redis".as_ptr());
        // Unknown globals are refused by the content's own metatable.
        push_refusing_metatable(l);
        ffi::lua_pushvalue(l, -1);
        ffi::lua_setmetatable(l, -3);
        ffi::lua_pushvalue(l, -2); // content, meta, content
        protect(l); // content, meta, front
        ffi::lua_pushvalue(l, -2);
        protect(l); // content, meta, front, shown
        show_metatable(l); // content, meta, front
        ffi::lua_remove(l, -2); // content, front
        ffi::lua_pushvalue(l, -1);
        ffi::lua_setfield(l, -3, c"_G".as_ptr());
    }
}

/// Since when scripts have `os`: 7.4.0.
const OS_SINCE: u32 = 0x07_04_00;

/// Pushes `os` as scripts see it: Lua's own `clock` (the CPU time of the process) alone.
unsafe fn push_clock(l: State) {
    unsafe {
        open(l, ffi::luaopen_os, c"os");
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_getfield_(l, -2, c"clock".as_ptr());
        ffi::lua_setfield(l, -2, c"clock".as_ptr());
        ffi::lua_remove(l, -2);
        protect(l);
    }
}

unsafe fn push_refusing_metatable(l: State) {
    unsafe {
        ffi::lua_createtable(l, 0, 1);
        set_fn(l, c"__index", entry!(refuse_global));
    }
}

/// Pushes the globals of a library while it is loaded, content and front: `redis` with what
/// loading needs, nothing else.
pub(super) unsafe fn push_library_globals(l: State, version: &str) {
    unsafe {
        ffi::lua_createtable(l, 0, 2);
        api::push_load_api(l, version);
        push_refusing_metatable(l);
        ffi::lua_setmetatable(l, -2);
        protect(l);
        ffi::lua_pushvalue(l, -1);
        ffi::lua_setfield(l, -3, c"server".as_ptr());
        ffi::lua_setfield(l, -2, c"redis".as_ptr());
        push_refusing_metatable(l);
        ffi::lua_setmetatable(l, -2);
        ffi::lua_pushvalue(l, -1);
        protect(l);
    }
}

/// The library is loaded: its functions see the globals of all functions from now on.
pub(super) unsafe fn finish_library_globals(l: State, content: c_int, functions_content: c_int) {
    unsafe {
        for name in [c"redis", c"server"] {
            ffi::lua_pushnil(l);
            ffi::lua_setfield(l, content, name.as_ptr());
        }
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_pushvalue(l, functions_content);
        ffi::lua_setfield(l, -2, c"__index".as_ptr());
        ffi::lua_setmetatable(l, content);
    }
}
