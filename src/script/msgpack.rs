//! The library `cmsgpack`: MessagePack, without its newer types (binary, extensions, timestamps), as in
//! Redis. Not here: `struct` (`packing`).
//!
//! Writing nests 16 deep at most. Reading nests as deep as Lua's stack allows, by a stack of frames:
//! each table takes the slots there that it takes in Redis, so that the last depth is the same.
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::lua::{
    Answer, Raise, Shared, State, check_bytes, entry, fail, fail_with, ffi, push, set_fn, set_str, shared,
};
use super::out::Out;
use super::sandbox;
use std::ffi::{CStr, c_int};

/// Tables within tables; what is deeper is written as nil.
const NESTING_MAX: usize = 16;

/// Pushes the library's table.
pub(super) unsafe fn push_library(l: State) {
    unsafe {
        ffi::lua_createtable(l, 0, 8);
        set_fn(l, c"pack", entry!(pack));
        set_fn(l, c"unpack", entry!(unpack));
        set_fn(l, c"unpack_one", entry!(unpack_one));
        set_fn(l, c"unpack_limit", entry!(unpack_limit));
        set_str(l, c"_NAME", "cmsgpack");
        set_str(l, c"_VERSION", "lua-cmsgpack 0.4.0");
        set_str(l, c"_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo");
        set_str(l, c"_DESCRIPTION", "MessagePack C implementation for Lua");
    }
}

unsafe fn bad_call(l: State, text: &CStr) -> Answer {
    unsafe { super::lua::bad_arg(l, 0, text) }
}

unsafe fn pack(l: State) -> Answer {
    unsafe {
        let argc = ffi::lua_gettop(l);
        if argc == 0 {
            return bad_call(l, c"MessagePack pack needs input.");
        }
        // Room for a result each, and a little for the work.
        if ffi::lua_checkstack(l, argc) == 0 {
            return bad_call(l, c"Too many arguments for MessagePack pack.");
        }
        let mut out = Out::new(l);
        for i in 1..=argc {
            ffi::luaL_checkstack_(l, 4, c"in function mp_check".as_ptr());
            ffi::lua_pushvalue(l, i);
            write(l, &mut out, 0)?;
        }
        out.push();
    }
    Ok(1)
}

/// Writes the value on top and pops it.
unsafe fn write(l: State, out: &mut Out, level: usize) -> Result<(), Raise> {
    out.step()?;
    unsafe {
        match ffi::lua_type(l, -1) {
            ffi::LUA_TSTRING => write_string(out, super::lua::bytes(l, -1).unwrap_or_default())?,
            ffi::LUA_TBOOLEAN => out.byte(if ffi::lua_toboolean(l, -1) != 0 { 0xc3 } else { 0xc2 })?,
            ffi::LUA_TNUMBER => write_number(out, ffi::lua_tonumber(l, -1))?,
            ffi::LUA_TTABLE if level < NESTING_MAX => write_table(l, out, level)?,
            _ => out.byte(0xc0)?,
        }
        ffi::lua_settop(l, -2);
    }
    Ok(())
}

fn write_string(out: &mut Out, text: &[u8]) -> Result<(), Raise> {
    let len = text.len();
    match len {
        0..=31 => out.byte(0xa0 | len as u8)?,
        32..=0xff => out.put(&[0xd9, len as u8])?,
        0x100..=0xffff => {
            out.byte(0xda)?;
            out.put(&(len as u16).to_be_bytes())?;
        }
        _ => {
            out.byte(0xdb)?;
            out.put(&(len as u32).to_be_bytes())?;
        }
    }
    out.put(text)
}

fn write_number(out: &mut Out, x: f64) -> Result<(), Raise> {
    let n = super::lua::to_i64(x);
    if n as f64 == x {
        return write_integer(out, n);
    }
    let single = x as f32;
    if f64::from(single) == x {
        out.byte(0xca)?;
        out.put(&single.to_bits().to_be_bytes())
    } else {
        out.byte(0xcb)?;
        out.put(&x.to_bits().to_be_bytes())
    }
}

/// The shortest form that holds `n`; what is not negative is written unsigned.
fn write_integer(out: &mut Out, n: i64) -> Result<(), Raise> {
    let all = n.to_be_bytes();
    let (kind, bytes) = match n {
        -32..=0x7f => return out.byte(n as u8),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-33 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.byte(kind)?;
    out.put(&all[8 - bytes..])
}

/// The head of an array or map of `len`: `short` with the length in it, or `long` before two bytes, and
/// the one after `long` before four.
fn write_head(out: &mut Out, len: usize, short: u8, long: u8) -> Result<(), Raise> {
    match len {
        0..=15 => out.byte(short | len as u8),
        16..=0xffff => {
            out.byte(long)?;
            out.put(&(len as u16).to_be_bytes())
        }
        _ => {
            out.byte(long + 1)?;
            out.put(&(len as u32).to_be_bytes())
        }
    }
}

/// Writes the table on top, which stays.
unsafe fn write_table(l: State, out: &mut Out, level: usize) -> Result<(), Raise> {
    unsafe {
        ffi::luaL_checkstack_(l, 6, c"in function mp_encode_lua_table".as_ptr());
        if sandbox::front_field(l, -1, sandbox::CONTENT) {
            ffi::lua_replace(l, -2);
        }
        let (len, is_array) = measure(l, out)?;
        if is_array {
            write_head(out, len, 0x90, 0xdc)?;
            for i in 1..=len {
                ffi::lua_rawgeti_(l, -1, i as c_int);
                write(l, out, level + 1)?;
            }
            return Ok(());
        }
        write_head(out, len, 0x80, 0xde)?;
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, -2) != 0 {
            ffi::lua_pushvalue(l, -2);
            write(l, out, level + 1)?;
            write(l, out, level + 1)?;
        }
    }
    Ok(())
}

/// How many pairs the table on top has, and whether their keys are 1 to that many.
unsafe fn measure(l: State, out: &mut Out) -> Result<(usize, bool), Raise> {
    let (mut len, mut max, mut whole) = (0, 0.0, true);
    unsafe {
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, -2) != 0 {
            ffi::lua_settop(l, -2);
            let key = if ffi::lua_type(l, -1) == ffi::LUA_TNUMBER { ffi::lua_tonumber(l, -1) } else { 0.0 };
            whole &= key > 0.0 && key.fract() == 0.0 && key <= f64::from(c_int::MAX);
            max = f64::max(max, key);
            len += 1;
            out.step()?;
        }
    }
    Ok((len, whole && max == len as f64))
}

/// An array or map that is being read; its table is on the Lua stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frame {
    /// Items done (the number of the next one lies over the table), and items to come.
    Array { at: u32, left: u32 },
    /// Pairs to come; whether the next value is a key.
    Map { left: u32, key: bool },
}

unsafe fn unpack(l: State) -> Answer {
    unsafe { read_several(l, 0, 0) }
}

unsafe fn unpack_one(l: State) -> Answer {
    unsafe {
        let offset = ffi::luaL_optinteger(l, 2, 0);
        if ffi::lua_gettop(l) > 1 {
            ffi::lua_settop(l, 1);
        }
        read_several(l, 1, offset as i64)
    }
}

unsafe fn unpack_limit(l: State) -> Answer {
    unsafe {
        let limit = ffi::luaL_checkinteger(l, 2);
        let offset = ffi::luaL_optinteger(l, 3, 0);
        ffi::lua_settop(l, 1);
        read_several(l, limit as i64, offset as i64)
    }
}

/// Reads up to `limit` values from `offset` on; all, if both are zero. Unless it reads all, where it
/// ended comes first: -1 for the end.
unsafe fn read_several(l: State, limit: i64, offset: i64) -> Answer {
    unsafe {
        let text = check_bytes(l, 1);
        let len = text.len();
        // Numbers as C prints them by `%d`: the low 32 bits.
        if limit < 0 || offset < 0 {
            let (offset, len) = (offset as i32, len as i32);
            let text = format_args!("Invalid request to unpack with offset of {offset} and limit of {len}.");
            return Err(fail_with(l, text));
        }
        if offset as u64 > len as u64 {
            let (offset, len) = (offset as i32, len as i32);
            return Err(fail_with(l, format_args!("Start offset {offset} greater than input length {len}.")));
        }
        let all = limit == 0 && offset == 0;
        let limit = if all { i64::from(i32::MAX) } else { limit };
        let shared: *mut Shared = shared(l);
        let mut reader = Reader { l, shared, steps: Out::new(l), rest: &text[offset as usize..] };
        let mut results: c_int = 0;
        while !reader.rest.is_empty() && i64::from(results) < limit {
            reader.value()?;
            results += 1;
        }
        if all {
            return Ok(results);
        }
        let end = if reader.rest.is_empty() { -1.0 } else { (len - reader.rest.len()) as f64 };
        ffi::luaL_checkstack_(l, 1, c"in function mp_unpack_full".as_ptr());
        ffi::lua_pushnumber(l, end);
        ffi::lua_insert(l, 2);
        Ok(results + 1)
    }
}

struct Reader<'a> {
    l: State,
    shared: *mut Shared,
    steps: Out,
    rest: &'a [u8],
}

/// Why nothing can be read.
enum Fault {
    Missing,
    Format,
}

/// What one head says.
enum Item<'a> {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(&'a [u8]),
    Array(u32),
    Map(u32),
}

impl<'a> Reader<'a> {
    fn frames(&mut self) -> &mut Vec<Frame> {
        // SAFETY: the VM's `Shared`; nothing else uses the frames while this function runs.
        unsafe { &mut (*self.shared).msgpack }
    }

    /// Takes `n` bytes behind a head of one byte.
    fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        let taken = self.rest.get(1..=n).ok_or(Fault::Missing)?;
        self.rest = &self.rest[n + 1..];
        Ok(taken)
    }

    /// As `take`, for an unsigned number.
    fn number(&mut self, n: usize) -> Result<u64, Fault> {
        Ok(self.take(n)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// A string whose length stands in `n` bytes behind the head.
    fn text(&mut self, n: usize) -> Result<Item<'a>, Fault> {
        let len = self.number(n)? as usize;
        let text = self.rest.get(..len).ok_or(Fault::Missing)?;
        self.rest = &self.rest[len..];
        Ok(Item::Text(text))
    }

    fn item(&mut self) -> Result<Item<'a>, Fault> {
        let head = *self.rest.first().ok_or(Fault::Missing)?;
        Ok(match head {
            0x00..=0x7f => {
                self.take(0)?;
                Item::Number(f64::from(head))
            }
            0x80..=0x8f => {
                self.take(0)?;
                Item::Map(u32::from(head & 0x0f))
            }
            0x90..=0x9f => {
                self.take(0)?;
                Item::Array(u32::from(head & 0x0f))
            }
            0xa0..=0xbf => Item::Text(self.take(usize::from(head & 0x1f))?),
            0xc0 => {
                self.take(0)?;
                Item::Nil
            }
            0xc2 | 0xc3 => {
                self.take(0)?;
                Item::Boolean(head == 0xc3)
            }
            0xca => Item::Number(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => Item::Number(f64::from_bits(self.number(8)?)),
            0xcc => Item::Number(self.number(1)? as f64),
            0xcd => Item::Number(self.number(2)? as f64),
            0xce => Item::Number(self.number(4)? as f64),
            // Through Lua 5.1's signed integer, so the largest ones are negative.
            0xcf | 0xd3 => Item::Number(self.number(8)? as i64 as f64),
            0xd0 => Item::Number(f64::from(self.number(1)? as i8)),
            0xd1 => Item::Number(f64::from(self.number(2)? as i16)),
            0xd2 => Item::Number(f64::from(self.number(4)? as i32)),
            0xd9 => self.text(1)?,
            0xda => self.text(2)?,
            0xdb => self.text(4)?,
            0xdc => Item::Array(self.number(2)? as u32),
            0xdd => Item::Array(self.number(4)? as u32),
            0xde => Item::Map(self.number(2)? as u32),
            0xdf => Item::Map(self.number(4)? as u32),
            0xe0..=0xff => {
                self.take(0)?;
                Item::Number(f64::from(head as i8))
            }
            _ => return Err(Fault::Format),
        })
    }

    /// Reads one value and pushes it.
    unsafe fn value(&mut self) -> Result<(), Raise> {
        let l = self.l;
        self.frames().clear();
        unsafe {
            loop {
                self.steps.step()?;
                let room = c"too many return values at once; use unpack_one or unpack_limit instead.";
                ffi::luaL_checkstack_(l, 1, room.as_ptr());
                let item = self.item();
                match item {
                    Ok(Item::Nil) => ffi::lua_pushnil(l),
                    Ok(Item::Boolean(yes)) => ffi::lua_pushboolean(l, c_int::from(yes)),
                    Ok(Item::Number(x)) => ffi::lua_pushnumber(l, x),
                    Ok(Item::Text(text)) => push(l, text),
                    Ok(Item::Array(left)) => {
                        ffi::lua_createtable(l, 0, 0);
                        ffi::luaL_checkstack_(l, 1, c"in function mp_decode_to_lua_array".as_ptr());
                        if left > 0 {
                            self.frames().push(Frame::Array { at: 0, left });
                            ffi::lua_pushnumber(l, 1.0);
                            continue;
                        }
                    }
                    Ok(Item::Map(left)) => {
                        ffi::lua_createtable(l, 0, 0);
                        if left > 0 {
                            self.frames().push(Frame::Map { left, key: true });
                            continue;
                        }
                    }
                    Err(fault) => {
                        ffi::lua_settop(l, 1); // room for the text
                        let text = match fault {
                            Fault::Missing => "Missing bytes in input.",
                            Fault::Format => "Bad data format in input.",
                        };
                        return fail(l, text).map(|_| ());
                    }
                }
                if !self.placed() {
                    return Ok(());
                }
            }
        }
    }

    /// A value is on top: puts it where it belongs, and closes what is full. False: it is the whole.
    unsafe fn placed(&mut self) -> bool {
        let l = self.l;
        loop {
            unsafe {
                match self.frames().last_mut() {
                    None => return false,
                    Some(Frame::Map { key: key @ true, .. }) => {
                        *key = false;
                        return true;
                    }
                    Some(Frame::Map { left, key }) => {
                        *left -= 1;
                        *key = true;
                        let left = *left;
                        ffi::lua_settable(l, -3); // raises for nil and NaN as keys
                        if left > 0 {
                            return true;
                        }
                    }
                    Some(Frame::Array { at, left }) => {
                        *left -= 1;
                        *at += 1;
                        let (at, left) = (*at, *left);
                        ffi::lua_settable(l, -3);
                        if left > 0 {
                            ffi::lua_pushnumber(l, f64::from(at) + 1.0);
                            return true;
                        }
                    }
                }
            }
            self.frames().pop();
        }
    }
}
