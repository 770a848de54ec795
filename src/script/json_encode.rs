//! `cjson.encode`. A table is walked with a stack of frames, not by recursion: how deep it may be is
//! the script's to say (`encode_max_depth`), up to what Lua's own stack takes. Each table holds the
//! slots there that it holds in cjson, so that the last depth is the same.
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::json::{Config, Frame, INVALID_REFUSE, INVALID_WRITE, config};
use super::lua::{Answer, Raise, Shared, State, bad_arg, bytes, fail_with, ffi, general, shared};
use super::out::Out;
use super::sandbox;
use std::ffi::{CStr, c_int};

pub(super) unsafe fn encode(l: State) -> Answer {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            return bad_arg(l, 1, c"expected 1 argument");
        }
        let shared: *mut Shared = shared(l);
        (*shared).json.clear();
        let config = config(l);
        let whole_below = 10f64.powi(config.precision);
        let mut encoder = Encoder { l, config, shared, out: Out::new(l), whole_below };
        encoder.run()?;
        encoder.out.push();
    }
    Ok(1)
}

struct Encoder {
    l: State,
    config: Config,
    shared: *mut Shared,
    out: Out,
    /// Below it a whole number is written by its digits alone: ten to the power of the precision.
    whole_below: f64,
}

impl Encoder {
    fn frames(&mut self) -> &mut Vec<Frame> {
        // SAFETY: the VM's `Shared`; nothing else uses the frames while this function runs.
        unsafe { &mut (*self.shared).json }
    }

    /// Writes the value on top of the stack and pops it.
    unsafe fn run(&mut self) -> Result<(), Raise> {
        loop {
            // SAFETY: a value is on top, over the tables (and keys) of the open frames.
            unsafe {
                if ffi::lua_type(self.l, -1) == ffi::LUA_TTABLE {
                    self.open()?;
                } else {
                    self.scalar()?;
                    ffi::lua_settop(self.l, -2);
                }
                if !self.next()? {
                    return Ok(());
                }
                self.out.step()?;
            }
        }
    }

    /// Pushes the next value that is to be written; false when there is none.
    unsafe fn next(&mut self) -> Result<bool, Raise> {
        let l = self.l;
        unsafe {
            loop {
                match self.frames().last_mut() {
                    None => return Ok(false),
                    Some(Frame::Array { at, len }) if *at < *len => {
                        *at += 1;
                        let at = *at;
                        if at > 1 {
                            self.out.byte(b',')?;
                        }
                        ffi::lua_rawgeti_(l, -1, at);
                        return Ok(true);
                    }
                    Some(Frame::Array { .. }) => self.out.byte(b']')?,
                    Some(Frame::Object { comma }) => {
                        let comma = std::mem::replace(comma, true);
                        if ffi::lua_next(l, -2) != 0 {
                            if comma {
                                self.out.byte(b',')?;
                            }
                            self.key()?;
                            return Ok(true);
                        }
                        self.out.byte(b'}')?;
                    }
                }
                self.frames().pop();
                ffi::lua_settop(l, -2); // the table
            }
        }
    }

    /// Begins the table on top.
    unsafe fn open(&mut self) -> Result<(), Raise> {
        let l = self.l;
        let depth = self.frames().len() + 1;
        let deepest = usize::try_from(self.config.encode_max_depth).unwrap_or(0);
        unsafe {
            if depth > deepest || ffi::lua_checkstack(l, 3) == 0 {
                ffi::lua_settop(l, 1); // room for the text
                return Err(fail_with(l, format_args!("Cannot serialise, excessive nesting ({depth})")));
            }
            if sandbox::front_field(l, -1, sandbox::CONTENT) {
                ffi::lua_replace(l, -2);
            }
            let len = self.array_length()?;
            if len > 0 {
                self.frames().push(Frame::Array { at: 0, len });
                self.out.byte(b'[')
            } else {
                self.frames().push(Frame::Object { comma: false });
                ffi::lua_pushnil(l);
                self.out.byte(b'{')
            }
        }
    }

    /// How long an array the table on top is; 0 or less: it is none. Counted in C's `int`, like
    /// cjson, whose largest key wraps.
    unsafe fn array_length(&mut self) -> Result<c_int, Raise> {
        let l = self.l;
        let (mut max, mut items): (c_int, c_int) = (0, 0);
        unsafe {
            ffi::lua_pushnil(l);
            while ffi::lua_next(l, -2) != 0 {
                let key =
                    if ffi::lua_type(l, -2) == ffi::LUA_TNUMBER { ffi::lua_tonumber(l, -2) } else { 0.0 };
                if key < 1.0 || key.floor() != key {
                    ffi::lua_settop(l, -3);
                    return Ok(-1);
                }
                if key > f64::from(max) {
                    max = if key <= f64::from(c_int::MAX) { key as c_int } else { c_int::MIN };
                }
                items = items.wrapping_add(1);
                ffi::lua_settop(l, -2);
                self.out.step()?;
            }
        }
        let config = &self.config;
        if config.sparse_ratio > 0
            && max > items.wrapping_mul(config.sparse_ratio)
            && max > config.sparse_safe
        {
            if !config.sparse_convert {
                return unsafe { self.refuse(-1, "excessively sparse array") };
            }
            return Ok(-1);
        }
        Ok(max)
    }

    /// `Cannot serialise TYPE: reason`, for the value at `index`.
    unsafe fn refuse<T>(&mut self, index: c_int, reason: &str) -> Result<T, Raise> {
        let l = self.l;
        unsafe {
            let kind = CStr::from_ptr(ffi::lua_typename(l, ffi::lua_type(l, index)));
            let kind = kind.to_str().unwrap_or_default();
            ffi::lua_settop(l, 1); // room for the text
            Err(fail_with(l, format_args!("Cannot serialise {kind}: {reason}")))
        }
    }

    /// Writes the key at -2 and a colon.
    unsafe fn key(&mut self) -> Result<(), Raise> {
        unsafe {
            match ffi::lua_type(self.l, -2) {
                ffi::LUA_TNUMBER => {
                    self.out.byte(b'"')?;
                    self.number(-2)?;
                    self.out.put(b"\":")
                }
                ffi::LUA_TSTRING => {
                    self.string(bytes(self.l, -2).unwrap_or_default())?;
                    self.out.byte(b':')
                }
                _ => self.refuse(-2, "table key must be a number or string"),
            }
        }
    }

    /// Writes the value on top, which is no table.
    unsafe fn scalar(&mut self) -> Result<(), Raise> {
        let l = self.l;
        unsafe {
            match ffi::lua_type(l, -1) {
                ffi::LUA_TSTRING => self.string(bytes(l, -1).unwrap_or_default()),
                ffi::LUA_TNUMBER => self.number(-1),
                ffi::LUA_TBOOLEAN if ffi::lua_toboolean(l, -1) != 0 => self.out.put(b"true"),
                ffi::LUA_TBOOLEAN => self.out.put(b"false"),
                ffi::LUA_TNIL => self.out.put(b"null"),
                ffi::LUA_TLIGHTUSERDATA if ffi::lua_touserdata(l, -1).is_null() => self.out.put(b"null"),
                _ => self.refuse(-1, "type not supported"),
            }
        }
    }

    unsafe fn number(&mut self, index: c_int) -> Result<(), Raise> {
        let x = unsafe { ffi::lua_tonumber(self.l, index) };
        if !x.is_finite() {
            match self.config.encode_invalid {
                INVALID_REFUSE => return unsafe { self.refuse(index, "must not be NaN or Inf") },
                INVALID_WRITE if x.is_nan() => return self.out.put(b"nan"),
                INVALID_WRITE => {}
                _ => return self.out.put(b"null"),
            }
        }
        if x.fract() == 0.0 && x.abs() < self.whole_below && (x != 0.0 || x.is_sign_positive()) {
            let mut digits = itoa::Buffer::new();
            return self.out.put(digits.format(x as i64).as_bytes());
        }
        self.out.put(general(x, self.config.precision).as_bytes())
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Raise> {
        self.out.byte(b'"')?;
        let mut plain = 0;
        for (at, &byte) in text.iter().enumerate() {
            let short = match byte {
                b'"' | b'\\' | b'/' => byte,
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                12 => b'f',
                b'\r' => b'r',
                0..32 | 127 => 0,
                _ => continue,
            };
            self.out.put(&text[plain..at])?;
            plain = at + 1;
            if short != 0 {
                self.out.put(&[b'\\', short])?;
            } else {
                let digit = |n: u8| b"0123456789abcdef"[usize::from(n)];
                self.out.put(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)])?;
            }
        }
        self.out.put(&text[plain..])?;
        self.out.byte(b'"')
    }
}
