//! Values between Lua and Redis: `LuaReply`, a `Reply` straight into Lua values; a script's result
//! into a `Reply`; error tables. Not here: how a reply looks on the wire (`resp::encode`).

use super::lua::{State, bytes, c_text, ffi, push, to_i64};
use crate::base::number;
use crate::resp::Reply;
use std::ffi::{CStr, c_int};

/// An aggregate that is being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Set,
}

/// An open aggregate of a `LuaReply`; its table is on the Lua stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    kind: Kind,
    /// Replies still to come.
    left: usize,
    /// The next position of an array.
    next: c_int,
}

/// Turns one reply into one Lua value, on top of the stack. Allocation must not fail meanwhile
/// (`Memory::limit`), so nothing raises through the command that speaks.
pub(super) struct LuaReply<'a> {
    l: State,
    frames: &'a mut Vec<Frame>,
    resp3: bool,
    /// The reply as a whole is an error.
    pub is_error: bool,
    pub said: bool,
}

impl<'a> LuaReply<'a> {
    pub fn new(l: State, frames: &'a mut Vec<Frame>, resp3: bool) -> Self {
        frames.clear();
        LuaReply { l, frames, resp3, is_error: false, said: false }
    }

    /// A value was pushed: puts it where it belongs, and closes what is full.
    fn place(&mut self) {
        self.said = true;
        let l = self.l;
        while let Some(frame) = self.frames.last_mut() {
            // SAFETY: the frame's table is below the value (and, for a map, below the key).
            unsafe {
                match frame.kind {
                    Kind::Array => {
                        ffi::lua_rawseti_(l, -2, frame.next);
                        frame.next += 1;
                    }
                    Kind::Map if frame.left.is_multiple_of(2) => {
                        if ffi::lua_type(l, -1) == ffi::LUA_TNIL {
                            ffi::lua_settop(l, -2);
                            ffi::lua_pushboolean(l, 0);
                        }
                    }
                    Kind::Map => ffi::lua_rawset(l, -3),
                    Kind::Set => {
                        ffi::lua_pushboolean(l, 1);
                        ffi::lua_rawset(l, -3);
                    }
                }
            }
            frame.left -= 1;
            if frame.left > 0 {
                return;
            }
            self.close();
        }
    }

    /// The innermost aggregate is full: its table becomes a value.
    fn close(&mut self) {
        let kind = self.frames.pop().map(|frame| frame.kind);
        // SAFETY: a map's or set's wrapper lies below its table.
        unsafe {
            match kind {
                Some(Kind::Map) => ffi::lua_setfield(self.l, -2, c"map".as_ptr()),
                Some(Kind::Set) => ffi::lua_setfield(self.l, -2, c"set".as_ptr()),
                _ => {}
            }
        }
    }

    fn open(&mut self, kind: Kind, n: usize, left: usize) {
        let hint = c_int::try_from(n).unwrap_or(c_int::MAX);
        // SAFETY: three slots are made sure of.
        unsafe {
            ffi::lua_checkstack(self.l, 4);
            match kind {
                Kind::Array => ffi::lua_createtable(self.l, hint, 0),
                Kind::Map | Kind::Set => {
                    ffi::lua_createtable(self.l, 0, 1);
                    ffi::lua_createtable(self.l, 0, hint);
                }
            }
        }
        self.frames.push(Frame { kind, left, next: 1 });
        if left == 0 {
            self.close();
            self.place();
        }
    }

    /// `{name = text}`.
    fn field(&mut self, name: &CStr, text: &[u8]) {
        // SAFETY: plain pushes.
        unsafe {
            ffi::lua_createtable(self.l, 0, 1);
            push(self.l, text);
            ffi::lua_setfield(self.l, -2, name.as_ptr());
        }
        self.place();
    }
}

// SAFETY of the pushes below: each handler has LUA_MINSTACK slots, `open` makes more.
impl Reply for LuaReply<'_> {
    fn simple(&mut self, text: &[u8]) {
        self.field(c"ok", text);
    }
    fn error_line(&mut self, line: &[u8]) {
        if self.frames.is_empty() {
            self.is_error = true;
        }
        unsafe { push_error(self.l, line, true) };
        self.place();
    }
    fn integer(&mut self, n: i64) {
        unsafe { ffi::lua_pushnumber(self.l, n as f64) };
        self.place();
    }
    fn bulk(&mut self, bytes: &[u8]) {
        unsafe { push(self.l, bytes) };
        self.place();
    }
    fn null(&mut self) {
        unsafe { if self.resp3 { ffi::lua_pushnil(self.l) } else { ffi::lua_pushboolean(self.l, 0) } }
        self.place();
    }
    fn null_array(&mut self) {
        self.null();
    }
    fn array(&mut self, n: usize) {
        self.open(Kind::Array, n, n);
    }
    fn map(&mut self, n: usize) {
        if self.resp3 { self.open(Kind::Map, n, 2 * n) } else { self.array(2 * n) }
    }
    fn set(&mut self, n: usize) {
        if self.resp3 { self.open(Kind::Set, n, n) } else { self.array(n) }
    }
    fn push(&mut self, n: usize) {
        self.array(n);
    }
    fn double(&mut self, x: f64) {
        if !self.resp3 {
            return self.bulk(number::format_double(x).as_bytes());
        }
        unsafe {
            ffi::lua_createtable(self.l, 0, 1);
            ffi::lua_pushnumber(self.l, x);
            ffi::lua_setfield(self.l, -2, c"double".as_ptr());
        }
        self.place();
    }
    fn boolean(&mut self, b: bool) {
        if !self.resp3 {
            return self.integer(i64::from(b));
        }
        unsafe { ffi::lua_pushboolean(self.l, c_int::from(b)) };
        self.place();
    }
    fn big_number(&mut self, digits: &[u8]) {
        if self.resp3 { self.field(c"big_number", digits) } else { self.bulk(digits) }
    }
    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if !self.resp3 {
            return self.bulk(text);
        }
        let l = self.l;
        unsafe {
            ffi::lua_createtable(l, 0, 1);
            ffi::lua_createtable(l, 0, 2);
            push(l, text);
            ffi::lua_setfield(l, -2, c"string".as_ptr());
            push(l, format);
            ffi::lua_setfield(l, -2, c"format".as_ptr());
            ffi::lua_setfield(l, -2, c"verbatim_string".as_ptr());
        }
        self.place();
    }
    fn is_resp3(&self) -> bool {
        self.resp3
    }
}

/// Pushes `{err = line}`; `counted`: the command's failure is in the statistics already.
pub(super) unsafe fn push_error(l: State, line: &[u8], counted: bool) {
    let end = line.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |at| at + 1);
    unsafe {
        ffi::lua_createtable(l, 0, 0);
        push(l, &line[..end]);
        ffi::lua_setfield(l, -2, c"err".as_ptr());
        if counted {
            ffi::lua_pushboolean(l, 1);
            ffi::lua_setfield(l, -2, c"ignore_error_stats_update".as_ptr());
        }
    }
}

/// An error that a script hands back as its result: the line, and whether it is counted already.
pub(super) struct ErrorLine {
    pub line: Vec<u8>,
    pub counted: bool,
}

/// Looks up `name` in the table on top, raw; the value is left on top. Gives its type.
unsafe fn raw_field(l: State, name: &[u8]) -> c_int {
    unsafe {
        push(l, name);
        ffi::lua_rawget_(l, -2);
        ffi::lua_type(l, -1)
    }
}

/// What the error table on top says. It stays.
pub(super) unsafe fn error_line(l: State) -> ErrorLine {
    unsafe {
        raw_field(l, b"err");
        let line = c_text(l, -1).unwrap_or(b"ERR unknown error").to_vec();
        ffi::lua_settop(l, -2);
        raw_field(l, b"ignore_error_stats_update");
        let counted = ffi::lua_toboolean(l, -1) != 0;
        ffi::lua_settop(l, -2);
        ErrorLine { line, counted }
    }
}

pub(super) fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }).collect()
}

/// Where a result is said: the reply, whether the script asked for RESP3 (its booleans are booleans
/// then), and the errors inside of it that are still to be counted.
pub(super) struct Saying<'a> {
    pub reply: &'a mut dyn Reply,
    pub resp3: bool,
    pub errors: Vec<Vec<u8>>,
}

/// Says the value on top of the stack and pops it. An error as the whole result is handed back, not
/// said.
pub(super) unsafe fn say_result(l: State, to: &mut Saying<'_>) -> Result<(), ErrorLine> {
    unsafe {
        if ffi::lua_type(l, -1) == ffi::LUA_TTABLE {
            let is_error = raw_field(l, b"err") == ffi::LUA_TSTRING;
            ffi::lua_settop(l, -2);
            if is_error {
                let error = error_line(l);
                ffi::lua_settop(l, -2);
                return Err(error);
            }
        }
        say(l, to);
    }
    Ok(())
}

/// Says the value on top and pops it. The order in which fields are asked for is Redis's.
unsafe fn say(l: State, to: &mut Saying<'_>) {
    unsafe {
        if ffi::lua_checkstack(l, 4) == 0 {
            to.reply.error_line(b"ERR reached lua stack limit");
            ffi::lua_settop(l, -2);
            return;
        }
        match ffi::lua_type(l, -1) {
            ffi::LUA_TSTRING => to.reply.bulk(bytes(l, -1).unwrap_or_default()),
            ffi::LUA_TBOOLEAN => {
                let yes = ffi::lua_toboolean(l, -1) != 0;
                match (to.resp3, yes) {
                    (true, yes) => to.reply.boolean(yes),
                    (false, true) => to.reply.integer(1),
                    (false, false) => to.reply.null(),
                }
            }
            ffi::LUA_TNUMBER => to.reply.integer(to_i64(ffi::lua_tonumber(l, -1))),
            ffi::LUA_TTABLE => {
                say_table(l, to);
            }
            _ => to.reply.null(),
        }
        ffi::lua_settop(l, -2);
    }
}

unsafe fn say_table(l: State, to: &mut Saying<'_>) {
    unsafe {
        let top = ffi::lua_gettop(l);
        if raw_field(l, b"err") == ffi::LUA_TSTRING {
            ffi::lua_settop(l, top);
            let error = error_line(l);
            to.reply.error_line(&one_line(&error.line));
            if !error.counted {
                to.errors.push(error.line);
            }
        } else if next_field(l, top, b"ok") == ffi::LUA_TSTRING {
            to.reply.simple(&one_line(c_text(l, -1).unwrap_or_default()));
        } else if next_field(l, top, b"double") == ffi::LUA_TNUMBER {
            to.reply.double(ffi::lua_tonumber(l, -1));
        } else if next_field(l, top, b"map") == ffi::LUA_TTABLE {
            to.reply.map(count_pairs(l));
            ffi::lua_pushnil(l);
            while ffi::lua_next(l, -2) != 0 {
                ffi::lua_pushvalue(l, -2);
                say(l, to);
                say(l, to);
            }
        } else if next_field(l, top, b"set") == ffi::LUA_TTABLE {
            to.reply.set(count_pairs(l));
            ffi::lua_pushnil(l);
            while ffi::lua_next(l, -2) != 0 {
                ffi::lua_settop(l, -2);
                ffi::lua_pushvalue(l, -1);
                say(l, to);
            }
        } else if next_field(l, top, b"big_number") == ffi::LUA_TSTRING {
            to.reply.big_number(&one_line(bytes(l, -1).unwrap_or_default()));
        } else if !(next_field(l, top, b"verbatim_string") == ffi::LUA_TTABLE && say_verbatim(l, to.reply)) {
            ffi::lua_settop(l, top);
            let mut n = 0;
            loop {
                ffi::lua_rawgeti_(l, -1, n + 1);
                let is_nil = ffi::lua_type(l, -1) == ffi::LUA_TNIL;
                ffi::lua_settop(l, -2);
                if is_nil {
                    break;
                }
                n += 1;
            }
            to.reply.array(usize::try_from(n).unwrap_or(0));
            for i in 1..=n {
                ffi::lua_rawgeti_(l, -1, i);
                say(l, to);
            }
        }
        ffi::lua_settop(l, top);
    }
}

/// Drops what is above the table at `top` and looks up its next field.
unsafe fn next_field(l: State, top: c_int, name: &[u8]) -> c_int {
    unsafe {
        ffi::lua_settop(l, top);
        raw_field(l, name)
    }
}

unsafe fn count_pairs(l: State) -> usize {
    let mut n = 0;
    unsafe {
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, -2) != 0 {
            ffi::lua_settop(l, -2);
            n += 1;
        }
    }
    n
}

/// `{format = , string = }` on top; false when one of them is no string.
unsafe fn say_verbatim(l: State, reply: &mut dyn Reply) -> bool {
    unsafe {
        if raw_field(l, b"format") != ffi::LUA_TSTRING {
            return false;
        }
        let mut format = *b"txt";
        let given = c_text(l, -1).unwrap_or_default();
        for (to, from) in format.iter_mut().zip(given.iter().chain(std::iter::repeat(&b' '))) {
            *to = *from;
        }
        ffi::lua_settop(l, -2);
        if raw_field(l, b"string") != ffi::LUA_TSTRING {
            return false;
        }
        reply.verbatim(&format, bytes(l, -1).unwrap_or_default());
        true
    }
}
