//! `string.find`, `match`, `gmatch` and `gsub` over our own matcher, and `string.rep`: Lua's results and
//! words, but each can be stopped, and none overflows a stack. Not here: how patterns match (`matcher`).
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::lua::{Answer, Raise, State, bad_arg, bytes, check_bytes, entry, fail_with, ffi, set_fn};
use super::matcher::Matcher;
use super::out::Out;
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;

/// Puts the functions into the table `string` on top.
pub(super) unsafe fn install(l: State) {
    unsafe {
        set_fn(l, c"find", entry!(find));
        set_fn(l, c"match", entry!(match_));
        set_fn(l, c"gmatch", entry!(gmatch));
        set_fn(l, c"gfind", entry!(gmatch));
        set_fn(l, c"gsub", entry!(gsub));
        set_fn(l, c"rep", entry!(rep));
    }
}

/// Whether the pattern is plain text: none of the bytes that mean something, before its first zero byte.
fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().take_while(|&&b| b != 0).any(|b| b"^$*+?.([%-".contains(b))
}

/// Whether matching is bound to the beginning, and where the pattern goes on.
fn anchor(pattern: &[u8]) -> (bool, usize) {
    let anchored = pattern.first() == Some(&b'^');
    (anchored, usize::from(anchored))
}

unsafe fn find(l: State) -> Answer {
    unsafe { search(l, true) }
}

unsafe fn match_(l: State) -> Answer {
    unsafe { search(l, false) }
}

unsafe fn search(l: State, find: bool) -> Answer {
    unsafe {
        let text = check_bytes(l, 1);
        let pattern = check_bytes(l, 2);
        let mut init = ffi::luaL_optinteger(l, 3, 1) as i64;
        let len = text.len() as i64;
        if init < 0 {
            init = init.saturating_add(len + 1);
        }
        let init = (init - 1).clamp(0, len) as usize;
        if find && (ffi::lua_toboolean(l, 4) != 0 || is_plain(pattern)) {
            if let Some(at) = memchr::memmem::find(&text[init..], pattern) {
                ffi::lua_pushnumber(l, (init + at + 1) as f64);
                ffi::lua_pushnumber(l, (init + at + pattern.len()) as f64);
                return Ok(2);
            }
        } else {
            let (anchored, from) = anchor(pattern);
            let mut matcher = Matcher::new(l, text, pattern);
            for start in init..=text.len() {
                if let Some(end) = matcher.at(start, from)? {
                    if !find {
                        return matcher.push_captures(Some((start, end)));
                    }
                    ffi::lua_pushnumber(l, (start + 1) as f64);
                    ffi::lua_pushnumber(l, end as f64);
                    return Ok(matcher.push_captures(None)? + 2);
                }
                if anchored {
                    break;
                }
            }
        }
        ffi::lua_pushnil(l);
    }
    Ok(1)
}

unsafe fn gmatch(l: State) -> Answer {
    unsafe {
        check_bytes(l, 1);
        check_bytes(l, 2);
        ffi::lua_settop(l, 2);
        ffi::lua_pushnumber(l, 0.0);
        ffi::lua_pushcclosure(l, entry!(gmatch_next), 3);
    }
    Ok(1)
}

/// The iterator: its upvalues are the text, the pattern and where to go on.
unsafe fn gmatch_next(l: State) -> Answer {
    unsafe {
        let text = bytes(l, ffi::lua_upvalueindex(1)).unwrap_or_default();
        let pattern = bytes(l, ffi::lua_upvalueindex(2)).unwrap_or_default();
        let begin = ffi::lua_tonumber(l, ffi::lua_upvalueindex(3)) as usize;
        let mut matcher = Matcher::new(l, text, pattern);
        for start in begin..=text.len() {
            if let Some(end) = matcher.at(start, 0)? {
                let next = if end == start { end + 1 } else { end };
                ffi::lua_pushnumber(l, next as f64);
                ffi::lua_replace(l, ffi::lua_upvalueindex(3));
                return matcher.push_captures(Some((start, end)));
            }
        }
    }
    Ok(0)
}

/// Lua's own string buffer: what it holds is Lua's, so a call back into the script may raise over it.
struct Buffer(MaybeUninit<ffi::luaL_Buffer>);

impl Buffer {
    unsafe fn add(&mut self, text: &[u8]) {
        if !text.is_empty() {
            unsafe { ffi::luaL_addlstring(self.0.as_mut_ptr(), text.as_ptr().cast(), text.len()) }
        }
    }

    /// Adds the value on top, which is popped.
    unsafe fn add_value(&mut self) {
        unsafe { ffi::luaL_addvalue(self.0.as_mut_ptr()) }
    }
}

unsafe fn gsub(l: State) -> Answer {
    unsafe {
        let text = check_bytes(l, 1);
        let pattern = check_bytes(l, 2);
        let kind = ffi::lua_type(l, 3);
        let most = ffi::luaL_optinteger(l, 4, (text.len() + 1) as ffi::lua_Integer) as c_int;
        if !matches!(kind, ffi::LUA_TNUMBER | ffi::LUA_TSTRING | ffi::LUA_TFUNCTION | ffi::LUA_TTABLE) {
            return bad_arg(l, 3, c"string/function/table expected");
        }
        let (anchored, from) = anchor(pattern);
        let mut matcher = Matcher::new(l, text, pattern);
        let mut buffer = Buffer(MaybeUninit::uninit());
        ffi::luaL_buffinit(l, buffer.0.as_mut_ptr());
        let (mut at, mut kept, mut n): (usize, usize, c_int) = (0, 0, 0);
        while n < most {
            let end = matcher.at(at, from)?;
            if let Some(end) = end {
                n += 1;
                buffer.add(&text[kept..at]);
                replace(l, &matcher, &mut buffer, kind, (at, end))?;
                kept = end;
            }
            match end {
                Some(end) if end > at => at = end,
                _ if at < text.len() => at += 1,
                _ => break,
            }
            if anchored {
                break;
            }
        }
        buffer.add(&text[kept..]);
        ffi::luaL_pushresult(buffer.0.as_mut_ptr());
        ffi::lua_pushnumber(l, f64::from(n));
    }
    Ok(2)
}

/// Adds what argument 3 (of type `kind`) makes of the match.
unsafe fn replace(
    l: State,
    matcher: &Matcher<'_>,
    buffer: &mut Buffer,
    kind: c_int,
    (start, end): (usize, usize),
) -> Result<(), Raise> {
    unsafe {
        match kind {
            ffi::LUA_TFUNCTION => {
                ffi::lua_pushvalue(l, 3);
                let n = matcher.push_captures(Some((start, end)))?;
                ffi::lua_call(l, n, 1);
            }
            ffi::LUA_TTABLE => {
                matcher.push_capture(0, start, end)?;
                ffi::lua_gettable_(l, 3);
            }
            _ => return template(l, matcher, buffer, (start, end)),
        }
        if ffi::lua_toboolean(l, -1) == 0 {
            ffi::lua_settop(l, -2);
            super::lua::push(l, &matcher.text[start..end]);
        } else if ffi::lua_isstring(l, -1) == 0 {
            let kind = CStr::from_ptr(ffi::lua_typename(l, ffi::lua_type(l, -1)));
            let kind = kind.to_str().unwrap_or_default();
            return Err(fail_with(l, format_args!("invalid replacement value (a {kind})")));
        }
        buffer.add_value();
    }
    Ok(())
}

/// Adds the string that argument 3 is, `%0` to `%9` in it replaced.
unsafe fn template(
    l: State,
    matcher: &Matcher<'_>,
    buffer: &mut Buffer,
    (start, end): (usize, usize),
) -> Result<(), Raise> {
    unsafe {
        let mut rest = bytes(l, 3).unwrap_or_default();
        while let Some(at) = memchr::memchr(b'%', rest) {
            buffer.add(&rest[..at]);
            // A `%` at the end stands before the zero byte that C has there.
            let after = rest.get(at + 1).copied().unwrap_or(0);
            match after {
                b'0' => buffer.add(&matcher.text[start..end]),
                b'1'..=b'9' => {
                    matcher.push_capture(usize::from(after - b'1'), start, end)?;
                    buffer.add_value();
                }
                other => buffer.add(&[other]),
            }
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        buffer.add(rest);
    }
    Ok(())
}

unsafe fn rep(l: State) -> Answer {
    unsafe {
        let text = check_bytes(l, 1);
        let n = ffi::luaL_checkinteger(l, 2) as c_int;
        let n = if text.is_empty() { 0 } else { usize::try_from(n).unwrap_or(0) };
        let mut out = Out::new(l);
        out.reserve(text.len().saturating_mul(n))?;
        match text {
            [byte] => out.fill(*byte, n)?,
            _ => {
                for _ in 0..n {
                    out.put(text)?;
                    out.step()?;
                }
            }
        }
        out.push();
    }
    Ok(1)
}

#[cfg(test)]
mod tests {
    use crate::script::tests::Bench;

    #[test]
    fn what_overflows_luas_own_matcher_is_matched() {
        let mut bench = Bench::new();
        for (script, answer) in [
            ("return string.find(string.rep('a', 300000), '^' .. string.rep('a?', 300000) .. '$')", ":1\r\n"),
            ("return #string.match(string.rep('a', 300000), string.rep('(a)', 30) .. '.*')", ":1\r\n"),
            ("return (string.gsub(string.rep('ab', 100000), '(a)(b)', '%2')):sub(1, 3)", "$3\r\nbbb\r\n"),
            (
                "return {string.find(string.rep('a', 100000) .. 'b', string.rep('a', 99999) .. 'b', 1, true)}",
                "*2\r\n:2\r\n:100001\r\n",
            ),
            ("return #string.rep('', 2^31 - 1)", ":0\r\n"),
        ] {
            assert_eq!(bench.eval(script), answer, "{script}");
        }
    }

    #[test]
    fn a_pattern_without_end_can_be_stopped() {
        let mut bench = Bench::new();
        for script in [
            "return string.find(string.rep('a', 60), string.rep('a?', 60) .. string.rep('a', 60) .. 'b')",
            "return string.find(string.rep('a', 100), string.rep('a*', 30) .. 'b')",
            "return string.match(string.rep('a', 300000), '.-.-.-b')",
            "return string.gsub(string.rep('(', 300000), '%b()', '')",
            "for x in string.gmatch(string.rep('a', 300000), '(.-).-.-b') do end",
            "pcall(string.match, string.rep('a', 300000), '.-.-.-b') while true do end",
        ] {
            bench.core.kill_after = Some(bench.core.breaths + 50);
            let killed = "-ERR Script killed by user with SCRIPT KILL...";
            assert_eq!(bench.error(script), killed, "{script}");
            bench.core.kill_after = None;
            assert_eq!(bench.eval("return 1"), ":1\r\n");
        }
    }
}
