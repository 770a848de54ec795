//! What scripts call the server by: `redis.*` (and `server`, the same table). Not here: the
//! libraries that have nothing of Redis in them.

use super::LogLevel;
use super::convert::{LuaReply, push_error};
use super::lua::{
    Answer, Mode, Raise, State, argument, bytes, c_text, entry, ffi, push, set_fn, set_num, set_str, shared,
};
use crate::resp::Args;
use sha1::{Digest, Sha1};
use smallvec::SmallVec;

/// Pushes the table `redis` for a server that reports `version`; `for_functions`: as libraries
/// see it.
pub(super) unsafe fn push_api(l: State, version: &str, for_functions: bool) {
    unsafe {
        ffi::lua_createtable(l, 0, 0);
        set_fn(l, c"call", entry!(call));
        set_fn(l, c"pcall", entry!(pcall));
        set_fn(l, c"log", entry!(log));
        set_fn(l, c"setresp", entry!(setresp));
        set_fn(l, c"error_reply", entry!(error_reply));
        set_fn(l, c"status_reply", entry!(status_reply));
        set_fn(l, c"set_repl", entry!(set_repl));
        set_fn(l, c"acl_check_cmd", entry!(acl_check_cmd));
        set_fn(l, c"sha1hex", entry!(sha1hex));
        if !for_functions {
            set_fn(l, c"replicate_commands", entry!(replicate_commands));
            set_fn(l, c"breakpoint", entry!(breakpoint));
            set_fn(l, c"debug", entry!(debug));
        }
        set_num(l, c"REPL_NONE", 0.0);
        set_num(l, c"REPL_AOF", 1.0);
        set_num(l, c"REPL_SLAVE", 2.0);
        set_num(l, c"REPL_REPLICA", 2.0);
        set_num(l, c"REPL_ALL", 3.0);
        set_constants(l, version);
    }
}

/// Pushes the table `redis` as a library sees it while it is loaded.
pub(super) unsafe fn push_load_api(l: State, version: &str) {
    unsafe {
        ffi::lua_createtable(l, 0, 0);
        set_fn(l, c"register_function", entry!(super::functions::register_function));
        set_fn(l, c"log", entry!(log));
        set_constants(l, version);
    }
}

unsafe fn set_constants(l: State, version: &str) {
    unsafe {
        set_num(l, c"LOG_DEBUG", 0.0);
        set_num(l, c"LOG_VERBOSE", 1.0);
        set_num(l, c"LOG_NOTICE", 2.0);
        set_num(l, c"LOG_WARNING", 3.0);
        set_str(l, c"REDIS_VERSION", version);
        set_num(l, c"REDIS_VERSION_NUM", f64::from(version_number(version)));
    }
}

/// `major.minor.patch` as `0x00MMmmpp`.
pub(super) fn version_number(version: &str) -> u32 {
    version.split('.').take(3).fold(0, |n, part| (n << 8) | part.parse::<u32>().unwrap_or(0))
}

/// An API misuse: pushes the error as Redis words it, to be raised.
pub(super) unsafe fn misuse(l: State, text: &str) -> Answer {
    unsafe { refusal(l, text) };
    Err(Raise)
}

unsafe fn refusal(l: State, text: &str) {
    unsafe {
        ffi::lua_createtable(l, 0, 0);
        push(l, b"ERR ");
        push(l, text.as_bytes());
        ffi::lua_concat(l, 2);
        ffi::lua_setfield(l, -2, c"err".as_ptr());
    }
}

/// What `redis.call` says to no argument at all, and to one that is no text.
pub(super) const NO_ARGUMENT: &str = "Please specify at least one argument for this redis lib call";
pub(super) const BAD_ARGUMENT: &str = "Lua redis lib command arguments must be strings or integers";

unsafe fn call(l: State) -> Answer {
    unsafe { if command(l) { Err(Raise) } else { Ok(1) } }
}

unsafe fn pcall(l: State) -> Answer {
    unsafe { command(l) };
    Ok(1)
}

/// Whether all arguments are strings, the numbers made so; else the refusal is on top.
unsafe fn take_arguments(l: State) -> bool {
    unsafe {
        let argc = ffi::lua_gettop(l);
        if argc == 0 {
            refusal(l, NO_ARGUMENT);
            return false;
        }
        for i in 1..=argc {
            match ffi::lua_type(l, i) {
                ffi::LUA_TSTRING => {}
                ffi::LUA_TNUMBER => {
                    push(l, argument(ffi::lua_tonumber(l, i)).as_bytes());
                    ffi::lua_replace(l, i);
                }
                _ => {
                    refusal(l, BAD_ARGUMENT);
                    return false;
                }
            }
        }
        true
    }
}

/// Runs the command that the arguments are. Its reply is on top; true: it is an error.
unsafe fn command(l: State) -> bool {
    unsafe {
        if !matches!(shared(l).mode, Mode::Eval | Mode::Function) {
            refusal(l, "redis.call/pcall can only be called inside a script invocation");
            return true;
        }
        if !take_arguments(l) {
            return true;
        }
        let argc = ffi::lua_gettop(l);
        let shared = shared(l);
        let mut frames = std::mem::take(&mut shared.frames);
        shared.memory.limit = usize::MAX; // nothing below may raise
        let core = shared.core().expect("a core is lent while a script runs");
        let resp3 = core.running().resp3;
        let mut reply = LuaReply::new(l, &mut frames, resp3);
        let parts: SmallVec<[&[u8]; 12]> = (1..=argc).map(|i| bytes(l, i).unwrap_or_default()).collect();
        let failed = match core.call(&Args::new(&parts), &mut reply) {
            Ok(()) => reply.is_error,
            Err(error) => {
                push_error(l, &error.line(), true);
                true
            }
        };
        drop(parts);
        shared.frames = frames;
        shared.memory.limit = shared.script_limit;
        failed
    }
}

unsafe fn acl_check_cmd(l: State) -> Answer {
    unsafe {
        if !take_arguments(l) {
            return Err(Raise);
        }
        let argc = ffi::lua_gettop(l);
        let allowed = {
            let parts: SmallVec<[&[u8]; 12]> = (1..=argc).map(|i| bytes(l, i).unwrap_or_default()).collect();
            match shared(l).core() {
                Some(core) => core.acl_check(&Args::new(&parts)).ok(),
                None => None,
            }
        };
        match allowed {
            Some(yes) => {
                ffi::lua_pushboolean(l, i32::from(yes));
                Ok(1)
            }
            None => misuse(l, "Invalid command passed to redis.acl_check_cmd()"),
        }
    }
}

unsafe fn log(l: State) -> Answer {
    unsafe {
        let argc = ffi::lua_gettop(l);
        if argc < 2 {
            return misuse(l, "redis.log() requires two arguments or more.");
        }
        if ffi::lua_isnumber(l, 1) == 0 {
            return misuse(l, "First argument must be a number (log level).");
        }
        let level = match ffi::lua_tonumber(l, 1) as i32 {
            0 => LogLevel::Debug,
            1 => LogLevel::Verbose,
            2 => LogLevel::Notice,
            3 => LogLevel::Warning,
            _ => return misuse(l, "Invalid debug level."),
        };
        let shared = shared(l);
        shared.scratch.clear();
        for i in 2..=argc {
            if let Some(text) = bytes(l, i) {
                if i > 2 {
                    shared.scratch.push(b' ');
                }
                shared.scratch.extend_from_slice(text);
            }
        }
        let text = std::mem::take(&mut shared.scratch);
        if let Some(core) = shared.core() {
            core.log(level, &text);
        }
        shared.scratch = text;
        Ok(0)
    }
}

unsafe fn setresp(l: State) -> Answer {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            return misuse(l, "redis.setresp() requires one argument.");
        }
        let version = ffi::lua_tonumber(l, 1) as i32;
        if version != 2 && version != 3 {
            return misuse(l, "RESP version must be 2 or 3.");
        }
        if let Some(running) = shared(l).running() {
            running.resp3 = version == 3;
        }
        Ok(0)
    }
}

/// `{err = }` of the one string argument, its code made sure of.
unsafe fn error_reply(l: State) -> Answer {
    unsafe {
        if ffi::lua_gettop(l) != 1 || ffi::lua_type(l, 1) != ffi::LUA_TSTRING {
            refusal(l, "wrong number or type of arguments");
            return Ok(1);
        }
        let given = c_text(l, 1).unwrap_or_default();
        let given = given.strip_prefix(b"-").unwrap_or(given);
        let end = given.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |at| at + 1);
        let text = &given[..end];
        ffi::lua_createtable(l, 0, 0);
        push(l, if given.contains(&b' ') { b"" } else { b"ERR " });
        push(l, text);
        ffi::lua_concat(l, 2);
        ffi::lua_setfield(l, -2, c"err".as_ptr());
        Ok(1)
    }
}

unsafe fn status_reply(l: State) -> Answer {
    unsafe {
        if ffi::lua_gettop(l) != 1 || ffi::lua_type(l, 1) != ffi::LUA_TSTRING {
            refusal(l, "wrong number or type of arguments");
            return Ok(1);
        }
        ffi::lua_createtable(l, 0, 0);
        ffi::lua_pushvalue(l, 1);
        ffi::lua_setfield(l, -2, c"ok".as_ptr());
        Ok(1)
    }
}

unsafe fn set_repl(l: State) -> Answer {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            return misuse(l, "redis.set_repl() requires two arguments.");
        }
        if ffi::lua_tonumber(l, 1) as i32 & !3 != 0 {
            return misuse(
                l,
                "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            );
        }
        Ok(0)
    }
}

unsafe fn sha1hex(l: State) -> Answer {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            return misuse(l, "wrong number of arguments");
        }
        let digest = hex(bytes(l, 1).unwrap_or_default());
        push(l, &digest);
        Ok(1)
    }
}

unsafe fn replicate_commands(l: State) -> Answer {
    unsafe { ffi::lua_pushboolean(l, 1) };
    Ok(1)
}

unsafe fn breakpoint(l: State) -> Answer {
    unsafe { ffi::lua_pushboolean(l, 0) };
    Ok(1)
}

unsafe fn debug(_: State) -> Answer {
    Ok(0)
}

/// The SHA1 of `bytes` in lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> [u8; 40] {
    let digest = Sha1::digest(bytes);
    let mut out = [0; 40];
    for (pair, byte) in out.chunks_exact_mut(2).zip(digest.iter()) {
        pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    out
}
